package vertex

import (
	"encoding/json"
	"testing"

	"farebox/config"
	"farebox/providers/chat/dialect"
	"farebox/providers/chat/messages"
	"farebox/proxy"
	"farebox/proxy/scan"
)

// The body is the client's own, with the version in the place of the model,
// wherever it stands, and the model in the address.
func TestTheVersionStandsInThePlaceOfTheModel(t *testing.T) {
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
