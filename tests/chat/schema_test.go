package chat

import (
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"farebox/tests/rig"
)

const schemaConfig = `
log: { level: warn, format: json }
billing: { minimum_balance: 0 }
limits: { failed_requests: { count: 0 } }
upstreams:
  - { name: lax, base_url: %s, enforces_schema: false }
models:
  - id: m
    tier: unlimited
    context_tokens: 128000
    max_completion_tokens: 1000
    capabilities: { response_schema: true }
    price: { input: 1, output: 2 }
    targets: [{ upstream: lax }]
`

// Upstreams that leave schemas to us are checked, if the client says strict: an answer
// that does not follow is 422, charged as produced and given again to a repeat.
func TestAnswersFollowTheirSchema(t *testing.T) {
	t.Parallel()
	var content, finish, refusal atomic.Value
	content.Store(`{"name":"a"}`)
	finish.Store("stop")
	refusal.Store("")
	u := rig.StartRaw(t, func(c net.Conn, body string) {
		text, _ := json.Marshal(content.Load())
		rig.Sends(rig.HTTPAnswer(200, "application/json", fmt.Sprintf(`{"id":"chatcmpl-1","object":"chat.completion",`+
			`"created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":%s%s},`+
			`"finish_reason":%q}],"usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15}}`, text,
			refusal.Load(), finish.Load())))(c, body)
	})
	g := rig.StartGateway(t, fmt.Sprintf(schemaConfig, u.URL))
	g.NewAccount("a", "1")
	key := g.Key("a")
	ask := func(schema, strict string) string {
		return rig.Ask("m", "Hello", `,"response_format":{"type":"json_schema","json_schema":{"name":"n","strict":`+
			strict+`,"schema":`+schema+`}}`)
	}
	const cost = 10*1000 + 5*2000
	spent := rig.Money(0)
	expect := func(what, schema, strict string, wantStatus int, words string, charged bool) {
		t.Helper()
		status, _, answer := g.Post("/chat/completions", key, ask(schema, strict))
		if status != wantStatus || !strings.Contains(string(answer), words) {
			t.Errorf("%s: %d %s", what, status, answer)
		}
		if charged {
			spent += cost
		}
	}
	const person = `{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}`
	expect("an answer that follows", person, "true", 200, `"finish_reason":"stop"`, true)
	content.Store(`{"nom":"a"}`)
	expect("an answer that does not", person, "true", 422, "missing property 'name'", true)
	refusal.Store(`,"refusal":""`)
	expect("with an empty refusal beside it", person, "true", 422, "missing property 'name'", true)
	refusal.Store(`,"refusal":"No."`)
	expect("beside a refusal", person, "true", 200, "No.", true)
	refusal.Store("")
	expect("without strict", person, "false", 200, "nom", true)
	finish.Store("length")
	expect("a truncated answer says so", person, "true", 200, "length", true)
	finish.Store("stop")
	asked := u.Asked.Load()
	expect("an invalid schema", `{"type":"objekt"}`, "true", 400, "response_format.json_schema.schema: is not a JSON",
		false)
	expect("a schema elsewhere", `{"$ref":"http://127.0.0.1:1/s"}`, "true", 400, "leads out of it", false)
	if u.Asked.Load() != asked {
		t.Error("a bad schema reached the upstream")
	}
	for range 2 {
		status, h, answer := g.WithKey("/chat/completions", key, "once", ask(person, "true"))
		if status != 422 || !strings.Contains(answer, `"code":"OUTPUT_SCHEMA_VIOLATION"`) {
			t.Errorf("with an idempotency key: %d %v %s", status, h, answer)
		}
	}
	spent += cost
	if got := g.Settled()["a"].Spent; got != spent {
		t.Errorf("charged %s, expected %s", got, spent)
	}
	content.Store(strings.Repeat("x", 100<<10)) // otherwise it would be relayed unread
	expect("a large one", person, "true", 422, "it is not JSON", false)
}
