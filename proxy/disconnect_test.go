package proxy

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"farebox/config/fair"
)

// talking streams events until its peer closes and reports when it noticed.
func talking(pause time.Duration, noticed chan<- time.Time) func(net.Conn, *bufio.Reader, int) {
	return func(c net.Conn, r *bufio.Reader, _ int) {
		_, _, _ = readRequest(r)
		_, _ = io.WriteString(c, sseHead)
		closed := make(chan struct{})
		go func() {
			_, _ = r.ReadByte()
			close(closed)
		}()
		for {
			select {
			case <-closed:
				noticed <- time.Now()
				return
			case <-time.After(pause):
				_, _ = io.WriteString(c, chunk("data: x\n\n"))
			}
		}
	}
}

// A client that closes in the middle of a stream stops the upstream, both while events
// arrive and while the model is thinking.
func TestAClientThatLeavesMidStreamStopsTheUpstream(t *testing.T) {
	for name, pause := range map[string]time.Duration{"talking": 5 * time.Millisecond, "silent": time.Hour} {
		t.Run(name, func(t *testing.T) {
			noticed := make(chan time.Time, 1)
			u := newUpstream(t, talking(pause, noticed))
			tg := endpoint(t, u.addr)
			lens := &noted{}
			g := newGateway(t, Options{Tick: 250 * time.Millisecond, HalfCloseGone: true}, ServerOptions{},
				streaming(func() (*plan, Lens) { return &plan{endpoints: []*Endpoint{tg}}, lens }))
			c := g.dial()
			_, _ = io.WriteString(c, post("{}"))
			b := make([]byte, 100)
			if _, err := c.Read(b); err != nil {
				t.Fatal(err)
			}
			left := time.Now()
			c.Close()
			select {
			case at := <-noticed:
				if d := at.Sub(left); d > standstill {
					t.Errorf("the upstream was closed only after %s", d)
				}
			case <-time.After(time.Minute):
				t.Fatal("the upstream was never closed")
			}
			if o := g.outcome(); o.Cause != ClientGone || o.Complete {
				t.Errorf("outcome %+v", o)
			}
			if _, ends := lens.seen(); len(ends) != 1 || ends[0] != ClientGone {
				t.Errorf("ends %v", ends)
			}
			eventually(t, "the connection is given up", func() bool {
				open, _ := tg.Conns()
				return open == 0 &&
					g.p.Active() == 0
			})
		})
	}
}

// Bytes that the client sent before it left do not hide its leaving.
func TestAClientThatLeavesBehindPipelinedBytesIsNoticed(t *testing.T) {
	noticed := make(chan time.Time, 1)
	u := newUpstream(t, talking(time.Hour, noticed))
	tg := endpoint(t, u.addr)
	g := newGateway(t, Options{HalfCloseGone: true}, ServerOptions{},
		streaming(func() (*plan, Lens) { return &plan{endpoints: []*Endpoint{tg}}, nil }))
	c := g.dial()
	_, _ = io.WriteString(c, post("{}")+post(strings.Repeat("x", 5000))+strings.Repeat("y", 20000))
	_, _ = c.Read(make([]byte, 10))
	_ = c.(*net.TCPConn).CloseWrite()
	select {
	case <-noticed:
	case <-time.After(time.Minute):
		t.Fatal("the upstream was never closed")
	}
}

// By policy a client that only shut its sending side still gets its answer.
func TestAHalfClosedClientIsServedWhenPolicySaysSo(t *testing.T) {
	u := newUpstream(t, func(c net.Conn, r *bufio.Reader, _ int) {
		_, _, _ = readRequest(r)
		time.Sleep(10 * testTick)
		_, _ = io.WriteString(c, sseHead+chunk("late")+"0\r\n\r\n")
	})
	tg := endpoint(t, u.addr)
	g := newGateway(t, Options{HalfCloseGone: false}, ServerOptions{},
		streaming(func() (*plan, Lens) { return &plan{endpoints: []*Endpoint{tg}}, nil }))
	c := g.dial()
	_, _ = io.WriteString(c, post("{}"))
	_ = c.(*net.TCPConn).CloseWrite()
	b, err := io.ReadAll(c)
	if err != nil || !strings.Contains(string(b), "late") {
		t.Fatalf("%q %v", b, err)
	}
}

// With drain an answer is read to its end for its usage, within its limits.
func TestAnAnswerIsReadOnForADepartedClient(t *testing.T) {
	var end atomic.Bool
	u := newUpstream(t, func(c net.Conn, r *bufio.Reader, _ int) {
		_, _, _ = readRequest(r)
		_, _ = io.WriteString(c, sseHead+chunk("first"))
		for !end.Load() {
			time.Sleep(time.Millisecond)
		}
		_, _ = io.WriteString(c, chunk(" usage")+"0\r\n\r\n")
		_, _ = r.ReadByte()
	})
	tg := endpoint(t, u.addr)
	asked := atomic.Int32{}
	run := func(allow bool, most int64, limit time.Duration) (Outcome, string, []Cause) {
		end.Store(false)
		lens := &noted{}
		g := newGateway(t, Options{HalfCloseGone: true}, ServerOptions{},
			streaming(func() (*plan, Lens) { return &plan{endpoints: []*Endpoint{tg}}, lens }, func(x *Exchange) {
				x.DrainOnGone(most, func() (time.Duration, bool) { asked.Add(1); return limit, allow })
			}))
		c := g.dial()
		_, _ = io.WriteString(c, post("{}"))
		_, _ = c.Read(make([]byte, 10))
		before := asked.Load()
		c.Close()
		eventually(t, "the departure is noticed", func() bool { return asked.Load() > before })
		time.Sleep(8 * testTick)
		end.Store(true)
		o := g.outcome()
		in, ends := lens.seen()
		return o, in, ends
	}
	if o, in, ends := run(true, 0, time.Minute); !o.Complete || !o.Drained || o.Cause != ClientGone ||
		in != "first usage" || len(ends) != 1 || ends[0] != ClientGone {
		t.Errorf("allowed: %+v %q %v", o, in, ends)
	}
	if o, in, _ := run(false, 0, time.Minute); o.Complete || o.Drained || o.Cause != ClientGone || in != "first" {
		t.Errorf("refused: %+v %q", o, in)
	}
	if o, in, _ := run(true, 0, 2*testTick); o.Complete || !o.Drained || o.Cause != ClientGone || in != "first" {
		t.Errorf("out of time: %+v %q", o, in)
	}
	if o, _, _ := run(true, 3, time.Minute); o.Complete && o.BytesIn > 40 || !o.Drained {
		t.Errorf("out of bytes: %+v", o)
	}
	if asked.Load() != 4 {
		t.Errorf("asked %d times for 4 departures", asked.Load())
	}
}

// The connection of a client that was cut is never used for another request.
func TestACutClientConnectionIsClosed(t *testing.T) {
	noticed := make(chan time.Time, 1)
	u := newUpstream(t, talking(time.Hour, noticed))
	tg := endpoint(t, u.addr)
	g := newGateway(t, Options{HalfCloseGone: true}, ServerOptions{},
		streaming(func() (*plan, Lens) { return &plan{endpoints: []*Endpoint{tg}}, nil }))
	c := g.dial()
	_, _ = io.WriteString(c, post("{}"))
	_, _ = c.Read(make([]byte, 4000))
	_ = c.(*net.TCPConn).CloseWrite()
	if b, err := io.ReadAll(c); strings.Contains(string(b), "0\r\n\r\n") || err != nil && !errors.Is(err, io.EOF) &&
		!strings.Contains(err.Error(), "reset") {
		t.Fatalf("%q %v", b, err)
	}
}

// "Clients that left hold all connections to the upstream, and mine is refused."
func TestAnswersWithoutClientsLeaveConnectionsToOthers(t *testing.T) {
	ended := make(chan bool)
	defer close(ended)
	u := newUpstream(t, func(c net.Conn, r *bufio.Reader, _ int) {
		_, _, _ = readRequest(r)
		_, _ = io.WriteString(c, sseHead+chunk("first"))
		<-ended
	})
	tg := endpoint(t, u.addr, func(o *EndpointOptions) { o.MaxConns = 4 })
	relay := streaming(func() (*plan, Lens) { return &plan{endpoints: []*Endpoint{tg}}, nil }, func(x *Exchange) {
		x.DrainOnGone(0, func() (time.Duration, bool) { return time.Minute, true })
	})
	g := newGateway(t, Options{HalfCloseGone: true}, ServerOptions{}, func(g *gateway, ctx *fasthttp.RequestCtx) {
		ClientOf(ctx.Conn()).Owner = fair.Paid(uint64(len(ctx.PostBody())))
		relay(g, ctx)
	})
	ask := func(account int) net.Conn {
		c := g.dial()
		_, _ = io.WriteString(c, post(strings.Repeat("x", account)))
		b := make([]byte, 100)
		if n, err := c.Read(b); err != nil || !strings.Contains(string(b[:n]), " 200 ") {
			t.Fatalf("account %d is answered %q (%v)", account, b[:n], err)
		}
		return c
	}
	leave := func(clients ...net.Conn) {
		for _, c := range clients {
			_ = c.Close()
		}
	}
	open := func(want int) {
		t.Helper()
		eventually(t, fmt.Sprintf("%d connections are open", want), func() bool { n, _ := tg.Conns(); return n == want })
	}
	leave(ask(1), ask(1), ask(1), ask(1))
	open(1)
	leave(ask(2), ask(2))
	open(2)
	leave(ask(1), ask(2))
	open(2)
	stays := []net.Conn{ask(3), ask(3)}
	open(4)
	leave(stays...)
}
