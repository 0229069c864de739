package upstream

import (
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

// first is the beginning of a text.
type first struct {
	text
	n int
}

func (f first) Len() int { return min(f.n, f.text.Len()) }

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
	tokensPerPart    = 85 // an image, a file or a sound, whatever its size
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
