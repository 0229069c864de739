package image

import (
	"encoding/json"
	"strconv"
	"time"

	"farebox/providers/filebody"
	"farebox/proxy"
	"farebox/proxy/jsontext"
	"farebox/routes"
)

// How pictures leave: as base64 inside JSON, or as the file itself. Neither
// makes a copy: the body is written from the upstream's answer.

// maxEcho is the largest request that an answer repeats.
const maxEcho = 64 << 10

// nativeBody is the answer of POST /image/generate (addendum 8.1).
func (p *pictures) nativeBody(echo []byte) (proxy.Source, string) {
	body := &filebody.Pieces{}
	b := append([]byte(`{"id":"generate-image-`), p.call.ID[:]...)
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
	return body, routes.JSONType
}

// appendTiming writes how long it took, in ms.
func (p *pictures) appendTiming(b []byte) []byte {
	r := p.result
	total := time.Since(p.call.Began)
	for _, t := range []struct {
		name string
		d    time.Duration
	}{
		{`,"timing":{"inferenceDuration":`, r.Working}, {`,"inferencePreprocessingTime":`,
			max(0, total-r.Working-r.Queued)},
		{`,"inferenceQueueTime":`, r.Queued}, {`,"total":`, total},
	} {
		b = strconv.AppendInt(append(b, t.name...), t.d.Milliseconds(), 10)
	}
	return append(b, "}}"...)
}

// simpleBody is the answer in OpenAI's form (addendum 8.2).
func (p *pictures) simpleBody(asURL bool) (proxy.Source, string) {
	body := &filebody.Pieces{}
	b := jsontext.Object("{").Int("created", time.Now().Unix())
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
	return body, routes.JSONType
}

// fileBody is the picture itself.
func (p *pictures) fileBody() (proxy.Source, string) {
	m := &p.result.Images[0]
	body := &filebody.Pieces{}
	body.AddRaw(m.Text, m.Raw)
	return body, m.Format.ContentType()
}

// Respond makes the pictures the response. The request ends when the last byte is gone
// or given up; until then the pictures stay in memory.
func (p *pictures) Respond() {
	body := p.file
	if p.contentType == routes.JSONType && p.call.Config().Images.Compress {
		body = p.call.CompressedSource(body)
	}
	p.call.Ctx.Response.SetStatusCode(200)
	p.call.Ctx.Response.Header.SetContentType(p.contentType)
	p.call.Deliver(body)
}
