package tokens_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/tiktoken-go/tokenizer/codec"

	"farebox/providers/chat/dialect"
)

// pieceBytes is how much text a prompt tokenises at a time.
const pieceBytes = 1 << 10

// Texts have as many tokens as the tokenizer says.
func TestTokensAreCountedAsTheTokenizerDoes(t *testing.T) {
	t.Parallel()
	texts := []string{
		"", " ", "a", "Hello, world!", "It's the customers' money; they'LL PAY.",
		"func main() {\r\n\tfmt.Println(\"x\")\r\n}\n\n\n", "12345678901234567890",
		"über 東京 is 日本 the 中国 дом 수 😀 ñ θα και מן שלום", "\xff\xfe broken \xc3", strings.Repeat("a", pieceBytes),
		strings.Repeat("ab", 300), strings.Repeat(" ", 500),
		strings.Repeat("=", 900), strings.Repeat("東", 300), strings.Repeat("xyzzyqwrtplkj", 70),
		strings.Repeat("👍", 200), "<|endoftext|>",
	}
	words := strings.Fields(
		"the a small river Moves PAST über 東京 don't we'll {} () == // \t \n\n 2026 0x7f ñandú " +
			"antidisestablishmentarianism zzzzqx 😀 \u00a0 e\u0301")
	r := rand.New(rand.NewPCG(1, 2))
	for range 400 {
		var b strings.Builder
		for b.Len() < r.IntN(900) {
			switch r.IntN(4) {
			case 0:
				b.WriteByte(byte(r.IntN(256)))
			case 1:
				b.WriteByte('a' + byte(r.IntN(26)))
			default:
				b.WriteString(words[r.IntN(len(words))] + strings.Repeat(" ", r.IntN(3)))
			}
		}
		texts = append(texts, b.String())
	}
	for name, c := range map[string]*codec.Codec{"o200k_base": codec.NewO200kBase(),
		"cl100k_base": codec.NewCl100kBase()} {
		for _, text := range texts {
			text = strings.ReplaceAll(text[:min(len(text), pieceBytes)], "\x7f", "") // which the tokenizer passes over
			want, err := c.Count(text)
			if err != nil {
				t.Fatal(err)
			}
			if got := dialect.CountTokens(name, []byte(text)); got != int64(want) {
				t.Errorf("%s counts %d tokens, not %d, in %q", name, got, want, text)
			}
		}
	}
}
