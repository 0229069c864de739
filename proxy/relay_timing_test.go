//go:build unix

package proxy

import (
	"bytes"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/valyala/fasthttp"
	"golang.org/x/sys/unix"
)

// cpuTime is the processor time of this process: clients, gateway and upstream.
func cpuTime() time.Duration {
	var u unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// hammer sends b.N requests over 64 connections and reports CPU time each.
func hammer(b *testing.B, addr string, request, end []byte, perRequest int) {
	const clients = 64
	conns := make([]net.Conn, clients)
	for i := range conns {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			b.Fatal(err)
		}
		defer c.Close()
		conns[i] = c
		exchange1(b, c, request, make([]byte, 1<<20), end)
	}
	var wg sync.WaitGroup
	b.ReportAllocs()
	b.ResetTimer()
	start := cpuTime()
	for i, c := range conns {
		wg.Add(1)
		go func() {
			defer wg.Done()
			buf := make([]byte, 1<<20)
			for n := i; n < b.N; n += clients {
				exchange1(b, c, request, buf, end)
			}
		}()
	}
	wg.Wait()
	b.StopTimer()
	b.ReportMetric(float64(cpuTime()-start)/float64(b.N*perRequest)/1000, "cpu-µs/op")
}

// BenchmarkWholeAnswers compares the CPU time of one request: straight to the upstream,
// through fasthttp's own client as a relay, through the exchange. The gateway's share is
// its figure less that of direct.
func BenchmarkWholeAnswers(b *testing.B) {
	for _, size := range []struct {
		name string
		n    int
	}{{"1KB", 1000}, {"32KB", 32000}, {"256KB", 256000}} {
		request := []byte(post(`{"model":"m","text":"` + strings.Repeat("x", size.n) + `"}`))
		end := []byte(`#"}`)
		up := rawUpstream(b, jsonAnswer(`{"answer":"`+strings.Repeat("y", 1000)+`#"}`), []byte(`"}`))
		b.Run(size.name+"/direct", func(b *testing.B) { hammer(b, up, request, end, 1) })
		b.Run(size.name+"/bare", func(b *testing.B) {
			hc := &fasthttp.HostClient{Addr: up, MaxConns: 1024, ConnPoolStrategy: fasthttp.LIFO}
			g := newGateway(b, Options{}, ServerOptions{}, func(_ *gateway, ctx *fasthttp.RequestCtx) {
				ctx.Request.SetHost(up)
				if err := hc.Do(&ctx.Request, &ctx.Response); err != nil {
					ctx.SetStatusCode(502)
				}
			})
			hammer(b, g.addr, request, end, 1)
		})
		b.Run(size.name+"/exchange", func(b *testing.B) {
			tg := endpoint(b, up)
			pool := sync.Pool{New: func() any { return newOnePlan(tg) }}
			g := newGateway(b, Options{Tick: defaultTick, HalfCloseGone: true}, ServerOptions{},
				func(g *gateway, ctx *fasthttp.RequestCtx) {
					pl := pool.Get().(*onePlan)
					pl.serve(g.p, ctx)
					pool.Put(pl)
				})
			hammer(b, g.addr, request, end, 1)
		})
	}
}

// BenchmarkStreams is the CPU time of one event of about 200 bytes: each in its
// own write of the upstream, or eight in one.
func BenchmarkStreams(b *testing.B) {
	event := chunk("data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"" + strings.Repeat("x", 90) + "\"}}]}\n\n")
	for _, burst := range []int{1, 8} {
		const events = 160
		request, end := []byte(post("{}")), []byte("\r\n0\r\n\r\n")
		up := streamUpstream(b, []byte(strings.Repeat(event, burst)), events/burst)
		name := map[int]string{1: "single", 8: "burst8"}[burst]
		b.Run(name+"/direct", func(b *testing.B) { hammer(b, up, request, end, events) })
		b.Run(name+"/bare", func(b *testing.B) {
			hc := &fasthttp.HostClient{Addr: up, MaxConns: 1024, ConnPoolStrategy: fasthttp.LIFO,
				StreamResponseBody: true}
			g := newGateway(b, Options{}, ServerOptions{}, func(_ *gateway, ctx *fasthttp.RequestCtx) {
				ctx.Request.SetHost(up)
				if err := hc.Do(&ctx.Request, &ctx.Response); err != nil {
					ctx.SetStatusCode(502)
				}
			})
			hammer(b, g.addr, request, end, events)
		})
		b.Run(name+"/exchange", func(b *testing.B) {
			tg := endpoint(b, up)
			g := newGateway(b, Options{Tick: defaultTick, HalfCloseGone: true}, ServerOptions{},
				func(g *gateway, ctx *fasthttp.RequestCtx) {
					pl := newOnePlan(tg)
					pl.stream = true
					pl.serve(g.p, ctx)
				})
			hammer(b, g.addr, request, end, events)
		})
	}
}

// streamUpstream writes piece times times, pausing a little between.
func streamUpstream(b *testing.B, piece []byte, times int) string {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				buf := make([]byte, 64<<10)
				for n := 0; ; {
					k, err := c.Read(buf[n:])
					if err != nil {
						return
					}
					if n += k; !bytes.HasSuffix(buf[:n], []byte("{}")) {
						continue
					}
					n = 0
					_, _ = c.Write([]byte(sseHead))
					for range times {
						time.Sleep(500 * time.Microsecond)
						if _, err := c.Write(piece); err != nil {
							return
						}
					}
					_, _ = c.Write([]byte("0\r\n\r\n"))
				}
			}()
		}
	}()
	return ln.Addr().String()
}

func BenchmarkPieces(b *testing.B) {
	p := New(Options{})
	defer p.Close()
	b.Run("watch", func(b *testing.B) {
		c, other := net.Pipe()
		defer c.Close()
		defer other.Close()
		var g guard
		for b.Loop() {
			p.watch.add(&g, c)
			g.beginPhase(FirstByteTimeout, time.Second)
			p.watch.remove(&g)
		}
	})
	b.Run("head", func(b *testing.B) {
		var h head
		text := []byte("HTTP/1.1 200 OK\r\nDate: Mon, 01 Jan 2024 00:00:00 GMT\r\nContent-Type: " +
			"application/json\r\nContent-Length: 512\r\nConnection: keep-alive\r\nX-Request-Id: " +
			"req_0123456789\r\nOpenAI-Version: 2020-10-01\r\n\r\n")
		now := time.Now()
		for b.Loop() {
			_ = h.parse(text, now)
		}
	})
	b.Run("chunks", func(b *testing.B) {
		wire := []byte(strings.Repeat(chunk("data: "+strings.Repeat("x", 192)+"\n\n"), 20))
		buf := make([]byte, len(wire))
		b.SetBytes(int64(len(wire)))
		for b.Loop() {
			var c chunks
			copy(buf, wire)
			_, _, _ = c.decode(buf)
		}
	})
	b.Run("quiet", func(b *testing.B) {
		up := rawUpstream(b, "x", []byte("x"))
		c, err := net.Dial("tcp", up)
		if err != nil {
			b.Fatal(err)
		}
		defer c.Close()
		fd := rawFD(c)
		for b.Loop() {
			quiet(fd)
		}
	})
}
