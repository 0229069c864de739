package proxy

import (
	"bytes"
	"errors"
	"io"
	"strconv"
	"time"
)

// earlyAnswerWait is how long an upstream that broke off our request may take
// to say why.
const earlyAnswerWait = time.Second

// Request is a request to one upstream. Path, Accept, ID and Further are ours, never copied from
// a client.
type Request struct {
	Method  string // empty: POST with a body, GET without
	Path    []byte // appended to the endpoint's base path, e.g. "/chat/completions"
	Body    []byte
	Patches []Patch
	Source  Source // instead of Body: it is written piece by piece
	Accept  string // empty: */*
	Type    string // Content-Type of the body; empty: application/json
	ID      []byte // X-Request-ID, empty for none
	Further Fields // more headers
	// FirstByte is how long the answer's head may take; 0: as the endpoint says.
	FirstByte time.Duration
	// Once: a sent request is not sent again, whatever the endpoint's RetrySafe says.
	Once bool
}

// Fields are names and values of headers; an empty name stands for none.
type Fields [3][2]string

// size is room enough for them.
func (f *Fields) size() (n int) {
	for i := range f {
		n += len(f[i][0]) + len(f[i][1]) + len(": \r\n")
	}
	return n
}

func (f *Fields) sendable() bool {
	for i := range f {
		if f[i][0] != "" && (!token([]byte(f[i][0])) || !fieldValue([]byte(f[i][1]))) {
			return false
		}
	}
	return true
}

func (f *Fields) append(buf []byte) []byte {
	for i := range f {
		if f[i][0] != "" {
			buf = append(append(append(buf, "\r\n"...), f[i][0]...), ": "...)
			buf = append(buf, f[i][1]...)
		}
	}
	return buf
}

// method is the one that is sent.
func (r *Request) method() string {
	switch {
	case r.Method != "":
		return r.Method
	case r.Body == nil && len(r.Patches) == 0 && r.Source == nil:
		return "GET"
	}
	return "POST"
}

var errRequest = errors.New("the request has an unsendable path, Accept or ID")

// send writes the request: one write up to 8 KiB, above that the pieces of the
// body where they are (writev on TCP and unix sockets). n counts the bytes that
// the kernel took.
func (x *Exchange) send(t *Endpoint, r *Request) (n int64, err error) {
	if r.Source != nil {
		return x.sendSource(t, r)
	}
	size := PatchedLen(r.Body, r.Patches)
	buf := x.in[:0]
	whole := size <= oneWrite
	if whole && size+len(t.fields)+len(x.proof)+len(t.prefix)+len(r.Path)+r.Further.size()+len(t.query)+512 > smallBuffer {
		x.grow()
		buf = x.large[:0]
	}
	buf, ok := t.appendHead(buf, r, int64(size), x.proof)
	if !ok {
		return 0, errRequest
	}
	if whole {
		buf = AppendPatched(buf, r.Body, r.Patches)
		k, err := x.link.Write(buf)
		x.shrink()
		return int64(k), err
	}
	x.vec = appendSegments(append(x.vec[:0], buf), r.Body, r.Patches)
	x.sending(true)
	defer func() {
		x.sending(false)
		clear(x.vec)
		x.vec, x.bufs = x.vec[:0], nil
	}()
	if x.link.vec {
		x.bufs = x.vec
		return x.bufs.WriteTo(x.link.Conn)
	}
	for _, p := range x.vec {
		k, err := x.link.Write(p)
		n += int64(k)
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// appendHead appends the request head. Everything in it is ours; the checks
// are against our own mistakes.
func (t *Endpoint) appendHead(buf []byte, r *Request, size int64, proof []byte) (_ []byte, ok bool) {
	method := r.method()
	for _, c := range r.Path {
		if c <= ' ' || c >= 0x7f {
			return buf, false
		}
	}
	if !fieldValue(r.ID) || !fieldValue([]byte(r.Accept)) || !fieldValue([]byte(r.Type)) || !token([]byte(method)) ||
		!r.Further.sendable() {
		return buf, false
	}
	buf = append(buf, method...)
	buf = append(buf, ' ')
	buf = append(buf, t.prefix...)
	if len(t.prefix)+len(r.Path) == 0 {
		buf = append(buf, '/')
	}
	buf = append(buf, r.Path...)
	if len(t.query) > 0 && bytes.IndexByte(r.Path, '?') >= 0 {
		buf = append(buf, t.further...)
	} else {
		buf = append(buf, t.query...)
	}
	buf = append(buf, t.fields...)
	buf = append(buf, proof...)
	buf = append(buf, "Accept: "...)
	buf = append(buf, orString(r.Accept, "*/*")...)
	if len(r.ID) > 0 {
		buf = append(buf, "\r\nX-Request-ID: "...)
		buf = append(buf, r.ID...)
	}
	buf = r.Further.append(buf)
	if method != "GET" && method != "HEAD" || size > 0 {
		buf = append(buf, "\r\nContent-Type: "...)
		buf = append(buf, orString(r.Type, "application/json")...)
		buf = append(buf, "\r\nContent-Length: "...)
		buf = strconv.AppendInt(buf, size, 10)
	}
	return append(buf, "\r\n\r\n"...), true
}

// receive reads the head of the answer, and as much of its body as came along.
func (x *Exchange) receive(now time.Time) (Cause, error) {
	buf := x.in
	for filled, from, interim := 0, 0, 0; ; {
		n, err := x.link.Read(buf[filled:])
		filled += n
		x.gotByte = x.gotByte || n > 0
		for {
			end := bytes.Index(buf[from:filled], []byte("\r\n\r\n"))
			if end < 0 {
				from = max(0, filled-3)
				break
			}
			end += from + 4
			if x.head.parse(buf[:end], now) != nil || x.head.status == 101 || interim > maxInterim {
				return UpstreamMalformed, errHead
			}
			if x.head.status >= 200 {
				return x.received(buf[end:filled])
			}
			interim++
			filled = copy(buf, buf[end:filled])
			from = 0
		}
		if filled >= maxHead {
			return UpstreamMalformed, errHeadLarge
		}
		if filled == len(buf) {
			x.grow()
			copy(x.large[:maxHead], buf[:filled])
			buf = x.large[:maxHead]
		}
		if err != nil {
			return x.headFailure(err)
		}
	}
}

var (
	errHeadLarge = errors.New("the answer's head is larger than 16 KiB")
	errEncoded   = errors.New("the answer is compressed though we asked for identity")
)

// received begins the body with the bytes read behind the head.
func (x *Exchange) received(rest []byte) (Cause, error) {
	if x.head.encoded {
		return UpstreamMalformed, errEncoded
	}
	x.body.reset(&x.head)
	x.payload = rest[:x.decode(rest)]
	return None, nil
}

func (x *Exchange) headFailure(err error) (Cause, error) {
	if c := x.why(); c != None {
		return c, errBroken
	}
	if x.gotByte && (err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF)) {
		return UpstreamTruncated, errClosed
	}
	return UpstreamReset, plainError(err)
}
