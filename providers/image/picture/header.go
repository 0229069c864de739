package picture

import (
	"encoding/binary"
	"hash/crc32"
)

// Header is the header of an image file.
type Header struct {
	Format        Format
	Width, Height int
	// Size is the length of the image in bytes. Trailing bytes of the file are not part of
	// the image.
	Size int64
	// Frames is above 1 for animations.
	Frames int
}

// Pixels of one frame.
func (h Header) Pixels() int64 { return int64(h.Width) * int64(h.Height) }

const (
	// maxSide is the longest side of any image: JPEG's own limit.
	maxSide = 65535
	// maxScans bounds the scans of a progressive JPEG. Encoders make about ten;
	// each costs a decoder a pass over all pixels.
	maxScans = 100
	// maxChunks bounds the parts of a file.
	maxChunks = 100_000
)

// Read walks through the structure of a file from its magic to its last part, without
// looking at a pixel, and returns its header. Exactly one of text (padded base64
// without line ends) and raw is set. The error is Corrupted for a file that is cut off,
// contradicts itself, or has a format other than PNG, JPEG and WebP. Time is linear in the
// file, memory is 48 KiB.
func Read(text, raw []byte) (Header, error) {
	if text != nil && len(text)%4 != 0 {
		return Header{}, corrupted("its base64 text has a broken end")
	}
	w := open(text, raw)
	defer w.release()
	head := w.peek(SniffLen)
	var h Header
	var why string
	switch h.Format = Sniff(head); h.Format {
	case PNG:
		why = h.png(&w)
	case JPEG:
		why = h.jpeg(&w)
	case WebP:
		why = h.webp(&w)
	case GIF:
		why = "GIF is not accepted; send PNG, JPEG or WebP"
	case Unknown:
		why = "it is neither PNG, JPEG nor WebP"
	}
	if why == "" && (h.Width <= 0 || h.Height <= 0) {
		why = "its header gives it no size"
	}
	h.Size = w.pos
	if !w.drain() {
		why = "its base64 text is broken"
	}
	if why != "" {
		return Header{Format: h.Format}, corrupted(why)
	}
	return h, nil
}

const cutOff = "it is cut off"

// The bytes read of a chunk at once: its length and kind, and all of IHDR with
// its checksum, or the number of frames of acTL.
const (
	pngHeader    = 25
	pngAnimation = 12
)

func (h *Header) png(w *window) (why string) {
	w.take(8)
	h.Frames = 1
	pixels := false
	for i := range maxChunks {
		p := w.peek(pngHeader)
		for _, n := range [...]int{pngAnimation, 8} { // near the end of a small file
			if p == nil {
				p = w.peek(n)
			}
		}
		if p == nil {
			return cutOff
		}
		size := int64(binary.BigEndian.Uint32(p))
		if size > 1<<31-1 {
			return "a chunk has an impossible length"
		}
		kind := string(p[4:8])
		if (i == 0) != (kind == "IHDR") {
			return "its header is missing or repeated"
		}
		switch kind {
		case "IHDR":
			if len(p) < pngHeader || size != 13 || crc32.ChecksumIEEE(p[4:21]) != binary.BigEndian.Uint32(p[21:]) {
				return "its header is broken"
			}
			width, height := binary.BigEndian.Uint32(p[8:]), binary.BigEndian.Uint32(p[12:])
			if width > 1<<31-1 || height > 1<<31-1 {
				return "its header gives an impossible size"
			}
			h.Width, h.Height = int(width), int(height)
		case "acTL":
			if len(p) >= pngAnimation && size == 8 {
				h.Frames = max(1, int(min(binary.BigEndian.Uint32(p[8:]), 1<<31-1)))
			}
		case "IDAT":
			pixels = true
		case "IEND":
			if size != 0 || !w.skip(12) {
				return cutOff
			}
			if !pixels {
				return "it has no pixels"
			}
			return ""
		}
		if !w.skip(12 + size) {
			return cutOff
		}
	}
	return "it has too many chunks"
}

func (h *Header) jpeg(w *window) (why string) {
	w.take(2)
	h.Frames = 1
	scans := 0
	for range maxChunks {
		p := w.take(2)
		if p == nil {
			return cutOff
		}
		if p[0] != 0xff {
			return "a marker is missing"
		}
		m := p[1]
		for m == 0xff { // filling
			if p = w.take(1); p == nil {
				return cutOff
			}
			m = p[0]
		}
		switch {
		case m == 0xd9:
			if h.Width == 0 || scans == 0 {
				return "it has no pixels"
			}
			return ""
		case m == 0x01 || m >= 0xd0 && m <= 0xd7:
			continue
		case m == 0 || m == 0xd8:
			return "a marker is misplaced"
		case m >= 0xc0 && m <= 0xcf && m != 0xc4 && m != 0xc8 && m != 0xcc:
			if why := h.frame(w, m); why != "" {
				return why
			}
		}
		if p = w.peek(2); p == nil {
			return cutOff
		}
		size := int64(binary.BigEndian.Uint16(p))
		if size < 2 || !w.skip(size) {
			return cutOff
		}
		if m == 0xda {
			if scans++; scans > maxScans {
				return "it has too many scans"
			}
			if !pastScan(w) {
				return cutOff
			}
		}
	}
	return "it has too many segments"
}

// frame reads a frame header: decoders agree on baseline, extended and progressive.
func (h *Header) frame(w *window, m byte) (why string) {
	p := w.peek(8)
	switch {
	case p == nil:
		return cutOff
	case m > 0xc2:
		return "its coding is not baseline or progressive"
	case h.Width != 0:
		return "its header is repeated"
	case p[2] != 8 || p[7] != 1 && p[7] != 3 && p[7] != 4:
		return "its samples have an unusual depth or number"
	}
	h.Height, h.Width = int(binary.BigEndian.Uint16(p[3:])), int(binary.BigEndian.Uint16(p[5:]))
	if h.Height == 0 || h.Width == 0 {
		return "its header gives it no size"
	}
	return ""
}

// pastScan skips coded pixels to the next marker outside of them.
func pastScan(w *window) bool {
	for w.seek(0xff) {
		p := w.peek(2)
		if p == nil {
			return false
		}
		if m := p[1]; m != 0 && (m < 0xd0 || m > 0xd7) && m != 0xff {
			return true
		}
		if p[1] == 0xff {
			w.skip(1)
		} else {
			w.skip(2)
		}
	}
	return false
}

func (h *Header) webp(w *window) (why string) {
	p := w.take(12)
	end := 8 + int64(binary.LittleEndian.Uint32(p[4:]))
	if end&1 != 0 || end < 20 {
		return "its header is broken"
	}
	h.Frames = 1
	var canvas Header
	found := false
	for i := range maxChunks {
		if w.pos == end {
			if !found {
				return "it has no pixels"
			}
			if canvas.Width != 0 && (canvas.Width != h.Width || canvas.Height != h.Height) {
				return "its headers give it two sizes"
			}
			return ""
		}
		if p = w.peek(8); p == nil {
			return cutOff
		}
		size := int64(binary.LittleEndian.Uint32(p[4:]))
		next := 8 + size + size&1
		if w.pos+next > end {
			return "a chunk is longer than the file says"
		}
		kind := string(p[:4])
		if i == 0 && kind != "VP8 " && kind != "VP8L" && kind != "VP8X" {
			return "its header is missing"
		}
		p = w.peek(18)
		switch kind {
		case "VP8X":
			if i != 0 || size < 10 || p == nil {
				return "its header is broken"
			}
			if p[8]&2 != 0 {
				h.Frames = 2
			}
			canvas.Width = 1 + int(p[12]) + int(p[13])<<8 + int(p[14])<<16
			canvas.Height = 1 + int(p[15]) + int(p[16])<<8 + int(p[17])<<16
		case "ANMF":
			h.Frames = 2
			h.Width, h.Height, found = canvas.Width, canvas.Height, true
		case "VP8 ":
			if found || size < 10 || p == nil || p[8]&1 != 0 || p[11] != 0x9d || p[12] != 0x01 || p[13] != 0x2a {
				return "its pixels have a broken header"
			}
			found = true
			h.Width, h.Height = int(binary.LittleEndian.Uint16(p[14:]))&0x3fff,
				int(binary.LittleEndian.Uint16(p[16:]))&0x3fff
		case "VP8L":
			if found || size < 5 || p == nil && w.peek(13) == nil {
				return "its pixels have a broken header"
			}
			p = w.peek(13)
			bits := binary.LittleEndian.Uint32(p[9:])
			if p[8] != 0x2f || bits>>29 != 0 {
				return "its pixels have a broken header"
			}
			found = true
			h.Width, h.Height = int(bits&0x3fff)+1, int(bits>>14&0x3fff)+1
		}
		if !w.skip(next) {
			return cutOff
		}
	}
	return "it has too many chunks"
}
