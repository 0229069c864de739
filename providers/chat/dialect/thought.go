package dialect

import (
	"farebox/proxy/jsontext"
	"farebox/proxy/scan"
)

// AnthropicThoughts is the format of an entry of reasoning_details whose signature or
// data Anthropic's models read again (addendum 5.2).
const AnthropicThoughts = "anthropic-claude-v1"

// thoughtShape is an entry of reasoning_details.
var thoughtShape = names("type", "id", "index", "format", "text", "summary", "signature", "data")

// AppendThought appends an entry of reasoning_details that a client has handed back, with
// the members that entries have. It reports false, and appends nothing, for anything else.
func AppendThought(dst, entry []byte) ([]byte, bool) {
	var doc scan.Document
	if len(entry) == 0 || entry[0] != '{' || doc.SkimStrict(entry, thoughtShape) != nil {
		return dst, false
	}
	dst = append(dst, '{')
	for i := range doc.Fields {
		if i > 0 {
			dst = append(dst, ',')
		}
		f := &doc.Fields[i]
		dst = append(append(append(dst, '"'), thoughtShape.Name(int(f.Name))...), `":`...)
		dst = append(dst, f.Raw(entry)...)
	}
	return append(dst, '}'), true
}

// Detail is an entry of reasoning_details. Its texts are escaped as they are between their
// quotes.
type Detail struct {
	Entry, Text, Signature, Data, Format []byte
}

// Sealed says that the entry is not one of Anthropic's, which clients know to send
// back, and has something that its maker wants back.
func (d *Detail) Sealed() bool {
	return len(d.Format) > 0 && string(d.Format) != AnthropicThoughts && (len(d.Signature) > 0 || len(d.Data) > 0)
}

// Next reads the object of a list at or after at; false: the list has no more.
func (d *Detail) Next(list []byte, at int) (next int, ok bool) {
	from, to, ok := jsontext.NextElement(list, at)
	if !ok {
		return at, false
	}
	*d = Detail{Entry: list[from:to]}
	if d.Entry[0] != '{' {
		return to, true
	}
	for m := range jsontext.Members(d.Entry, 1) {
		value := jsontext.Quoted(d.Entry[m.From:m.To])
		switch string(m.Key) {
		case "text", "summary":
			d.Text = value
		case "signature":
			d.Signature = value
		case "data":
			d.Data = value
		case "format":
			d.Format = value
		}
	}
	return to, true
}
