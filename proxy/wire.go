package proxy

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"unsafe"

	"github.com/valyala/fasthttp"
)

// wire knows how many of the bytes read from a connection its requests have used. The server
// reads ahead into a buffer of its own that nobody else can see; the part of a body in it must be
// known to read the rest.
type wire struct {
	window []byte  // the bytes of the last read
	before [4]byte // the bytes in front of it
	last   [4]byte // its own last ones
	// where in window the next request begins, or the rest of this one's body; below 0: in an
	// earlier read, beyond its end: in a later one
	at    int
	again []byte // read beyond the end of a chunked body: the next request
}

// note is notified of each read.
func (w *wire) note(p []byte) {
	w.at -= len(w.window)
	w.window, w.before = p, w.last
	if n := len(p); n >= len(w.last) {
		copy(w.last[:], p[n-len(w.last):])
	} else {
		copy(w.last[:], w.last[n:])
		copy(w.last[len(w.last)-n:], p)
	}
}

// replay gives the bytes that were read too far, before any new ones.
func (w *wire) replay(p []byte) (n int) {
	if len(w.again) > 0 {
		n = copy(p, w.again)
		w.again = w.again[n:]
		w.note(p[:n])
	}
	return n
}

func (w *wire) wired() *wire { return w }

// byteAt is a byte of the window or of the four in front of it.
func (w *wire) byteAt(i int) byte {
	if i >= 0 {
		return w.window[i]
	}
	return w.before[len(w.before)+i]
}

// head takes a request's head of n bytes. rest is how many bytes follow it already. It fails
// unless the head ends there with an empty line, so that a mistake about its length can never
// shift the next request.
func (w *wire) head(n int) (rest int, ok bool) {
	for w.at >= 0 && w.at+1 < len(w.window) && w.window[w.at] == '\r' && w.window[w.at+1] == '\n' {
		w.at += 2 // RFC 9112 2.2: an empty line before the request
	}
	end := w.at + n
	if n < 4 || end < 1 || end > len(w.window) {
		return 0, false
	}
	for i, c := range [...]byte{'\n', '\r', '\n', '\r'} {
		if w.byteAt(end-1-i) != c {
			return 0, false
		}
	}
	w.at = end
	return len(w.window) - end, true
}

// tlsClient is a client's connection with TLS on a ClientConn.
type tlsClient struct {
	*tls.Conn
	wire
}

func (c *tlsClient) Read(p []byte) (int, error) {
	if n := c.replay(p); n > 0 {
		return n, nil
	}
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.note(p[:n])
	}
	return n, err
}

// requestOf is the request whose head the server has just read. It gives the
// head, which stands inside its RequestCtx, and nothing that leads there.
func requestOf(h *fasthttp.RequestHeader) *fasthttp.RequestCtx {
	const at = unsafe.Offsetof(fasthttp.RequestCtx{}.Request) + unsafe.Offsetof(fasthttp.Request{}.Header)
	return (*fasthttp.RequestCtx)(unsafe.Add(unsafe.Pointer(h), -int(at)))
}

// Check finds out, at a start, whether requestOf is right: a later fasthttp may give a head that
// is not inside a RequestCtx, and the memory in front of that one would be taken for a request.
func Check() error {
	return checkHeads(func(h *fasthttp.RequestHeader) *fasthttp.RequestHeader { return h })
}

// checkHeads lets a server read one request, and compares. given makes the head
// that requestOf sees of the one that the server gives.
func checkHeads(given func(*fasthttp.RequestHeader) *fasthttp.RequestHeader) error {
	var found, served *fasthttp.RequestCtx
	s := fasthttp.Server{
		HeaderReceived: func(h *fasthttp.RequestHeader) (c fasthttp.RequestConfig) {
			found = requestOf(given(h))
			return c
		},
		Handler: func(ctx *fasthttp.RequestCtx) { served = ctx },
	}
	client, server := net.Pipe()
	go func() {
		_, _ = io.WriteString(client, "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
		_, _ = io.Copy(io.Discard, client)
	}()
	err := s.ServeConn(server)
	_ = client.Close()
	switch {
	case err != nil:
		return fmt.Errorf("cannot find out where the server keeps the heads of requests: %w", err)
	case served == nil || found != served:
		return errors.New("cannot read the bodies of requests: this version of fasthttp keeps the heads of requests " +
			"elsewhere; " +
			"build farebox with the version in go.mod")
	}
	return nil
}

// headLen is how many bytes a head had on the wire when all its lines end as
// they should; wire.head finds out whether they did.
func headLen(h *fasthttp.RequestHeader) int {
	lines := len(h.RawHeaders())
	if lines == 0 {
		lines = len("\r\n")
	}
	return len(h.Method()) + len(h.RequestURI()) + len(h.Protocol()) + len("  \r\n") + lines
}

// strict says whether there is one way only to read the head lines in raw. What
// a proxy in front could read differently (where a line or the body ends, whose
// key it is) is refused, not resolved: the server underneath takes bare line
// feeds, folded lines, a length beside a coding and the first of two keys.
func strict(h *fasthttp.RequestHeader) bool {
	keys, framings := 0, 0
	for raw := h.RawHeaders(); len(raw) > 2; {
		n := bytes.IndexByte(raw, '\n')
		if n < 2 || raw[n-1] != '\r' {
			return false
		}
		line := raw[:n-1]
		raw = raw[n+1:]
		colon := bytes.IndexByte(line, ':')
		// other bytes that do not belong to a token are refused underneath
		if colon < 1 || bytes.IndexByte(line[:colon], ' ') >= 0 {
			return false
		}
		switch name := line[:colon]; len(name) {
		case len("Authorization"):
			if fold(name, "authorization") {
				keys++
			}
		case len("Content-Length"):
			if fold(name, "content-length") {
				framings++
			}
		case len("Transfer-Encoding"):
			if fold(name, "transfer-encoding") {
				framings++
				if !fold(bytes.Trim(line[colon+1:], " \t"), "chunked") {
					return false
				}
			}
		}
	}
	return keys <= 1 && framings <= 1 && (len(h.Host()) > 0 || !h.IsHTTP11())
}
