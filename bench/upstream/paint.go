package upstream

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	stdimage "image"
	"image/color"
	"image/jpeg"
	"image/png"
	"sync"

	"github.com/gen2brain/webp"
)

// black is the seed of an image that was withheld.
const black = ^uint64(0)

type brush struct {
	w, h   int
	format string
	seed   uint64
}

// gallery keeps what was painted: the same request gives the same bytes.
var gallery struct {
	mu   sync.Mutex
	list map[brush][]byte
}

// maxGallery bounds the kept images.
const maxGallery = 64

// paint makes an image file that depends only on its arguments.
func paint(w, h int, format string, seed uint64) []byte {
	key := brush{w, h, format, seed}
	gallery.mu.Lock()
	defer gallery.mu.Unlock()
	if b := gallery.list[key]; b != nil {
		return b
	}
	m := stdimage.NewNRGBA(stdimage.Rect(0, 0, w, h))
	for y := range h {
		for x := range w {
			c := color.NRGBA{A: 255}
			if seed != black {
				n := mix(seed ^ uint64(x/16)<<32 ^ uint64(y/16))
				c.R, c.G, c.B = uint8(n), uint8(n>>8), uint8(n>>16)
			}
			m.SetNRGBA(x, y, c)
		}
	}
	var b bytes.Buffer
	var err error
	switch format {
	case "jpeg":
		err = jpeg.Encode(&b, m, nil)
	case "webp":
		err = webp.Encode(&b, m, webp.Options{Quality: 75, Method: 0})
	default:
		err = (&png.Encoder{CompressionLevel: png.BestSpeed}).Encode(&b, m)
	}
	if err != nil {
		panic(err) // it encodes into memory what it made itself
	}
	if gallery.list == nil || len(gallery.list) >= maxGallery {
		gallery.list = map[brush][]byte{}
	}
	gallery.list[key] = b.Bytes()
	return b.Bytes()
}

// padPNG brings a PNG to a size with a chunk that decoders pass over.
func padPNG(b []byte, size int) []byte {
	const head = 8 + 25 // signature and IHDR
	n := size - len(b) - 12
	if n <= 0 {
		return b
	}
	chunk := make([]byte, 12+n)
	binary.BigEndian.PutUint32(chunk, uint32(n))
	copy(chunk[4:], "siMu")
	for i := range n {
		chunk[8+i] = byte(mix(uint64(i)))
	}
	binary.BigEndian.PutUint32(chunk[8+n:], crc32.ChecksumIEEE(chunk[4:8+n]))
	out := append(make([]byte, 0, size), b[:head]...)
	return append(append(out, chunk...), b[head:]...)
}
