package overspend

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// client sends requests over one connection at a time and leaves as it is told.
type client struct {
	base    *url.URL
	timeout time.Duration
	conn    net.Conn
	in      *bufio.Reader
}

// ending is how a request ended for its client.
type ending struct {
	status int // 0: no head was seen
	bytes  int64
	left   bool
	whole  bool // the answer was read to its end
	err    error
}

func (c *client) close() {
	if c.conn != nil {
		_ = c.conn.Close()
		c.conn = nil
	}
}

func (c *client) dial() error {
	if c.conn != nil {
		return nil
	}
	host := c.base.Host
	if c.base.Port() == "" {
		host = net.JoinHostPort(c.base.Hostname(), map[string]string{"https": "443"}[c.base.Scheme])
		if c.base.Scheme == "http" {
			host = net.JoinHostPort(c.base.Hostname(), "80")
		}
	}
	conn, err := net.DialTimeout("tcp", host, c.timeout)
	if err != nil {
		return err
	}
	if c.base.Scheme == "https" {
		conn = tls.Client(conn, &tls.Config{ServerName: c.base.Hostname()})
	}
	c.conn, c.in = conn, bufio.NewReader(conn)
	return nil
}

// do sends a body and stays or leaves.
func (c *client) do(to *Endpoint, key string, body []byte, l *Leaver) ending {
	if err := c.dial(); err != nil {
		return ending{err: err}
	}
	_ = c.conn.SetDeadline(time.Now().Add(c.timeout))
	var b bytes.Buffer
	fmt.Fprintf(&b, "POST %s%s HTTP/1.1\r\nHost: %s\r\nContent-Type: %s\r\nAuthorization: Bearer "+
		"%s\r\nContent-Length: %s\r\n\r\n",
		c.base.Path, to.Path, c.base.Host, to.contentType(), key, strconv.Itoa(len(body)))
	b.Write(body)
	if _, err := c.conn.Write(b.Bytes()); err != nil {
		c.close()
		return ending{err: err}
	}
	if l.when == beforeHead {
		time.Sleep(l.after)
		return c.leave(l, ending{})
	}
	res, err := http.ReadResponse(c.in, nil)
	if err != nil {
		c.close()
		return ending{err: err}
	}
	e := ending{status: res.StatusCode}
	if res.StatusCode != http.StatusOK {
		e.bytes, e.err = io.Copy(io.Discard, res.Body)
		e.whole = e.err == nil
		c.after(res, &e)
		return e
	}
	return c.read(res, l, e)
}

var finished = [][]byte{
	[]byte(`"finish_reason":"`), []byte(`"finish_reason": "`),
}

// read takes the body up to where the client leaves, or to its end.
func (c *client) read(res *http.Response, l *Leaver, e ending) ending {
	buf := make([]byte, 16<<10)
	var tail []byte
	for {
		n, err := res.Body.Read(buf)
		e.bytes += int64(n)
		switch {
		case l.when == atBytes && e.bytes >= l.bytes:
			return c.leave(l, e)
		case l.when == beforeUsage:
			// finish_reason may lie across two reads.
			tail = append(tail[max(0, len(tail)-32):], buf[:n]...)
			for _, mark := range finished {
				if bytes.Contains(tail, mark) {
					return c.leave(l, e)
				}
			}
		}
		if err != nil {
			if e.whole = errors.Is(err, io.EOF); !e.whole {
				e.err = err
			}
			c.after(res, &e)
			return e
		}
	}
}

// after keeps a connection that can be used again.
func (c *client) after(res *http.Response, e *ending) {
	if e.err != nil || res.Close {
		c.close()
	}
}

// leave goes in the leaver's way.
func (c *client) leave(l *Leaver, e ending) ending {
	e.left = true
	raw := c.conn
	if t, ok := raw.(*tls.Conn); ok {
		raw = t.NetConn()
	}
	tcp, _ := raw.(*net.TCPConn)
	switch {
	case l.how == byRst && tcp != nil:
		_ = tcp.SetLinger(0)
	case l.how == byHalf && tcp != nil:
		if tcp.CloseWrite() == nil {
			n, _ := io.Copy(io.Discard, c.in)
			e.bytes += n
		}
	}
	c.close()
	return e
}
