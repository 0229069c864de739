package openai

import (
	"fmt"
	"strings"
	"testing"

	"farebox/config"
	"farebox/providers/chat/dialect"
)

// BenchmarkWholeAnswer reads whole answers, with a usage that fits their bytes and with one
// that cannot be true.
func BenchmarkWholeAnswer(b *testing.B) {
	c := chatOf(b, `{"model":"m","messages":[{"role":"user","content":"hi"}]}`)
	t := targetOf(c.Model, "m", config.Quirks{})
	for name, word := range map[string]string{"prose": "the small river moves past old stone houses ", "letters": "qxzj"} {
		for _, size := range []int{2 << 10, 8 << 10, 32 << 10} {
			for usage, tokens := range map[string]int{"true": size / 5, "false": 40} {
				b.Run(fmt.Sprintf("%s/%d KB/%s usage", name, size>>10, usage), func(b *testing.B) {
					text := strings.Repeat(word, size/len(word))
					body := []byte(fmt.Sprintf(`{"id":"1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,`+
						`"message":{"role":"assistant","content":%q},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,`+
						`"completion_tokens":%d,"total_tokens":%d}}`, text, tokens, tokens+9))
					var s dialect.Scratch
					b.ReportAllocs()
					for b.Loop() {
						s.Reset()
						if _, _, err := (Dialect{}).Answer(body, c, t, &s); err != nil {
							b.Fatal(err)
						}
					}
				})
			}
		}
	}
}
