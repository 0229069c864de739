package proxy

import (
	"bufio"
	"io"
	"net"
	"testing"
	"time"
)

// A client that gives up while the model thinks stops the upstream before its
// first byte, for streams and for whole answers.
func TestAClientThatLeavesBeforeTheFirstByteStopsTheUpstream(t *testing.T) {
	silent := func(noticed chan<- time.Time) func(net.Conn, *bufio.Reader, int) {
		return func(c net.Conn, r *bufio.Reader, _ int) {
			_, _, _ = readRequest(r)
			_, _ = r.ReadByte()
			noticed <- time.Now()
		}
	}
	half := func(noticed chan<- time.Time) func(net.Conn, *bufio.Reader, int) {
		return func(c net.Conn, r *bufio.Reader, _ int) {
			_, _, _ = readRequest(r)
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nhalf")
			_, _ = r.ReadByte()
			noticed <- time.Now()
		}
	}
	for name, serve := range map[string]func(chan<- time.Time) func(net.Conn, *bufio.Reader, int){"silent": silent,
		"half an answer": half} {
		t.Run(name, func(t *testing.T) {
			noticed := make(chan time.Time, 2)
			u := newUpstream(t, serve(noticed))
			tg := endpoint(t, u.addr)
			var pl *plan
			g := newGateway(t, Options{Tick: 250 * time.Millisecond, HalfCloseGone: true}, ServerOptions{},
				whole(func() *plan {
					pl = &plan{endpoints: []*Endpoint{tg, tg, tg}}
					return pl
				}, 1<<20))
			c := g.dial()
			_, _ = io.WriteString(c, post("{}"))
			eventually(t, "the request is upstream", func() bool { return u.open.Load() == 1 })
			time.Sleep(10 * time.Millisecond)
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
			if r := g.result(); name == "silent" && (r.Cause != ClientGone || len(pl.attempts) != 1) {
				t.Errorf("result %+v", r)
			} else if name != "silent" {
				if o := g.outcome(); o.Cause != ClientGone || o.Complete {
					t.Errorf("outcome %+v", o)
				}
			}
			if u.conns.Load() != 1 {
				t.Errorf("%d attempts for a client that left", u.conns.Load())
			}
			eventually(t, "nothing is registered", func() bool {
				open, _ := tg.Conns()
				return g.p.Active() == 0 &&
					open == 0
			})
		})
	}
}
