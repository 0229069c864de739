package proxy

import (
	"io"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/valyala/fasthttp"
)

// A handler that panics answers 500 and loses its connection; the process and
// other connections go on.
func TestAPanicInTheHandlerCostsOneConnection(t *testing.T) {
	var told atomic.Int32
	g := newGateway(t, Options{}, ServerOptions{OnPanic: func(ctx *fasthttp.RequestCtx, v any) {
		told.Add(1)
		ctx.SetBodyString("sorry")
	}}, func(_ *gateway, ctx *fasthttp.RequestCtx) {
		if string(ctx.Path()) == "/bad" {
			ctx.SetBodyString("half a secret")
			panic("secret in a panic")
		}
		ctx.SetBodyString("fine")
	})
	c := g.dial()
	_, _ = io.WriteString(c, "GET /bad HTTP/1.1\r\nHost: h\r\n\r\nGET /good HTTP/1.1\r\nHost: h\r\n\r\n")
	b, _ := io.ReadAll(c)
	if s := string(b); !strings.HasPrefix(s, "HTTP/1.1 500 ") || !strings.HasSuffix(s, "sorry") ||
		!strings.Contains(s, "Connection: close") || strings.Contains(s, "secret") {
		t.Errorf("%q", s)
	}
	if resp, body, err := g.ask(""); err != nil || resp.StatusCode != 200 || body != "fine" || told.Load() != 1 {
		t.Errorf("%v %q %v", resp, body, err)
	}
}

// A lens that panics ends its own stream without a terminator. Its connection is
// released, and End and done run once each.
func TestAPanicInTheLensEndsOneStream(t *testing.T) {
	u := newUpstream(t, answering(sseHead+chunk("one")+"0\r\n\r\n"))
	tg := endpoint(t, u.addr)
	f := func(name string, lens Lens, ends func() []Cause) {
		t.Run(name, func(t *testing.T) {
			var told atomic.Int32
			g := newGateway(t, Options{OnPanic: func(any) { told.Add(1) }}, ServerOptions{},
				streaming(func() (*plan, Lens) { return &plan{endpoints: []*Endpoint{tg}}, lens }))
			c := g.dial()
			_, _ = io.WriteString(c, post("{}"))
			if b, _ := io.ReadAll(c); strings.HasSuffix(string(b), "0\r\n\r\n") {
				t.Errorf("%q", b)
			}
			if o := g.outcome(); o.Cause != Panic || told.Load() != 1 {
				t.Errorf("%+v, OnPanic ran %d times", o, told.Load())
			}
			select {
			case o := <-g.outcomes:
				t.Errorf("a second outcome %+v", o)
			default:
			}
			if e := ends(); len(e) != 1 {
				t.Errorf("ends %v", e)
			}
			if g.p.Active() != 0 {
				t.Error("still registered")
			}
			eventually(t, "the upstream connection is not leaked",
				func() bool { open, idle := tg.Conns(); return open == idle })
		})
	}
	bad := &noted{pass: func([]byte) ([]byte, bool) { panic("in Pass") }}
	f("in Pass", bad, func() []Cause { _, e := bad.seen(); return e })
	end := &panicEnd{}
	f("in End", end, func() []Cause { return end.ends })
}

type panicEnd struct{ ends []Cause }

func (l *panicEnd) Pass(p []byte) ([]byte, bool) { return p, false }
func (l *panicEnd) End(c Cause) ([]byte, bool) {
	l.ends = append(l.ends, c)
	panic("in End")
}

// A panic in done, after the exchange, is reported and affects no other request.
func TestAPanicInDoneIsContained(t *testing.T) {
	u := newUpstream(t, answering(sseHead+chunk("one")+"0\r\n\r\n"))
	tg := endpoint(t, u.addr)
	var told atomic.Int32
	g := newGateway(t, Options{OnPanic: func(any) { told.Add(1) }}, ServerOptions{},
		func(g *gateway, ctx *fasthttp.RequestCtx) {
			x := new(Exchange)
			g.p.Ask(ctx, x, 0, tg, &Request{Body: ctx.PostBody()})
			x.Relay(ctx, nil, func(Outcome) { panic("in done") })
		})
	for range 3 {
		if _, body, err := g.ask("{}"); err != nil || body != "one" {
			t.Fatalf("%q %v", body, err)
		}
	}
	eventually(t, "all are reported", func() bool { return told.Load() == 3 })
}

// A panic between two attempts, after which the exchange is closed, leaves nothing
// registered.
func TestAPanicBetweenAttemptsIsContained(t *testing.T) {
	u := newUpstream(t, answering(jsonAnswer("x")))
	tg := endpoint(t, u.addr)
	g := newGateway(t, Options{}, ServerOptions{}, func(g *gateway, ctx *fasthttp.RequestCtx) {
		x := new(Exchange)
		defer x.Close()
		pl := &plan{endpoints: []*Endpoint{tg}, request: Request{Body: ctx.PostBody()},
			retry: func(Result) bool { panic("in the verdict") }}
		pl.open(g.p, ctx, x)
	})
	if resp, _, err := g.ask("{}"); err != nil || resp.StatusCode != 500 {
		t.Errorf("%v %v", resp, err)
	}
	if open, idle := tg.Conns(); g.p.Active() != 0 || open != idle {
		t.Errorf("%d registered, %d connections, %d idle", g.p.Active(), open, idle)
	}
}
