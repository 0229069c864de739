//go:build !race

package messages

import (
	"testing"

	"farebox/providers/chat/dialect"
)

// An event that is turned back must not allocate, whatever is in it.
func TestEventsDoNotAllocate(t *testing.T) {
	_, c := asked(t, with(`"stream":true`))
	s := dialect.OpenForm(c)
	defer s.Release()
	s.Pass([]byte(chunks(`"role":"assistant","content":""`)))
	for name, delta := range map[string]string{
		"text":                 `"content":" the"`,
		"thought":              `"reasoning_content":" the"`,
		"thought with details": `"reasoning":"x","reasoning_details":[{"type":"reasoning.text","text":"x","format":"y","index":0}]`,
		"signature":            `"reasoning_details":[{"type":"reasoning.text","signature":"x","format":"anthropic-claude-v1","index":0}]`,
		"source":               `"annotations":[{"type":"url_citation","url_citation":{"url":"https://x","title":"T"}}]`,
	} {
		data := []byte(chunks(delta))
		s.Pass(data)
		if n := testing.AllocsPerRun(1000, func() { s.Pass(data) }); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
	s.Pass([]byte(chunks(`"tool_calls":[{"index":0,"id":"c","type":"function","function":{"name":"f","arguments":""}}]`)))
	for name, data := range map[string][]byte{
		"a call's arguments": []byte(chunks(`"tool_calls":[{"index":0,"function":{"arguments":"x"}}]`)),
		"usage":              []byte(usageLast),
	} {
		if n := testing.AllocsPerRun(1000, func() { s.Pass(data) }); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
	first := []byte(chunks(`"role":"assistant","content":""`))
	if n := testing.AllocsPerRun(1000, func() {
		s := dialect.OpenForm(c)
		s.Pass(first)
		s.Release()
	}); n != 0 {
		t.Errorf("a stream's beginning and end: %v allocations", n)
	}
}
