package replay

import (
	"bytes"
	"testing"

	"farebox/config/fair"
)

// The cost of an item of an answer, kept in a file and found again.
func BenchmarkValues(b *testing.B) {
	v := openValues(b, nil, nil)
	name, text := []byte("msg_0123456789abcdef0123456789abcdef000"), bytes.Repeat([]byte("x"), 2<<10)
	b.Run("put", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			v.Put(1, fair.Paid(1), name, text)
		}
	})
	b.Run("find", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if found, err := v.Find(1, [][]byte{name}); err != nil || found[0] == nil {
				b.Fatal(found, err)
			}
		}
	})
	if s := v.Stats(); s.Kept == 0 {
		b.Errorf("counted are %+v", s)
	}
}
