package strict

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"farebox/bench/upstream"
)

// The names that simulated clouds know. Their signatures and tokens are of no use anywhere
// else.
const (
	AWSAccessKey = "AKIDSIMULATED"
	AWSSecretKey = "simulated/secret+key"

	entraAudience = "https://cognitiveservices.azure.com"
	googleScope   = "https://www.googleapis.com/auth/cloud-platform"
	jwtGrant      = "urn:ietf:params:oauth:grant-type:jwt-bearer"
	maxAssertion  = time.Hour + time.Minute
)

// Identity authenticates callers of the simulated clouds: it hands out keys
// and tokens, and takes them back.
type Identity struct {
	once sync.Once
	key  *rsa.PrivateKey

	mu     sync.Mutex
	tokens map[string]time.Time // access tokens of Google, with their ends
	entra  map[string]bool      // Entra tokens that were revoked, by their jti
	life   time.Duration
	status int // of the token endpoint, 0: it works
	lie    string
	asked  int
	skew   time.Duration     // of the simulated clouds' clock
	secret map[string]string // further AWS keys
	banned map[string]bool   // AWS keys that hold no more
	bound  map[string]string // session tokens that AWS keys go with
}

func (i *Identity) private() *rsa.PrivateKey {
	i.once.Do(func() { i.key, _ = rsa.GenerateKey(rand.Reader, 2048) })
	return i.key
}

// ServiceAccount is the key file of a service account that asks for its tokens
// at tokenURL.
func (i *Identity) ServiceAccount(tokenURL string) []byte {
	return upstream.AccountFile(i.private(), tokenURL)
}

// EntraToken is a JWT for Azure that holds for so long.
func (i *Identity) EntraToken(life time.Duration) string {
	now := i.Now()
	return i.sign(map[string]any{"aud": entraAudience, "iss": "https://sts.simulated/", "iat": now.Unix(),
		"nbf": now.Add(-time.Minute).Unix(), "exp": now.Add(life).Unix(), "jti": rand.Text()})
}

// Life is how long tokens of the token endpoint hold from now on.
func (i *Identity) Life(d time.Duration) { i.with(func() { i.life = d }) }

// Fail has the token endpoint answer with a status, 0: as it should.
func (i *Identity) Fail(status int) { i.with(func() { i.status = status }) }

// Lie has the token endpoint answer 200 with this text; empty: the truth.
func (i *Identity) Lie(body string) { i.with(func() { i.lie = body }) }

// Skew sets the clouds' clock ahead.
func (i *Identity) Skew(d time.Duration) { i.with(func() { i.skew = d }) }

// AddAWS makes another pair of keys known.
func (i *Identity) AddAWS(access, secret string) {
	i.with(func() {
		if i.secret == nil {
			i.secret = map[string]string{}
		}
		i.secret[access] = secret
	})
}

// BindAWS has a pair of AWS keys go with a session token alone.
func (i *Identity) BindAWS(access, session string) {
	i.with(func() {
		if i.bound == nil {
			i.bound = map[string]string{}
		}
		i.bound[access] = session
	})
}

// sessionOf is the session token of an access key; may be empty.
func (i *Identity) sessionOf(access string) (session string) {
	i.with(func() { session = i.bound[access] })
	return session
}

// RevokeAWS forgets a pair of keys.
func (i *Identity) RevokeAWS(access string) {
	i.with(func() {
		if i.banned == nil {
			i.banned = map[string]bool{}
		}
		i.banned[access] = true
	})
}

// Revoke ends all access tokens that were given out, and the Entra tokens named.
func (i *Identity) Revoke(entra ...string) {
	i.with(func() {
		clear(i.tokens)
		if i.entra == nil {
			i.entra = map[string]bool{}
		}
		for _, t := range entra {
			i.entra[t] = true
		}
	})
}

// Asked is how often the token endpoint gave a token.
func (i *Identity) Asked() (n int) {
	i.with(func() { n = i.asked })
	return n
}

func (i *Identity) with(f func()) {
	i.mu.Lock()
	defer i.mu.Unlock()
	f()
}

// Now is the clock of the clouds.
func (i *Identity) Now() (t time.Time) {
	i.with(func() { t = time.Now().Add(i.skew) })
	return t
}

func (i *Identity) sign(claims map[string]any) string {
	b64 := base64.RawURLEncoding
	body, _ := json.Marshal(claims)
	text := b64.EncodeToString([]byte(`{"alg":"RS256","typ":"JWT","kid":"`+upstream.AccountKeyID+`"}`)) + "." +
		b64.EncodeToString(body)
	sum := sha256.Sum256([]byte(text))
	signature, _ := rsa.SignPKCS1v15(rand.Reader, i.private(), crypto.SHA256, sum[:])
	return text + "." + b64.EncodeToString(signature)
}

// claims are those of a JWT whose signature is ours and whose time is now.
func (i *Identity) claims(token string) (gjson.Result, bool) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return gjson.Result{}, false
	}
	b64 := base64.RawURLEncoding
	head, err := b64.DecodeString(parts[0])
	if err != nil || gjson.GetBytes(head, "alg").Str != "RS256" {
		return gjson.Result{}, false
	}
	signature, err := b64.DecodeString(parts[2])
	sum := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	if err != nil || rsa.VerifyPKCS1v15(&i.private().PublicKey, crypto.SHA256, sum[:], signature) != nil {
		return gjson.Result{}, false
	}
	body, err := b64.DecodeString(parts[1])
	if err != nil || !gjson.ValidBytes(body) {
		return gjson.Result{}, false
	}
	c, now := gjson.ParseBytes(body), i.Now().Unix()
	return c, c.Get("exp").Int() > now && c.Get("nbf").Int() <= now
}

// knowsEntra says that an Entra token is for Azure and holds.
func (i *Identity) knowsEntra(token string) bool {
	c, ok := i.claims(token)
	revoked := false
	i.with(func() { revoked = i.entra[token] })
	return ok && !revoked && c.Get("aud").Str == entraAudience
}

// knowsGoogle says that an access token was given out and holds.
func (i *Identity) knowsGoogle(token string) (ok bool) {
	now := i.Now()
	i.with(func() { ok = now.Before(i.tokens[token]) })
	return ok
}

// secretOf is the secret key of an access key; empty if absent.
func (i *Identity) secretOf(access string) (secret string) {
	i.with(func() {
		if i.banned[access] {
			return
		}
		if secret = i.secret[access]; secret == "" && access == AWSAccessKey {
			secret = AWSSecretKey
		}
	})
	return secret
}

// Token answers the token endpoint as RFC 7523 says.
func (i *Identity) Token(body, at string) (int, string) {
	bad := func(word, text string) (int, string) {
		return 400, `{"error":"` + word + `","error_description":"` + text + `"}`
	}
	status, lie := 0, ""
	i.with(func() { status, lie = i.status, i.lie })
	if status != 0 {
		return status, `{"error":"internal_failure"}`
	}
	form, err := url.ParseQuery(body)
	if err != nil || form.Get("grant_type") != jwtGrant {
		return bad("unsupported_grant_type", "Invalid grant_type")
	}
	c, ok := i.claims(form.Get("assertion"))
	now := i.Now()
	issued, expires := time.Unix(c.Get("iat").Int(), 0), time.Unix(c.Get("exp").Int(), 0)
	switch {
	case !ok || issued.After(now.Add(time.Minute)) || expires.Sub(issued) > maxAssertion:
		return bad("invalid_grant", "Invalid JWT Signature or time frame.")
	case c.Get("iss").Str != upstream.AccountEmail:
		return bad("invalid_grant", "Invalid grant: account not found")
	case c.Get("aud").Str != at:
		return bad("invalid_grant", "Invalid JWT: aud is another one")
	case c.Get("scope").Str != googleScope:
		return bad("invalid_scope", "Invalid OAuth scope or ID token audience provided.")
	case lie != "":
		return 200, lie
	}
	token, life := "ya29.simulated-"+rand.Text(), time.Hour
	i.with(func() {
		i.asked++
		if i.life > 0 {
			life = i.life
		}
		if i.tokens == nil {
			i.tokens = map[string]time.Time{}
		}
		i.tokens[token] = now.Add(life)
	})
	answer, _ := json.Marshal(map[string]any{"access_token": token, "expires_in": life.Seconds(), "token_type": "Bearer"})
	return 200, string(answer)
}

// Enter checks the caller's credential, as the vendors document it.
func (i *Identity) Enter(cloud string, r *upstream.CloudRequest) *upstream.Refusal {
	switch cloud {
	case "azure":
		key := string(r.Header("api-key"))
		if !r.KnowsKey(key) && !i.knowsEntra(r.Bearer) || key != "" && r.Bearer != "" {
			return &upstream.Refusal{Status: 401, Body: `{"error":{"code":"401","message":"Access denied due to invalid ` +
				`subscription key or wrong API endpoint for resource simsecret-resource. Make sure to provide a valid key ` +
				`for an active subscription."}}`}
		}
	case "bedrock":
		return i.bedrock(r)
	case "vertex":
		if !i.knowsGoogle(r.Bearer) {
			return &upstream.Refusal{Status: 401, Body: `{"error":{"code":401,"message":"Request had invalid authentication ` +
				`credentials. Expected OAuth 2 access token, login cookie or other valid authentication credential.",` +
				`"status":"UNAUTHENTICATED"}}`}
		}
	}
	return nil
}

// bedrock takes a key, or a signature.
func (i *Identity) bedrock(r *upstream.CloudRequest) *upstream.Refusal {
	kind, text := "AccessDeniedException", "Authentication failed: Please make sure your API Key is valid."
	if r.Bearer == "" {
		signed := signedRequest{r, i.Now(), "bedrock", i.secretOf, i.sessionOf}
		if strings.HasPrefix(r.Path, "/bedrock/anthropic/") {
			signed.service = "bedrock-mantle"
		}
		kind, text = signed.fault()
	}
	if kind == "" || r.KnowsKey(r.Bearer) {
		return nil
	}
	body, _ := sjson.Set("{}", "message", text)
	return &upstream.Refusal{Status: 403, Body: body, Header: [][2]string{{"x-amzn-ErrorType", kind + ":http://internal/"}}}
}

// hexSum is the SHA-256 of a text in hexadecimal digits.
func hexSum(p []byte) string {
	sum := sha256.Sum256(p)
	return hex.EncodeToString(sum[:])
}
