package dialect

import (
	"flag"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/tiktoken-go/tokenizer/codec"
)

var writeVocabularies = flag.Bool("write-vocabularies", false, "write the vocabularies anew, from the tokenizer's")

// The vocabularies are the tokenizer's, token by token.
func TestVocabulariesAreTheTokenizers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		codec *codec.Codec
		ours  string
	}{"o200k_base": {codec.NewO200kBase(), o200kTokens}, cl100kBase: {codec.NewCl100kBase(), cl100kTokens}} {
		var b strings.Builder
		for rank := uint(0); ; rank++ {
			token, err := c.codec.Decode([]uint{rank})
			if err != nil {
				break
			}
			if len(token) > 255 {
				t.Fatalf("token %d of %s has %d bytes", rank, name, len(token))
			}
			b.WriteByte(byte(len(token)))
			b.WriteString(token)
		}
		if *writeVocabularies {
			if err := os.WriteFile("vocabulary/"+name, []byte(b.String()), 0o644); err != nil {
				t.Fatal(err)
			}
		} else if b.String() != c.ours {
			t.Errorf("vocabulary/%s is not the tokenizer's: run go test -run %s -write-vocabularies", name, t.Name())
		}
	}
}

// Texts have as many tokens as the tokenizer says.
func TestTokensAreCountedAsTheTokenizerDoes(t *testing.T) {
	t.Parallel()
	texts := []string{
		"", " ", "a", "Hello, world!", "It's the customers' money; they'LL PAY.", "func main() {\r\n\tfmt.Println(\"x\")\r\n}\n\n\n", "12345678901234567890",
		"über 東京 is 日本 the 中国 дом 수 😀 ñ θα και מן שלום", "\xff\xfe broken \xc3", strings.Repeat("a", pieceBytes), strings.Repeat("ab", 300), strings.Repeat(" ", 500),
		strings.Repeat("=", 900), strings.Repeat("東", 300), strings.Repeat("xyzzyqwrtplkj", 70), strings.Repeat("👍", 200), "<|endoftext|>",
	}
	words := strings.Fields("the a small river Moves PAST über 東京 don't we'll {} () == // \t \n\n 2026 0x7f ñandú antidisestablishmentarianism zzzzqx 😀 \u00a0 e\u0301")
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
	for name, c := range map[string]*codec.Codec{"o200k_base": codec.NewO200kBase(), cl100kBase: codec.NewCl100kBase()} {
		for _, text := range texts {
			text = text[:min(len(text), pieceBytes)]
			want, err := c.Count(text)
			if err != nil {
				t.Fatal(err)
			}
			if got := CountTokens(name, []byte(text)); got != int64(want) {
				t.Errorf("%s counts %d tokens, not %d, in %q", name, got, want, text)
			}
		}
	}
}

// What counts tokens once is kept for good: it must be little.
func TestAVocabularyTakesLittleMemory(t *testing.T) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	v := newVocabulary(o200kTokens, `\w+`)
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grew := int64(after.HeapAlloc) - int64(before.HeapAlloc); grew > 3<<20 {
		t.Errorf("a vocabulary keeps %d KB", grew>>10)
	}
	runtime.KeepAlive(v)
}

func BenchmarkCountTokens(b *testing.B) {
	for name, text := range map[string]string{"prose": strings.Repeat("the small river moves past old stone houses ", 24), "letters": strings.Repeat("qxzj", 256)} {
		b.Run(name, func(b *testing.B) {
			text := []byte(text[:pieceBytes])
			b.SetBytes(pieceBytes)
			for b.Loop() {
				CountTokens("", text)
			}
		})
	}
}
