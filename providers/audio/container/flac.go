package container

import (
	"bytes"
	"encoding/binary"
	"time"
)

// streamInfo is the first metadata block of FLAC.
type streamInfo struct {
	least, most uint64 // samples of a block
	rate        uint64
	samples     uint64 // 0: not said
}

const streamInfoLen = 34

func readStreamInfo(b []byte) (s streamInfo, ok bool) {
	if len(b) < streamInfoLen {
		return s, false
	}
	be := binary.BigEndian
	s.least, s.most = uint64(be.Uint16(b)), uint64(be.Uint16(b[2:]))
	packed := be.Uint64(b[10:])
	s.rate = packed >> 44
	s.samples = packed & (1<<36 - 1)
	return s, s.rate > 0
}

// readFLAC reads a file of FLAC (RFC 9639) that begins at from. Frames do not say
// how large they are: their headers are found by their own checksum.
func readFLAC(file []byte, from int) (Info, error) {
	i := Info{Format: "flac", Codec: "flac"}
	b := file[from+4:]
	var info streamInfo
	for blocks := 0; ; blocks++ {
		if blocks == maxParts {
			return i, tooMany("metadata blocks", maxParts)
		}
		if len(b) < 4 {
			return i, broken("the FLAC file ends before its sound")
		}
		kind, size := b[0]&0x7F, int(b[1])<<16|int(b[2])<<8|int(b[3])
		last := b[0]&0x80 != 0
		b = b[4:]
		if kind == 127 || size > len(b) {
			return i, broken("the metadata of the FLAC file cannot be read")
		}
		if blocks == 0 {
			var ok bool
			if info, ok = readStreamInfo(b[:size]); kind != 0 || !ok {
				return i, broken("the FLAC file does not begin with its stream info")
			}
		}
		if b = b[size:]; last {
			break
		}
	}
	i.Says = span(info.samples, info.rate)
	w := flacWalk{info: info}
	for len(b) > 0 {
		at := bytes.IndexByte(b, 0xFF)
		if at < 0 {
			break
		}
		b = b[at:]
		w.see(b)
		b = b[1:]
	}
	i.Length, i.Most = w.length, w.most
	// Bytes that look like the header of a frame by chance are rare. In a file with unusual
	// numbers of frames all of them are counted.
	if w.most-w.length > w.most/16+chance {
		i.Length = w.most
	}
	return i, nil
}

// chance is the length of one of the longest frames at the lowest usual rate.
const chance = 9 * time.Second

// flacWalk adds up frames.
type flacWalk struct {
	info         streamInfo
	begun        bool
	next         uint64 // number of the next frame, or of its first sample
	length, most time.Duration
}

// see looks for the header of a frame at the beginning of b. length counts those that
// follow each other as their numbers say, most all that have a right checksum.
func (w *flacWalk) see(b []byte) {
	h, ok := readFLACHeader(b)
	if !ok {
		return
	}
	rate := h.rate
	if rate == 0 {
		rate = w.info.rate
	}
	d := span(h.samples, rate)
	w.most = plus(w.most, d)
	if !w.begun {
		w.begun, w.next = true, h.number
	}
	if h.number < w.next || h.rate != 0 && h.rate != w.info.rate {
		return
	}
	step := uint64(1)
	if h.variable {
		step = h.samples
	}
	// A frame that is missing is one that was lost, and not one of another day.
	if h.number > w.next+16*step {
		return
	}
	w.next = h.number + step
	w.length = plus(w.length, d)
}

// flacHeader is the header of a frame.
type flacHeader struct {
	samples  uint64
	rate     uint64 // 0: that of the stream info
	number   uint64
	variable bool // number counts samples instead of frames
}

var flacRates = [16]uint64{0, 88200, 176400, 192000, 8000, 16000, 22050, 24000, 32000, 44100, 48000, 96000}

// readFLACHeader reads the header of a frame, which has a checksum.
func readFLACHeader(b []byte) (h flacHeader, ok bool) {
	if len(b) < 6 || b[0] != 0xFF || b[1]&0xFE != 0xF8 || b[3]&1 != 0 || b[3]>>4 > 10 || b[3]>>1&7 == 3 {
		return h, false
	}
	h.variable = b[1]&1 != 0
	block, rate := b[2]>>4, b[2]&15
	if block == 0 || rate == 15 {
		return h, false
	}
	at := 4
	var n int
	if h.number, n = flacNumber(b[at:]); n == 0 {
		return h, false
	}
	at += n
	// word reads the n bytes that follow the number.
	word := func(n int) (v uint64) {
		for ; n > 0 && at < len(b); n-- {
			v = v<<8 | uint64(b[at])
			at++
		}
		return v
	}
	switch {
	case block == 1:
		h.samples = 192
	case block <= 5:
		h.samples = 144 << block
	case block == 6:
		h.samples = word(1) + 1
	case block == 7:
		h.samples = word(2) + 1
	default:
		h.samples = 1 << block
	}
	switch rate {
	case 12:
		h.rate = word(1) * 1000
	case 13:
		h.rate = word(2)
	case 14:
		h.rate = word(2) * 10
	default:
		h.rate = flacRates[rate]
	}
	return h, at < len(b) && crc8(b[:at]) == b[at]
}

// flacNumber reads a number that is written like UTF-8, with up to 36 bits.
func flacNumber(b []byte) (v uint64, n int) {
	first := b[0]
	if first < 0x80 {
		return uint64(first), 1
	}
	n = 1
	for m := byte(0x40); first&m != 0; m >>= 1 {
		n++
	}
	if n < 2 || n > 7 || len(b) < n {
		return 0, 0
	}
	v = uint64(first & (1<<(7-n) - 1))
	if n == 7 {
		v = 0
	}
	for _, c := range b[1:n] {
		if c&0xC0 != 0x80 {
			return 0, 0
		}
		v = v<<6 | uint64(c&0x3F)
	}
	return v, n
}

// crc8Table is that of the polynomial x^8 + x^2 + x + 1.
var crc8Table = func() (t [256]byte) {
	for i := range t {
		c := byte(i)
		for range 8 {
			if c&0x80 != 0 {
				c = c<<1 ^ 0x07
			} else {
				c <<= 1
			}
		}
		t[i] = c
	}
	return t
}()

func crc8(b []byte) (c byte) {
	for _, x := range b {
		c = crc8Table[c^x]
	}
	return c
}
