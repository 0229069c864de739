package parse

import (
	"bytes"
	"encoding/binary"
	"errors"
	"time"
	"unicode"
	"unicode/utf8"

	"farebox/providers/jail"
)

// maxText is the longest text of a document: the jail's limit of output, less the heads of
// its pieces.
const maxText = 31 << 20

const (
	// minPiece is how much text leaves the child at once, and pieceEvery how long
	// less than that waits, but for the first: so much may be lost of a document that
	// takes too long.
	minPiece   = 256 << 10
	pieceEvery = 50 * time.Millisecond
)

// sink gathers text up to maxText; beyond it, everything is dropped and full
// says so.
type sink struct {
	buf  []byte
	full bool
	none Reason // the reason of an empty text
	kind Kind

	send        func(piece []byte) error // takes pieces ahead of the end; may be nil
	sent        int                      // text that it has taken
	sentAt      time.Time
	gap         string // separates the next piece from the last one
	pages, most int    // pages that were read, of how many; 0: not known
}

// fitting is the part of a text that there is room for.
func fitting[T string | []byte](s *sink, t T) T {
	if s.full {
		return t[:0]
	}
	room := maxText - s.sent - len(s.buf)
	if len(t) <= room {
		return t
	}
	s.full = true
	for room = max(room, 0); room > 0 && !utf8.RuneStart(t[room]); {
		room--
	}
	return t[:room]
}

func (s *sink) add(b []byte) { s.buf = append(s.buf, fitting(s, b)...) }

func (s *sink) text(t string) { s.buf = append(s.buf, fitting(s, t)...) }

func (s *sink) char(c byte) {
	if s.full = s.full || s.sent+len(s.buf) >= maxText; !s.full {
		s.buf = append(s.buf, c)
	}
}

// space parts words unless white space is there already.
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
	if len(s.buf) == 0 && s.sent > 0 {
		s.gap = "\n\n" // behind a piece that has left
	}
	s.line()
	if n := len(s.buf); n == 1 && s.sent > 0 || n > 1 && s.buf[n-2] != '\n' {
		s.char('\n')
	}
}

// page says how many pages have been read, of how many.
func (s *sink) page(read, of int) { s.pages, s.most = read, of }

// pause lets the text so far leave the child. It is called at ends of lines only.
func (s *sink) pause() {
	if s.send == nil || len(s.buf) == 0 || len(s.buf) < minPiece && time.Since(s.sentAt) < pieceEvery {
		return
	}
	if text := s.take(); len(text) > 0 {
		s.sentAt = time.Now()
		if s.send(s.piece(text, false)) != nil {
			s.full = true // the reader is gone
		}
	}
}

// take takes the text that has gathered, tidied as if it still followed the last piece.
func (s *sink) take() []byte {
	b := s.buf
	if s.sent > 0 {
		b = append([]byte("x"+s.gap), b...)
	}
	b = tidyLines(b)
	s.buf = s.buf[:0]
	text := bytes.TrimRight(b, "\n")
	s.gap = "\n\n"[:len(b)-len(text)]
	if s.sent > 0 {
		text = text[1:]
	} else {
		text = bytes.TrimSpace(text)
	}
	s.sent += len(text)
	return text
}

// pieceHead precedes the text of a piece: the kind, whether the document
// goes on, the pages read and in all, and the text's length. The rest of it is the room
// that the mark of a truncated text may take.
const pieceHead = 96

func (s *sink) piece(text []byte, cut bool) []byte {
	out := make([]byte, pieceHead, pieceHead+len(text))
	out[0] = byte(s.kind)
	if cut {
		out[1] = 1
	}
	binary.LittleEndian.PutUint32(out[2:], uint32(s.pages))
	binary.LittleEndian.PutUint32(out[6:], uint32(s.most))
	binary.LittleEndian.PutUint32(out[10:], uint32(len(text)))
	return append(out, text...)
}

// end is the last piece, or the reason that there is no text. A document that is beyond the
// limits has the text up to there.
func (s *sink) end(err error) ([]byte, error) {
	if err != nil && !isTooLarge(err) {
		return nil, err
	}
	cut := s.full || err != nil
	text := bytes.TrimRightFunc(s.take(), unicode.IsSpace)
	switch {
	case len(text) > 0 || s.sent > 0:
		return s.piece(text, cut), nil
	case cut:
		return nil, refuse(TooLarge)
	}
	return nil, refuse(s.none)
}

func isTooLarge(err error) bool {
	var said *jail.Refusal
	return errors.As(err, &said) && said.Code == codes[TooLarge]
}

// tidy makes valid UTF-8 without control characters, with plain line ends, no
// white space at the ends of lines and at most one empty line on end. It works
// in place where nothing grows.
func tidy(b []byte) []byte { return bytes.TrimSpace(tidyLines(b)) }

// tidyLines is tidy but for white space around all of the text.
func tidyLines(b []byte) []byte {
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
	return out
}
