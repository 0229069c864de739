package tokens

import (
	"bytes"
	_ "embed"
	"hash/maphash"
	"io"
	"math/bits"
	"sync"
	"unicode/utf8"

	"github.com/klauspost/compress/gzip"
)

// The vocabularies, as TestVocabulariesAreThoseOfTheirMakers -update writes them. Zopfli packed the same bytes again,
// which makes the binary 45 KB smaller: gunzip X.gz && zopfli --i15 X.
var (
	//go:embed o200k_base.gz
	o200kPacked []byte
	//go:embed cl100k_base.gz
	cl100kPacked []byte
)

// O200k and CL100k are the vocabularies o200k_base and cl100k_base. The first
// call of each unpacks it: about 30 ms; 3 and 2 MB then stay.
var (
	O200k  = sync.OnceValue(func() *Vocabulary { return unpack(o200kPacked, o200kWord) })
	CL100k = sync.OnceValue(func() *Vocabulary { return unpack(cl100kPacked, cl100kWord) })
)

// Vocabulary is a set of tokens, each with a rank. It may be used by many at
// once. It has no pointers for the collector to follow, and a rank is divided
// between text and table, so that neither needs a byte more.
type Vocabulary struct {
	word func(text string) int // the length of its first word
	// text has for each token three bytes, its length-1 and the lower bits of its
	// rank, and then its bytes. The first byte of all is of no token.
	text []byte
	// table finds a token by its bytes. An entry is 0, or the token's place in text, the
	// highest bit of its rank, and some bits of its hash.
	table   []uint32
	seed    maphash.Seed
	longest int
	pool    sync.Pool // of *merger
}

const (
	headBytes  = 3
	lengthBits = 7 // of a token's length-1
	lengthMask = 1<<lengthBits - 1
	rankBits   = 24 - lengthBits // that are in text
	rankMask   = 1<<rankBits - 1
	placeBits  = 21
	placeMask  = 1<<placeBits - 1
	markShift  = placeBits + 1
	noRank     = ^uint32(0)
)

// unpack reads what pack wrote. The files are part of the binary: a fault of theirs is a
// fault of the build.
func unpack(packed []byte, word func(string) int) *Vocabulary {
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		panic(err)
	}
	raw, err := io.ReadAll(z)
	if err != nil {
		panic(err)
	}
	n := int(raw[0]) | int(raw[1])<<8 | int(raw[2])<<16
	raw = raw[3:]
	column := func(i int) []byte { return raw[i*n : (i+1)*n] }
	shared, own, high, low, middle, rest := column(0), column(1), column(2), column(3), column(4), raw[5*n:]
	size := 1
	for i := range n {
		size += headBytes + int(shared[i]) + int(own[i])
	}
	v := &Vocabulary{word: word, text: make([]byte, 1, size), table: make([]uint32, 1<<bits.Len(uint(n+n/8))),
		seed: maphash.MakeSeed()}
	var before []byte
	for i := range n {
		length, rank := int(shared[i])+int(own[i]), uint32(low[i])|uint32(middle[i])<<8|uint32(high[i])<<16
		place := len(v.text)
		head := uint32(length-1) | rank&rankMask<<lengthBits
		v.text = append(v.text, byte(head), byte(head>>8), byte(head>>16))
		v.text = append(append(v.text, before[:shared[i]]...), rest[:own[i]]...)
		before, rest = v.text[place+headBytes:], rest[own[i]:]
		v.longest = max(v.longest, length)
		hash := maphash.Bytes(v.seed, before)
		at := v.first(hash)
		for v.table[at] != 0 {
			at = v.after(at)
		}
		v.table[at] = uint32(hash>>32)>>markShift<<markShift | rank>>rankBits<<placeBits | uint32(place)
	}
	v.pool.New = func() any { return new(merger) }
	return v
}

// first and after are where in the table a hash is looked for.
func (v *Vocabulary) first(hash uint64) uint32 { return uint32(hash) & uint32(len(v.table)-1) }
func (v *Vocabulary) after(at uint32) uint32   { return (at + 1) & uint32(len(v.table)-1) }

// rank is that of a token, noRank for other texts.
func (v *Vocabulary) rank(s string) uint32 {
	if len(s) > v.longest {
		return noRank
	}
	hash := maphash.String(v.seed, s)
	mark := uint32(hash>>32) >> markShift
	for at := v.first(hash); v.table[at] != 0; at = v.after(at) {
		entry := v.table[at]
		if entry>>markShift != mark {
			continue
		}
		token := v.text[entry&placeMask:]
		head := uint32(token[0]) | uint32(token[1])<<8 | uint32(token[2])<<16
		if int(head&lengthMask)+1 == len(s) && string(token[headBytes:headBytes+len(s)]) == s {
			return head>>lengthBits | entry>>placeBits&1<<rankBits
		}
	}
	return noRank
}

// Count is the number of tokens of a text.
func (v *Vocabulary) Count(text string) (n int) {
	v.each(text, func(string) { n++ })
	return n
}

// Split cuts a text into its tokens.
func (v *Vocabulary) Split(text string) (list []string) {
	v.each(text, func(token string) { list = append(list, token) })
	return list
}

// each goes through the tokens of a text. An invalid byte counts as U+FFFD, as in other
// implementations.
func (v *Vocabulary) each(text string, do func(token string)) {
	if !utf8.ValidString(text) {
		text = string([]rune(text))
	}
	for len(text) > 0 {
		n := v.word(text)
		if word := text[:n]; v.rank(word) != noRank {
			do(word)
		} else {
			m := v.pool.Get().(*merger)
			m.merge(v, word)
			for i := int32(0); int(i) < n; i = m.parts[i].next {
				do(word[i:m.parts[i].next])
			}
			v.pool.Put(m)
		}
		text = text[n:]
	}
}
