package providers

import (
	"testing"

	"farebox/providers/attempt"
)

func BenchmarkResolve(b *testing.B) {
	c := catalogOf(b, namesText, nil, today)
	name := []byte("gpt-4o")
	b.ReportAllocs()
	for b.Loop() {
		c.Resolve(name, "text")
	}
}

func BenchmarkPick(b *testing.B) {
	c := catalogOf(b, pickText, nil, today)
	m := c.names["m"]
	now := today.UnixNano()
	var p Picker
	b.ReportAllocs()
	for b.Loop() {
		p.Begin(m.Targets, 0)
		p.Report(p.Next(now), attempt.Verdict{Health: attempt.Good}, 0)
	}
}
