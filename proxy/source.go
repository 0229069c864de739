package proxy

import (
	"errors"
	"io"
	"net"
	"time"

	"github.com/valyala/fasthttp"
)

// Source is a body that is made while it is written: a multipart form whose
// files are in the client's body as base64, an image on its way into JSON.
type Source interface {
	// Len is the exact number of bytes that WriteTo writes; it does not change.
	Len() int64
	// WriteTo writes all of the body. It is called again when the request is
	// sent again, to this target or to another. A write error ends it.
	WriteTo(w io.Writer) (int64, error)
}

// errSource is a body that did not keep its word on its length, or could not
// be made: our own fault, and no reason to ask another target.
var errSource = errors.New("the request body does not have its announced length")

// sourceStep is the most that is written at once: a client or upstream must take it within one
// stall limit.
const sourceStep = 64 << 10

// sendSource writes a request whose body is a Source. n counts the bytes that
// the kernel took.
func (x *Exchange) sendSource(t *Endpoint, r *Request) (n int64, err error) {
	size := r.Source.Len()
	head, ok := t.appendHead(x.in[:0], r, size, x.proof)
	if !ok || size < 0 {
		return 0, errRequest
	}
	w := &sourceWriter{x: x, held: head, left: size}
	x.sending(true)
	defer x.sending(false)
	_, err = r.Source.WriteTo(w)
	if w.err == nil && (err != nil || w.left != 0) {
		return w.n, errSource
	}
	w.flush()
	return w.n, w.err
}

// sourceWriter gathers small pieces behind the request head in the exchange's
// own buffer and lets large ones through, never more than was announced.
type sourceWriter struct {
	x    *Exchange
	held []byte
	n    int64 // taken by the kernel
	left int64 // of the body
	err  error
}

func (w *sourceWriter) Write(p []byte) (int, error) {
	if int64(len(p)) > w.left {
		return 0, errSource
	}
	w.left -= int64(len(p))
	if len(w.held)+len(p) <= cap(w.held) {
		w.held = append(w.held, p...)
		return len(p), w.err
	}
	w.flush()
	w.write(p)
	if w.err != nil {
		return 0, w.err
	}
	return len(p), nil
}

func (w *sourceWriter) flush() {
	w.write(w.held)
	w.held = w.held[:0]
}

func (w *sourceWriter) write(p []byte) {
	if len(p) == 0 || w.err != nil {
		return
	}
	k, err := w.x.link.Write(p)
	w.n += int64(k)
	w.err = err
}

// Deliver makes src ctx's response body, chunked when its Len is below 0, which
// only HTTP/1.1 clients understand; status and headers are the caller's to set. A client has
// ClientStall for each 64 KiB, instead of the server's limit for whole responses. done, which may
// be nil, is called exactly once when src is not needed any more, also when nothing was written;
// err is nil when the client's connection took all n bytes.
func (p *Proxy) Deliver(ctx *fasthttp.RequestCtx, src Source, done func(n int64, err error)) {
	d := &delivery{src: src, client: ctx.Conn(), stall: p.stall, done: done, panic: p.panic}
	ctx.Response.SetBodyStream(d, int(src.Len()))
	ctx.Response.ImmediateHeaderFlush = true
}

// errUndelivered is the end of a response that was never asked for.
var errUndelivered = errors.New("the response was not written")

// delivery is the body of a response that is made while it is written.
type delivery struct {
	src    Source
	client net.Conn
	out    io.Writer // the client, or the server's writer of chunks
	stall  time.Duration
	done   func(int64, error)
	panic  func(any)
	n      int64
	err    error
	ran    bool
}

// Read is never called: the server prefers WriteTo.
func (*delivery) Read([]byte) (int, error) { return 0, io.ErrNoProgress }

// SupportsBodyWriteTo opts in to WriteTo.
func (*delivery) SupportsBodyWriteTo() bool { return true }

// WriteTo writes a body of known length to the client's connection itself, whose
// head is out already: the server's buffer would only copy.
func (d *delivery) WriteTo(w io.Writer) (n int64, err error) {
	d.ran = true
	d.out = d.client
	if d.src.Len() < 0 {
		d.out = w
	}
	defer func() {
		if v := recover(); v != nil {
			if d.panic != nil {
				d.panic(v)
			}
			d.err = &causeError{Panic}
		}
		n, err = d.n, d.err
	}()
	if _, err := d.src.WriteTo((*deliverer)(d)); err != nil && d.err == nil {
		d.err = err
	}
	return d.n, d.err
}

// Close is called by the server when it is done with the body, written or not.
func (d *delivery) Close() error {
	done := d.done
	d.done = nil
	if done == nil {
		return nil
	}
	if !d.ran {
		d.err = errUndelivered
	}
	defer func() {
		if v := recover(); v != nil && d.panic != nil {
			d.panic(v)
		}
	}()
	done(d.n, d.err)
	return nil
}

// deliverer is the side of a delivery that its source writes to.
type deliverer delivery

func (d *deliverer) Write(p []byte) (n int, err error) {
	for len(p) > 0 && d.err == nil {
		step := p[:min(len(p), sourceStep)]
		_ = d.client.SetWriteDeadline(time.Now().Add(d.stall))
		k, err := d.out.Write(step)
		n += k
		d.n += int64(k)
		d.err = err
		p = p[k:]
	}
	return n, d.err
}
