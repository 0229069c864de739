package anthropic

import (
	"testing"

	"farebox/providers/chat/dialect"
	"farebox/proxy"
)

func BenchmarkTextEvent(b *testing.B) {
	c := chatOf(b, prompt)
	begin, data := []byte(start(startUsage)+open("0", `{"type":"text","text":""}`)), []byte(text("0", " the"))
	b.ReportAllocs()
	s := Dialect{}.Stream(c, target(c))
	s.Pass(begin)
	for n := 0; b.Loop(); n++ {
		if n == 300 {
			n = 0
			s.Release()
			s = Dialect{}.Stream(c, target(c))
			s.Pass(begin)
		}
		s.Pass(data)
	}
}

func BenchmarkRelayedTextEvent(b *testing.B) {
	c := toldOf(b, `{"model":"m","max_tokens":500,"messages":[{"role":"user","content":"hi"}],"stream":true}`)
	begin, data := []byte(start(startUsage)+open("0", `{"type":"text","text":""}`)), []byte(text("0", " the"))
	b.ReportAllocs()
	s := Native{}.Stream(c, target(c))
	s.Pass(begin)
	for n := 0; b.Loop(); n++ {
		if n == 300 {
			n = 0
			s.Release()
			s = Native{}.Stream(c, target(c))
			s.Pass(begin)
		}
		s.Pass(data)
	}
}

func BenchmarkThinkingEvent(b *testing.B) {
	c := chatOf(b, prompt)
	data := []byte(delta("0", `{"type":"thinking_delta","thinking":" the"}`))
	b.ReportAllocs()
	s := Dialect{}.Stream(c, target(c))
	s.Pass([]byte(start(startUsage)))
	for b.Loop() {
		s.Pass(data)
	}
}

func BenchmarkRequest(b *testing.B) {
	c := chatOf(b, `{"model":"m","messages":[{"role":"system","content":"be good"},{"role":"user","content":"hi"}],"temperature":0.5,"stream":true}`)
	var r proxy.Request
	var s dialect.Scratch
	b.ReportAllocs()
	for b.Loop() {
		_ = Dialect{}.Request(&r, c, target2, &s)
	}
}
