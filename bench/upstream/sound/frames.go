package sound

import (
	"encoding/binary"
)

// mp3Frame is the size of a frame of MPEG-1 layer III, 64 kbit/s, 48 kHz, one channel:
// 144 x 64000 / 48000, with nothing to pad.
const mp3Frame = 192

// appendMP3 appends a frame whose side information names no data: silence.
func appendMP3(b []byte, _ *Clip, _, _ int64) []byte {
	b = append(b, 0xff, 0xfb, 0x54, 0xc4)
	return append(b, make([]byte, mp3Frame-4)...)
}

// appendAAC appends a frame of AAC-LC, 24 kHz, one channel, without a scale factor band.
func appendAAC(b []byte, _ *Clip, _, _ int64) []byte {
	const size, rate24k = 11, 6
	return append(b, 0xff, 0xf1, 1<<6|rate24k<<2, 1<<6|size>>11, size>>3&0xff, size&7<<5|0x1f, 0xfc,
		0x00, 0x00, 0x00, 0x07) // one channel, nothing in it, the end
}

const (
	// opusPage is a second of samples of 48 kHz, in 50 packets of 20 ms.
	opusPage    = 48000
	opusPacket  = 960
	opusPreSkip = 312
	opusSerial  = 0x5ea1
)

// opusSilence is a packet of CELT, 20 ms, one channel.
var opusSilence = []byte{0xf8, 0xff, 0xfe}

// opusHead are the two pages that open a stream (RFC 7845).
func opusHead(*Clip) []byte {
	head := append([]byte("OpusHead"), 1, 1)
	head = binary.LittleEndian.AppendUint16(head, opusPreSkip)
	head = binary.LittleEndian.AppendUint32(head, Rate)
	head = append(head, 0, 0, 0)
	tags := binary.LittleEndian.AppendUint32([]byte("OpusTags"), 5)
	tags = append(append(tags, "sound"...), 0, 0, 0, 0)
	return appendPage(appendPage(nil, 0, 2, 0, [][]byte{head}), 1, 0, 0, [][]byte{tags})
}

// appendOpus appends a page. The first has the packet that players skip, and the last one
// says where within its last packet the sound ends.
func appendOpus(b []byte, c *Clip, n, samples int64) []byte {
	end := c.next + samples + opusPreSkip
	before := int64(0)
	if n > 0 {
		before = (c.next + opusPreSkip + opusPacket - 1) / opusPacket
	}
	packets := make([][]byte, (end+opusPacket-1)/opusPacket-before)
	for i := range packets {
		packets[i] = opusSilence
	}
	kind := byte(0)
	if c.next+samples == c.samples {
		kind = 4
	} else {
		end = (end + opusPacket - 1) / opusPacket * opusPacket
	}
	return appendPage(b, uint32(n)+2, kind, uint64(end), packets)
}

// appendPage appends a page of Ogg (RFC 3533).
func appendPage(b []byte, number uint32, kind byte, granule uint64, packets [][]byte) []byte {
	from := len(b)
	b = append(append(b, "OggS"...), 0, kind)
	b = binary.LittleEndian.AppendUint64(b, granule)
	b = binary.LittleEndian.AppendUint32(b, opusSerial)
	b = binary.LittleEndian.AppendUint32(b, number)
	b = append(b, 0, 0, 0, 0, byte(len(packets)))
	for _, p := range packets {
		b = append(b, byte(len(p)))
	}
	for _, p := range packets {
		b = append(b, p...)
	}
	binary.LittleEndian.PutUint32(b[from+22:], oggCRC(b[from:]))
	return b
}

var oggTable = func() (t [256]uint32) {
	for i := range t {
		crc := uint32(i) << 24
		for range 8 {
			crc = crc<<1 ^ crc>>31*0x04c11db7
		}
		t[i] = crc
	}
	return t
}()

func oggCRC(p []byte) (crc uint32) {
	for _, c := range p {
		crc = crc<<8 ^ oggTable[byte(crc>>24)^c]
	}
	return crc
}
