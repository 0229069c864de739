package gemini

import (
	"strings"
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

// Events as a busy server sends them: many in a read, which ends anywhere.
func BenchmarkEventsInBursts(b *testing.B) {
	c := chatOf(b, prompt)
	to := targetOf(c, newer)
	const n = 400
	data := []byte(strings.Repeat(text(" the"), n))
	b.ReportAllocs()
	for b.Loop() {
		s := Dialect{}.Stream(c, to)
		for at := 0; at < len(data); at += 4 << 10 {
			s.Pass(data[at:min(at+4<<10, len(data))])
		}
		s.Release()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/event")
}
