package upstream

import (
	"bytes"
	"errors"
	"io"
	"strconv"
)

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
	scheme    string // how the key came: bearer, key, or the name of its header
	// idempotency is the value of Idempotency-Key.
	idempotency string
}

var (
	errMalformed = errors.New("malformed request")
	crlfcrlf     = []byte("\r\n\r\n")
	crlf         = []byte("\r\n")
)

// read fills c.req with the next request. It keeps bytes of a following
// request for the next call.
func (c *conn) read() error {
	// What is left of a pipelined request moves to the front.
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
