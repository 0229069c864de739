package container

import (
	"bytes"
	"encoding/binary"
)

// The size of moving pictures is in their container, as the writer of the file claims it,
// and in the codec, which decoders follow. Only the latter counts for charges.

// mostPicture is more than any picture has.
const mostPicture = 1 << 16

// size is how large coded pictures are; 0: not known.
type size struct{ width, height int }

func (s size) max(o size) size { return size{max(s.width, o.width), max(s.height, o.height)} }

// sane is s, or nothing where it cannot be.
func (s size) sane() size {
	if s.width <= 0 || s.height <= 0 || s.width > mostPicture || s.height > mostPicture {
		return size{}
	}
	return s
}

// configs read the codecs' descriptions in containers.
var configs = []struct {
	box, codec string
	read       func(b []byte) size
}{
	{"avcC", "V_MPEG4/ISO/AVC", readAVC}, {"hvcC", "V_MPEGH/ISO/HEVC", readHEVC}, {"av1C", "V_AV1", readAV1},
}

// maxConfigs is how many descriptions of a codec a track has that means well.
const maxConfigs = 8

// sizeIn is the largest size in any description of a codec within b, at any place: decoders
// look for it in several places.
func sizeIn(b []byte) (s size) {
	for _, c := range configs {
		rest := b
		for n := 0; ; n++ {
			at := bytes.Index(rest, []byte(c.box))
			switch {
			case at < 0:
			case n == maxConfigs:
				return size{}
			default:
				rest = rest[at+len(c.box):]
				s = s.max(c.read(rest))
				continue
			}
			break
		}
	}
	return s
}

// bitReader reads a codec's description bit by bit. Beyond its end there are zeros, and
// bad is set.
type bitReader struct {
	b   []byte
	at  int
	bad bool
}

func (r *bitReader) bits(n int) (v uint64) {
	for range n {
		v <<= 1
		if i := r.at >> 3; i < len(r.b) {
			v |= uint64(r.b[i]>>(7-r.at&7)) & 1
		} else {
			r.bad = true
		}
		r.at++
	}
	return v
}

func (r *bitReader) flag() bool { return r.bits(1) == 1 }

// golomb reads ue(v) of H.264 and H.265.
func (r *bitReader) golomb() uint64 {
	n := 0
	for r.bits(1) == 0 {
		if n++; n > 32 || r.bad {
			r.bad = true
			return 0
		}
	}
	return 1<<n - 1 + r.bits(n)
}

// unescaped is a unit of H.264 or H.265 without the bytes that keep start codes out of it.
func unescaped(b []byte) []byte {
	out := make([]byte, 0, len(b))
	zeros := 0
	for _, c := range b {
		if zeros >= 2 && c == 3 {
			zeros = 0
			continue
		}
		if zeros++; c != 0 {
			zeros = 0
		}
		out = append(out, c)
	}
	return out
}

// maxParameters bounds the bytes read of one set of parameters.
const maxParameters = 1 << 10

// unit takes a unit with a length of two bytes from the front of b.
func unit(b []byte) (first, rest []byte) {
	if len(b) < 2 {
		return nil, nil
	}
	n := int(binary.BigEndian.Uint16(b))
	if b = b[2:]; n > len(b) {
		return nil, nil
	}
	return b[:n], b[n:]
}

// readAVC reads the description of H.264 (ISO 14496-15): its sets of sequence parameters.
func readAVC(b []byte) (s size) {
	if len(b) < 6 || b[0] != 1 {
		return size{}
	}
	sets := b[6:]
	for range b[5] & 31 {
		var set []byte
		if set, sets = unit(sets); len(set) < 4 || set[0]&31 != 7 {
			return size{}
		}
		one := avcSize(unescaped(set[1:min(len(set), maxParameters)]))
		if one.height == 0 {
			return size{}
		}
		s = s.max(one)
	}
	return s
}

// avcSize reads a set of sequence parameters (H.264, 7.3.2.1.1).
func avcSize(b []byte) size {
	r := &bitReader{b: b}
	profile := r.bits(8)
	r.bits(16)
	r.golomb()
	chroma := uint64(1)
	switch profile {
	case 100, 110, 122, 244, 44, 83, 86, 118, 128, 138, 139, 134, 135:
		chroma = r.golomb()
		r.skipAVCFormat(chroma)
	}
	r.golomb()
	switch r.golomb() {
	case 0:
		r.golomb()
	case 1:
		r.bits(1)
		r.golomb()
		r.golomb()
		for n := r.golomb(); n > 0 && !r.bad; n-- {
			r.golomb()
		}
	}
	r.golomb()
	r.bits(1)
	wide, high := r.golomb()+1, r.golomb()+1
	fields := 2 - r.bits(1)
	if fields == 2 {
		r.bits(1)
	}
	r.bits(1)
	w, h := int64(wide)*16, int64(high*fields)*16
	if r.flag() {
		left, right, top, bottom := r.golomb(), r.golomb(), r.golomb(), r.golomb()
		x, y := cropUnits(chroma)
		w -= x * int64(left+right)
		h -= y * int64(fields) * int64(top+bottom)
	}
	if r.bad {
		return size{}
	}
	return size{int(min(w, mostPicture+1)), int(min(h, mostPicture+1))}.sane()
}

// cropUnits are how many lines and columns of a picture go with one of its colours.
func cropUnits(chroma uint64) (x, y int64) {
	switch chroma {
	case 1:
		return 2, 2
	case 2:
		return 2, 1
	}
	return 1, 1
}

func (r *bitReader) skipAVCFormat(chroma uint64) {
	lists := 8
	if chroma == 3 {
		r.bits(1)
		lists = 12
	}
	r.golomb()
	r.golomb()
	r.bits(1)
	if !r.flag() {
		return
	}
	for i := range lists {
		if !r.flag() {
			continue
		}
		entries := 16
		if i >= 6 {
			entries = 64
		}
		last, next := int64(8), int64(8)
		for range entries {
			if next != 0 {
				n := int64(r.golomb())
				if n&1 == 1 {
					n = (n + 1) / 2
				} else {
					n = -n / 2
				}
				next = (last + n + 256) % 256
			}
			if next != 0 {
				last = next
			}
		}
	}
}

// readHEVC reads the description of H.265 (ISO 14496-15).
func readHEVC(b []byte) (s size) {
	if len(b) < 23 {
		return size{}
	}
	arrays := b[23:]
	for range b[22] {
		if len(arrays) < 3 {
			return size{}
		}
		kind, n := arrays[0]&63, binary.BigEndian.Uint16(arrays[1:])
		arrays = arrays[3:]
		for range n {
			var set []byte
			if set, arrays = unit(arrays); len(set) < 3 {
				return size{}
			}
			if kind != 33 {
				continue
			}
			one := hevcSize(unescaped(set[2:min(len(set), maxParameters)]))
			if one.height == 0 {
				return size{}
			}
			s = s.max(one)
		}
	}
	return s
}

// hevcSize reads a set of sequence parameters (H.265, 7.3.2.2).
func hevcSize(b []byte) size {
	r := &bitReader{b: b}
	r.bits(4)
	layers := int(r.bits(3))
	r.bits(1 + 96)
	profiles, levels := [8]bool{}, [8]bool{}
	for i := range layers {
		profiles[i], levels[i] = r.flag(), r.flag()
	}
	if layers > 0 {
		r.bits(2 * (8 - layers))
	}
	for i := range layers {
		if profiles[i] {
			r.bits(88)
		}
		if levels[i] {
			r.bits(8)
		}
	}
	r.golomb()
	chroma := r.golomb()
	if chroma == 3 {
		r.bits(1)
	}
	w, h := int64(r.golomb()), int64(r.golomb())
	if r.flag() {
		left, right, top, bottom := r.golomb(), r.golomb(), r.golomb(), r.golomb()
		x, y := cropUnits(chroma)
		w, h = w-x*int64(left+right), h-y*int64(top+bottom)
	}
	if r.bad {
		return size{}
	}
	return size{int(min(w, mostPicture+1)), int(min(h, mostPicture+1))}.sane()
}
