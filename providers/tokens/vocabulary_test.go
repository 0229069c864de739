package tokens

import (
	"bytes"
	"compress/gzip"
	"io"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// both are our vocabularies beside their files.
var both = []struct {
	name   string
	ours   func() *Vocabulary
	packed []byte
}{{"o200k_base", O200k, o200kPacked}, {"cl100k_base", CL100k, cl100kPacked}}

// tokensOf are the tokens of a file by rank: the length of the prefix shared with the token before, that of the rest,
// the rank in three columns, and the rests. tests/oracles/tokens writes it, and compares it with another
// implementation.
func tokensOf(t *testing.T, packed []byte) []string {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	raw, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	n := int(raw[0]) | int(raw[1])<<8 | int(raw[2])<<16
	list, columns, rest, before := make([]string, n), raw[3:], string(raw[3+5*n:]), ""
	for i := range n {
		shared, own := int(columns[i]), int(columns[n+i])
		before, rest = before[:shared]+rest[:own], rest[own:]
		list[int(columns[2*n+i])<<16|int(columns[4*n+i])<<8|int(columns[3*n+i])] = before
	}
	return list
}

// Every token of the file is there under its rank, and nothing else is.
func TestVocabulariesHaveTheTokensOfTheirFiles(t *testing.T) {
	for _, v := range both {
		list, ours := tokensOf(t, v.packed), v.ours()
		entries := 0
		for _, entry := range ours.table {
			if entry != 0 {
				entries++
			}
		}
		if entries != len(list) {
			t.Fatalf("%s has %d tokens, want %d", v.name, entries, len(list))
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

// The vocabulary is kept for good: it must be little.
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
	b.Run("unpack", func(b *testing.B) {
		for b.Loop() {
			unpack(o200kPacked, o200kWord)
		}
	})
}
