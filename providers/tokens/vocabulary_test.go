package tokens

import (
	"bytes"
	"compress/gzip"
	"flag"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/tiktoken-go/tokenizer/codec"
	"pgregory.net/rapid"
)

var update = flag.Bool("update", false, "write the packed vocabularies anew")

// both are our vocabularies beside those of another implementation.
var both = []struct {
	name   string
	tokens int
	ours   func() *Vocabulary
	theirs func() *codec.Codec
}{
	{"o200k_base", 199_998, O200k, codec.NewO200kBase},
	{"cl100k_base", 100_256, CL100k, codec.NewCl100kBase},
}

// pack writes tokens, by rank, in the order of their bytes: what each shares
// with the one before, the length of the rest, its rank in three columns, and
// the rests.
func pack(t *testing.T, list []string) []byte {
	t.Helper()
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
	var b bytes.Buffer
	z, _ := gzip.NewWriterLevel(&b, gzip.BestCompression)
	n := len(list)
	_, err := z.Write(slices.Concat([]byte{byte(n), byte(n >> 8), byte(n >> 16)}, columns[0], columns[1], columns[2],
		columns[3], columns[4], rest))
	if err != nil || z.Close() != nil {
		t.Fatal("cannot pack")
	}
	return b.Bytes()
}

// Every token is there under its rank, and nothing else is.
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
		if *update {
			if err := os.WriteFile(v.name+".gz", pack(t, list), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		ours := v.ours()
		entries := 0
		for _, entry := range ours.table {
			if entry != 0 {
				entries++
			}
		}
		if entries != len(list) {
			t.Fatalf("%s has %d tokens, want %d; go test -run %s -update writes it anew", v.name, entries, len(list),
				t.Name())
		}
		for i, token := range list {
			if got := ours.rank(token); got != uint32(i) {
				t.Fatalf("%s: %q has rank %d, want %d", v.name, token, got, i)
			}
			if i%7 == 0 && ours.rank(token+"\x00\xff") != noRank {
				t.Fatalf("%s: %q with two bytes more is a token", v.name, token)
			}
		}
	}
}

// blankLines are lines of nothing but spaces. The other implementation's regular
// expressions end a piece before them, where \s* should take them in; what they
// are split into is shown by TestBlankLinesAreOnePiece.
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

// These tokens are those of the vocabularies' maker.
func TestBlankLinesAreOnePiece(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"\r\n\t\r\n": {"\r\n\t\r\n"}, "a\n\t\n": {"a", "\n\t\n"}, "\n\t\n\t\n": {"\n", "\t\n\t\n"},
		"\r\n \r\n": {"\r\n", " \r\n"}, "\n  \n": {"\n  \n"},
	} {
		for _, v := range both {
			if got := v.ours().Split(text); !slices.Equal(got, want) {
				t.Errorf("%s: %q is split into %q, want %q", v.name, text, got, want)
			}
		}
	}
}

// What counts tokens once is kept for good: it must be little.
func TestAVocabularyTakesLittleMemory(t *testing.T) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	v := unpack(o200kPacked, o200kWord)
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grew := int64(after.HeapAlloc) - int64(before.HeapAlloc); grew > 3<<20 {
		t.Errorf("a vocabulary keeps %d KB", grew>>10)
	}
	runtime.KeepAlive(v)
}

func BenchmarkCount(b *testing.B) {
	text := strings.Repeat("The small river moves past old stone houses, flabbergasted hippopotamuses xqzvk and "+
		"12345 things. ", 10)
	b.Run("ours", func(b *testing.B) {
		v := O200k()
		b.SetBytes(int64(len(text)))
		b.ReportAllocs()
		for b.Loop() {
			v.Count(text)
		}
	})
	b.Run("theirs", func(b *testing.B) {
		v := codec.NewO200kBase()
		b.SetBytes(int64(len(text)))
		b.ReportAllocs()
		for b.Loop() {
			_, _ = v.Count(text)
		}
	})
	b.Run("unpack", func(b *testing.B) {
		for b.Loop() {
			unpack(o200kPacked, o200kWord)
		}
	})
}
