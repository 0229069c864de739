package rpc

import (
	"bufio"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"farebox/bench/upstream/node"
)

// Nodes that a test makes: one that is well, one with the test's answers, and one that
// writes the test's bytes to its connections.

// startSimulated starts a simulated node.
func startSimulated(t *testing.T, o node.Options) (*node.Node, string) {
	t.Helper()
	n := node.New(o)
	url, err := n.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Close)
	return n, url
}

// under is the answer to a call of id 1, under the id that a node was asked.
func under(body, answer string) string {
	return strings.Replace(answer, `"id":1,`, `"id":`+idOf(body)+",", 1)
}

// startSaying is a node that answers every request with the result of say.
func startSaying(t *testing.T, say func(body string) string) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, say(string(body)))
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// startNode is a node that serves each connection with the bodies of its requests, one
// after the other.
func startNode(t *testing.T, serve func(conn net.Conn, bodies iter.Seq[[]byte])) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = conn.Close() }()
				in := bufio.NewReader(conn)
				serve(conn, func(yield func([]byte) bool) {
					for {
						r, err := http.ReadRequest(in)
						if err != nil {
							return
						}
						if body, err := io.ReadAll(r.Body); err != nil || !yield(body) {
							return
						}
					}
				})
			}()
		}
	}()
	return "http://" + ln.Addr().String()
}

func rawAnswer(body []byte) []byte {
	return fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		len(body), body)
}

func idOf(body string) string {
	_, rest, _ := strings.Cut(body, `"id":`)
	id, _, _ := strings.Cut(rest, ",")
	return id
}
