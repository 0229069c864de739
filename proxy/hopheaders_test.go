package proxy

import (
	"bufio"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/valyala/fasthttp"
)

// No header of the client reaches the upstream, and none of the upstream's reaches the
// client, unless the handler copies it.
func TestHeadersDoNotCross(t *testing.T) {
	heads := make(chan string, 1)
	u := newUpstream(t, func(c net.Conn, r *bufio.Reader, _ int) {
		head, _, _ := readRequest(r)
		heads <- head
		_, _ = io.WriteString(c,
			"HTTP/1.1 200 OK\r\nConnection: keep-alive, X-Hop\r\nX-Hop: up\r\nKeep-Alive: "+
				"timeout=5\r\nProxy-Authenticate: Basic\r\n"+
				"Trailer: X-T\r\nUpgrade: h2c\r\nSet-Cookie: up=1\r\nServer: up/1\r\nOpenAI-Organization: "+
				"org-secret\r\nContent-Type: text/event-stream\r\nX-Request-Id: theirs\r\nTransfer-Encoding: "+
				"chunked\r\n\r\n"+
				chunk("x")+"0\r\nX-T: up\r\n\r\n")
	})
	tg := endpoint(t, u.addr, func(o *EndpointOptions) {
		o.Headers = [][2]string{{"Authorization", "Bearer up"}, {"OpenAI-Beta", "v2"}}
	})
	g := newGateway(t, Options{}, ServerOptions{}, streaming(func() (*plan, Lens) {
		return &plan{endpoints: []*Endpoint{tg}, request: Request{ID: []byte("id-1"), Accept: "text/event-stream"}}, nil
	}))
	c := g.dial()
	_, _ = io.WriteString(c,
		"POST /v1/../x?y=1 HTTP/1.1\r\nHost: evil\r\nConnection: close, X-Hop\r\nX-Hop: 1\r\nTE: "+
			"trailers\r\nKeep-Alive: 1\r\nProxy-Authorization: p\r\n"+
			"Upgrade: h2c\r\nAuthorization: Bearer client\r\nCookie: c=1\r\nX-Forwarded-For: "+
			"1.2.3.4\r\nAccept-Encoding: gzip\r\nUser-Agent: client\r\nContent-Length: 2\r\n\r\n{}")
	b, err := io.ReadAll(c)
	if err != nil {
		t.Fatal(err)
	}
	want := "POST /v1/chat/completions HTTP/1.1\r\nHost: " + u.addr +
		"\r\nUser-Agent: farebox/1\r\nAccept-Encoding: identity\r\nAuthorization: Bearer up\r\nOpenAI-Beta: v2\r\n" +
		"Accept: text/event-stream\r\nX-Request-ID: id-1\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n"
	if got := <-heads; got != want {
		t.Errorf("upstream got\n%s\nwant\n%s", got, want)
	}
	head, _, _ := strings.Cut(string(b), "\r\n\r\n")
	lines := strings.Split(head, "\r\n")
	if len(lines) != 5 || lines[0] != "HTTP/1.1 200 OK" || !strings.HasPrefix(lines[1], "Date: ") ||
		lines[2] != "Content-Type: text/event-stream" || lines[3] != "Transfer-Encoding: chunked" ||
		lines[4] != "Connection: close" {
		t.Errorf("the client got\n%s", head)
	}
}

// The handler can look at the upstream's head.
func TestTheHandlerSeesTheHead(t *testing.T) {
	u := newUpstream(t, answering(
		"HTTP/1.1 503 Busy\r\nContent-Type: application/json; charset=utf-8\r\nretry-after: Fri, 31 Dec 1999 "+
			"23:59:59 GMT\r\nX-A: 1\r\nx-a: 2\r\nContent-Length: 2\r\n\r\n{}"))
	tg := endpoint(t, u.addr)
	g := newGateway(t, Options{}, ServerOptions{}, func(g *gateway, ctx *fasthttp.RequestCtx) {
		x := new(Exchange)
		r := g.p.Ask(ctx, x, 0, tg, &Request{Body: ctx.PostBody()})
		if r.Status != 503 || r.RetryAfter != 0 || x.ContentLength() != 2 ||
			string(x.ContentType()) != "application/json; charset=utf-8" ||
			string(x.Header("X-A")) != "1" || x.Header("X-B") != nil || x.Status() != 503 {
			g.t.Errorf("%+v %d %q %q", r, x.ContentLength(), x.ContentType(), x.Header("X-A"))
		}
		x.Close()
		x.Close()
		x.Reset()
	})
	if _, _, err := g.ask("{}"); err != nil {
		t.Fatal(err)
	}
	if g.p.Active() != 0 {
		t.Error("still registered")
	}
}

func TestTargetsThatCannotBe(t *testing.T) {
	f := func(o EndpointOptions, want string) {
		t.Helper()
		o.Name = "acme"
		if _, err := NewEndpoint(o); err == nil || !strings.Contains(err.Error(), want) ||
			!strings.Contains(err.Error(), "acme") || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%+v: %v, want %q", o, err, want)
		}
	}
	const base = "http://h/v1"
	f(EndpointOptions{BaseURL: ""}, "scheme")
	f(EndpointOptions{BaseURL: "ftp://h"}, "scheme")
	f(EndpointOptions{BaseURL: "http://"}, "needs a host")
	f(EndpointOptions{BaseURL: "http://u:hunter2@h/"}, "no user")
	f(EndpointOptions{BaseURL: "http://h/?key=hunter2"}, "query")
	f(EndpointOptions{BaseURL: "http://h:0/"}, "port")
	f(EndpointOptions{BaseURL: "http://h:99999/"}, "port")
	f(EndpointOptions{BaseURL: "http://hunter2\x7f/"}, "not a URL")
	f(EndpointOptions{BaseURL: "unix:"}, "path")
	f(EndpointOptions{BaseURL: "https://h", CAFile: "/does/not/exist"}, "CA file")
	f(EndpointOptions{BaseURL: base, Headers: [][2]string{{"X", "a\r\nY: hunter2"}}}, "control characters")
	f(EndpointOptions{BaseURL: base, Headers: [][2]string{{"X Y", "a"}}}, "not a header name")
	f(EndpointOptions{BaseURL: base, Headers: [][2]string{{"content-length", "1"}}}, "itself")
	f(EndpointOptions{BaseURL: base, Headers: [][2]string{{"Transfer-Encoding", "chunked"}}}, "itself")
}
