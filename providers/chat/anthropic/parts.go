package anthropic

import (
	"bytes"
	"encoding/base64"

	"farebox/providers/chat/dialect"
	"farebox/proxy/jsontext"
	"farebox/proxy/scan"
)

// content writes a message's content as blocks.
func (w *request) content(m int32) {
	content := w.doc.Member(m, dialect.MessageContent)
	if content < 0 {
		return
	}
	if w.doc.Fields[content].Kind == scan.String {
		w.eachText(m, w.text)
		return
	}
	if w.doc.Fields[content].Kind != scan.Array {
		return
	}
	for p := content + 1; p < w.doc.Fields[content].Next; p = w.doc.Fields[p].Next {
		switch string(w.c.Text(w.doc.Member(p, dialect.PartType))) {
		case "text":
			if raw := w.c.Raw(w.doc.Member(p, dialect.PartText)); len(raw) > 2 && !dialect.IsBlank(raw) {
				w.text(raw, w.partCache(m, p))
			}
		case "refusal":
			if raw := w.c.Raw(w.doc.Member(p, dialect.PartRefusal)); len(raw) > 2 && raw[0] == '"' && !dialect.IsBlank(raw) {
				w.text(raw, w.partCache(m, p))
			}
		case "image_url":
			w.attach(p, "image", w.partCache(m, p))
		case "file":
			w.attach(p, "document", w.partCache(m, p))
		default:
			w.fail(w.doc.Path(p), "This model does not accept audio or video.")
		}
	}
}

// begin begins a block: of the turn, or of the result of a tool that is being written.
func (w *request) begin() {
	switch w.inResult {
	case 0:
		w.block()
		return
	case 1:
		w.b = append(w.b, `,"content":[`...)
	default:
		w.b = append(w.b, ',')
	}
	w.inResult++
}

// attach writes an image or document block from a data URL or a link. cache is its mark for
// caching, -1: none.
func (w *request) attach(part int32, kind string, cache int32) {
	carrier := w.doc.Member(part, dialect.PartImage)
	if kind == "document" {
		carrier = w.doc.Member(part, dialect.PartFile)
	}
	if carrier < 0 {
		return
	}
	// The URL or data is the first member of every carrier.
	link := w.c.Text(w.doc.Member(carrier, dialect.LinkURL))
	if !plain(link) {
		// Some encoders write \/ for the slashes of a URL and of base64.
		w.scratch = jsontext.AppendUnescaped(w.scratch[:0], link)
		link = w.scratch
	}
	media, data, ok := dialect.DataURL(link)
	if !ok && bytes.HasPrefix(link, []byte("data:")) {
		w.fail(w.doc.Path(carrier), "A data URL must be base64.")
		return
	}
	if ok && kind == "document" && !bytes.Equal(media, []byte("application/pdf")) {
		w.document(part, carrier, cache, media, data)
		return
	}
	if ok && kind == "image" {
		if media = imageType(media); media == nil {
			w.fail(w.doc.Path(carrier),
				"This model takes images of type image/jpeg, image/png, image/gif and image/webp only.")
		}
	}
	if ok && !dialect.IsBase64(data) {
		w.fail(w.doc.Path(carrier), "The data of the data URL is not base64.")
	}
	if !ok && !bytes.HasPrefix(link, []byte("https://")) && !bytes.HasPrefix(link, []byte("http://")) {
		w.fail(w.doc.Path(carrier), "This model takes data URLs and links that begin with https:// only.")
	}
	w.begin()
	w.b = append(append(append(w.b, `{"type":"`...), kind...), `","source":{"type":`...)
	if ok {
		w.b = append(append(w.b, `"base64","media_type":`...), jsontext.AppendString(nil, media)...)
		w.b = append(w.b, `,"data":"`...)
		w.b = append(jsontext.AppendEscaped(w.b, data), `"}`...)
	} else {
		w.b = append(jsontext.AppendString(append(w.b, `"url","url":`...), link), '}')
	}
	w.title(carrier, kind)
	w.cites(part, kind)
	w.cacheControl(cache)
	w.b = append(w.b, '}')
}

// document writes a file of plain text, which goes as text.
func (w *request) document(part, carrier, cache int32, media, data []byte) {
	if !bytes.HasPrefix(media, []byte("text/")) && !bytes.Equal(media, []byte("application/json")) {
		w.fail(w.doc.Path(carrier), "This model takes files of type application/pdf and text only.")
		return
	}
	text, err := base64.StdEncoding.AppendDecode(nil, data)
	if err != nil || len(text) == 0 {
		w.fail(w.doc.Path(carrier), "The file's data is not base64 of some text.")
		return
	}
	w.begin()
	w.b = append(w.b, `{"type":"document","source":{"type":"text","media_type":"text/plain","data":`...)
	w.b = append(jsontext.AppendString(w.b, text), '}')
	w.title(carrier, "document")
	w.cites(part, "document")
	w.cacheControl(cache)
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

// cites has the model cite from a document where the client says so.
func (w *request) cites(part int32, kind string) {
	i := w.doc.Member(part, dialect.PartCitations)
	if kind == "document" && i >= 0 && w.c.True(w.doc.Member(i, dialect.CitationsEnabled)) {
		w.b = append(w.b, `,"citations":{"enabled":true}`...)
	}
}

// imageType is the media type as the dialect spells it; nil: it takes none of
// that type.
func imageType(media []byte) []byte {
	media = bytes.ToLower(media)
	switch string(media) {
	case "image/jpg", "image/pjpeg":
		return []byte("image/jpeg")
	case "image/jpeg", "image/png", "image/gif", "image/webp":
		return media
	}
	return nil
}
