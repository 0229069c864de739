package rpc

import (
	"bytes"
	"encoding/binary"
)

// scalar skips a number, true, false or null.
func (j *Judge) scalar(p []byte, i int) int {
	from := i
	for i < len(p) && scalarByte[p[i]] {
		i++
	}
	j.note(p[from:i])
	if i < len(p) {
		j.endValue(j.at + int64(i))
	}
	return i
}

// scalarByte are the bytes of numbers and of true, false and null. Their order is not
// checked: the values are not parsed here.
var scalarByte = func() (t [256]bool) {
	for _, c := range []byte("+-.0123456789eEtrufalsn") {
		t[c] = true
	}
	return t
}()

// string reads on in a string, of the envelope or below.
func (j *Judge) string(p []byte, i int) int {
	from, begin := i, i
	if j.text == textEscaped {
		j.text = textPlain
		i++
		begin = i
	}
	for {
		n := bytes.IndexByte(p[i:], '"')
		if n < 0 {
			slash := len(p)
			for slash > begin && p[slash-1] == '\\' {
				slash--
			}
			if (len(p)-slash)&1 == 1 {
				j.text = textEscaped
			}
			if hasControl(p[from:]) {
				j.state = judgeFailed
				return len(p)
			}
			j.note(p[from:])
			return len(p)
		}
		quote := i + n
		slash := quote
		for slash > begin && p[slash-1] == '\\' {
			slash--
		}
		i = quote + 1
		if (quote-slash)&1 == 0 {
			break
		}
	}
	if hasControl(p[from:i]) {
		j.state = judgeFailed
		return len(p)
	}
	j.note(p[from:i])
	if j.state == inText {
		j.endValue(j.at + int64(i))
	} else {
		j.state = inDeep
	}
	return i
}

// deep reads on in a container below the envelope.
func (j *Judge) deep(p []byte, i int) int {
	from := i
	for i < len(p) {
		c := p[i]
		if !bracketByte[c] {
			i++
			continue
		}
		i++
		switch c {
		case '"':
			// Most strings end in the same piece and have no escapes.
			if n := bytes.IndexByte(p[i:], '"'); n >= 0 && (n == 0 || p[i+n-1] != '\\') {
				if hasControl(p[i : i+n]) {
					j.state = judgeFailed
					return len(p)
				}
				i += n + 1
				continue
			}
			j.note(p[from:i])
			j.state, j.text = inDeepText, textPlain
			return i
		case '{', '[':
			if j.depth == maxAnswerDepth {
				j.state = judgeFailed
				return len(p)
			}
			j.push(c)
		case '}', ']':
			j.depth--
			if open := j.bits[j.depth>>6]&(1<<(j.depth&63)) != 0; open != (c == '}') {
				j.state = judgeFailed
				return len(p)
			}
			if j.depth == 0 {
				j.note(p[from:i])
				j.endValue(j.at + int64(i))
				return i
			}
		default: // a control byte
			j.state = judgeFailed
			return len(p)
		}
	}
	j.note(p[from:])
	return i
}

// bracketByte are the bytes that mean something between the strings of a container, and
// those that no JSON has there.
var bracketByte = func() (t [256]bool) {
	for c := range byte(' ') {
		t[c] = c != '\t' && c != '\n' && c != '\r'
	}
	for _, c := range []byte(`"{}[]`) {
		t[c] = true
	}
	return t
}()

// hasControl says that a string has a byte below 0x20, which JSON writes as an escape.
func hasControl(p []byte) bool {
	const ones, high = 0x0101010101010101, 0x8080808080808080
	for ; len(p) >= 8; p = p[8:] {
		if x := binary.LittleEndian.Uint64(p); (x-' '*ones)&^x&high != 0 {
			return true
		}
	}
	for _, c := range p {
		if c < ' ' {
			return true
		}
	}
	return false
}
