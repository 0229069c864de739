package filebody

import (
	"encoding/base64"
	"io"
	"testing"
)

func BenchmarkPieces(b *testing.B) {
	raw := noise(8 << 20)
	text := []byte(base64.StdEncoding.EncodeToString(raw))
	for name, add := range map[string]func(p *Pieces){
		"to text": func(p *Pieces) { p.AddText(nil, raw) },
		"to raw":  func(p *Pieces) { p.AddRaw(text, nil) },
	} {
		b.Run(name, func(b *testing.B) {
			var p Pieces
			add(&p)
			b.SetBytes(int64(len(raw)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := p.WriteTo(io.Discard); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
