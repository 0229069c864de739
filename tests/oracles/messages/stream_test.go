package messages_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/anthropics/anthropic-sdk-go"

	"farebox/providers/chat/dialect"
	"farebox/providers/chat/messages"
)

// stream passes chunks, cut at some places, and gives the client's events.
func passed(t testing.TB, f *messages.Form, c *dialect.Chat, chunks string, cuts ...int) string {
	t.Helper()
	c.Form = f
	s := dialect.OpenForm(c)
	defer s.Release()
	var out strings.Builder
	from := 0
	for _, cut := range append(cuts, len(chunks)) {
		piece := []byte(chunks[from:cut])
		out.Write(s.Pass(piece))
		for i := range piece {
			piece[i] = '#'
		}
		from = cut
	}
	out.Write(s.Finish())
	return out.String()
}

// heard has the official package put the events together. It fails where the package would.
func heard(t testing.TB, events string) (m anthropic.Message, failed string) {
	t.Helper()
	open := map[int64]bool{}
	for e := range strings.SplitSeq(strings.TrimSuffix(events, "\n\n"), "\n\n") {
		name, data, ok := strings.Cut(e, "\n")
		name, named := strings.CutPrefix(name, "event: ")
		data, has := strings.CutPrefix(data, "data: ")
		if !ok || !named || !has || strings.Contains(data, "\n") {
			t.Fatalf("no event: %q", e)
		}
		if failed != "" {
			t.Fatalf("%s follows an error", e)
		}
		if name == "error" {
			var e struct {
				Error struct{ Type, Message string }
			}
			if err := json.Unmarshal([]byte(data), &e); err != nil || e.Error.Type == "" {
				t.Fatalf("%s: %v", data, err)
			}
			failed = e.Error.Type + ": " + e.Error.Message
			continue
		}
		var event anthropic.MessageStreamEventUnion
		if err := json.Unmarshal([]byte(data), &event); err != nil || event.Type != name {
			t.Fatalf("%q: %v", e, err)
		}
		switch v := event.AsAny().(type) {
		case nil:
			t.Fatalf("the package knows no %q", e)
		case anthropic.ContentBlockStartEvent:
			if open[v.Index] = true; v.ContentBlock.AsAny() == nil {
				t.Fatalf("the package knows no %q", e)
			}
		case anthropic.ContentBlockDeltaEvent:
			if !open[v.Index] || v.Delta.AsAny() == nil {
				t.Fatalf("%q is for no open block, or of no kind", e)
			}
		case anthropic.ContentBlockStopEvent:
			if !open[v.Index] {
				t.Fatalf("%q is for no open block", e)
			}
			delete(open, v.Index)
		}
		if err := m.Accumulate(event); err != nil {
			t.Fatalf("%q: %v", e, err)
		}
	}
	if failed == "" && (len(open) > 0 || !strings.HasSuffix(events, "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n")) {
		t.Fatalf("it has no end: %s", events)
	}
	return m, failed
}

// chunk is one of a stream; rest follows its choices.
func chunk(delta, finish, rest string) string {
	return `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{` + delta +
		`},"logprobs":null,"finish_reason":` + finish + `}]` + rest + "}\n\n"
}

func chunks(deltas ...string) string {
	var b strings.Builder
	for _, d := range deltas {
		b.WriteString(chunk(d, "null", ""))
	}
	return b.String()
}

const (
	done      = "data: [DONE]\n\n"
	usageLast = `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[],"usage":` + usage + "}\n\n"
)

// everything is a stream of all that there is.
func everything() string {
	return chunks(`"role":"assistant","content":""`, `"reasoning_content":"h"`, `"reasoning_content":"m \"x\""`,
		`"reasoning_content":"!"`,
		`"reasoning_details":[{"type":"reasoning.text","signature":"s","format":"anthropic-claude-v1","index":0}],"thought_signature":"s"`,
		`"reasoning_details":[{"type":"reasoning.encrypted","data":"d","format":"anthropic-claude-v1","index":1}]`,
		`"content":"a"`, `"content":"\u00e9\n"`, `"content":"c"`, `"content":""`,
		`"annotations":[{"type":"url_citation","url_citation":{"url":"https://x","title":"T","content":"c"}}]`,
		`"tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"f","arguments":""}}]`,
		`"tool_calls":[{"index":0,"function":{"arguments":"{\"a\":"}}]`,
		`"tool_calls":[{"index":0,"function":{"arguments":"\"b\""}}]`,
		`"tool_calls":[{"index":0,"function":{"arguments":"}"}}]`,
		`"tool_calls":[{"index":1,"id":"c2","type":"function","function":{"name":"g","arguments":"{}"}}]`) +
		chunk("", `"tool_calls"`, "") + usageLast + done
}

func TestStream(t *testing.T) {
	t.Parallel()
	f, c := asked(t, with(`"stream":true,`+thinking))
	m, failed := heard(t, passed(t, f, c, everything()))
	if failed != "" {
		t.Fatal(failed)
	}
	got, err := json.Marshal(m.ToParam())
	if err != nil {
		t.Fatal(err)
	}
	same(t, string(got), `{"role":"assistant","content":[{"type":"thinking","thinking":"hm \"x\"!","signature":"s"},{"type":"redacted_thinking","data":"d"},{"type":"text","text":"aé\nc","citations":[{"type":"web_search_result_location","url":"https://x","title":"T","encrypted_index":"","cited_text":"c"}]},{"type":"tool_use","id":"c1","name":"f","input":{"a":"b"},"caller":{"type":"direct"}},{"type":"tool_use","id":"c2","name":"g","input":{},"caller":{"type":"direct"}}]}`)
	if m.ID != "msg_1" || m.Model != "m" || m.StopReason != "tool_use" || m.Usage.InputTokens != 60 ||
		m.Usage.OutputTokens != 20 || m.Usage.CacheReadInputTokens != 30 || m.Usage.OutputTokensDetails.ThinkingTokens != 5 {
		t.Errorf("%+v", m)
	}
}

// Wherever a stream is cut, it says the same.
func TestStreamInPieces(t *testing.T) {
	t.Parallel()
	f, c := asked(t, with(`"stream":true,`+thinking))
	for _, all := range []string{everything(), strings.ReplaceAll(everything(), "\n", "\r\n"),
		strings.TrimSuffix(everything(), "\n\n")} {
		want := passed(t, f, c, all)
		for at := range all {
			if got := passed(t, f, c, all, at); got != want {
				t.Fatalf("cut at %d: %s\nnot %s", at, got, want)
			}
		}
		var every []int
		for at := range all {
			every = append(every, at)
		}
		if got := passed(t, f, c, all, every...); got != want {
			t.Fatalf("byte by byte: %s\nnot %s", got, want)
		}
	}
}

// Chunks that are not like the one before are read all the same.
func TestStreamOfStrangeServers(t *testing.T) {
	t.Parallel()
	text := func(m *anthropic.Message) string {
		var b strings.Builder
		for _, block := range m.Content {
			fmt.Fprintf(&b, "%s(%s%s%s)", block.Type, block.Text, block.Thinking, string(block.Input))
		}
		return b.String() + string(m.StopReason)
	}
	for name, s := range map[string]struct{ in, out string }{
		"a member of random length behind": {
			chunk(`"content":"a"`, "null", `,"obfuscation":"xxx"`) + chunk(`"content":"b"`, "null", `,"obfuscation":"y"`) +
				chunk(`"content":"c"`, `"length"`, `,"obfuscation":"y"`) + done, "text(abc)max_tokens",
		},
		"usage with every chunk": {
			chunk(`"content":"a"`, "null", `,"usage":{"prompt_tokens":1,"completion_tokens":1}`) +
				chunk(`"content":"b"`, "null", `,"usage":{"prompt_tokens":1,"completion_tokens":2}`) +
				chunk(``, `"stop"`, `,"usage":{"prompt_tokens":1,"completion_tokens":2}`) + done, "text(ab)end_turn",
		},
		"null beside every text": {
			chunks(`"role":"assistant","content":null,"reasoning_content":"h","tool_calls":null`,
				`"content":null,"reasoning_content":"m","tool_calls":null`, `"content":"a","reasoning_content":null,"tool_calls":null`,
				`"content":"b","reasoning_content":null,"tool_calls":null`) + done, "thinking(hm)text(ab)end_turn",
		},
		"a text and a thought in one": {
			chunks(`"content":"a","reasoning_content":"h"`, `"content":"b","reasoning_content":"m"`) + done,
			"thinking(h)text(a)thinking(m)text(b)end_turn",
		},
		"thoughts under another name, and in details": {
			chunks(`"reasoning":"h","reasoning_details":[{"type":"reasoning.text","text":"h","format":"x","index":0}]`,
				`"reasoning":"m","reasoning_details":[{"type":"reasoning.text","text":"m","format":"x","index":0}]`,
				`"content":"a"`) + done, "thinking(hm)text(a)end_turn",
		},
		"thoughts in details alone": {
			chunks(`"reasoning_details":[{"type":"reasoning.summary","summary":"h","format":"x","index":0}]`,
				`"content":"a"`) + done, "thinking(h)text(a)end_turn",
		},
		"a whole call in one chunk, without an index": {
			chunks(`"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}}]`,
				`"tool_calls":[{"id":"d","type":"function","function":{"name":"g","arguments":"{}"}}]`) +
				chunk("", `"stop"`, "") + done, `tool_use({"a":1})tool_use({})tool_use`,
		},
		"two calls in one chunk": {
			chunks(`"tool_calls":[{"index":0,"id":"c","type":"function","function":{"name":"f","arguments":"{}"}},{"index":1,"id":"d","type":"function","function":{"name":"g","arguments":"{}"}}]`) +
				chunk("", `"tool_calls"`, "") + done, `tool_use({})tool_use({})tool_use`,
		},
		"a custom call, which has no object": {
			chunks(`"tool_calls":[{"index":0,"id":"c","type":"custom","custom":{"name":"x","input":"not "}}]`,
				`"tool_calls":[{"index":0,"custom":{"input":"json"}}]`, `"tool_calls":[{"index":0,"custom":{"input":"!"}}]`,
				`"content":"a"`) + done, "text(a)end_turn",
		},
		"no end":                {chunks(`"content":"a"`), "text(a)end_turn"},
		"comments":              {": hi\n\n" + chunks(`"content":"a"`) + ": ho\n\n" + chunks(`"content":"b"`) + done, "text(ab)end_turn"},
		"data on several lines": {"data: {\"choices\":[{\"delta\":\ndata: {\"content\":\"a\"}}]}\n\n" + done, "text(a)end_turn"},
		"nothing at all":        {done, "end_turn"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, c := asked(t, with(`"stream":true,`+thinking))
			m, failed := heard(t, passed(t, f, c, s.in))
			if got := text(&m); got != s.out || failed != "" {
				t.Errorf("got  %s %s\nwant %s", got, failed, s.out)
			}
		})
	}
}

// A failure in the middle is the error of that API, and the last event.
func TestStreamFails(t *testing.T) {
	t.Parallel()
	f, c := asked(t, with(`"stream":true,`+thinking))
	for in, want := range map[string]string{
		`{"error":{"message":"busy \"now\"","type":"server_error","code":"model_overloaded","retry_after":30}}`: `overloaded_error: busy "now"`,
		`{"error":{"message":"x","type":"content_filter_error","code":"content_blocked_by_provider"}}`:          "invalid_request_error: x",
		`{"error":{"message":"x","type":"server_error","code":"upstream_error"}}`:                               "api_error: x",
	} {
		events := passed(t, f, c, chunks(`"content":"a"`)+"data: "+in+"\n\n"+done)
		if _, failed := heard(t, events); failed != want {
			t.Errorf("%s: %s", in, failed)
		}
	}
	c.Model.Chat.ContextTokens = 200
	long := `data: {"error":{"message":"x","type":"invalid_request_error","code":"context_length_exceeded"}}` + "\n\n"
	if _, failed := heard(t, passed(t, f, c, chunks(`"content":"a"`)+long+done)); failed != "invalid_request_error: prompt is too long: 201 tokens > 200 maximum" {
		t.Errorf("a prompt that is too long: %s", failed)
	}
	mixed := chunks(`"tool_calls":[{"index":0,"id":"c","type":"function","function":{"name":"f","arguments":""}}]`,
		`"tool_calls":[{"index":1,"id":"d","type":"function","function":{"name":"g","arguments":""}}]`,
		`"tool_calls":[{"index":0,"function":{"arguments":"{}"}}]`) + done
	if _, failed := heard(t, passed(t, f, c, mixed)); !strings.HasPrefix(failed, "api_error") {
		t.Errorf("mixed calls: %q", failed)
	}
	s := dialect.OpenForm(c)
	defer s.Release()
	events := string(s.Pass([]byte(chunks(`"content":"a"`) + "data: {\"cho")))
	events += string(s.Fail(&dialect.Fault{Code: "insufficient_balance", Kind: "insufficient_quota", Message: "used up"}))
	if _, failed := heard(t, events+string(s.Finish())); failed != "billing_error: used up" {
		t.Errorf("%s", events)
	}
}

// Searches precede the text, as blocks of their own.
func TestStreamReportsSearches(t *testing.T) {
	t.Parallel()
	f, c := asked(t, with(`"stream":true,`+thinking))
	first := strings.Replace(chunk(`"role":"assistant","content":""`, "null", ""), "data: {",
		`data: {"svc_parameters":{"enable_web_search":"on","web_search_citations":[{"title":"T","url":"https://x"}]},`, 1)
	m, _ := heard(t, passed(t, f, c, first+chunks(`"content":"a"`)+usageLast+done))
	if len(m.Content) != 3 || m.Content[1].Type != "web_search_tool_result" || m.Content[2].Text != "a" ||
		m.Usage.ServerToolUse.WebSearchRequests != 1 {
		t.Errorf("%+v", m)
	}
}
