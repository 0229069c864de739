package proxy

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/valyala/fasthttp"
)

// newLimited is a gateway whose budget for bodies the test can see.
func newLimited(t *testing.T, o ServerOptions, most int64, handler fasthttp.RequestHandler) (*gateway, *Uploads) {
	o.Refuse = func(ctx *fasthttp.RequestCtx, r Refusal) { ctx.SetBodyString(r.String()) }
	o.Uploads = NewUploads(most)
	return newGateway(t, Options{}, o, func(_ *gateway, ctx *fasthttp.RequestCtx) { handler(ctx) }), o.Uploads
}

// Request bodies of all clients together stay within the budget. A request beyond it gets
// a 503 and may be repeated.
func TestBodiesInFlightAreLimited(t *testing.T) {
	hold := make(chan bool)
	g, f := newLimited(t, ServerOptions{MaxBody: 1 << 20, ReadTimeout: 10 * time.Second}, 263<<10,
		func(ctx *fasthttp.RequestCtx) {
			if len(ctx.PostBody()) > 1000 {
				<-hold
			}
		})
	body := strings.Repeat("x", 100<<10)
	held := make(chan int)
	for range 2 {
		go func() {
			resp, _, err := g.ask(body)
			if err != nil {
				held <- 0
				return
			}
			held <- resp.StatusCode
		}()
	}
	eventually(t, "two bodies are held", func() bool { return f.Used() == 200<<10 })
	resp, text, err := g.ask(body)
	if err != nil || resp.StatusCode != 503 || !strings.Contains(text, "retry") {
		t.Errorf("%v %q %v", resp, text, err)
	}
	if f.Used() != 200<<10 {
		t.Errorf("%d bytes counted", f.Used())
	}
	// Small requests are not counted and continue.
	if resp, _, err := g.ask("small"); err != nil || resp.StatusCode != 200 {
		t.Errorf("%v %v", resp, err)
	}
	for range 2 {
		hold <- true
	}
	for range 2 {
		if s := <-held; s != 200 {
			t.Errorf("status %d", s)
		}
	}
	eventually(t, "the budget is back", func() bool { return f.Used() == 0 })
	go func() { hold <- true }()
	if resp, _, err := g.ask(body); err != nil || resp.StatusCode != 200 {
		t.Errorf("%v %v", resp, err)
	}
}

// Interrupted uploads return their share, however they are interrupted.
func TestBrokenUploadsGiveTheirShareBack(t *testing.T) {
	g, f := newLimited(t, ServerOptions{MaxBody: 1 << 20, ReadTimeout: 300 * time.Millisecond}, 9<<20,
		func(*fasthttp.RequestCtx) {})
	for _, wire := range []string{
		"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 500000\r\n\r\nhalf",
		"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk("half") + "10\r\nha",
		"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk("half") + "xx",
	} {
		c := g.dial()
		_, _ = io.WriteString(c, wire)
		eventually(t, "it is counted", func() bool { return f.Used() > 0 || strings.HasSuffix(wire, "xx") })
		c.Close()
		eventually(t, "the share is back", func() bool { return f.Used() == 0 })
	}
	// Stalled, not closed.
	c := g.dial()
	_, _ = io.WriteString(c, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 500000\r\n\r\nhalf")
	if b, _ := io.ReadAll(c); !strings.HasPrefix(string(b), "HTTP/1.1 408") {
		t.Errorf("%q", b)
	}
	eventually(t, "the share is back", func() bool { return f.Used() == 0 })
	// Between two chunks.
	c = g.dial()
	_, _ = io.WriteString(c, "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"+chunk("half"))
	eventually(t, "it is counted", func() bool { return f.Used() > 0 })
	c.Close()
	eventually(t, "the share is back", func() bool { return f.Used() == 0 })
}

// The body of a request whose answer streams is counted until the stream ends.
func TestBodiesOfStreamsAreCountedToTheEnd(t *testing.T) {
	end := make(chan bool)
	g, f := newLimited(t, ServerOptions{MaxBody: 1 << 20}, 1<<20, func(ctx *fasthttp.RequestCtx) {
		ctx.SetBodyStreamWriter(func(w *bufio.Writer) {
			_, _ = w.WriteString("begin")
			_ = w.Flush()
			<-end
		})
	})
	resp, err := http.Post("http://"+g.addr, "", strings.NewReader(strings.Repeat("x", 100<<10)))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if f.Used() != 100<<10 {
		t.Errorf("%d bytes counted during the stream", f.Used())
	}
	end <- true
	_, _ = io.ReadAll(resp.Body)
	eventually(t, "the share is back", func() bool { return f.Used() == 0 })
}

// A refusal of a large upload reaches a client that is still sending.
func TestRefusedUploadsSeeWhy(t *testing.T) {
	g := newGateway(t, Options{}, ServerOptions{MaxBody: 1 << 20, Refuse: func(ctx *fasthttp.RequestCtx, r Refusal) {
		ctx.SetContentType("application/json")
		ctx.SetBodyString(fmt.Sprintf(`{"error":%d}`, r.Status()))
	}}, func(*gateway, *fasthttp.RequestCtx) {})
	for range 5 {
		resp, body, err := g.ask(strings.Repeat("x", 20<<20))
		if err != nil || resp.StatusCode != 413 || body != `{"error":413}` ||
			resp.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%v %q %v", resp, body, err)
		}
	}
	c := g.dial()
	_, _ = io.WriteString(c, "POST / HTTP/1.1\r\nHost: h\r\nX: "+strings.Repeat("x", 100<<10)+"\r\n\r\n")
	if b, err := io.ReadAll(c); !strings.HasPrefix(string(b), "HTTP/1.1 431") ||
		!strings.HasSuffix(string(b), `{"error":431}`) {
		t.Errorf("%q %v", b, err)
	}
	c = g.dial()
	_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nNo host\r\n\r\n")
	if b, _ := io.ReadAll(c); !strings.HasPrefix(string(b), "HTTP/1.1 400") ||
		!strings.HasSuffix(string(b), `{"error":400}`) {
		t.Errorf("%q", b)
	}
}

func TestLimitsByRequest(t *testing.T) {
	u := NewUploads(0)
	g := newGateway(t, Options{}, ServerOptions{MaxBody: -1, Uploads: u}, func(_ *gateway, ctx *fasthttp.RequestCtx) {
		most := 10000
		if string(ctx.Path()) == "/x" {
			most = 20000
		}
		if why, ok := u.Read(ctx, Sender{Most: most}); !ok {
			ctx.SetStatusCode(why.Status())
			return
		}
		ctx.SetBodyString(fmt.Sprint(len(ctx.PostBody())))
	})
	for size, want := range map[int]int{100: 200, 10000: 200, 20000: 200, 20001: 413} {
		if resp, _, err := g.ask(strings.Repeat("x", size)); err != nil || resp.StatusCode != want {
			t.Errorf("%d bytes: %v %v", size, resp, err)
		}
	}
	for size, want := range map[int]string{1000: "HTTP/1.1 200", 10000: "HTTP/1.1 200", 10001: "HTTP/1.1 413"} {
		c := g.dial()
		_, _ = io.WriteString(c,
			fmt.Sprintf("POST /y HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", size,
				strings.Repeat("x", size)))
		if b, _ := io.ReadAll(c); !strings.HasPrefix(string(b), want) {
			t.Errorf("%d bytes: %q", size, b)
		}
	}
}

// A client that asks first is refused before it sends its body.
func TestExpectIsDecidedBeforeTheBody(t *testing.T) {
	var served atomic.Int32
	g := newGateway(t, Options{}, ServerOptions{Expect: func(ctx *fasthttp.RequestCtx, length int) int {
		if length != 30000 {
			t.Errorf("a length of %d was announced", length)
		}
		if len(ctx.Request.Header.Peek("Authorization")) > 0 {
			return 0
		}
		ctx.SetBodyString("no key")
		return 401
	}}, func(_ *gateway, ctx *fasthttp.RequestCtx) {
		served.Add(1)
		ctx.SetBody(ctx.PostBody())
	})
	const head = "POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 30000\r\n"
	c := g.dial()
	_, _ = io.WriteString(c, head+"\r\n")
	if b, err := io.ReadAll(c); err != nil || !strings.HasPrefix(string(b), "HTTP/1.1 401") ||
		!strings.HasSuffix(string(b), "no key") || served.Load() != 0 {
		t.Errorf("%q %v", b, err)
	}
	c = g.dial()
	_, _ = io.WriteString(c, head+"Authorization: k\r\n\r\n")
	b := make([]byte, 25)
	if _, err := io.ReadFull(c, b); err != nil || string(b) != "HTTP/1.1 100 Continue\r\n\r\n" {
		t.Fatalf("%q %v", b, err)
	}
	_, _ = io.WriteString(c, strings.Repeat("x", 30000))
	if resp, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil || resp.StatusCode != 200 ||
		resp.ContentLength != 30000 || served.Load() != 1 {
		t.Errorf("%v %v", resp, err)
	}
}
