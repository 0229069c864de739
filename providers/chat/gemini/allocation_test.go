//go:build !race

package gemini

import (
	"testing"

	"farebox/providers/chat/dialect"
	"farebox/proxy"
)

// A translated event must not allocate, and a request only for the parts that it decodes.
func TestEventsDoNotAllocate(t *testing.T) {
	c := chatOf(t, prompt)
	to := targetOf(c, newer)
	s := Dialect{}.Stream(c, to)
	for name, e := range map[string]string{
		"text":      text(" the"),
		"thought":   parts(`{"text": "x","thought": true}`),
		"signature": parts(`{"text": "","thoughtSignature": "x"}`),
		"call":      parts(`{"functionCall": {"name": "n","args": {"a": 1}},"thoughtSignature": "x"}`),
		"the end":   last("STOP", ""),
	} {
		data := []byte(e)
		s.Pass(data)
		if n := testing.AllocsPerRun(1000, func() { s.Pass(data) }); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
	s.Release()
	first := []byte(text("a"))
	if n := testing.AllocsPerRun(1000, func() {
		s := Dialect{}.Stream(c, to)
		s.Pass(first)
		s.Release()
	}); n != 0 {
		t.Errorf("a stream's beginning and end: %v allocations", n)
	}
	var r proxy.Request
	var scratch dialect.Scratch
	plain := chatOf(t, `{"model":"m","messages":[{"role":"user","content":"hi"}],"temperature":0.5}`)
	if n := testing.AllocsPerRun(1000, func() { _ = Dialect{}.Request(&r, plain, to, &scratch) }); n > 12 {
		t.Errorf("a request: %v allocations", n)
	}
	body := []byte(`{"candidates": [{"content": {"parts": [{"text": "hi"}]},"finishReason": "STOP"}],` + usage2 + tail)
	if n := testing.AllocsPerRun(1000, func() { _, _, _ = Dialect{}.Answer(body, c, to, &scratch) }); n > 10 {
		t.Errorf("an answer: %v allocations", n)
	}
}
