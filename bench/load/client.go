package load

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/url"
	"strconv"
	"syscall"
	"time"
)

const (
	readBuffer = 8 << 10
	maxHead    = 64 << 10
	dialLimit  = 10 * time.Second
	// A deadline is moved at most this often: setting it costs more than a read.
	deadlineStep = time.Second
)

var (
	errMalformed = errors.New("malformed answer")
	errTruncated = errors.New("ended early")
	errReset     = errors.New("reset")
	headEnd      = []byte("\r\n\r\n")
	lineEnd      = []byte("\r\n")
)

// Conn is one HTTP/1.1 connection with one request at a time. Answers are read into one buffer, and never kept.
type Conn struct {
	nc       net.Conn
	buf      []byte
	from, to int // unread part of buf
	timeout  time.Duration
	deadline time.Time

	status  int
	length  int64 // -1: chunked or until close
	chunked bool
	closing bool
	stream  bool
	taken   int // bytes of the answer
}

// Dial connects to the host of an address. Between two reads of an answer at most the timeout passes.
func Dial(to *url.URL, timeout time.Duration, buffer int) (*Conn, error) {
	port := to.Port()
	if port == "" {
		port = to.Scheme // a service's name is a port
	}
	nc, err := net.DialTimeout("tcp", net.JoinHostPort(to.Hostname(), port), min(timeout, dialLimit))
	if err != nil {
		return nil, err
	}
	if to.Scheme == "https" {
		t := tls.Client(nc, &tls.Config{ServerName: to.Hostname(), MinVersion: tls.VersionTLS12})
		_ = t.SetDeadline(time.Now().Add(dialLimit))
		if err := t.Handshake(); err != nil {
			_ = nc.Close()
			return nil, err
		}
		_ = t.SetDeadline(time.Time{})
		nc = t
	}
	return &Conn{nc: nc, buf: make([]byte, max(readBuffer, buffer)), timeout: timeout}, nil
}

// Net is the connection below, Close ends it.
func (c *Conn) Net() net.Conn { return c.nc }

// Close ends the connection.
func (c *Conn) Close() { _ = c.nc.Close() }

// Closing says that the server wants no other request here.
func (c *Conn) Closing() bool { return c.closing }

// Send writes a whole request. Its answer is read by Head and then Body.
func (c *Conn) Send(request []byte) error { return c.send(request, time.Now()) }

// Head reads the head of an answer and gives its status.
func (c *Conn) Head() (status int, err error) {
	err = c.head()
	return c.status, err
}

// Body reads the rest of an answer; take gets each part, and its error ends it.
func (c *Conn) Body(take func(part []byte) error) error { return c.body(take) }

func (c *Conn) send(request []byte, now time.Time) error {
	c.taken = 0
	c.extend(now)
	_, err := c.nc.Write(request)
	return named(err)
}

// extend moves the deadline when it is a step closer.
func (c *Conn) extend(now time.Time) {
	if want := now.Add(c.timeout); want.Sub(c.deadline) > deadlineStep {
		c.deadline = want.Add(deadlineStep)
		_ = c.nc.SetDeadline(c.deadline)
	}
}

func (c *Conn) fill() error {
	if c.from == c.to {
		c.from, c.to = 0, 0
	} else if c.to == len(c.buf) {
		c.to = copy(c.buf, c.buf[c.from:c.to])
		c.from = 0
		if c.to == len(c.buf) {
			if len(c.buf) > maxHead {
				return errMalformed
			}
			c.buf = append(c.buf, make([]byte, len(c.buf))...)
		}
	}
	n, err := c.nc.Read(c.buf[c.to:])
	c.to += n
	c.taken += n
	if n > 0 {
		return nil
	}
	return named(err)
}

// named turns the usual ends of a connection into errors of this package.
func named(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, io.EOF):
		return errTruncated
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return errReset
	}
	return err
}

// head reads status line and headers, past interim answers.
func (c *Conn) head() error {
	for {
		end := -1
		for {
			if end = bytes.Index(c.buf[c.from:c.to], headEnd); end >= 0 {
				break
			}
			if err := c.fill(); err != nil {
				return err
			}
		}
		head := c.buf[c.from : c.from+end+2]
		c.from += end + len(headEnd)
		if err := c.parse(head); err != nil {
			return err
		}
		if c.status >= 200 {
			return nil
		}
	}
}

func (c *Conn) parse(head []byte) error {
	c.status, c.length, c.chunked, c.closing, c.stream = 0, -1, false, false, false
	line, rest, _ := bytes.Cut(head, lineEnd)
	if len(line) < 12 || string(line[:7]) != "HTTP/1." {
		return errMalformed
	}
	status, err := strconv.Atoi(string(line[9:12]))
	if err != nil {
		return errMalformed
	}
	c.status = status
	for len(rest) > 0 {
		line, rest, _ = bytes.Cut(rest, lineEnd)
		if len(line) < 10 {
			continue
		}
		switch line[0] | 0x20 {
		case 'c':
			c.parseC(line)
		case 't':
			if name, value, _ := bytes.Cut(line, []byte(":")); bytes.EqualFold(name, []byte("transfer-encoding")) {
				c.chunked = bytes.EqualFold(bytes.TrimSpace(value), []byte("chunked"))
			}
		}
	}
	if c.length < 0 && !c.chunked {
		c.closing = true
	}
	return nil
}

func (c *Conn) parseC(line []byte) {
	name, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimSpace(value)
	switch {
	case bytes.EqualFold(name, []byte("content-length")):
		if n, err := strconv.ParseInt(string(value), 10, 64); err == nil {
			c.length = n
		}
	case bytes.EqualFold(name, []byte("content-type")):
		c.stream = bytes.HasPrefix(value, []byte("text/event-stream"))
	case bytes.EqualFold(name, []byte("connection")):
		c.closing = bytes.EqualFold(value, []byte("close"))
	}
}

// body reads the answer to its end; take, when given, gets each part.
func (c *Conn) body(take func([]byte) error) error {
	switch {
	case c.chunked:
		return c.chunks(take)
	case c.length >= 0:
		return c.sized(c.length, take)
	}
	for {
		if c.from < c.to {
			if err := pass(take, c.buf[c.from:c.to]); err != nil {
				return err
			}
			c.from = c.to
		}
		if err := c.fill(); err != nil {
			if errors.Is(err, errTruncated) {
				return nil
			}
			return err
		}
	}
}

func pass(take func([]byte) error, p []byte) error {
	if take == nil || len(p) == 0 {
		return nil
	}
	return take(p)
}

func (c *Conn) sized(n int64, take func([]byte) error) error {
	for {
		have := min(int64(c.to-c.from), n)
		if err := pass(take, c.buf[c.from:c.from+int(have)]); err != nil {
			return err
		}
		c.from += int(have)
		if n -= have; n == 0 {
			return nil
		}
		if err := c.fill(); err != nil {
			return err
		}
	}
}

// chunks removes the transfer coding. The payload of one read is handed over chunk by
// chunk; readers that count events allow that.
func (c *Conn) chunks(take func([]byte) error) error {
	for {
		line := -1
		for {
			if line = bytes.Index(c.buf[c.from:c.to], lineEnd); line >= 0 {
				break
			}
			if err := c.fill(); err != nil {
				return err
			}
			c.extend(time.Now())
		}
		size, ok := hex(c.buf[c.from : c.from+line])
		if !ok {
			return errMalformed
		}
		c.from += line + 2
		if size == 0 {
			return c.sized(2, nil) // no trailers are sent by the servers measured
		}
		if err := c.sized(size, take); err != nil {
			return err
		}
		if err := c.sized(2, nil); err != nil {
			return err
		}
	}
}

func hex(b []byte) (n int64, ok bool) {
	for _, d := range b {
		switch {
		case '0' <= d && d <= '9':
			d -= '0'
		case 'a' <= d && d <= 'f':
			d -= 'a' - 10
		case 'A' <= d && d <= 'F':
			d -= 'A' - 10
		case d == ';' || d == ' ':
			return n, ok
		default:
			return 0, false
		}
		if n = n<<4 | int64(d); n > 1<<40 {
			return 0, false
		}
		ok = true
	}
	return n, ok
}
