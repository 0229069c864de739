package container

import (
	"bytes"
	"time"
)

// frame is the header of a frame that carries its own size: one of MPEG
// audio or of AAC in ADTS.
type frame struct {
	size, samples, rate int
	kind                uint32 // constant within one stream
}

func (f *frame) span() time.Duration {
	return time.Duration(int64(f.samples) * int64(time.Second) / int64(f.rate))
}

// reader reads the header of a frame at the beginning of b.
type reader func(b []byte) (f frame, ok bool)

const (
	// firstFrame is how far behind its tags the first frame of a file may begin.
	firstFrame = 64 << 10
	// maxFrame is larger than any frame: ADTS counts its bytes with 13 bits.
	maxFrame = 8 << 10
)

// readFrames reads a file that is nothing but frames, apart from tags.
func readFrames(file []byte, from int) (Info, error) {
	kinds := []struct {
		name, codec string
		read        reader
	}{{"mp3", "mp3", readMPEG}, {"aac", "aac", readADTS}}
	found, first, chain := -1, 0, 1
	for i := range kinds {
		at, n := findFrames(file, from, kinds[i].read)
		if at >= 0 && (found < 0 || at < first || at == first && n > chain) {
			found, first, chain = i, at, n
		}
	}
	if found < 0 {
		return Info{}, &Error{Unknown, "the format of the file is unknown; expected one of WAV, FLAC, MP3, AAC, MP4, M4A, Ogg and WebM"}
	}
	k := &kinds[found]
	i := Info{Format: k.name, Codec: k.codec}
	if f, _ := k.read(file[first:]); k.name == "mp3" {
		i.Codec = mpegLayers[f.kind>>1&3]
		i.Says = xing(file[first:], &f)
	}
	i.Length, i.Most = walk(file, first, k.read)
	// Decoders differ: one that does not know the first kind looks for frames of the other.
	for other := range kinds {
		if other != found {
			i.Most = max(i.Most, densest(file, kinds[other].read))
		}
	}
	return i, nil
}

// findFrames is where the first frame begins that two others of its kind follow, or
// the end of the file; at is below 0 if absent.
func findFrames(file []byte, from int, read reader) (at, n int) {
	end := min(len(file), from+firstFrame)
	for at = from; at < end; at++ {
		next := bytes.IndexByte(file[at:end], 0xFF)
		if next < 0 {
			return -1, 0
		}
		at += next
		f, ok := read(file[at:])
		if !ok {
			continue
		}
		kind := f.kind
		p := at
		for n = 0; n < 3 && ok && f.kind == kind && p+f.size <= len(file); n++ {
			p += f.size
			f, ok = read(file[p:])
		}
		if n == 3 || n > 0 && p == len(file) {
			return at, n
		}
	}
	return -1, 0
}

// walk adds up the frames from first on. most adds the frames that a decoder could find
// from another start or in another order: within the parts outside of one unbroken row of
// frames of one kind.
func walk(file []byte, first int, read reader) (length, most time.Duration) {
	f, _ := read(file[first:])
	kind := f.kind
	p := first
	var samples uint64
	rate := f.rate
	for p < len(file) {
		f, ok := read(file[p:])
		if !ok || f.kind != kind || p+f.size > len(file) {
			break
		}
		samples += uint64(f.samples)
		p += f.size
	}
	length = span(samples, uint64(rate))
	most = plus(length, densest(file[:first], read))
	rest := file[p:]
	if len(rest) == 0 {
		return length, most
	}
	hidden := densest(rest, read)
	most = plus(most, hidden)
	// Frames behind a broken place are played by most.
	for len(rest) > 0 {
		at := bytes.IndexByte(rest, 0xFF)
		if at < 0 {
			break
		}
		rest = rest[at:]
		f, ok := read(rest)
		if ok && f.kind != kind && f.size < len(rest) {
			// Another file was put behind the first.
			if next, follows := read(rest[f.size:]); follows && next.kind == f.kind {
				kind = f.kind
			}
		}
		switch {
		case !ok || f.kind != kind:
			rest = rest[1:]
		case f.size > len(rest):
			length = plus(length, f.span()) // the last one, cut off
			rest = nil
		default:
			length = plus(length, f.span())
			rest = rest[f.size:]
		}
	}
	return min(length, plus(most, f.span())), plus(most, f.span())
}

// densest is the longest sum of frames within b that do not overlap, in any order in which
// a decoder may find them.
func densest(b []byte, read reader) time.Duration {
	// best[i] is that of b[i:], for the frames that begin before i.
	var best [maxFrame]time.Duration
	last := time.Duration(0) // of b[i+1:]
	for i := len(b) - 1; i >= 0; i-- {
		if b[i] == 0xFF {
			if f, ok := read(b[i:]); ok {
				after := time.Duration(0)
				if end := i + f.size; end < len(b) {
					after = best[end%maxFrame]
				}
				last = max(last, plus(after, f.span()))
			}
		}
		best[i%maxFrame] = last
	}
	return last
}
