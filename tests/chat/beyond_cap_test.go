package chat

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"farebox/tests/oracles/messagestest"
	"farebox/tests/oracles/responsestest"
	"farebox/tests/rig"
)

// formsConfig has a model for each form whose upstream speaks it.
const formsConfig = `
compat: { responses_events: sdk }
billing: { minimum_balance: 0 }
upstreams:
  - { name: claude, dialect: anthropic, base_url: %[1]q }
  - { name: gpt, base_url: %[1]q, responses: true }
models:
  - &model
    id: claude
    tier: unlimited
    context_tokens: 200000
    max_completion_tokens: 32768
    price: { input: 1, output: 2 }
    targets: [{ upstream: claude }]
  - { <<: *model, id: gpt, targets: [{ upstream: gpt }] }
`

// most is the cap of the requests here.
const most = 300

// talk asks in a form for an answer of at most that many tokens.
func (b *buyer) talk(path, stream string) (answer string, spent rig.Money) {
	body := `{"model":"claude","messages":[{"role":"user","content":"Talk"}],"max_tokens":%d,"stream":%s}`
	if path == "/responses" {
		body = `{"model":"gpt","input":"Talk","max_output_tokens":%d,"stream":%s}`
	}
	_, text, spent := b.asks(path, fmt.Sprintf(body, most, stream))
	return string(text), spent
}

// goesOn has the upstream answer with a beginning and then with more, for ever.
func (b *buyer) goesOn(begin []string, more func(n int) string) {
	b.upstream.Answer(func(c net.Conn, _ string) {
		_, err := io.WriteString(c, rig.SSEChunked+rig.SSEChunk(strings.Join(begin, "")))
		for n := 0; err == nil; n++ {
			_, err = io.WriteString(c, rig.SSEChunk(more(n)))
		}
	})
}

// event is one of a stream; its members hold verbs for values.
func event(kind, members string, values ...any) string {
	return fmt.Sprintf("event: %[1]s\ndata: {\"type\":%[1]q,", kind) + fmt.Sprintf(members, values...) + "}\n\n"
}

// A stream of messages that went on beyond its cap ended with an error, after which clients
// ask again. It ends as its model should have ended it, and costs the usage of its end.
func TestMessagesEndAtTheirCap(t *testing.T) {
	t.Parallel()
	b := startBuyer(t, formsConfig)
	start := event("message_start", `"message":{"id":"msg_1","type":"message","role":"assistant","model":"claude",`+
		`"content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":9,"output_tokens":1}}`)
	block := func(index int, kind string) string {
		return event("content_block_start", `"index":%d,"content_block":{"type":%s}`, index, kind)
	}
	add := func(index int, delta string) string {
		return event("content_block_delta", `"index":%d,"delta":{"type":%s}`, index, delta)
	}
	stop := func(index int) string { return event("content_block_stop", `"index":%d`, index) }
	const emptyText, emptyThought = `"text","text":""`, `"thinking","thinking":"","signature":""`
	const the, hm = `"text_delta","text":" the"`, `"thinking_delta","thinking":" hm"`
	for name, c := range map[string]struct {
		begin []string
		more  func(n int) string
		kinds string // of the first blocks
		least int64  // tokens
	}{
		"a text":    {[]string{block(0, emptyText)}, func(int) string { return add(0, the) }, "text", most},
		"a thought": {[]string{block(0, emptyThought)}, func(int) string { return add(0, hm) }, "thinking", most},
		"a text behind a thought": {[]string{block(0, emptyThought), add(0, hm), stop(0), block(1, emptyText)},
			func(int) string { return add(1, the) }, "thinking text", most},
		"a call": {[]string{block(0, `"tool_use","id":"t","name":"f","input":{}`), add(0, `"input_json_delta","partial_json":"{}"`)},
			func(int) string { return add(0, `"input_json_delta","partial_json":" \n"`) }, "tool_use", 100},
		"many blocks": {nil, func(n int) string { return block(n, `"text","text":" the"`) + stop(n) }, "text text", 100},
	} {
		b.goesOn(append([]string{start}, c.begin...), c.more)
		answer, spent := b.talk("/messages", "true")
		m, failed, err := messagestest.Order(answer)
		if err != nil || failed {
			t.Errorf("%s: failed %t, %v: %s", name, failed, err, rig.Last(answer, 500))
			continue
		}
		var kinds []string
		for _, block := range m.Content {
			kinds = append(kinds, block.Type)
		}
		if m.StopReason != "max_tokens" || !strings.HasPrefix(strings.Join(kinds, " "), c.kinds) {
			t.Errorf("%s: %d blocks %s", name, len(kinds), rig.Last(answer, 500))
		}
		told := m.Usage.OutputTokens
		if spent != rig.Money(9*1000+told*2000) || told < c.least || told > most {
			t.Errorf("%s: charged %s, reported %d tokens", name, spent, told)
		}
	}
}

// inProgress is a response that begins, with all members that OpenAI's packages require.
const inProgress = `{"id":"resp_1","object":"response","created_at":1700000000,"status":"in_progress","error":null,` +
	`"incomplete_details":null,"model":"gpt","output":[],"usage":null,"access_programs":null,"instructions":null,` +
	`"metadata":{},"parallel_tool_calls":true,"temperature":null,"tool_choice":"auto","tools":[],"top_p":null}`

// The same for responses: open items end first, and the last event repeats the whole response.
func TestResponsesEndAtTheirCap(t *testing.T) {
	t.Parallel()
	b := startBuyer(t, formsConfig)
	const item = `"output_index":%d,"item":{"id":"%s","status":"in_progress",%s}`
	const part = `"item_id":"%s","output_index":%d,"content_index":0,"part":{"type":"output_text","text":"%s","annotations":[],"logprobs":[]}`
	const added, done = "response.output_item.added", "response.output_item.done"
	message := func(id string, index int) []string {
		return []string{event(added, item, index, id, `"type":"message","role":"assistant","content":[]`),
			event("response.content_part.added", part, id, index, "")}
	}
	text := event("response.output_text.delta", `"item_id":"m","output_index":0,"content_index":0,"delta":" the","logprobs":[]`)
	call := event("response.function_call_arguments.delta", `"item_id":"c","output_index":1,"delta":" {}"`)
	thought := event("response.reasoning_summary_text.delta", `"item_id":"r","output_index":0,"summary_index":0,"delta":" hm"`)
	for name, c := range map[string]struct {
		begin []string
		more  string
	}{
		"a text": {message("m", 0), text},
		"a call behind a thought": {[]string{
			event(added, item, 0, "r", `"type":"reasoning","summary":[]`),
			event(done, item, 0, "r", `"type":"reasoning","summary":[]`),
			event(added, item, 1, "c", `"type":"function_call","call_id":"call","name":"f","arguments":""`)}, call},
		"a thought": {[]string{event(added, item, 0, "r", `"type":"reasoning","summary":[]`),
			event("response.reasoning_summary_part.added", `"item_id":"r","output_index":0,"summary_index":0,`+
				`"part":{"type":"summary_text","text":""}`)}, thought},
	} {
		number := 0
		numbered := func(event string) string {
			number++
			return strings.Replace(event, ",", fmt.Sprintf(`,"sequence_number":%d,`, number-1), 1)
		}
		begin := []string{event("response.created", `"response":%s`, inProgress), event("response.in_progress", `"response":%s`, inProgress)}
		begin = append(begin, c.begin...)
		for i := range begin {
			begin[i] = numbered(begin[i])
		}
		b.goesOn(begin, func(int) string { return numbered(c.more) })
		answer, spent := b.talk("/responses", "true")
		r, err := responsestest.Check(answer)
		if err != nil {
			t.Errorf("%s: %v: %s", name, err, rig.Last(answer, 1500))
			continue
		}
		if r.Status != "incomplete" || r.IncompleteDetails.Reason != "max_output_tokens" || r.ID != "resp_1" {
			t.Errorf("%s: it ends %s", name, rig.Last(answer, 1500))
		}
		told := r.Usage.OutputTokens
		if spent != rig.Money(r.Usage.InputTokens*1000+told*2000) || told != most {
			t.Errorf("%s: charged %s, reported %d tokens", name, spent, told)
		}
	}
}

// A whole answer in its upstream's own form is delivered whole, and costs no more than its
// cap.
func TestWholeAnswersInTheirOwnFormAreWhole(t *testing.T) {
	t.Parallel()
	b := startBuyer(t, formsConfig)
	text := strings.Repeat(" the", 4*most)
	for path, body := range map[string]string{
		"/messages": `{"id":"msg_1","type":"message","role":"assistant","model":"claude","content":[{"type":"text","text":"` +
			text + `"}],"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":9,"output_tokens":1200}}`,
		"/responses": `{"id":"resp_1","object":"response","status":"completed","model":"gpt","output":[{"type":"message",` +
			`"id":"m","role":"assistant","content":[{"type":"output_text","text":"` + text + `","annotations":[]}]}],` +
			`"usage":{"input_tokens":9,"output_tokens":1200,"total_tokens":1209}}`,
	} {
		for _, chunked := range []bool{false, true} {
			b.says("application/json", body, chunked)
			if answer, spent := b.talk(path, "false"); answer != body || spent != 9*1000+most*2000 {
				t.Errorf("%s, chunked %t: charged %s for %d bytes of %d", path, chunked, spent, len(answer), len(body))
			}
		}
	}
}

// A whole answer far beyond its cap was broken off in the middle of a word, and charged.
// It comes whole where its length is known, else it ends as the model should have ended it.
func TestAWholeAnswerBeyondItsCapIsWhole(t *testing.T) {
	t.Parallel()
	b := startBuyer(t, drawnConfig)
	cuts := 0 // an answer of unknown length that is there at once is whole, too
	for name, text := range map[string]string{
		"plain":   strings.Repeat("The small river moves past old stone houses. ", 4000),
		"escaped": strings.Repeat(`She said \"no\".\n\u0440\u0435\u043a\u0430 `, 4000),
		"wide":    strings.Repeat("老石屋旁的小河", 6000),
	} {
		for _, usage := range []string{"", "," + usageOf8} {
			for _, chunked := range []bool{false, true} {
				body := wholeOf(`{"role":"assistant","content":"`+text+`"}`, usage)
				b.says("application/json", body, chunked)
				status, answer, spent := b.asks("/chat/completions", rig.Ask("draws", "Talk", `,"max_completion_tokens":3000`))
				var got struct {
					Choices []struct {
						Message struct{ Content string }
						Finish  string `json:"finish_reason"`
					}
					Usage struct {
						Completion int64 `json:"completion_tokens"`
					}
				}
				if err := json.Unmarshal(answer, &got); err != nil || status != 200 || len(got.Choices) != 1 {
					t.Errorf("%s, chunked %t: %d, %v: %d bytes, %s", name, chunked, status, err, len(answer),
						rig.Last(string(answer), 200))
					continue
				}
				cut := len(answer) < len(body)
				if cut && (got.Choices[0].Finish != "length" || got.Usage.Completion != 3000 || !chunked) {
					t.Errorf("%s, chunked %t: ends %s", name, chunked, rig.Last(string(answer), 200))
				}
				if cut {
					cuts++
				}
				if spent < 3000*2000 || spent > 3000*2000+100*1000 {
					t.Errorf("%s, chunked %t: charged %s", name, chunked, spent)
				}
			}
		}
	}
	if cuts == 0 {
		t.Error("no answer of unknown length was cut")
	}
}
