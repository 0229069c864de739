package proxy

import (
	"bufio"
	"bytes"
	"crypto/tls"
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

// echoing answers each request with its path and a sum of its body.
func echoing(_ *gateway, ctx *fasthttp.RequestCtx) {
	fmt.Fprintf(ctx, "%s %d %x", ctx.Path(), len(ctx.PostBody()), sum(ctx.PostBody()))
}

func sum(b []byte) (s uint32) {
	for _, c := range b {
		s = s*16777619 ^ uint32(c)
	}
	return s
}

// message is a request and the answer that it must get.
func message(i int, body []byte, chunked bool, rnd *rand.Rand) (wire []byte, want string) {
	var b bytes.Buffer
	want = fmt.Sprintf("/%d %d %x", i, len(body), sum(body))
	switch {
	case len(body) == 0:
		fmt.Fprintf(&b, "GET /%d HTTP/1.1\r\nHost: h\r\n\r\n", i)
	case chunked:
		fmt.Fprintf(&b, "POST /%d HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n", i)
		for len(body) > 0 {
			n := 1 + rnd.IntN(len(body))
			fmt.Fprintf(&b, "%x\r\n%s\r\n", n, body[:n])
			body = body[n:]
		}
		b.WriteString("0\r\n\r\n")
	default:
		fmt.Fprintf(&b, "POST /%d HTTP/1.1\r\nHost: h\r\nX: %s\r\nContent-Length: %d\r\n\r\n%s", i,
			strings.Repeat("x", rnd.IntN(300)), len(body), body)
	}
	return b.Bytes(), want
}

// If a head is not where requestOf reads it, the start fails, not a request.
func TestAServerThatKeepsHeadsElsewhereIsNotStarted(t *testing.T) {
	if err := Check(); err != nil {
		t.Errorf("with the fasthttp of go.mod: %v", err)
	}
	other := new(fasthttp.RequestCtx)
	err := checkHeads(func(*fasthttp.RequestHeader) *fasthttp.RequestHeader { return &other.Request.Header })
	if err == nil || !strings.Contains(err.Error(), "keeps the heads of requests elsewhere") {
		t.Errorf("with another one: %v", err)
	}
}

// Pipelined requests of all sizes, in pieces that end anywhere, each get their own
// answer: no part of a body becomes the next request, and no byte is lost.
func TestRequestsInPiecesAreSeparated(t *testing.T) {
	cert, key := certificate(t)
	u := NewUploads(1 << 30)
	plain := newGateway(t, Options{}, ServerOptions{MaxBody: 1 << 20, Uploads: u, ReadTimeout: 20 * time.Second},
		echoing)
	secure, err := Listen("127.0.0.1:0", cert, key)
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = plain.s.Serve(secure) }()
	for seed := range uint64(24) {
		rnd := rand.New(rand.NewPCG(seed, 7))
		var all []byte
		var want []string
		for i := range 30 {
			size := [...]int{0, 1, 100, 5000, smallBody - 1, smallBody, smallBody + 1, 9000, 20000, 70000,
				300000}[rnd.IntN(11)]
			body := make([]byte, size)
			for j := range body {
				body[j] = "GET / HTTP/1.1\r\n\r\n0123456789"[rnd.IntN(28)]
			}
			m, w := message(i, body, rnd.IntN(3) == 0, rnd)
			all, want = append(all, m...), append(want, w)
		}
		var c net.Conn
		if seed%2 == 0 {
			c = plain.dial()
		} else if c, err = tls.Dial("tcp", secure.Addr().String(), &tls.Config{InsecureSkipVerify: true}); err != nil {
			t.Fatal(err)
		}
		_ = c.SetDeadline(time.Now().Add(20 * time.Second))
		go func() {
			for len(all) > 0 {
				n := min(len(all), 1+rnd.IntN([...]int{5, 60, 3000, 100000}[rnd.IntN(4)]))
				if len(all) > 200000 {
					n = min(len(all), n+1000)
				}
				if _, err := c.Write(all[:n]); err != nil {
					return
				}
				all = all[n:]
			}
		}()
		r := bufio.NewReader(c)
		for i, w := range want {
			resp, err := http.ReadResponse(r, nil)
			if err != nil {
				t.Fatalf("seed %d, answer %d: %v", seed, i, err)
			}
			body, err := io.ReadAll(resp.Body)
			if err != nil || resp.StatusCode != 200 || string(body) != w {
				t.Fatalf("seed %d, answer %d: %d %q %v, want %q", seed, i, resp.StatusCode, body, err, w)
			}
		}
		_ = c.Close()
	}
	eventually(t, "all room is back", func() bool { return u.Used() == 0 })
}

// A head with two readings is refused and its connection closed, also after a good
// request.
func TestHeadsWithTwoReadingsAreRefused(t *testing.T) {
	var served int
	g := newGateway(t, Options{}, ServerOptions{}, func(*gateway, *fasthttp.RequestCtx) { served++ })
	smuggled := "GET /smuggled HTTP/1.1\r\nHost: h\r\n\r\n"
	for name, head := range map[string]string{
		"no host":                       "GET / HTTP/1.1\r\nX: y\r\n\r\n",
		"no fields":                     "GET / HTTP/1.1\r\n\r\n",
		"an empty host":                 "GET / HTTP/1.1\r\nHost:\r\n\r\n",
		"two hosts":                     "GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",
		"bare line feeds":               "GET / HTTP/1.1\nHost: h\n\n",
		"a bare line feed at the first": "GET / HTTP/1.1\nHost: h\r\n\r\n",
		"a bare line feed in a field":   "GET / HTTP/1.1\r\nHost: h\nX: y\r\n\r\n",
		"a bare line feed at the end":   "GET / HTTP/1.1\r\nHost: h\r\n\n",
		"a bare carriage return":        "GET / HTTP/1.1\r\nHost: h\r\nX: a\rb\r\n\r\n",
		"two keys": "GET / HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer a\r\nauthorization: " +
			"Bearer b\r\n\r\n",
		"a folded line":            "GET / HTTP/1.1\r\nHost: h\r\nX: a\r\n b\r\n\r\n",
		"a folded line with a tab": "GET / HTTP/1.1\r\nHost: h\r\nX: a\r\n\tb\r\n\r\n",
		"a folded first line":      "GET / HTTP/1.1\r\n Host: h\r\nHost: h\r\n\r\n",
		"a space before the colon": "GET / HTTP/1.1\r\nHost: h\r\nX : y\r\n\r\n",
		"a space in a name":        "GET / HTTP/1.1\r\nHost: h\r\nX y: z\r\n\r\n",
		"no name":                  "GET / HTTP/1.1\r\nHost: h\r\n: z\r\n\r\n",
		"identity":                 "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: identity\r\n\r\n",
		"identity with a length": "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: " +
			"identity\r\nContent-Length: 0\r\n\r\n",
		"gzip, chunked": "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip, " +
			"chunked\r\n\r\n0\r\n\r\n",
		"a coding and a length": "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nContent-Length: " +
			"5\r\n\r\n0\r\n\r\n",
		"two codings": "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: " +
			"chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"two lengths":                  "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\nContent-Length: 0\r\n\r\n",
		"a signed length":              "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: +0\r\n\r\n",
		"a list of lengths":            "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 0, 0\r\n\r\n",
		"two spaces in the first line": "GET  / HTTP/1.1\r\nHost: h\r\n\r\n",
		"a space after the version":    "GET / HTTP/1.1 \r\nHost: h\r\n\r\n",
		"two bodies": "POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nTransfer-Encoding: " +
			"identity\r\n\r\n",
	} {
		for _, first := range []string{"", "GET /good HTTP/1.1\r\nHost: h\r\n\r\n", post("small"),
			post(strings.Repeat("x", 9000))} {
			served = 0
			good := 0
			if first != "" {
				good = 1
			}
			c := g.dial()
			_, _ = io.WriteString(c, first+head+smuggled)
			b, err := io.ReadAll(c)
			text := string(b)
			if served != good || strings.Count(text, "HTTP/1.1 200") != good ||
				strings.Count(text, "HTTP/1.1 400") != 1 || strings.Count(text, "HTTP/1.1 ") != good+1 {
				t.Errorf("%s after %.5q: served %d, %q %v", name, first, served, text, err)
			}
		}
	}
	for name, head := range map[string]string{
		"an empty line before it": "\r\nGET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n",
		"1.0 without a host":      "GET / HTTP/1.0\r\n\r\n",
		"an empty value":          "GET / HTTP/1.1\r\nHost: h\r\nX:\r\nConnection: close\r\n\r\n",
		"tabs around a value":     "GET / HTTP/1.1\r\nHost: h\r\nX:\ty \t\r\nConnection: close\r\n\r\n",
		"no body after all": "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: Chunked\r\nConnection: " +
			"close\r\n\r\n0\r\n\r\n",
	} {
		c := g.dial()
		_, _ = io.WriteString(c, head)
		if b, err := io.ReadAll(c); strings.Count(string(b), "HTTP/1.1 200") != 1 {
			t.Errorf("%s: %q %v", name, b, err)
		}
	}
}

// A chunked upload that breaks off between two chunks is not a complete request.
func TestBrokenChunkedUploadsAreNotServed(t *testing.T) {
	served := false
	g := newGateway(t, Options{}, ServerOptions{}, func(*gateway, *fasthttp.RequestCtx) { served = true })
	for _, rest := range []string{"", "5\r\nhel", "0\r\n", "x\r\n", "5\nhello\n0\n\n", "-5\r\nhello\r\n0\r\n\r\n"} {
		c := g.dial()
		_, _ = io.WriteString(c, "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"+chunk("hello")+rest)
		_ = c.(*net.TCPConn).CloseWrite()
		if b, _ := io.ReadAll(c); served || strings.Contains(string(b), " 200 ") {
			t.Errorf("%q: served %v, %q", rest, served, b)
		}
	}
}

func BenchmarkHeadOfARequest(b *testing.B) {
	var h fasthttp.RequestHeader
	head := "POST /api/v1/chat/completions HTTP/1.1\r\nHost: api.example.com\r\nAccept: " +
		"application/json\r\nAccept-Encoding: gzip, deflate\r\n" +
		"Authorization: Bearer SVC_INFERENCE_KEY_0123456789012345678901234567890123456789\r\nConnection: " +
		"keep-alive\r\nContent-Length: 1024\r\n" +
		"Content-Type: application/json\r\nUser-Agent: AsyncOpenAI/Python 3.54.0\r\nX-Stainless-Arch: " +
		"x64\r\nX-Stainless-Async: async:asyncio\r\n" +
		"X-Stainless-Lang: python\r\nX-Stainless-OS: Linux\r\nX-Stainless-Package-Version: " +
		"3.54.0\r\nX-Stainless-Retry-Count: 0\r\nX-Stainless-Runtime: CPython\r\n\r\n"
	b.Run("fasthttp", func(b *testing.B) {
		r := bufio.NewReaderSize(nil, 8<<10)
		src := strings.NewReader(head)
		for b.Loop() {
			src.Reset(head)
			r.Reset(src)
			if err := h.Read(r); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("strict", func(b *testing.B) {
		for b.Loop() {
			if !strict(&h) || headLen(&h) != len(head) {
				b.Fatal("refused")
			}
		}
	})
}
