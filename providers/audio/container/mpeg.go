package container

import (
	"encoding/binary"
	"time"
)

// Frames of MPEG audio (ISO 11172-3, 13818-3 and the extension to low rates).

var mpegLayers = [4]string{"", "mp3", "mp2", "mp1"} // by the two bits of the header

// mpegRates are bits of a second by 1,000: MPEG 1 layers 1 to 3, MPEG 2 layer 1 and
// layers 2 and 3.
var mpegRates = [5][16]int{
	{0, 32, 64, 96, 128, 160, 192, 224, 256, 288, 320, 352, 384, 416, 448},
	{0, 32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384},
	{0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320},
	{0, 32, 48, 56, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224, 256},
	{0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160},
}

// readMPEG reads the header of a frame of layers 1 to 3. Frames of a free bit rate
// are those of no encoder that is in use, and no frames here.
func readMPEG(b []byte) (f frame, ok bool) {
	if len(b) < 4 || b[0] != 0xFF || b[1]&0xE0 != 0xE0 {
		return f, false
	}
	h := binary.BigEndian.Uint32(b)
	version, layer := h>>19&3, h>>17&3
	bitrate, rate := h>>12&15, h>>10&3
	if version == 1 || layer == 0 || bitrate == 0 || bitrate == 15 || rate == 3 {
		return f, false
	}
	f.rate = [3]int{44100, 48000, 32000}[rate]
	table := 3 - int(layer)
	switch version {
	case 0:
		f.rate /= 4
	case 2:
		f.rate /= 2
	}
	if version != 3 {
		table = min(table+3, 4)
	}
	bits := mpegRates[table][bitrate] * 1000
	padding := int(h >> 9 & 1)
	switch {
	case layer == 3:
		f.samples = 384
		f.size = (12*bits/f.rate + padding) * 4
	case layer == 2 || version == 3:
		f.samples = 1152
		f.size = 144*bits/f.rate + padding
	default:
		f.samples = 576
		f.size = 72*bits/f.rate + padding
	}
	f.kind = h >> 16 & 0x1E // version and layer
	f.kind |= rate << 8
	return f, f.size >= 4
}

// xing is the length of a file with a variable bit rate by its first frame.
func xing(b []byte, f *frame) time.Duration {
	b = b[:min(len(b), f.size, 192)]
	for _, at := range [...]int{13, 21, 36} { // behind the side information; 36 of VBRI, too
		if len(b) < at+18 {
			break
		}
		switch tag := string(b[at : at+4]); {
		case (tag == "Xing" || tag == "Info") && b[at+7]&1 != 0:
			return span(uint64(binary.BigEndian.Uint32(b[at+8:]))*uint64(f.samples), uint64(f.rate))
		case tag == "VBRI":
			return span(uint64(binary.BigEndian.Uint32(b[at+14:]))*uint64(f.samples), uint64(f.rate))
		}
	}
	return 0
}

// Frames of AAC in ADTS (ISO 13818-7).

var aacRates = [16]int{96000, 88200, 64000, 48000, 44100, 32000, 24000, 22050, 16000, 12000, 11025, 8000, 7350}

// readADTS reads the header of a frame of AAC.
func readADTS(b []byte) (f frame, ok bool) {
	if len(b) < 7 || b[0] != 0xFF || b[1]&0xF6 != 0xF0 {
		return f, false
	}
	index := b[2] >> 2 & 15
	f.rate = aacRates[index]
	f.size = int(b[3]&3)<<11 | int(b[4])<<3 | int(b[5]>>5)
	f.samples = 1024 * (int(b[6]&3) + 1)
	f.kind = uint32(index)<<8 | uint32(b[1]&8)
	return f, f.rate > 0 && f.size >= 7
}
