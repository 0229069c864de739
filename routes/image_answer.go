package routes

import (
	"compress/gzip"
	"encoding/json"
	"io"
	"strconv"
	"sync"
	"time"

	"farebox/providers/image"
	"farebox/proxy"
)

// How pictures leave: as base64 inside JSON, or as the file itself. Neither
// makes a copy: the body is written from the upstream's answer.

// maxEcho is the largest request that an answer repeats.
const maxEcho = 64 << 10

// nativeBody is the answer of POST /image/generate (addendum 8.1).
func (p *pictures) nativeBody(echo []byte) (proxy.Source, string) {
	body := &image.Pieces{}
	b := append([]byte(`{"id":"generate-image-`), p.id[:]...)
	b = append(b, `","images":[`...)
	body.Add(b)
	for i := range p.result.Images {
		m := &p.result.Images[i]
		if i > 0 {
			body.AddString(",")
		}
		body.AddString(`"`)
		body.AddText(m.Text, m.Raw)
		body.AddString(`"`)
	}
	body.AddString(`],"request":`)
	if len(echo) > maxEcho || !json.Valid(echo) {
		echo = []byte("null")
	}
	body.Add(echo)
	body.Add(p.appendTiming(nil))
	return body, jsonType
}

// appendTiming writes how long it took, in ms.
func (p *pictures) appendTiming(b []byte) []byte {
	r := p.result
	total := time.Since(p.began)
	for _, t := range []struct {
		name string
		d    time.Duration
	}{
		{`,"timing":{"inferenceDuration":`, r.Working}, {`,"inferencePreprocessingTime":`, max(0, total-r.Working-r.Queued)},
		{`,"inferenceQueueTime":`, r.Queued}, {`,"total":`, total},
	} {
		b = strconv.AppendInt(append(b, t.name...), t.d.Milliseconds(), 10)
	}
	return append(b, "}}"...)
}

// simpleBody is the answer in OpenAI's form (addendum 8.2).
func (p *pictures) simpleBody(asURL bool) (proxy.Source, string) {
	body := &image.Pieces{}
	b := strconv.AppendInt([]byte(`{"created":`), time.Now().Unix(), 10)
	body.Add(append(b, `,"data":[`...))
	for i := range p.result.Images {
		m := &p.result.Images[i]
		if i > 0 {
			body.AddString(",")
		}
		if asURL {
			body.AddString(`{"url":"data:` + m.Format.ContentType() + `;base64,`)
		} else {
			body.AddString(`{"b64_json":"`)
		}
		body.AddText(m.Text, m.Raw)
		body.AddString(`"}`)
	}
	body.AddString("]}")
	return body, jsonType
}

// fileBody is the picture itself.
func (p *pictures) fileBody() (proxy.Source, string) {
	m := &p.result.Images[0]
	body := &image.Pieces{}
	body.AddRaw(m.Text, m.Raw)
	return body, m.Format.ContentType()
}

const jsonType = "application/json"

// deliver makes body the response. The request ends when the last byte is gone
// or given up; until then the pictures stay in memory.
func (p *pictures) deliver(body proxy.Source, contentType string) {
	c, r := p.Call, p.result
	if contentType == jsonType {
		body = p.zip(body)
	}
	c.ctx.Response.SetStatusCode(200)
	c.ctx.Response.Header.SetContentType(contentType)
	c.g.proxy.Deliver(c.ctx, body, func(_ int64, err error) {
		r.Release()
		if err != nil && c.cause == "" {
			c.cause = proxy.ClientGone.String()
		}
		c.end()
	})
	c.relaying, c.status, c.ctx = true, 200, nil
}

// zip compresses JSON where the client takes that (addendum 3.1): base64 of
// pictures only has its Huffman coding to gain, a quarter of its length at
// 0.5 GB/s, on the way out.
func (p *pictures) zip(body proxy.Source) proxy.Source {
	r := &p.ctx.Request.Header
	if p.snap.cfg.Images.Compress && r.IsHTTP11() && accepts(r.Peek("Accept-Encoding"), "gzip") {
		h := &p.ctx.Response.Header
		h.Set("Content-Encoding", "gzip")
		h.Set("Vary", "Accept-Encoding")
		body = zipped{body}
	}
	return body
}

// zipped is a body that is compressed while it is written.
type zipped struct{ proxy.Source }

var zippers = sync.Pool{New: func() any {
	z, err := gzip.NewWriterLevel(nil, gzip.HuffmanOnly)
	if err != nil {
		panic(err) // the level is one there is
	}
	return z
}}

// Len is not known before all is written.
func (zipped) Len() int64 { return -1 }

func (b zipped) WriteTo(w io.Writer) (int64, error) {
	z := zippers.Get().(*gzip.Writer)
	z.Reset(w)
	n, err := b.Source.WriteTo(z)
	if end := z.Close(); err == nil {
		err = end
	}
	z.Reset(nil)
	zippers.Put(z)
	return n, err
}
