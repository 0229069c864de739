package queue

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"farebox/proxy"
)

const (
	// maxAnswer bounds answers about a job, unless a dialect needs more.
	maxAnswer = 256 << 10
	// maxError bounds the bytes read of an error's body.
	maxError = 64 << 10
	// maxResult bounds the stored location of a result.
	maxResult = 4 << 10
)

// lost is an exchange without a usable answer.
type lost struct {
	cause  proxy.Cause
	status int // of the answer, if any
	err    error
}

func (l *lost) Error() string {
	if l.err != nil {
		return "the upstream gave no answer: " + l.err.Error()
	}
	return "the upstream gave no answer: " + l.cause.String()
}

// errLarge is an answer beyond its limit.
var errLarge = errors.New("the answer is too large")

// request sends a step to its target and reads the answer, all of it unless it is media. sent
// says that the target may have begun to work on it. The error is a *lost, or ctx's.
func (e *Engine) request(ctx context.Context, t *Target, s *Step, id string) (r *Reply, sent bool, err error) {
	if ctx.Err() != nil {
		return nil, false, ctx.Err()
	}
	limit := e.o.Ask
	if s.Media {
		limit = e.o.Make // of the body, too, which may outlive ctx
	}
	if s.Media && s.Request.FirstByte == 0 {
		s.Request.FirstByte = e.o.Ask
	}
	if s.Request.ID == nil {
		s.Request.ID = []byte(id)
	}
	m := &Media{engine: e, x: e.exchanges.Get().(*proxy.Exchange), left: e.o.Most}
	m.x.Reset()
	e.o.Proxy.Open(nil, m.x, limit)
	m.watch(ctx)
	keep := false
	defer func() {
		if !keep {
			_ = m.Close()
		}
	}()
	res := m.x.Ask(t.Proxy, &s.Request)
	if res.Cause != proxy.None {
		return nil, res.Sent, &lost{cause: res.Cause, err: res.Err}
	}
	r = &Reply{
		Part: s.Part, Status: res.Status, ContentType: string(m.x.ContentType()), Header: m.x.Header,
		RetryAfter: res.RetryAfter,
	}
	if good := res.Status/100 == 2; s.Media && good && mediaType(r.ContentType) {
		if m.x.ContentLength() > e.o.Most {
			return nil, true, &lost{status: res.Status, err: errLarge}
		}
		if !m.alone() {
			return nil, true, &lost{cause: proxy.Cut, status: res.Status, err: ctx.Err()}
		}
		keep, r.Media = true, m
		return r, true, nil
	}
	most := s.Most
	if most <= 0 {
		most = maxAnswer
	}
	if res.Status/100 != 2 {
		most = maxError
	}
	body, cause, err := m.x.ReadAll(nil, most)
	switch {
	case err == proxy.ErrTooLarge && res.Status >= 300:
		body = nil // of a longer error only the status is reported
	case err == proxy.ErrTooLarge:
		return nil, true, &lost{status: res.Status, err: errLarge}
	case err != nil:
		return nil, true, &lost{cause: cause, status: res.Status, err: err}
	}
	// The caller reads the head's fields; the exchange is released without them.
	r.Body, r.Header = body, r.copyHeaders(m.x)
	return r, true, nil
}

// keptFields are the fields of an answer's head that dialects read.
var keptFields = []string{"x-fal-request-id", "x-fal-error-type", "request-id", "x-request-id"}

// copyHeaders copies the headers that dialects may read: the head is gone with its
// exchange.
func (r *Reply) copyHeaders(x *proxy.Exchange) func(string) []byte {
	var fields map[string][]byte
	for _, name := range keptFields {
		if v := x.Header(name); v != nil {
			if fields == nil {
				fields = map[string][]byte{}
			}
			fields[name] = append([]byte(nil), v...)
		}
	}
	return func(name string) []byte { return fields[strings.ToLower(name)] }
}

// close closes a body that is not wanted.
func (r *Reply) close() {
	if r.Media != nil {
		_ = r.Media.Close()
	}
}

// mediaType says that a Content-Type is that of sound, film, or unspecified bytes.
func mediaType(text string) bool {
	kind, _, _ := strings.Cut(strings.ToLower(strings.TrimSpace(text)), ";")
	return strings.HasPrefix(kind, "audio/") || strings.HasPrefix(kind, "video/") ||
		kind == "application/octet-stream" || kind == "binary/octet-stream"
}

// Media is an answer's body that is read piece by piece by one goroutine. Another may close
// it, which ends the read.
type Media struct {
	engine *Engine
	cutMu  sync.Mutex      // guards x between Close and release; taken after mu
	mu     sync.Mutex      // held while a piece is read
	x      *proxy.Exchange // nil once it was released
	left   int64
	piece  []byte
	ended  bool
	err    error
	stop   func() bool
	done   chan struct{}
}

// alone lets the body go on when the context of its request ends; false: that has ended
// already.
func (m *Media) alone() bool {
	if !m.stop() {
		return false
	}
	m.stop = func() bool { return true }
	return true
}

// watch cuts the exchange when ctx ends.
func (m *Media) watch(ctx context.Context) {
	x, done := m.x, make(chan struct{})
	m.done = done
	m.stop = context.AfterFunc(ctx, func() {
		defer close(done)
		x.Cut()
	})
}

// Read gives the bytes that have arrived. An answer that breaks off, or that is longer than
// may be, ends with another error than io.EOF.
func (m *Media) Read(p []byte) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for len(m.piece) == 0 {
		if m.err != nil {
			return 0, m.err
		}
		if m.ended {
			if m.err = io.EOF; m.x != nil {
				if cause, err := m.x.Finish(); err != nil {
					m.err = &lost{cause: cause, err: err}
				}
			}
			m.release()
			return 0, m.err
		}
		m.piece, m.ended = m.x.Piece()
		if m.left -= int64(len(m.piece)); m.left < 0 {
			m.piece, m.err = nil, errLarge
			m.release()
		}
	}
	n := copy(p, m.piece)
	m.piece = m.piece[n:]
	return n, nil
}

// Close releases the connection; an answer that was not read to its end closes it.
func (m *Media) Close() error {
	m.cutMu.Lock()
	if m.x != nil {
		m.x.Cut() // a read that waits ends, and releases mu
	}
	m.cutMu.Unlock()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err == nil {
		m.err = errors.New("the answer was closed")
	}
	m.piece = nil
	m.release()
	return nil
}

// release releases the exchange, once, when nothing can cut it any more.
func (m *Media) release() {
	if m.x == nil {
		return
	}
	if !m.stop() {
		<-m.done
	}
	x := m.x
	m.cutMu.Lock()
	m.x = nil
	m.cutMu.Unlock()
	x.Reset()
	m.engine.exchanges.Put(x)
}

// closing runs a function when a body is closed.
type closing struct {
	io.ReadCloser
	then func()
}

func (c *closing) Close() error {
	defer c.then()
	return c.ReadCloser.Close()
}

// statusError is the error of an answer without a status of its job.
func statusError(status int) error { return fmt.Errorf("the upstream answered with status %d", status) }
