package parse

import (
	"bytes"
	"unicode/utf8"
)

// maxText is the longest text of a document: what the jail lets out, less what
// stands before it.
const maxText = 32<<20 - 4096

// sink gathers text up to maxText; beyond it, everything is dropped and full
// says so.
type sink struct {
	buf  []byte
	full bool
}

func (s *sink) room(n int) bool {
	s.full = s.full || len(s.buf)+n > maxText
	return !s.full
}

func (s *sink) add(b []byte) {
	if s.room(len(b)) {
		s.buf = append(s.buf, b...)
	}
}

func (s *sink) text(t string) {
	if s.room(len(t)) {
		s.buf = append(s.buf, t...)
	}
}

func (s *sink) char(c byte) {
	if s.room(1) {
		s.buf = append(s.buf, c)
	}
}

// space parts words unless white space stands there already.
func (s *sink) space() {
	if n := len(s.buf); n > 0 && s.buf[n-1] != ' ' && s.buf[n-1] != '\n' && s.buf[n-1] != '\t' {
		s.char(' ')
	}
}

// line ends a line unless the line is empty.
func (s *sink) line() {
	if n := len(s.buf); n > 0 && s.buf[n-1] != '\n' {
		s.char('\n')
	}
}

// paragraph leaves one line empty.
func (s *sink) paragraph() {
	s.line()
	if n := len(s.buf); n > 1 && s.buf[n-2] != '\n' {
		s.char('\n')
	}
}

// end is the text, or why there is none.
func (s *sink) end(none Reason) ([]byte, error) {
	if s.full {
		return nil, refuse(TooLarge)
	}
	out := tidy(s.buf)
	if len(out) == 0 {
		return nil, refuse(none)
	}
	return out, nil
}

// tidy makes valid UTF-8 without control characters, with plain line ends, no
// white space at the ends of lines and at most one empty line on end. It works
// in place where nothing grows.
func tidy(b []byte) []byte {
	if !utf8.Valid(b) {
		b = bytes.ToValidUTF8(b, []byte("\uFFFD"))
	}
	out := b[:0]
	for i := 0; i < len(b); i++ {
		c := b[i]
		switch {
		case c == '\r' || c == '\f' || c == '\v':
			if c == '\r' && i+1 < len(b) && b[i+1] == '\n' {
				continue
			}
			c = '\n'
		case c < ' ' && c != '\n' && c != '\t', c == 0x7f:
			continue
		}
		if c == '\n' {
			for len(out) > 0 && (out[len(out)-1] == ' ' || out[len(out)-1] == '\t') {
				out = out[:len(out)-1]
			}
			if n := len(out); n == 0 || n > 1 && out[n-1] == '\n' && out[n-2] == '\n' {
				continue
			}
		}
		out = append(out, c)
	}
	return bytes.TrimSpace(out)
}
