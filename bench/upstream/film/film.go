package film

import (
	"slices"
	"time"
)

// Film describes a video to make. Zero values mean 24 pictures a second of 320 by 180.
type Film struct {
	Length        time.Duration // in milliseconds; at least one picture is made
	Width, Height int           // even numbers, at most 4096
	Rate          int           // pictures a second; at most 240
	Sound         bool          // with a silent track of the same length
}

// timescale counts the parts of a second in both tracks. A picture and a frame of sound
// begin at a whole one each, and so does every millisecond.
const timescale = 48000

// frameSamples are those of a frame of AAC, at a rate of timescale.
const frameSamples = 1024

func (f *Film) complete() {
	if f.Width == 0 || f.Height == 0 {
		f.Width, f.Height = 320, 180
	}
	if f.Rate == 0 {
		f.Rate = 24
	}
	f.Width, f.Height = min(f.Width, 4096)&^1, min(f.Height, 4096)&^1
	f.Rate = min(f.Rate, 240)
}

// MP4 is the whole file, with the boxes that players need before the pictures.
func MP4(f Film) []byte {
	f.complete()
	length := max(f.Length.Milliseconds()*(timescale/1000), 1)
	delta := int64(timescale / f.Rate)
	pictures := sampleTrack{id: 1, length: length, delta: delta, count: (length + delta - 1) / delta}
	for n := range pictures.count {
		pictures.add(f.picture(n))
		if n%int64(f.Rate) == 0 {
			pictures.keys = append(pictures.keys, uint32(n+1))
		}
	}
	tracks := []*sampleTrack{&pictures}
	if f.Sound {
		sound := &sampleTrack{id: 2, length: length, delta: frameSamples, count: (length + frameSamples - 1) / frameSamples}
		for range sound.count {
			sound.add(silence)
		}
		tracks = append(tracks, sound)
	}
	head := box("ftyp", []byte("isom\x00\x00\x02\x00isomiso2avc1mp41"))
	// The place of the samples depends on the length of moov, which does not depend on the
	// place.
	at := len(head) + len(f.moov(tracks, 0)) + 8
	var data []byte
	for _, t := range tracks {
		data = append(data, t.data...)
	}
	return slices.Concat(head, f.moov(tracks, at), box("mdat", data))
}

// sampleTrack is the samples of one kind.
type sampleTrack struct {
	id                   uint32
	length, delta, count int64 // of all, of one, and how many
	data                 []byte
	sizes                []uint32
	keys                 []uint32 // numbers of key samples; nil: all are
}

func (t *sampleTrack) add(sample []byte) {
	t.data = append(t.data, sample...)
	t.sizes = append(t.sizes, uint32(len(sample)))
}

// times is the table of the samples' lengths: the last ends where the track does.
func (t *sampleTrack) times() []byte {
	last := t.length - t.delta*(t.count-1)
	if t.count == 1 {
		return words(0, 1, 1, uint32(last))
	}
	return words(0, 2, uint32(t.count-1), uint32(t.delta), 1, uint32(last))
}
