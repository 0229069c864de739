package proxy

import (
	"io"
	"net"
	"time"

	"github.com/valyala/fasthttp"
)

// Lens is between the upstream's bytes and the client's while an answer
// streams.
type Lens interface {
	// Pass is given the next payload bytes. The returned bytes go to the client; they may alias p
	// or the lens's memory until the next call. With stop they go out, the upstream is closed,
	// and End gets Cut.
	Pass(p []byte) (out []byte, stop bool)
	// End is called exactly once when an answer that began to be written is
	// over, before the client's last byte. Its bytes are the client's last;
	// clean ends the client's body properly, otherwise its connection is closed
	// so that the body cannot be taken for complete. With nobody left to write
	// to both are ignored.
	End(cause Cause) (out []byte, clean bool)
}

// Identity is a Lens that may say that Pass returns its bytes unchanged and End nothing. A
// Content-Length of the upstream is kept then.
type Identity interface{ Identity() bool }

// Sequel is a Lens whose client's one answer is made of several of upstreams.
type Sequel interface {
	// Next is called when an answer was read to its end. With more it has asked for the next one,
	// by Exchange.Ask, which is passed on after the last; a cause other than None ends the
	// client's answer with it.
	Next() (more bool, cause Cause)
}

// Outcome is how a relayed answer ended.
type Outcome struct {
	Cause     Cause
	Complete  bool  // the upstream's answer was read to its end
	BytesIn   int64 // from the upstream, behind the head, framing included
	BytesOut  int64 // payload written to the client
	FirstByte time.Duration
	Took      time.Duration
	Drained   bool // it was read on after the client left: the callback said yes
}

// relay is the response body of a relayed answer. The server's response writer
// calls WriteTo, in the connection's goroutine, after the handler returned; no
// goroutine and no pipe is between the two sockets.
type relay struct {
	x      *Exchange
	lens   Lens
	done   func(Outcome)
	client net.Conn
	size   int64 // as announced to the client, -1 for chunked
	out    int64
	mark   int64 // bytesIn when the client left
	cause  Cause
	ran    bool // the server began to write
	ended  bool // End was called
	gone   bool // nothing can be written any more
	whole  bool
	drains bool
}

// DrainOnGone lets the answer be read on when the client leaves, to learn its
// end, within most bytes and the time that may gives; Pass is still called. may
// is asked once, when a client left, from any goroutine; it must not block.
// Call before Open or Relay.
func (x *Exchange) DrainOnGone(most int64, may func() (time.Duration, bool)) {
	x.mu.Lock()
	x.drain = drainOption{may: may, bytes: most}
	x.mu.Unlock()
}

// Why is the cause of an early end of the exchange, of its client or its upstream, also where the
// answer was read on to its end.
func (x *Exchange) Why() Cause { return x.why() }

// Whole says that the answer was read to its end, whether or not anybody was
// left to take it.
func (x *Exchange) Whole() bool { return x.body.done && x.failed == None }

// Relay makes the rest of the answer ctx's response body; status and headers
// are the caller's to set. lens may be nil. done is called exactly once, when
// all is over, also when the server never writes the body, whose client has
// left then; it is the last thing that happens to x, which it may Reset and pool.
func (x *Exchange) Relay(ctx *fasthttp.RequestCtx, lens Lens, done func(Outcome)) {
	if x.state != stateOpen {
		panic("proxy: there is no open answer to relay")
	}
	x.state = stateRelay
	x.adopt(ctx.Conn())
	r := &x.relay
	*r = relay{x: x, lens: lens, done: done, client: ctx.Conn(), size: -1}
	identity := lens == nil
	if i, ok := lens.(Identity); ok {
		identity = i.Identity()
	}
	if identity && x.body.kind == framedLength {
		r.size = x.head.length
	}
	if r.size < 0 && !ctx.Request.Header.IsHTTP11() && !ctx.IsHead() {
		r.hijack(ctx)
		return
	}
	// Takes the server's limit for whole responses off; the watcher's stall
	// limit is on each write instead.
	_ = ctx.SetWriteDeadline(time.Time{})
	ctx.Response.SetBodyStream(r, int(r.size))
	// The head goes out now unless a first piece of the body can go along.
	ctx.Response.ImmediateHeaderFlush = r.size >= 0 || len(x.payload)+len(x.pending) == 0
}

// hijack serves HTTP/1.0 clients, which know no chunks: the body ends with the
// connection, and a body that broke off ends with a reset.
func (r *relay) hijack(ctx *fasthttp.RequestCtx) {
	ctx.HijackSetNoResponse(true)
	ctx.Hijack(func(net.Conn) {
		ctx.Response.Header.SetContentLength(-2)
		_, err := r.client.Write(ctx.Response.Header.Header())
		if err == nil {
			_, err = r.WriteTo(r.client)
		}
		if tcp, ok := plainConn(r.client).(*net.TCPConn); ok && err != nil {
			_ = tcp.SetLinger(0)
		}
		_ = r.Close()
	})
}

// Read is for io.Reader; the server uses WriteTo.
func (*relay) Read([]byte) (int, error) { return 0, io.ErrNoProgress }

// SupportsBodyWriteTo opts in to WriteTo for chunked bodies.
func (*relay) SupportsBodyWriteTo() bool { return true }

// WriteTo relays. Every Write to w is a chunk and a flush; a body of known
// size is written to the client's connection itself, since the server's writer
// for those has no flush.
func (r *relay) WriteTo(w io.Writer) (n int64, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = r.panicked(v)
		}
		n = r.out
	}()
	r.ran = true
	if r.size >= 0 {
		w = r.client
	}
	return 0, r.run(w)
}

func (r *relay) run(w io.Writer) error {
	x := r.x
	for {
		p := r.next()
		if len(p) > 0 {
			out, stop := p, false
			if r.lens != nil {
				out, stop = r.lens.Pass(p)
			}
			if stop {
				x.failed = Cut
			}
			if r.size >= 0 && x.body.done && !stop {
				// The last piece of a body of known size: end first, then write.
				tail, clean := r.end(None)
				r.write(w, out)
				r.write(w, tail)
				return r.close(clean)
			}
			r.write(w, out)
		}
		if x.failed != None || x.body.done && !r.goesOn() {
			break
		}
	}
	cause := x.failed
	if cause == None && r.gone {
		cause = x.why() // read on to its end, but for nobody
	}
	tail, clean := r.end(cause)
	r.write(w, tail)
	return r.close(clean)
}

// goesOn says that another answer follows the one that has come to its end.
func (r *relay) goesOn() bool {
	s, ok := r.lens.(Sequel)
	if !ok || r.size >= 0 {
		return false
	}
	more, cause := s.Next()
	if cause != None {
		r.x.failed = cause
	}
	return more && cause == None
}

// next is the next payload: first the rest from Body or the head's read, then the bytes of a
// read. A read that filled its buffer is followed by larger ones, so that big answers move in big
// pieces and idle streams hold one page.
func (r *relay) next() (p []byte) {
	x := r.x
	if x.pending != nil {
		p, x.pending = x.pending, nil
		return p
	}
	if x.payload != nil {
		p, x.payload = x.payload, nil
		return p
	}
	if x.body.done || x.failed != None {
		return nil
	}
	buf := x.in[:smallRead]
	if x.large != nil {
		buf = x.large[:]
	}
	n := x.fill(buf)
	switch c := x.why(); {
	case c.ofClient():
		r.left(c)
	case c == Shutdown && !x.body.done && x.failed == None:
		x.failed = c
	}
	p = buf[:n]
	if x.lastRaw < len(buf) {
		r.settleBuffer(&p)
	} else {
		x.grow()
	}
	return p
}

// settleBuffer gives the large buffer back when the read bytes fit the small one.
func (r *relay) settleBuffer(p *[]byte) {
	if x := r.x; x.large != nil && len(*p) <= smallRead {
		*p = x.in[:copy(x.in, *p)]
		x.shrink()
	}
}

// write sends bytes to the client; ClientStall limits each write.
func (r *relay) write(w io.Writer, out []byte) {
	if len(out) == 0 || r.gone {
		return
	}
	x := r.x
	if !r.ended {
		x.beginPhase(ClientStalled, x.p.stall)
	}
	n, err := w.Write(out)
	r.out += int64(n)
	if err != nil {
		c := x.why()
		if c == None {
			c = ClientGone
		}
		r.left(c)
	}
}

// left notes that the client is gone. Unless the answer is read on, that is the
// end of it.
func (r *relay) left(c Cause) {
	x := r.x
	first := !r.gone
	r.gone = true
	if r.ended {
		if r.cause == None {
			r.cause = c
		}
		return
	}
	if x.clientGone(c) {
		if first {
			r.drains, r.mark = true, x.bytesIn
		}
		if most := x.drain.bytes; most <= 0 || x.bytesIn-r.mark <= most {
			return
		}
	}
	if x.failed == None {
		x.failed = c
	}
}

// end tells the lens and gives the upstream connection back, before the last
// bytes go out.
func (r *relay) end(cause Cause) (out []byte, clean bool) {
	x := r.x
	r.cause, r.ended = cause, true
	r.whole = x.body.done && x.failed == None
	clean = cause == None
	if r.lens != nil {
		out, clean = r.lens.End(cause)
	}
	r.drains = r.drains || x.draining()
	x.leaveWatch()
	// Nothing watches the last bytes from here on.
	_ = r.client.SetWriteDeadline(time.Now().Add(x.p.stall))
	return out, clean
}

// close tells the server whether the client's body is complete.
func (r *relay) close(clean bool) error {
	if clean && !r.gone {
		return nil
	}
	cause := r.cause
	if cause == None {
		cause = UpstreamTruncated
	}
	return &causeError{cause}
}

// panicked ends a relay whose lens panicked: the upstream is closed, the client
// cut off, and the lens told if it was not yet.
func (r *relay) panicked(v any) error {
	x := r.x
	if x.p.panic != nil {
		x.p.panic(v)
	}
	x.failed = Panic
	r.cause = Panic
	if !r.ended {
		r.ended = true
		func() {
			defer func() { _ = recover() }()
			if r.lens != nil {
				r.lens.End(Panic)
			}
		}()
	}
	if x.state == stateRelay {
		x.leaveWatch()
	}
	return &causeError{Panic}
}

// Close is called by the server when it is done with the body, written or not.
func (r *relay) Close() error {
	x := r.x
	if x == nil {
		return nil
	}
	if x.state == stateRelay {
		// The body was never asked for: a HEAD request, or a client that left
		// before the head could be written.
		r.left(ClientGone)
		_, _ = r.WriteTo(io.Discard)
	}
	x.giveBuffers()
	o := Outcome{
		Cause: r.cause, Complete: r.whole, BytesIn: x.bytesIn, BytesOut: r.out,
		FirstByte: time.Duration(x.firstNs), Took: time.Since(x.began), Drained: r.drains,
	}
	done, p := r.done, x.p
	*r = relay{}
	if done == nil {
		return nil
	}
	defer func() {
		if v := recover(); v != nil && p.panic != nil {
			p.panic(v)
		}
	}()
	done(o)
	return nil
}
