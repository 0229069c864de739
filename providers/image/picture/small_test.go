package picture

import (
	"encoding/binary"
	"hash/crc32"
	"testing"
)

// The header and the number of frames are read however little follows them.
func TestSmallFilesAreReadToTheirEnd(t *testing.T) {
	t.Parallel()
	chunk := func(kind string, data ...byte) []byte {
		b := binary.BigEndian.AppendUint32(nil, uint32(len(data)))
		b = append(append(b, kind...), data...)
		return binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b[4:]))
	}
	head := append([]byte("\x89PNG\r\n\x1a\n"), chunk("IHDR", 0, 0, 2, 0, 0, 0, 2, 0, 8, 2, 0, 0, 0)...)
	still := append(append(append([]byte{}, head...), chunk("IDAT")...), chunk("IEND")...)
	if h, err := Read(nil, still); err != nil || h.Width != 512 || h.Height != 512 || h.Frames != 1 ||
		h.Size != int64(len(still)) {
		t.Errorf("a file of %d bytes is read as %+v, %v", len(still), h, err)
	}
	moving := append(append(append(append([]byte{}, head...), chunk("IDAT")...),
		chunk("acTL", 0, 0, 0, 9, 0, 0, 0, 0)...), chunk("IEND")...)
	if h, err := Read(nil, moving); err != nil || h.Frames != 9 {
		t.Errorf("an animation of nine frames is read as %+v, %v", h, err)
	}
}
