package signin

import "testing"

// Nearly all of it is the mathematics of the signature.
func BenchmarkRead(b *testing.B) {
	r := rules()
	for i, name := range []string{"evm", "evm-fields", "solana", "solana-fields"} {
		header := originals(b, r)[i].header
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, no := r.Read(header, at); no != nil {
					b.Fatal(no.Message)
				}
			}
		})
	}
	b.Run("refused", func(b *testing.B) {
		s := evmSigner(0)
		header := encode(b, s.said(s.text("api.example.com wants", "evil.example wants")))
		b.ReportAllocs()
		for b.Loop() {
			if _, no := r.Read(header, at); no == nil {
				b.Fatal("taken")
			}
		}
	})
}
