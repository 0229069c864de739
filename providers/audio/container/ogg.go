package container

import (
	"bytes"
	"encoding/binary"
	"time"
)

// Ogg (RFC 3533): pages of packets, several streams beside or behind each other.

const (
	pageHead = 27
	// maxDamage is how many places of a file may have no page before it is no Ogg.
	maxDamage = 256
	// packetHead is the part of a packet that gives its length, and firstPacket that of the
	// first ones of a stream.
	packetHead  = 16
	firstPacket = 80
)

// stream is one stream of packets, of Ogg or of Matroska.
type stream struct {
	serial   uint32
	packets  int
	head     []byte // of the packet under way
	size     int    // of it
	setup    []byte // of Vorbis: its third packet, whole
	codec    codec
	granule  uint64 // the last one
	granules bool
	pictures bool
	pieces   uint64 // packets of pictures
	most     time.Duration
}

// readOgg reads a file of pages.
func readOgg(file []byte) (Info, error) {
	i := Info{Format: "ogg"}
	o := ogg{}
	damage := 0
	for b := file; len(b) > 0; {
		at := bytes.Index(b, []byte("OggS"))
		if at < 0 {
			break
		}
		if at > 0 {
			if damage++; damage > maxDamage {
				return i, broken("the Ogg file has more than %d places that are not pages", maxDamage)
			}
			b = b[at:]
		}
		n, err := o.page(b)
		if err != nil {
			return i, err
		}
		if n == 0 { // cut off, or no page
			b = b[4:]
			if damage++; damage > maxDamage {
				return i, broken("the Ogg file has more than %d places that are not pages", maxDamage)
			}
			continue
		}
		b = b[n:]
	}
	return i, o.sum(&i)
}

type ogg struct{ streams []*stream }

// page reads a page, and says how long it is.
func (o *ogg) page(b []byte) (n int, err error) {
	if len(b) < pageHead || b[4] != 0 || len(b) < pageHead+int(b[26]) {
		return 0, nil
	}
	flags, granule, serial := b[5], binary.LittleEndian.Uint64(b[6:]), binary.LittleEndian.Uint32(b[14:])
	sizes := b[pageHead : pageHead+int(b[26])]
	body := b[pageHead+len(sizes):]
	var s *stream
	for _, known := range o.streams {
		if known.serial == serial {
			s = known
		}
	}
	if s == nil || flags&2 != 0 && s.packets > 0 { // one that begins anew is another
		if len(o.streams) == maxStreams {
			return 0, tooMany("streams", maxStreams)
		}
		if s != nil {
			s.serial = ^serial
		}
		s = &stream{serial: serial}
		o.streams = append(o.streams, s)
	}
	if flags&1 == 0 {
		s.head, s.size = s.head[:0], 0
	}
	n = pageHead + len(sizes)
	for _, size := range sizes {
		piece := body[:min(int(size), len(body))]
		body = body[len(piece):]
		n += len(piece)
		s.take(piece)
		if size < 255 {
			s.end()
		}
	}
	if granule != 1<<64-1 && s.packets > 0 {
		if !s.granules && granule > 0 {
			s.granules = true
		}
		s.granule = max(s.granule, granule)
	}
	return n, nil
}

// take takes a piece of a packet.
func (s *stream) take(piece []byte) {
	most := packetHead
	if s.packets == 0 {
		most = firstPacket
	}
	if room := most - len(s.head); room > 0 {
		s.head = append(s.head, piece[:min(room, len(piece))]...)
	}
	s.size += len(piece)
	if s.packets < 3 && s.codec.name == "vorbis" && len(s.setup) < maxSetup {
		s.setup = append(s.setup, piece...)
	}
}

// end is the end of a packet.
func (s *stream) end() {
	switch {
	case s.packets == 0:
		s.codec, s.pictures = identify(s.head)
	case s.codec.name == "vorbis" && s.packets < 3:
		if len(s.setup) > 7 && s.setup[0] == 5 {
			s.codec.readModes(s.setup)
		}
		s.setup = s.setup[:0]
	case s.pictures:
		s.pieces++
	case s.packets == 1 && (s.codec.name == "speex" || bytes.HasPrefix(s.head, []byte("OpusTags"))):
		// Words about the sound.
	case s.size > 0:
		s.most = plus(s.most, s.codec.span(s.head, s.size))
	}
	s.packets++
	s.head, s.size = s.head[:0], 0
}

// identify gives the codec of a stream by its first packet.
func identify(b []byte) (c codec, pictures bool) {
	le := binary.LittleEndian
	switch {
	case len(b) >= 19 && bytes.HasPrefix(b, []byte("OpusHead")):
		return codec{name: "opus", rate: 48000, skip: uint64(le.Uint16(b[10:]))}, false
	case len(b) >= 30 && bytes.HasPrefix(b, []byte("\x01vorbis")):
		return codec{name: "vorbis", rate: uint64(le.Uint32(b[12:])),
			blocks: [2]uint64{1 << (b[28] & 15), 1 << (b[28] >> 4)}}, false
	case len(b) >= 13+4+streamInfoLen && bytes.HasPrefix(b, []byte("\x7FFLAC")):
		s, _ := readStreamInfo(b[17:])
		return codec{name: "flac", rate: s.rate}, false
	case len(b) >= 68 && bytes.HasPrefix(b, []byte("Speex   ")):
		return codec{name: "speex", rate: uint64(le.Uint32(b[36:])), frame: 160 << min(le.Uint32(b[40:]), 2),
			frames: uint64(le.Uint32(b[64:]))}, false
	case bytes.HasPrefix(b, []byte("\x80theora")), bytes.HasPrefix(b, []byte("OVP80")):
		return codec{name: "theora"}, true
	}
	return codec{}, false
}

// sum makes an Info of the streams. Those of sound that follow each other are one
// sound, and so are those beside each other, for players of one after the other.
func (o *ogg) sum(i *Info) error {
	unknown := false
	for _, s := range o.streams {
		switch {
		case s.pictures:
			i.film(&Film{Codec: s.codec.name})
		case s.codec.name == "":
			unknown = true
		case s.codec.rate == 0:
			return broken("a stream of the Ogg file has no rate")
		default:
			i.Codec = s.codec.name
			says := span(s.granule-min(s.granule, s.codec.skip), s.codec.rate)
			most := s.most
			i.Says, i.Most = plus(i.Says, says), plus(i.Most, most)
			i.Length = plus(i.Length, s.length(says))
		}
	}
	if i.Codec == "" && unknown {
		return foreign("Ogg", "none of Opus, Vorbis, FLAC and Speex")
	}
	return nil
}

// length is the length of the packets, without the samples that the decoder drops.
func (s *stream) length(says time.Duration) time.Duration {
	length := s.most - min(s.most, span(s.codec.skip, s.codec.rate))
	// The last page may say that less of its packets is wanted.
	if says > 0 && says < length && length-says < time.Second {
		return says
	}
	return length
}
