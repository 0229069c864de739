package chat

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"farebox/bench/upstream"
	"farebox/tests/rig"
)

const hostileConfig = `
log: { level: warn, format: json }
limits: { failed_requests: { count: 0 } }
upstreams:
  - { name: only, base_url: %s, breaker: { failures: 0 } }
models:
  - id: sim-chat
    tier: unlimited
    context_tokens: 128000
    max_completion_tokens: 1000
    price: { input: 1, output: 2 }
    targets: [{ upstream: only }]
rpc:
  networks:
    - name: ethereum-sepolia
      upstreams: [{ name: node, url: "http://127.0.0.1:9" }]
`

// The echo of a client's own text in an error is short, whatever the text: a name of
// seven million dots ended the process once, one of a million was answered with 24 MB.
func TestWhatAnErrorEchoesIsBounded(t *testing.T) {
	t.Parallel()
	sim := rig.StartUpstream(t, upstream.Options{})
	g := rig.StartGateway(t, fmt.Sprintf(hostileConfig, sim.URL))
	g.NewAccount("a", "1")
	key, admin := g.Key("a"), g.Key("a", "--type", "ADMIN")

	const most = 128 << 10
	ask := func(name, method, path, key, body string, headers ...string) {
		t.Helper()
		req, err := http.NewRequest(method, g.URL+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Authorization", "Bearer "+key)
		for i := 0; i < len(headers); i += 2 {
			req.Header.Set(headers[i], headers[i+1])
		}
		res, err := rig.Client.Do(req)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		defer func() { _ = res.Body.Close() }()
		answer, err := io.ReadAll(res.Body)
		if err != nil || res.StatusCode < 400 || res.StatusCode >= 500 {
			t.Errorf("%s: %d %v %.200s", name, res.StatusCode, err, answer)
		}
		if len(answer) > most || !json.Valid(answer) {
			t.Errorf("%s: an error of %d bytes, JSON %v: %.300s", name, len(answer), json.Valid(answer), answer)
		}
	}
	chat := func(members string) string {
		return `{"model":"sim-chat","messages":[{"role":"user","content":"x"}],` + members + `}`
	}
	asked := func(members string) string { return `{"model":"sim-chat","input":"x",` + members + `}` }
	long, dots := strings.Repeat("n", 4<<20), strings.Repeat(".", 7<<20)
	var many strings.Builder
	for i := range 30 {
		fmt.Fprintf(&many, `"%d%s":1,`, i, strings.Repeat("a.", 100<<10))
	}
	ask("a name of dots", "POST", "/responses", key, asked(`"metadata":{"`+dots+`":1}`))
	ask("many deep names", "POST", "/responses", key, asked(`"metadata":{`+many.String()+`"z":1}`))
	ask("escapes", "POST", "/responses", key, asked(`"metadata":{"`+strings.Repeat(`\u0001`, 100<<10)+`":1}`))
	ask("an enumeration", "POST", "/chat/completions", key, chat(`"reasoning_effort":"`+long+`"`))
	ask("a number", "POST", "/chat/completions", key, chat(`"temperature":1`+strings.Repeat("0", 1<<20)))
	ask("a model", "POST", "/chat/completions", key, `{"model":"`+long+`","messages":[{"role":"user","content":"x"}]}`)
	ask("a suffix of the model", "POST", "/chat/completions", key,
		`{"model":"sim-chat:`+strings.Repeat("%", 200)+`=1","messages":[{"role":"user","content":"x"}]}`)
	ask("a role", "POST", "/chat/completions", key, `{"model":"sim-chat","messages":[{"role":"`+dots+
		`","content":"x"}]}`)
	ask("a member of a picture", "POST", "/image/generate", key, `{"`+dots+`":1}`)
	ask("a member of a key", "POST", "/api_keys", admin, `{"`+strings.Repeat(".", 8000)+`":1}`)
	ask("a method", "POST", "/crypto/rpc/ethereum-sepolia", key, `{"method":"`+strings.Repeat(".", 1<<20)+`","id":1}`)
	ask("many methods", "POST", "/crypto/rpc/ethereum-sepolia", key,
		`[`+strings.Repeat(`{"method":"`+strings.Repeat("m.", 1000)+`","id":1},`, 99)+`{"method":"x","id":1}]`)
	ask("a network", "POST", "/crypto/rpc/"+strings.Repeat(".x", 2000), key, `{}`)
	ask("a path", "GET", "/"+strings.Repeat("a.", 2000), key, "")
	ask("a query", "GET", "/billing/usage?limit="+strings.Repeat("9.", 2000), admin, "")
	ask("a type of model", "GET", "/models?type="+strings.Repeat(".", 4000), key, "")
	ask("a content type", "POST", "/chat/completions", key, `{}`, "Content-Type", strings.Repeat("x.", 2000))
	ask("a coding", "POST", "/chat/completions", key, `{}`, "Content-Encoding", strings.Repeat("x.", 2000))
	ask("a key of a request", "POST", "/crypto/rpc/ethereum-sepolia", key, `{}`, "Idempotency-Key",
		strings.Repeat(".", 4000))
	form := "--b\r\nContent-Disposition: form-data; name=\"%s\"; filename=\"%s\"\r\n\r\nx\r\n--b--\r\n"
	ask("a field", "POST", "/image/edit", key, fmt.Sprintf(form, strings.Repeat("f.", 300), "a"), "Content-Type",
		"multipart/form-data; boundary=b")

	if !g.Running() {
		t.Fatal("farebox has ended")
	}
	status, _, answer := g.Post("/chat/completions", key, chat(`"stream":false`))
	if status != 200 {
		t.Errorf("after all this the service answers %d %s", status, answer)
	}
}
