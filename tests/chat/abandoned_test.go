package chat

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"farebox/tests/rig"
)

const abandonedConfig = `
compat: { responses_events: sdk }
responses: { keep: 1h }
billing: { minimum_balance: 0 }
limits: { failed_requests: { count: 0 } }
upstreams:
  - { name: first, dialect: anthropic, base_url: %[1]q, breaker: { failures: 0 } }
  - { name: claude, dialect: anthropic, base_url: %[2]q, breaker: { failures: 0 } }
  - { name: gpt, base_url: %[2]q, responses: true, breaker: { failures: 0 } }
models:
  - &model
    id: translated
    tier: unlimited
    context_tokens: 128000
    max_completion_tokens: 1000
    price: { input: 1, output: 2 }
    targets: [{ upstream: first }, { upstream: claude, priority: 1 }]
  - { <<: *model, id: native, targets: [{ upstream: first }, { upstream: gpt, priority: 1 }] }
`

// A first upstream thought, spoke and failed within one read, and a second one answered. Items of the first answer
// were kept beside those of the second, and came into it where its end had none.
func TestNothingOfAnAbandonedAnswerIsKept(t *testing.T) {
	t.Parallel()
	start := event("message_start", `"message":{"id":"msg_1","type":"message","role":"assistant","content":[],`+
		`"usage":{"input_tokens":9,"output_tokens":1}}`)
	lost := start
	for i, block := range []string{"thinking", "text", "thinking"} {
		lost += event("content_block_start", `"index":%d,"content_block":{"type":%q,%q:"lost"}`, i, block, block) +
			event("content_block_stop", `"index":%d`, i)
	}
	lost += event("error", `"error":{"type":"overloaded_error","message":"Overloaded"}`)
	first := rig.StartRaw(t, rig.Sends(rig.SSEChunked+rig.SSEChunk(lost)+"0\r\n\r\n"))
	second := rig.StartRaw(t, nil)
	g := rig.StartGateway(t, fmt.Sprintf(abandonedConfig, first.URL, second.URL))
	g.NewAccount("a", "10")
	key := g.Key("a")
	for model, answer := range map[string]string{
		"translated": start + event("message_delta", `"delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":3}`) +
			event("message_stop", `"x":1`),
		"native": event("response.created", `"sequence_number":0,"response":%s`, inProgress) +
			event("response.completed", `"sequence_number":1,"response":%s`, strings.Replace(strings.Replace(inProgress, "in_progress",
				"completed", 1), `"usage":null`, `"usage":{"input_tokens":9,"output_tokens":3,"total_tokens":12}`, 1)),
	} {
		asked := second.Asked.Load()
		second.Answer(rig.Sends(rig.SSEChunked + rig.SSEChunk(answer) + "0\r\n\r\n"))
		status, _, text := g.Post("/responses", key, fmt.Sprintf(`{"model":%q,"input":"Hi","stream":true}`, model))
		if status != 200 || strings.Contains(string(text), "lost") || second.Asked.Load() != asked+1 {
			t.Fatalf("%s: %d %s", model, status, text)
		}
		var id string
		for line := range strings.Lines(string(text)) {
			if data, ok := strings.CutPrefix(line, "data: "); ok && id == "" {
				id = gjson.Get(data, "response.id").Str
			}
		}
		status, _, kept := g.Get("/responses/"+id, key)
		if output := gjson.GetBytes(kept, "output"); status != 200 || len(output.Array()) != 0 {
			t.Errorf("%s: %d, kept is %s", model, status, kept)
		}
		item := "msg_" + strings.TrimPrefix(id, "resp_") + "001"
		status, _, text = g.Post("/responses", key, fmt.Sprintf(`{"model":%q,"input":[{"type":"item_reference","id":%q},`+
			`{"role":"user","content":"Hi"}]}`, model, item))
		if status != 404 {
			t.Errorf("%s: an item is known: %d %s", model, status, text)
		}
	}
	g.Settled()
	g.CLI("verify")
}
