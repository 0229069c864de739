package upstream

import (
	"bytes"
	"net/http"
	"regexp"
	"strings"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"
)

// Below /azure, /bedrock and /vertex are the doors of clouds: they have the paths, versions and
// bodies that their vendors document, and forward to the endpoints of OpenAI's and Anthropic's
// forms. Options.Clouds says which clients may enter.

// door gives the path of a request, or refuses it.
type door func(c *conn, path, query string) (to string, refusal *Refusal)

// doors by the first part of the path.
var doors = map[string]door{"azure": (*conn).azure, "bedrock": (*conn).bedrock, "vertex": (*conn).vertex}

// routeCloud leads a request for a cloud through its door; cloud is empty for others.
func (c *conn) routeCloud(path string) (to, cloud string, refusal *Refusal) {
	first, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	through := doors[first]
	if through == nil {
		return path, "", nil
	}
	_, query, _ := strings.Cut(string(c.req.path), "?")
	// Refusals have a Date as well.
	c.extra = append(c.extra, [2]string{"Date", c.srv.options.Clouds.Now().UTC().Format(http.TimeFormat)})
	rest := strings.TrimPrefix(path, "/"+first)
	if first == "vertex" && rest == "/token" {
		status, body := c.srv.options.Clouds.Token(string(c.req.body), "http://"+string(c.header("host"))+path)
		return "", first, &Refusal{Status: status, Body: body}
	}
	full, _, _ := bytes.Cut(c.req.path, []byte("?"))
	if refusal = c.srv.options.Clouds.Enter(first, &CloudRequest{Method: string(c.req.method), Path: string(full), Query: query,
		Body: c.req.body, Header: c.header, Bearer: c.bearer(), KnowsKey: c.knowsKey}); refusal != nil {
		return "", first, refusal
	}
	to, refusal = through(c, rest, query)
	if refusal == nil {
		c.req.key = []byte(c.srv.options.Key) // has been asked for
	}
	return to, first, refusal
}

// bearer is the token of the Authorization header.
func (c *conn) bearer() string {
	token, ok := strings.CutPrefix(string(c.header("authorization")), "Bearer ")
	if !ok {
		return ""
	}
	return token
}

// knowsKey says that a key is the server's; without one, any is.
func (c *conn) knowsKey(key string) bool {
	return key != "" && (c.srv.options.Key == "" || key == c.srv.options.Key)
}

var (
	azureDeployment = regexp.MustCompile(`^/openai/deployments/([A-Za-z0-9._-]+)(/chat/completions|/embeddings)$`)
	azureDate       = regexp.MustCompile(`^api-version=\d{4}-\d{2}-\d{2}(-preview)?$`)
	modelVersion    = regexp.MustCompile(`@(\d)`)
	vertexModel     = regexp.MustCompile(
		`^/v1/projects/[a-z0-9-]+/locations/[a-z0-9-]+/publishers/(google|anthropic)/models/([A-Za-z0-9._@-]+):(\w+)$`)
)

func (c *conn) azure(path, query string) (string, *Refusal) {
	missing := &Refusal{Status: 404, Body: `{"error":{"code":"404","message":"Resource not found"}}`}
	if rest, ok := strings.CutPrefix(path, "/openai/v1"); ok {
		if query != "" && query != "api-version=preview" {
			return "", &Refusal{Status: 400, Body: `{"error":{"code":"BadRequest","message":"API version not supported"}}`}
		}
		return "/v1" + rest, nil
	}
	if !azureDate.MatchString(query) {
		return "", missing
	}
	if path == "/openai/models" {
		return "/v1/models", nil
	}
	at := azureDeployment.FindStringSubmatch(path)
	if at == nil {
		return "", missing
	}
	if strings.HasPrefix(at[1], "missing") {
		return "", &Refusal{Status: 404, Body: `{"error":{"code":"DeploymentNotFound","message":"The API deployment ` +
			at[1] + ` for this resource does not exist."}}`}
	}
	// The deployment decides, not the body.
	c.setBody("model", at[1])
	return "/v1" + at[2], nil
}

func (c *conn) bedrock(path, _ string) (string, *Refusal) {
	if to, ok := strings.CutPrefix(path, "/openai"); ok && strings.HasPrefix(to, "/v1/") {
		return to, nil
	}
	if to, ok := strings.CutPrefix(path, "/anthropic"); ok && to == "/v1/messages" {
		c.req.cloud = true
		return to, nil
	}
	return "", &Refusal{Status: 404, Body: `{"message":"Unknown operation"}`,
		Header: [][2]string{{"x-amzn-ErrorType", "UnknownOperationException"}}}
}

func (c *conn) vertex(path, _ string) (string, *Refusal) {
	refuse := func(status int, word, text string) (string, *Refusal) {
		body, _ := sjson.Set(`{"error":{}}`, "error.code", status)
		body, _ = sjson.Set(body, "error.message", text)
		body, _ = sjson.Set(body, "error.status", word)
		return "", &Refusal{Status: status, Body: body}
	}
	at := vertexModel.FindStringSubmatch(path)
	if at == nil {
		return refuse(404, "NOT_FOUND", "Not found.")
	}
	publisher, model, method := at[1], at[2], at[3]
	if publisher == "google" {
		return "/v1beta/models/" + model + ":" + method, nil
	}
	asked := gjson.ParseBytes(c.req.body)
	switch {
	case strings.HasPrefix(model, "missing") || model == "farebox":
		return refuse(404, "NOT_FOUND", "Publisher Model `projects/simsecret-project/locations/global/publishers/anthropic/"+
			"models/"+model+"` was not found or your project does not have access to it.")
	case method != "rawPredict" && method != "streamRawPredict":
		return refuse(404, "NOT_FOUND", "Not found.")
	case asked.Get("anthropic_version").Str != "vertex-2023-10-16":
		return refuse(400, "INVALID_ARGUMENT", "anthropic_version: Field required")
	case asked.Get("model").Exists():
		return refuse(400, "INVALID_ARGUMENT", "model: Extra inputs are not permitted")
	case asked.Get("stream").Bool() != (method == "streamRawPredict"):
		return refuse(400, "INVALID_ARGUMENT", "stream: does not go with the method "+method)
	}
	c.req.anthropic, c.req.cloud = []byte("2023-06-01"), true
	c.req.body, _ = sjson.DeleteBytes(append([]byte(nil), c.req.body...), "anthropic_version")
	// A version such as @20250929 must not be read as scenario words.
	c.setBody("model", modelVersion.ReplaceAllString(model, "-$1"))
	return "/v1/messages", nil
}

// setBody sets a top member of the request.
func (c *conn) setBody(name, value string) {
	if gjson.ValidBytes(c.req.body) {
		c.req.body, _ = sjson.SetBytes(append([]byte(nil), c.req.body...), name, value)
	}
}
