package azure

import (
	"strings"
	"testing"

	"farebox/config"
	"farebox/providers/chat/dialect"
	"farebox/proxy"
	"farebox/proxy/scan"
)

// A wrong deployment, version or key is the operator's fault, with whatever status; a
// refusal of the filter is the client's.
func TestErrorsOfAzure(t *testing.T) {
	t.Parallel()
	f := func(status int, body string, want int, code string) {
		t.Helper()
		got := Dialect{}.Error(status, 0, []byte(body))
		if got.Status != want || got.Code != code || got.Param != "" {
			t.Errorf("%d %s: %+v", status, body, got)
		}
		for _, secret := range []string{"operator-res", "microsoft", "azure", "deployment"} {
			if strings.Contains(strings.ToLower(got.Message), secret) {
				t.Errorf("the message is %q", got.Message)
			}
		}
	}
	f(404, `{"error":{"code":"DeploymentNotFound","message":"The API deployment for this resource does not exist."}}`,
		503, "MODEL_OFFLINE")
	f(400, `{"error":{"code":"UnsupportedApiVersion","message":"x"}}`, 503, "MODEL_OFFLINE")
	f(400, `{"error":{"code":"OperationNotSupported","message":"The operation does not work with operator-res"}}`,
		503, "MODEL_OFFLINE")
	f(401, `{"error":{"code":"401","message":"Access denied due to invalid subscription key for operator-res"}}`,
		503, "MODEL_OFFLINE")
	f(400, `{"error":{"message":"see https://go.microsoft.com/x","param":"prompt","code":"content_filter","status":400,`+
		`"innererror":{"code":"ResponsibleAIPolicyViolation"}}}`, 422, "CONTENT_POLICY_VIOLATION")
	f(400, `{"error":{"message":"Resource operator-res.openai.azure.com is too small","code":"BadRequest"}}`,
		400, "INVALID_REQUEST")
	f(429, `{"error":{"code":"429","message":"Requests to operator-res have exceeded token rate limit of deployment"}}`,
		429, "MODEL_OVERLOADED")
	f(500, `<html>operator-res</html>`, 500, "INFERENCE_FAILED")
}

// The model is in the address if the API has a dated version, and in the body with /openai/v1.
func TestModelsAreInTheAddressOfTheirDeployment(t *testing.T) {
	t.Parallel()
	for version, path := range map[string]string{"": "/chat/completions", "preview": "/chat/completions",
		"2024-10-21": "/prod-chat/chat/completions"} {
		up := &config.Upstream{Dialect: "azure", Azure: config.Azure{APIVersion: version}}
		to := &dialect.Target{Name: "prod-chat", Quoted: []byte(`"prod-chat"`), QuotedID: []byte(`"m"`),
			Upstream: &dialect.Upstream{Config: up}}
		c := &dialect.Chat{Body: []byte(`{"model":"m","messages":[{"role":"user","content":"hi"}]}`),
			Doc: &scan.Document{}, Choices: 1, Model: &dialect.Model{ID: "m", Config: &config.Model{ID: "m"},
				Tokenizer: "o200k_base", Chat: &config.Chat{MaxCompletionTokens: 1000}}}
		if err := c.Doc.Skim(c.Body, dialect.ChatShape("svc", nil, nil)); err != nil {
			t.Fatal(err)
		}
		for range 2 { // a second attempt, with the same memory
			var r proxy.Request
			var s dialect.Scratch
			if err := (Dialect{}).Request(&r, c, to, &s); err != nil || string(r.Path) != path {
				t.Errorf("%q: %s %v", version, r.Path, err)
			}
		}
	}
}

func FuzzError(f *testing.F) {
	f.Add(400, []byte(`{"error":{"code":"content_filter","innererror":{"code":7}}}`))
	f.Add(404, []byte(`{"error":{"code":404,"message":null}}`))
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		got := Dialect{}.Error(status, 0, body)
		if got.Status < 400 || got.Code == "" || got.Message == "" || strings.Contains(strings.ToLower(got.Message), "azure.") {
			t.Errorf("%+v", got)
		}
	})
}
