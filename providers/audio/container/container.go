package container

import (
	"bytes"
	"fmt"
	"math/bits"
	"time"
)

// Info is the format and the length of a file.
type Info struct {
	Format string // wav, flac, mp3, aac, mp4, ogg, webm
	// Codec is that of its sound; empty if absent, and the fields below are zero.
	Codec string
	// Says is the longest length in any of its headers, 0 if absent.
	Says time.Duration
	// Most is the longest that a decoder can make of its bytes.
	Most time.Duration
	// Length is the length of its frames, or, where these cannot be counted without
	// decoding, the announced one, within Most.
	Length time.Duration
	Film   *Film // nil: it has no moving pictures
}

// Film describes the moving pictures of a file by its headers.
type Film struct {
	Codec         string
	Length        time.Duration // the longest that is said
	Width, Height int           // the most that is said; 0: nothing is
	Coded         bool          // read from the coded pictures, not only from the container's headers
	FPS           float64       // 0: not known
}

// Bound is the longest sound that any decoder can make, by the headers or by the frames.
func (i *Info) Bound() time.Duration { return max(i.Says, i.Most) }

// Reason is why a file is refused.
type Reason uint8

// The reasons.
const (
	Unknown Reason = iota + 1 // it is not one of the formats
	Broken                    // it is one, and cannot be read
	TooMany                   // it has more parts than files of its kind have
	Codec                     // it holds sound of a kind that is not known
)

// Error is why a file is refused. Its text is for clients.
type Error struct {
	Reason Reason
	Text   string
}

func (e *Error) Error() string { return e.Text }

func broken(format string, args ...any) error { return &Error{Broken, fmt.Sprintf(format, args...)} }

func tooMany(what string, most int) error {
	return &Error{TooMany, fmt.Sprintf("the file has more than %d %s", most, what)}
}

func foreign(format, codec string) error {
	return &Error{Codec, fmt.Sprintf("the %s file holds sound of a kind that is not known (%s)", format, codec)}
}

// Endless is the length for numbers that no Duration holds.
const Endless = time.Duration(1<<63 - 1)

// Limits of files that are made in good faith.
const (
	maxStreams = 64     // tracks, or streams that follow each other
	maxParts   = 10_000 // chunks, boxes or elements beside those that hold sound
)

// Read describes a file, or refuses it with an *Error.
func Read(file []byte) (Info, error) {
	switch {
	case len(file) >= 12 && (string(file[:4]) == "RIFF" || string(file[:4]) == "RF64" || string(file[:4]) == "BW64") &&
		string(file[8:12]) == "WAVE":
		return readWAV(file)
	case bytes.HasPrefix(file, []byte("fLaC")):
		return readFLAC(file, 0)
	case bytes.HasPrefix(file, []byte("OggS")):
		return readOgg(file)
	case bytes.HasPrefix(file, []byte{0x1A, 0x45, 0xDF, 0xA3}):
		return readMatroska(file)
	case len(file) >= 8 && movieBoxes[string(file[4:8])]:
		return readMP4(file)
	}
	from := skipTags(file)
	if bytes.HasPrefix(file[from:], []byte("fLaC")) {
		return readFLAC(file, from)
	}
	return readFrames(file, from)
}

// movieBoxes are those that a file of MP4 or QuickTime begins with.
var movieBoxes = map[string]bool{"ftyp": true, "moov": true, "mdat": true, "free": true, "skip": true, "wide": true,
	"styp": true, "moof": true, "sidx": true}

// skipTags is where the ID3v2 tags in front of a file end.
func skipTags(file []byte) (at int) {
	for range 8 {
		b := file[at:]
		if len(b) < 10 || string(b[:3]) != "ID3" || b[3] == 0xFF || (b[6]|b[7]|b[8]|b[9])&0x80 != 0 {
			return at
		}
		n := int(b[6])<<21 | int(b[7])<<14 | int(b[8])<<7 | int(b[9])
		if n += 10; b[5]&0x10 != 0 {
			n += 10 // a footer
		}
		at += min(n, len(b))
	}
	return at
}

// span is how long n samples of a rate are; Endless where that cannot be said.
func span(n uint64, rate uint64) time.Duration {
	if rate == 0 {
		if n == 0 {
			return 0
		}
		return Endless
	}
	high, low := bits.Mul64(n, uint64(time.Second))
	if high >= rate {
		return Endless
	}
	q, _ := bits.Div64(high, low, rate)
	if q > uint64(Endless) {
		return Endless
	}
	return time.Duration(q)
}

// plus adds lengths, at most Endless.
func plus(a, b time.Duration) time.Duration {
	if a > Endless-b {
		return Endless
	}
	return a + b
}

// add adds numbers, at most the largest.
func add(a, b uint64) uint64 {
	sum, carry := bits.Add64(a, b, 0)
	if carry != 0 {
		return 1<<64 - 1
	}
	return sum
}

// mul multiplies numbers, at most the largest.
func mul(a, b uint64) uint64 {
	high, low := bits.Mul64(a, b)
	if high != 0 {
		return 1<<64 - 1
	}
	return low
}
