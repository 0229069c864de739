package queue_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"farebox/config"
)

// A stop closes a body while a worker reads it. The worker's read ends.
func TestClosingABodyEndsItsRead(t *testing.T) {
	t.Parallel()
	gone := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "audio/mpeg")
		for r.Context().Err() == nil {
			if _, err := w.Write(make([]byte, 1000)); err != nil {
				break
			}
			_ = http.NewResponseController(w).Flush()
			time.Sleep(time.Millisecond)
		}
		close(gone)
	}))
	defer s.Close()
	g := newRig(t)
	g.targetAt(&doors[3], config.MusicKind, s.URL+"/v1", nil)
	_, submitted := g.submit(order(config.MusicKind, ""))
	body := submitted.Done.Body
	if _, err := io.ReadFull(body, make([]byte, 5000)); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, body)
		ended <- err
	}()
	time.Sleep(20 * time.Millisecond)
	if err := body.Close(); err != nil {
		t.Error(err)
	}
	select {
	case err := <-ended:
		if err == nil {
			t.Error("the read ended as if the whole body had come")
		}
	case <-time.After(time.Minute):
		t.Fatal("the read goes on after Close")
	}
	select {
	case <-gone:
	case <-time.After(time.Minute):
		t.Error("the upstream still sends")
	}
	if n, err := body.Read(make([]byte, 1)); n != 0 || err == nil || err == io.EOF {
		t.Errorf("a closed body gives %d bytes and %v", n, err)
	}
	if err := body.Close(); err != nil {
		t.Error(err)
	}
}
