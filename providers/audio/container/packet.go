package container

import (
	"math/bits"
	"time"
)

// codec says how long packets are.
type codec struct {
	name   string
	rate   uint64
	skip   uint64    // samples that are left out at the beginning
	blocks [2]uint64 // of Vorbis: samples of its short and of its long blocks
	modes  []byte    // of Vorbis: which of them each has
	before uint64    // of Vorbis: the block before
	frame  uint64    // samples of a frame; 0: those of a packet say
	frames uint64    // of a packet
	bytes  uint64    // of sound that is not compressed: those of a sample
}

// span is how long a packet is. head is its beginning.
func (c *codec) span(head []byte, size int) time.Duration {
	switch c.name {
	case "opus":
		return opusSpan(head)
	case "vorbis":
		return span(c.vorbis(head), c.rate)
	case "flac":
		h, ok := readFLACHeader(head)
		if !ok {
			return 0
		}
		return span(h.samples, lower(c.rate, h.rate))
	case "mp3":
		if f, ok := readMPEG(head); ok {
			return f.span()
		}
		return 0
	case "pcm":
		return span(uint64(size)/max(c.bytes, 1), c.rate)
	}
	return span(mul(c.frame, max(c.frames, 1)), c.rate)
}

// opusSpan is how long a packet of Opus is (RFC 6716, 3.1 and 3.2).
func opusSpan(head []byte) time.Duration {
	if len(head) == 0 {
		return 0
	}
	kind := head[0] >> 3
	var frame time.Duration
	switch {
	case kind < 12:
		frame = [4]time.Duration{10, 20, 40, 60}[kind&3] * time.Millisecond
	case kind < 16:
		frame = [2]time.Duration{10, 20}[kind&1] * time.Millisecond
	default:
		frame = 2500 * time.Microsecond << (kind & 3)
	}
	switch head[0] & 3 {
	case 0:
		return frame
	case 1, 2:
		return 2 * frame
	}
	if len(head) < 2 {
		return 0
	}
	return time.Duration(head[1]&63) * frame
}

// maxSetup bounds the stored part of a setup of Vorbis, whose end has the modes.
const maxSetup = 256 << 10

// readModes finds, from its end on, which blocks the modes of a setup have: a bit, two
// numbers of 16 that are 0 and one of 8 each, behind their number less one in 6 bits.
func (c *codec) readModes(setup []byte) {
	r := backwards{setup, 0}
	for r.left() > 97 && r.bits(1) == 0 {
	}
	start, count, found := r.at, 0, 0
	for r.left() >= 97 {
		if r.bits(8) > 63 || r.bits(16) != 0 || r.bits(16) != 0 {
			break
		}
		r.bits(1)
		if count++; count > 64 {
			break
		}
		if ahead := r; ahead.bits(6)+1 == count {
			found = count
		}
	}
	if found == 0 {
		return
	}
	c.modes = make([]byte, found)
	r.at = start
	for i := found - 1; i >= 0; i-- {
		r.bits(40)
		c.modes[i] = byte(r.bits(1))
	}
}

// backwards reads bits from the end of b on, the highest of a byte first.
type backwards struct {
	b  []byte
	at int
}

func (r *backwards) left() int { return len(r.b)*8 - r.at }

func (r *backwards) bits(n int) (v int) {
	for ; n > 0 && r.left() > 0; n-- {
		c := r.b[len(r.b)-1-r.at/8]
		v = v<<1 | int(c>>(7-r.at%8)&1)
		r.at++
	}
	return v
}

// vorbis is how many samples a packet adds: a quarter of its block and of the one
// before, which overlap. Where the modes are not known it is the most.
func (c *codec) vorbis(head []byte) uint64 {
	if len(head) == 0 || head[0]&1 != 0 {
		return 0
	}
	block := max(c.blocks[0], c.blocks[1])
	if len(c.modes) > 0 {
		mode := int(head[0]>>1) & (1<<bits.Len(uint(len(c.modes)-1)) - 1)
		block = c.blocks[c.modes[min(mode, len(c.modes)-1)]]
	}
	before := c.before
	c.before = block
	if before == 0 {
		return 0
	}
	return (before + block) / 4
}
