package proxy

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/valyala/fasthttp"
)

// made is a body of n bytes in pieces of a few sizes. It may lie about its length, and
// counts its writes.
type made struct {
	n, says int
	piece   int
	fail    error // after half of it
	writes  atomic.Int32
}

func (m *made) Len() int64 { return int64(m.says) }

func (m *made) WriteTo(w io.Writer) (n int64, err error) {
	m.writes.Add(1)
	p := make([]byte, m.piece)
	for i := range p {
		p[i] = byte('a' + i%26)
	}
	for left := m.n; left > 0; {
		if m.fail != nil && left < m.n/2 {
			return n, m.fail
		}
		k, err := w.Write(p[:min(left, m.piece)])
		n += int64(k)
		left -= k
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

func (m *made) sum() string {
	h := sha256.New()
	_, _ = m.WriteTo(h)
	m.writes.Add(-1)
	return hex.EncodeToString(h.Sum(nil))
}

// answerSum answers each request with the hash of its body.
func answerSum(c net.Conn, r *bufio.Reader, _ int) {
	for {
		length := 0
		for {
			line, err := r.ReadString('\n')
			if err != nil {
				return
			}
			_, _ = fmt.Sscanf(line, "Content-Length: %d", &length)
			if line == "\r\n" {
				break
			}
		}
		h := sha256.New()
		if _, err := io.CopyN(h, r, int64(length)); err != nil {
			return
		}
		if _, err := io.WriteString(c, jsonAnswer(hex.EncodeToString(h.Sum(nil)))); err != nil {
			return
		}
	}
}

func sourcePlan(src Source, targets ...*Endpoint) func() *plan {
	return func() *plan {
		return &plan{endpoints: targets, request: Request{Method: "POST", Source: src, Body: []byte{},
			Type: "multipart/form-data; boundary=x"}}
	}
}

// A body that is made while it is sent arrives whole, for all sizes of pieces, and the
// connection serves the next request.
func TestSourcesArriveWhole(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, answerSum)
	tg := endpoint(t, u.addr)
	var src *made
	g := newGateway(t, Options{}, ServerOptions{}, whole(func() *plan { return sourcePlan(src, tg)() }, 1<<20))
	for _, n := range []int{0, 1, 700, smallBuffer - 1, smallBuffer, smallBuffer + 1, 64 << 10, 3<<20 + 17} {
		for _, piece := range []int{1 + n/700, 100, 5000, 64 << 10} {
			src = &made{n: n, says: n, piece: piece}
			_, body, err := g.ask("{}")
			if err != nil || body != src.sum() {
				t.Fatalf("%d bytes in pieces of %d: %q, %v", n, piece, body, err)
			}
			if o := g.outcome(); !o.Complete {
				t.Fatal(o)
			}
		}
	}
	if n := u.conns.Load(); n != 1 {
		t.Errorf("%d connections for requests one after the other", n)
	}
}

// A body that is shorter or longer than announced, or that cannot be made, is our error:
// the connection is closed, and nothing is repeated.
func TestSourcesThatBreakTheirWordAreNotRepeated(t *testing.T) {
	t.Parallel()
	for name, src := range map[string]*made{
		"short":  {n: 1 << 20, says: 1<<20 + 1, piece: 5000},
		"long":   {n: 1 << 20, says: 1<<20 - 1, piece: 5000},
		"tiny":   {n: 10, says: 11, piece: 3},
		"broken": {n: 1 << 20, says: 1 << 20, piece: 5000, fail: errors.New("broken")},
	} {
		u := newUpstream(t, answerSum)
		tg := endpoint(t, u.addr, func(o *EndpointOptions) { o.RetrySafe = true })
		g := newGateway(t, Options{}, ServerOptions{}, whole(sourcePlan(src, tg), 1<<20))
		if _, body, err := g.ask("{}"); err != nil || body != UpstreamMalformed.String() {
			t.Errorf("%s: %q %v", name, body, err)
		}
		if src.writes.Load() != 1 {
			t.Errorf("%s: written %d times", name, src.writes.Load())
		}
		eventually(t, "the connection is closed", func() bool {
			open, _ := tg.Conns()
			return open == 0 &&
				u.open.Load() == 0
		})
	}
}

// If a kept-alive connection dies, or a target breaks off in the middle of the body, the
// body is sent again from its beginning.
func TestSourcesAreSentAgain(t *testing.T) {
	t.Parallel()
	src := &made{n: 8 << 20, says: 8 << 20, piece: 9000}
	broken := newUpstream(t, func(c net.Conn, r *bufio.Reader, _ int) {
		_, _ = io.CopyN(io.Discard, r, 1<<20)
		_ = c.(*net.TCPConn).SetLinger(0)
	})
	good := newUpstream(t, answerSum)
	first, second := endpoint(t, broken.addr), endpoint(t, good.addr)
	var p *plan
	g := newGateway(t, Options{}, ServerOptions{}, whole(func() *plan {
		p = sourcePlan(src, first, second)()
		return p
	}, 1<<20))
	if _, body, err := g.ask("{}"); err != nil || body != src.sum() {
		t.Fatalf("%q %v", body, err)
	}
	if r := g.result(); len(p.attempts) != 2 || p.attempts[0].Cause != UpstreamReset || !p.attempts[0].Sent {
		t.Errorf("%+v %+v", r, p.attempts)
	}

	dying := newUpstream(t, func(c net.Conn, r *bufio.Reader, number int) {
		if number == 0 {
			_, _, _ = readRequest(r)
			_, _ = io.WriteString(c, jsonAnswer("{}"))
			_, _ = r.ReadByte() // the second request's first byte, and it is gone
			_ = c.(*net.TCPConn).SetLinger(0)
			return
		}
		answerSum(c, r, number)
	})
	tg := endpoint(t, dying.addr, func(o *EndpointOptions) { o.RetrySafe = true })
	small := &made{n: 1000, says: 1000, piece: 10}
	g = newGateway(t, Options{}, ServerOptions{}, whole(func() *plan { return sourcePlan(small, tg)() }, 1<<20))
	if _, body, err := g.ask("{}"); err != nil || body != "{}" {
		t.Fatal(body, err)
	}
	if _, body, err := g.ask("{}"); err != nil || body != small.sum() {
		t.Fatal(body, err)
	}
	if dying.conns.Load() != 2 || small.writes.Load() != 3 {
		t.Errorf("%d connections, %d writes", dying.conns.Load(), small.writes.Load())
	}
}

// The answer of an upstream that refuses an upload half way is read.
func TestAnUpstreamThatRefusesASourceIsHeard(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, func(c net.Conn, r *bufio.Reader, _ int) {
		_, _ = io.CopyN(io.Discard, r, 64<<10)
		_, _ = io.WriteString(c, "HTTP/1.1 413 Too Large\r\nContent-Length: 5\r\n\r\nlarge")
		<-time.After(50 * time.Millisecond)
		_, _ = io.Copy(io.Discard, r)
	})
	tg := endpoint(t, u.addr)
	src := &made{n: 32 << 20, says: 32 << 20, piece: 64 << 10}
	g := newGateway(t, Options{}, ServerOptions{}, whole(sourcePlan(src, tg), 1<<20))
	resp, body, err := g.ask("{}")
	if err != nil || resp.StatusCode != 413 || body != "large" {
		t.Fatalf("%v %q %v", resp, body, err)
	}
	eventually(t, "the connection is not kept", func() bool { open, _ := tg.Conns(); return open == 0 })
}

// delivering answers with src through Deliver.
func delivering(src Source, ends chan<- error) func(*gateway, *fasthttp.RequestCtx) {
	return func(g *gateway, ctx *fasthttp.RequestCtx) {
		g.p.Deliver(ctx, src, func(n int64, err error) {
			if err == nil && n != src.Len() {
				err = fmt.Errorf("%d bytes", n)
			}
			ends <- err
		})
	}
}

func TestDeliveredSourcesArriveWhole(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, 64 << 10, 9<<20 + 1} {
		src := &made{n: n, says: n, piece: 7000}
		ends := make(chan error, 1)
		g := newGateway(t, Options{}, ServerOptions{}, delivering(src, ends))
		resp, body, err := g.ask("{}")
		if err != nil || len(body) != n || resp.ContentLength != int64(n) {
			t.Fatalf("%d bytes: %d, %v", n, len(body), err)
		}
		if err := <-ends; err != nil {
			t.Error(err)
		}
	}
}

// A body that cannot be made to its end never looks complete.
func TestABrokenDeliveryIsCut(t *testing.T) {
	t.Parallel()
	for name, src := range map[string]Source{
		"short":    &made{n: 1 << 20, says: 2 << 20, piece: 7000},
		"broken":   &made{n: 1 << 20, says: 1 << 20, piece: 7000, fail: errors.New("broken")},
		"panicked": panicking{},
	} {
		ends := make(chan error, 1)
		g := newGateway(t, Options{}, ServerOptions{}, delivering(src, ends))
		if _, body, err := g.ask("{}"); err == nil {
			t.Errorf("%s: %d bytes and no error", name, len(body))
		}
		if err := <-ends; err == nil {
			t.Errorf("%s: delivered", name)
		}
	}
}

type panicking struct{}

func (panicking) Len() int64                       { return 5 }
func (panicking) WriteTo(io.Writer) (int64, error) { panic("test") }

// A slow reader gets all the time it needs; a stalled one is cut off.
func TestDeliveryCutsOnlyStalledClients(t *testing.T) {
	t.Parallel()
	src := &made{n: 512 << 20, says: 512 << 20, piece: 1 << 20}
	ends := make(chan error, 1)
	g := newGateway(t, Options{ClientStall: 3 * time.Second},
		ServerOptions{WriteTimeout: 100 * time.Millisecond}, delivering(src, ends))
	c := g.dial()
	_, _ = io.WriteString(c, post("{}"))
	b := make([]byte, 256<<10)
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if _, err := c.Read(b); err != nil {
			t.Fatal(err)
		}
	}
	select { // and now it stops reading
	case err := <-ends:
		if err == nil {
			t.Error("delivered to a client that reads no more")
		}
	case <-time.After(60 * time.Second):
		t.Fatal("still being delivered")
	}
}

// A delivery without an answer to the client, as after HEAD, still ends with an error.
func TestADeliveryWithoutAnAnswerEnds(t *testing.T) {
	t.Parallel()
	ends := make(chan error, 1)
	g := newGateway(t, Options{}, ServerOptions{}, delivering(&made{n: 9, says: 9, piece: 9}, ends))
	c := g.dial()
	_, _ = io.WriteString(c, strings.Replace(post(""), "POST", "HEAD", 1))
	if err := <-ends; err != errUndelivered {
		t.Error(err)
	}
}
