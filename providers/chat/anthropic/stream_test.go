package anthropic

import (
	"encoding/json"
	"strings"
	"testing"

	"farebox/bench/servers"
	"farebox/providers/chat/dialect"
)

// event is one event of the dialect.
func event(name, data string) string { return "event: " + name + "\ndata: " + data + "\n\n" }

func start(usage string) string {
	return event("message_start",
		`{"type":"message_start","message":{"id":"msg_01X","type":"message","role":"assistant","model":"claude-there","content":[],"stop_reason":null,"stop_sequence":null,"usage":`+usage+`}}`)
}

func open(index, block string) string {
	return event("content_block_start", `{"type":"content_block_start","index":`+index+`,"content_block":`+block+`}`)
}

func delta(index, d string) string {
	return event("content_block_delta", `{"type":"content_block_delta","index":`+index+`,"delta":`+d+`}`)
}

func text(index, t string) string { return delta(index, `{"type":"text_delta","text":"`+t+`"}`) }

func shut(index string) string {
	return event("content_block_stop", `{"type":"content_block_stop","index":`+index+`}`)
}

func last(stop, usage string) string {
	return event("message_delta", `{"type":"message_delta","delta":{"stop_reason":"`+stop+
		`","stop_sequence":null},"usage":`+usage+`}`)
}

const (
	ping       = "event: ping\ndata: {\"type\": \"ping\"}\n\n"
	stop       = "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"
	startUsage = `{"input_tokens":10,"cache_creation_input_tokens":3,"cache_read_input_tokens":5,"output_tokens":1}`
	lastUsage  = `{"output_tokens":9,"output_tokens_details":{"thinking_tokens":4}}`
	head       = `data: {"id":"chatcmpl-01X","object":"chat.completion.chunk","created":1,"model":"m","choices":[`
	usageEvent = head + `],"usage":{"prompt_tokens":18,"completion_tokens":9,"total_tokens":27,"prompt_tokens_details":{"cached_tokens":5,"cache_creation_input_tokens":3},"completion_tokens_details":{"reasoning_tokens":4}}}` + "\n\n"
	done       = "data: [DONE]\n\n"
)

// chunk is the client's chunk for one delta.
func chunk(delta string) string {
	return head + `{"index":0,"delta":{` + delta + `},"logprobs":null,"finish_reason":null}]}` + "\n\n"
}

func finish(reason string) string {
	return head + `{"index":0,"delta":{},"logprobs":null,"finish_reason":"` + reason + `"}]}` + "\n\n"
}

const role = `"role":"assistant","content":""`

// everything has each kind of event.
func everything() string {
	return start(startUsage) +
		open("0", `{"type":"thinking","thinking":"","signature":""}`) + ping +
		delta("0", `{"type":"thinking_delta","thinking":"mi\nnd"}`) + delta("0",
		`{"type":"signature_delta","signature":"c2ln"}`) + shut("0") +
		open("1", `{"type":"redacted_thinking","data":"ZGF0YQ=="}`) + shut("1") +
		open("2", `{"type":"text","text":""}`) + text("2", `the \"small\"`) + text("2", ` r\u00efver 😀`) +
		delta("2", `{"type":"citations_delta","citation":{"type":"web_search_result_location","url":"https://x","title":"T","cited_text":"a","encrypted_index":"e"}}`) +
		delta("2", `{"type":"citations_delta","citation":{"type":"char_location","document_index":1,"document_title":"D","cited_text":"b","start_char_index":3,"end_char_index":4}}`) + shut("2") +
		open("3", `{"type":"tool_use","id":"toolu_1","name":"look","input":{}}`) + delta("3",
		`{"type":"input_json_delta","partial_json":""}`) +
		delta("3", `{"type":"input_json_delta","partial_json":"{\"a\":"}`) + delta("3",
		`{"type":"input_json_delta","partial_json":"1}"}`) + shut("3") +
		open("4", `{"type":"tool_use","id":"toolu_2","name":"go","input":{}}`) + shut("4") +
		open("5", `{"type":"server_tool_use","id":"srv","name":"web_search","input":{}}`) + delta("5",
		`{"type":"input_json_delta","partial_json":"{}"}`) + shut("5") +
		open("6", `{"type":"tool_use","id":"toolu_3","name":"go","input":{"b":"c"}}`) + shut("6") +
		last("tool_use", lastUsage) + stop
}

func everythingElse() string {
	call := func(index, rest string) string { return chunk(`"tool_calls":[{"index":` + index + `,` + rest + `}]`) }
	return chunk(role) + chunk(`"reasoning_content":"mi\nnd"`) +
		chunk(`"reasoning_details":[{"type":"reasoning.text","signature":"c2ln","format":"anthropic-claude-v1","index":0}],"thought_signature":"c2ln"`) +
		chunk(`"reasoning_details":[{"type":"reasoning.encrypted","data":"ZGF0YQ==","format":"anthropic-claude-v1","index":1}]`) +
		chunk(`"content":"the \"small\""`) + chunk(`"content":" r\u00efver 😀"`) +
		chunk(`"annotations":[{"type":"url_citation","url_citation":{"url":"https://x","title":"T","content":"a","start_index":0,"end_index":19}},{"type":"file_citation","file_citation":{"index":1,"filename":"D","content":"b","start_index":0,"end_index":19,"start_char_index":3,"end_char_index":4}}]`) +
		call("0", `"id":"toolu_1","type":"function","function":{"name":"look","arguments":""}`) + call("0",
		`"function":{"arguments":"{\"a\":"}`) + call("0", `"function":{"arguments":"1}"}`) +
		call("1", `"id":"toolu_2","type":"function","function":{"name":"go","arguments":""}`) + call("1",
		`"function":{"arguments":"{}"}`) +
		call("2", `"id":"toolu_3","type":"function","function":{"name":"go","arguments":""}`) + call("2",
		`"function":{"arguments":"{\"b\":\"c\"}"}`) +
		finish("tool_calls") + usageEvent + done
}

type result struct {
	out          string
	usage        dialect.Usage
	done, failed bool
}

func translate(t testing.TB, input string, complete bool, change func(*dialect.Chat), cuts ...int) result {
	c := chatOf(t, prompt)
	if change != nil {
		change(c)
	}
	s := Dialect{}.Stream(c, target(c))
	defer s.Release()
	out := run(s, input, complete, cuts...)
	return result{timeless(out), s.Usage(), s.Done(), s.Failed()}
}

func TestEventsBecomeChunks(t *testing.T) {
	got := translate(t, everything(), true, nil)
	if got.out != everythingElse() {
		t.Errorf("got\n%s\nwant\n%s", got.out, everythingElse())
	}
	if want := (dialect.Usage{Prompt: 18, Cached: 5, CacheWrite: 3, Completion: 9, Reasoning: 4,
		Seen: true}); got.usage != want || !got.done {
		t.Errorf("%+v", got)
	}
	for _, e := range strings.Split(strings.TrimSpace(got.out), "\n\n") {
		if data := strings.TrimPrefix(e, "data: "); data != "[DONE]" && !json.Valid([]byte(data)) {
			t.Errorf("no JSON: %s", data)
		}
	}
	hide := func(c *dialect.Chat) { hidden := false; c.IncludeUsage = &hidden }
	if got := translate(t, everything(), true, hide); got.out != strings.Replace(everythingElse(), usageEvent, "", 1) {
		t.Errorf("usage is not hidden: %s", got.out)
	}
}

func TestSplitsChangeNothing(t *testing.T) {
	servers.NoRace(t)
	for _, input := range []string{everything(), strings.ReplaceAll(everything(), "\n", "\r\n"), everything()[:900],
		start(startUsage) + text("0", "a")} {
		for _, complete := range []bool{true, false} {
			want := translate(t, input, complete, nil)
			var every []int
			for cut := range input {
				every = append(every, cut)
				if got := translate(t, input, complete, nil, cut); got != want {
					t.Fatalf("cut at %d:\n%+v\nwant\n%+v", cut, got, want)
				}
			}
			if got := translate(t, input, complete, nil, every...); got != want {
				t.Fatalf("byte by byte:\n%+v\nwant\n%+v", got, want)
			}
		}
	}
}

func TestStopReasons(t *testing.T) {
	for reason, want := range map[string]string{
		"end_turn": "stop", "stop_sequence": "stop", "pause_turn": "stop", "max_tokens": "length",
		"model_context_window_exceeded": "length", "tool_use": "tool_calls", "refusal": "content_filter",
		"new_one": "stop",
	} {
		got := translate(t, start(startUsage)+last(reason, lastUsage)+stop, true, nil)
		if got.out != chunk(role)+finish(want)+usageEvent+done {
			t.Errorf("%s: %s", reason, got.out)
		}
	}
}

func TestAnswersThatEndEarly(t *testing.T) {
	begin := start(startUsage) + open("0", `{"type":"text","text":""}`) + text("0", "the") + text("0", " small")
	said := chunk(role) + chunk(`"content":"the"`) + chunk(`"content":" small"`)
	counted := dialect.Usage{Prompt: 18, Cached: 5, CacheWrite: 3, Completion: 2, Seen: true, Estimated: true}
	f := func(name, input, out string, complete, isDone bool, usage dialect.Usage) {
		t.Helper()
		got := translate(t, input, complete, nil)
		if got.out != out || got.usage != usage || got.done != isDone {
			t.Errorf("%s: %+v\nwant %s %+v", name, got, out, usage)
		}
	}
	whole := dialect.Usage{Prompt: 18, Cached: 5, CacheWrite: 3, Completion: 9, Reasoning: 4, Seen: true}
	f("client left", begin+text("0", "x")[:30], said, false, false, counted)
	f("upstream broke off", begin, said, true, false, counted)
	f("no message_stop", begin+last("end_turn", lastUsage), said+finish("stop")+usageEvent+done, true, true, whole)
	f("no empty line at the end", begin+last("end_turn", lastUsage)+strings.TrimSuffix(stop, "\n"),
		said+finish("stop")+usageEvent+done, true, true, whole)
	f("cut after the usage", begin+last("end_turn", lastUsage), said+finish("stop"), false, false, whole)
	noUsage := event("message_delta", `{"type":"message_delta","delta":{"stop_reason":"end_turn"}}`)
	f("no usage at the end", begin+noUsage+stop, said+finish("stop")+head+
		`],"usage":{"prompt_tokens":18,"completion_tokens":2,"total_tokens":20,"prompt_tokens_details":{"cached_tokens":5,"cache_creation_input_tokens":3},"completion_tokens_details":{"reasoning_tokens":0}}}`+"\n\n"+done, true, true, counted)
	none := dialect.Usage{Prompt: 8, Completion: 2, Estimated: true}
	bare := open("0", `{"type":"text","text":"the"}`) + text("0", " small")
	got := translate(t, bare, false, nil)
	if got.usage != none || !strings.Contains(got.out, `"id":"chatcmpl-g"`) {
		t.Errorf("without message_start: %+v", got)
	}
	long := event("message_start", `{"type":"message_start","message":{"id":"msg_`+strings.Repeat("x", 1000)+`","usage":`+startUsage+`}}`)
	if got := translate(t, long+bare, false, nil); strings.Contains(got.out, "xxx") || !strings.Contains(got.out, `"id":"chatcmpl-g"`) {
		t.Errorf("a long id is in every chunk: %.300s", got.out)
	}
	f("zero", start(`{"input_tokens":0,"output_tokens":0}`)+text("0", "a")+last("end_turn", `{"output_tokens":0}`)+stop,
		chunk(role)+chunk(`"content":"a"`)+finish("stop")+head+
			`],"usage":{"prompt_tokens":8,"completion_tokens":1,"total_tokens":9,"prompt_tokens_details":{"cached_tokens":0,"cache_creation_input_tokens":0},"completion_tokens_details":{"reasoning_tokens":0}}}`+"\n\n"+done, true, true, dialect.Usage{Prompt: 8, Completion: 1, Seen: true, Estimated: true})
	huge := translate(t, start(`{"input_tokens":9223372036854775807,"cache_read_input_tokens":-4,"output_tokens":1}`)+
		last("end_turn", `{"output_tokens":9223372036854775807}`)+stop, true, nil)
	if huge.usage != (dialect.Usage{Prompt: 1 << 40, Completion: 1 << 40, Seen: true}) {
		t.Errorf("huge: %+v", huge.usage)
	}
}

func TestErrorsInsideStreamsAreOurs(t *testing.T) {
	begin := start(startUsage) + open("0", `{"type":"text","text":""}`) + text("0", "the")
	fault := event("error", `{"type":"error","error":{"type":"overloaded_error","message":"node7.internal is Overloaded"}}`)
	got := translate(t, begin+fault+text("0", "late"), true, nil)
	want := chunk(role) + chunk(`"content":"the"`) +
		`data: {"error":{"message":"The model is overloaded; please retry.","type":"server_error","code":"model_overloaded","retry_after":30}}` + "\n\n" + done
	if got.out != want || !got.failed || !got.done || got.usage.Completion != 1 || got.usage.Prompt != 18 {
		t.Errorf("%+v", got)
	}
	large := translate(t, begin+`data: {"type":"content_block_delta","x":"`+strings.Repeat("y", 70<<10)+"\"}\n\n"+
		text("0", "late")+stop, true, nil, 60000, 70000)
	if !large.failed || !strings.Contains(large.out, `"code":"upstream_error"`) || strings.Contains(large.out, "late") {
		t.Errorf("%+v", large)
	}
}

func TestThinkBlocksAreRemoved(t *testing.T) {
	input := start(startUsage) + open("0", `{"type":"text","text":""}`) + text("0", "<thi") + text("0",
		"nk>x</think>\\nthe ") + text("0", "river <th") + last("end_turn", lastUsage) + stop
	got := translate(t, input, true, func(c *dialect.Chat) { c.DropThinking = true })
	want := chunk(role) + chunk(`"content":""`) + chunk(`"content":"the "`) + chunk(`"content":"river "`) +
		chunk(`"content":"<th"`) + finish("stop") + usageEvent + done
	if got.out != want {
		t.Errorf("%s", got.out)
	}
}

func TestMessagesBecomeCompletions(t *testing.T) {
	f := func(name, content, stopReason, message, reason string) {
		t.Helper()
		c := chatOf(t, prompt)
		body := `{"id":"msg_01X","type":"message","role":"assistant","model":"claude-there","content":[` + content +
			`],"stop_reason":"` + stopReason +
			`","stop_sequence":null,"usage":{"input_tokens":10,"cache_creation_input_tokens":3,"cache_read_input_tokens":5,"output_tokens":9,"output_tokens_details":{"thinking_tokens":4},"service_tier":"standard"}}`
		var s dialect.Scratch
		out, u, err := Dialect{}.Answer([]byte(body), c, target(c), &s)
		want := `{"id":"chatcmpl-01X","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":` + message + `},"logprobs":null,"finish_reason":"` + reason + `"}],"usage":{"prompt_tokens":18,"completion_tokens":9,"total_tokens":27,"prompt_tokens_details":{"cached_tokens":5,"cache_creation_input_tokens":3},"completion_tokens_details":{"reasoning_tokens":4}}}`
		if err != nil || timeless(string(out)) != want || !json.Valid(out) {
			t.Errorf("%s: %v\n got %s\nwant %s", name, err, out, want)
		}
		if u != (dialect.Usage{Prompt: 18, Cached: 5, CacheWrite: 3, Completion: 9, Reasoning: 4, Seen: true}) {
			t.Errorf("%s: %+v", name, u)
		}
	}
	f("text", `{"type":"text","text":"the \"small\"\n"},{"type":"text","text":" river"}`, "end_turn",
		`"the \"small\"\n river"`, "stop")
	f("nothing", ``, "refusal", `null`, "content_filter")
	f("tools", `{"type":"tool_use","id":"t1","name":"look","input":{"a":"\"ü\""}},{"type":"server_tool_use","id":"x","name":"y","input":{}},{"type":"tool_use","id":"t2","name":"go","input":{}}`, "tool_use",
		`null,"tool_calls":[{"id":"t1","type":"function","function":{"name":"look","arguments":"{\"a\":\"\\\"ü\\\"\"}"}},{"id":"t2","type":"function","function":{"name":"go","arguments":"{}"}}]`, "tool_calls")
	f("thoughts", `{"type":"thinking","thinking":"mi","signature":"s1"},{"type":"redacted_thinking","data":"d"},{"type":"thinking","thinking":"nd","signature":"s2"},{"type":"text","text":"a"}`, "max_tokens",
		`"a","reasoning_content":"mind","reasoning_details":[{"type":"reasoning.text","text":"mi","signature":"s1","format":"anthropic-claude-v1","index":0},{"type":"reasoning.encrypted","data":"d","format":"anthropic-claude-v1","index":1},{"type":"reasoning.text","text":"nd","signature":"s2","format":"anthropic-claude-v1","index":2}],"thought_signature":"s2"`, "length")

	c := chatOf(t, prompt)
	var s dialect.Scratch
	for _, body := range []string{`{}`, `{"type":"error","error":{"type":"api_error"}}`, `<html>`,
		`{"type":"message"`} {
		if out, _, err := (Dialect{}).Answer([]byte(body), c, target(c), &s); err == nil {
			t.Errorf("%s became %s", body, out)
		}
	}
	_, u, err := Dialect{}.Answer(
		[]byte(`{"type":"message","id":"msg_1","content":[{"type":"text","text":"the small"},{"type":"tool_use","id":"t","name":"go","input":{}}]}`), c, target(c), &s)
	if err != nil || u != (dialect.Usage{Prompt: 8, Completion: 4, Estimated: true}) {
		t.Errorf("%v %+v", err, u)
	}
}

// A model's thought of one turn must come back to it unchanged in the next, also through
// a client that only joins chunks.
func TestThoughtsSurviveARoundTrip(t *testing.T) {
	var text, signature string
	var details []json.RawMessage
	for _, e := range strings.Split(translate(t, everything(), true, nil).out, "\n\n") {
		var v struct {
			Choices []struct {
				Delta struct {
					Text      string            `json:"reasoning_content"`
					Details   []json.RawMessage `json:"reasoning_details"`
					Signature string            `json:"thought_signature"`
				}
			}
		}
		if json.Unmarshal([]byte(strings.TrimPrefix(e, "data: ")), &v) != nil || len(v.Choices) == 0 {
			continue
		}
		d := v.Choices[0].Delta
		text += d.Text
		signature += d.Signature
		details = append(details, d.Details...)
	}
	message, _ := json.Marshal(map[string]any{"role": "assistant", "content": "a", "reasoning_content": text,
		"reasoning_details": details, "thought_signature": signature})
	got, err := sent(t, chatOf(t, `{"model":"m","messages":[`+string(message)+`]}`))
	want := `"content":[{"type":"thinking","thinking":"mi\nnd","signature":"c2ln"},{"type":"redacted_thinking","data":"ZGF0YQ=="},{"type":"text","text":"a"}]`
	if err != nil || !strings.Contains(got, want) {
		t.Errorf("%v %s", err, got)
	}
}
