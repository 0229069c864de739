package container

import (
	"encoding/binary"
	"time"
)

// Files of boxes: MP4, M4A and QuickTime (ISO 14496-12).

const (
	// maxFragments are the pieces of a file that was written while it was recorded:
	// one each 200 ms for more than an hour. A piece has few boxes.
	maxFragments     = 20_000
	maxFragmentBoxes = 64
)

// movie is a file on its way to its Info.
type movie struct {
	size   uint64 // of the file
	boxes  int    // seen in this part
	most   int    // that it may have
	says   time.Duration
	scale  uint64 // of the movie's own times
	tracks []*mp4Track
}

// mp4Track is one of sound or pictures.
type mp4Track struct {
	id            uint32
	handler       string // soun, vide
	scale         uint64 // of its own times
	says          time.Duration
	edits         time.Duration
	entry         entry // of its samples
	width, height int
	coded         size // of its pictures
	uncoded       bool // some of them have no size

	samples uint64 // that are not empty
	bytes   uint64 // of them
	ticks   uint64 // they last
	first   uint64 // ticks of the first

	// Defaults for fragments.
	each, size uint64
}

// each calls f for the boxes in b. The last one may be cut off.
func (m *movie) each(b []byte, f func(kind string, body []byte) error) error {
	for len(b) >= 8 {
		if m.boxes++; m.boxes > m.most {
			return tooMany("boxes", maxParts)
		}
		size, head := uint64(binary.BigEndian.Uint32(b)), 8
		kind := string(b[4:8])
		switch {
		case size == 1 && len(b) >= 16:
			size, head = binary.BigEndian.Uint64(b[8:]), 16
		case size == 0:
			size = uint64(len(b))
		}
		if size < uint64(head) {
			return broken("a box of the MP4 file has a wrong size")
		}
		size = min(size, uint64(len(b)))
		if err := f(kind, b[head:max(uint64(head), size)]); err != nil {
			return err
		}
		b = b[size:]
	}
	return nil
}

// readMP4 reads a file of boxes.
func readMP4(file []byte) (Info, error) { return ReadBoxes(file, int64(len(file))) }

// ReadBoxes is Read for a file of MP4 or QuickTime of which only the boxes are there
// that describe it: size is that of the whole.
func ReadBoxes(file []byte, size int64) (Info, error) {
	m := &movie{size: uint64(max(size, 0)), most: maxParts + maxFragments*8}
	i := Info{Format: "mp4"}
	described, fragments, top := false, 0, 0
	err := m.each(file, func(kind string, body []byte) error {
		top = m.boxes
		defer func() { m.boxes, m.most = top, maxParts+maxFragments*8 }()
		switch kind {
		case "moov":
			if described {
				return broken("the MP4 file describes itself twice")
			}
			described = true
			m.most = top + maxParts
			return m.each(body, m.movieBox)
		case "moof":
			if fragments++; fragments > maxFragments {
				return tooMany("fragments", maxFragments)
			}
			m.most = top + maxFragmentBoxes
			return m.each(body, m.fragmentBox)
		case "sidx":
			m.index(body)
		}
		return nil
	})
	if err != nil {
		return i, err
	}
	if !described {
		return i, broken("the MP4 file does not describe its tracks; it may be cut off")
	}
	return i, m.sum(&i)
}

// header reads the version and the rest of a box that has one.
func header(b []byte) (version byte, rest []byte) {
	if len(b) < 4 {
		return 0, nil
	}
	return b[0], b[4:]
}

// fields reads numbers of 32 bits, or of 64 in version 1 where wide says so; missing ones
// are 0.
type fields struct{ b []byte }

func (f *fields) u32() uint64 {
	if len(f.b) < 4 {
		f.b = nil
		return 0
	}
	v := binary.BigEndian.Uint32(f.b)
	f.b = f.b[4:]
	return uint64(v)
}

func (f *fields) u64() uint64 {
	if len(f.b) < 8 {
		f.b = nil
		return 0
	}
	v := binary.BigEndian.Uint64(f.b)
	f.b = f.b[8:]
	return v
}

func (f *fields) wide(is bool) uint64 {
	if is {
		return f.u64()
	}
	return f.u32()
}

// unsaid are the lengths of files that were not finished.
func unsaid(v uint64) bool { return v == 1<<32-1 || v == 1<<64-1 }

// headerTime reads the times, the scale and the length in mvhd, mdhd and mehd.
func headerTime(b []byte) (scale, length uint64) {
	v, b := header(b)
	f := fields{b}
	f.wide(v == 1)
	f.wide(v == 1)
	scale = f.u32()
	if length = f.wide(v == 1); unsaid(length) {
		length = 0
	}
	return scale, length
}

func (m *movie) movieBox(kind string, b []byte) error {
	switch kind {
	case "mvhd":
		scale, length := headerTime(b)
		m.scale = scale
		m.says = max(m.says, span(length, scale))
	case "cmov":
		return broken("the description of the QuickTime file is compressed")
	case "trak":
		if len(m.tracks) == maxStreams {
			return tooMany("tracks", maxStreams)
		}
		t := &mp4Track{}
		m.tracks = append(m.tracks, t)
		return m.each(b, func(kind string, b []byte) error { return m.trackBox(t, kind, b) })
	case "mvex":
		return m.each(b, func(kind string, b []byte) error {
			v, b := header(b)
			f := fields{b}
			switch kind {
			case "mehd":
				m.says = max(m.says, span(f.wide(v == 1), m.scale))
			case "trex":
				if t := m.track(uint32(f.u32())); t != nil {
					f.u32()
					t.each, t.size = f.u32(), f.u32()
				}
			}
			return nil
		})
	}
	return nil
}

func (m *movie) track(id uint32) *mp4Track {
	for _, t := range m.tracks {
		if t.id == id {
			return t
		}
	}
	return nil
}

func (m *movie) trackBox(t *mp4Track, kind string, b []byte) error {
	inner := func(kind string, b []byte) error { return m.trackBox(t, kind, b) }
	switch kind {
	case "mdia", "minf", "stbl", "edts":
		// Only tracks have these, and they are four deep: further nesting is not followed.
		if kind == "mdia" || kind == "edts" {
			return m.each(b, func(kind string, b []byte) error {
				if kind != "minf" {
					return m.trackBox(t, kind, b)
				}
				return m.each(b, func(kind string, b []byte) error {
					if kind != "stbl" {
						return nil
					}
					return m.each(b, inner)
				})
			})
		}
	case "tkhd":
		t.readHeader(b)
	case "mdhd":
		scale, length := headerTime(b)
		t.scale = scale
		t.says = max(t.says, span(length, scale))
	case "hdlr":
		if _, b := header(b); len(b) >= 8 && t.handler == "" {
			t.handler = string(b[4:8])
		}
	case "elst":
		t.readEdits(b, m.scale)
	case "stsd":
		return t.readEntries(b)
	case "stts":
		return t.readTimes(b)
	case "stsz", "stz2":
		return t.readSizes(kind, b, m.size)
	}
	return nil
}
