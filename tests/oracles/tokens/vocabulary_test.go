// Package tokens_test holds the vocabularies, and how texts are split and counted, against another implementation.
package tokens_test

import (
	"bytes"
	"compress/gzip"
	"flag"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/tiktoken-go/tokenizer/codec"
	"pgregory.net/rapid"

	"farebox/bench/servers"
	"farebox/providers/tokens"
)

var update = flag.Bool("update", false, "write the packed vocabularies anew")

// both are our vocabularies beside those of another implementation.
var both = []struct {
	name   string
	tokens int
	ours   func() *tokens.Vocabulary
	theirs func() *codec.Codec
}{
	{"o200k_base", 199_998, tokens.O200k, codec.NewO200kBase},
	{"cl100k_base", 100_256, tokens.CL100k, codec.NewCl100kBase},
}

// pack writes tokens, by rank, in the order of their bytes: the length of the prefix shared
// with the token before, the length of the rest, its rank in three columns, and the rests.
func pack(list []string) []byte {
	order := make([]int, len(list))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return strings.Compare(list[a], list[b]) })
	var columns [5][]byte
	var rest []byte
	before := ""
	for _, rank := range order {
		token, same := list[rank], 0
		for same < min(len(token), len(before)) && token[same] == before[same] {
			same++
		}
		for i, v := range []int{same, len(token) - same, rank >> 16, rank & 255, rank >> 8 & 255} {
			columns[i] = append(columns[i], byte(v))
		}
		rest, before = append(rest, token[same:]...), token
	}
	n := len(list)
	return slices.Concat([]byte{byte(n), byte(n >> 8), byte(n >> 16)}, columns[0], columns[1], columns[2], columns[3],
		columns[4], rest)
}

// files have the vocabularies.
const files = "../../../providers/tokens/"

// The file has every token under its rank, and nothing else.
func TestVocabulariesAreThoseOfTheirMakers(t *testing.T) {
	for _, v := range both {
		list := make([]string, v.tokens)
		theirs := v.theirs()
		for i := range list {
			token, err := theirs.Decode([]uint{uint(i)})
			if err != nil {
				t.Fatal(err)
			}
			list[i] = token
		}
		want, name := pack(list), files+v.name+".gz"
		if *update {
			var b bytes.Buffer
			z, _ := gzip.NewWriterLevel(&b, gzip.BestCompression)
			if _, err := z.Write(want); err != nil || z.Close() != nil || os.WriteFile(name, b.Bytes(), 0o644) != nil {
				t.Fatal("cannot pack")
			}
			continue
		}
		packed, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		defer packed.Close()
		z, err := gzip.NewReader(packed)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(z); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("%s has other tokens (%v); go test -run %s -update writes it anew", name, err, t.Name())
		}
	}
}

// blankLines are lines of nothing but spaces. The other implementation's regular expressions end
// a piece before them, where \s* should take them in; TestBlankLinesAreOnePiece shows the pieces.
var blankLines = regexp.MustCompile(`([\r\n])[\s\v\x{85}\p{Z}]+([\r\n])`)

// same compares a text's tokens with those of the other implementation, which
// passes over U+007F.
func same(t interface{ Fatalf(string, ...any) }, text string) {
	text = blankLines.ReplaceAllString(strings.ReplaceAll(text, "\x7f", ""), "$1$2")
	for _, v := range both {
		_, want, err := v.theirs().Encode(text)
		if err != nil {
			t.Fatalf("%v", err)
		}
		got := v.ours().Split(text)
		if !slices.Equal(got, want) {
			at := 0
			for at < min(len(got), len(want)) && got[at] == want[at] {
				at++
			}
			t.Fatalf("%s: %q is split from its token %d on into %q, want %q", v.name, text, at,
				got[at:min(at+6, len(got))], want[at:min(at+6, len(want))])
		}
		if n := v.ours().Count(text); n != len(want) {
			t.Fatalf("%s: %q has %d tokens, want %d", v.name, text, n, len(want))
		}
	}
}

// Every character, alone and between others, is of the class that the regular
// expressions give it.
func TestEveryCharacterIsSplitAlike(t *testing.T) {
	servers.NoRace(t)
	t.Parallel()
	var b strings.Builder
	for r := rune(0); r <= 0x2ffff; r++ {
		if !utf8.ValidRune(r) {
			continue
		}
		b.WriteString("a")
		b.WriteRune(r)
		b.WriteString("B ")
		b.WriteRune(r)
		b.WriteRune(r)
		b.WriteString("'S1")
		if b.Len() > 2000 {
			same(t, b.String())
			b.Reset()
		}
	}
}

// Texts of every kind have the tokens that another implementation finds.
func TestTokensAreThoseOfAnotherImplementation(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", " ", "\n", "'", "''s", "it's IT'S It'ſ we'll WE'LL they'Re", "don't  \n\n  stop\r\n\r\n now ",
		"x  y\t\tz \u00a0\u2003 w", "1234567 89",
		"/path//to/\n/file", "HELLOworld HelloWORLD helloWorld", "中文字符ABCabc", "ÀÉÎõü ǅ ʰ", "e\u0301 \u0301\u0301a",
		"😀👩‍👩‍👧 ❤️", strings.Repeat(" ", 300) + "x",
		"\xff\xfe broken \xc3", "<|endoftext|>", strings.Repeat("東", 300), strings.Repeat("xyzzyqwrtplkj", 70),
		strings.Repeat("=", 900), strings.Repeat("a", 500), strings.Repeat("ab", 400),
		"func main() {\n\tfmt.Println(\"hi\")\n}\n", `{"city":"river","n":12.50}`,
	} {
		same(t, text)
	}
	piece := rapid.OneOf(
		rapid.SampledFrom([]string{" ", "  ", "\n", "\r\n", "\t", "'", "'s", "'LL", "/", "\u00a0", "\u0301", "ǅ", "ʰ",
			"中", "ſ", "1", "²", "٣", "A", "b", "é", "É", "the", " River", "!", "...", "😀", "\u200d", "\u0085",
			"\u2028"}),
		rapid.StringN(0, 8, -1), rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, 4),
			func(b []byte) string { return string(b) }))
	rapid.Check(t, func(t *rapid.T) { same(t, strings.Join(rapid.SliceOfN(piece, 0, 40).Draw(t, "pieces"), "")) })
}
