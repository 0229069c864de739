package proxy

import (
	"bufio"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// An upstream that refuses a large body while it is being sent has given the reason: its
// answer is relayed, not a broken connection.
func TestAnEarlyAnswerIsRelayed(t *testing.T) {
	const answer = "HTTP/1.1 413 Too Large\r\nContent-Length: 9\r\n\r\ntoo large"
	over := make(chan bool, 9)
	f := func(name string, serve func(c net.Conn, r *bufio.Reader)) {
		t.Run(name, func(t *testing.T) {
			u := newUpstream(t, func(c net.Conn, r *bufio.Reader, _ int) {
				for {
					if line, err := r.ReadString('\n'); err != nil || line == "\r\n" {
						break
					}
				}
				serve(c, r)
			})
			t.Cleanup(func() { over <- true })
			tg := endpoint(t, u.addr, func(o *EndpointOptions) { o.FirstByte = 30 * time.Second })
			g := newGateway(t, Options{}, ServerOptions{}, whole(func() *plan {
				return &plan{endpoints: []*Endpoint{tg}}
			}, 100))
			start := time.Now()
			resp, body, err := g.ask(strings.Repeat("x", 32<<20))
			if err != nil || resp.StatusCode != 413 || body != "too large" {
				t.Errorf("%v %q %v", resp, body, err)
			}
			if took := time.Since(start); took > 20*time.Second {
				t.Errorf("after %s", took)
			}
			if open, _ := tg.Conns(); open != 0 && name != "and reads on" {
				t.Error("a connection with half a request on it was kept")
			}
		})
	}
	f("and closes", func(c net.Conn, r *bufio.Reader) {
		_, _ = io.WriteString(c, answer)
		_ = c.(*net.TCPConn).CloseWrite()
		time.Sleep(20 * time.Millisecond)
	})
	f("and reads on", func(c net.Conn, r *bufio.Reader) {
		_, _ = io.WriteString(c, answer)
		_, _ = io.Copy(io.Discard, r)
	})
	f("and does nothing more", func(c net.Conn, _ *bufio.Reader) {
		_, _ = io.WriteString(c, answer)
		for range 3 {
			<-over // neither reads nor closes until its test is over
		}
	})
}
