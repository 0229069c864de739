package proxy

import (
	"bufio"
	"io"
	"math/rand/v2"
	"net"
	"runtime"
	"sync"
	"testing"
	"time"
)

// After any mixture of good and bad ends all registrations, connections and goroutines
// are released, and every done was called exactly once.
func TestNothingIsLeftBehind(t *testing.T) {
	before := runtime.NumGoroutine()
	u := newUpstream(t, func(c net.Conn, r *bufio.Reader, n int) {
		rnd := rand.New(rand.NewPCG(9, uint64(n)))
		for {
			if _, _, err := readRequest(r); err != nil {
				return
			}
			switch rnd.IntN(7) {
			case 0:
				_, _ = io.WriteString(c, jsonAnswer("x"))
			case 1:
				_, _ = io.WriteString(c, sseHead+chunk("a"))
				time.Sleep(time.Duration(rnd.IntN(30)) * time.Millisecond)
				_, _ = io.WriteString(c, chunk("b")+"0\r\n\r\n")
			case 2:
				_, _ = io.WriteString(c, sseHead+chunk("a"))
				return
			case 3:
				return
			case 4:
				_, _ = io.WriteString(c, "nonsense\r\n\r\n")
				return
			case 5:
				_, _ = io.WriteString(c, sseHead+chunk("a"))
				_, _ = r.ReadByte() // never goes on
				return
			case 6:
				_ = c.(*net.TCPConn).SetLinger(0)
				return
			}
		}
	})
	tg := endpoint(t, u.addr, func(o *EndpointOptions) {
		o.Idle, o.FirstByte = 150*time.Millisecond,
			150*time.Millisecond
	})
	dead := endpoint(t, "127.0.0.1:1")
	g := newGateway(t, Options{HalfCloseGone: true}, ServerOptions{}, streaming(func() (*plan, Lens) {
		return &plan{endpoints: []*Endpoint{dead, tg, tg}}, &noted{}
	}))
	const clients, requests = 20, 25
	var wg sync.WaitGroup
	for n := range clients {
		wg.Add(1)
		go func() {
			defer wg.Done()
			rnd := rand.New(rand.NewPCG(5, uint64(n)))
			for range requests {
				c, err := net.Dial("tcp", g.addr)
				if err != nil {
					t.Error(err)
					return
				}
				_, _ = io.WriteString(c, post("{}"))
				_ = c.SetReadDeadline(time.Now().Add(time.Duration(rnd.IntN(100)) * time.Millisecond))
				_, _ = io.Copy(io.Discard, c)
				c.Close()
			}
		}()
	}
	wg.Wait()
	eventually(t, "no exchange is registered", func() bool { return g.p.Active() == 0 })
	eventually(t, "only idle connections are left", func() bool { open, idle := tg.Conns(); return open == idle })
	if open, _ := dead.Conns(); open != 0 {
		t.Errorf("%d connections to nowhere", open)
	}
	opened := 0
	for len(g.results) > 0 {
		if r := <-g.results; r.Cause == None {
			opened++
		}
	}
	eventually(t, "every relay has an outcome", func() bool { return len(g.outcomes) >= opened })
	if n := len(g.outcomes); n != opened {
		t.Errorf("%d outcomes of %d relays", n, opened)
	}
	tg.Close()
	dead.Close()
	if open, _ := tg.Conns(); open != 0 {
		t.Errorf("%d connections of a closed target", open)
	}
	g.stop()
	u.ln.Close()
	eventually(t, "the goroutines have ended", func() bool {
		return runtime.NumGoroutine() <= before+2 // the server's idle workers stop a little later
	})
}
