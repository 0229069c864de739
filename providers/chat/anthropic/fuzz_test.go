package anthropic

import (
	"encoding/json"
	"strings"
	"testing"

	"farebox/providers/chat/dialect"
	"farebox/providers/chat/messages"
)

// FuzzAnthropicStream holds a stream in pieces against the stream at once, and
// every event that goes out against a JSON parser.
func FuzzAnthropicStream(f *testing.F) {
	f.Add([]byte(everything()), uint16(11), uint8(0))
	f.Add([]byte(strings.ReplaceAll(everything(), "\n", "\r\n")), uint16(1), uint8(1))
	f.Add([]byte(start(startUsage)+event("error", `{"type":"error","error":{}}`)), uint16(5), uint8(2))
	f.Add([]byte("data: {\"type\":\"content_block_start\",\"content_block\":{\"type\":\"text\",\"text\":\"<think>\"}}\n\n"+text("7", `</think>\u0041`)), uint16(2), uint8(4))
	f.Fuzz(func(t *testing.T, input []byte, piece uint16, mode uint8) {
		if len(input) > 32<<10 {
			return
		}
		change := func(c *dialect.Chat) { c.DropThinking = mode&4 == 4 }
		want := translate(t, string(input), mode&1 == 0, change)
		var cuts []int
		step := int(piece)%97 + 1
		for at := step; at < len(input); at += step {
			cuts = append(cuts, at)
			step = step*31%97 + 1
		}
		if got := translate(t, string(input), mode&1 == 0, change, cuts...); got != want {
			t.Fatalf("%q\nin pieces %v:\n%+v\nat once:\n%+v", input, cuts, got, want)
		}
		if !json.Valid(input) && !validData(input) {
			return // broken strings of the upstream stay broken
		}
		for _, e := range strings.Split(strings.TrimSuffix(want.out, "\n\n"), "\n\n") {
			if data := strings.TrimPrefix(e, "data: "); e != "" && data != "[DONE]" && !json.Valid([]byte(data)) {
				t.Fatalf("%q\nmade %s", input, data)
			}
		}
		if u := want.usage; u.Prompt < 0 || u.Completion < 0 || u.Cached+u.CacheWrite > u.Prompt ||
			u.Reasoning > u.Completion {
			t.Fatalf("impossible usage %+v", u)
		}
	})
}

// validData says that all data of the events is JSON.
func validData(input []byte) bool {
	var e dialect.Events
	e.Feed(append([]byte(nil), input...))
	for more := e.Next(); more || e.AtEnd(); more = e.Next() {
		if len(e.Data) > 0 && !json.Valid(e.Data) {
			return false
		}
	}
	return true
}

// FuzzAnthropicRequest: whatever a client sends, the upstream gets JSON.
func FuzzAnthropicRequest(f *testing.F) {
	f.Add([]byte(prompt))
	f.Add([]byte(`{"model":"m","messages":[{"role":"assistant","content":null,"tool_calls":[{"id":"1","function":{"name":"n","arguments":"{\"a\":1}"}}],"reasoning_details":[{"text":"x","signature":"y"}]},{"role":"tool","tool_call_id":"1","content":[{"type":"text","text":"r"}]}],"stop":["a"],"tools":[{"type":"function","function":{"name":"n"}}],"tool_choice":"required"}`))
	f.Add([]byte(`{"model":"m","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:a;base64,\u0041"}},{"type":"file","file":{"file_data":"data:text/x;base64,QQ==","filename":"f"}}]}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		c := &dialect.Chat{Body: body, Doc: newDoc(), Choices: 1}
		if !json.Valid(body) || c.Doc.Skim(body, testShape) != nil {
			return
		}
		c.Model = chatOf(t, prompt).Model
		var probe struct {
			Messages []struct{ Role string }
		}
		if json.Unmarshal(body, &probe) != nil {
			return // routes refuses these
		}
		if _, err := sent(t, c); err != nil {
			if _, ok := err.(*dialect.Unsupported); !ok {
				t.Fatal(err)
			}
		}
	})
}

// FuzzAnthropicRelay holds a relayed stream in pieces against the stream at once, and
// its meter against that of the translated one.
func FuzzAnthropicRelay(f *testing.F) {
	f.Add([]byte(everything()), uint16(11), true)
	f.Add([]byte(strings.ReplaceAll(everything(), "\n", "\r\n")), uint16(1), false)
	f.Add([]byte(start(startUsage)+event("error", `{"type":"error","error":{}}`)+stop), uint16(5), true)
	f.Add([]byte("data: {\"type\":\"message_start\",\ndata: \"message\":{\"model\":{\"x\":1}}}\n\ndata: {}"), uint16(3), true)
	f.Fuzz(func(t *testing.T, input []byte, piece uint16, complete bool) {
		if len(input) > 32<<10 {
			return
		}
		want := relayed(t, string(input), complete)
		var cuts []int
		step := int(piece)%97 + 1
		for at := step; at < len(input); at += step {
			cuts = append(cuts, at)
			step = step*31%97 + 1
		}
		if got := relayed(t, string(input), complete, cuts...); got != want {
			t.Fatalf("%q\nin pieces %v:\n%+v\nat once:\n%+v", input, cuts, got, want)
		}
		if metered := translate(t, string(input), complete, nil); metered.usage != want.usage ||
			metered.failed != want.failed || metered.done != want.done {
			t.Fatalf("%q\nrelayed %+v\ntranslated %+v", input, want, metered)
		}
		c := toldOf(t, `{"model":"m","max_tokens":500,"messages":[{"role":"user","content":"hi"}],"stream":true}`)
		s := Native{}.Stream(c, target(c))
		s.Pass(input)
		_, _ = s.Cut(nil)
		s.Release()
	})
}

// FuzzNativeRequest: whatever a client sends, the upstream gets JSON with its own name
// of the model.
func FuzzNativeRequest(f *testing.F) {
	f.Add([]byte(`{"model":"m","max_tokens":5,"messages":[{"role":"assistant","content":[{"type":"thinking","thinking":"a","signature":""},{"type":"text","text":"a","cache_control":{"ttl":"1h"}}]}],"system":"x","top_k":1,"thinking":{"budget_tokens":2000}}`))
	f.Add([]byte(`{"messages":[{"role":"assistant","content":[{"type":"redacted_thinking","data":"fbx1.a"}]}],"model":"m","system":[],"metadata":{},"max_tokens":70}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		doc := newDoc()
		if !json.Valid(body) || doc.SkimStrict(body, messages.Shape) != nil || doc.TopIndex(messages.TopModel) < 0 {
			return
		}
		form, chat, _ := messages.Read(body, doc, false)
		c := chatOf(t, prompt)
		if !json.Valid(chat) {
			t.Fatalf("%q becomes %q", body, chat)
		}
		c.Form, c.Told, c.ToldDoc, c.SystemPrompt = form, body, doc, []byte("Be good.")
		c.AskedCompletion, c.MaxCompletion = 70, 60
		sentAsTold(t, c, "stop", "metadata", "top_k")
	})
}
