package container

import (
	"encoding/binary"
	"strings"
	"time"
)

// entry describes the samples of a track (stsd).
type entry struct {
	codec   string
	rate    uint64
	samples uint64 // of sound in one sample of the track, at most
	exact   bool   // each has as many
}

// boxCodecs are the names of sound in MP4 and QuickTime.
var boxCodecs = map[string]entry{
	"mp4a": {codec: "aac", samples: 1024, exact: true},
	"Opus": {codec: "opus", samples: 5760}, // 120 ms at 48,000
	"fLaC": {codec: "flac", samples: 4608},
	"alac": {codec: "alac", samples: 4096, exact: true},
	".mp3": {codec: "mp3", samples: 1152, exact: true},
	"ac-3": {codec: "ac3", samples: 1536, exact: true},
	"ec-3": {codec: "eac3", samples: 1536},
	"samr": {codec: "amr", samples: 160, exact: true},
	"sawb": {codec: "amr", samples: 320, exact: true},
}

// pcmBoxes are those of sound that is not compressed.
const pcmBoxes = " sowt twos lpcm in24 in32 fl32 fl64 raw  NONE ulaw alaw ipcm fpcm "

// readEntries reads stsd. A track whose samples are of several kinds is refused.
func (t *mp4Track) readEntries(b []byte) error {
	_, b = header(b)
	f := fields{b}
	n := f.u32()
	if n > maxStreams {
		return tooMany("descriptions of samples", maxStreams)
	}
	for ; n > 0 && len(f.b) >= 16; n-- {
		size := min(uint64(binary.BigEndian.Uint32(f.b)), uint64(len(f.b)))
		if size < 16 {
			return broken("a description of samples of the MP4 file has a wrong size")
		}
		kind := string(f.b[4:8])
		body := f.b[16:size]
		f.b = f.b[size:]
		var e entry
		if t.handler == "soun" {
			e = readSoundEntry(kind, body)
		} else {
			e.codec = strings.TrimSpace(kind)
			if t.handler == "vide" && len(body) >= 20 {
				t.width = max(t.width, int(binary.BigEndian.Uint16(body[16:])))
				t.height = max(t.height, int(binary.BigEndian.Uint16(body[18:])))
				one := sizeIn(body[20:])
				t.uncoded = t.uncoded || one.height == 0
				t.coded = t.coded.max(one)
			}
		}
		switch {
		case t.entry.codec == "":
			t.entry = e
		case e.samples == 0:
			t.entry.samples = 0
		default: // the longest counts
			t.entry.exact = t.entry.exact && e == t.entry
			t.entry.samples, t.entry.rate = max(t.entry.samples, e.samples), min(t.entry.rate, e.rate)
		}
	}
	return nil
}

// readSoundEntry reads the fields behind the name of a kind of sound.
func readSoundEntry(kind string, b []byte) entry {
	e, known := boxCodecs[kind]
	if !known {
		if e.codec = strings.TrimSpace(kind); strings.Contains(pcmBoxes, " "+kind+" ") {
			e = entry{codec: "pcm", samples: 1, exact: true}
		}
	}
	if len(b) < 20 {
		e.samples = 0
		return e
	}
	be := binary.BigEndian
	e.rate = uint64(be.Uint32(b[16:]) >> 16)
	rest := b[20:]
	switch version := be.Uint16(b); {
	case version == 1 && len(rest) >= 16:
		if per := uint64(be.Uint32(rest)); per > 0 && e.samples > 1 {
			e.samples = max(e.samples, per)
		}
		rest = rest[16:]
	case version == 2 && len(rest) >= 36:
		rest = rest[36:]
	}
	switch e.codec {
	case "aac":
		e.readESDS(rest)
	case "alac":
		if at := boxAt(rest, "alac"); len(at) >= 8 {
			e.samples = max(uint64(be.Uint32(at[4:])), 1)
			if len(at) >= 28 {
				e.rate = lower(e.rate, uint64(be.Uint32(at[24:])))
			}
		}
	case "flac":
		if at := boxAt(rest, "dfLa"); len(at) >= 8+streamInfoLen {
			if s, ok := readStreamInfo(at[8:]); ok {
				e.samples, e.rate = s.most, lower(e.rate, s.rate)
			}
		}
	case "opus":
		e.rate = 48000
	case "amr":
		e.rate = e.samples * 50
		if at := boxAt(rest, "damr"); len(at) >= 9 {
			e.samples *= max(uint64(at[8]), 1)
		}
	}
	return e
}

// lower is the lower one of two rates that are said.
func lower(a, b uint64) uint64 {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}

// boxAt is the body of the first box of a name within a description, wherever it
// is there: QuickTime puts some into others.
func boxAt(b []byte, name string) []byte {
	if at := strings.Index(string(b[:min(len(b), 4<<10)]), name); at >= 4 {
		return b[at+4:]
	}
	return nil
}

// readESDS reads MPEG-4's description of its sound: AAC, or MPEG audio under its name.
func (e *entry) readESDS(b []byte) {
	b = boxAt(b, "esds")
	if len(b) < 4 {
		return
	}
	b = b[4:]
	for range 8 {
		tag, body := descriptor(b)
		switch {
		case tag == 3 && len(body) >= 3:
			b = body[3:]
			if flags := body[2]; flags&0xE0 != 0 {
				return // encoders never write these
			}
		case tag == 4 && len(body) >= 13:
			switch body[0] {
			case 0x69, 0x6B:
				e.codec, e.samples = "mp3", 1152
				return
			case 0x40, 0x66, 0x67, 0x68:
			default:
				e.codec, e.samples = "mp4a", 0
				return
			}
			b = body[13:]
		case tag == 5 && len(body) >= 2:
			e.rate = lower(e.rate, aacConfigRate(body))
			if kind := binary.BigEndian.Uint16(body) >> 5; kind>>6 == 31 && kind&63 == 10 { // xHE-AAC
				e.samples, e.exact = 4096, false
			}
			return
		default:
			return
		}
	}
}

// aacConfigRate is the rate in an AudioSpecificConfig, of which a frame has 1,024 samples;
// 0 if absent.
func aacConfigRate(b []byte) uint64 {
	if len(b) < 2 {
		return 0
	}
	v := binary.BigEndian.Uint16(b)
	index := v >> 7 & 15
	if v>>11 == 31 && len(b) >= 3 { // six more bits of its kind
		index = uint16((uint32(v)<<8 | uint32(b[2])) >> 9 & 15)
	} else if index == 15 && len(b) >= 5 {
		return (uint64(binary.BigEndian.Uint32(b[1:])) >> 7) & 0xFFFFFF
	}
	return uint64(aacRates[index])
}

// descriptor is the first one of MPEG-4 in b.
func descriptor(b []byte) (tag byte, body []byte) {
	if len(b) < 2 {
		return 0, nil
	}
	tag, b = b[0], b[1:]
	n := 0
	for range 4 {
		if len(b) == 0 {
			return 0, nil
		}
		c := b[0]
		b = b[1:]
		n = n<<7 | int(c&0x7F)
		if c&0x80 == 0 {
			break
		}
	}
	return tag, b[:min(n, len(b))]
}

// most is the longest that the samples of a track can be; false: their kind is not
// known.
func (e *entry) most(t *mp4Track) (d time.Duration, ok bool) {
	if e.samples == 0 || e.rate == 0 && t.scale == 0 {
		return 0, false
	}
	rate := e.rate
	if rate == 0 {
		rate = t.scale // of QuickTime's second kind of descriptions
	}
	return span(mul(t.samples, e.samples), rate), true
}
