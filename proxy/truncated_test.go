package proxy

import (
	"bufio"
	"io"
	"net"
	"strings"
	"testing"
)

// An answer that the upstream breaks off must not look complete to the client.
func TestATruncatedAnswerIsNeverDeliveredAsComplete(t *testing.T) {
	breakingOff := func(answer string, reset bool) func(net.Conn, *bufio.Reader, int) {
		return func(c net.Conn, r *bufio.Reader, _ int) {
			_, _, _ = readRequest(r)
			_, _ = io.WriteString(c, answer)
			if reset {
				_ = c.(*net.TCPConn).SetLinger(0)
			}
		}
	}
	f := func(name, answer string, reset bool, want ...Cause) {
		t.Run(name, func(t *testing.T) {
			u := newUpstream(t, breakingOff(answer, reset))
			tg := endpoint(t, u.addr)
			lens := &noted{}
			g := newGateway(t, Options{}, ServerOptions{}, streaming(func() (*plan, Lens) {
				lens = &noted{}
				return &plan{endpoints: []*Endpoint{tg}}, lens
			}))
			c := g.dial()
			_, _ = io.WriteString(c, post("{}"))
			b, _ := io.ReadAll(c)
			if strings.HasSuffix(string(b), "0\r\n\r\n") {
				t.Errorf("the client got a complete answer: %q", b)
			}
			o := g.outcome()
			if o.Complete || o.Cause != want[0] && (len(want) < 2 || o.Cause != want[1]) {
				t.Errorf("outcome %+v, want %v", o, want)
			}
			if _, ends := lens.seen(); len(ends) != 1 || ends[0] != o.Cause {
				t.Errorf("ends %v", ends)
			}

			// The lens may end the body itself, with an error event.
			lens = &noted{}
			g2 := newGateway(t, Options{}, ServerOptions{}, streaming(func() (*plan, Lens) {
				return &plan{endpoints: []*Endpoint{tg}}, &noted{tail: []byte("data: error\n\n"), clean: true}
			}))
			if _, body, err := g2.ask("{}"); err != nil || !strings.HasSuffix(body, "data: error\n\n") {
				t.Errorf("with an error event: %q %v", body, err)
			}

			// HTTP/1.0 has no terminator to leave out: the connection is reset.
			c = g.dial()
			_, _ = io.WriteString(c, "POST /x HTTP/1.0\r\nHost: h\r\nContent-Length: 2\r\n\r\n{}")
			if b, err := io.ReadAll(c); err == nil {
				t.Errorf("an HTTP/1.0 client got a complete answer: %q", b)
			}
		})
	}
	f("between chunks", sseHead+chunk("data: 1\n\n"), false, UpstreamTruncated)
	f("in a chunk", sseHead+"20\r\ndata: 1", false, UpstreamTruncated)
	f("in a size", sseHead+chunk("a")+"1", false, UpstreamTruncated)
	f("before the last line feed", sseHead+chunk("a")+"0\r\n\r", false, UpstreamTruncated)
	f("in a trailer", sseHead+chunk("a")+"0\r\nX: 1\r\n", false, UpstreamTruncated)
	f("reset", sseHead+chunk("data: 1\n\n"), true, UpstreamReset, UpstreamTruncated)
	f("broken framing", sseHead+chunk("a")+"xyz\r\n", false, UpstreamMalformed)
	f("chunk without its line end", sseHead+"1\r\naXX", false, UpstreamMalformed)
}

func TestATruncatedLengthIsNeverDeliveredAsComplete(t *testing.T) {
	u := newUpstream(t, func(c net.Conn, r *bufio.Reader, _ int) {
		_, _, _ = readRequest(r)
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n"+strings.Repeat("x", 60000))
	})
	tg := endpoint(t, u.addr)
	g := newGateway(t, Options{}, ServerOptions{}, streaming(func() (*plan, Lens) {
		return &plan{endpoints: []*Endpoint{tg}}, nil
	}))
	if _, body, err := g.ask("{}"); err == nil {
		t.Errorf("the client got %d bytes as complete", len(body))
	}
	if o := g.outcome(); o.Complete || o.Cause != UpstreamTruncated {
		t.Errorf("outcome %+v", o)
	}
	g = newGateway(t, Options{}, ServerOptions{}, whole(func() *plan { return &plan{endpoints: []*Endpoint{tg}} },
		1<<20))
	if resp, body, err := g.ask("{}"); err != nil || resp.StatusCode != 502 || body != "upstream_truncated" {
		t.Errorf("%v %q %v", resp, body, err)
	}
	if open, _ := tg.Conns(); open != 0 {
		t.Errorf("%d connections kept after a broken answer", open)
	}
}
