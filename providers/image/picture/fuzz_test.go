package picture

import (
	"bytes"
	"context"
	stdimage "image"
	"testing"
)

func seed(f *testing.F) {
	for _, file := range [][]byte{
		pngOf(9, 7), jpegOf(9, 7), webpOf(9, 7), lossless(9, 7), plainWebP(9, 7), claims(5, 5), []byte("GIF89a"),
		[]byte("RIFF\x0c\x00\x00\x00WEBPVP8X"),
		[]byte("\xff\xd8\xff\xda\x00\x02\xff\xff\xff\x00\xff\xd9"), []byte("\x89PNG\r\n\x1a\n\xff\xff\xff\xffIHDR"),
	} {
		f.Add(file)
	}
}

// FuzzRead: raw bytes and base64 give the same result, sizes stay within the file, and
// decoders agree with us about an accepted file.
func FuzzRead(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, file []byte) {
		h, err := Read(nil, file)
		fromText, textErr := Read(textOf(file), nil)
		if h != fromText || (err == nil) != (textErr == nil) {
			t.Fatalf("%+v, %v and %+v, %v", h, err, fromText, textErr)
		}
		if err != nil {
			return
		}
		if h.Size <= 0 || h.Size > int64(len(file)) || h.Width <= 0 || h.Height <= 0 || h.Format == Unknown ||
			h.Format == GIF {
			t.Fatalf("%+v of %d bytes", h, len(file))
		}
		cfg, format, err := stdimage.DecodeConfig(bytes.NewReader(file))
		if err == nil && h.Frames == 1 && (cfg.Width != h.Width || cfg.Height != h.Height ||
			format != h.Format.String()) {
			t.Fatalf("%+v, but a decoder says %s %dx%d", h, format, cfg.Width, cfg.Height)
		}
		again, err := Read(nil, file[:h.Size])
		if err != nil || again != h {
			t.Fatalf("without its tail: %+v, %v", again, err)
		}
	})
}

// FuzzAnnotate: a note never breaks a file.
func FuzzAnnotate(f *testing.F) {
	for _, file := range [][]byte{pngOf(9, 7), jpegOf(9, 7), webpOf(9, 7), lossless(9, 7), plainWebP(9, 7)} {
		f.Add(file, "a note")
	}
	f.Fuzz(func(t *testing.T, file []byte, text string) {
		h, err := Read(nil, file)
		if err != nil || h.Frames > 1 {
			return
		}
		out := Annotate(h, file[:h.Size], Note{Software: "x", Text: text})
		got, err := Read(nil, out)
		if err != nil || got.Width != h.Width || got.Height != h.Height || got.Size != int64(len(out)) {
			t.Fatalf("%+v became %+v, %v", h, got, err)
		}
	})
}

// FuzzConvert: whatever is converted is a whole image of its format.
func FuzzConvert(f *testing.F) {
	seed(f)
	c := NewConverter(4)
	f.Fuzz(func(t *testing.T, file []byte) {
		h, err := Read(nil, file)
		if err != nil || h.Pixels() > 1<<16 {
			return
		}
		for _, to := range []Format{PNG, JPEG} {
			out, err := c.Convert(context.Background(), h, nil, file, to, 50)
			if err != nil {
				continue
			}
			if got, err := Read(nil, out); err != nil || got.Format != to {
				t.Fatalf("%+v, %v", got, err)
			}
		}
	})
}
