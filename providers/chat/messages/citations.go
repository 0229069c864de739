package messages

import (
	"farebox/proxy/jsontext"
)

// citation is one annotation that names a source. Its texts are escaped as they are between
// their quotes.
type citation struct{ url, title, cited []byte }

func (c *citation) append(dst []byte) []byte {
	dst = append(append(dst, `{"type":"web_search_result_location","url":"`...), c.url...)
	dst = append(append(dst, `","title":"`...), c.title...)
	dst = append(append(dst, `","encrypted_index":"","cited_text":"`...), c.cited...)
	return append(dst, `"}`...)
}

// next reads the next source in a list of annotations at or after at.
func (c *citation) next(list []byte, at int) (next int, ok bool) {
	for {
		from, to, ok := jsontext.NextElement(list, at)
		if !ok {
			return at, false
		}
		at = to
		entry := list[from:to]
		for m := range jsontext.Members(entry, 1) {
			if string(m.Key) == "url_citation" && entry[m.From] == '{' {
				*c = readCitation(entry[m.From:m.To])
				return at, true
			}
		}
	}
}

func readCitation(entry []byte) (c citation) {
	for m := range jsontext.Members(entry, 1) {
		if entry[m.From] != '"' {
			continue
		}
		switch value := entry[m.From+1 : m.To-1]; string(m.Key) {
		case "url":
			c.url = value
		case "title":
			c.title = value
		case "content":
			c.cited = value
		}
	}
	return c
}
