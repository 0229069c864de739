package upstream

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net"
	"os"
	"strconv"
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

	gone     chan struct{} // closed when the peer left; nil while not watched
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
		if c.readRequest() != nil {
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

// finish closes in order: the peer reads the answer to its end before the connection is
// closed, even when unread input would make the kernel reset it.
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

// watch notices from now on that the peer closes, also while nothing is written. Bytes that
// arrive meanwhile stay for the next request.
func (c *conn) watch() {
	c.gone, c.watching = make(chan struct{}), make(chan struct{})
	c.leftAt.Store(0)
	go func() {
		defer close(c.watching)
		for {
			if c.held == len(c.in) {
				if c.held > maxHead {
					return // a pipelining peer is detected at its next request
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

// cut ends the connection in the middle: fin leaves the sent bytes readable,
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

const (
	firstBuffer = 4 << 10
	maxHead     = 64 << 10
	maxBody     = 512 << 20
)

// request is one HTTP request as slices of the connection's input buffer.
type request struct {
	head      []byte // with the final empty line
	method    []byte
	path      []byte
	body      []byte // transfer coding removed
	came      []byte // the body, before a cloud's door made another of it
	length    int
	chunked   bool
	close     bool
	expect    bool
	key       []byte
	sim       []byte
	anthropic []byte // anthropic-version
	betas     []byte // anthropic-beta
	cloud     bool   // Anthropic's models are asked for at a cloud's
	content   []byte // content-type
	accept    []byte
	scheme    string // the place of the key: bearer, key, or the name of its header
	// idempotency is the value of Idempotency-Key.
	idempotency string
}

var (
	errMalformed = errors.New("malformed request")
	crlfcrlf     = []byte("\r\n\r\n")
	crlf         = []byte("\r\n")
)

// readRequest fills c.req with the next request. It keeps bytes of a following
// request for the next call.
func (c *conn) readRequest() error {
	// The rest of a pipelined request moves to the front.
	c.held = copy(c.in, c.in[c.used:c.held])
	c.used = 0
	end := -1
	for {
		from := 0
		if end = bytes.Index(c.in[from:c.held], crlfcrlf); end >= 0 {
			end += len(crlfcrlf)
			break
		}
		if c.held > maxHead {
			return errMalformed
		}
		if err := c.fill(); err != nil {
			return err
		}
	}
	if err := c.parseHead(c.in[:end]); err != nil {
		return err
	}
	if c.req.expect {
		if _, err := c.nc.Write([]byte("HTTP/1.1 100 Continue\r\n\r\n")); err != nil {
			return err
		}
	}
	if c.req.chunked {
		return c.readChunked(end)
	}
	need := end + c.req.length
	c.grow(min(need, maxIdleBuffer)) // a large length alone gets no memory
	for c.held < need {
		if err := c.fill(); err != nil {
			return err
		}
	}
	c.used = need
	c.slice(end, c.in[end:need])
	return nil
}

// slice points the request into the input, which no longer moves.
func (c *conn) slice(end int, body []byte) {
	_ = c.parseHead(c.in[:end]) // the buffer may have moved while the body was read
	c.req.body, c.req.came = body, body
}

func (c *conn) readChunked(end int) error {
	at := end
	var body []byte
	for {
		line := -1
		for {
			if line = bytes.Index(c.in[at:c.held], crlf); line >= 0 {
				break
			}
			if err := c.fill(); err != nil {
				return err
			}
		}
		digits, _, _ := bytes.Cut(c.in[at:at+line], []byte(";"))
		size, err := strconv.ParseUint(string(bytes.TrimSpace(digits)), 16, 31)
		if err != nil || size > maxBody {
			return errMalformed
		}
		at += line + 2
		for c.held < at+int(size)+2 {
			if err := c.fill(); err != nil {
				return err
			}
		}
		body = append(body, c.in[at:at+int(size)]...)
		at += int(size) + 2
		if size == 0 {
			c.used = at
			c.slice(end, body)
			return nil
		}
	}
}

// fill reads more input, making room first.
func (c *conn) fill() error {
	if c.held == len(c.in) {
		c.grow(2 * len(c.in))
	}
	n, err := c.nc.Read(c.in[c.held:])
	c.held += n
	if n > 0 {
		return nil
	}
	if err == nil {
		err = io.ErrNoProgress
	}
	return err
}

func (c *conn) grow(size int) {
	if size <= len(c.in) {
		return
	}
	bigger := make([]byte, max(size, 2*len(c.in)))
	copy(bigger, c.in[:c.held])
	c.in = bigger
}

func (c *conn) parseHead(head []byte) error {
	r := &c.req
	*r = request{head: head}
	line, rest, _ := bytes.Cut(head, crlf)
	var version []byte
	var ok bool
	if r.method, line, ok = bytes.Cut(line, []byte(" ")); !ok {
		return errMalformed
	}
	if r.path, version, ok = bytes.Cut(line, []byte(" ")); !ok || !bytes.HasPrefix(version, []byte("HTTP/1.")) {
		return errMalformed
	}
	r.close = version[len(version)-1] == '0'
	for len(rest) > 2 {
		line, rest, _ = bytes.Cut(rest, crlf)
		name, value, ok := bytes.Cut(line, []byte(":"))
		if !ok {
			return errMalformed
		}
		value = bytes.TrimSpace(value)
		switch {
		case fold(name, "content-length"):
			n, err := strconv.ParseUint(string(value), 10, 31)
			if err != nil || n > maxBody {
				return errMalformed
			}
			r.length = int(n)
		case fold(name, "transfer-encoding"):
			r.chunked = fold(value, "chunked")
		case fold(name, "connection"):
			r.close = r.close && !fold(value, "keep-alive") || fold(value, "close")
		case fold(name, "expect"):
			r.expect = fold(value, "100-continue")
		case fold(name, "authorization"):
			if len(value) > 7 && fold(value[:7], "bearer ") {
				r.key, r.scheme = value[7:], "bearer"
			} else if len(value) > 4 && fold(value[:4], "key ") {
				r.key, r.scheme = value[4:], "key"
			}
		case fold(name, "x-api-key"), fold(name, "api-key"), fold(name, "x-goog-api-key"):
			r.key = value
		case fold(name, "xi-api-key"):
			r.key, r.scheme = value, "xi-api-key"
		case fold(name, "idempotency-key"):
			r.idempotency = string(value)
		case fold(name, "x-sim"):
			r.sim = value
		case fold(name, "anthropic-version"):
			r.anthropic = value
		case fold(name, "anthropic-beta"):
			r.betas = value
		case fold(name, "content-type"):
			r.content = value
		case fold(name, "accept"):
			r.accept = value
		}
	}
	return nil
}

// form reads a multipart body. ok is false for another or a broken body; the parts before the break are returned.
func (c *conn) form() (fields []Field, ok bool) {
	media, params, _ := mime.ParseMediaType(string(c.req.content))
	if media != "multipart/form-data" {
		return nil, false
	}
	for r := multipart.NewReader(bytes.NewReader(c.req.body), params["boundary"]); ; {
		part, err := r.NextRawPart()
		if err == io.EOF {
			return fields, true
		}
		if err != nil {
			return fields, false
		}
		b, err := io.ReadAll(part)
		if err != nil {
			return fields, false
		}
		fields = append(fields, Field{Name: part.FormName(), File: part.FileName(), Value: string(b)})
	}
}

// fold compares with a lower-case word. Lengths differ for nearly all names,
// which makes this cheaper than a table.
func fold(b []byte, lower string) bool {
	if len(b) != len(lower) {
		return false
	}
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != lower[i] {
			return false
		}
	}
	return true
}
