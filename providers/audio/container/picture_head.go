package container

import "encoding/binary"

// readAV1 reads the description of AV1: the header of its sequence.
func readAV1(b []byte) (s size) {
	if len(b) < 4 || b[0] != 0x81 {
		return size{}
	}
	for units := b[4:]; len(units) >= 2; {
		head := units[0]
		at := 1
		if head&4 != 0 {
			at++
		}
		n := uint64(0)
		for i := 0; head&2 != 0; i++ {
			if at >= len(units) || i == 5 {
				return s
			}
			c := units[at]
			n |= uint64(c&0x7f) << (7 * i)
			if at++; c < 0x80 {
				break
			}
		}
		if head&0x80 != 0 || head&2 == 0 || n > uint64(len(units)-min(at, len(units))) {
			return s
		}
		body := units[at : at+int(n)]
		units = units[at+int(n):]
		if head>>3&15 == 1 {
			s = s.max(av1Size(body))
		}
	}
	return s
}

// av1Size reads the header of a sequence (AV1, 5.5.1).
func av1Size(b []byte) size {
	r := &bitReader{b: b}
	r.bits(4)
	if r.flag() {
		r.bits(5)
	} else {
		r.skipAV1Points()
	}
	across, down := int(r.bits(4))+1, int(r.bits(4))+1
	w, h := r.bits(across)+1, r.bits(down)+1
	if r.bad {
		return size{}
	}
	return size{int(w), int(h)}.sane()
}

// skipAV1Points skips the timing of pictures and the operating points.
func (r *bitReader) skipAV1Points() {
	model, delay := false, 0
	if r.flag() {
		r.bits(64)
		if r.flag() {
			r.golomb()
		}
		if model = r.flag(); model {
			delay = int(r.bits(5)) + 1
			r.bits(32 + 5 + 5)
		}
	}
	display := r.flag()
	for range r.bits(5) + 1 {
		r.bits(12)
		if r.bits(5) > 7 {
			r.bits(1)
		}
		if model && r.flag() {
			r.bits(2*delay + 1)
		}
		if display && r.flag() {
			r.bits(4)
		}
	}
}

// vp8Size reads the head of a frame (RFC 6386, 9.1); nothing where it is not a key frame.
func vp8Size(b []byte) size {
	if len(b) < 10 || b[0]&1 != 0 || b[3] != 0x9d || b[4] != 0x01 || b[5] != 0x2a {
		return size{}
	}
	return size{int(binary.LittleEndian.Uint16(b[6:]) & 0x3fff), int(binary.LittleEndian.Uint16(b[8:]) & 0x3fff)}.sane()
}

// vp9Size reads the head of a frame (VP9, 6.2); nothing where it is not a key frame.
func vp9Size(b []byte) size {
	r := &bitReader{b: b[:min(len(b), 32)]}
	if r.bits(2) != 2 {
		return size{}
	}
	profile := r.bits(1) | r.bits(1)<<1
	if profile == 3 {
		r.bits(1)
	}
	again, between := r.flag(), r.flag() // an old frame is shown; this is not a key frame
	if again || between {
		return size{}
	}
	r.bits(2)
	if r.bits(24) != 0x498342 {
		return size{}
	}
	if profile >= 2 {
		r.bits(1)
	}
	const srgb = 7
	switch space := r.bits(3); {
	case space != srgb:
		r.bits(1)
		if profile&1 == 1 {
			r.bits(3)
		}
	case profile&1 == 1:
		r.bits(1)
	}
	w, h := r.bits(16)+1, r.bits(16)+1
	if r.bad {
		return size{}
	}
	return size{int(w), int(h)}.sane()
}
