package container

import (
	"encoding/binary"
	"math"
	"strings"
	"time"
)

// Matroska and WebM (RFC 9559). Elements that hold others are stepped into, never
// skipped, so that their sizes cannot hide anything, and nothing recurses.

// Elements that are looked at.
const (
	ebmlHead     = 0x1A45DFA3
	mkvSegment   = 0x18538067
	mkvInfo      = 0x1549A966
	mkvScale     = 0x2AD7B1
	mkvDuration  = 0x4489
	mkvTracks    = 0x1654AE6B
	mkvEntry     = 0xAE
	mkvNumber    = 0xD7
	mkvType      = 0x83
	mkvCodec     = 0x86
	mkvPrivate   = 0x63A2
	mkvDefault   = 0x23E383
	mkvAudio     = 0xE1
	mkvRate      = 0xB5
	mkvChannels  = 0x9F
	mkvDepth     = 0x6264
	mkvVideo     = 0xE0
	mkvWidth     = 0xB0
	mkvHeight    = 0xBA
	mkvCluster   = 0x1F43B675
	mkvTime      = 0xE7
	mkvSimple    = 0xA3
	mkvGroup     = 0xA0
	mkvBlock     = 0xA1
	mkvBlockTime = 0x9B
	mkvEncodings = 0x6D80
)

// maxElements is a block for each 2.5 ms of an hour, with the elements around it.
const maxElements = 4_000_000

// matroska is a file on its way to its Info.
type matroska struct {
	scale   uint64 // nanoseconds of a tick
	length  float64
	cluster uint64 // its time
	last    uint64 // the latest time of a block, in ticks
	ends    uint64 // and of the end of one that says it
	tracks  []*mkvTrack
	parts   int // elements beside blocks
}

type mkvTrack struct {
	number, kind  uint64
	id            string
	private       []byte
	rate          float64
	channels      uint64
	depth         uint64
	each          uint64 // ns of a frame, where that is said
	width, height uint64
	coded         size // of its pictures
	encoded       bool
	stream        stream
	ready         bool
}

// readMatroska reads a file of elements.
func readMatroska(file []byte) (Info, error) {
	i := Info{Format: "webm"}
	m := &matroska{scale: 1_000_000}
	b := file
	for n := 0; len(b) > 0; n++ {
		if n == maxElements {
			return i, tooMany("elements", maxElements)
		}
		id, k := elementID(b)
		size, l, unknown := elementSize(b[k:])
		if k == 0 || l == 0 {
			if len(b) < 12 {
				break // cut off
			}
			return i, broken("the WebM file has an element that cannot be read")
		}
		b = b[k+l:]
		switch id {
		case mkvSegment, mkvInfo, mkvTracks, mkvAudio, mkvVideo, mkvCluster, mkvGroup:
			continue // its elements follow
		case mkvEntry:
			if len(m.tracks) == maxStreams {
				return i, tooMany("tracks", maxStreams)
			}
			m.tracks = append(m.tracks, &mkvTrack{rate: 8000, channels: 1})
			continue
		}
		if unknown {
			return i, broken("an element of the WebM file has no size")
		}
		body := b[:min(size, uint64(len(b)))]
		b = b[len(body):]
		if id != mkvSimple && id != mkvBlock && id != mkvBlockTime && id != mkvTime {
			if m.parts++; m.parts > maxParts*20 {
				return i, tooMany("elements besides audio", maxParts*20)
			}
		}
		if err := m.element(id, body); err != nil {
			return i, err
		}
	}
	return i, m.sum(&i)
}

// elementID reads the name of an element, whose first bits say how long it is.
func elementID(b []byte) (id uint32, n int) {
	if len(b) == 0 || b[0] < 0x10 {
		return 0, 0
	}
	for n = 1; b[0]&(0x80>>(n-1)) == 0; n++ {
	}
	if len(b) < n {
		return 0, 0
	}
	for _, c := range b[:n] {
		id = id<<8 | uint32(c)
	}
	return id, n
}

// elementSize reads a size, which may be unknown.
func elementSize(b []byte) (size uint64, n int, unknown bool) {
	if len(b) == 0 || b[0] == 0 {
		return 0, 0, false
	}
	for n = 1; b[0]&(0x80>>(n-1)) == 0; n++ {
	}
	if len(b) < n {
		return 0, 0, false
	}
	size = uint64(b[0]) & (0x80>>(n-1) - 1)
	for _, c := range b[1:n] {
		size = size<<8 | uint64(c)
	}
	return size, n, size == 1<<(7*n)-1
}

func number(b []byte) (v uint64) {
	for _, c := range b[:min(len(b), 8)] {
		v = v<<8 | uint64(c)
	}
	return v
}

func float(b []byte) (f float64) {
	switch len(b) {
	case 4:
		f = float64(math.Float32frombits(binary.BigEndian.Uint32(b)))
	case 8:
		f = math.Float64frombits(binary.BigEndian.Uint64(b))
	}
	if !(f > 0 && f < 1<<60) {
		return 0
	}
	return f
}

// element takes one that holds no others.
func (m *matroska) element(id uint32, b []byte) error {
	switch id {
	case mkvScale:
		m.scale = number(b)
	case mkvDuration:
		m.length = max(m.length, float(b))
	case mkvTime:
		m.cluster = number(b)
	case mkvSimple, mkvBlock:
		return m.block(b)
	case mkvBlockTime:
		m.ends = max(m.ends, add(m.last, number(b)))
	}
	if len(m.tracks) == 0 {
		return nil
	}
	t := m.tracks[len(m.tracks)-1]
	switch id {
	case mkvNumber:
		t.number = number(b)
	case mkvType:
		t.kind = number(b)
	case mkvCodec:
		t.id = strings.TrimRight(string(b[:min(len(b), 64)]), "\x00")
	case mkvPrivate:
		t.private = b
	case mkvDefault:
		t.each = number(b)
	case mkvRate:
		t.rate = float(b)
	case mkvChannels:
		t.channels = number(b)
	case mkvDepth:
		t.depth = number(b)
	case mkvWidth:
		t.width = number(b)
	case mkvHeight:
		t.height = number(b)
	case mkvEncodings:
		t.encoded = true
	}
	return nil
}

// block takes frames of a track.
func (m *matroska) block(b []byte) error {
	num, k, _ := elementSize(b)
	if k == 0 || len(b) < k+3 {
		return nil // cut off
	}
	at := int64(m.cluster) + int64(int16(binary.BigEndian.Uint16(b[k:])))
	if at > 0 && m.cluster < 1<<60 {
		m.last = max(m.last, uint64(at))
	}
	lacing := b[k+2] >> 1 & 3
	b = b[k+3:]
	var t *mkvTrack
	for _, known := range m.tracks {
		if known.number == num {
			t = known
			break
		}
	}
	if t == nil {
		return nil
	}
	if !t.ready {
		t.prepare()
	}
	sizes, b := laces(lacing, b)
	for _, size := range sizes {
		frame := b[:min(size, len(b))]
		b = b[len(frame):]
		if len(frame) == 0 {
			continue
		}
		t.stream.pieces++
		if t.kind == 1 {
			t.readFrameSize(frame)
		}
		if t.kind == 2 && t.stream.codec.name != "" {
			t.stream.most = plus(t.stream.most,
				t.stream.codec.span(frame[:min(len(frame), packetHead)], len(frame)))
		}
	}
	return nil
}

// readFrameSize finds out how large pictures are that say it themselves.
func (t *mkvTrack) readFrameSize(frame []byte) {
	switch t.id {
	case "V_VP8":
		t.coded = t.coded.max(vp8Size(frame))
	case "V_VP9":
		t.coded = t.coded.max(vp9Size(frame))
	}
}

// describe reads the codec of a track.
func (t *mkvTrack) describe() {
	for _, c := range configs {
		if c.codec == t.id {
			t.coded = t.coded.max(c.read(t.private))
		}
	}
}

// laces are the sizes of the frames of a block, and where they begin.
func laces(lacing byte, b []byte) (sizes []int, rest []byte) {
	if lacing == 0 || len(b) == 0 {
		return []int{len(b)}, b
	}
	n := int(b[0]) + 1
	b = b[1:]
	sizes = make([]int, 0, n)
	total := 0
	size := int64(0)
	for i := range n - 1 {
		switch lacing {
		case 1: // Xiph: bytes of 255 and one below
			size = 0
			for len(b) > 0 {
				c := b[0]
				b = b[1:]
				if size += int64(c); c < 255 {
					break
				}
			}
		case 2:
			sizes = append(sizes, 0)
			continue
		default: // EBML: the first, then differences
			v, k, _ := elementSize(b)
			b = b[min(k, len(b)):]
			if i == 0 {
				size = int64(min(v, 1<<40))
			} else if k > 0 {
				size += int64(min(v, 1<<40)) - (1<<(7*k-1) - 1)
			}
		}
		size = max(min(size, int64(len(b)-min(total, len(b)))), 0)
		sizes = append(sizes, int(size))
		total += int(size)
	}
	if lacing == 2 { // all the same
		for i := range sizes {
			sizes[i] = len(b) / n
			total += sizes[i]
		}
	}
	return append(sizes, max(len(b)-total, 0)), b
}

// prepare finds out how long the frames of a track are.
func (t *mkvTrack) prepare() {
	t.ready = true
	c := &t.stream.codec
	rate := uint64(t.rate)
	if t.encoded {
		return // compressed once more, or with a key
	}
	switch id := t.id; {
	case id == "A_OPUS":
		*c = codec{name: "opus", rate: 48000}
	case id == "A_VORBIS":
		t.prepareVorbis()
	case strings.HasPrefix(id, "A_AAC"):
		*c = codec{name: "aac", rate: lower(rate, aacConfigRate(t.private)), frame: 1024}
	case id == "A_MPEG/L3" || id == "A_MPEG/L2":
		*c = codec{name: "mp3", rate: rate}
	case id == "A_FLAC":
		*c = codec{name: "flac", rate: rate}
	case id == "A_AC3" || id == "A_EAC3":
		*c = codec{name: "ac3", rate: rate, frame: 1536}
	case strings.HasPrefix(id, "A_PCM/"):
		*c = codec{name: "pcm", rate: rate, bytes: max(t.channels, 1) * max(t.depth/8, 1)}
	case id == "A_ALAC" && len(t.private) >= 4:
		*c = codec{name: "alac", rate: rate, frame: uint64(binary.BigEndian.Uint32(t.private))}
	}
	if c.name != "" && c.rate == 0 {
		*c = codec{}
	}
}

// prepareVorbis reads the three packets that precede the sound of Vorbis.
func (t *mkvTrack) prepareVorbis() {
	b := t.private
	if len(b) == 0 || b[0] != 2 {
		return
	}
	sizes, rest := laces(1, b)
	if len(sizes) != 3 || sizes[0]+sizes[1] > len(rest) {
		return
	}
	t.stream.codec, _ = identify(rest[:sizes[0]])
	if setup := rest[sizes[0]+sizes[1]:]; len(setup) > 7 && setup[0] == 5 && t.stream.codec.name == "vorbis" {
		t.stream.codec.readModes(setup[:min(len(setup), maxSetup)])
	}
}

// sum makes an Info of the tracks.
func (m *matroska) sum(i *Info) error {
	scale := max(m.scale, 1)
	i.Says = span(mul(max(m.last, m.ends), scale), uint64(time.Second))
	if d := m.length * float64(scale); d >= float64(Endless) {
		i.Says = Endless
	} else {
		i.Says = max(i.Says, time.Duration(d))
	}
	unknown := ""
	for _, t := range m.tracks {
		switch {
		case t.kind == 1:
			t.describe()
			f := &Film{Codec: strings.ToLower(strings.TrimPrefix(t.id, "V_")), Length: i.Says,
				Width: max(int(min(t.width, 1<<20)), t.coded.width), Height: max(int(min(t.height, 1<<20)), t.coded.height),
				Coded: t.coded.height > 0 && !t.encoded, FPS: rate(t.stream.pieces, i.Says)}
			if t.each > 0 { // as long as there are no more pictures than that
				f.FPS = max(f.FPS, 1e9/float64(t.each))
			}
			i.film(f)
		case t.kind == 2 && t.stream.pieces > 0 && t.stream.codec.name == "":
			unknown = t.id
		case t.kind == 2 && t.stream.pieces > 0:
			if i.Codec == "" {
				i.Codec = t.stream.codec.name
			}
			i.Length, i.Most = max(i.Length, t.stream.most), max(i.Most, t.stream.most)
		}
	}
	if i.Codec == "" && unknown != "" {
		return foreign("WebM", unknown)
	}
	return nil
}
