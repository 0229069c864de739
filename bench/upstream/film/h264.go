package film

import (
	"encoding/binary"
	"math/bits"
)

// writer appends bits, the highest of a byte first.
type writer struct {
	b    []byte
	free int // bits of the last byte
}

func (w *writer) bits(value uint32, n int) {
	for i := n - 1; i >= 0; i-- {
		if w.free == 0 {
			w.b, w.free = append(w.b, 0), 8
		}
		w.free--
		w.b[len(w.b)-1] |= byte(value>>i&1) << w.free
	}
}

// ue appends a number in Exp-Golomb form (ITU-T H.264, 9.1).
func (w *writer) ue(n int) {
	length := bits.Len(uint(n + 1))
	w.bits(0, length-1)
	w.bits(uint32(n+1), length)
}

// bytes appends whole bytes behind zeros up to the next one.
func (w *writer) bytes(b ...byte) {
	w.b, w.free = append(w.b, b...), 0
}

// unit ends the written bits and makes a unit of them: three bytes below 4 in a row would
// look like the beginning of another one.
func (w *writer) unit() (b []byte) {
	w.bits(1, 1)
	zeros := 0
	for _, c := range w.b {
		if zeros >= 2 && c <= 3 {
			b, zeros = append(b, 3), 0
		}
		if b = append(b, c); c == 0 {
			zeros++
		} else {
			zeros = 0
		}
	}
	return b
}

// The types of units, with the mark that pictures refer to them.
const (
	sequenceUnit = 0x67
	pictureUnit  = 0x68
	keyUnit      = 0x65
	deltaUnit    = 0x61
)

// blocks is the size of the pictures in macroblocks of 16 by 16.
func (f *Film) blocks() (width, height int) { return (f.Width + 15) / 16, (f.Height + 15) / 16 }

// sequence says how large pictures are (7.3.2.1): Constrained Baseline.
func (f *Film) sequence() []byte {
	width, height := f.blocks()
	w := &writer{}
	w.bytes(sequenceUnit, 66, 0xc0, 52)
	w.ue(0)      // its id
	w.ue(0)      // numbers of pictures have 4 bits
	w.ue(2)      // pictures are shown in the order of the stream
	w.ue(1)      // one is referred to
	w.bits(0, 1) // no numbers are left out
	w.ue(width - 1)
	w.ue(height - 1)
	w.bits(3, 2) // whole pictures; 8x8 inference
	right, bottom := (width*16-f.Width)/2, (height*16-f.Height)/2
	if right+bottom == 0 {
		w.bits(0, 1)
	} else {
		w.bits(1, 1)
		for _, n := range []int{0, right, 0, bottom} {
			w.ue(n)
		}
	}
	w.bits(0, 1) // no usability information
	return w.unit()
}

// parameters are those of the pictures (7.3.2.2).
func parameters() []byte {
	w := &writer{}
	w.bytes(pictureUnit)
	w.ue(0)
	w.ue(0)
	w.bits(0, 2) // variable lengths; no order of fields
	w.ue(0)      // one group of slices
	w.ue(0)
	w.ue(0)
	w.bits(0, 3) // no weights
	w.ue(0)      // quantisers, which nothing here uses
	w.ue(0)
	w.ue(0)
	w.bits(4, 3) // slices say whether edges are smoothed
	return w.unit()
}

// picture is the nth one: the first of a second shows its colour, the others the same.
func (f *Film) picture(n int64) []byte {
	unit := f.delta(int(n % int64(f.Rate)))
	if n%int64(f.Rate) == 0 {
		unit = f.key(int(n / int64(f.Rate)))
	}
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(unit))), unit...)
}

// slice begins a picture that is one slice (7.3.3).
func slice(unit byte, kind, number int) *writer {
	w := &writer{}
	w.bytes(unit)
	w.ue(0)
	w.ue(kind)
	w.ue(0)
	w.bits(uint32(number&15), 4)
	return w
}

// key is a picture of one colour. Its first block has samples; each of the others is
// predicted from the mean of its neighbours, and nothing differs from that.
func (f *Film) key(second int) []byte {
	const onlyIntra = 7
	w := slice(keyUnit, onlyIntra, 0)
	w.ue(second & 1) // two key pictures in a row have different numbers
	w.bits(0, 2)
	w.ue(0)
	w.ue(1) // edges are not smoothed
	const samples, predicted = 25, 3
	w.ue(samples)
	y, cb, cr := byte(60+second*29%130), byte(64+second*47%128), byte(64+second*83%128)
	for i := range 384 {
		switch {
		case i < 256:
			w.bytes(y)
		case i < 320:
			w.bytes(cb)
		default:
			w.bytes(cr)
		}
	}
	width, height := f.blocks()
	for n := 1; n < width*height; n++ {
		w.ue(predicted)
		w.ue(0)
		w.ue(0)
		// The code for the number of coefficients, 0, depends on the neighbours' numbers:
		// of samples, all.
		if n == 1 && width > 1 || n == width {
			w.bits(3, 6)
		} else {
			w.bits(1, 1)
		}
	}
	return w.unit()
}

// delta says that nothing has changed since the picture before.
func (f *Film) delta(number int) []byte {
	const alsoInter = 5
	w := slice(deltaUnit, alsoInter, number)
	w.bits(0, 3)
	w.ue(0)
	w.ue(1)
	width, height := f.blocks()
	w.ue(width * height)
	return w.unit()
}

// silence is a frame of AAC in which nothing is heard (ISO/IEC 14496-3): one channel
// without bands, and the end.
var silence = func() []byte {
	w := &writer{}
	w.bits(0, 3+4) // a single channel
	w.bits(100, 8) // gain
	w.bits(0, 1+2+1+6+1)
	w.bits(0, 3) // no pulses, no shaping, no gain control
	w.bits(7, 3)
	return w.b
}()
