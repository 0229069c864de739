//go:build !race

package image_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"runtime"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"farebox/providers/filebody"
	"farebox/providers/image"
	"farebox/providers/image/native"
	"farebox/providers/image/openai"
	"farebox/proxy"
)

// heavy is a PNG of about so many bytes.
func heavy(size int) []byte {
	b := pngOf(300, 300)
	noise := bytes.Repeat([]byte("0123456789abcdef"), size/16)
	chunk := binary.BigEndian.AppendUint32(nil, uint32(len(noise)))
	chunk = append(append(chunk, "heVy"...), noise...)
	chunk = binary.BigEndian.AppendUint32(chunk, crc32.ChecksumIEEE(chunk[4:]))
	return append(append(append([]byte(nil), b[:33]...), chunk...), b[33:]...)
}

// peak is the most that the heap grew while f ran.
func peak(f func()) int64 {
	heap := func() int64 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapInuse)
	}
	runtime.GC()
	before, most := heap(), int64(0)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			most = max(most, heap())
			select {
			case <-stop:
				return
			case <-time.After(2 * time.Millisecond):
			}
		}
	}()
	f()
	close(stop)
	<-stopped
	return most - before
}

// An upload of 24 MB as base64 goes out as raw bytes without a second copy.
func TestUploadsAreNotCopied(t *testing.T) {
	const size = 24 << 20
	answer := pngOf(256, 256)
	var got int64
	url := server(t, func(w http.ResponseWriter, r *http.Request) {
		got, _ = io.Copy(io.Discard, r.Body)
		_, _ = w.Write(answer)
	})
	body := []byte(text(heavy(size)))
	g := newRig(t)
	tg := target(t, native.Dialect{}, url)
	grown := peak(func() {
		in, err := image.ReadText(body)
		if err != nil {
			t.Fatal(err)
		}
		j := &image.Job{Kind: image.Edit, Prompt: "x", Count: 1, Inputs: []image.Input{in}}
		if _, f := g.do(j, tg); f != nil {
			t.Fatal(f)
		}
	})
	if got < size || grown > 4<<20 {
		t.Errorf("%d bytes were sent, the heap grew by %d KiB", got, grown>>10)
	}
}

// An answer of 24 MB is in memory once, as the upstream sent it. That holds while it is
// checked, and while the client takes it in the other form.
func TestAnswersAreInMemoryOnce(t *testing.T) {
	const size = 24 << 20
	file := heavy(size)
	answer := []byte(dataAnswer(file))
	url := server(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Length", fmt.Sprint(len(answer)))
		_, _ = w.Write(answer)
	})
	px := proxy.New(proxy.Options{Tick: 20 * time.Millisecond})
	defer px.Close()
	e := image.New(image.Options{Proxy: px})
	tg := target(t, openai.Dialect{}, url)
	s := proxy.NewServer(func(ctx *fasthttp.RequestCtx) {
		r, f := e.Do(ctx, simple(), []*image.Target{tg}, account)
		if f != nil {
			t.Error(f)
			return
		}
		var b filebody.Pieces
		b.AddRaw(r.Images[0].Text, r.Images[0].Raw)
		px.Deliver(ctx, &b, func(int64, error) { r.Release() })
	}, proxy.ServerOptions{})
	ln, err := proxy.Listen("127.0.0.1:0", "", "")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve(ln) }()
	defer func() { _ = s.Shutdown(); <-done }()
	var n int64
	grown := peak(func() {
		resp, err := http.Post("http://"+ln.Addr().String()+"/", "text/plain", nil)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		n, _ = io.Copy(io.Discard, resp.Body)
	})
	if n != int64(len(file)) {
		t.Errorf("%d of %d bytes arrived", n, len(file))
	}
	if most := int64(len(answer)) + 4<<20; grown > most {
		t.Errorf("the heap grew by %d KiB for an answer of %d", grown>>10, len(answer)>>10)
	}
	eventually(t, "all is released", func() bool { return e.Held() == 0 })
}

// An answer that does not say how long it is gets the room of the largest one
// when it turns out to be large, and is not copied from there on.
func TestAnswersOfUnknownLengthAreNotCopied(t *testing.T) {
	const size = 24 << 20
	answer := []byte(dataAnswer(heavy(size)))
	url := server(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.(http.Flusher).Flush()
		_, _ = w.Write(answer)
	})
	g := newRig(t)
	tg := target(t, openai.Dialect{}, url)
	grown := peak(func() {
		r, f := g.do(simple(), tg)
		if f != nil {
			t.Fatal(f)
		}
		r.Release()
	})
	// The buffer, and its earlier sizes while it was doubled up to 4 MB.
	if most := int64(32<<20/3*4 + 20<<20); grown > most {
		t.Errorf("the heap grew by %d KiB for an answer of %d", grown>>10, len(answer)>>10)
	}
	t.Logf("the heap grew by %d KiB for an answer of %d", grown>>10, len(answer)>>10)
}
