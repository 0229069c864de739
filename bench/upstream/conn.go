package upstream

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"sync/atomic"
	"time"
)

// conn serves one connection, one request at a time. While an answer takes
// time, a second goroutine watches the input for the peer's close.
type conn struct {
	srv *Server
	nc  net.Conn

	in         []byte
	used, held int // c.in[used:held] was read and not yet handled
	req        request
	out        []byte      // the next write
	rpc        []byte      // the next answer on the measured path of calls
	extra      [][2]string // further headers of the next answer
	timer      *time.Timer
	wire       wire

	gone     chan struct{} // closed when the peer left; nil while nobody watches
	watching chan struct{}
	leftAt   atomic.Int64 // Unix nanoseconds of the notice
}

// maxIdleBuffer is the largest input buffer a connection keeps between
// requests, above the 1 MB bodies of the measurements.
const maxIdleBuffer = 4 << 20

// errGone ends a request whose peer left.
var errGone = errors.New("peer closed the connection")

func newConn(s *Server, nc net.Conn) *conn {
	c := &conn{srv: s, nc: nc, in: make([]byte, firstBuffer)}
	c.wire.c = c
	return c
}

func (c *conn) run() {
	for {
		if c.read() != nil {
			return
		}
		keep := c.serve()
		if !keep || c.req.close {
			c.finish()
			return
		}
		if len(c.in) > maxIdleBuffer {
			rest := c.in[c.used:c.held]
			c.in = make([]byte, max(firstBuffer, len(rest)))
			c.used, c.held = 0, copy(c.in, rest)
		}
	}
}

// finish closes in order: the peer reads the answer to its end before the
// connection goes, even when unread input would make the kernel reset it.
func (c *conn) finish() {
	if half, ok := c.nc.(interface{ CloseWrite() error }); ok {
		if half.CloseWrite() != nil {
			return
		}
		_ = c.nc.SetReadDeadline(time.Now().Add(time.Second))
		_, _ = io.Copy(io.Discard, c.nc)
	}
}

// serve answers c.req; false: the connection is not used again.
func (c *conn) serve() bool {
	if model, ok := benchModel(c.req.body); ok && bytes.HasSuffix(c.req.path, []byte("/chat/completions")) &&
		c.authorized() {
		return c.serveBench(model)
	}
	path, _, _ := bytes.Cut(c.req.path, []byte("?"))
	if string(path) == BenchRPCPath {
		return c.serveBenchRPC()
	}
	if answer := c.benchImage(path); answer != nil && c.authorized() {
		_, err := c.nc.Write(answer)
		return err == nil
	}
	if c.benchSpeech(path) && c.authorized() {
		return c.serveBenchSpeech()
	}
	if bytes.HasPrefix(path, []byte("/_sim/")) {
		return c.serveTruth(string(path))
	}
	return c.serveModel(string(path))
}

func (c *conn) authorized() bool {
	return c.srv.options.Key == "" || string(c.req.key) == c.srv.options.Key
}

// watch notices from now on that the peer closes, also while nothing is
// written. Bytes that come meanwhile stay for the next request.
func (c *conn) watch() {
	c.gone, c.watching = make(chan struct{}), make(chan struct{})
	c.leftAt.Store(0)
	go func() {
		defer close(c.watching)
		for {
			if c.held == len(c.in) {
				if c.held > maxHead {
					return // a pipelining peer is told apart at its next request
				}
				// The request still points into the old array, which stays as it is.
				c.grow(2 * len(c.in))
			}
			n, err := c.nc.Read(c.in[c.held:])
			c.held += n
			if err == nil {
				continue
			}
			if !errors.Is(err, os.ErrDeadlineExceeded) {
				c.leftAt.Store(time.Now().UnixNano())
				close(c.gone)
				_ = c.nc.SetWriteDeadline(past) // a write that waits for the peer must end too
			}
			return
		}
	}()
}

// unwatch ends watch; the input is the connection's own again.
func (c *conn) unwatch() {
	if c.gone == nil {
		return
	}
	_ = c.nc.SetReadDeadline(past)
	<-c.watching
	_ = c.nc.SetReadDeadline(time.Time{})
	c.gone = nil
}

// pause waits until the peer leaves or d is over.
func (c *conn) pause(d time.Duration) error {
	if d <= 0 {
		return nil
	}
	if c.timer == nil {
		c.timer = time.NewTimer(d)
	} else {
		c.timer.Reset(d)
	}
	select {
	case <-c.timer.C:
		return nil
	case <-c.gone:
		c.timer.Stop()
		return errGone
	}
}

// waitGone waits until the peer has left.
func (c *conn) waitGone() error {
	if c.gone != nil {
		<-c.gone
	}
	return errGone
}

// write sends b at once.
func (c *conn) write(b []byte) error {
	if c.gone != nil && c.leftAt.Load() != 0 {
		return errGone
	}
	if _, err := c.nc.Write(b); err != nil {
		c.leftAt.CompareAndSwap(0, time.Now().UnixNano())
		return errGone
	}
	return nil
}

// cut ends the connection in the middle: fin leaves what was sent readable,
// rst is a reset.
func (c *conn) cut(how string) {
	if how == "rst" {
		raw := c.nc
		if t, ok := raw.(interface{ NetConn() net.Conn }); ok {
			raw = t.NetConn()
		}
		if t, ok := raw.(*net.TCPConn); ok {
			_ = t.SetLinger(0)
		}
	}
	_ = c.nc.Close()
}
