package picture

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	stdimage "image"
	"image/color"
	"image/draw"
	"image/jpeg"
	"image/png"
	"io"
	"math"
	"runtime/debug"

	"github.com/gen2brain/webp"
	xdraw "golang.org/x/image/draw"
	xwebp "golang.org/x/image/webp"

	"farebox/config/fair"
)

const (
	// MaxDecoded is the most pixels that are decoded: the largest answer of the
	// specification (8.4). Each takes 4 to 8 bytes while it is converted.
	MaxDecoded = 16_777_216
	// defaultParallel is how many conversions go on at once: they are the only
	// thing here that takes a processor for long (a megapixel: 60 to 170 ms).
	defaultParallel = 2
	// maxWaiting is how many may wait, each with a picture in memory.
	maxWaiting     = 1024
	defaultQuality = 90
	// webpMethod is libwebp's effort: 2 takes a third of the time of 4, and the
	// files are some percent larger.
	webpMethod = 2
	// maxWebP is the highest quality: 100 would be lossless and take seconds.
	maxWebP = 99
	// maxBlank is the longest side of a blank image.
	maxBlank = 4096
)

var errConvert = errors.New("the image cannot be converted")

// Warm compiles the WebP encoder, which the first WebP of a process would wait for
// otherwise: 0.3 s of one processor, seconds on a busy one. The compiler's memory, 28 MB,
// goes back at once: an idle process would keep it. It may be called more than once.
func Warm() {
	webp.Init()
	debug.FreeOSMemory()
}

// Converter decodes and encodes pixels, a few images at a time.
type Converter struct{ turns *fair.Turns }

// NewConverter makes a Converter of so many conversions at once; 0: 2.
func NewConverter(parallel int) *Converter {
	if parallel <= 0 {
		parallel = defaultParallel
	}
	return &Converter{turns: fair.NewTurns(parallel, maxWaiting)}
}

// do makes a file when the turn of its owner comes, which it waits for as long as ctx
// lasts.
func (c *Converter) do(ctx context.Context, f func() ([]byte, error)) ([]byte, error) {
	place, err := c.turns.Take(ctx, fair.Of(ctx))
	if err != nil {
		return nil, err
	}
	defer place.Done()
	return f()
}

// Convert makes a file of another format. Exactly one of text and raw is set, and Read has
// accepted it as h; quality is 1 to 100, 0 for the usual. Transparent pixels become white
// where the format has no transparency. It waits for its turn as long as ctx lasts.
func (c *Converter) Convert(ctx context.Context, h Header, text, raw []byte, to Format, quality int) ([]byte, error) {
	if !decodable(h) {
		return nil, errConvert
	}
	return c.do(ctx, func() ([]byte, error) {
		m, err := decode(h, text, raw)
		if err != nil {
			return nil, err
		}
		return encode(m, to, quality)
	})
}

// Shrink makes a smaller file: upscalers that know one factor only are asked for that, and
// the result is scaled down. It is Convert otherwise.
func (c *Converter) Shrink(ctx context.Context, h Header, text, raw []byte, width, height int, to Format) ([]byte,
	error) {
	if !decodable(h) || width < 1 || height < 1 || width > h.Width || height > h.Height {
		return nil, errConvert
	}
	return c.do(ctx, func() ([]byte, error) {
		m, err := decode(h, text, raw)
		if err != nil {
			return nil, err
		}
		small := stdimage.NewNRGBA(stdimage.Rect(0, 0, width, height))
		xdraw.CatmullRom.Scale(small, small.Bounds(), m, m.Bounds(), xdraw.Src, nil)
		return encode(small, to, 0)
	})
}

// Blank is a black image, for one that was withheld.
func (c *Converter) Blank(ctx context.Context, width, height int, to Format) ([]byte, error) {
	width, height = max(1, min(width, maxBlank)), max(1, min(height, maxBlank))
	return c.do(ctx, func() ([]byte, error) {
		r := stdimage.Rect(0, 0, width, height)
		switch to {
		case WebP:
			return blankWebP(width, height), nil
		case PNG:
			return encode(stdimage.NewPaletted(r, color.Palette{color.Black}), to, 0)
		default:
			return encode(stdimage.NewGray(r), to, 0)
		}
	})
}

// blankWebP is a lossless encoding of black pixels. Only the size differs, 14 bits
// each for the width and the height without one: encoding takes 0.1 s a megapixel, and is free
// for the client.
func blankWebP(width, height int) []byte {
	b := []byte("RIFF\x1a\x00\x00\x00WEBPVP8L\x0e\x00\x00\x00\x2f\x00\x00\x00\x00\x07\x10\x11\xfd\x0f\x44\x44\xff\x03")
	binary.LittleEndian.PutUint32(b[21:], uint32(width-1)|uint32(height-1)<<14)
	return b
}

// decodable refuses files that would take too much memory, before a place is taken for
// them.
func decodable(h Header) bool { return h.Pixels() <= MaxDecoded && h.Frames <= 1 }

func decode(h Header, text, raw []byte) (m stdimage.Image, err error) {
	w := open(text, raw)
	defer w.release()
	switch h.Format {
	case PNG:
		m, err = png.Decode((*reader)(&w))
	case JPEG:
		m, err = jpeg.Decode((*reader)(&w))
	case WebP:
		m, err = decodeWebP((*reader)(&w))
	case Unknown, GIF:
		err = errConvert
	}
	if err != nil {
		return nil, errConvert // a decoder's words may quote the file
	}
	return m, nil
}

func encode(m stdimage.Image, to Format, quality int) ([]byte, error) {
	if quality <= 0 {
		quality = defaultQuality
	}
	var b bytes.Buffer
	var err error
	switch to {
	case PNG:
		err = (&png.Encoder{CompressionLevel: png.BestSpeed}).Encode(&b, m)
	case JPEG:
		err = jpeg.Encode(&b, opaque(m), &jpeg.Options{Quality: min(quality, 100)})
	case WebP:
		err = webp.Encode(&b, m, webp.Options{Quality: min(quality, maxWebP), Method: webpMethod})
	case Unknown, GIF:
		err = errConvert
	}
	if err != nil {
		return nil, errConvert
	}
	return b.Bytes(), nil
}

// decodeWebP decodes and widens colours: VP8 has them in the narrow range of video (16 to
// 235), which the decoder passes on and Go's images take for the full one, so that black
// would become grey.
func decodeWebP(r io.Reader) (stdimage.Image, error) {
	m, err := xwebp.Decode(r)
	switch m := m.(type) {
	case *stdimage.YCbCr:
		widen(m)
	case *stdimage.NYCbCrA:
		widen(&m.YCbCr)
	}
	return m, err
}

func widen(m *stdimage.YCbCr) {
	var luma, chroma [256]uint8
	for i := range 256 {
		luma[i] = uint8(min(max(math.Round(float64(i-16)*255/219), 0), 255))
		chroma[i] = uint8(min(max(math.Round(float64(i-128)*255/224)+128, 0), 255))
	}
	for i, v := range m.Y {
		m.Y[i] = luma[v]
	}
	for i, v := range m.Cb {
		m.Cb[i] = chroma[v]
	}
	for i, v := range m.Cr {
		m.Cr[i] = chroma[v]
	}
}

// opaque puts a transparent image on white.
func opaque(m stdimage.Image) stdimage.Image {
	if o, ok := m.(interface{ Opaque() bool }); ok && o.Opaque() {
		return m
	}
	out := stdimage.NewRGBA(m.Bounds())
	draw.Draw(out, out.Bounds(), stdimage.White, stdimage.Point{}, draw.Src)
	draw.Draw(out, out.Bounds(), m, m.Bounds().Min, draw.Over)
	return out
}

// reader is a window as a decoder wants it.
type reader window

func (r *reader) Read(p []byte) (int, error) {
	w := (*window)(r)
	if len(w.p) == 0 && !w.fill() {
		return 0, io.EOF
	}
	n := copy(p, w.p)
	w.p, w.pos = w.p[n:], w.pos+int64(n)
	return n, nil
}

// Decode is the file of base64 text that Read has accepted.
func Decode(text []byte) []byte {
	out := make([]byte, 0, decodedLen(text))
	w := open(text, nil)
	defer w.release()
	for w.fill() {
		out = append(out, w.p...)
		w.p = nil
	}
	return out
}
