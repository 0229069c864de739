package proxy

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/valyala/fasthttp"
)

// Clients that leave at any moment, with a watcher that never rests, do not harm clients
// that stay: no socket of another owner is expired.
func TestDeparturesDoNotHarmOthers(t *testing.T) {
	u := newUpstream(t, func(c net.Conn, r *bufio.Reader, _ int) {
		for n := 0; ; n++ {
			_, body, err := readRequest(r)
			if err != nil {
				return
			}
			if n%3 == 0 {
				time.Sleep(time.Millisecond)
			}
			if _, err := io.WriteString(c, sseHead+chunk(body)); err != nil {
				return
			}
			if n%3 == 1 {
				time.Sleep(time.Millisecond)
			}
			if _, err := io.WriteString(c, chunk(" end")+"0\r\n\r\n"); err != nil {
				return
			}
		}
	})
	tg := endpoint(t, u.addr)
	pool := sync.Pool{}
	pool.New = func() any {
		pl := newOnePlan(tg)
		pl.done = func(Outcome) {
			pl.x.Reset()
			pool.Put(pl)
		}
		return pl
	}
	g := newGateway(t, Options{Tick: 200 * time.Microsecond, HalfCloseGone: true}, ServerOptions{},
		func(g *gateway, ctx *fasthttp.RequestCtx) {
			pl := pool.Get().(*onePlan) // so that guards are registered again and again
			pl.stream = ctx.Request.Header.ContentLength()%2 == 0
			pl.serve(g.p, ctx)
			if !ctx.Response.IsBodyStream() {
				pl.x.Reset()
				pool.Put(pl)
			}
		})
	var stop atomic.Bool
	var wg sync.WaitGroup
	for n := range 6 { // those that leave
		wg.Add(1)
		go func() {
			defer wg.Done()
			rnd := rand.New(rand.NewPCG(7, uint64(n)))
			for !stop.Load() {
				c, err := net.Dial("tcp", g.addr)
				if err != nil {
					t.Error(err)
					return
				}
				_, _ = io.WriteString(c, post(strings.Repeat("x", 2+rnd.IntN(2))))
				time.Sleep(time.Duration(rnd.IntN(2000)) * time.Microsecond)
				if rnd.IntN(2) == 0 {
					_ = c.(*net.TCPConn).SetLinger(0)
				}
				c.Close()
			}
		}()
	}
	var stay sync.WaitGroup
	for n := range 6 { // those that stay
		stay.Add(1)
		go func() {
			defer stay.Done()
			tr := &http.Transport{}
			defer tr.CloseIdleConnections()
			client := &http.Client{Transport: tr, Timeout: 10 * time.Second}
			for i := range 300 {
				body := fmt.Sprintf("%d-%d-%s", n, i, strings.Repeat("y", i%2))
				resp, err := client.Post("http://"+g.addr, "", strings.NewReader(body))
				if err != nil {
					t.Errorf("request %s: %v", body, err)
					return
				}
				b, err := io.ReadAll(resp.Body)
				resp.Body.Close()
				if err != nil || string(b) != body+" end" || resp.StatusCode != 200 {
					t.Errorf("request %s: %d %q %v", body, resp.StatusCode, b, err)
					return
				}
			}
		}()
	}
	stay.Wait()
	stop.Store(true)
	wg.Wait()
	eventually(t, "nothing is registered", func() bool { return g.p.Active() == 0 })
	eventually(t, "all connections are idle or closed", func() bool { open, idle := tg.Conns(); return open == idle })
}

// Without registrations the watcher does not wake, and a phase after a rest of any length
// has its full time.
func TestWatcherRestsWhileNothingIsRegistered(t *testing.T) {
	const tick, limit = time.Millisecond, 60 * time.Millisecond
	w := newWatcher(tick, time.Second, true)
	defer w.shut()
	for range 20 {
		eventually(t, "the watcher rests", w.rests.Load)
		stood := w.nowMs.Load()
		time.Sleep(limit + 20*tick)
		if now := w.nowMs.Load(); now != stood {
			t.Fatalf("the clock went from %d to %d ms though nothing was registered", stood, now)
		}
		var list [8]guard
		var wg sync.WaitGroup
		for i := range list {
			g := &list[i]
			wg.Go(func() {
				began := time.Now()
				w.add(g, nil)
				g.beginPhase(IdleTimeout, limit)
				for g.why() == None && time.Since(began) < 10*time.Second {
					time.Sleep(tick)
				}
				if took, c := time.Since(began), g.why(); c != IdleTimeout || took < limit {
					t.Errorf("a phase of %v ended with %v after %v", limit, c, took)
				}
				w.remove(g)
			})
		}
		wg.Wait()
	}
}
