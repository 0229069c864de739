package sound

import (
	"io"
	"time"
)

// Rate is that of all formats of bare samples and of FLAC and AAC, in Hz: 16 bits, one channel.
const Rate = 24000

// Formats are all that can be made.
var Formats = []string{"mp3", "opus", "aac", "flac", "wav", "pcm"}

// form makes one format out of units, such as frames or pages.
type form struct {
	media string
	// unit is how many samples of rate a unit has; its last one may have fewer where
	// exact says so, otherwise the length is rounded up to whole units.
	unit, rate int64
	exact      bool
	head       func(c *Clip) []byte
	// append appends the nth unit, of samples, and size is how many bytes that are.
	append func(b []byte, c *Clip, n, samples int64) []byte
}

var forms = map[string]*form{
	"wav":  {media: "audio/wav", unit: toneBlock, rate: Rate, exact: true, head: wavHead, append: appendSamples},
	"pcm":  {media: "audio/pcm", unit: toneBlock, rate: Rate, exact: true, append: appendSamples},
	"flac": {media: "audio/flac", unit: toneBlock, rate: Rate, exact: true, head: flacHead, append: appendFlac},
	"mp3":  {media: "audio/mpeg", unit: 1152, rate: 48000, append: appendMP3},
	"aac":  {media: "audio/aac", unit: 1024, rate: Rate, append: appendAAC},
	"opus": {media: "audio/ogg", unit: opusPage, rate: 48000, exact: true, head: opusHead, append: appendOpus},
}

// Type is the media type that servers send with a format.
func Type(format string) string { return forms[format].media }

// Options of a clip.
type Options struct {
	// Unmeasured leaves the length out of the head, as servers do that do not know it
	// yet: of WAV and FLAC.
	Unmeasured bool
}

// Clip is sound that is read as a stream.
type Clip struct {
	*form
	o       Options
	samples int64 // of the form's rate
	next    int64 // sample
	n       int64 // unit
	begun   bool
	left    []byte // of unit
	room    []byte
}

// New makes a clip of one of Formats.
func New(format string, length time.Duration, o Options) *Clip {
	f := forms[format]
	if f == nil {
		panic("sound: there is no format " + format)
	}
	samples := int64(length) * f.rate / int64(time.Second)
	if !f.exact {
		samples = (samples + f.unit - 1) / f.unit * f.unit
	}
	return &Clip{form: f, o: o, samples: samples}
}

// Bytes is a whole clip.
func Bytes(format string, length time.Duration) []byte {
	var b []byte
	for c := New(format, length, Options{}); ; {
		p := c.unitOf()
		if p == nil {
			return b
		}
		b = append(b, p...)
	}
}

// Length is how long it sounds.
func (c *Clip) Length() time.Duration { return time.Duration(c.samples * int64(time.Second) / c.rate) }

// Read is io.Reader.
func (c *Clip) Read(p []byte) (n int, err error) {
	for n < len(p) {
		if len(c.left) == 0 {
			if c.left = c.unitOf(); c.left == nil {
				break
			}
		}
		k := copy(p[n:], c.left)
		n, c.left = n+k, c.left[k:]
	}
	if n == 0 && len(p) > 0 {
		return 0, io.EOF
	}
	return n, nil
}

// unitOf is the next unit, valid until the next call; nil if absent.
func (c *Clip) unitOf() []byte {
	if !c.begun {
		c.begun = true
		if c.head != nil {
			return c.head(c)
		}
	}
	if c.next >= c.samples {
		return nil
	}
	samples := min(c.unit, c.samples-c.next)
	c.room = c.append(c.room[:0], c, c.n, samples)
	c.n, c.next = c.n+1, c.next+samples
	return c.room
}

// Size is the number of bytes of a whole clip. It does not change the output of Read.
func (c *Clip) Size() int64 {
	all := &Clip{form: c.form, o: c.o, samples: c.samples}
	size := int64(0)
	switch c.media {
	case "audio/wav", "audio/pcm": // long ones are asked often
		if c.head != nil {
			size = int64(len(c.head(all)))
		}
		return size + 2*c.samples
	case "audio/mpeg":
		return c.samples / c.unit * mp3Frame
	}
	for p := all.unitOf(); p != nil; p = all.unitOf() {
		size += int64(len(p))
	}
	return size
}
