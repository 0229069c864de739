package fetch

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"sync"
	"time"

	"farebox/config/fair"
)

// Open fetches rawURL and gives its body while it arrives, at most most bytes, with its
// Content-Type. Unlike Get it has no time limit but ctx's: a server that is silent for
// longer than Options.Limit is too slow. The body must be closed. Errors are as those of
// Get; a body may turn out too large only while it is read.
func (c *Client) Open(ctx context.Context, rawURL string, most int64) (io.ReadCloser, string, error) {
	if len(rawURL) > maxURL {
		return nil, "", &Error{Reason: BadURL}
	}
	u, err := url.Parse(rawURL)
	if err != nil {
		return nil, "", &Error{Reason: BadURL}
	}
	if err := check(u); err != nil {
		return nil, "", err
	}
	place, err := take(ctx, c.turns, c.o.Limit)
	if err != nil {
		return nil, "", err
	}
	inner, cancel := context.WithCancel(ctx)
	b := &limitedBody{outer: ctx, cancel: cancel, place: place, left: most, limit: c.o.Limit}
	b.silent = time.AfterFunc(c.o.Limit, func() {
		b.mu.Lock()
		b.slow = true
		b.mu.Unlock()
		cancel()
	})
	r, err := http.NewRequestWithContext(inner, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, "", b.fail(&Error{Reason: BadURL})
	}
	r.Header.Set("User-Agent", "farebox/1")
	r.Header.Set("Accept", "*/*")
	resp, err := c.http.Do(r)
	if err != nil {
		return nil, "", b.fail(err)
	}
	b.body = resp.Body
	encoding := resp.Header.Get("Content-Encoding")
	switch {
	case resp.StatusCode != http.StatusOK:
		return nil, "", b.fail(&Error{Reason: BadStatus})
	case resp.ContentLength > most:
		return nil, "", b.fail(&Error{Reason: TooLarge})
	case encoding != "" && encoding != "identity":
		return nil, "", b.fail(&Error{Reason: Unwanted})
	}
	b.silent.Stop()
	return b, resp.Header.Get("Content-Type"), nil
}

// limitedBody is a body that is being read. One goroutine reads it; any other may close it.
type limitedBody struct {
	outer  context.Context
	cancel context.CancelFunc
	place  fair.Place
	body   io.ReadCloser
	left   int64
	limit  time.Duration
	silent *time.Timer
	once   sync.Once

	mu   sync.Mutex
	err  error // of every further Read
	slow bool  // the server was silent for too long
}

func (b *limitedBody) Read(p []byte) (int, error) {
	if err := b.keep(nil); err != nil {
		return 0, err
	}
	b.silent.Reset(b.limit)
	n, err := b.body.Read(p)
	b.silent.Stop() // the reader's time does not count for the server
	if b.left -= int64(n); b.left < 0 {
		n, err = 0, &Error{Reason: TooLarge}
	}
	if err != nil && err != io.EOF {
		err = b.fail(err)
	}
	_ = b.keep(err)
	return n, err
}

// keep keeps the first error for every further Read, and returns it.
func (b *limitedBody) keep(err error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err == nil {
		b.err = err
	}
	return b.err
}

// Close ends the fetch, also while a Read waits.
func (b *limitedBody) Close() error {
	_ = b.keep(&Error{Reason: Unreachable})
	b.end()
	return nil
}

// end releases the limits that the fetch holds, once.
func (b *limitedBody) end() {
	b.once.Do(func() {
		b.silent.Stop()
		b.cancel()
		if b.body != nil {
			_ = b.body.Close()
		}
		b.place.Done()
	})
}

// fail ends the fetch and finds the reason.
func (b *limitedBody) fail(err error) error {
	b.mu.Lock()
	slow := b.slow
	b.mu.Unlock()
	b.end()
	if slow {
		return &Error{Reason: TooSlow}
	}
	return ended(b.outer, err)
}
