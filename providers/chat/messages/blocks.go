package messages

import (
	"encoding/base64"
	"slices"
	"strings"

	"farebox/proxy/jsontext"
)

// block writes a block of text, a picture or a document as a part.
func (r *reader) block(b int32) {
	switch kind := string(r.text(r.member(b, BlockType))); kind {
	case "text":
		r.strange(b)
		r.cites(b)
		r.b = append(r.b, `{"type":"text"`...)
		r.put("text", r.raw(r.member(b, BlockText)))
	case "image":
		r.strange(b)
		r.b = append(r.b, `{"type":"image_url"`...)
		r.source(b, "image_url", "url")
	case "document":
		r.strange(b)
		r.cites(b)
		r.b = append(r.b, `{"type":"file"`...)
		if r.member(b, BlockContext) >= 0 {
			r.f.left.Add("messages.content.context")
		}
		r.source(b, "file", "file_data")
	default:
		// It is counted and priced as text. Only an upstream that knows the block gets
		// it as it is; every upstream gets the names of found tools.
		if kind != "tool_reference" {
			r.strangeBlock(b, kind)
		}
		r.b = append(r.b, `{"type":"text","text":`...)
		r.b = jsontext.AppendString(r.b, r.raw(b))
	}
	r.cache(b)
	r.b = append(r.b, '}')
}

// strangeBlock notes a block of a kind that only upstreams of the form itself take,
// or that no upstream may get.
func (r *reader) strangeBlock(b int32, kind string) {
	switch kind {
	case "search_result":
		r.untold(r.doc.Path(b)+".type", "search_result")
		r.texts(r.member(b, BlockContent))
	case "":
		r.no(r.doc.Path(b)+".type", "is required.")
	default:
		r.no(r.doc.Path(b)+".type", "blocks of type %s are not sold here.", clip([]byte(kind)))
	}
}

// cites notes that a block is to be cited from, which chat completions do not have.
func (r *reader) cites(b int32) {
	if i := r.member(b, BlockCitations); r.isObject(i) && r.isTrue(r.member(i, EnabledFlag)) {
		r.f.left.Add("messages.content.citations")
	}
}

// cache writes the mark for caching of a block.
func (r *reader) cache(b int32) { r.mark(r.member(b, BlockCache)) }

// mark writes a mark for caching, if it is one.
func (r *reader) mark(i int32) {
	if r.isObject(i) {
		r.b = append(r.b, `,"cache_control":{"type":"ephemeral"`...)
		r.put("ttl", r.raw(r.member(i, CacheTTL)))
		r.b = append(r.b, '}')
	}
}

// source writes where a picture or document comes from, as the carrier of a part.
func (r *reader) source(b int32, carrier, member string) {
	s := r.member(b, BlockSource)
	if !r.isObject(s) {
		r.no(r.doc.Path(b)+".source", "is required and must be an object.")
		r.b = append(append(r.b, `,"`...), carrier...)
		r.b = append(r.b, `":{}`...)
		return
	}
	r.strange(s)
	path := r.doc.Path(s)
	const kept = "files are those of the provider's account that all customers of this service share; send the data itself."
	r.b = append(append(append(r.b, `,"`...), carrier...), `":{"`...)
	r.b = append(append(r.b, member...), `":"`...)
	data, media := r.text(r.member(s, SourceData)), r.text(r.member(s, SourceMedia))
	kind := string(r.text(r.member(s, SourceType)))
	if kind != "file" && r.member(s, SourceFile) >= 0 {
		r.no(path+".file_id", kept)
	}
	r.oneSource(s, kind)
	switch kind {
	case "base64":
		if len(data) == 0 || len(media) == 0 {
			r.no(path, "must have media_type and data.")
		}
		r.b = append(append(append(r.b, "data:"...), media...), ";base64,"...)
		r.b = append(r.b, data...)
	case "url":
		link := r.text(r.member(s, SourceURL))
		if len(link) == 0 {
			r.no(path+".url", "is required.")
		}
		r.b = append(r.b, link...)
	case "text":
		if carrier != "file" {
			r.no(path+".type", "a picture cannot be of text.")
		}
		r.plain(jsontext.AppendUnescaped(nil, data))
	case "content":
		r.parts(s, carrier)
	case "file":
		r.no(path+".type", kept)
	default:
		r.no(path+".type", "must be base64, url, text or content.")
	}
	r.b = append(r.b, '"')
	if carrier == "file" {
		r.filename(b, s)
	}
	r.b = append(r.b, '}')
}

// oneSource refuses a source with the content of another kind. An upstream could read
// that instead, and it was neither priced nor checked.
func (r *reader) oneSource(s int32, kind string) {
	if !slices.Contains([]string{"base64", "url", "text", "content"}, kind) {
		return // it is refused for its type
	}
	for _, other := range []struct {
		member int
		name   string
		kinds  []string
	}{
		{SourceURL, ".url", []string{"url"}},
		{SourceData, ".data", []string{"base64", "text"}},
		{SourceContent, ".content", []string{"content"}},
	} {
		if r.member(s, other.member) >= 0 && !slices.Contains(other.kinds, kind) {
			r.no(r.doc.Path(s)+other.name, "needs a source of type %s; leave it out, or change type.", strings.Join(other.kinds, " or "))
		}
	}
}

// plain writes a text as a data URL.
func (r *reader) plain(text []byte) {
	r.b = append(r.b, "data:text/plain;base64,"...)
	r.b = base64.StdEncoding.AppendEncode(r.b, text)
}

// parts writes a document that was given in parts. Pictures among them are for
// upstreams that know such documents.
func (r *reader) parts(s int32, carrier string) {
	if carrier != "file" {
		r.no(r.doc.Path(s)+".type", "a picture cannot be of parts.")
	}
	content := r.member(s, SourceContent)
	text := jsontext.AppendUnescaped(nil, r.text(content))
	r.each(content, func(p int32) {
		if t := r.text(r.member(p, BlockText)); t != nil {
			if len(text) > 0 {
				text = append(text, '\n')
			}
			text = jsontext.AppendUnescaped(text, t)
			return
		}
		r.untold(r.doc.Path(p), "a document with pictures in it")
		text = append(text, r.raw(p)...) // it is priced as its text
		src := r.member(p, BlockSource)
		if !r.isObject(src) {
			return
		}
		kind := string(r.text(r.member(src, SourceType)))
		if r.oneSource(src, kind); kind != "base64" {
			// A link would be neither checked nor priced, and files are those of the
			// provider's account.
			r.no(r.doc.Path(src)+".type", "pictures inside a document must be base64.")
		}
	})
	r.plain(text)
}

// filename names a document by its title.
func (r *reader) filename(b, s int32) {
	if title := r.raw(r.member(b, BlockTitle)); len(title) > 2 {
		r.put("filename", title)
		return
	}
	name := `"document.pdf"`
	if kind := string(r.text(r.member(s, SourceType))); kind == "text" || kind == "content" {
		name = `"document.txt"`
	}
	r.put("filename", []byte(name))
}
