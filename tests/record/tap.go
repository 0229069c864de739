package main

import (
	"bytes"
	"net"
	"sort"
	"strconv"
	"strings"
	"sync"
)

// tap hears every byte that the gateway sends to one simulated upstream, head
// and body as they came: a server that reads HTTP would lose the order and the
// spelling of headers.
type tap struct {
	net.Listener
	name string

	mu    sync.Mutex
	conns []*tapped
}

// tapped is a connection that keeps the bytes read from it. Being a *net.TCPConn
// underneath, it can be reset and half closed as the upstream wants.
type tapped struct {
	*net.TCPConn
	tap   *tap
	heard []byte
}

func listen(name string) (*tap, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	return &tap{Listener: ln, name: name}, nil
}

func (t *tap) Accept() (net.Conn, error) {
	nc, err := t.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &tapped{TCPConn: nc.(*net.TCPConn), tap: t}
	t.mu.Lock()
	t.conns = append(t.conns, c)
	t.mu.Unlock()
	return c, nil
}

// NetConn lets the simulated upstream reach the socket, to reset it.
func (t *tapped) NetConn() net.Conn { return t.TCPConn }

func (t *tapped) Read(p []byte) (int, error) {
	n, err := t.TCPConn.Read(p)
	t.tap.mu.Lock()
	t.heard = append(t.heard, p[:n]...)
	t.tap.mu.Unlock()
	return n, err
}

// requests takes the whole requests that were heard since the last call, sorted:
// which of several connections was first is chance.
func (t *tap) requests() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []string
	for _, c := range t.conns {
		for {
			n := wholeRequest(c.heard)
			if n == 0 {
				break
			}
			out = append(out, string(c.heard[:n]))
			c.heard = c.heard[n:]
		}
	}
	sort.Strings(out)
	return out
}

// wholeRequest is the length of the first request in b, 0 while it is not all there.
func wholeRequest(b []byte) int {
	end := bytes.Index(b, []byte("\r\n\r\n"))
	if end < 0 {
		return 0
	}
	end += len("\r\n\r\n")
	head := string(b[:end])
	if strings.EqualFold(headerOf(head, "Transfer-Encoding"), "chunked") {
		last := bytes.Index(b[end:], []byte("0\r\n\r\n"))
		if last < 0 {
			return 0
		}
		return end + last + len("0\r\n\r\n")
	}
	length, _ := strconv.Atoi(headerOf(head, "Content-Length"))
	if len(b) < end+length {
		return 0
	}
	return end + length
}

// headerOf is the value of a header of an HTTP head; empty if absent.
func headerOf(head, name string) string {
	for line := range strings.Lines(head) {
		if n, v, ok := strings.Cut(line, ":"); ok && strings.EqualFold(n, name) {
			return strings.TrimSpace(v)
		}
	}
	return ""
}
