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

// readCitation reads an entry of annotations; false: it names no source.
func readCitation(entry []byte) (c citation, ok bool) {
	source := jsontext.MemberOf(entry, "url_citation")
	if len(source) == 0 || source[0] != '{' {
		return c, false
	}
	for m := range jsontext.Members(source, 1) {
		value := jsontext.Quoted(source[m.From:m.To])
		switch string(m.Key) {
		case "url":
			c.url = value
		case "title":
			c.title = value
		case "content":
			c.cited = value
		}
	}
	return c, true
}
