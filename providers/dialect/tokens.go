package dialect

import (
	_ "embed"
	"hash/maphash"
	"math"
	"math/bits"
	"sync"
	"unicode/utf8"

	"github.com/dlclark/regexp2/v2"
	_ "github.com/tiktoken-go/tokenizer/codec" // compiles the expressions below
)

// Vocabularies are built into the binary and indexed when first needed (a few
// milliseconds, 2 MB): gateways whose upstreams report usage never need them.
// The tokenizer's own maps of them take 16 MB, which would stay for good.
var (
	o200k = sync.OnceValue(func() *vocabulary {
		return newVocabulary(o200kTokens, `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`)
	})
	cl100k = sync.OnceValue(func() *vocabulary {
		return newVocabulary(cl100kTokens, `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`)
	})
)

// Tokens by rank, each behind a byte that is its length. The test of them writes
// these files anew.
var (
	//go:embed vocabulary/o200k_base
	o200kTokens string
	//go:embed vocabulary/cl100k_base
	cl100kTokens string
)

// cl100kBase is the vocabulary that is not the usual one.
const cl100kBase = "cl100k_base"

const (
	// pieceBytes is how much text is tokenised at a time. The expressions take
	// quadratic time on long runs of white space (64 KB of them 1.7 s); in
	// pieces of 1 KB the worst text costs little more than any other.
	pieceBytes = 1 << 10
	// pieceSearch is how far back from a piece's end a place to cut is searched.
	pieceSearch = 256
)

// CountTokens counts the tokens of a text in the named vocabulary (o200k_base,
// cl100k_base; empty: o200k_base), about 75 ns a byte. Text without a single
// word boundary in 256 bytes is cut where it is, which can add one token a
// kilobyte; all else is exact.
func CountTokens(name string, text []byte) (tokens int64) {
	if len(text) == 0 {
		return 0
	}
	v := o200k()
	if name == cl100kBase {
		v = cl100k()
	}
	for len(text) > 0 {
		n := cutPiece(text)
		tokens += int64(v.count(bytesString(text[:n])))
		text = text[n:]
	}
	return tokens
}

// cutPiece is where the next piece ends: before a space between two ASCII
// letters, where every vocabulary ends a token, else between two characters.
func cutPiece(text []byte) int {
	if len(text) <= pieceBytes {
		return len(text)
	}
	for i := min(pieceBytes, len(text)-2); i > pieceBytes-pieceSearch; i-- {
		if text[i] == ' ' && letter(text[i-1]) && letter(text[i+1]) {
			return i
		}
	}
	i := pieceBytes
	for i > pieceBytes-utf8.UTFMax && !utf8.RuneStart(text[i]) {
		i--
	}
	return i
}

func letter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

// vocabulary finds the rank of a token. Its table has no pointers: it is of no
// interest to the collector, and the tokens stay in the binary.
type vocabulary struct {
	words  *regexp2.Regexp
	tokens string
	seed   maphash.Seed
	slots  []uint64 // of a hash table: mark, rank and place+1 in tokens; 0: free
}

const (
	placeBits = 24
	rankBits  = 20
	markShift = placeBits + rankBits
	noRank    = math.MaxUint32
)

func newVocabulary(tokens, words string) *vocabulary {
	n := uint(0)
	for at := 0; at < len(tokens); at += 1 + int(tokens[at]) {
		n++
	}
	v := &vocabulary{
		words: regexp2.MustCompile(words, regexp2.None), tokens: tokens, seed: maphash.MakeSeed(),
		slots: make([]uint64, 1<<bits.Len(n+n/8)),
	}
	for at, rank := 0, uint64(0); at < len(tokens); rank++ {
		length := int(tokens[at])
		hash := maphash.String(v.seed, tokens[at+1:at+1+length])
		i := v.slot(hash)
		for v.slots[i] != 0 {
			i = (i + 1) & (len(v.slots) - 1)
		}
		v.slots[i] = hash>>markShift<<markShift | rank<<placeBits | uint64(at+1)
		at += 1 + length
	}
	return v
}

func (v *vocabulary) slot(hash uint64) int { return int(hash) & (len(v.slots) - 1) }

// rank is the place of a token in the vocabulary; noRank: it is none.
func (v *vocabulary) rank(token string) uint32 {
	hash := maphash.String(v.seed, token)
	for i := v.slot(hash); v.slots[i] != 0; i = (i + 1) & (len(v.slots) - 1) {
		s := v.slots[i]
		if s>>markShift != hash>>markShift {
			continue
		}
		at := int(s & (1<<placeBits - 1))
		if int(v.tokens[at-1]) == len(token) && v.tokens[at:at+len(token)] == token {
			return uint32(s >> placeBits & (1<<rankBits - 1))
		}
	}
	return noRank
}

// count is how many tokens a piece of text of at most pieceBytes has.
func (v *vocabulary) count(text string) (n int) {
	m, err := v.words.FindStringMatch(text)
	for ; m != nil && err == nil; m, err = v.words.FindNextMatch(m) {
		word := m.String()
		if v.rank(word) != noRank {
			n++
			continue
		}
		n += v.merged(word)
	}
	if err != nil { // it looked for too long
		return len(text) / 4
	}
	return n
}

// merger has the parts that a word consists of, as a list of where they begin.
type merger struct {
	prev, next [2 * pieceBytes]int32
	rank       [2 * pieceBytes]uint32            // of a part and the next one together
	least      [2 * pieceBytes / mergeRun]uint32 // of each run of ranks
}

// mergeRun is how many ranks are looked through after a change of one of them.
const mergeRun = 32

var mergers = sync.Pool{New: func() any { return new(merger) }}

// merged is how many tokens remain of a word's bytes once the two neighbours
// that are the token of the lowest rank have become one, again and again.
func (v *vocabulary) merged(word string) int {
	m := mergers.Get().(*merger)
	defer mergers.Put(m)
	n := int32(min(len(word), len(m.rank)))
	rankAt := func(i int32) uint32 {
		if k := m.next[i]; k < n {
			return v.rank(word[i:m.next[k]])
		}
		return noRank
	}
	for i := range n {
		m.prev[i], m.next[i] = i-1, i+1
	}
	for i := range (n + mergeRun - 1) / mergeRun * mergeRun {
		m.rank[i] = noRank
		if i < n {
			m.rank[i] = rankAt(i)
		}
	}
	runs := (n + mergeRun - 1) / mergeRun
	for i := range runs {
		m.look(i)
	}
	for parts := int(n); ; parts-- {
		run := lowest(m.least[:runs])
		if m.least[run] == noRank {
			return parts
		}
		i := int32(run)*mergeRun + int32(lowest(m.rank[run*mergeRun:(run+1)*mergeRun]))
		gone := m.next[i]
		m.next[i] = m.next[gone]
		if m.next[i] < n {
			m.prev[m.next[i]] = i
		}
		m.rank[gone] = noRank
		m.rank[i] = rankAt(i)
		from := i
		if p := m.prev[i]; p >= 0 {
			m.rank[p] = rankAt(p)
			from = p
		}
		for at := from / mergeRun; at <= gone/mergeRun; at++ {
			m.look(at)
		}
	}
}

// look notes the lowest rank of a run.
func (m *merger) look(run int32) {
	ranks := m.rank[run*mergeRun : (run+1)*mergeRun]
	m.least[run] = ranks[lowest(ranks)]
}

// lowest is where the lowest of some ranks is, the first of equal ones.
func lowest(ranks []uint32) (at int) {
	for i, r := range ranks {
		if r < ranks[at] {
			at = i
		}
	}
	return at
}
