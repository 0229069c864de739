package gemini

import (
	"encoding/json"
	"strings"
	"testing"

	"farebox/providers/chat/dialect"
	"farebox/proxy"
	"farebox/proxy/scan"
)

// FuzzGeminiStream holds a stream in pieces against the stream at once, and every
// event that goes out against a JSON parser.
func FuzzGeminiStream(f *testing.F) {
	f.Add([]byte(everything()), uint16(11), uint8(0))
	f.Add([]byte(strings.ReplaceAll(everything(), "\r\n", "\n")), uint16(1), uint8(1))
	f.Add([]byte(text("a")+event(`{"error": {"code": 503}}`)), uint16(5), uint8(2))
	f.Add([]byte(text("<think>")+text(`</think>\u0041`)+last("STOP", "")), uint16(2), uint8(4))
	f.Fuzz(func(t *testing.T, input []byte, piece uint16, mode uint8) {
		if len(input) > 32<<10 {
			return
		}
		change := func(c *dialect.Chat) { c.DropThinking, c.Choices = mode&4 == 4, int64(mode>>4)+1 }
		// An answer without an id gets one of ours, another one each time.
		if !strings.Contains(string(input), `"responseId": "r1"`) {
			return
		}
		want := translate(t, string(input), mode&1 == 0, change)
		var cuts []int
		step := int(piece)%97 + 1
		for at := step; at < len(input); at += step {
			cuts = append(cuts, at)
			step = step*31%97 + 1
		}
		same := func(r result) result {
			if strings.Contains(r.out, `"id":"chatcmpl-g`) {
				r.out = ""
			}
			return r
		}
		if got := translate(t, string(input), mode&1 == 0, change, cuts...); same(got) != same(want) {
			t.Fatalf("%q\nin pieces %v:\n%+v\nat once:\n%+v", input, cuts, got, want)
		}
		if !validData(input) {
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

// FuzzGeminiAnswer: whatever an upstream says, the client gets JSON or an error.
func FuzzGeminiAnswer(f *testing.F) {
	f.Add([]byte(`{"candidates": [{"content": {"parts": [{"text": "a","thought": true,"thoughtSignature": "s"},{"functionCall": {"name": "n","args": {"a": [1]}}},{"inlineData": {"mimeType": "x","data": "y"}}]},"finishReason": "STOP","groundingMetadata": {"groundingChunks": [{"web": {"uri": "u"}}],"groundingSupports": [{"groundingChunkIndices": [0]}]},"logprobsResult": {"chosenCandidates": [{"token": "a"}]}}],` + usage2 + tail))
	f.Add([]byte(`{"promptFeedback": {"blockReason": "SAFETY"}}`))
	f.Add([]byte(`{"candidates": [{"content": {"parts": [null,1,{"text": null,"functionCall": 1}]},"index": -1,"finishReason": 7}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		c := chatOf(t, prompt)
		var s dialect.Scratch
		out, u, err := Dialect{}.Answer(body, c, targetOf(c, newer), &s)
		if err != nil || !json.Valid(body) {
			return
		}
		if !json.Valid(out) {
			t.Fatalf("%q\nmade %s", body, out)
		}
		if u.Prompt < 0 || u.Completion < 0 || u.Cached+u.CacheWrite > u.Prompt || u.Reasoning > u.Completion {
			t.Fatalf("impossible usage %+v", u)
		}
	})
}

// FuzzGeminiRequest: whatever a client sends, the upstream gets JSON that the
// vendor's types can read.
func FuzzGeminiRequest(f *testing.F) {
	f.Add([]byte(prompt), false)
	f.Add([]byte(`{"model":"m","messages":[{"role":"assistant","content":null,"tool_calls":[{"id":"1","function":{"name":"n","arguments":"{\"a\":1}"}}],"reasoning_details":[{"type":"reasoning.encrypted","id":"1","data":"y"}]},{"role":"tool","tool_call_id":"1","content":[{"type":"text","text":"r"}]}],"stop":["a"],"tools":[{"type":"function","function":{"name":"n"}}],"tool_choice":"required"}`), true)
	f.Add([]byte(`{"model":"m","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,\u0041AAA"}},{"type":"file","file":{"file_data":"https://x.org/a.pdf","filename":"f"}},{"type":"input_audio","input_audio":{"data":"QQ==","format":"mp3"}}]}]}`), true)
	f.Fuzz(func(t *testing.T, body []byte, level bool) {
		c := &dialect.Chat{Body: body, Doc: &scan.Document{}, Choices: 1}
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
		name := older
		if level {
			name = newer
		}
		var r proxy.Request
		var s dialect.Scratch
		if err := (Dialect{}).Request(&r, c, targetOf(c, name), &s); err != nil {
			if _, ok := err.(*dialect.Unsupported); !ok {
				t.Fatal(err)
			}
			return
		}
		if !json.Valid(r.Body) {
			t.Fatalf("%q\nmade %s", body, r.Body)
		}
	})
}
