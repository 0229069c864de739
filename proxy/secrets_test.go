package proxy

import (
	"bufio"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// The server's log and the errors for logs show no byte of a request, no key and no
// upstream address, whatever clients and upstreams do.
func TestLogsShowNoSecrets(t *testing.T) {
	const prompt, key, upstreamKey = "my-secret-prompt", "sk-client-secret", "sk-upstream-secret"
	u := newUpstream(t, func(c net.Conn, r *bufio.Reader, n int) {
		_, _, _ = readRequest(r)
		if n%2 == 0 {
			_, _ = io.WriteString(c, "HTTP/1.1 200 "+upstreamKey+" "+prompt+"\r\nX "+prompt+"\r\n\r\n")
		}
	})
	_, port, _ := net.SplitHostPort(u.addr)
	tg := endpoint(t, u.addr, func(o *EndpointOptions) {
		o.Headers = [][2]string{{"Authorization", "Bearer " + upstreamKey}}
	})
	g := newGateway(t, Options{}, ServerOptions{MaxBody: 1000, ReadTimeout: 200 * time.Millisecond},
		whole(func() *plan {
			return &plan{endpoints: []*Endpoint{tg}}
		}, 100))
	auth := "Authorization: Bearer " + key + "\r\n"
	for _, wire := range []string{
		"POST /" + prompt + " HTTP/1.1\r\nHost: h\r\n" + auth + "Content-Length: 5000\r\n\r\n" + strings.Repeat(prompt,
			400),
		"POST / HTTP/1.1\r\nHost: h\r\n" + auth + "Content-Length: 50\r\nContent-Length: 51\r\n\r\n" + prompt,
		"POST / HTTP/1.1\r\nHost: h\r\n" + auth + "Transfer-Encoding: chunked\r\n\r\n" + prompt,
		"POST / HTTP/1.1\r\nHost: h\r\n" + auth + "X: " + strings.Repeat(prompt, 2000) + "\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: h\r\n" + auth + prompt + "\r\n\r\n",
		prompt + " " + key + "\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: h\r\n" + auth + "Content-Length: 50\r\n\r\n" + prompt, // never completed
		"POST / HTTP/1.1\r\nHost: h\r\n" + auth + "Content-Length: 16\r\n\r\n" + prompt,
		"POST / HTTP/1.1\r\nHost: h\r\n" + auth + "Content-Length: 16\r\n\r\n" + prompt,
		"\x16\x03\x01\x02\x00\x01\x00" + key,
	} {
		c := g.dial()
		_, _ = io.WriteString(c, wire)
		b, _ := io.ReadAll(io.LimitReader(c, 4000))
		_, body, _ := strings.Cut(string(b), "\r\n\r\n")
		for _, secret := range []string{prompt, key, upstreamKey, port} {
			if strings.Contains(body, secret) {
				t.Errorf("%.60q: the answer shows %q: %q", wire, secret, body)
			}
		}
		c.Close()
	}
	for len(g.results) > 0 {
		if r := <-g.results; r.Err != nil {
			g.log.Printf("%v", r.Err)
		}
	}
	text := g.log.String()
	for _, secret := range []string{prompt, key, upstreamKey, port, "127.0.0.1:" + port} {
		if strings.Contains(text, secret) {
			t.Errorf("the log shows %q:\n%s", secret, text)
		}
	}
}
