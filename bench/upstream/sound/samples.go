package sound

import (
	"encoding/binary"
	"math"
	"slices"
)

const (
	// toneBlock is how many samples a piece of a tone has: whole periods of it, so that
	// each piece is the same.
	toneBlock = 4800
	toneHz    = 480
	toneLevel = 1000 // of 32767
)

// tone is a block as little-endian samples, and toneBig as big-endian ones.
var tone, toneBig = func() (little, big []byte) {
	for i := range toneBlock {
		v := int16(math.Round(toneLevel * math.Sin(2*math.Pi*toneHz*float64(i)/Rate)))
		little = binary.LittleEndian.AppendUint16(little, uint16(v))
		big = binary.BigEndian.AppendUint16(big, uint16(v))
	}
	return little, big
}()

func appendSamples(b []byte, _ *Clip, _, samples int64) []byte { return append(b, tone[:2*samples]...) }

// wavHead is the 44 bytes of RIFF and fmt before the samples. A size that is not known
// yet is written as the largest.
func wavHead(c *Clip) []byte {
	size := uint32(math.MaxUint32)
	if !c.o.Unmeasured {
		size = uint32(min(2*c.samples, math.MaxUint32-36))
	}
	riff := size
	if !c.o.Unmeasured {
		riff += 36
	}
	b := binary.LittleEndian.AppendUint32([]byte("RIFF"), riff)
	b = append(b, "WAVEfmt "...)
	b = binary.LittleEndian.AppendUint32(b, 16)
	b = binary.LittleEndian.AppendUint16(b, 1) // bare samples
	b = binary.LittleEndian.AppendUint16(b, 1) // channel
	b = binary.LittleEndian.AppendUint32(b, Rate)
	b = binary.LittleEndian.AppendUint32(b, 2*Rate)
	b = binary.LittleEndian.AppendUint16(b, 2)
	b = binary.LittleEndian.AppendUint16(b, 16)
	b = append(b, "data"...)
	return binary.LittleEndian.AppendUint32(b, size)
}

// flacHead is the marker and STREAMINFO, the only block of metadata.
func flacHead(c *Clip) []byte {
	total := uint64(c.samples)
	if c.o.Unmeasured {
		total = 0
	}
	b := append([]byte("fLaC"), 0x80, 0, 0, 34)
	b = binary.BigEndian.AppendUint16(b, toneBlock)
	b = binary.BigEndian.AppendUint16(b, toneBlock)
	b = append(b, 0, 0, 0, 0, 0, 0) // sizes of frames: unknown
	// 20 bits of rate, 3 of channels - 1, 5 of bits - 1, 36 of samples.
	b = binary.BigEndian.AppendUint64(b, Rate<<44|15<<36|total&(1<<36-1))
	return append(b, make([]byte, 16)...) // no MD5
}

// appendFlac appends a frame of one verbatim subframe.
func appendFlac(b []byte, _ *Clip, n, samples int64) []byte {
	from := len(b)
	b = append(b, 0xff, 0xf8, 0x77, 0x08) // 16 bits of block size, 24 kHz, one channel, 16 bits
	b = appendNumber(b, uint64(n))
	b = binary.BigEndian.AppendUint16(b, uint16(samples-1))
	b = append(b, crc8(b[from:]), 0x02)
	b = append(b, toneBig[:2*samples]...)
	return binary.BigEndian.AppendUint16(b, crc16(b[from:]))
}

// appendNumber appends a frame's number as UTF-8 would, up to 36 bits.
func appendNumber(b []byte, n uint64) []byte {
	if n < 0x80 {
		return append(b, byte(n))
	}
	var tail []byte
	lead := uint64(0x3f)
	for n > lead {
		tail = append(tail, byte(0x80|n&0x3f))
		n >>= 6
		lead >>= 1
	}
	slices.Reverse(tail)
	return append(append(b, ^byte(lead<<1|1)|byte(n)), tail...)
}

func crc8(p []byte) (crc byte) {
	for _, c := range p {
		crc ^= c
		for range 8 {
			crc = crc<<1 ^ crc>>7*0x07
		}
	}
	return crc
}

var crc16Table = func() (t [256]uint16) {
	for i := range t {
		crc := uint16(i) << 8
		for range 8 {
			crc = crc<<1 ^ crc>>15*0x8005
		}
		t[i] = crc
	}
	return t
}()

func crc16(p []byte) (crc uint16) {
	for _, c := range p {
		crc = crc<<8 ^ crc16Table[byte(crc>>8)^c]
	}
	return crc
}
