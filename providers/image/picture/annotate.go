package picture

import (
	"encoding/binary"
	"hash/crc32"
	"strings"
	"unicode/utf8"
)

// maxNote bounds the text of a note: all of it must fit a JPEG segment.
const maxNote = 16 << 10

// Note is the text for an image's metadata.
type Note struct {
	Software string
	// Text describes the making of the image: prompt, seed and so on.
	Text string
}

// Annotate gives a file with the note in it, as EXIF and, for PNG, as text that image tools
// show. Pixels are not touched. raw is a file that Read has accepted as h; it stays as it
// is.
func Annotate(h Header, raw []byte, n Note) []byte {
	n.Text = tidy(n.Text)
	n.Software = tidy(n.Software)
	switch h.Format {
	case PNG:
		return annotatePNG(raw, n)
	case JPEG:
		return annotateJPEG(raw, n)
	case WebP:
		return annotateWebP(raw, n)
	case Unknown, GIF:
	}
	return raw
}

func tidy(s string) string {
	s = strings.ReplaceAll(strings.ToValidUTF8(s, ""), "\x00", "")
	if len(s) > maxNote {
		s = s[:maxNote]
		for !utf8.ValidString(s) {
			s = s[:len(s)-1]
		}
	}
	return s
}

// annotatePNG puts its chunks right behind the header.
func annotatePNG(raw []byte, n Note) []byte {
	const at = 8 + 25
	out := make([]byte, 0, len(raw)+2*len(n.Text)+2*len(n.Software)+256)
	out = append(out, raw[:at]...)
	// iTXt: keyword, not compressed, no language, no translation, UTF-8.
	out = appendChunk(out, "iTXt", []byte("parameters\x00\x00\x00\x00\x00"+n.Text))
	out = appendChunk(out, "iTXt", []byte("Software\x00\x00\x00\x00\x00"+n.Software))
	out = appendChunk(out, "eXIf", exif(n))
	return append(out, raw[at:]...)
}

func appendChunk(dst []byte, kind string, data []byte) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(data)))
	from := len(dst)
	dst = append(append(dst, kind...), data...)
	return binary.BigEndian.AppendUint32(dst, crc32.ChecksumIEEE(dst[from:]))
}

// annotateJPEG puts a segment APP1 right behind the start of the image.
func annotateJPEG(raw []byte, n Note) []byte {
	data := append([]byte("Exif\x00\x00"), exif(n)...)
	out := make([]byte, 0, len(raw)+len(data)+4)
	out = binary.BigEndian.AppendUint16(append(out, 0xff, 0xd8, 0xff, 0xe1), uint16(len(data)+2))
	return append(append(out, data...), raw[2:]...)
}

const (
	webpEXIF  = 1 << 3
	webpAlpha = 1 << 4
)

// annotateWebP adds a chunk EXIF at the end, and the extended header that must
// announce it. A file that has one already stays as it is.
func annotateWebP(raw []byte, n Note) []byte {
	data := exif(n)
	extended := string(raw[12:16]) == "VP8X"
	if extended && raw[20]&webpEXIF != 0 {
		return raw
	}
	out := make([]byte, 0, len(raw)+len(data)+64)
	out = append(out, raw[:12]...)
	rest := raw[12:]
	if extended {
		out = append(out, rest...)
		out[20] |= webpEXIF
	} else {
		h, err := Read(nil, raw)
		if err != nil {
			return raw
		}
		flags := byte(webpEXIF)
		if string(rest[:4]) == "VP8L" && rest[12]&0x10 != 0 {
			flags |= webpAlpha
		}
		out = append(out, "VP8X\x0a\x00\x00\x00"...)
		out = append(out, flags, 0, 0, 0)
		w, l := h.Width-1, h.Height-1
		out = append(out, byte(w), byte(w>>8), byte(w>>16), byte(l), byte(l>>8), byte(l>>16))
		out = append(out, rest...)
	}
	out = binary.LittleEndian.AppendUint32(append(out, "EXIF"...), uint32(len(data)))
	out = append(out, data...)
	if len(data)&1 != 0 {
		out = append(out, 0)
	}
	binary.LittleEndian.PutUint32(out[4:], uint32(len(out)-8))
	return out
}

// exif is a TIFF block with the tags ImageDescription and Software.
func exif(n Note) []byte {
	const (
		description, software = 0x010e, 0x0131
		ascii                 = 2
		head                  = 8 + 2 + 2*12 + 4
	)
	b := []byte("II*\x00\x08\x00\x00\x00\x02\x00")
	at := head
	tag := func(id uint16, text string) {
		b = binary.LittleEndian.AppendUint16(b, id)
		b = binary.LittleEndian.AppendUint16(b, ascii)
		b = binary.LittleEndian.AppendUint32(b, uint32(len(text)+1))
		if len(text) < 4 {
			b = append(append(b, text...), make([]byte, 4-len(text))...)
			return
		}
		b = binary.LittleEndian.AppendUint32(b, uint32(at))
		at += len(text) + 1
	}
	tag(description, n.Text)
	tag(software, n.Software)
	b = append(b, 0, 0, 0, 0)
	for _, text := range []string{n.Text, n.Software} {
		if len(text) >= 4 {
			b = append(append(b, text...), 0)
		}
	}
	return b
}
