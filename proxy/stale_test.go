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

// An upstream closes its idle connections after a few seconds. The next request must not
// fail because of it.
func TestAnIdleConnectionThatDiedIsNotUsed(t *testing.T) {
	f := func(name string, die func(c net.Conn)) {
		t.Run(name, func(t *testing.T) {
			u := newUpstream(t, func(c net.Conn, r *bufio.Reader, n int) {
				_, _, _ = readRequest(r)
				_, _ = io.WriteString(c, jsonAnswer("x"))
				if n == 0 {
					die(c)
					return
				}
				answering(jsonAnswer("x"))(c, r, n)
			})
			tg := endpoint(t, u.addr)
			var pl *plan
			g := newGateway(t, Options{}, ServerOptions{}, whole(func() *plan {
				pl = &plan{endpoints: []*Endpoint{tg}}
				return pl
			}, 100))
			for range 3 {
				if resp, body, err := g.ask("{}"); err != nil || resp.StatusCode != 200 || body != "x" {
					t.Fatalf("%v %q %v", resp, body, err)
				}
				if len(pl.attempts) != 1 {
					t.Fatalf("attempts %+v", pl.attempts)
				}
				time.Sleep(200 * time.Millisecond)
			}
			if n := u.conns.Load(); n != 2 {
				t.Errorf("%d connections", n)
			}
		})
	}
	f("closed", func(net.Conn) {})
	f("reset", func(c net.Conn) { _ = c.(*net.TCPConn).SetLinger(0) })
	// Unasked bytes would be the answer to the next client's request.
	f("unasked bytes", func(c net.Conn) {
		_, _ = io.WriteString(c, jsonAnswer("somebody else's"))
		time.Sleep(400 * time.Millisecond)
	})
}

// A connection that dies during our request may have had its effect. The request is
// repeated only where the operator declares that safe.
func TestARequestIsNotRepeatedInSilence(t *testing.T) {
	for _, safe := range []bool{false, true} {
		var requests atomic.Int32
		u := newUpstream(t, func(c net.Conn, r *bufio.Reader, n int) {
			for i := 0; ; i++ {
				if _, _, err := readRequest(r); err != nil {
					return
				}
				requests.Add(1)
				if n == 0 && i == 1 {
					return // took the request and died
				}
				_, _ = io.WriteString(c, jsonAnswer("x"))
			}
		})
		tg := endpoint(t, u.addr, func(o *EndpointOptions) { o.RetrySafe = safe })
		var pl *plan
		g := newGateway(t, Options{}, ServerOptions{}, whole(func() *plan {
			pl = &plan{endpoints: []*Endpoint{tg}}
			return pl
		}, 100))
		if _, _, err := g.ask("{}"); err != nil {
			t.Fatal(err)
		}
		resp, _, err := g.ask("{}")
		if err != nil {
			t.Fatal(err)
		}
		a := pl.attempts[0]
		if safe && (resp.StatusCode != 200 || requests.Load() != 3 || a.Cause != None) {
			t.Errorf("retry_safe: status %d after %d requests, %+v", resp.StatusCode, requests.Load(), a)
		}
		if !safe && (resp.StatusCode != 502 || requests.Load() != 2 || a.Cause != UpstreamReset || !a.Reused ||
			!a.Sent) {
			t.Errorf("status %d after %d requests, %+v", resp.StatusCode, requests.Load(), a)
		}
	}
}

// A new connection that dies is never retried.
func TestAFreshConnectionIsNotRetried(t *testing.T) {
	u := newUpstream(t, func(c net.Conn, r *bufio.Reader, _ int) { _, _, _ = readRequest(r) })
	tg := endpoint(t, u.addr, func(o *EndpointOptions) { o.RetrySafe = true })
	g := newGateway(t, Options{}, ServerOptions{}, whole(func() *plan { return &plan{endpoints: []*Endpoint{tg}} },
		100))
	if resp, body, err := g.ask("{}"); err != nil || resp.StatusCode != 502 || body != "upstream_reset" ||
		u.conns.Load() != 1 {
		t.Fatalf("%v %q %v, %d connections", resp, body, err, u.conns.Load())
	}
}

func TestIdleConnectionsAreClosedInTime(t *testing.T) {
	u := newUpstream(t, answering(jsonAnswer("x")))
	tg := endpoint(t, u.addr, func(o *EndpointOptions) { o.MaxIdle = 50 * time.Millisecond })
	g := newGateway(t, Options{}, ServerOptions{}, whole(func() *plan { return &plan{endpoints: []*Endpoint{tg}} },
		100))
	if _, _, err := g.ask("{}"); err != nil {
		t.Fatal(err)
	}
	if open, idle := tg.Conns(); open != 1 || idle != 1 {
		t.Fatalf("%d open, %d idle", open, idle)
	}
	eventually(t, "the idle connection is closed", func() bool {
		open, _ := tg.Conns()
		return open == 0 &&
			u.open.Load() == 0
	})
}

// The next target gets the request when the first cannot even be connected.
func TestTheNextTargetIsTried(t *testing.T) {
	dead, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	dead.Close()
	busy := newUpstream(t, answering("HTTP/1.1 429 Slow Down\r\nRetry-After: 7\r\nContent-Length: 4\r\n\r\nbusy"))
	good := newUpstream(t, answering(jsonAnswer("good")))
	a, b, c := endpoint(t, dead.Addr().String()), endpoint(t, busy.addr), endpoint(t, good.addr)
	var pl *plan
	retryErrors := func(at Result) bool { return at.Cause != None || at.Status != 200 }
	targets := []*Endpoint{a, b, c}
	g := newGateway(t, Options{}, ServerOptions{}, whole(func() *plan {
		pl = &plan{endpoints: targets, retry: retryErrors}
		return pl
	}, 100))
	if resp, body, err := g.ask("{}"); err != nil || resp.StatusCode != 200 || body != "good" {
		t.Fatalf("%v %q %v", resp, body, err)
	}
	if r := g.result(); len(pl.attempts) != 3 || r.Status != 200 {
		t.Errorf("%+v", r)
	}
	if at := pl.attempts; len(at) != 3 || at[0].Cause != ConnectFailed || at[0].Sent || at[1].Status != 429 ||
		at[1].RetryAfter != 7*time.Second {
		t.Errorf("%+v", at)
	}
	if strings.ContainsAny(pl.attempts[0].Err.Error(), "0123456789") {
		t.Errorf("an address in %q", pl.attempts[0].Err)
	}
	if open, idle := b.Conns(); open != 1 || idle != 1 {
		t.Errorf("the busy target's connection was not kept: %d %d", open, idle)
	}

	// With no target left the last answer can still be read.
	targets = []*Endpoint{a, b}
	if resp, body, err := g.ask("{}"); err != nil || resp.StatusCode != 429 || body != "busy" {
		t.Fatalf("%v %q %v", resp, body, err)
	}
	if r := g.result(); r.Status != 429 || r.RetryAfter != 7*time.Second || r.Cause != None {
		t.Errorf("%+v", r)
	}
	targets = []*Endpoint{b, a}
	if resp, body, err := g.ask("{}"); err != nil || resp.StatusCode != 502 || body != "connect_failed" {
		t.Fatalf("%v %q %v", resp, body, err)
	}
	targets = nil
	if resp, body, err := g.ask("{}"); err != nil || body != "no_target" {
		t.Fatalf("%v %q %v", resp, body, err)
	}
}
