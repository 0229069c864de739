package proxy

import (
	"bytes"
	"net"
	"testing"

	"github.com/valyala/fasthttp"
)

// The rig of allocation tests and timings: an upstream, a plan and a client
// that cost nothing themselves.

// rawUpstream answers every request of requestLen bytes with the same bytes, and
// allocates nothing once it is connected.
func rawUpstream(t testing.TB, answer string, requestEnd []byte) string {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	out := []byte(answer)
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				b := make([]byte, 1<<20)
				n := 0
				for {
					k, err := c.Read(b[n:])
					if err != nil {
						return
					}
					if n += k; bytes.HasSuffix(b[:n], requestEnd) {
						n = 0
						if _, err := c.Write(out); err != nil {
							return
						}
					}
				}
			}()
		}
	}()
	return ln.Addr().String()
}

// onePlan is a plan without allocations: one target, one request.
type onePlan struct {
	target  *Endpoint
	request Request
	lens    bytesLens
	x       Exchange
	buf     []byte
	done    func(Outcome)
	doneCh  chan Outcome
	stream  bool
}

type bytesLens struct{ in int }

func (l *bytesLens) Pass(p []byte) ([]byte, bool) { l.in += len(p); return p, false }
func (l *bytesLens) End(Cause) ([]byte, bool)     { return nil, true }

func newOnePlan(tg *Endpoint) *onePlan {
	p := &onePlan{target: tg, doneCh: make(chan Outcome, 1)}
	p.done = func(o Outcome) {
		p.x.Reset()
		select {
		case p.doneCh <- o:
		default:
		}
	}
	return p
}

func (p *onePlan) serve(px *Proxy, ctx *fasthttp.RequestCtx) {
	p.request.Path = chatPath
	p.request.Body = ctx.PostBody()
	if px.Ask(ctx, &p.x, 0, p.target, &p.request).Cause != None {
		ctx.SetStatusCode(502)
		return
	}
	if p.stream {
		ctx.Response.Header.SetContentTypeBytes(p.x.ContentType())
		p.x.Relay(ctx, &p.lens, p.done)
		return
	}
	var err error
	if p.buf, _, err = p.x.Body(p.buf[:0], 1<<20); err != nil {
		ctx.SetStatusCode(502)
	}
	ctx.SetBody(p.buf)
	p.x.Reset()
}

var chatPath = []byte("/chat/completions")

// exchange1 sends request and reads until the answer ends with end.
func exchange1(t testing.TB, c net.Conn, request, buf, end []byte) {
	if _, err := c.Write(request); err != nil {
		t.Fatal(err)
	}
	for n := 0; ; {
		k, err := c.Read(buf[n:])
		if err != nil {
			t.Fatal(err)
		}
		if n += k; bytes.HasSuffix(buf[:n], end) {
			return
		}
	}
}
