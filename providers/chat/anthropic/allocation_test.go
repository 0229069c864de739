//go:build !race

package anthropic

import (
	"testing"

	"farebox/providers/chat/dialect"
	"farebox/proxy"
)

// A translated event must not allocate, and a request only for the parts that it decodes.
func TestEventsDoNotAllocate(t *testing.T) {
	c := chatOf(t, prompt)
	s := Dialect{}.Stream(c, target(c))
	s.Pass([]byte(start(startUsage) + open("0", `{"type":"text","text":""}`)))
	for name, e := range map[string]string{
		"text":      text("0", " the"),
		"thinking":  delta("0", `{"type":"thinking_delta","thinking":"x"}`),
		"signature": delta("0", `{"type":"signature_delta","signature":"x"}`),
		"ping":      ping,
	} {
		data := []byte(e)
		s.Pass(data)
		if n := testing.AllocsPerRun(1000, func() { s.Pass(data) }); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
	s.Release()
	first := []byte(start(startUsage))
	if n := testing.AllocsPerRun(1000, func() {
		s := Dialect{}.Stream(c, target2)
		s.Pass(first)
		s.Release()
	}); n != 0 {
		t.Errorf("a stream's beginning and end: %v allocations", n)
	}
	var r proxy.Request
	var scratch dialect.Scratch
	plain := chatOf(t, `{"model":"m","messages":[{"role":"user","content":"hi"}],"temperature":0.5}`)
	if n := testing.AllocsPerRun(1000, func() { _ = Dialect{}.Request(&r, plain, target2, &scratch) }); n > 5 {
		t.Errorf("a request: %v allocations", n)
	}
	body := []byte(`{"id":"msg_1","type":"message","content":[{"type":"text","text":"hi"}],"stop_reason":"end_turn","usage":` + startUsage + `}`)
	if n := testing.AllocsPerRun(1000, func() { _, _, _ = Dialect{}.Answer(body, c, target2, &scratch) }); n > 6 {
		t.Errorf("an answer: %v allocations", n)
	}
}

// An event that is relayed must not allocate, nor a stream's beginning and end where
// the model's name stays.
func TestRelayedEventsDoNotAllocate(t *testing.T) {
	c := toldOf(t, `{"model":"m","max_tokens":500,"messages":[{"role":"user","content":"hi"}],"stream":true}`)
	s := Native{}.Stream(c, target(c))
	s.Pass([]byte(start(startUsage) + open("0", `{"type":"text","text":""}`)))
	for name, e := range map[string]string{
		"text":      text("0", " the"),
		"thinking":  delta("0", `{"type":"thinking_delta","thinking":"x"}`),
		"signature": delta("0", `{"type":"signature_delta","signature":"x"}`),
		"citation":  delta("0", `{"type":"citations_delta","citation":{"type":"char_location"}}`),
		"ping":      ping,
	} {
		data := []byte(e)
		if s.Pass(data); testing.AllocsPerRun(1000, func() { s.Pass(data) }) != 0 {
			t.Errorf("%s allocates", name)
		}
		half, rest := data[:len(data)/2], data[len(data)/2:]
		if n := testing.AllocsPerRun(1000, func() { s.Pass(half); s.Pass(rest) }); n != 0 {
			t.Errorf("%s in two pieces: %v allocations", name, n)
		}
	}
	s.Release()
	first, same := []byte(start(startUsage)), target(c)
	same.Renames = false
	if n := testing.AllocsPerRun(1000, func() {
		s := Native{}.Stream(c, same)
		s.Pass(first)
		s.Release()
	}); n != 0 {
		t.Errorf("a stream's beginning and end: %v allocations", n)
	}
}
