package video

import (
	"context"
	"encoding/binary"
	"errors"
	"time"

	"farebox/config/fair"
	"farebox/providers/audio/container"
	"farebox/providers/fetch"
)

// Media describes a piece of sound or a film.
type Media struct {
	Format string // as container.Info
	Size   int64
	// Length is the longest of the announced lengths and of its frames.
	Length time.Duration
	Height int // of the film; 0 if it has no pictures, or they have no size
	FPS    float64
	Film   bool
}

// ErrFormat is a file that cannot be read, and ErrSize one that is too large.
var (
	ErrFormat = errors.New("the format is not known, or the file is damaged")
	ErrSize   = errors.New("the file is too large")
)

// Fetcher reads from links; *fetch.Client is one.
type Fetcher interface {
	Part(ctx context.Context, link string, from, length int64) (fetch.Part, error)
	Final(ctx context.Context, link string) (string, error)
}

// Prober examines the files of links.
type Prober struct {
	from  Fetcher
	turns *fair.Turns // so that files that are read whole share the memory of a few
}

const (
	// firstPart holds the description of most films that are made for the web, and the
	// needed bytes of all short sound.
	firstPart = 128 << 10
	// maxDescription bounds the boxes that describe a film: two hours have 3 MB.
	maxDescription = 8 << 20
	// maxHops is how many boxes are in front of it in files that are made in good faith.
	maxHops = 16
	// MaxWhole is the largest file that is read from its beginning to its end.
	MaxWhole   = 50 << 20
	maxReaders = 4
	// maxWaiters is how many wait for that.
	maxWaiters = 64
	// maxRate is the highest rate of pictures a second that is trusted.
	maxRate = 120
)

// NewProber makes a Prober.
func NewProber(f Fetcher) *Prober {
	return &Prober{from: f, turns: fair.NewTurns(maxReaders, maxWaiters)}
}

// Final is the address that upstreams may be given in the place of a link: where its
// redirects end.
func (p *Prober) Final(ctx context.Context, link string) (string, error) {
	return p.from.Final(ctx, link)
}

// Read describes a file.
func Read(file []byte) (Media, error) {
	info, err := container.Read(file)
	return mediaOf(&info, int64(len(file)), err)
}

// Probe describes a link's file, of which it reads at most most bytes; 0: any number. The
// error is a *fetch.Error, ErrFormat, ErrSize or ctx's.
func (p *Prober) Probe(ctx context.Context, link string, most int64) (Media, error) {
	head, err := p.from.Part(ctx, link, 0, firstPart)
	if err != nil {
		return Media{}, err
	}
	switch whole := int64(len(head.Bytes)); {
	case whole < firstPart:
		return Read(head.Bytes) // this is the whole file, whatever size the server announces
	case head.Size < 0:
		// Without a size only reading to the end finds it.
		return p.readWhole(ctx, link, most)
	case most > 0 && head.Size > most:
		return Media{}, ErrSize
	}
	if len(head.Bytes) >= 8 && boxes[string(head.Bytes[4:8])] {
		return p.readBoxes(ctx, link, head, most)
	}
	return p.readWhole(ctx, link, most)
}

// boxes are those that a film of MP4 or QuickTime may begin with.
var boxes = map[string]bool{"ftyp": true, "moov": true, "mdat": true, "free": true, "skip": true, "wide": true,
	"styp": true, "moof": true, "sidx": true}

// readWhole reads all of a file.
func (p *Prober) readWhole(ctx context.Context, link string, most int64) (Media, error) {
	limit := int64(MaxWhole)
	if most > 0 {
		limit = min(most, limit)
	}
	place, err := p.turns.Take(ctx, fair.Of(ctx))
	if err != nil {
		return Media{}, &fetch.Error{Reason: fetch.Busy}
	}
	defer place.Done()
	all, err := p.from.Part(ctx, link, 0, limit+1)
	switch {
	case err != nil:
		return Media{}, err
	case int64(len(all.Bytes)) > limit:
		return Media{}, ErrSize
	}
	return Read(all.Bytes)
}

// readBoxes follows the boxes of a film from head to head, and reads those that describe
// it. A film in fragments is described by all of them, and read whole.
func (p *Prober) readBoxes(ctx context.Context, link string, head fetch.Part, most int64) (Media, error) {
	at := int64(0)
	for range maxHops {
		b := head.Bytes
		if at < int64(len(b)) {
			b = b[at:]
		} else {
			b = nil
		}
		if len(b) < 16 && at < head.Size {
			part, err := p.from.Part(ctx, link, at, 16)
			if err != nil {
				return Media{}, unreadable(err)
			}
			b = part.Bytes
		}
		size, kind, ok := boxAt(b, head.Size-at)
		switch {
		case !ok:
			return Media{}, ErrFormat
		case kind == "moof", kind == "styp", kind == "sidx":
			return p.readWhole(ctx, link, most)
		case kind == "moov" && size > maxDescription:
			return Media{}, ErrFormat
		case kind == "moov":
			return p.readMovie(ctx, link, head, at, size, most)
		}
		at += size
	}
	return Media{}, ErrFormat
}

// boxAt reads the head of a box; left is the rest of the file.
func boxAt(b []byte, left int64) (size int64, kind string, ok bool) {
	if len(b) < 8 {
		return 0, "", false
	}
	size, kind = int64(binary.BigEndian.Uint32(b)), string(b[4:8])
	switch {
	case size == 0:
		size = left
	case size == 1 && len(b) >= 16:
		size = int64(binary.BigEndian.Uint64(b[8:]) & (1<<63 - 1))
	}
	return size, kind, size >= 8 && size <= left
}

func (p *Prober) readMovie(ctx context.Context, link string, head fetch.Part, at, size, most int64) (Media, error) {
	var movie []byte
	if at+size <= int64(len(head.Bytes)) {
		movie = head.Bytes[at : at+size]
	} else {
		part, err := p.from.Part(ctx, link, at, size)
		if err != nil {
			return Media{}, unreadable(err)
		}
		if movie = part.Bytes; int64(len(movie)) < size {
			return Media{}, ErrFormat
		}
	}
	if fragmented(movie) {
		return p.readWhole(ctx, link, most)
	}
	info, err := container.ReadBoxes(movie, head.Size)
	return mediaOf(&info, head.Size, err)
}

// fragmented says that fragments follow the description.
func fragmented(movie []byte) bool {
	for b := movie[8:]; len(b) >= 8; {
		size, kind, ok := boxAt(b, int64(len(b)))
		if kind == "mvex" || !ok {
			return true
		}
		b = b[size:]
	}
	return false
}

// unreadable is the error of a server that gives no parts of a film whose description
// follows it.
func unreadable(err error) error {
	var e *fetch.Error
	if errors.As(err, &e) && e.Reason == fetch.Unwanted {
		return ErrFormat
	}
	return err
}

func mediaOf(i *container.Info, size int64, err error) (Media, error) {
	if err != nil {
		// A film in an unknown sound format is still a film.
		if i.Film == nil {
			return Media{}, ErrFormat
		}
	}
	m := Media{Format: i.Format, Size: size, Length: max(i.Says, i.Length)}
	if f := i.Film; f != nil {
		m.Film, m.FPS = true, f.FPS
		if f.Coded {
			m.Height = f.Height
		}
		m.Length = max(m.Length, f.Length)
		if f.FPS > maxRate {
			// So many pictures are a longer film that says that it is short.
			m.Length = time.Duration(min(float64(m.Length)*f.FPS/maxRate, float64(container.Endless/2)))
		}
	}
	if m.Length <= 0 {
		return Media{}, ErrFormat
	}
	return m, nil
}
