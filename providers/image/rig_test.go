package image_test

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"hash/crc32"
	stdimage "image"
	"image/jpeg"
	"image/png"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"farebox/providers/filebody"
	"farebox/providers/health"
	"farebox/providers/image"
	"farebox/proxy"
)

// rig is an Engine behind a real server, so that clients can leave.
type rig struct {
	t      testing.TB
	engine *image.Engine
	proxy  *proxy.Proxy
	addr   string

	mu      sync.Mutex
	job     *image.Job
	targets []*image.Target
	ends    chan end
}

// end is the outcome of a job.
type end struct {
	r *image.Result
	f *image.Failed
}

func newRig(t testing.TB, change ...func(o *image.Options)) *rig {
	g := &rig{t: t, ends: make(chan end, 16)}
	g.proxy = proxy.New(proxy.Options{Tick: 20 * time.Millisecond, HalfCloseGone: true})
	o := image.Options{Proxy: g.proxy, Limit: 30 * time.Second, OnPanic: func(v any) { t.Error("panic:", v) }}
	for _, f := range change {
		f(&o)
	}
	g.engine = image.New(o)
	s := proxy.NewServer(func(ctx *fasthttp.RequestCtx) {
		g.mu.Lock()
		j, targets := g.job, g.targets
		g.mu.Unlock()
		r, f := g.engine.Do(ctx, j, targets, account)
		g.ends <- end{r, f}
	}, proxy.ServerOptions{MaxBody: 1 << 20})
	ln, err := proxy.Listen("127.0.0.1:0", "", "")
	if err != nil {
		t.Fatal(err)
	}
	g.addr = ln.Addr().String()
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve(ln) }()
	t.Cleanup(func() {
		_ = ln.Close() // the clients have closed their connections
		<-done
		g.proxy.Close()
	})
	return g
}

// account is whose jobs they are.
const account = 7

// ask begins a job for a client that waits; leave makes it go away. The targets
// are tried in their order.
func (g *rig) ask(j *image.Job, targets ...*image.Target) (ends <-chan end, leave func()) {
	g.t.Helper()
	for i, t := range targets {
		t.Priority = i
	}
	g.mu.Lock()
	g.job, g.targets = j, targets
	g.mu.Unlock()
	c, err := net.Dial("tcp", g.addr)
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() { c.Close() })
	if _, err := io.WriteString(c, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n"); err != nil {
		g.t.Fatal(err)
	}
	return g.ends, func() { c.Close() }
}

// do runs a job to its end.
func (g *rig) do(j *image.Job, targets ...*image.Target) (*image.Result, *image.Failed) {
	g.t.Helper()
	ends, leave := g.ask(j, targets...)
	defer leave()
	select {
	case e := <-ends:
		return e.r, e.f
	case <-time.After(60 * time.Second):
		g.t.Fatal("the job did not end")
	}
	panic("unreachable")
}

// target is one at a base URL.
func target(t testing.TB, d image.Dialect, base string, change ...func(o *proxy.EndpointOptions)) *image.Target {
	t.Helper()
	o := proxy.EndpointOptions{Name: "test", BaseURL: base, FirstByte: 20 * time.Second, Idle: 20 * time.Second}
	for _, f := range change {
		f(&o)
	}
	pt, err := proxy.NewEndpoint(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pt.Close)
	return &image.Target{
		Upstream: "test", Model: "sim-image", Dialect: d, Proxy: pt, Base: base, Options: map[string]string{},
		Breaker: health.NewBreaker(3, time.Hour), Weight: 1,
	}
}

// server answers with handler.
func server(t testing.TB, handler http.HandlerFunc) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
	go func() { _ = s.Serve(ln) }()
	t.Cleanup(func() { _ = s.Close() })
	return "http://" + ln.Addr().String()
}

// photo is a picture with some noise.
func photo(w, h int) stdimage.Image {
	m := stdimage.NewNRGBA(stdimage.Rect(0, 0, w, h))
	r := uint32(w*h) | 1
	for i := 0; i < len(m.Pix); i += 4 {
		r ^= r << 13
		r ^= r >> 17
		r ^= r << 5
		m.Pix[i], m.Pix[i+1], m.Pix[i+2], m.Pix[i+3] = uint8(i), uint8(i>>10), uint8(r&31), 255
	}
	return m
}

// album keeps encoded images.
var album sync.Map

func kept(format string, w, h int, encode func(b *bytes.Buffer, m stdimage.Image)) []byte {
	key := [3]any{format, w, h}
	if b, ok := album.Load(key); ok {
		return bytes.Clone(b.([]byte))
	}
	var b bytes.Buffer
	encode(&b, photo(w, h))
	album.Store(key, bytes.Clone(b.Bytes()))
	return b.Bytes()
}

func pngOf(w, h int) []byte {
	return kept("png", w, h, func(b *bytes.Buffer, m stdimage.Image) {
		_ = (&png.Encoder{CompressionLevel: png.BestSpeed}).Encode(b, m)
	})
}

func jpegOf(w, h int) []byte {
	return kept("jpeg", w, h, func(b *bytes.Buffer, m stdimage.Image) { _ = jpeg.Encode(b, m, nil) })
}

// hollow is a PNG of a few bytes that says it is large.
func hollow(w, h uint32) []byte {
	chunk := func(kind string, data []byte) []byte {
		b := append(binary.BigEndian.AppendUint32(nil, uint32(len(data))), kind...)
		b = append(b, data...)
		return binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b[4:]))
	}
	head := append(binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, w), h), 8, 2, 0, 0, 0)
	b := append([]byte("\x89PNG\r\n\x1a\n"), chunk("IHDR", head)...)
	return append(append(b, chunk("IDAT", []byte("pixels"))...), chunk("IEND", nil)...)
}

func text(raw []byte) string { return base64.StdEncoding.EncodeToString(raw) }

func input(t testing.TB, raw []byte) image.Input {
	t.Helper()
	in, err := image.ReadText([]byte(text(raw)))
	if err != nil {
		t.Fatal(err)
	}
	return in
}

// bytesOf is the file of an image, whatever form it is in.
func bytesOf(m *image.Image) []byte {
	var p filebody.Pieces
	p.AddRaw(m.Text, m.Raw)
	var b bytes.Buffer
	_, _ = p.WriteTo(&b)
	return b.Bytes()
}

// eventually waits for a condition that another goroutine brings about.
func eventually(t testing.TB, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(60 * time.Second); !f(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("still not: %s", what)
		}
	}
}

func jsonAnswer(w http.ResponseWriter, body string) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.Copy(w, strings.NewReader(body))
}
