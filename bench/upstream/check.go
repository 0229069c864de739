package upstream

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"time"

	"github.com/tidwall/gjson"
)

// Call is one request as a check sees it. API names its form: messages, count_tokens, responses, generate, speech,
// labs_speech, transcription, search, fal, replicate, native_music, native_video, native_job, or elevenlabs.
type Call struct {
	API    string
	Vendor string       // of search and transcription: whose form it is
	Model  string       // of generate, whose body has none
	Asked  gjson.Result // the body; of a query, its values
	Fields []Field      // of a form, in its order
	Betas  string       // anthropic-beta
	Cloud  bool         // a cloud was asked, not Anthropic
	Header func(name string) []byte
}

// Field is one part of a form; Name of a file's part and the name of that file differ.
type Field struct{ Name, File, Value string }

// Flaw is why a vendor refuses a request; without a text, it does not.
type Flaw struct {
	Text, Code, Param string
	Status            int // 0: the usual one
}

// check asks the server's Check, which package strict has.
func (c *conn) check(call Call) Flaw {
	if c.srv.options.Check == nil {
		return Flaw{}
	}
	call.Betas, call.Cloud, call.Header = string(c.req.betas), c.req.cloud, c.header
	return c.srv.options.Check(&call)
}

// failure is the flaw in the words of an error answer.
func (f Flaw) failure() failure {
	return failure{kind: "invalid_request_error", text: f.Text, code: f.Code, param: f.Param}
}

// Clouds checks the credentials of callers of the simulated clouds.
type Clouds interface {
	// Now is the clock of the clouds.
	Now() time.Time
	// ServiceAccount is the key file of a service account that asks for its tokens at tokenURL.
	ServiceAccount(tokenURL string) []byte
	// Token answers the token endpoint at an address.
	Token(form, at string) (status int, body string)
	// Enter refuses a request to azure, bedrock or vertex; nil lets it pass.
	Enter(cloud string, r *CloudRequest) *Refusal
}

// CloudRequest is a request at the door of a cloud.
type CloudRequest struct {
	Method, Path, Query string
	Body                []byte
	Header              func(name string) []byte
	Bearer              string
	KnowsKey            func(key string) bool // the key is the server's
}

// Refusal is an error in the form of one cloud.
type Refusal struct {
	Status int
	Body   string
	Header [][2]string
}

// open are clouds that accept all callers.
type open struct{}

// Now is the time of this machine.
func (open) Now() time.Time { return time.Now() }

// ServiceAccount has a key that nothing is checked with.
func (open) ServiceAccount(tokenURL string) []byte {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil
	}
	return AccountFile(key, tokenURL)
}

// Token hands out the same token to all callers.
func (open) Token(string, string) (int, string) {
	return 200, `{"access_token":"ya29.simulated","expires_in":3600,"token_type":"Bearer"}`
}

// Enter accepts all callers.
func (open) Enter(string, *CloudRequest) *Refusal { return nil }

// Names of the simulated service account.
const (
	AccountEmail = "simulated@simulated-project.iam.gserviceaccount.com"
	AccountKeyID = "simulated-key"
)

// AccountFile is the key file of the service account with a key.
func AccountFile(key *rsa.PrivateKey, tokenURL string) []byte {
	der, _ := x509.MarshalPKCS8PrivateKey(key)
	file, _ := json.Marshal(map[string]string{
		"type": "service_account", "project_id": "simulated-project", "private_key_id": AccountKeyID,
		"private_key":  string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})),
		"client_email": AccountEmail, "token_uri": tokenURL,
	})
	return file
}
