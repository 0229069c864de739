package anthropic

import (
	"bytes"
	"unicode/utf8"

	"farebox/providers/chat/dialect"
	"farebox/proxy/jsontext"
)

// Citations follow the block of text that they are for. Pages and search results
// become url_citations; documents, which have no address, file_citations.

// maxCited bounds the citations that a stream keeps until their block ends.
const maxCited = 64 << 10

// cited is one citation of this dialect; texts are escaped as in JSON.
type cited struct {
	document           bool
	url, title, quoted []byte
	index              []byte // of the document
	raw                []byte
}

func readCited(raw []byte) (c cited) {
	c.raw = raw
	for m := range jsontext.Members(raw, 1) {
		value := raw[m.From:m.To]
		if value[0] != '"' {
			if string(m.Key) == "document_index" {
				c.index, c.document = value, true
			}
			continue
		}
		switch value = value[1 : len(value)-1]; string(m.Key) {
		case "url", "source":
			c.url = value
		case "title", "document_title":
			c.title = value
		case "cited_text":
			c.quoted = value
		}
	}
	return c
}

// append appends the annotation; from and to enclose the block's text.
func (c *cited) append(dst []byte, from, to int64) []byte {
	text := func(name string, value []byte) {
		if value != nil {
			dst = append(append(append(append(dst, name...), '"'), value...), '"')
		}
	}
	if c.document {
		dst = append(append(dst, `{"type":"file_citation","file_citation":{"index":`...), c.index...)
		text(`,"filename":`, c.title)
	} else {
		dst = append(append(dst, `{"type":"url_citation","url_citation":{"url":"`...), c.url...)
		dst = append(dst, '"')
		text(`,"title":`, c.title)
	}
	text(`,"content":`, c.quoted)
	dst = jsontext.Object(dst).Int("start_index", from).Int("end_index", to)
	if c.document {
		dst = c.places(dst)
	}
	return append(dst, "}}"...)
}

// places appends where in the document the text is, by the model's word.
func (c *cited) places(dst []byte) []byte {
	for m := range jsontext.Members(c.raw, 1) {
		switch string(m.Key) {
		case "start_char_index", "end_char_index", "start_page_number", "end_page_number", "start_block_index",
			"end_block_index":
			dst = append(append(append(dst, `,"`...), m.Key...), `":`...)
			dst = append(dst, c.raw[m.From:m.To]...)
		}
	}
	return dst
}

// appendCitations appends annotations for a list of citations; n is how many there are
// before them.
func appendCitations(dst, list []byte, from, to int64, n *int) []byte {
	if len(list) == 0 || list[0] != '[' {
		return dst
	}
	for one := range jsontext.Elements(list) {
		if one[0] != '{' {
			continue
		}
		c := readCited(one)
		if !c.document && len(c.url) == 0 {
			continue // it says of nothing where it is
		}
		if *n > 0 {
			dst = append(dst, ',')
		}
		*n++
		dst = c.append(dst, from, to)
	}
	return dst
}

// chars is how many characters a text has, escaped as in JSON.
func chars(text []byte) (n int64) {
	if bytes.IndexByte(text, '\\') < 0 {
		return int64(utf8.RuneCount(text))
	}
	for i := 0; i < len(text); n++ {
		switch {
		case text[i] != '\\' || i+1 == len(text):
			_, size := utf8.DecodeRune(text[i:])
			i += size
		case text[i+1] != 'u':
			i += 2
		case high(text[i:]) && i+7 < len(text) && text[i+6] == '\\' && text[i+7] == 'u':
			i += 12 // a pair is one character
		default:
			i += 6
		}
	}
	return n
}

// high says that an escape is the first half of a pair.
func high(escape []byte) bool {
	return len(escape) >= 6 && (escape[2] == 'd' || escape[2] == 'D') && bytes.IndexByte([]byte("89abAB"), escape[3]) >= 0
}

// cite keeps a citation until the end of its block tells where that is.
func (s *stream) cite(citation []byte) {
	if len(citation) == 0 || citation[0] != '{' || len(s.cited)+len(citation) > maxCited {
		return
	}
	if len(s.cited) == 0 {
		s.cited = append(s.cited, '[')
	} else {
		s.cited = append(s.cited, ',')
	}
	s.cited = append(s.cited, citation...)
}

// Flush is dialect.Reader. It puts the citations of the block that ends.
func (s *stream) Flush() {
	if len(s.cited) == 0 {
		return
	}
	n := 0
	s.sources = appendCitations(s.sources[:0], append(s.cited, ']'), s.textFrom, s.chars, &n)
	if s.cited = s.cited[:0]; n > 0 {
		e := s.Event(dialect.Sources, 0)
		e.Raw = s.sources
		s.Put(e)
	}
}
