package providers

import "testing"

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
	var p Plan
	b.ReportAllocs()
	for b.Loop() {
		p.Begin(m)
		p.Succeeded(p.Next(now))
	}
}
