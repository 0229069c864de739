package anthropic

import (
	"encoding/json"
	"strings"
	"testing"

	"farebox/providers/chat/dialect"
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
