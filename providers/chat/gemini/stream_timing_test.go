package gemini

import (
	"testing"

	"farebox/providers/chat/dialect"
	"farebox/proxy"
)

func BenchmarkTextEvent(b *testing.B) {
	c := chatOf(b, prompt)
	to := targetOf(c, newer)
	data := []byte(text(" the"))
	b.ReportAllocs()
	s := Dialect{}.Stream(c, to)
	for n := 0; b.Loop(); n++ {
		if n == 300 {
			n = 0
			s.Release()
			s = Dialect{}.Stream(c, to)
		}
		s.Pass(data)
	}
}

func BenchmarkRequest(b *testing.B) {
	c := chatOf(b, `{"model":"m","messages":[{"role":"system","content":"be good"},{"role":"user","content":"hi"}],"temperature":0.5,"stream":true}`)
	to := targetOf(c, newer)
	var r proxy.Request
	var s dialect.Scratch
	b.ReportAllocs()
	for b.Loop() {
		_ = Dialect{}.Request(&r, c, to, &s)
	}
}
