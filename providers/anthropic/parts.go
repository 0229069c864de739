package anthropic

import (
	"bytes"
	"encoding/base64"

	"farebox/providers/dialect"
	"farebox/proxy/scan"
)

// content writes a message's content as blocks.
func (w *request) content(content int32) {
	if content < 0 {
		return
	}
	if w.doc.Fields[content].Kind == scan.String {
		w.eachText(content, func(part int32, raw []byte) { w.text(raw, part) })
		return
	}
	if w.doc.Fields[content].Kind != scan.Array {
		return
	}
	for p := content + 1; p < w.doc.Fields[content].Next; p = w.doc.Fields[p].Next {
		switch string(w.c.Text(w.doc.Member(p, dialect.PartType))) {
		case "text":
			if raw := w.c.Raw(w.doc.Member(p, dialect.PartText)); len(raw) > 2 {
				w.text(raw, p)
			}
		case "image_url":
			w.attach(p, "image", w.doc.Member(p, dialect.PartImage))
		case "file":
			w.attach(p, "document", w.doc.Member(p, dialect.PartFile))
		default:
			w.fail("this model takes no audio or video")
		}
	}
}

// attach writes an image or document block from a data URL or a link.
func (w *request) attach(part int32, kind string, carrier int32) {
	if carrier < 0 {
		return
	}
	// The URL or data is the first member of every carrier.
	link := w.c.Text(w.doc.Member(carrier, dialect.LinkURL))
	if !plain(link) {
		// Some encoders write \/ for the slashes of a URL and of base64.
		w.scratch = dialect.AppendUnescaped(w.scratch[:0], link)
		link = w.scratch
	}
	media, data, ok := dataURL(link)
	if !ok && bytes.HasPrefix(link, []byte("data:")) {
		w.fail("a data URL must be base64")
		return
	}
	if ok && kind == "document" && !bytes.Equal(media, []byte("application/pdf")) {
		w.document(part, carrier, media, data)
		return
	}
	w.block()
	w.b = append(append(append(w.b, `{"type":"`...), kind...), `","source":{"type":`...)
	if ok {
		w.b = append(append(w.b, `"base64","media_type":`...), dialect.AppendString(nil, media)...)
		w.b = append(w.b, `,"data":"`...)
		w.b = append(dialect.AppendEscaped(w.b, data), `"}`...)
	} else {
		w.b = append(dialect.AppendString(append(w.b, `"url","url":`...), link), '}')
	}
	w.title(carrier, kind)
	w.cacheControl(part)
	w.b = append(w.b, '}')
}

// document writes a file of plain text, which goes as text.
func (w *request) document(part, carrier int32, media, data []byte) {
	if !bytes.HasPrefix(media, []byte("text/")) && !bytes.Equal(media, []byte("application/json")) {
		w.fail("this model takes files of type application/pdf and text only")
		return
	}
	text, err := base64.StdEncoding.AppendDecode(nil, data)
	if err != nil {
		w.fail("a file's data is not base64")
		return
	}
	w.block()
	w.b = append(w.b, `{"type":"document","source":{"type":"text","media_type":"text/plain","data":`...)
	w.b = append(dialect.AppendString(w.b, text), '}')
	w.title(carrier, "document")
	w.cacheControl(part)
	w.b = append(w.b, '}')
}

func (w *request) title(carrier int32, kind string) {
	if kind != "document" {
		return
	}
	if name := w.c.Raw(w.doc.Member(carrier, dialect.FileName)); len(name) > 2 {
		w.member("title", name)
	}
}

// dataURL takes data:<media>;base64,<data> apart.
func dataURL(link []byte) (media, data []byte, ok bool) {
	rest, ok := bytes.CutPrefix(link, []byte("data:"))
	if !ok {
		return nil, nil, false
	}
	head, data, ok := bytes.Cut(rest, []byte(","))
	if !ok {
		return nil, nil, false
	}
	media, ok = bytes.CutSuffix(head, []byte(";base64"))
	if semicolon := bytes.IndexByte(media, ';'); semicolon >= 0 {
		media = media[:semicolon] // parameters such as charset
	}
	return media, data, ok
}
