package jail

import (
	"testing"
)

func BenchmarkRoundTrip(b *testing.B) {
	for name, size := range map[string]int{"1KB": 1 << 10, "1MB": 1 << 20, "25MB": 25 << 20} {
		b.Run(name, func(b *testing.B) {
			p := pool(b, Options{Workers: 1, Jobs: 1 << 30})
			in := make([]byte, size)
			works(b, p)
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := do(b, p, "echo", "", in); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkStartOfAChild(b *testing.B) {
	for b.Loop() {
		p := New(Options{Workers: 1})
		works(b, p)
		_ = p.Close()
	}
}
