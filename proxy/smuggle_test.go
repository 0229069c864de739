package proxy

import (
	"bufio"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/valyala/fasthttp"
)

// Answers that two readers could end at different bytes are refused, and their connection
// is closed: the rest would become another client's answer.
func TestAmbiguousAnswersAreRefused(t *testing.T) {
	f := func(name, answer string) {
		t.Run(name, func(t *testing.T) {
			u := newUpstream(t, answering(answer))
			tg := endpoint(t, u.addr)
			g := newGateway(t, Options{}, ServerOptions{}, whole(func() *plan {
				return &plan{endpoints: []*Endpoint{tg}}
			}, 1<<20))
			if resp, body, err := g.ask("{}"); err != nil || resp.StatusCode != 502 || body != "upstream_malformed" {
				t.Errorf("%v %q %v", resp, body, err)
			}
			if open, _ := tg.Conns(); open != 0 {
				t.Error("the connection was kept")
			}
		})
	}
	f("two lengths", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx")
	f("two equal lengths", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nx")
	f("a list of lengths", "HTTP/1.1 200 OK\r\nContent-Length: 1, 1\r\n\r\nx")
	f("a signed length", "HTTP/1.1 200 OK\r\nContent-Length: +1\r\n\r\nx")
	f("a hex length", "HTTP/1.1 200 OK\r\nContent-Length: 0x1\r\n\r\nx")
	f("an empty length", "HTTP/1.1 200 OK\r\nContent-Length: \r\n\r\nx")
	f("a huge length", "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\nx")
	f("length and chunks", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")
	f("chunks and length", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n0\r\n\r\n")
	f("chunked twice", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")
	f("other codings", "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n")
	f("almost chunked", "HTTP/1.1 200 OK\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n")
	f("chunks on 1.0", "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")
	f("a space before the colon", "HTTP/1.1 200 OK\r\nContent-Length : 1\r\n\r\nx")
	f("a folded line", "HTTP/1.1 200 OK\r\nX: a\r\n b\r\nContent-Length: 1\r\n\r\nx")
	f("a bare line feed", "HTTP/1.1 200 OK\nContent-Length: 1\r\n\r\nx")
	f("a bare line feed between fields", "HTTP/1.1 200 OK\r\nX: a\nContent-Length: 1\r\n\r\nx")
	f("a bare carriage return", "HTTP/1.1 200 OK\r\nX: a\rContent-Length: 1\r\n\r\nx")
	f("a NUL", "HTTP/1.1 200 OK\r\nX: a\x00b\r\nContent-Length: 1\r\n\r\nx")
	f("no name", "HTTP/1.1 200 OK\r\n: a\r\n\r\nx")
	f("no colon", "HTTP/1.1 200 OK\r\nX\r\n\r\nx")
	f("HTTP/2", "HTTP/2.0 200 OK\r\n\r\nx")
	f("a status of two digits", "HTTP/1.1 20 OK\r\n\r\nx")
	f("status 600", "HTTP/1.1 600 OK\r\n\r\nx")
	f("switching protocols", "HTTP/1.1 101 Switching Protocols\r\n\r\nx")
	f("not HTTP", "SSH-2.0-OpenSSH_9.9 something\r\n\r\n")
	f("compressed", "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 1\r\n\r\nx")
	f("a head without end", "HTTP/1.1 200 OK\r\nX: "+strings.Repeat("x", 20<<10))
	f("interim answers without end", strings.Repeat("HTTP/1.1 102 Processing\r\n\r\n", maxInterim+1)+jsonAnswer("x"))
	f("a huge chunk size", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1000000000000000\r\nx")
	f("a negative chunk size", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\nx\r\n0\r\n\r\n")
	f("a bare line feed in chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\nx\n0\n\n")
	f("a line feed in an extension", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;a\nb\r\nx\r\n0\r\n\r\n")
	f("a long extension", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;"+strings.Repeat("a", 5000)+
		"\r\nx\r\n0\r\n\r\n")
	f("a long trailer", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n"+strings.Repeat("X: 12345678\r\n",
		2000)+"\r\n")
}

// Unusual but unambiguous answers are accepted.
func TestUnusualAnswersAreTaken(t *testing.T) {
	f := func(name, answer, want string) {
		t.Run(name, func(t *testing.T) {
			u := newUpstream(t, func(c net.Conn, r *bufio.Reader, _ int) {
				_, _, _ = readRequest(r)
				_, _ = io.WriteString(c, answer)
			})
			tg := endpoint(t, u.addr)
			g := newGateway(t, Options{}, ServerOptions{}, whole(func() *plan {
				return &plan{endpoints: []*Endpoint{tg}}
			}, 1<<20))
			if _, body, err := g.ask("{}"); err != nil || body != want {
				t.Errorf("%q %v", body, err)
			}
		})
	}
	f("no reason", "HTTP/1.1 200\r\nContent-Length: 1\r\n\r\nx", "x")
	f("lower case", "HTTP/1.1 200 OK\r\ncontent-length:1\r\n\r\nx", "x")
	f("spaces", "HTTP/1.1 200 OK\r\nContent-Length: \t 1 \t\r\n\r\nx", "x")
	f("interim answers", strings.Repeat("HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n", maxInterim)+jsonAnswer("x"), "x")
	f("identity", "HTTP/1.1 200 OK\r\nContent-Encoding: identity\r\nContent-Length: 1\r\n\r\nx", "x")
	f("1.0", "HTTP/1.0 200 OK\r\n\r\nx", "x")
	f("a large head", "HTTP/1.1 200 OK\r\nX: "+strings.Repeat("x", 12<<10)+"\r\nContent-Length: 1\r\n\r\nx", "x")
	f("upper case chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n00A \r\n0123456789\r\n000\r\n\r\n",
		"0123456789")
}

// An answer that is longer than announced must not begin the next client's.
func TestTrailingBytesPoisonTheConnection(t *testing.T) {
	for name, answer := range map[string]string{
		"length": "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx" + jsonAnswer("evil"),
		"chunks": sseHead + chunk("x") + "0\r\n\r\n" + jsonAnswer("evil"),
		"empty":  "HTTP/1.1 204 No Content\r\n\r\n" + jsonAnswer("evil"),
	} {
		u := newUpstream(t, answering(answer))
		tg := endpoint(t, u.addr)
		g := newGateway(t, Options{}, ServerOptions{}, whole(func() *plan { return &plan{endpoints: []*Endpoint{tg}} },
			1<<20))
		for range 3 {
			if _, body, err := g.ask("{}"); err != nil || body == "evil" {
				t.Errorf("%s: %q %v", name, body, err)
			}
		}
		if n := u.conns.Load(); n != 3 {
			t.Errorf("%s: %d connections for 3 poisoned answers", name, n)
		}
	}
}

// The bytes after a request that was refused unread are never served as a request.
func TestAnUnreadBodyIsNotTheNextRequest(t *testing.T) {
	var paths []string
	g := newGateway(t, Options{}, ServerOptions{MaxBody: 100},
		func(_ *gateway, ctx *fasthttp.RequestCtx) { paths = append(paths, string(ctx.Path())) })
	smuggled := "GET /smuggled HTTP/1.1\r\nHost: h\r\n\r\n"
	for _, wire := range []string{
		post(strings.Repeat("x", 100) + smuggled),
		"POST /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk(strings.Repeat("x", 101)) +
			smuggled,
		"POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\nContent-Length: 35\r\n\r\n" + smuggled,
		"POST /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: xchunked\r\n\r\n" + smuggled,
		"POST /x HTTP/1.1\r\nHost: h\r\nContent-Length : 35\r\n\r\n" + smuggled,
	} {
		c := g.dial()
		_, _ = io.WriteString(c, wire)
		b, _ := io.ReadAll(c)
		if !strings.HasPrefix(string(b), "HTTP/1.1 4") || strings.Count(string(b), "HTTP/1.1 4") != 1 {
			t.Errorf("%.80q: %q", wire, b)
		}
	}
	if len(paths) != 0 {
		t.Errorf("served %q", paths)
	}
}
