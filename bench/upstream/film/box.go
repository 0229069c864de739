package film

import (
	"encoding/binary"
	"slices"
)

// box is an atom of an MP4 file.
func box(name string, parts ...[]byte) []byte {
	body := slices.Concat(parts...)
	b := binary.BigEndian.AppendUint32(make([]byte, 0, len(body)+8), uint32(len(body)+8))
	return append(append(b, name...), body...)
}

// words are numbers of 32 bits, the first of them most often version and flags.
func words(list ...uint32) (b []byte) {
	for _, n := range list {
		b = binary.BigEndian.AppendUint32(b, n)
	}
	return b
}

func halves(list ...uint16) (b []byte) {
	for _, n := range list {
		b = binary.BigEndian.AppendUint16(b, n)
	}
	return b
}

// unity is the matrix of a picture that is shown as it is.
var unity = words(0x10000, 0, 0, 0, 0x10000, 0, 0, 0, 0x40000000)

// moov describes the tracks, whose samples are one track behind the other from at.
func (f *Film) moov(tracks []*sampleTrack, at int) []byte {
	parts := [][]byte{box("mvhd", words(0, 0, 0, timescale, uint32(tracks[0].length), 0x10000), halves(0x100, 0),
		words(0, 0), unity, make([]byte, 24), words(uint32(len(tracks)+1)))}
	for _, t := range tracks {
		parts = append(parts, f.trak(t, at))
		at += len(t.data)
	}
	return box("moov", parts...)
}

func (f *Film) trak(t *sampleTrack, at int) []byte {
	volume, width, height := uint16(0), uint32(f.Width)<<16, uint32(f.Height)<<16
	handler, name, media := "vide", "pictures\x00", box("vmhd", words(1), halves(0, 0, 0, 0))
	entry := f.pictureEntry()
	if t.id != 1 {
		volume, width, height = 0x100, 0, 0
		handler, name, media = "soun", "sound\x00", box("smhd", words(0, 0))
		entry = soundEntry()
	}
	header := box("tkhd", words(3, 0, 0, t.id, 0, uint32(t.length), 0, 0), halves(0, 0, volume, 0), unity,
		words(width, height))
	const undetermined = 0x55c4 // the language
	table := [][]byte{
		box("stsd", words(0, 1), entry),
		box("stts", t.times()),
		box("stsc", words(0, 1, 1, uint32(t.count), 1)),
		box("stsz", words(0, 0, uint32(t.count)), words(t.sizes...)),
		box("stco", words(0, 1, uint32(at))),
	}
	if t.keys != nil {
		table = append(table, box("stss", words(0, uint32(len(t.keys))), words(t.keys...)))
	}
	return box("trak", header, box("mdia",
		box("mdhd", words(0, 0, 0, timescale, uint32(t.length)), halves(undetermined, 0)),
		box("hdlr", words(0, 0), []byte(handler), make([]byte, 12), []byte(name)),
		box("minf", media, box("dinf", box("dref", words(0, 1), box("url ", words(1)))), box("stbl", table...))))
}

// pictureEntry says how pictures are coded, with the parameters of their decoder.
func (f *Film) pictureEntry() []byte {
	sequence, picture := f.sequence(), parameters()
	config := slices.Concat([]byte{1, sequence[1], sequence[2], sequence[3], 0xff, 0xe1},
		halves(uint16(len(sequence))), sequence, []byte{1}, halves(uint16(len(picture))), picture)
	const dpi72 = 0x480000
	return box("avc1", make([]byte, 6), halves(1), make([]byte, 16), halves(uint16(f.Width), uint16(f.Height)),
		words(dpi72, dpi72, 0), halves(1), make([]byte, 32), halves(0x18, 0xffff), box("avcC", config))
}

// soundEntry says the same of AAC-LC with one channel.
func soundEntry() []byte {
	specific := []byte{0x11, 0x88} // AAC-LC, 48 kHz, one channel
	decoder := slices.Concat([]byte{0x04, byte(13 + 2 + len(specific)), 0x40, 0x15, 0, 0, 0}, words(3000, 3000),
		[]byte{0x05, byte(len(specific))}, specific)
	stream := slices.Concat([]byte{0x03, byte(3 + len(decoder) + 3), 0, 2, 0}, decoder, []byte{0x06, 1, 2})
	return box("mp4a", make([]byte, 6), halves(1), make([]byte, 8), halves(1, 16, 0, 0), words(timescale<<16),
		box("esds", words(0), stream))
}
