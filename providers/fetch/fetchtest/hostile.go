package fetchtest

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"farebox/bench/servers"
)

// Inside is the port of a server at 127.0.0.2, which must not be fetched from. A request to
// it fails the test.
func Inside(t testing.TB) (port string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.2:0")
	if err != nil {
		servers.Elsewhere(t, "second loopback address")
	}
	var hits atomic.Int32
	s := &http.Server{ReadHeaderTimeout: time.Minute, ConnState: func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			hits.Add(1)
		}
	}, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "secret") })}
	go func() { _ = s.Serve(l) }()
	t.Cleanup(func() {
		_ = s.Close()
		if n := hits.Load(); n != 0 {
			t.Errorf("the internal server was reached %d times", n)
		}
	})
	return fmt.Sprint(l.Addr().(*net.TCPAddr).Port)
}

// Endless sends a piece again and again, as fast as it is taken.
func Endless(piece string) http.HandlerFunc {
	much := bytes.Repeat([]byte(piece), 1000)
	return func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			if _, err := w.Write(much); err != nil {
				return
			}
		}
	}
}

// Drip sends a piece again and again, slowly.
func Drip(piece string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			_, _ = io.WriteString(w, piece)
			w.(http.Flusher).Flush()
			time.Sleep(20 * time.Millisecond)
		}
	}
}

// Silent takes requests and never answers.
func Silent(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

// HugeHead answers with 200 KB of header fields.
func HugeHead(w http.ResponseWriter, _ *http.Request) {
	for i := range 200 {
		w.Header().Set(fmt.Sprint("X-", i), strings.Repeat("x", 1000))
	}
}

// NotHTTP answers as a mail server does.
func NotHTTP(w http.ResponseWriter, _ *http.Request) {
	conn, _, _ := w.(http.Hijacker).Hijack()
	_, _ = io.WriteString(conn, "220 smtp ready\r\n")
	conn.Close()
}
