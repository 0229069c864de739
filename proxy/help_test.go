package proxy

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"farebox/config/fair"
)

// upstream is a scripted server: serve gets each connection and the number of connections
// before it, and scripts the bytes.
type upstream struct {
	addr  string
	conns atomic.Int32
	open  atomic.Int32
	ln    net.Listener
	wg    sync.WaitGroup
}

func newUpstream(t testing.TB, serve func(c net.Conn, r *bufio.Reader, number int)) *upstream {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	u := &upstream{addr: ln.Addr().String(), ln: ln}
	var mu sync.Mutex
	conns := map[net.Conn]bool{}
	u.wg.Add(1)
	go func() {
		defer u.wg.Done()
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			n := int(u.conns.Add(1)) - 1
			u.open.Add(1)
			mu.Lock()
			conns[c] = true
			mu.Unlock()
			u.wg.Add(1)
			go func() {
				defer u.wg.Done()
				defer u.open.Add(-1)
				defer c.Close()
				serve(c, bufio.NewReader(c), n)
			}()
		}
	}()
	t.Cleanup(func() {
		ln.Close()
		mu.Lock()
		for c := range conns {
			c.Close()
		}
		mu.Unlock()
		u.wg.Wait()
	})
	return u
}

// readRequest reads one request with its body and returns both as text.
func readRequest(r *bufio.Reader) (head, body string, err error) {
	length := 0
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return head, "", err
		}
		if strings.HasPrefix(line, "Content-Length: ") {
			fmt.Sscanf(line, "Content-Length: %d", &length)
		}
		head += line
		if line == "\r\n" {
			break
		}
	}
	b := make([]byte, length)
	_, err = io.ReadFull(r, b)
	return head, string(b), err
}

// answering serves the same raw answer to every request on a connection.
func answering(answer string) func(net.Conn, *bufio.Reader, int) {
	return func(c net.Conn, r *bufio.Reader, _ int) {
		for {
			if _, _, err := readRequest(r); err != nil {
				return
			}
			if _, err := io.WriteString(c, answer); err != nil {
				return
			}
		}
	}
}

func jsonAnswer(body string) string {
	return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body),
		body)
}

const sseHead = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"

func chunk(s string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(s), s) }

// plan tries targets in order and records the attempts.
type plan struct {
	endpoints []*Endpoint
	request   Request
	attempts  []Result
	retry     func(a Result) bool // nil: without an answer
}

// open asks the targets of the plan for a client; ctx nil: without a client.
func (p *plan) open(px *Proxy, ctx *fasthttp.RequestCtx, x *Exchange) (res Result) {
	res.Cause = NoTarget
	px.Open(ctx, x, 0)
	for _, t := range p.endpoints {
		res = x.Ask(t, &p.request)
		p.attempts = append(p.attempts, res)
		again := res.Cause != None
		if p.retry != nil {
			again = p.retry(res)
		}
		if !again || x.Why().Final() {
			break
		}
	}
	if res.Cause != None {
		x.Close()
	}
	return res
}

func endpoint(t testing.TB, addr string, change ...func(*EndpointOptions)) *Endpoint {
	o := EndpointOptions{Name: "test", BaseURL: "http://" + addr + "/v1"}
	for _, f := range change {
		f(&o)
	}
	tg, err := NewEndpoint(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tg.Close)
	return tg
}

// noted is a lens that keeps the relayed bytes.
type noted struct {
	mu     sync.Mutex
	in     []byte
	ends   []Cause
	tail   []byte
	clean  bool // answer of End for causes other than None
	stopAt int  // bytes after which it stops
	pass   func(p []byte) ([]byte, bool)
}

func (l *noted) Pass(p []byte) ([]byte, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.in = append(l.in, p...)
	if l.pass != nil {
		return l.pass(p)
	}
	return p, l.stopAt > 0 && len(l.in) >= l.stopAt
}

func (l *noted) End(c Cause) ([]byte, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ends = append(l.ends, c)
	return l.tail, c == None || l.clean
}

func (l *noted) seen() (in string, ends []Cause) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.in), append([]Cause(nil), l.ends...)
}

// gateway is a server with a proxy, and the outcomes of its exchanges.
type gateway struct {
	t        testing.TB
	p        *Proxy
	s        *fasthttp.Server
	addr     string
	results  chan Result
	outcomes chan Outcome
	stop     func()
	log      *lines
}

type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Printf(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprintf(&l.b, format+"\n", args...)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

const testTick = 20 * time.Millisecond

// standstill is the longest pause of a busy machine. The test of the whole program shows
// that a client's leaving closes its upstream within 500 ms.
const standstill = 10 * time.Second

func newGateway(t testing.TB, o Options, so ServerOptions, handler func(g *gateway, ctx *fasthttp.RequestCtx),
	change ...func(s *fasthttp.Server)) *gateway {
	if o.Tick == 0 {
		o.Tick = testTick
	}
	g := &gateway{t: t, p: New(o), results: make(chan Result, 1024), outcomes: make(chan Outcome, 1024), log: &lines{}}
	if so.MaxBody == 0 { // below 0: the handler reads bodies itself
		so.MaxBody = 64 << 20
	}
	so.Logger = g.log
	g.s = NewServer(func(ctx *fasthttp.RequestCtx) {
		ClientOf(ctx.Conn()).Owner = fair.Paid(1)
		handler(g, ctx)
	}, so)
	ln, err := Listen("127.0.0.1:0", "", "")
	if err != nil {
		t.Fatal(err)
	}
	g.addr = ln.Addr().String()
	for _, f := range change {
		f(g.s)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = g.s.Serve(ln)
	}()
	var once sync.Once
	g.stop = func() {
		once.Do(func() {
			_ = g.s.Shutdown()
			<-served
			g.p.Close()
		})
	}
	t.Cleanup(g.stop)
	return g
}

// streaming relays the answer that the plan opens; the lens may be nil.
func streaming(mk func() (*plan, Lens), prepare ...func(x *Exchange)) func(*gateway, *fasthttp.RequestCtx) {
	return func(g *gateway, ctx *fasthttp.RequestCtx) {
		pl, lens := mk()
		if pl.request.Body == nil {
			pl.request.Body = ctx.PostBody()
		}
		if pl.request.Path == nil {
			pl.request.Path = []byte("/chat/completions")
		}
		x := new(Exchange)
		res := pl.open(g.p, ctx, x)
		g.results <- res
		if res.Cause != None {
			ctx.SetStatusCode(502)
			ctx.SetBodyString(res.Cause.String())
			return
		}
		ctx.SetStatusCode(res.Status)
		ctx.Response.Header.SetContentTypeBytes(x.ContentType())
		for _, f := range prepare {
			f(x)
		}
		x.Relay(ctx, lens, func(o Outcome) {
			x.Reset()
			g.outcomes <- o
		})
	}
}

// whole answers with the bytes that Body reads, up to most, and relays the rest.
func whole(mk func() *plan, most int) func(*gateway, *fasthttp.RequestCtx) {
	return func(g *gateway, ctx *fasthttp.RequestCtx) {
		pl := mk()
		if pl.request.Body == nil {
			pl.request.Body = ctx.PostBody()
		}
		if pl.request.Path == nil {
			pl.request.Path = []byte("/chat/completions")
		}
		x := new(Exchange)
		res := pl.open(g.p, ctx, x)
		g.results <- res
		if res.Cause != None {
			ctx.SetStatusCode(502)
			ctx.SetBodyString(res.Cause.String())
			return
		}
		body, cause, err := x.Body(nil, most)
		if err == ErrTooLarge {
			x.Relay(ctx, nil, func(o Outcome) { g.outcomes <- o })
			return
		}
		g.outcomes <- Outcome{Cause: cause, Complete: err == nil, BytesIn: int64(len(body))}
		if err != nil {
			ctx.SetStatusCode(502)
			ctx.SetBodyString(cause.String())
			return
		}
		ctx.SetStatusCode(res.Status)
		ctx.SetBody(body)
	}
}

func (g *gateway) outcome() Outcome {
	g.t.Helper()
	select {
	case o := <-g.outcomes:
		return o
	case <-time.After(time.Minute):
		g.t.Fatal("the exchange did not end")
	}
	panic("unreachable")
}

func (g *gateway) result() Result {
	g.t.Helper()
	select {
	case r := <-g.results:
		return r
	case <-time.After(time.Minute):
		g.t.Fatal("no attempt has a result")
	}
	panic("unreachable")
}

// dial opens a client connection with a deadline for the whole test.
func (g *gateway) dial() net.Conn {
	g.t.Helper()
	c, err := net.Dial("tcp", g.addr)
	if err != nil {
		g.t.Fatal(err)
	}
	_ = c.SetDeadline(time.Now().Add(2 * time.Minute))
	g.t.Cleanup(func() { c.Close() })
	return c
}

func post(body string) string {
	return fmt.Sprintf("POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
}

// ask posts with net/http on a new connection and reads all of the answer.
func (g *gateway) ask(body string) (*http.Response, string, error) {
	g.t.Helper()
	tr := &http.Transport{DisableKeepAlives: true}
	defer tr.CloseIdleConnections()
	resp, err := (&http.Client{Transport: tr, Timeout: 2 * time.Minute}).Post("http://"+g.addr+"/x",
		"application/json", strings.NewReader(body))
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp, string(b), err
}

// eventually waits for a condition that another goroutine establishes.
func eventually(t testing.TB, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		if f() {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("still not: %s", what)
		}
	}
}
