//go:build !race

package proxy

import (
	"io"
	"net"
	"strings"
	"testing"

	"github.com/valyala/fasthttp"
)

func TestWholeAnswersAllocateNothing(t *testing.T) {
	for _, size := range []int{1000, 5000, 40000} {
		body := `{"model":"m","text":"` + strings.Repeat("x", size) + `"}`
		up := rawUpstream(t, jsonAnswer(`{"answer":"`+strings.Repeat("y", 1000)+`#"}`), []byte(`"}`))
		pl := newOnePlan(endpoint(t, up))
		g := newGateway(t, Options{}, ServerOptions{}, func(g *gateway, ctx *fasthttp.RequestCtx) {
			pl.serve(g.p, ctx)
		})
		c := g.dial()
		request, buf := []byte(post(body)), make([]byte, 64<<10)
		exchange1(t, c, request, buf, []byte(`#"}`))
		if n := testing.AllocsPerRun(300, func() { exchange1(t, c, request, buf, []byte(`#"}`)) }); n != 0 {
			t.Errorf("a request of %d bytes allocates %v times", len(request), n)
		}
	}
}

// A token that is renewed in the background costs a copy of its line.
func TestCredentialsAllocateNothing(t *testing.T) {
	up := rawUpstream(t, jsonAnswer(`{"answer":"#"}`), []byte(`"}`))
	pl := newOnePlan(endpoint(t, up, func(o *EndpointOptions) {
		o.Credential, o.Query = newBadge("Authorization: Bearer "+strings.Repeat("t", 1500)+"\r\n"), "api-version=1"
	}))
	g := newGateway(t, Options{}, ServerOptions{}, func(g *gateway, ctx *fasthttp.RequestCtx) { pl.serve(g.p, ctx) })
	c := g.dial()
	request, buf := []byte(post(`{"model":"m"}`)), make([]byte, 64<<10)
	exchange1(t, c, request, buf, []byte(`#"}`))
	if n := testing.AllocsPerRun(300, func() { exchange1(t, c, request, buf, []byte(`#"}`)) }); n != 0 {
		t.Errorf("a request with a credential allocates %v times", n)
	}
}

func TestStreamsAllocateLittleAndEventsNothing(t *testing.T) {
	count := func(events int) float64 {
		answer := sseHead + strings.Repeat(chunk("data: {\"delta\":\"hello\"}\n\n"), events) + "0\r\n\r\n"
		up := rawUpstream(t, answer, []byte(`}`))
		pl := newOnePlan(endpoint(t, up))
		pl.stream = true
		g := newGateway(t, Options{}, ServerOptions{}, func(g *gateway, ctx *fasthttp.RequestCtx) {
			pl.serve(g.p, ctx)
		})
		c := g.dial()
		request, buf := []byte(post("{}")), make([]byte, 1<<20)
		exchange1(t, c, request, buf, []byte("0\r\n\r\n"))
		return testing.AllocsPerRun(300, func() { exchange1(t, c, request, buf, []byte("0\r\n\r\n")) })
	}
	few, many := count(2), count(2000)
	if few > 4 || many > few+1 {
		t.Errorf("a stream of 2 events allocates %v times, of 2000 %v times", few, many)
	}
}

func TestPiecesAllocateNothing(t *testing.T) {
	var h head
	p := []byte("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 5\r\nX-Request-Id: " +
		"abc\r\nConnection: keep-alive\r\n\r\n")
	f := func(name string, fn func()) {
		t.Helper()
		fn()
		if n := testing.AllocsPerRun(100, fn); n != 0 {
			t.Errorf("%s allocates %v times", name, n)
		}
	}
	px := New(Options{})
	defer px.Close()
	f("a head", func() { _ = h.parse(p, px.watch.began) })
	c, other := net.Pipe()
	defer c.Close()
	defer other.Close()
	var gd guard
	f("watching", func() {
		px.watch.add(&gd, c)
		gd.beginPhase(FirstByteTimeout, 1)
		px.watch.remove(&gd)
	})
	dst := make([]byte, 0, 100)
	patches := []Patch{{1, 2, []byte("ab")}, {4, 4, nil}}
	f("patching", func() { dst = AppendPatched(dst[:0], p[:50], patches) })
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	go func() {
		c, err := ln.Accept()
		if err == nil {
			_, _ = io.Copy(io.Discard, c)
			c.Close()
		}
	}()
	tcp, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	fd := rawFD(tcp)
	f("looking whether a connection is quiet", func() {
		if !quiet(fd) {
			t.Error("it is not")
		}
	})
}
