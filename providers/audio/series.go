package audio

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"farebox/proxy/jsontext"
)

// series asks a server that answers only when all is made for one piece of the text after
// the other, so that clients hear the beginning soon. Their sounds are put together where
// the format allows it: headers and tags of later pieces are left out.
//
// It stays although few servers need it: the specification (addendum 9.1) has streams
// "sentence by sentence", and such a server could not stream without it.
type series struct {
	on     bool
	broken bool
	text   []byte // the rest of it
	room   []byte
	quoted []byte
	piece  Speech
	first  bool  // the piece is the first one
	spoken int64 // code points of the complete pieces

	// State of the piece that is sounding.
	head   []byte // gathered until the sound begins
	begun  bool
	data   int64  // bytes of samples that are left of a WAV; below 0: all that arrive
	format []byte // of the first WAV's samples
}

const (
	// shortPiece is the number of code points by which a first piece may be shorter, and
	// longPiece the most of any.
	shortPiece = 24
	longPiece  = 600
	// mostPieceHead is beyond the headers and tags before the sound of a piece.
	mostPieceHead = 64 << 10
)

// joins are the formats whose sounds can be put together as they are: streams of frames
// and of samples. FLAC and Ogg number their frames and pages.
var joins = map[string]bool{"mp3": true, "aac": true, "pcm": true, "wav": true}

// begin decides whether t is asked in pieces.
func (r *series) begin(s *Speech, t *Target) {
	r.on = s.Stream && !s.Events && t.Options["streams"] == "false" && joins[s.Format]
	if !r.on {
		return
	}
	r.first, r.broken, r.begun, r.spoken, r.format, r.head = true, false, false, 0, r.format[:0], r.head[:0]
	r.copyRequest(s)
	r.take(shortPiece)
}

// copyRequest copies the request: later pieces are asked for after the client's request is
// gone.
func (r *series) copyRequest(s *Speech) {
	r.piece = *s
	r.room = slices.Grow(r.room[:0], len(s.Input)+len(s.Speed)+len(s.Prompt)+len(s.Temperature)+len(s.TopP))
	copied := func(b []byte) []byte {
		if b == nil {
			return nil
		}
		from := len(r.room)
		r.room = append(r.room, b...)
		return r.room[from:len(r.room):len(r.room)]
	}
	r.text = copied(s.Input)
	r.piece.Speed, r.piece.Prompt = copied(s.Speed), copied(s.Prompt)
	r.piece.Temperature, r.piece.TopP = copied(s.Temperature), copied(s.TopP)
	r.piece.Voice, r.piece.Language = strings.Clone(s.Voice), strings.Clone(s.Language)
}

// take makes the piece of the next sentences.
func (r *series) take(least int) {
	n := cutSentence(r.text, least, longPiece)
	r.quoted = jsontext.AppendString(r.quoted[:0], r.text[:n])
	r.piece.Input, r.piece.Quoted = r.text[:n], r.quoted
	r.text = r.text[n:]
}

// left says that there is text which was not spoken.
func (r *series) left() bool { return r.on && len(r.text) > 0 }

// next goes on with the next piece; false if no piece is left.
func (r *series) next() bool {
	if !r.left() {
		return false
	}
	if !r.begun { // it ended before its sound
		r.broken = true
		return false
	}
	r.spoken += int64(utf8.RuneCount(r.piece.Input))
	r.first, r.begun, r.head = false, false, r.head[:0]
	r.take(longPiece / 2)
	return true
}

func (r *series) reset() {
	clear(r.room[:cap(r.room)])
	clear(r.quoted[:cap(r.quoted)])
	*r = series{room: r.room[:0], quoted: r.quoted[:0], head: r.head[:0], format: r.format[:0]}
}

// opens says that the sound of a piece begins within head.
func (r *series) opens(head []byte) bool {
	_, _, ok := r.opening(head)
	return ok || len(head) > mostPieceHead
}

// pass gets the bytes of a piece and returns those of its sound.
func (r *series) pass(p []byte) (out []byte, stop bool) {
	if !r.begun {
		r.head = append(r.head, p...)
		skip, data, ok := r.opening(r.head)
		if !ok {
			r.broken = len(r.head) > mostPieceHead
			return nil, r.broken
		}
		r.begun, r.data = true, data
		if r.piece.Format == "wav" {
			if stop := r.wave(r.head[:skip]); stop {
				return nil, true
			}
			return r.wavePart(skip), false
		}
		return r.head[skip:], false
	}
	return r.samples(p), false
}

// wave checks that a later piece has samples like those of the first.
func (r *series) wave(head []byte) (stop bool) {
	format := chunkOf(head, "fmt ")
	if r.first {
		r.format = append(r.format[:0], format...)
		return false
	}
	r.broken = !bytes.Equal(format, r.format)
	return r.broken
}

// wavePart is the part of a WAV's beginning that the client gets: of the first one a head
// that leaves the length open, as the sizes of later pieces are not known.
func (r *series) wavePart(skip int) []byte {
	samples := r.samples(r.head[skip:])
	if !r.first {
		return samples
	}
	head := append([]byte("RIFF\xff\xff\xff\xffWAVEfmt "), 0, 0, 0, 0)
	binary.LittleEndian.PutUint32(head[16:], uint32(len(r.format)))
	head = append(append(head, r.format...), "data\xff\xff\xff\xff"...)
	return append(head, samples...)
}

// samples cuts off the bytes behind the samples of a WAV.
func (r *series) samples(p []byte) []byte {
	if r.data < 0 {
		return p
	}
	p = p[:min(int64(len(p)), r.data)]
	r.data -= int64(len(p))
	return p
}

// opening finds where the sound begins, behind headers, tags, and the frame in which
// encoders write the length of the file. data is how many bytes of samples a WAV announces;
// below 0: it does not say.
func (r *series) opening(head []byte) (skip int, data int64, ok bool) {
	switch r.piece.Format {
	case "wav":
		return waveData(head)
	case "mp3":
		skip, ok = mp3Start(head)
		return skip, -1, ok
	}
	return 0, -1, len(head) > 0
}

// waveData finds the samples of a WAV.
func waveData(b []byte) (skip int, size int64, ok bool) {
	for at := 12; at+8 <= len(b); {
		n := int64(binary.LittleEndian.Uint32(b[at+4:]))
		if string(b[at:at+4]) == "data" {
			if n == 0 || n >= 1<<31-256 { // its encoder did not know the length
				n = -1
			}
			return at + 8, n, true
		}
		if n > mostPieceHead {
			break
		}
		at += 8 + int(n+n&1)
	}
	return 0, 0, false
}

// chunkOf is the content of a chunk before the samples of a WAV.
func chunkOf(b []byte, name string) []byte {
	for at := 12; at+8 <= len(b); {
		n := int(binary.LittleEndian.Uint32(b[at+4:]))
		if n < 0 || n > len(b)-at-8 {
			break
		}
		if string(b[at:at+4]) == name {
			return b[at+8 : at+8+n]
		}
		at += 8 + n + n&1
	}
	return nil
}

// mp3Start finds the first frame with sound.
func mp3Start(b []byte) (skip int, ok bool) {
	if len(b) < 10 {
		return 0, false
	}
	if bytes.HasPrefix(b, []byte("ID3")) {
		skip = 10 + int(b[6]&0x7f)<<21 + int(b[7]&0x7f)<<14 + int(b[8]&0x7f)<<7 + int(b[9]&0x7f)
	}
	if len(b) < skip+4 {
		return 0, false
	}
	size := mp3Frame(b[skip:])
	if size == 0 {
		return skip, true // no frame: it goes out as it is
	}
	if len(b) < skip+size {
		return 0, false
	}
	if frame := b[skip : skip+size]; bytes.Contains(frame[:min(len(frame), 64)], []byte("Xing")) ||
		bytes.Contains(frame[:min(len(frame), 64)], []byte("Info")) {
		skip += size
	}
	return skip, true
}

// mp3Rates are kbit/s of layer III, of MPEG-1 and of the others, and mp3Samples are Hz of
// MPEG-1.
var (
	mp3Rates = [2][16]int{
		{0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 0},
		{0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160, 0},
	}
	mp3Samples = [4]int{44100, 48000, 32000, 0}
)

// mp3Frame is the size of a frame of layer III; 0 if it is not one.
func mp3Frame(b []byte) int {
	if len(b) < 4 || b[0] != 0xff || b[1]&0xe6 != 0xe2 {
		return 0
	}
	version, perFrame := b[1]>>3&3, 144000
	rates, samples := &mp3Rates[0], mp3Samples[b[2]>>2&3]
	if version != 3 {
		rates, perFrame, samples = &mp3Rates[1], 72000, samples/2
	}
	if version == 0 {
		samples /= 2
	}
	rate := rates[b[2]>>4]
	if rate == 0 || samples == 0 || version == 1 {
		return 0
	}
	return perFrame*rate/samples + int(b[2]>>1&1)
}

// cutSentence is how many bytes of text make a piece: whole sentences of at least so many
// code points, and at most so many, cut between words where a sentence is longer.
func cutSentence(text []byte, least, most int) int {
	n, word := 0, 0
	for at := 0; at < len(text); {
		r, size := utf8.DecodeRune(text[at:])
		at += size
		n++
		rest := text[at:]
		switch {
		case n >= least && endsSentence(r, rest):
			// Closing quotes and brackets, and the space behind them, belong to it.
			for len(rest) > 0 {
				c, size := utf8.DecodeRune(rest)
				if !unicode.IsSpace(c) && !unicode.In(c, unicode.Pe, unicode.Pf) && c != '"' && c != '\'' || n >= most {
					break
				}
				rest, at, n = rest[size:], at+size, n+1
			}
			return at
		case unicode.IsSpace(r):
			word = at
		}
		if n >= most && len(rest) > 0 {
			if word > 0 {
				return word
			}
			// Marks belong to the letter before them.
			for c, size := utf8.DecodeRune(rest); unicode.Is(unicode.M, c) && n < 2*most; c, size = utf8.DecodeRune(rest) {
				rest, at, n = rest[size:], at+size, n+1
			}
			return at
		}
	}
	return len(text)
}

// endsSentence says that r ends one, by the next characters: the point of 3.14 and of e.g.
// does not, and nothing need follow a full stop of Chinese.
func endsSentence(r rune, rest []byte) bool {
	switch r {
	case '。', '！', '？', '｡', '\n', '\u2029':
		return true
	case '.', '!', '?', '…', '।', '؟', '۔', '։':
		next, _ := utf8.DecodeRune(rest)
		return len(rest) == 0 || unicode.IsSpace(next) || unicode.In(next, unicode.Pe, unicode.Pf) || next == '"'
	}
	return false
}
