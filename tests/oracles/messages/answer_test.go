package messages_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/anthropics/anthropic-sdk-go"

	"farebox/providers/chat/dialect"
	"farebox/providers/chat/messages"
)

// message has the official package read the translated completion.
func message(t testing.TB, f *messages.Form, c *dialect.Chat, completion string) (string, *anthropic.Message) {
	t.Helper()
	out, err := wholeAnswer(f, completion, c)
	if err != nil {
		t.Fatal(err)
	}
	var m anthropic.Message
	if err := json.Unmarshal(out, &m); err != nil {
		t.Fatalf("%s: %v", out, err)
	}
	return string(out), &m
}

const usage = `{"prompt_tokens":100,"completion_tokens":20,"total_tokens":120,"prompt_tokens_details":{"cached_tokens":30,"cache_creation_input_tokens":10},"completion_tokens_details":{"reasoning_tokens":5}}`

const told = `{"input_tokens":60,"cache_creation_input_tokens":10,"cache_read_input_tokens":30,"output_tokens":20,"output_tokens_details":{"thinking_tokens":5},"server_tool_use":null,"cache_creation":{"ephemeral_5m_input_tokens":10,"ephemeral_1h_input_tokens":0},"inference_geo":null,"service_tier":"standard","speed":null}`

func completion(message, end string) string {
	return `{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant",` +
		message + `},"logprobs":null,` + end + `}],"usage":` + usage + `}`
}

func TestAnswer(t *testing.T) {
	t.Parallel()
	const stop = `"finish_reason":"stop"`
	for name, c := range map[string]struct{ message, end, content, stopped string }{
		"a text":   {`"content":"Hi \"you\"\n"`, stop, `{"type":"text","text":"Hi \"you\"\n"}`, `"end_turn"`},
		"nothing":  {`"content":null`, stop, ``, `"end_turn"`},
		"too long": {`"content":"a"`, `"finish_reason":"length"`, `{"type":"text","text":"a"}`, `"max_tokens"`},
		"parts":    {`"content":[{"type":"text","text":"a\n"},{"type":"text","text":"b"}]`, stop, `{"type":"text","text":"a\nb"}`, `"end_turn"`},
		"a call": {
			`"content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"a\":\"b\\n\"}"}},{"id":"c2","type":"function","function":{"name":"g","arguments":""}},{"id":"c3","type":"function","function":{"name":"h","arguments":"42"}}]`,
			`"finish_reason":"tool_calls"`,
			`{"type":"tool_use","id":"c1","name":"f","input":{"a":"b\n"},"caller":{"type":"direct"}},{"type":"tool_use","id":"c2","name":"g","input":{},"caller":{"type":"direct"}},{"type":"tool_use","id":"c3","name":"h","input":{"arguments":"42"},"caller":{"type":"direct"}}`,
			`"tool_use"`,
		},
		"a call of a server that says stop": {
			`"content":"","tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}}]`, stop,
			`{"type":"tool_use","id":"c1","name":"f","input":{},"caller":{"type":"direct"}}`, `"tool_use"`,
		},
		"a thought": {`"content":"a","reasoning_content":"hm"`, stop, `{"type":"thinking","thinking":"hm","signature":""},{"type":"text","text":"a"}`, `"end_turn"`},
		"thoughts with signatures": {
			`"content":"a","reasoning_content":"hmx","reasoning_details":[{"type":"reasoning.text","text":"hm","signature":"s","format":"anthropic-claude-v1","index":0},{"type":"reasoning.encrypted","data":"d","format":"anthropic-claude-v1","index":1},{"type":"reasoning.text","text":"x","signature":"z","format":"anthropic-claude-v1","index":2}]`, stop,
			`{"type":"thinking","thinking":"hm","signature":"s"},{"type":"redacted_thinking","data":"d"},{"type":"thinking","thinking":"x","signature":"z"},{"type":"text","text":"a"}`, `"end_turn"`,
		},
		"a signature beside the thought": {
			`"content":"a","reasoning_content":"hm","reasoning_details":[{"type":"reasoning.text","signature":"s","format":"anthropic-claude-v1","index":0}]`, stop,
			`{"type":"thinking","thinking":"hm","signature":"s"},{"type":"text","text":"a"}`, `"end_turn"`,
		},
		"sources": {
			`"content":"a","annotations":[{"type":"url_citation","url_citation":{"url":"https://x","title":"T","start_index":0,"end_index":1,"content":"c"}}]`, stop,
			`{"type":"text","text":"a","citations":[{"type":"web_search_result_location","url":"https://x","title":"T","encrypted_index":"","cited_text":"c"}]}`, `"end_turn"`,
		},
		"a refusal": {`"content":null,"refusal":"no"`, `"finish_reason":"content_filter"`, `{"type":"text","text":"no"}`, `"refusal"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, chat := asked(t, with(thinking))
			got, m := message(t, f, chat, completion(c.message, c.end))
			details := "null"
			if c.stopped == `"refusal"` {
				details = `{"type":"refusal","category":null,"explanation":null}`
			}
			same(t, got, `{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[`+c.content+
				`],"stop_reason":`+c.stopped+`,"stop_sequence":null,"stop_details":`+details+
				`,"container":null,"diagnostics":null,"usage":`+told+`}`)
			if m.ID != "msg_1" || m.Usage.InputTokens != 60 || m.Usage.CacheReadInputTokens != 30 {
				t.Errorf("the package reads %+v", m)
			}
		})
	}
}

// The answer names the server's stop sequence.
func TestAnswerNamesStopSequences(t *testing.T) {
	t.Parallel()
	f, c := asked(t, with(`"stop_sequences":["END","\n\n"]`))
	for said, want := range map[string]string{`"END"`: "END", `"\n\n"`: "\n\n", `"stop"`: "", `null`: "", `7`: ""} {
		_, m := message(t, f, c, completion(`"content":"a"`, `"finish_reason":"stop","stop_reason":`+said))
		reason := anthropic.StopReasonEndTurn
		if want != "" {
			reason = anthropic.StopReasonStopSequence
		}
		if m.StopSequence != want || m.StopReason != reason {
			t.Errorf("%s: %s %q", said, m.StopReason, m.StopSequence)
		}
	}
}

// Searches precede the answer, as in that API.
func TestAnswerReportsSearches(t *testing.T) {
	t.Parallel()
	f, c := asked(t, hello)
	whole := completion(`"content":"a"`, `"finish_reason":"stop"`)
	whole = whole[:len(whole)-1] + `,"cost":{"usd":0.1,"diem":0},"svc_parameters":{"enable_web_search":"on","web_search_citations":[{"title":"T","url":"https://x","content":"c","date":"2026-01-02"}]}}`
	out, m := message(t, f, c, whole)
	if len(m.Content) != 3 || m.Content[0].Type != "server_tool_use" || m.Content[1].Type != "web_search_tool_result" ||
		m.Content[0].ID != m.Content[1].ToolUseID || m.Usage.ServerToolUse.WebSearchRequests != 1 {
		t.Fatal(out)
	}
	// The next question has them, and is understood.
	blocks, err := json.Marshal(m.ToParam())
	if err != nil {
		t.Fatal(err)
	}
	_, chat, wrong := read(t, talk(`{"role":"user","content":"q"},`+string(blocks)+`,{"role":"user","content":"and?"}`))
	if len(wrong) > 0 {
		t.Fatal(wrong)
	}
	same(t, chat, `{"model":"m","messages":[{"role":"user","content":"q"},{"role":"assistant","content":"a"},{"role":"user","content":"and?"}],"max_completion_tokens":9000}`)
}

// Thoughts of another maker come back to it as they were.
func TestThoughtsOfOthersComeBack(t *testing.T) {
	t.Parallel()
	const sealed = `[{"type":"reasoning.encrypted","data":"xyz","format":"openai-responses-v1","id":"rs_1","index":0},{"type":"reasoning.text","text":"hm","signature":"s","format":"google-gemini-v1","index":1}]`
	f, c := asked(t, with(thinking))
	out, m := message(t, f, c, completion(`"content":"a","reasoning_content":"hm","reasoning_details":`+sealed, `"finish_reason":"stop"`))
	if len(m.Content) != 3 || m.Content[0].Type != "redacted_thinking" || m.Content[1].Thinking != "hm" {
		t.Fatal(out)
	}
	blocks, err := json.Marshal(m.ToParam())
	if err != nil {
		t.Fatal(err)
	}
	_, chat, _ := read(t, talk(`{"role":"user","content":"q"},`+string(blocks)))
	same(t, chat, `{"model":"m","messages":[{"role":"user","content":"q"},{"role":"assistant","content":"a","reasoning_content":"hm","reasoning_details":`+sealed+`}],"max_completion_tokens":9000}`)
}

func TestAnswerHidesThoughts(t *testing.T) {
	t.Parallel()
	f, c := asked(t, with(`"thinking":{"type":"adaptive","display":"omitted"}`))
	_, m := message(t, f, c, completion(`"content":"a","reasoning_content":"hm","reasoning_details":[{"type":"reasoning.text","signature":"s","format":"anthropic-claude-v1","index":0}]`, `"finish_reason":"stop"`))
	if len(m.Content) != 2 || m.Content[0].Thinking != "" || m.Content[0].Signature != "s" {
		t.Errorf("%+v", m.Content)
	}
}

func TestAnswerOfNoCompletion(t *testing.T) {
	t.Parallel()
	f, c := asked(t, hello)
	for _, body := range []string{`{}`, `[]`, `{"choices":[]}`, `{"choices":null}`, `nonsense`} {
		if out, err := wholeAnswer(f, body, c); err == nil {
			t.Errorf("%s became %s", body, out)
		}
	}
}

// A server that writes a member twice is taken at its last word, as other readers of
// JSON take it.
func TestMembersThatComeTwice(t *testing.T) {
	t.Parallel()
	f, c := asked(t, hello)
	out, err := wholeAnswer(f, `{"id":"x","choices":[{"message":{"content":"a","content":"hi"}}],"usage":{"prompt_tokens":1,"completion_tokens":1},`+
		`"usage":{"prompt_tokens":7,"completion_tokens":1}}`, c)
	if err != nil || !strings.Contains(string(out), `"text":"hi"`) || !strings.Contains(string(out), `"input_tokens":7,`) {
		t.Errorf("%v: %s", err, out)
	}
	s := dialect.OpenForm(c)
	defer s.Release()
	events := string(s.Pass([]byte("data: {\"id\":\"x\",\"id\":\"x\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hi\"}}]}\n\n")))
	if !strings.Contains(events, `"text":"hi"`) {
		t.Error(events)
	}
}
