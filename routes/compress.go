package routes

import (
	"bytes"

	"github.com/valyala/fasthttp"
)

// compressAbove is the size from which compression saves a network packet.
const compressAbove = 1400

// compress honours Accept-Encoding on buffered JSON answers (addendum 3.1).
// Speed over ratio: the fastest levels, since the answer is small.
func (c *Call) compress() {
	r := &c.ctx.Response
	body := r.Body()
	accept := c.ctx.Request.Header.Peek("Accept-Encoding")
	if len(accept) == 0 || len(body) < compressAbove {
		return
	}
	switch {
	case accepts(accept, "gzip"):
		r.SetBodyRaw(fasthttp.AppendGzipBytesLevel(nil, body, fasthttp.CompressBestSpeed))
		r.Header.Set("Content-Encoding", "gzip")
	case accepts(accept, "br"):
		r.SetBodyRaw(fasthttp.AppendBrotliBytesLevel(nil, body, fasthttp.CompressBrotliBestSpeed))
		r.Header.Set("Content-Encoding", "br")
	default:
		return
	}
	r.Header.Set("Vary", "Accept-Encoding")
}

// accepts reports whether an Accept-Encoding list names coding without q=0.
func accepts(header []byte, coding string) bool {
	for len(header) > 0 {
		var item []byte
		item, header, _ = bytes.Cut(header, []byte(","))
		name, params, _ := bytes.Cut(item, []byte(";"))
		if !bytes.EqualFold(bytes.TrimSpace(name), []byte(coding)) {
			continue
		}
		q := bytes.ReplaceAll(params, []byte(" "), nil)
		return !bytes.Equal(q, []byte("q=0")) && !bytes.HasPrefix(q, []byte("q=0.000")) && !bytes.Equal(q, []byte("q=0.0")) && !bytes.Equal(q, []byte("q=0.00"))
	}
	return false
}
