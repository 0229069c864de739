package video

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"farebox/bench/upstream/film"
	"farebox/providers/fetch"
	"farebox/providers/fetch/fetchtest"
)

// element is one of Matroska.
func element(id uint32, parts ...[]byte) []byte {
	body := bytes.Join(parts, nil)
	head := binary.BigEndian.AppendUint32(nil, id)
	for head[0] == 0 {
		head = head[1:]
	}
	return append(binary.BigEndian.AppendUint64(head, 1<<56|uint64(len(body))), body...)
}

func number(v uint64) []byte { return binary.BigEndian.AppendUint64(nil, v) }

// webm is a film in VP8, whose header says that it is as long and as high as it says, and
// whose pictures are others.
func webm(says time.Duration, saysHeight uint64, pictures int, every time.Duration, height uint16) []byte {
	picture := binary.LittleEndian.AppendUint16([]byte("\x10\x00\x00\x9d\x01\x2a\x40\x01"), height)
	clusters := []byte(nil)
	for n := range pictures {
		at := uint64((time.Duration(n) * every).Milliseconds())
		clusters = append(clusters, element(0x1F43B675, element(0xE7, number(at)),
			element(0xA3, []byte{0x81, 0, 0, 0x80}, picture))...)
	}
	return append(element(0x1A45DFA3, element(0x4282, []byte("webm"))), element(0x18538067,
		element(0x1549A966, element(0x2AD7B1, number(1_000_000)),
			element(0x4489, number(math.Float64bits(float64(says.Milliseconds()))))),
		element(0x1654AE6B, element(0xAE, element(0xD7, []byte{1}), element(0x83, []byte{1}),
			element(0x86, []byte("V_VP8")), element(0x23E383, number(1_000_000_000)),
			element(0xE0, element(0xB0, number(320)), element(0xBA, number(saysHeight))))),
		clusters)...)
}

// "A WebM of one second and sixteen lines bought the enlarging of a minute in HD." Its
// pictures count, and not the headers before them.
func TestAWebMHasTheSizeOfItsPictures(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		file         []byte
		least, most  time.Duration
		height       int
		slow, faster float64
	}{
		"true":          {webm(10*time.Second, 360, 10, time.Second, 360), 9 * time.Second, 11 * time.Second, 360, 0.9, 1.2},
		"too short":     {webm(time.Second, 360, 60, time.Second, 360), 59 * time.Second, 61 * time.Second, 360, 0.9, 1.2},
		"too low":       {webm(10*time.Second, 16, 10, time.Second, 1080), 9 * time.Second, 11 * time.Second, 1080, 0.9, 1.2},
		"fast":          {webm(10*time.Second, 360, 600, time.Second/60, 360), 9 * time.Second, 11 * time.Second, 360, 59, 61},
		"in an instant": {webm(time.Second, 360, 1200, 0, 360), 9 * time.Second, 11 * time.Second, 360, 1199, 1201},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			link, _ := serve(t, test.file, true)
			m, err := newProber().Probe(t.Context(), link, 0)
			if err != nil || !m.Film || m.Format != "webm" || m.Length < test.least || m.Length > test.most ||
				m.Height != test.height || m.FPS < test.slow || m.FPS > test.faster {
				t.Errorf("%+v, %v", m, err)
			}
		})
	}
	if m, err := Read(webm(0, 360, 0, 0, 0)); !errors.Is(err, ErrFormat) {
		t.Errorf("without a picture: %+v, %v", m, err)
	}
}

// A height that only the container states does not count: prices by height take the tallest.
func TestAHeightThatOnlyTheContainerSaysDoesNotCount(t *testing.T) {
	t.Parallel()
	file := film.MP4(film.Film{Length: time.Second, Width: 1280, Height: 720})
	m, err := Read(bytes.ReplaceAll(file, []byte("avcC"), []byte("free")))
	if err != nil || m.Height != 0 || !m.Film {
		t.Errorf("%+v, %v", m, err)
	}
}

// "The name was public when you looked at it." The dialled address is checked, for each
// of a link's requests and after each redirect, so that a name that turns leads nowhere.
func TestANameThatTurnsIsNotProbed(t *testing.T) {
	t.Parallel()
	made := film.MP4(film.Film{Length: 90 * time.Second, Width: 640, Height: 480})
	parts := split(made)
	link, sent := serve(t, bytes.Join([][]byte{parts[0], box("free", make([]byte, 3<<20)), parts[2], parts[1]}, nil), true)
	port := link[strings.LastIndex(link, ":"):]
	inside, err := net.Listen("tcp", "127.0.0.2"+port)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = inside.Close() })
	go func() {
		for {
			c, err := inside.Accept()
			if err != nil {
				return
			}
			t.Errorf("%s was connected to", c.LocalAddr())
			_ = c.Close()
		}
	}()
	redirects := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://"+strings.TrimPrefix(r.URL.Path, "/")+port+"/", http.StatusFound)
	}))
	t.Cleanup(redirects.Close)
	p := NewProber(fetch.New(fetch.Options{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")},
		Limit: 20 * time.Second, Resolver: fetchtest.Names(t, map[string][]string{
			"inside.test.": {"127.0.0.2"}, "steady.test.": {"127.0.0.1"}, "turns.test.": {"127.0.0.1", "127.0.0.2"},
		})}))
	if m, err := p.Probe(t.Context(), "http://steady.test"+port+"/", 0); err != nil || m.Height != 480 {
		t.Errorf("a name that does not turn: %+v, %v", m, err)
	}
	before := sent.Load()
	for _, link := range []string{"http://inside.test" + port + "/", "http://turns.test" + port + "/",
		redirects.URL + "/inside.test", redirects.URL + "/turns.test"} {
		var no *fetch.Error
		m, err := p.Probe(t.Context(), link, 0)
		if !errors.As(err, &no) || no.Reason != fetch.Forbidden {
			t.Errorf("%s: %+v, %v", link, m, err)
		}
	}
	if n := sent.Load() - before; n > 2*firstPart {
		t.Errorf("%d bytes were read from the name's first address", n)
	}
}

// FuzzWebM: no file of elements leads the reader astray.
func FuzzWebM(f *testing.F) {
	f.Add(webm(time.Second, 16, 3, time.Second, 1080))
	f.Add(webm(0, 0, 0, 0, 0))
	f.Add([]byte("\x1a\x45\xdf\xa3\x80\x18\x53\x80\x67\x01\xff\xff\xff\xff\xff\xff\xff\x1f\x43\xb6\x75\x80\xa3\x84\x81\x00\x00\x86"))
	f.Fuzz(func(t *testing.T, file []byte) {
		m, err := Read(file)
		if err == nil && (m.Length <= 0 || m.Height < 0 || m.FPS < 0 || math.IsNaN(m.FPS)) {
			t.Errorf("%+v", m)
		}
	})
}
