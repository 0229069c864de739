package vertex

import (
	"encoding/json"
	"strings"
	"testing"

	"farebox/config"
	"farebox/providers/chat/dialect"
	"farebox/providers/chat/messages"
	"farebox/proxy"
	"farebox/proxy/scan"
)

// The body is the client's own, with the version replacing the model, wherever that is,
// and the model in the address.
func TestTheVersionReplacesTheModel(t *testing.T) {
	t.Parallel()
	f := func(body, want, path string, stream bool, drop ...string) {
		t.Helper()
		doc := &scan.Document{}
		if err := doc.SkimStrict([]byte(body), messages.Shape); err != nil {
			t.Fatal(err)
		}
		c := &dialect.Chat{Told: []byte(body), ToldDoc: doc, Stream: stream, MaxCompletion: 70, AskedCompletion: 100}
		to := &dialect.Target{Name: "claude@2", Quoted: []byte(`"claude@2"`), QuotedID: []byte(`"m"`),
			Upstream: &dialect.Upstream{Config: &config.Upstream{Drop: drop}}}
		var r proxy.Request
		var s dialect.Scratch
		if err := (Native{}).Request(&r, c, to, &s); err != nil {
			t.Fatal(err)
		}
		out := proxy.AppendPatched(nil, r.Body, r.Patches)
		if string(out) != want || !json.Valid(out) || string(r.Path) != path {
			t.Errorf("%s\n got %s %s\nwant %s %s", body, r.Path, out, path, want)
		}
	}
	const version, told = `"anthropic_version":"vertex-2023-10-16"`, `"messages":[{"role":"user","content":"hi"}]`
	f(`{ "model" : "m", "max_tokens":100,`+told+`}`, `{ `+version+`, "max_tokens":70,`+told+`}`,
		"/models/claude@2:rawPredict", false)
	f(`{"max_tokens":100,`+told+`,"stream":true,"model":"m"}`, `{"max_tokens":70,`+told+`,"stream":true,`+version+`}`,
		"/models/claude@2:streamRawPredict", true)
	f(`{"max_tokens":100,"model":"claude@2",`+told+`}`, `{"max_tokens":70,`+version+`,`+told+`}`,
		"/models/claude@2:rawPredict", false)
	f(`{"max_tokens":100,"top_k":3,"model":"m","temperature":1,`+told+`}`, `{"max_tokens":70,`+version+`,`+told+`}`,
		"/models/claude@2:rawPredict", false, "temperature", "top_k")
}

// Google's own errors, in front of the model, have names of the operator's; errors of the
// model are about the request.
func TestErrorsOfGoogleAreTheOperators(t *testing.T) {
	t.Parallel()
	f := func(status int, body string, want int, code string) {
		t.Helper()
		for _, d := range []dialect.Dialect{Anthropic{}, Native{}} {
			got := d.Error(status, 0, []byte(body))
			if got.Status != want || got.Code != code || strings.Contains(got.Message, "operator") {
				t.Errorf("%T: %d %s: %+v", d, status, body, got)
			}
		}
	}
	const about = `"message":"projects/operator/locations/x"}}`
	f(403, `{"error":{"code":403,"status":"PERMISSION_DENIED",`+about, 503, "MODEL_OFFLINE")
	f(401, `{"error":{"code":401,"status":"UNAUTHENTICATED",`+about, 503, "MODEL_OFFLINE")
	f(404, `[{"error":{"code":404,"status":"NOT_FOUND",`+about+`]`, 503, "MODEL_OFFLINE")
	f(429, `{"error":{"code":429,"status":"RESOURCE_EXHAUSTED",`+about, 429, "MODEL_OVERLOADED")
	f(400, `{"error":{"code":400,"status":"INVALID_ARGUMENT",`+about, 400, "INVALID_REQUEST")
	f(400, `{"type":"error","error":{"type":"invalid_request_error","message":"max_tokens: must be at least 1"}}`,
		400, "INVALID_REQUEST")
}

func FuzzError(f *testing.F) {
	f.Add(400, []byte(`[{"error":{"status":"NOT_FOUND"}}]`))
	f.Add(429, []byte(`{"error":{"status":7}}`))
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		if got := (Native{}).Error(status, 0, body); got.Status < 400 || got.Code == "" || got.Message == "" {
			t.Errorf("%+v", got)
		}
	})
}
