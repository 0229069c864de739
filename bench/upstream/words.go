package upstream

import (
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"farebox/providers/tokens"
)

// Every word is one o200k_base token with and without a leading space, and the
// tokenizer never joins two of them, so that the number of words of a text is
// its number of tokens (words_test.go proves it).
var (
	plainWords = spaced(`the a small river moves past old stone houses and every light falls on quiet water
		while boats carry bread salt and paper to the market where people talk about weather prices and the long road
		north some of them wait for letters others count their money before they leave because the day is long and the wind is kind`)
	unicodeWords = spaced(`über 東京 is 日本 the 中国 and дом 수 😀 now 😊 или ❤ 👍 so ñ θα και מן שלום את è`)
)

func spaced(text string) []string {
	list := strings.Fields(text)
	for i, w := range list {
		list[i] = " " + w
	}
	return list
}

// text is a completion as its tokens.
type text interface {
	Len() int
	At(i int) string
}

// words is n words of a list starting anywhere, made as they are asked for.
type words struct {
	list  []string
	start int
	n     int
}

func (w words) Len() int { return w.n }

func (w words) At(i int) string {
	word := w.list[(w.start+i)%len(w.list)]
	if i == 0 {
		return word[1:]
	}
	return word
}

// pieces is a text cut into its tokens.
type pieces []string

func (p pieces) Len() int        { return len(p) }
func (p pieces) At(i int) string { return p[i] }

// opening is the beginning of a text.
type opening struct {
	text
	n int
}

func (o opening) Len() int { return min(o.n, o.text.Len()) }

func appendText(dst []byte, t text) []byte {
	for i := range t.Len() {
		dst = append(dst, t.At(i)...)
	}
	return dst
}

// CountText is the number of o200k_base tokens of a text.
func CountText(s string) int64 {
	if s == "" {
		return 0
	}
	return int64(tokens.O200k().Count(s))
}

func tokenise(s string) pieces {
	return tokens.O200k().Split(s)
}

const (
	tokensPerMessage = 3
	tokensPerRole    = 1
	tokensPerReply   = 3
	tokensPerPart    = 85 // an image, a file or a sound of any size
)

// CountPrompt is the number of prompt tokens of a chat or messages request as
// the OpenAI cookbook counts them, with o200k_base.
func CountPrompt(body []byte) int64 {
	var total int64
	if system := gjson.GetBytes(body, "system"); system.Exists() {
		total += tokensPerMessage + tokensPerRole + countContent(system)
	}
	if words := gjson.GetBytes(body, "instructions"); words.Type == gjson.String {
		total += tokensPerMessage + tokensPerRole + CountText(words.Str)
	}
	total += countInput(gjson.GetBytes(body, "input"))
	gjson.GetBytes(body, "messages").ForEach(func(_, m gjson.Result) bool {
		total += tokensPerMessage + tokensPerRole + countContent(m.Get("content"))
		if name := m.Get("name"); name.Exists() {
			total += 1 + CountText(name.Str)
		}
		return true
	})
	return total + tokensPerReply
}

// countInput counts the input of a request of POST /responses.
func countInput(input gjson.Result) (total int64) {
	if input.Type == gjson.String {
		return tokensPerMessage + tokensPerRole + CountText(input.Str)
	}
	input.ForEach(func(_, item gjson.Result) bool {
		total += tokensPerMessage + tokensPerRole
		for _, member := range []string{"content", "summary", "output"} {
			total += countContent(item.Get(member))
		}
		for _, member := range []string{"arguments", "input", "name"} {
			total += CountText(item.Get(member).String())
		}
		return true
	})
	return total
}

func countContent(content gjson.Result) int64 {
	if !content.IsArray() {
		return CountText(content.Str)
	}
	var total int64
	content.ForEach(func(_, part gjson.Result) bool {
		switch part.Get("type").Str {
		case "text", "input_text", "output_text", "summary_text":
			total += CountText(part.Get("text").Str)
		case "tool_result":
			total += countContent(part.Get("content"))
		case "tool_use":
			total += CountText(part.Get("input").Raw)
		default:
			total += tokensPerPart
		}
		return true
	})
	return total
}

const maxSchemaDepth = 32

// exampleJSON is a value that conforms to a JSON schema: every property is
// present, the first of several allowed values is taken.
func exampleJSON(schema gjson.Result) string {
	if !schema.IsObject() {
		return "{}"
	}
	return string(example(nil, schema, schema, 0))
}

func example(dst []byte, root, schema gjson.Result, depth int) []byte {
	if depth > maxSchemaDepth {
		return append(dst, "null"...)
	}
	if ref := schema.Get("$ref").Str; strings.HasPrefix(ref, "#/") {
		path := strings.ReplaceAll(ref[2:], "/", ".")
		return example(dst, root, root.Get(path), depth+1)
	}
	if v := schema.Get("const"); v.Exists() {
		return append(dst, v.Raw...)
	}
	if v := schema.Get("enum.0"); v.Exists() {
		return append(dst, v.Raw...)
	}
	for _, name := range []string{"anyOf.0", "oneOf.0", "allOf.0"} {
		if v := schema.Get(name); v.Exists() {
			return example(dst, root, v, depth+1)
		}
	}
	kind := schema.Get("type")
	if kind.IsArray() {
		kind = kind.Get("0")
	}
	switch kind.Str {
	case "string":
		return exampleString(dst, schema)
	case "integer":
		return exampleNumber(dst, schema, "7")
	case "number":
		return exampleNumber(dst, schema, "1.5")
	case "boolean":
		return append(dst, "true"...)
	case "null":
		return append(dst, "null"...)
	case "array":
		dst = append(dst, '[')
		n := max(1, int(schema.Get("minItems").Int()))
		for i := range n {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = example(dst, root, schema.Get("items"), depth+1)
		}
		return append(dst, ']')
	}
	dst = append(dst, '{')
	comma := false
	schema.Get("properties").ForEach(func(name, property gjson.Result) bool {
		if comma {
			dst = append(dst, ',')
		}
		comma = true
		dst = append(dst, name.Raw...)
		dst = append(dst, ':')
		dst = example(dst, root, property, depth+1)
		return true
	})
	return append(dst, '}')
}

func exampleString(dst []byte, schema gjson.Result) []byte {
	text := "river"
	switch schema.Get("format").Str {
	case "date-time":
		text = "2026-01-02T03:04:05Z"
	case "date":
		text = "2026-01-02"
	case "email":
		text = "river@example.org"
	case "uri":
		text = "https://example.org/"
	case "uuid":
		text = "00000000-0000-4000-8000-000000000000"
	}
	for int64(len(text)) < schema.Get("minLength").Int() {
		text += " river"
	}
	if limit := schema.Get("maxLength"); limit.Exists() && int64(len(text)) > limit.Int() {
		text = text[:limit.Int()]
	}
	return strconv.AppendQuote(dst, text)
}

func exampleNumber(dst []byte, schema gjson.Result, usual string) []byte {
	if v := schema.Get("minimum"); v.Exists() && v.Num > 7 {
		return append(dst, v.Raw...)
	}
	if v := schema.Get("maximum"); v.Exists() && v.Num < 7 {
		return append(dst, v.Raw...)
	}
	return append(dst, usual...)
}
