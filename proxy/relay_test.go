package proxy

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"
)

func TestAnswersArriveWholeAndUnchanged(t *testing.T) {
	big := strings.Repeat("0123456789abcdef", 40000)
	f := func(name, answer, want string, length int64) {
		t.Run(name, func(t *testing.T) {
			u := newUpstream(t, answering(answer))
			tg := endpoint(t, u.addr)
			lens := &noted{}
			g := newGateway(t, Options{}, ServerOptions{}, streaming(func() (*plan, Lens) {
				lens = &noted{}
				return &plan{endpoints: []*Endpoint{tg}}, lens
			}))
			for range 3 {
				resp, body, err := g.ask("{}")
				if err != nil || body != want || resp.StatusCode != 200 {
					t.Fatalf("%v: %d bytes, want %d (%v)", err, len(body), len(want), resp)
				}
				if o := g.outcome(); o.Cause != None || !o.Complete || o.BytesOut != int64(len(want)) ||
					o.FirstByte <= 0 && want != "" {
					t.Fatalf("outcome %+v", o)
				}
				if in, ends := lens.seen(); in != want || len(ends) != 1 || ends[0] != None {
					t.Fatalf("the lens saw %d bytes and ends %v", len(in), ends)
				}
			}
			if n := u.conns.Load(); n != 1 && !strings.Contains(name, "close") {
				t.Fatalf("%d connections for 3 requests", n)
			}
		})
	}
	f("length", jsonAnswer("hello"), "hello", -1)
	f("large length", jsonAnswer(big), big, -1)
	f("empty", jsonAnswer(""), "", -1)
	f("chunks", sseHead+chunk("data: 1\n\n")+chunk("data: 2\n\n")+"0\r\n\r\n", "data: 1\n\ndata: 2\n\n", -1)
	f("chunks with extensions and trailer", sseHead+"3;a=b\r\nabc\r\n0;x\r\nX-T: 1\r\n\r\n", "abc", -1)
	f("large chunks", sseHead+chunk(big)+chunk(big)+"0\r\n\r\n", big+big, -1)
}

// A length stays if no filter changes it.
func TestKnownLengthIsKept(t *testing.T) {
	body := strings.Repeat("x", 100<<10)
	u := newUpstream(t, answering(jsonAnswer(body)))
	tg := endpoint(t, u.addr)
	g := newGateway(t, Options{}, ServerOptions{}, streaming(func() (*plan, Lens) {
		return &plan{endpoints: []*Endpoint{tg}}, nil
	}))
	resp, got, err := g.ask("{}")
	if err != nil || got != body || resp.ContentLength != int64(len(body)) {
		t.Fatalf("%v: %d bytes, length %d", err, len(got), resp.ContentLength)
	}
}

func TestAnEndOfConnectionEndsAnAnswerWithoutLength(t *testing.T) {
	u := newUpstream(t, func(c net.Conn, r *bufio.Reader, _ int) {
		_, _, _ = readRequest(r)
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\nall there is")
	})
	tg := endpoint(t, u.addr)
	g := newGateway(t, Options{}, ServerOptions{}, streaming(func() (*plan, Lens) {
		return &plan{endpoints: []*Endpoint{tg}}, nil
	}))
	if _, got, err := g.ask("{}"); err != nil || got != "all there is" {
		t.Fatalf("%q %v", got, err)
	}
	if o := g.outcome(); !o.Complete {
		t.Fatalf("%+v", o)
	}
}

// Each event reaches the client before the upstream sends the next one.
func TestEventsAreNotHeldBack(t *testing.T) {
	said := make(chan int, 10)
	next := make(chan bool)
	u := newUpstream(t, func(c net.Conn, r *bufio.Reader, _ int) {
		_, _, _ = readRequest(r)
		_, _ = io.WriteString(c, sseHead)
		for i := range 5 {
			<-next
			_, _ = io.WriteString(c, chunk(fmt.Sprintf("data: %d\n\n", i)))
			said <- i
		}
		<-next
		_, _ = io.WriteString(c, "0\r\n\r\n")
	})
	tg := endpoint(t, u.addr)
	g := newGateway(t, Options{}, ServerOptions{}, streaming(func() (*plan, Lens) {
		return &plan{endpoints: []*Endpoint{tg}}, &noted{}
	}))
	resp, err := http.Post("http://"+g.addr, "", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err) // the head arrives before the first event
	}
	defer resp.Body.Close()
	r := bufio.NewReader(resp.Body)
	for i := range 5 {
		next <- true
		if line, err := r.ReadString('\n'); err != nil || line != fmt.Sprintf("data: %d\n", i) {
			t.Fatalf("event %d: %q %v", i, line, err)
		}
		_, _ = r.ReadString('\n')
	}
	next <- true
	if rest, err := io.ReadAll(r); err != nil || len(rest) > 0 {
		t.Fatalf("%q %v", rest, err)
	}
}

// The bytes are the same for any writes and chunks of the upstream.
func TestAnySplitGivesTheSameBytes(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	var want strings.Builder
	for range 3000 {
		fmt.Fprintf(&want, "data: %x\n\n", rnd.Uint64())
	}
	u := newUpstream(t, func(c net.Conn, r *bufio.Reader, n int) {
		rnd := rand.New(rand.NewPCG(3, uint64(n)))
		for {
			if _, _, err := readRequest(r); err != nil {
				return
			}
			wire := sseHead
			for rest := want.String(); rest != ""; {
				k := min(len(rest), 1+rnd.IntN(1+rnd.IntN(9000)))
				wire += chunk(rest[:k])
				rest = rest[k:]
			}
			wire += "0\r\n\r\n"
			for wire != "" {
				k := min(len(wire), 1+rnd.IntN(1+rnd.IntN(20000)))
				if _, err := io.WriteString(c, wire[:k]); err != nil {
					return
				}
				wire = wire[k:]
				if rnd.IntN(4) == 0 {
					time.Sleep(time.Duration(rnd.IntN(300)) * time.Microsecond)
				}
			}
		}
	})
	tg := endpoint(t, u.addr)
	g := newGateway(t, Options{}, ServerOptions{}, streaming(func() (*plan, Lens) {
		return &plan{endpoints: []*Endpoint{tg}}, &noted{}
	}))
	for range 20 {
		if _, got, err := g.ask("{}"); err != nil || got != want.String() {
			t.Fatalf("%v: %d bytes of %d", err, len(got), want.Len())
		}
	}
}

// nginx in front speaks HTTP/1.0 by default: it gets the raw body as it arrives, and the
// end of the connection ends it.
func TestOldClientsStreamWithoutChunks(t *testing.T) {
	u := newUpstream(t, answering(sseHead+chunk("data: 1\n\n")+chunk("data: 2\n\n")+"0\r\n\r\n"))
	tg := endpoint(t, u.addr)
	g := newGateway(t, Options{}, ServerOptions{}, streaming(func() (*plan, Lens) {
		return &plan{endpoints: []*Endpoint{tg}}, &noted{}
	}))
	c := g.dial()
	_, _ = io.WriteString(c, "POST /x HTTP/1.0\r\nHost: h\r\nContent-Length: 2\r\n\r\n{}")
	b, err := io.ReadAll(c)
	head, body, _ := strings.Cut(string(b), "\r\n\r\n")
	if err != nil || body != "data: 1\n\ndata: 2\n\n" || strings.Contains(head, "chunked") ||
		!strings.HasPrefix(head, "HTTP/1.1 200 OK") || !strings.Contains(head, "Connection: close") {
		t.Fatalf("%v: %q", err, b)
	}
	if o := g.outcome(); !o.Complete || o.Cause != None {
		t.Fatalf("%+v", o)
	}
}

func TestALensMayChangeEndAndStopAnswers(t *testing.T) {
	u := newUpstream(t, answering(sseHead+chunk("abc")+chunk("def")+"0\r\n\r\n"))
	tg := endpoint(t, u.addr)
	lens := &noted{tail: []byte("-end"), pass: func(p []byte) ([]byte, bool) {
		return []byte(strings.ToUpper(string(p))), false
	}}
	g := newGateway(t, Options{}, ServerOptions{}, streaming(func() (*plan, Lens) {
		return &plan{endpoints: []*Endpoint{tg}}, lens
	}))
	if _, got, err := g.ask("{}"); err != nil || got != "ABCDEF-end" {
		t.Fatalf("%q %v", got, err)
	}
	g.outcome()

	lens = &noted{tail: []byte("-cut"), clean: true, stopAt: 3}
	if _, got, err := g.ask("{}"); err != nil || !strings.HasSuffix(got, "-cut") {
		t.Fatalf("%q %v", got, err)
	}
	if o := g.outcome(); o.Cause != Cut {
		t.Fatalf("%+v", o)
	}
	if _, ends := lens.seen(); len(ends) != 1 || ends[0] != Cut {
		t.Fatalf("ends %v", ends)
	}
	eventually(t, "the upstream connection is closed", func() bool { open, _ := tg.Conns(); return open == 0 })
}

func TestBodyReadsSmallAnswersAndLeavesLargeOnes(t *testing.T) {
	for name, answer := range map[string]func(s string) string{
		"length": jsonAnswer, "chunks": func(s string) string {
			w := sseHead
			for ; len(s) > 700; s = s[700:] {
				w += chunk(s[:700])
			}
			if s != "" {
				w += chunk(s)
			}
			return w + "0\r\n\r\n"
		},
	} {
		for _, size := range []int{0, 1, 4000, 9999, 10000, 10001, 200000} {
			t.Run(fmt.Sprint(name, size), func(t *testing.T) {
				want := strings.Repeat("0123456789", size/10+1)[:size]
				u := newUpstream(t, answering(answer(want)))
				tg := endpoint(t, u.addr)
				g := newGateway(t, Options{}, ServerOptions{},
					whole(func() *plan { return &plan{endpoints: []*Endpoint{tg}} }, 10000))
				for range 2 {
					if _, got, err := g.ask("{}"); err != nil || got != want {
						t.Fatalf("%v: %d bytes of %d", err, len(got), size)
					}
					if o := g.outcome(); !o.Complete || o.Cause != None {
						t.Fatalf("%+v", o)
					}
				}
				if open, idle := tg.Conns(); open != 1 || idle != 1 {
					t.Fatalf("%d connections, %d idle", open, idle)
				}
			})
		}
	}
}

// A meter must hear that the client left before its answer began: the answer may have
// cost something.
func TestLensHearsOfAnAnswerThatWasNeverWritten(t *testing.T) {
	u := newUpstream(t, answering(sseHead+chunk("abc")+"0\r\n\r\n"))
	tg := endpoint(t, u.addr)
	lens := &noted{}
	g := newGateway(t, Options{}, ServerOptions{}, func(g *gateway, ctx *fasthttp.RequestCtx) {
		streaming(func() (*plan, Lens) {
			return &plan{endpoints: []*Endpoint{tg}, request: Request{Body: []byte("{}")}}, lens
		})(g, ctx)
	})
	c := g.dial()
	_, _ = io.WriteString(c, "HEAD /x HTTP/1.1\r\nHost: h\r\n\r\n")
	g.outcome()
	if _, ends := lens.seen(); len(ends) != 1 || ends[0] != ClientGone {
		t.Fatalf("End got %v for an answer without a client", ends)
	}
	eventually(t, "nothing is registered", func() bool { return g.p.Active() == 0 })
}
