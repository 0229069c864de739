package proxy

import (
	"bufio"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// A client that stops reading frees its stream after ClientStall, and only then.
func TestAClientThatStopsReadingIsCut(t *testing.T) {
	piece := strings.Repeat("x", 64<<10)
	u := newUpstream(t, func(c net.Conn, r *bufio.Reader, _ int) {
		_, _, _ = readRequest(r)
		_, _ = io.WriteString(c, sseHead)
		for {
			if _, err := io.WriteString(c, chunk(piece)); err != nil {
				return
			}
		}
	})
	tg := endpoint(t, u.addr)
	lens := &noted{}
	g := newGateway(t, Options{ClientStall: 300 * time.Millisecond}, ServerOptions{},
		streaming(func() (*plan, Lens) { return &plan{endpoints: []*Endpoint{tg}}, lens }))
	c := g.dial()
	_, _ = io.WriteString(c, post("{}"))
	start := time.Now()
	o := g.outcome()
	if took := time.Since(start); o.Cause != ClientStalled || took < 300*time.Millisecond || took > 300*time.Millisecond+standstill {
		t.Errorf("after %s: %+v", took, o)
	}
	if _, ends := lens.seen(); len(ends) != 1 || ends[0] != ClientStalled {
		t.Errorf("ends %v", ends)
	}
	eventually(t, "both connections are closed", func() bool {
		open, _ := tg.Conns()
		return open == 0 &&
			u.open.Load() == 0
	})
}

// A slow reader is not a stalled one.
func TestASlowReaderIsServed(t *testing.T) {
	body := strings.Repeat("x", 24<<20)
	u := newUpstream(t, answering(sseHead+chunk(body)+"0\r\n\r\n"))
	tg := endpoint(t, u.addr)
	g := newGateway(t, Options{ClientStall: 3 * time.Second}, ServerOptions{},
		streaming(func() (*plan, Lens) { return &plan{endpoints: []*Endpoint{tg}}, nil }))
	c := g.dial()
	_, _ = io.WriteString(c, post("{}"))
	b := make([]byte, 64<<10)
	n := 0
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		k, err := c.Read(b)
		n += k
		if err != nil {
			t.Fatalf("cut after %d bytes: %v", n, err)
		}
	}
	for {
		k, err := c.Read(b)
		n += k
		if err != nil || strings.HasSuffix(string(b[:k]), "0\r\n\r\n") {
			break
		}
	}
	if o := g.outcome(); !o.Complete || o.BytesOut != int64(len(body)) || n < len(body) {
		t.Errorf("%+v", o)
	}
}

// A plain response to a client that does not read it must not hold its goroutine forever.
func TestAStalledPlainResponseIsCut(t *testing.T) {
	body := strings.Repeat("x", 32<<20)
	u := newUpstream(t, answering(jsonAnswer(body)))
	tg := endpoint(t, u.addr)
	g := newGateway(t, Options{}, ServerOptions{WriteTimeout: 300 * time.Millisecond},
		whole(func() *plan { return &plan{endpoints: []*Endpoint{tg}} }, 64<<20))
	c := g.dial()
	_, _ = io.WriteString(c, post("{}"))
	g.outcome()
	eventually(t, "the server has closed the connection", func() bool { return g.s.GetOpenConnectionsCount() <= 1 })
}

func TestEachPhaseHasItsLimit(t *testing.T) {
	const limit = 200 * time.Millisecond
	f := func(name string, want Cause, change func(*EndpointOptions), serve func(c net.Conn, r *bufio.Reader, _ int)) {
		t.Run(name, func(t *testing.T) {
			u := newUpstream(t, serve)
			tg := endpoint(t, u.addr, change)
			g := newGateway(t, Options{}, ServerOptions{}, whole(func() *plan {
				return &plan{endpoints: []*Endpoint{tg}}
			}, 1<<20))
			start := time.Now()
			resp, body, err := g.ask("{}")
			took := time.Since(start)
			if err != nil || resp.StatusCode != 502 || body != want.String() {
				t.Fatalf("%v %q %v", resp, body, err)
			}
			if took < limit || took > limit+standstill {
				t.Errorf("after %s", took)
			}
			eventually(t, "the upstream connection is closed", func() bool {
				open, _ := tg.Conns()
				return open == 0 &&
					u.open.Load() == 0
			})
		})
	}
	wait := func(c net.Conn, r *bufio.Reader) { _, _ = r.ReadByte() }
	f("first byte", FirstByteTimeout, func(o *EndpointOptions) { o.FirstByte = limit },
		func(c net.Conn, r *bufio.Reader, _ int) {
			_, _, _ = readRequest(r)
			wait(c, r)
		})
	f("first byte, dripping head", FirstByteTimeout, func(o *EndpointOptions) { o.FirstByte = limit },
		func(c net.Conn, r *bufio.Reader, _ int) {
			_, _, _ = readRequest(r)
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nX: ")
			for {
				if _, err := io.WriteString(c, "x"); err != nil {
					return
				}
				time.Sleep(5 * time.Millisecond)
			}
		})
	f("idle", IdleTimeout, func(o *EndpointOptions) { o.Idle = limit }, func(c net.Conn, r *bufio.Reader, _ int) {
		_, _, _ = readRequest(r)
		_, _ = io.WriteString(c, sseHead+chunk("x"))
		wait(c, r)
	})
	f("total", TotalTimeout, func(o *EndpointOptions) { o.Total = limit }, func(c net.Conn, r *bufio.Reader, _ int) {
		_, _, _ = readRequest(r)
		_, _ = io.WriteString(c, sseHead)
		for {
			if _, err := io.WriteString(c, chunk("x")); err != nil {
				return
			}
			time.Sleep(5 * time.Millisecond)
		}
	})
}

// Pauses within the limits break no stream, even if they add up to more.
func TestPausesWithinTheLimitAreFine(t *testing.T) {
	u := newUpstream(t, func(c net.Conn, r *bufio.Reader, _ int) {
		_, _, _ = readRequest(r)
		_, _ = io.WriteString(c, sseHead)
		for range 8 {
			time.Sleep(500 * time.Millisecond)
			_, _ = io.WriteString(c, chunk("x"))
		}
		_, _ = io.WriteString(c, "0\r\n\r\n")
	})
	tg := endpoint(t, u.addr, func(o *EndpointOptions) {
		o.Idle, o.FirstByte = 3*time.Second, 3*time.Second
	})
	g := newGateway(t, Options{}, ServerOptions{}, streaming(func() (*plan, Lens) {
		return &plan{endpoints: []*Endpoint{tg}}, nil
	}))
	if _, body, err := g.ask("{}"); err != nil || body != "xxxxxxxx" {
		t.Fatalf("%q %v", body, err)
	}
}

func TestConnectionsOfATargetAreLimited(t *testing.T) {
	release := make(chan bool)
	u := newUpstream(t, func(c net.Conn, r *bufio.Reader, _ int) {
		_, _, _ = readRequest(r)
		<-release
		_, _ = io.WriteString(c, jsonAnswer("x"))
	})
	tg := endpoint(t, u.addr, func(o *EndpointOptions) { o.MaxConns = 2 })
	g := newGateway(t, Options{}, ServerOptions{}, whole(func() *plan { return &plan{endpoints: []*Endpoint{tg}} },
		100))
	var ok atomic.Int32
	done := make(chan bool)
	for range 2 {
		go func() {
			if resp, _, err := g.ask("{}"); err == nil && resp.StatusCode == 200 {
				ok.Add(1)
			}
			done <- true
		}()
	}
	eventually(t, "both connections are in use", func() bool { return u.open.Load() == 2 })
	if _, body, err := g.ask("{}"); err != nil || body != "no_free_conn" {
		t.Errorf("%q %v", body, err)
	}
	close(release)
	<-done
	<-done
	if ok.Load() != 2 {
		t.Errorf("%d of 2 answers", ok.Load())
	}
}
