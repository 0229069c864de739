package messages

import (
	"bytes"

	"farebox/proxy/jsontext"
)

// maxUsual bounds what is kept of a chunk, on each side of its text.
const maxUsual = 512

// fastPathChunk knows what the last plain chunk had around its text. Nearly all chunks of an
// answer have the same, so that two comparisons do in the place of a scan.
type fastPathChunk struct {
	head []byte // up to the text
	tail []byte // from its closing quote to the end of the choices
	rest []byte // …and behind that
	kind kind   // of block that the text belongs to
}

// learn keeps what stands around the text data[from:to].
func (u *fastPathChunk) learn(data []byte, from, to int, k kind) {
	u.forget()
	behind := data[to:]
	end := bytes.IndexByte(behind, ']') + 1
	if end == 0 || from > maxUsual || len(behind) > maxUsual || !plain(data[:from]) || !plain(behind) {
		return
	}
	u.head = append(u.head[:0], data[:from]...)
	u.tail = append(u.tail[:0], behind[:end]...)
	u.rest = append(u.rest[:0], behind[end:]...)
	u.kind = k
}

// words are members that no plain chunk has, but as null or empty.
var words = [...][]byte{[]byte(`"usage":`), []byte(`"finish_reason":`), []byte(`"error":`), []byte(`"annotations":`),
	[]byte(`"reasoning_details":`), []byte(`"content":`), []byte(`"reasoning_content":`), []byte(`"reasoning":`),
	[]byte(`"tool_calls":`), []byte(`"refusal":`), []byte(`_citations":`)}

// plain says that one side of a chunk's text has nothing of interest but where the
// text stands.
func plain(side []byte) bool {
	for _, word := range &words {
		at := bytes.Index(side, word)
		if at < 0 {
			continue
		}
		value := bytes.TrimLeft(side[at+len(word):], " ")
		switch {
		case bytes.HasPrefix(value, []byte("null")), bytes.HasPrefix(value, []byte(`""`)):
		case bytes.HasSuffix(side, value) && len(value) == 1: // the opening quote of the text
		case string(word) == `"tool_calls":` && onlyArguments(value): // the text is in it
		default:
			return false
		}
		if bytes.Contains(side[at+len(word):], word) {
			return false
		}
	}
	return true
}

// onlyArguments says that what follows tool_calls is the head of one call's arguments.
func onlyArguments(value []byte) bool {
	return bytes.HasSuffix(value, []byte(`"arguments":"`)) && !bytes.Contains(value, []byte(`},{`)) &&
		!bytes.Contains(value, []byte(`"name":"`))
}

// match is the text of a chunk that has the same around it, and the kind of block that
// it belongs to; kindNone: it is another.
func (u *fastPathChunk) match(data []byte) (kind, []byte) {
	if len(u.head) == 0 || !bytes.HasPrefix(data, u.head) {
		return kindNone, nil
	}
	end := jsontext.SkipString(data, len(u.head)-1)
	if end < 0 || !bytes.HasPrefix(data[end-1:], u.tail) {
		return kindNone, nil
	}
	if rest := data[end-1+len(u.tail):]; !bytes.Equal(rest, u.rest) {
		// Some upstreams end every chunk with a member of random length.
		if len(rest) > maxUsual || !plain(rest) {
			return kindNone, nil
		}
	}
	return u.kind, data[len(u.head) : end-1]
}

func (u *fastPathChunk) forget() { u.head, u.tail, u.rest = u.head[:0], u.tail[:0], u.rest[:0] }
