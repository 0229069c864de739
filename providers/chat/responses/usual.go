package responses

import (
	"bytes"

	"farebox/proxy/jsontext"
)

// maxUsual bounds what is kept of a chunk, on each side of its delta.
const maxUsual = 512

// fastPathChunk knows what the last plain chunk had around its delta. Nearly all chunks of an
// answer have the same, so that two comparisons say that there is a text in them and
// nothing else.
type fastPathChunk struct {
	head  []byte // up to the text, with its opening quote
	tail  []byte // behind its closing quote
	index int    // of the item that the text belongs to
	spoke bool   // it is said, not thought
}

// learn keeps the surroundings of a chunk whose only delta has one text.
func (u *fastPathChunk) learn(data, delta []byte, it *item) {
	u.forget()
	from := cap(data) - cap(delta) // it is a piece of data
	quote := bytes.IndexByte(delta, ':') + 1
	quote = jsontext.SkipSpace(delta, quote)
	end := jsontext.SkipString(delta, quote)
	if end < 0 || from+quote+1 > maxUsual || len(data)-from-end > maxUsual {
		return
	}
	u.head = append(u.head[:0], data[:from+quote+1]...)
	u.tail = append(u.tail[:0], data[from+end:]...)
	u.index, u.spoke = it.index, it.kind == messageItem
}

// match sends the text of a chunk that has the same surroundings; else it reports false
// and has sent nothing.
func (u *fastPathChunk) match(s *stream, data []byte) bool {
	if len(u.head) == 0 || u.index != s.last || !bytes.HasPrefix(data, u.head) || !bytes.HasSuffix(data, u.tail) {
		return false
	}
	from, to := len(u.head), len(data)-len(u.tail)
	if jsontext.SkipString(data, from-1) != to {
		return false
	}
	words := data[from : to-1]
	it := &s.items[u.index]
	switch {
	case len(words) == 0:
	case !u.spoke && it.sealed, u.spoke && it.part != textPart:
		return false
	case u.spoke && !s.spec:
		s.delta(it, words, textTail)
	default:
		s.delta(it, words, plainTail)
	}
	return true
}

func (u *fastPathChunk) forget() { u.head, u.tail = u.head[:0], u.tail[:0] }
