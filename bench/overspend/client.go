package overspend

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"time"

	"farebox/bench/load"
)

// client sends requests over one connection at a time and disconnects when its plan says so.
type client struct {
	base    *url.URL
	timeout time.Duration
	conn    *load.Conn
}

// ending is the end of a request for its client.
type ending struct {
	status int // 0: without a head
	bytes  int64
	left   bool
	whole  bool // the answer was read to its end
	err    error
}

func (c *client) close() {
	if c.conn != nil {
		c.conn.Close()
		c.conn = nil
	}
}

// do sends a body and stays or leaves.
func (c *client) do(to *Endpoint, key string, body []byte, l *Leaver) (e ending) {
	if c.conn == nil {
		if c.conn, e.err = load.Dial(c.base, c.timeout, 0); e.err != nil {
			c.conn = nil
			return e
		}
	}
	until := time.Now().Add(c.timeout)
	head := fmt.Appendf(nil, "POST %s%s HTTP/1.1\r\nHost: %s\r\nContent-Type: %s\r\nAuthorization: Bearer "+
		"%s\r\nContent-Length: %d\r\n\r\n",
		c.base.Path, to.Path, c.base.Host, to.contentType(), key, len(body))
	if e.err = c.conn.Send(append(head, body...)); e.err == nil {
		if l.when == beforeHead {
			time.Sleep(l.after)
			return c.disconnect(l, e)
		}
		e.status, e.err = c.conn.Head()
	}
	if e.err == nil {
		e.err = c.conn.Body(c.reader(l, &e, until))
	}
	switch {
	case errors.Is(e.err, errLeaves):
		e.err = nil
		return c.disconnect(l, e)
	case e.err != nil || c.conn.Closing():
		c.close()
	}
	e.whole = e.err == nil
	return e
}

var (
	finished  = [][]byte{[]byte(`"finish_reason":"`), []byte(`"finish_reason": "`)}
	errLeaves = errors.New("the client leaves")
)

// reader takes the body up to where the client leaves, or to its end.
func (c *client) reader(l *Leaver, e *ending, until time.Time) func(part []byte) error {
	var tail []byte
	return func(part []byte) error {
		e.bytes += int64(len(part))
		switch {
		case time.Now().After(until):
			return os.ErrDeadlineExceeded
		case e.status != http.StatusOK:
		case l.when == atBytes && e.bytes >= l.bytes:
			return errLeaves
		case l.when == beforeUsage:
			// finish_reason may lie across two reads.
			tail = append(tail[max(0, len(tail)-32):], part...)
			for _, mark := range finished {
				if bytes.Contains(tail, mark) {
					return errLeaves
				}
			}
		}
		return nil
	}
}

// disconnect closes the connection in the leaver's way.
func (c *client) disconnect(l *Leaver, e ending) ending {
	e.left = true
	raw := c.conn.Net()
	if t, ok := raw.(*tls.Conn); ok {
		raw = t.NetConn()
	}
	tcp, _ := raw.(*net.TCPConn)
	switch {
	case l.how == byRst && tcp != nil:
		_ = tcp.SetLinger(0)
	case l.how == byHalf && tcp != nil:
		if tcp.CloseWrite() == nil {
			n, _ := io.Copy(io.Discard, c.conn.Net())
			e.bytes += n
		}
	}
	c.close()
	return e
}
