package anthropic

import (
	"bytes"
	"encoding/base64"

	"farebox/providers/chat/dialect"
	"farebox/proxy/jsontext"
	"farebox/proxy/scan"
)

// content writes a message's content as blocks.
func (r *request) content(m int32) {
	content := r.Doc.Member(m, dialect.MessageContent)
	if content < 0 {
		return
	}
	if r.Doc.Fields[content].Kind == scan.String {
		for p, raw := range r.Texts(m) {
			r.text(raw, r.partCache(m, p))
		}
		return
	}
	if r.Doc.Fields[content].Kind != scan.Array {
		return
	}
	for p := content + 1; p < r.Doc.Fields[content].Next; p = r.Doc.Fields[p].Next {
		switch string(r.Text(r.Doc.Member(p, dialect.PartType))) {
		case "text":
			if raw := r.Raw(r.Doc.Member(p, dialect.PartText)); len(raw) > 2 && !dialect.IsBlank(raw) {
				r.text(raw, r.partCache(m, p))
			}
		case "refusal":
			if raw := r.Raw(r.Doc.Member(p, dialect.PartRefusal)); len(raw) > 2 && raw[0] == '"' && !dialect.IsBlank(raw) {
				r.text(raw, r.partCache(m, p))
			}
		case "image_url":
			r.attach(p, "image", r.partCache(m, p))
		case "file":
			r.attach(p, "document", r.partCache(m, p))
		default:
			r.Fail(r.Doc.Path(p), "This model does not accept audio or video.")
		}
	}
}

// begin begins a block: of the turn, or of the result of a tool that is being written.
func (r *request) begin() {
	switch r.inResult {
	case 0:
		r.block()
		return
	case 1:
		r.b = append(r.b, `,"content":[`...)
	default:
		r.b = append(r.b, ',')
	}
	r.inResult++
}

// attach writes an image or document block from a data URL or a link. cache is its mark for
// caching, -1: none.
func (r *request) attach(part int32, kind string, cache int32) {
	carrier := r.Doc.Member(part, dialect.PartImage)
	if kind == "document" {
		carrier = r.Doc.Member(part, dialect.PartFile)
	}
	if carrier < 0 {
		return
	}
	// The URL or data is the first member of every carrier.
	link := r.Text(r.Doc.Member(carrier, dialect.LinkURL))
	if !plain(link) {
		// Some encoders write \/ for the slashes of a URL and of base64.
		r.scratch = jsontext.AppendUnescaped(r.scratch[:0], link)
		link = r.scratch
	}
	media, data, ok := dialect.DataURL(link)
	if !ok && bytes.HasPrefix(link, []byte("data:")) {
		r.Fail(r.Doc.Path(carrier), "A data URL must be base64.")
		return
	}
	if ok && kind == "document" && !bytes.Equal(media, []byte("application/pdf")) {
		r.document(part, carrier, cache, media, data)
		return
	}
	if ok && kind == "image" {
		if media = imageType(media); media == nil {
			r.Fail(r.Doc.Path(carrier),
				"This model takes images of type image/jpeg, image/png, image/gif and image/webp only.")
		}
	}
	if ok && !dialect.IsBase64(data) {
		r.Fail(r.Doc.Path(carrier), "The data of the data URL is not base64.")
	}
	if !ok && !bytes.HasPrefix(link, []byte("https://")) && !bytes.HasPrefix(link, []byte("http://")) {
		r.Fail(r.Doc.Path(carrier), "This model takes data URLs and links that begin with https:// only.")
	}
	r.begin()
	r.b = append(append(append(r.b, `{"type":"`...), kind...), `","source":{"type":`...)
	if ok {
		r.b = append(append(r.b, `"base64","media_type":`...), jsontext.AppendString(nil, media)...)
		r.b = append(r.b, `,"data":"`...)
		r.b = append(jsontext.AppendEscaped(r.b, data), `"}`...)
	} else {
		r.b = append(jsontext.AppendString(append(r.b, `"url","url":`...), link), '}')
	}
	r.title(carrier, kind)
	r.cites(part, kind)
	r.cacheControl(cache)
	r.b = append(r.b, '}')
}

// document writes a file of plain text, which goes as text.
func (r *request) document(part, carrier, cache int32, media, data []byte) {
	if !bytes.HasPrefix(media, []byte("text/")) && !bytes.Equal(media, []byte("application/json")) {
		r.Fail(r.Doc.Path(carrier), "This model takes files of type application/pdf and text only.")
		return
	}
	text, err := base64.StdEncoding.AppendDecode(nil, data)
	if err != nil || len(text) == 0 {
		r.Fail(r.Doc.Path(carrier), "The file's data is not base64 of some text.")
		return
	}
	r.begin()
	r.b = append(r.b, `{"type":"document","source":{"type":"text","media_type":"text/plain","data":`...)
	r.b = append(jsontext.AppendString(r.b, text), '}')
	r.title(carrier, "document")
	r.cites(part, "document")
	r.cacheControl(cache)
	r.b = append(r.b, '}')
}

func (r *request) title(carrier int32, kind string) {
	if kind != "document" {
		return
	}
	if name := r.Raw(r.Doc.Member(carrier, dialect.FileName)); len(name) > 2 {
		r.member("title", name)
	}
}

// cites has the model cite from a document where the client says so.
func (r *request) cites(part int32, kind string) {
	i := r.Doc.Member(part, dialect.PartCitations)
	if kind == "document" && i >= 0 && r.True(r.Doc.Member(i, dialect.CitationsEnabled)) {
		r.b = append(r.b, `,"citations":{"enabled":true}`...)
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
