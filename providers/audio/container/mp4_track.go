package container

import (
	"encoding/binary"
	"math/bits"
	"time"
)

// readHeader reads tkhd: the number and the size on the screen.
func (t *mp4Track) readHeader(b []byte) {
	v, b := header(b)
	f := fields{b}
	f.wide(v == 1)
	f.wide(v == 1)
	t.id = uint32(f.u32())
	if n := len(b); n >= 8 {
		t.width = int(binary.BigEndian.Uint32(b[n-8:]) >> 16)
		t.height = int(binary.BigEndian.Uint32(b[n-4:]) >> 16)
	}
}

// readEdits reads elst: the parts of a track that are played, and how often.
func (t *mp4Track) readEdits(b []byte, scale uint64) {
	v, b := header(b)
	f := fields{b}
	for n := f.u32(); n > 0 && len(f.b) >= 12; n-- {
		length := f.wide(v == 1)
		f.wide(v == 1)
		f.u32()
		if !unsaid(length) {
			t.edits = plus(t.edits, span(length, scale))
		}
	}
}

// readTimes reads stts: how long samples are.
func (t *mp4Track) readTimes(b []byte) error {
	_, b = header(b)
	f := fields{b}
	n := f.u32()
	if n > uint64(len(f.b))/8 {
		return broken("the times of the MP4 file are cut off")
	}
	for ; n > 0; n-- {
		count, delta := f.u32(), f.u32()
		if t.first == 0 {
			t.first = delta
		}
		t.ticks = add(t.ticks, mul(count, delta))
	}
	return nil
}

// readSizes reads stsz or stz2: how many samples there are, and their bytes. Samples
// that have more bytes than the file are one that is used many times over.
func (t *mp4Track) readSizes(kind string, b []byte, file uint64) error {
	_, b = header(b)
	f := fields{b}
	each := f.u32()
	n := f.u32()
	switch {
	case kind == "stz2":
		width := each & 0xFF
		if width != 4 && width != 8 && width != 16 || mul(n, width) > uint64(len(f.b))*8 {
			return broken("the sizes of the MP4 file are cut off")
		}
		t.samples = add(t.samples, n)
	case each > 0:
		t.samples, t.bytes = add(t.samples, n), add(t.bytes, mul(n, each))
	case n > uint64(len(f.b))/4:
		return broken("the sizes of the MP4 file are cut off")
	default:
		for ; n > 0; n-- {
			if size := f.u32(); size > 0 {
				t.samples++
				t.bytes = add(t.bytes, size)
			}
		}
	}
	return t.fits(file)
}

// fits refuses samples that would overlap.
func (t *mp4Track) fits(file uint64) error {
	if t.bytes > file {
		return broken("the samples of a track have more bytes than the MP4 file; it may be cut off")
	}
	return nil
}

// fragmentBox reads the boxes in moof.
func (m *movie) fragmentBox(kind string, b []byte) error {
	if kind != "traf" {
		return nil
	}
	var t *mp4Track
	var each, size uint64
	return m.each(b, func(kind string, b []byte) error {
		if len(b) < 4 {
			return nil
		}
		flags := binary.BigEndian.Uint32(b) & 0xFFFFFF
		f := fields{b[4:]}
		switch kind {
		case "tfhd":
			if t = m.track(uint32(f.u32())); t == nil {
				return nil
			}
			each, size = t.each, t.size
			if flags&1 != 0 {
				f.u64()
			}
			if flags&2 != 0 {
				f.u32()
			}
			if flags&8 != 0 {
				each = f.u32()
			}
			if flags&16 != 0 {
				size = f.u32()
			}
		case "tfdt":
			if t != nil && t.scale > 0 {
				t.says = max(t.says, span(f.wide(b[0] == 1), t.scale))
			}
		case "trun":
			if t != nil {
				return t.run(flags, f, each, size, m.size)
			}
		}
		return nil
	})
}

// run reads trun: samples that follow each other.
func (t *mp4Track) run(flags uint32, f fields, each, size, file uint64) error {
	n := f.u32()
	for _, flag := range [...]uint32{1, 4} { // the offset, and the flags of the first sample
		if flags&flag != 0 {
			f.u32()
		}
	}
	width := uint64(4 * bits.OnesCount32(flags&0xF00))
	if width == 0 {
		t.ticks = add(t.ticks, mul(n, each))
		if size > 0 {
			t.samples, t.bytes = add(t.samples, n), add(t.bytes, mul(n, size))
		}
		return t.fits(file)
	}
	if n > uint64(len(f.b))/width {
		return broken("the samples of a fragment of the MP4 file are cut off")
	}
	for ; n > 0; n-- {
		each, size := each, size
		if flags&0x100 != 0 {
			each = f.u32()
		}
		if flags&0x200 != 0 {
			size = f.u32()
		}
		for _, flag := range [...]uint32{0x400, 0x800} {
			if flags&flag != 0 {
				f.u32()
			}
		}
		if t.first == 0 {
			t.first = each
		}
		t.ticks = add(t.ticks, each)
		if size > 0 {
			t.samples++
			t.bytes = add(t.bytes, size)
		}
	}
	return t.fits(file)
}

// index reads sidx: how long the parts of a stream are.
func (m *movie) index(b []byte) {
	v, b := header(b)
	f := fields{b}
	f.u32()
	scale := f.u32()
	f.wide(v == 1)
	f.wide(v == 1)
	var ticks uint64
	for n := f.u32() & 0xFFFF; n > 0 && len(f.b) >= 12; n-- {
		f.u32()
		ticks = add(ticks, f.u32())
		f.u32()
	}
	m.says = max(m.says, span(ticks, scale))
}

// sum makes an Info of the parsed boxes.
func (m *movie) sum(i *Info) error {
	i.Says = m.says
	var unknown string
	for _, t := range m.tracks {
		says := max(t.says, t.edits, span(t.ticks, t.scale))
		switch t.handler {
		case "vide":
			i.film(&Film{Codec: t.entry.codec, Length: says, Width: max(t.width, t.coded.width),
				Height: max(t.height, t.coded.height), Coded: t.coded.height > 0 && !t.uncoded,
				FPS: rate(t.samples, span(t.ticks, t.scale))})
			i.Film.Length = max(i.Film.Length, m.says)
		case "soun":
			most, ok := t.entry.most(t)
			if !ok {
				unknown = t.entry.codec
				continue
			}
			if i.Codec == "" {
				i.Codec = t.entry.codec
			}
			i.Says = max(i.Says, says)
			// Players play the parts that the edits keep, or repeat.
			length := most
			if !t.entry.exact && t.ticks > 0 {
				length = min(most, span(t.ticks, t.scale))
			}
			i.Length = max(i.Length, length)
			if t.edits > most {
				i.Length = max(i.Length, t.edits)
			}
			i.Most = max(i.Most, most, t.edits)
		}
	}
	if i.Codec == "" && unknown != "" {
		return foreign("MP4", unknown)
	}
	return nil
}

// film keeps the first moving pictures, with the largest values of any of them: players
// choose among them.
func (i *Info) film(f *Film) {
	if i.Film == nil {
		i.Film = f
		return
	}
	g := i.Film
	g.Length, g.FPS, g.Coded = max(g.Length, f.Length), max(g.FPS, f.FPS), g.Coded && f.Coded
	g.Width, g.Height = max(g.Width, f.Width), max(g.Height, f.Height)
}

// rate is how many there are of something in a second.
func rate(n uint64, in time.Duration) float64 {
	if in <= 0 || in == Endless {
		return 0
	}
	return float64(n) / in.Seconds()
}
