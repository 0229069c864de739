package fetch

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// A body comes while it is sent, with the type that its server calls it, and gives its seat
// back when it is closed.
func TestABodyIsGivenWhileItComes(t *testing.T) {
	t.Parallel()
	more := make(chan struct{})
	u := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "audio/mpeg")
		_, _ = w.Write(bytes.Repeat([]byte("a"), 1000))
		w.(http.Flusher).Flush()
		if r.URL.Path == "/waits" {
			<-more
		}
		_, _ = w.Write(bytes.Repeat([]byte("b"), 1000))
	})
	c := New(Options{Allow: loopback, Parallel: 1})
	body, kind, err := c.Open(context.Background(), u+"/waits", 2000)
	if err != nil || kind != "audio/mpeg" {
		t.Fatal(kind, err)
	}
	first := make([]byte, 1000)
	if _, err := io.ReadFull(body, first); err != nil || first[999] != 'a' {
		t.Fatal(err)
	}
	close(more)
	rest, err := io.ReadAll(body)
	if err != nil || len(rest) != 1000 {
		t.Error(len(rest), err)
	}
	// The only seat is taken until the body is closed.
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if _, _, err := c.Open(ctx, u, 2000); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	body.Close()
	body.Close()
	if body, _, err = c.Open(context.Background(), u, 2000); err != nil {
		t.Fatal(err)
	}
	body.Close()
	if n, err := body.Read(first); n != 0 || reason(err) != "unreachable" {
		t.Error("it is read after it was closed:", n, err)
	}
}

// A body may be closed while it is read: a job's media is cut when its process stops.
func TestABodyIsClosedWhileItIsRead(t *testing.T) {
	t.Parallel()
	u := serve(t, func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			if _, err := w.Write(make([]byte, 4096)); err != nil {
				return
			}
		}
	})
	c := New(Options{Allow: loopback})
	for range 20 {
		body, _, err := c.Open(context.Background(), u, 1<<40)
		if err != nil {
			t.Fatal(err)
		}
		begun, ended := make(chan struct{}), make(chan error)
		go func() {
			_, err := body.Read(make([]byte, 100))
			close(begun)
			for err == nil {
				_, err = body.Read(make([]byte, 100))
			}
			ended <- err
		}()
		<-begun
		body.Close()
		if err := <-ended; reason(err) != "unreachable" {
			t.Error("it ended with", err)
		}
	}
}

// A body ends badly when it is too long, breaks off, or stalls; and when its reader has gone.
func TestBodiesEndBadly(t *testing.T) {
	t.Parallel()
	u := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/announced":
			w.Header().Set("Content-Length", "1001")
			w.WriteHeader(200)
			return
		case "/missing":
			w.WriteHeader(404)
			return
		case "/packed":
			w.Header().Set("Content-Encoding", "gzip")
			return
		case "/inside":
			http.Redirect(w, r, "http://127.0.0.2/", http.StatusFound)
			return
		case "/cut":
			w.Header().Set("Content-Length", "900")
			_, _ = w.Write(make([]byte, 500))
			panic(http.ErrAbortHandler)
		case "/still":
			_, _ = w.Write(make([]byte, 500))
			w.(http.Flusher).Flush()
			<-r.Context().Done()
			return
		case "/mute":
			<-r.Context().Done()
			return
		}
		for r.Context().Err() == nil {
			if _, err := w.Write(make([]byte, 4096)); err != nil {
				return
			}
		}
	})
	c := New(Options{Allow: loopback, Limit: 300 * time.Millisecond, Parallel: 1})
	for path, want := range map[string]string{"/endless": "large", "/announced": "large", "/missing": "status",
		"/packed": "unwanted", "/inside": "forbidden", "/cut": "unreachable", "/still": "slow", "/mute": "slow"} {
		body, _, err := c.Open(context.Background(), u+path, 1000)
		if err == nil {
			var n int64
			if n, err = io.Copy(io.Discard, body); n > 1000 {
				t.Error(path, n)
			}
			if _, again := body.Read(make([]byte, 1)); reason(again) != reason(err) {
				t.Error(path, again)
			}
			body.Close()
		}
		if reason(err) != want {
			t.Errorf("%s ended with %v", path, err)
		}
	}
	for _, link := range []string{"file:///etc/passwd", "http://u:p@127.0.0.1/", "http://169.254.169.254/", "",
		"http://h/" + strings.Repeat("a", 9000)} {
		if body, _, err := c.Open(context.Background(), link, 1000); err == nil {
			body.Close()
			t.Error(link)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	body, _, err := c.Open(ctx, u+"/still", 1000)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err := io.Copy(io.Discard, body); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	body.Close()
}
