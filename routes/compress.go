package routes

import (
	"bytes"
	"io"
	"sync"

	"github.com/klauspost/compress/gzip"
	brotli "github.com/molecule-man/go-brrr"
	"github.com/valyala/fasthttp"

	"farebox/proxy"
)

// Answers other than streams are compressed where the client takes that
// (addendum 3.1): those in memory whole (compress), those that are relayed in
// pieces (compressRelayed), and JSON with pictures, which is made while it is
// written (zipped). Speed over ratio: the lowest levels.

// compressAbove is the size from which compression saves a network packet.
const compressAbove = 1400

// brotliWindow is the base-2 logarithm of how far br looks back. It keeps what an
// answer's compressor holds at about what gzip's does, whatever the answer's size.
const brotliWindow = 18

// coding is a Content-Encoding.
type coding uint8

const (
	identity coding = iota
	gzipped
	brotlied
	codings
)

var codingNames = [codings]string{gzipped: "gzip", brotlied: "br"}

// chooseCoding is the coding that an Accept-Encoding wants most (RFC 9110,
// 12.5.3), of two wanted alike the one that costs less: gzip before br before
// none. Which is written first does not matter.
func chooseCoding(accept []byte) coding {
	const unsaid = -1
	wants := [codings]int{unsaid, unsaid, unsaid}
	others := unsaid
	for len(accept) > 0 {
		var item []byte
		item, accept, _ = bytes.Cut(accept, []byte(","))
		name, params, _ := bytes.Cut(item, []byte(";"))
		q := quality(params)
		switch name = bytes.TrimSpace(name); {
		case bytes.EqualFold(name, []byte("gzip")), bytes.EqualFold(name, []byte("x-gzip")):
			wants[gzipped] = max(wants[gzipped], q)
		case bytes.EqualFold(name, []byte("br")):
			wants[brotlied] = max(wants[brotlied], q)
		case bytes.EqualFold(name, []byte("identity")):
			wants[identity] = max(wants[identity], q)
		case string(name) == "*":
			others = max(others, q)
		}
	}
	best, most := identity, max(0, wants[identity])
	for _, c := range []coding{brotlied, gzipped} {
		want := wants[c]
		if want == unsaid {
			want = others
		}
		if want > 0 && want >= most {
			best, most = c, want
		}
	}
	return best
}

// quality is the q of a list's item in thousandths: 1000 without one, 0 for what
// is not a number.
func quality(params []byte) int {
	for len(params) > 0 {
		var param []byte
		param, params, _ = bytes.Cut(params, []byte(";"))
		name, value, _ := bytes.Cut(param, []byte("="))
		if bytes.EqualFold(bytes.TrimSpace(name), []byte("q")) {
			return thousandths(bytes.TrimSpace(value))
		}
	}
	return 1000
}

// thousandths reads a decimal number from 0 to 1.
func thousandths(text []byte) int {
	if len(text) == 0 || text[0] < '0' || text[0] > '1' || len(text) > 1 && text[1] != '.' {
		return 0
	}
	n, unit := int(text[0]-'0')*1000, 100
	for _, digit := range text[min(2, len(text)):] {
		if digit < '0' || digit > '9' {
			return 0
		}
		n += int(digit-'0') * unit
		unit /= 10
	}
	return min(n, 1000)
}

// codingFor is the coding for this client, and announces it.
func (c *Call) codingFor() coding {
	h := &c.Ctx.Request.Header
	accept := h.Peek(fasthttp.HeaderAcceptEncoding)
	if len(accept) == 0 {
		return identity
	}
	as := chooseCoding(accept)
	if as != identity {
		r := &c.Ctx.Response.Header
		r.Set(fasthttp.HeaderContentEncoding, codingNames[as])
		r.Add(fasthttp.HeaderVary, fasthttp.HeaderAcceptEncoding)
	}
	return as
}

// Compress makes a body that is in memory smaller.
func (c *Call) Compress() {
	body := c.Ctx.Response.Body()
	if len(body) < compressAbove {
		return
	}
	if as := c.codingFor(); as != identity {
		z := newZip(as)
		out := bytes.Clone(z.end(body, true))
		z.release()
		c.Ctx.Response.SetBodyRaw(out)
	}
}

// CompressRelayed has the answer that is about to be relayed compressed on its
// way. Clients of HTTP/1.0 take the end of the connection for the answer's end,
// so that one that broke off would look whole to some.
func (c *Call) CompressRelayed() {
	if !c.Ctx.Request.Header.IsHTTP11() {
		return
	}
	if as := c.codingFor(); as != identity {
		c.zip = newZip(as)
	}
}

// Compressed is the compressed form of the next bytes of a relayed answer, valid until the next
// call.
func (c *Call) Compressed(out []byte) []byte {
	if c.zip == nil {
		return out
	}
	return c.zip.pass(out)
}

// CompressedEnd is Compressed for the last bytes. An answer that is not whole has
// no end: its reader must not take it for whole.
func (c *Call) CompressedEnd(out []byte, whole bool) []byte {
	if c.zip == nil {
		return out
	}
	return c.zip.end(out, whole)
}

// CompressedSource is a body that is mostly base64, compressed while it is
// written where the client takes that.
func (c *Call) CompressedSource(body proxy.Source) proxy.Source {
	if c.Ctx.Request.Header.IsHTTP11() {
		if as := c.codingFor(); as != identity {
			return zipped{body, as}
		}
	}
	return body
}

// compressor is the common interface of both codings.
type compressor interface {
	io.WriteCloser
	Reset(io.Writer)
}

// zip compresses an answer that comes in pieces, each into memory that the next
// one uses again.
type zip struct {
	as  coding
	to  compressor
	out bytes.Buffer
}

// keepZip is the most room for compressed bytes that a reused zip keeps.
const keepZip = 128 << 10

var zips = [codings]sync.Pool{
	gzipped:  {New: func() any { return &zip{as: gzipped, to: gzipWriter(gzip.BestSpeed)} }},
	brotlied: {New: func() any { return &zip{as: brotlied, to: brotliWriter(brotli.BestSpeed)} }},
}

func gzipWriter(level int) compressor {
	w, err := gzip.NewWriterLevel(nil, level)
	if err != nil {
		panic(err) // the level is one there is
	}
	return w
}

func brotliWriter(level int) compressor {
	w, err := brotli.NewWriterOptions(io.Discard, level, brotli.WriterOptions{LGWin: brotliWindow})
	if err != nil {
		panic(err) // the level is one there is
	}
	return w
}

func newZip(as coding) *zip {
	z := zips[as].Get().(*zip)
	z.to.Reset(&z.out)
	return z
}

// pass takes the next bytes of the answer and gives its compressed bytes so far, valid until the
// next call.
func (z *zip) pass(p []byte) []byte {
	z.out.Reset()
	_, _ = z.to.Write(p) // memory takes all
	return z.out.Bytes()
}

// end takes the last bytes. An answer that broke off has no end: its reader must
// not take it for whole.
func (z *zip) end(p []byte, whole bool) []byte {
	z.out.Reset()
	_, _ = z.to.Write(p)
	if whole {
		_ = z.to.Close()
	}
	return z.out.Bytes()
}

func (z *zip) release() {
	z.to.Reset(io.Discard)
	if z.out.Cap() > keepZip {
		z.out = bytes.Buffer{}
	}
	zips[z.as].Put(z)
}

// zipped is a body that is compressed while it is written.
type zipped struct {
	proxy.Source
	as coding
}

// pictureZips compress JSON with pictures: their base64 only has its Huffman
// coding to gain, a quarter of its length at 0.5 GB/s.
var pictureZips = [codings]sync.Pool{
	gzipped:  {New: func() any { return gzipWriter(gzip.HuffmanOnly) }},
	brotlied: {New: func() any { return brotliWriter(0) }},
}

// Len is not known before all is written.
func (zipped) Len() int64 { return -1 }

func (zi zipped) WriteTo(w io.Writer) (int64, error) {
	z := pictureZips[zi.as].Get().(compressor)
	z.Reset(w)
	n, err := zi.Source.WriteTo(z)
	if end := z.Close(); err == nil {
		err = end
	}
	z.Reset(io.Discard)
	pictureZips[zi.as].Put(z)
	return n, err
}
