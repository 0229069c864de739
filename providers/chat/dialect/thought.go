package dialect

import "farebox/proxy/scan"

// AnthropicThoughts is the format of an entry of reasoning_details whose signature or
// data Anthropic's models read again (addendum 5.2).
const AnthropicThoughts = "anthropic-claude-v1"

// thoughtShape is an entry of reasoning_details.
var thoughtShape = names("type", "id", "index", "format", "text", "summary", "signature", "data")

// AppendThought appends an entry of reasoning_details that a client has handed back, with
// the members that entries have. It reports false, and appends nothing, for what is none.
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
