package picture

import (
	"context"
	"testing"
)

func BenchmarkRead(b *testing.B) {
	for name, file := range map[string][]byte{"png": pngOf(1500, 1500), "jpeg": jpegOf(2500, 2500)} {
		for _, form := range []string{"raw", "text"} {
			b.Run(name+" "+form, func(b *testing.B) {
				text, raw := []byte(nil), file
				if form == "text" {
					text, raw = textOf(file), nil
				}
				b.SetBytes(int64(len(file)))
				b.ReportAllocs()
				for b.Loop() {
					if _, err := Read(text, raw); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

func BenchmarkConvert(b *testing.B) {
	file := pngOf(1024, 1024)
	h, err := Read(nil, file)
	if err != nil {
		b.Fatal(err)
	}
	c := NewConverter(1)
	_, _ = c.Convert(context.Background(), h, nil, file, WebP, 0) // the encoder is compiled once a process
	for _, to := range []Format{JPEG, WebP} {
		b.Run(to.String(), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := c.Convert(context.Background(), h, nil, file, to, 0); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
