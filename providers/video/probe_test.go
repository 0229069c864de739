package video

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"farebox/bench/upstream/film"
	"farebox/bench/upstream/sound"
	"farebox/providers/fetch"
)

func newProber() *Prober {
	return NewProber(fetch.New(fetch.Options{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")},
		Limit: 5 * time.Second}))
}

// serve gives a file, in parts where it is asked for those, and counts its bytes.
func serve(t *testing.T, file []byte, parts bool) (link string, sent *atomic.Int64) {
	t.Helper()
	sent = new(atomic.Int64)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		out := &counted{w, sent}
		if !parts {
			w.Header().Set("Content-Length", fmt.Sprint(len(file)))
			_, _ = out.Write(file)
			return
		}
		http.ServeContent(out, r, "film.mp4", time.Time{}, bytes.NewReader(file))
	}))
	t.Cleanup(s.Close)
	return s.URL, sent
}

type counted struct {
	http.ResponseWriter
	n *atomic.Int64
}

func (c *counted) Write(p []byte) (int, error) {
	c.n.Add(int64(len(p)))
	return c.ResponseWriter.Write(p)
}

// split is a film as its boxes: ftyp, moov and mdat.
func split(file []byte) (list [][]byte) {
	for len(file) >= 8 {
		n := binary.BigEndian.Uint32(file)
		list, file = append(list, file[:n]), file[n:]
	}
	return list
}

func box(kind string, body []byte) []byte {
	return append(append(binary.BigEndian.AppendUint32(nil, uint32(len(body)+8)), kind...), body...)
}

// "The film was ten minutes, and I was asked for its 40 MB." The length is found wherever
// the description is, and little more than that is read.
func TestTheLengthOfAFilmIsFoundWithoutReadingIt(t *testing.T) {
	made := film.MP4(film.Film{Length: 90 * time.Second, Width: 640, Height: 480, Rate: 30, Sound: true})
	parts := split(made)
	filler := box("free", make([]byte, 3<<20))
	for name, test := range map[string]struct {
		file  []byte
		parts bool
		most  int64 // bytes that are sent
		wrong bool
	}{
		"in front":                 {bytes.Join([][]byte{parts[0], parts[1], parts[2]}, nil), true, 1 << 20, false},
		"behind the pictures":      {bytes.Join([][]byte{parts[0], filler, parts[2], parts[1]}, nil), true, 1 << 20, false},
		"in front, without parts":  {bytes.Join([][]byte{parts[0], parts[1], filler, parts[2]}, nil), false, 8 << 20, false},
		"behind, without parts":    {bytes.Join([][]byte{parts[0], filler, parts[2], parts[1]}, nil), false, 8 << 20, true},
		"behind seventeen fillers": {append(bytes.Repeat(box("free", make([]byte, 9000)), 17), made...), true, 1 << 20, true},
		"cut off":                  {bytes.Join([][]byte{parts[0], filler, parts[1][:len(parts[1])-100]}, nil), true, 1 << 20, true},
		"a box without an end":     {append(box("ftyp", nil), make([]byte, 1<<20)...), true, 1 << 20, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			link, sent := serve(t, test.file, test.parts)
			m, err := newProber().Probe(t.Context(), link, 0)
			switch {
			case test.wrong && !errors.Is(err, ErrFormat):
				t.Errorf("%+v, %v", m, err)
			case !test.wrong && (err != nil || !m.Film || m.Height != 480 || m.Length < 89*time.Second ||
				m.Length > 91*time.Second || m.FPS < 29 || m.FPS > 31):
				t.Errorf("%+v, %v", m, err)
			}
			if n := sent.Load(); n > test.most {
				t.Errorf("%d bytes were read", n)
			}
		})
	}
}

// "A header of one second bought the enlarging of an hour." The length is the longest
// that any part of the file states.
func TestAFilmIsNotShorterThanItsPictures(t *testing.T) {
	file := film.MP4(film.Film{Length: 30 * time.Second, Height: 720, Width: 1280})
	at := bytes.Index(file, []byte("mvhd"))
	binary.BigEndian.PutUint32(file[at+4+16:], 48000) // the film: 1 s
	if at = bytes.Index(file, []byte("mdhd")); at > 0 {
		binary.BigEndian.PutUint32(file[at+4+16:], 48000) // its track: 1 s
	}
	at = bytes.Index(file, []byte("tkhd"))
	binary.BigEndian.PutUint32(file[at+4+80:], 8<<16) // shown 8 lines high
	m, err := Read(file)
	if err != nil || m.Length < 29*time.Second || m.Height != 720 {
		t.Errorf("%+v, %v", m, err)
	}
	// 3600 pictures in one second are thirty of 120 pictures each.
	file = film.MP4(film.Film{Length: 15 * time.Second, Rate: 240})
	m, err = Read(file)
	if err != nil || m.Length < 29*time.Second {
		t.Errorf("%+v, %v", m, err)
	}
}

// "The video never ended": files without an end, without a size, of another type or with
// too many bytes are given up within bounds.
func TestHostileLinksAreGivenUp(t *testing.T) {
	endless := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		head := film.MP4(film.Film{Length: time.Second})
		_, _ = w.Write(head)
		for r.Context().Err() == nil {
			if _, err := w.Write(make([]byte, 1<<20)); err != nil {
				return
			}
		}
	}))
	t.Cleanup(endless.Close)
	stuck := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	t.Cleanup(stuck.Close)
	lying := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Range", "bytes 0-9/9223372036854775807")
		w.WriteHeader(206)
		_, _ = io.WriteString(w, "\x00\x00\x00\x01mdat"+strings.Repeat("\x7f", 1<<20))
	}))
	t.Cleanup(lying.Close)
	page, _ := serve(t, []byte("<html>no film</html>"), true)
	large, _ := serve(t, make([]byte, 2<<20), true)
	p := newProber()
	for name, test := range map[string]struct {
		link string
		most int64
		want error
	}{
		"endless": {endless.URL, 1 << 20, ErrSize}, "a page": {page, 0, ErrFormat}, "too large": {large, 1 << 20, ErrSize},
		"a box of nearly everything": {lying.URL, 0, ErrFormat},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if m, err := p.Probe(t.Context(), test.link, test.most); !errors.Is(err, test.want) {
				t.Errorf("%+v, %v", m, err)
			}
		})
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if m, err := p.Probe(ctx, stuck.URL, 0); err == nil {
		t.Errorf("%+v", m)
	}
	for _, link := range []string{"http://127.0.0.2/", "http://169.254.169.254/latest", "http://[::1]/", "ftp://127.0.0.1/",
		"file:///etc/passwd", "http://localhost:1@127.0.0.2/", "http://0x7f000002/", "http://2130706434/"} {
		var no *fetch.Error
		if m, err := p.Probe(t.Context(), link, 0); !errors.As(err, &no) {
			t.Errorf("%s: %+v, %v", link, m, err)
		}
		if final, err := p.Final(t.Context(), link); !errors.As(err, &no) {
			t.Errorf("%s is allowed, as %s: %v", link, final, err)
		}
	}
}

// Sound is measured as films are.
func TestSoundIsMeasured(t *testing.T) {
	for _, format := range []string{"wav", "mp3"} {
		link, _ := serve(t, sound.Bytes(format, 3*time.Second), true)
		m, err := newProber().Probe(t.Context(), link, 15<<20)
		if err != nil || m.Format != format || m.Film || m.Length < 2900*time.Millisecond || m.Length > 3100*time.Millisecond {
			t.Errorf("%+v, %v", m, err)
		}
	}
}

// FuzzBoxes: no head of a film leads the prober astray.
func FuzzBoxes(f *testing.F) {
	f.Add(film.MP4(film.Film{Length: time.Second}), int64(0))
	f.Add([]byte("\x00\x00\x00\x01mdat\xff\xff\xff\xff\xff\xff\xff\xff"), int64(1<<40))
	f.Fuzz(func(t *testing.T, file []byte, more int64) {
		p := NewProber(pretended{file, more & (1<<50 - 1)})
		m, err := p.Probe(t.Context(), "x", 0)
		if err == nil && m.Length <= 0 {
			t.Errorf("%+v", m)
		}
	})
}

// pretended is a server that announces a longer file than it serves.
type pretended struct {
	file []byte
	more int64
}

func (s pretended) Final(_ context.Context, link string) (string, error) { return link, nil }

func (s pretended) Part(_ context.Context, _ string, from, length int64) (fetch.Part, error) {
	p := fetch.Part{Size: int64(len(s.file)) + s.more}
	if from < int64(len(s.file)) {
		p.Bytes = s.file[from:min(from+length, int64(len(s.file)))]
	}
	return p, nil
}
