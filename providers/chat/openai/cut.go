package openai

import (
	"bytes"
	"strconv"
	"unicode/utf8"

	"farebox/providers/chat/dialect"
)

// Cut is dialect.Stream.
func (s *stream) Cut(out []byte) (short, tail []byte) {
	if s.events.Large() || s.Chat.Verbatim || s.done || s.failed {
		return out, nil
	}
	passed := s.out
	s.out = nil
	for i := range s.choices {
		s.identify()
		s.out = strconv.AppendInt(append(s.out, `"choices":[{"index":`...), i, 10)
		s.out = append(s.out, `,"delta":{},"logprobs":null,"finish_reason":"length"}]}`+"\n\n"...)
	}
	if !s.hide {
		s.writeUsageEvent()
	}
	tail, s.out = append(s.out, dialect.DoneEvent...), passed
	return out, tail
}

// Cut ends the document inside the text that it is in: open brackets are closed, with the
// finish_reason length and the usage that is charged.
func (m *BodyMeter) Cut(out []byte) (short, tail []byte) {
	open := m.state == inText && m.want >= wantContent && m.want <= wantOther && m.depth >= 4
	if !open || m.broken || m.copying || m.c.Verbatim || m.finished || m.usage.Seen || m.capture > 0 {
		return out, nil
	}
	at := lastPlain(out)
	if at <= 0 {
		return out, nil
	}
	tail = append(tail, '"')
	for ; m.depth > 0; m.depth-- {
		end := byte(']')
		if m.object() {
			end = '}'
		}
		switch m.depth {
		case 3: // of the choice
			tail = append(tail, `,"finish_reason":"length"`...)
		case 1:
			u := m.Usage()
			tail = dialect.AppendUsage(append(tail, `,"usage":`...), &u)
		}
		tail = append(tail, end)
	}
	return out[:at], tail
}

// lastPlain is the last place in the text at the end of a piece where a string may end: in
// front of a byte that begins a character and is not part of an escape; -1 if absent.
func lastPlain(piece []byte) int {
	const longest = 12 // escape: a pair of \uXXXX
	for at := len(piece) - 1; at >= longest && piece[at] != '"'; at-- {
		if utf8.RuneStart(piece[at]) && bytes.IndexByte(piece[at-longest:at+1], '\\') < 0 &&
			bytes.IndexByte(piece[at-longest:at], '"') < 0 {
			return at
		}
	}
	return -1
}
