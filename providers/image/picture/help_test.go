package picture

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"hash/crc32"
	stdimage "image"
	"image/draw"
	"image/jpeg"
	"image/png"
	"testing"

	"github.com/gen2brain/webp"
)

// scene is a picture that compresses like a photo; part of it is transparent.
func scene(w, h int, transparent bool) *stdimage.NRGBA {
	m := stdimage.NewNRGBA(stdimage.Rect(0, 0, w, h))
	for i := 0; i < len(m.Pix); i += 4 {
		x, y := i/4%w, i/4/w
		p := m.Pix[i : i+4]
		p[0], p[1], p[2], p[3] = uint8(x^y), uint8(x*y>>4), uint8(y), 255
		if transparent && x < w/2 {
			p[3] = uint8(y)
		}
	}
	return m
}

func pngOf(w, h int) []byte  { return encoded(scene(w, h, true), PNG) }
func jpegOf(w, h int) []byte { return encoded(scene(w, h, false), JPEG) }
func webpOf(w, h int) []byte { return encoded(scene(w, h, true), WebP) }

// lossless is a WebP file of the other coding.
func lossless(w, h int) []byte {
	var b bytes.Buffer
	_ = webp.Encode(&b, scene(w, h, true), webp.Options{Lossless: true, Method: 0})
	return b.Bytes()
}

// plainWebP is a file without the extended header.
func plainWebP(w, h int) []byte {
	var b bytes.Buffer
	_ = webp.Encode(&b, scene(w, h, false), webp.Options{Quality: 50, Method: 0})
	return b.Bytes()
}

func encoded(m stdimage.Image, to Format) []byte {
	var b bytes.Buffer
	switch to {
	case PNG:
		_ = (&png.Encoder{CompressionLevel: png.BestSpeed}).Encode(&b, m)
	case JPEG:
		_ = jpeg.Encode(&b, m, nil)
	case WebP:
		_ = webp.Encode(&b, m, webp.Options{Quality: 80, Method: 0})
	case Unknown, GIF:
	}
	return b.Bytes()
}

func textOf(raw []byte) []byte { return base64.StdEncoding.AppendEncode(nil, raw) }

func chunkOf(kind string, data []byte) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(len(data)))
	b = append(append(b, kind...), data...)
	return binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b[4:]))
}

// claims is a small PNG whose header claims a size.
func claims(w, h uint32) []byte {
	b := []byte("\x89PNG\r\n\x1a\n")
	head := binary.BigEndian.AppendUint32(nil, w)
	head = append(binary.BigEndian.AppendUint32(head, h), 8, 6, 0, 0, 0)
	b = append(b, chunkOf("IHDR", head)...)
	b = append(b, chunkOf("IDAT", []byte{0x78, 0x9c, 3, 0, 0, 0, 0, 1})...)
	return append(b, chunkOf("IEND", nil)...)
}

// samePixels compares two images.
func samePixels(t testing.TB, a, b stdimage.Image) {
	t.Helper()
	if a.Bounds().Size() != b.Bounds().Size() {
		t.Fatalf("%v and %v", a.Bounds(), b.Bounds())
	}
	x, y := stdimage.NewNRGBA(a.Bounds()), stdimage.NewNRGBA(b.Bounds())
	draw.Draw(x, x.Bounds(), a, a.Bounds().Min, draw.Src)
	draw.Draw(y, y.Bounds(), b, b.Bounds().Min, draw.Src)
	if !bytes.Equal(x.Pix, y.Pix) {
		t.Error("the pixels differ")
	}
}
