package dialect

import "farebox/proxy/jsontext"

const (
	thinkOpen  = "<think>"
	thinkClose = "</think>"
)

// Think removes <think>…</think> blocks from a text that comes in pieces, each
// escaped as in JSON. White space after a block
// that opened the text goes with it. The zero value is ready.
type Think struct {
	inside  bool
	wrote   bool // something of the text has gone out
	trim    bool // white space goes until the text begins
	matched int  // characters of the tag that is awaited
	pending []byte
	cut     [6]byte // an escape that the end of a piece has cut
	cutLen  int
}

// Filter appends the rest of a piece.
func (t *Think) Filter(dst, escaped []byte) []byte {
	for t.cutLen > 0 && len(escaped) > 0 {
		t.cut[t.cutLen] = escaped[0]
		t.cutLen++
		escaped = escaped[1:]
		if whole := t.cut[:t.cutLen]; !isCut(whole) {
			t.cutLen = 0
			dst = t.filter(dst, whole)
		}
	}
	return t.filter(dst, escaped)
}

// isCut says that an escape is not yet whole.
func isCut(b []byte) bool {
	return b[0] == '\\' && (len(b) == 1 || b[1] == 'u' && len(b) < 6)
}

func (t *Think) filter(dst, escaped []byte) []byte {
	for i := 0; i < len(escaped); {
		if isCut(escaped[i:]) {
			t.cutLen = copy(t.cut[:], escaped[i:])
			break
		}
		c, n := unit(escaped[i:])
		raw := escaped[i : i+n]
		i += n
		tag := thinkOpen
		if t.inside {
			tag = thinkClose
		}
		if c != tag[t.matched] && t.matched > 0 {
			dst = t.giveUp(dst)
		}
		if c == tag[t.matched] {
			t.matched++
			if !t.inside {
				t.pending = append(t.pending, raw...)
			}
			if t.matched == len(tag) {
				t.trim = t.inside && !t.wrote
				t.inside = !t.inside
				t.matched, t.pending = 0, t.pending[:0]
			}
			continue
		}
		if !t.inside {
			dst = t.write(dst, c, raw)
		}
	}
	return dst
}

// giveUp releases text that looked like the beginning of a tag.
func (t *Think) giveUp(dst []byte) []byte {
	t.matched = 0
	if len(t.pending) > 0 {
		dst = append(dst, t.pending...)
		t.pending, t.wrote, t.trim = t.pending[:0], true, false
	}
	return dst
}

func (t *Think) write(dst []byte, c byte, raw []byte) []byte {
	if t.trim && (c == ' ' || c == '\n' || c == '\r' || c == '\t') {
		return dst
	}
	t.trim, t.wrote = false, true
	return append(dst, raw...)
}

// End appends the text held back as the possible beginning of a block.
func (t *Think) End(dst []byte) []byte {
	if t.inside {
		return dst
	}
	dst = append(t.giveUp(dst), t.cut[:t.cutLen]...)
	t.cutLen = 0
	return dst
}

// Held says that the last piece ended in a possible beginning of a tag.
func (t *Think) Held() bool { return len(t.pending) > 0 }

// unit is the first character of an escaped text, 0 for any that no tag and no
// white space has, and the bytes it takes.
func unit(b []byte) (c byte, n int) {
	if b[0] != '\\' {
		return b[0], 1
	}
	switch b[1] {
	case 'n':
		return '\n', 2
	case 't':
		return '\t', 2
	case 'r':
		return '\r', 2
	case '/':
		return '/', 2
	case 'u':
		if r := jsontext.Hex4(b[2:]); r >= 0 {
			if r < 0x80 {
				return byte(r), 6
			}
			return 0, 6
		}
	}
	return 0, 2
}
