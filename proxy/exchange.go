package proxy

import (
	"errors"
	"io"
	"net"
	"slices"
	"time"
)

// ErrTooLarge is Body's answer to more than it may hold; Relay can still
// deliver all of it.
var ErrTooLarge = errors.New("the answer is larger than the buffer for it")

// ErrNotOpen is Body's answer when there is no answer to read.
var ErrNotOpen = errors.New("there is no open answer")

// Exchange is one client request's conversation with upstreams: opened by
// Proxy.Open, ended by exactly one of Body, Relay's done, or Close. It is meant
// to be part of a pooled value; one goroutine owns it, the watcher only sees
// its guard. The zero value is ready.
type Exchange struct {
	guard
	p        *Proxy
	state    exchangeState
	endpoint *Endpoint
	link     *link
	head     head
	body     framing

	in      []byte             // smallBuffer bytes, kept for life
	large   *[largeBuffer]byte // lent
	payload []byte             // decoded bytes in one of the buffers, not yet passed on
	pending []byte             // bytes that Body had read before it found the answer too large
	failed  Cause              // why the answer cannot be read on after payload

	asks    Unproven // the request that the endpoint's credential signed last
	proof   []byte   // …and the lines it wrote
	vec     [][]byte // pieces of a large request
	bufs    net.Buffers
	unsent  bool // the upstream answered before it had the whole request
	asked   bool // there was an attempt
	gotByte bool // of an answer, in this attempt
	suspect bool // the bytes read were not the answer to the request

	within  int64 // when all attempts together must be over, on the watcher's clock; 0: never
	began   time.Time
	headNs  int64 // Unix ns at which the last attempt had its answer's head
	firstNs int64 // from began to the first payload byte
	bytesIn int64
	lastRaw int // bytes of the last read, framing included
	reads   int // of the answer, behind those that brought its head

	relay relay
}

type exchangeState uint8

const (
	stateIdle  exchangeState = iota
	stateOpen                // registered with the watcher
	stateRelay               // owned by the server's response writer
)

// Status of the accepted answer, 0 before.
func (x *Exchange) Status() int { return x.head.status }

// ContentType of the answer; valid until Reset.
func (x *Exchange) ContentType() []byte {
	s := x.head.contentType
	return x.head.lines[s.from:s.to]
}

// ContentLength of the answer, -1 when it is unknown.
func (x *Exchange) ContentLength() int64 {
	if x.head.status == 0 || x.head.chunked {
		return -1
	}
	return x.head.length
}

// Reused says that the connection had answered others before.
func (x *Exchange) Reused() bool { return x.link != nil && x.link.reused }

// Header is the value of the answer's first field of that name, nil when there
// is none; valid until Reset. Nothing of the head goes to the client by itself.
func (x *Exchange) Header(name string) []byte { return x.head.get(name) }

// RetryAfter is the wait that the answer asked for, as seconds or date; 0: none.
func (x *Exchange) RetryAfter() time.Duration { return x.head.retryAfter }

// begin registers the exchange with its client.
func (x *Exchange) begin(p *Proxy, client net.Conn) {
	if x.state != stateIdle {
		panic("proxy: an exchange was opened twice")
	}
	if x.in == nil {
		x.in = make([]byte, smallBuffer)
	}
	x.p, x.state, x.within, x.asked = p, stateOpen, 0, false
	x.began = time.Now()
	p.watch.add(&x.guard, client)
}

// end ends the exchange.
func (x *Exchange) end() Cause {
	cause := x.leaveWatch()
	x.giveBuffers()
	return cause
}

// leaveWatch unregisters the exchange and hands its connection on: back to the
// pool when the answer was read to its last byte and nothing went wrong, else
// closed.
func (x *Exchange) leaveWatch() Cause {
	cause := x.p.watch.remove(&x.guard)
	x.dropLink(cause == None && x.clean())
	x.state = stateIdle
	return cause
}

// giveBuffers gives back the buffers of the last bytes.
func (x *Exchange) giveBuffers() {
	x.shrink()
	x.payload, x.pending = nil, nil
}

// clean says that the connection stands exactly between two answers.
func (x *Exchange) clean() bool {
	return x.body.done && !x.body.extra && !x.unsent && !x.suspect && x.failed == None && x.head.keepAlive &&
		x.body.kind != framedClose
}

func (x *Exchange) dropLink(reuse bool) {
	if x.link == nil {
		return
	}
	if reuse {
		now := x.headNs
		if x.reads > 0 {
			now = time.Now().UnixNano()
		}
		x.endpoint.give(x.link, now)
	} else {
		x.endpoint.drop(x.link)
	}
	x.link = nil
}

// Close gives everything back when the answer is not wanted. After Relay it
// does nothing: the server's response writer ends the exchange then.
func (x *Exchange) Close() {
	if x.state == stateOpen {
		x.end()
	}
}

// Reset clears the exchange for the next request; its buffer stays.
func (x *Exchange) Reset() {
	x.Close()
	x.asks = Unproven{}
	clear(x.proof[:cap(x.proof)]) // no secret stays in memory that others use
	x.endpoint, x.failed, x.unsent, x.gotByte, x.suspect = nil, None, false, false, false
	x.body = framing{}
	lines := x.head.lines[:0]
	if cap(lines) > keepLines {
		lines = nil
	}
	x.head = head{length: -1, lines: lines}
	x.firstNs, x.bytesIn, x.headNs, x.reads = 0, 0, 0, 0
	x.mu.Lock()
	x.drain = drainOption{}
	x.mu.Unlock()
	x.relay = relay{}
}

// keepLines is the most room for head lines that a pooled exchange keeps.
const keepLines = 1 << 10

// wholeFrom is the size from which an answer of unknown length gets all the
// room that it may take.
const wholeFrom = 4 << 20

// Body appends the whole answer to dst when it has at most most bytes, and ends
// the exchange. With ErrTooLarge the exchange stays open for Relay, and what
// was appended must stay untouched until that is done. Any other error means
// that the answer is not complete; cause says why.
func (x *Exchange) Body(dst []byte, most int) ([]byte, Cause, error) {
	dst, _, err := x.ReadAll(dst, most)
	if err == ErrTooLarge || err == ErrNotOpen {
		return dst, None, err
	}
	failed := x.failed
	cause := x.end()
	if failed != None {
		if cause == None {
			cause = failed
		}
		return dst, cause, &causeError{cause}
	}
	return dst, None, nil
}

// ReadAll is Body for an answer that may turn out to be of no use: the exchange
// stays open, so that another attempt can follow.
func (x *Exchange) ReadAll(dst []byte, most int) ([]byte, Cause, error) {
	if x.state != stateOpen || x.link == nil || x.pending != nil {
		return dst, None, ErrNotOpen
	}
	base := len(dst)
	if x.body.kind == framedLength && int64(len(x.payload))+x.body.left > int64(most) || len(x.payload) > most {
		return dst, None, ErrTooLarge
	}
	dst = append(dst, x.payload...)
	x.payload = nil
	for !x.body.done && x.failed == None {
		if len(dst)-base > most {
			x.pending = dst[base:]
			return dst, None, ErrTooLarge
		}
		want := smallBuffer / 2
		if x.body.kind == framedLength {
			want = int(x.body.left) + 1 // one more than belongs there shows what should not be there
		}
		if x.body.kind != framedLength && cap(dst)-len(dst) < want {
			// Of unknown length: doubling copies each byte once in all, where
			// small steps would copy a large image five times. From wholeFrom on
			// room for all that may come is taken at once: memory that is not
			// written to costs nothing, a second copy of 30 MB would.
			have := len(dst) - base
			rest := most - have + want
			if have < wholeFrom {
				rest = min(have, rest)
			}
			want = max(want, rest)
		}
		dst = slices.Grow(dst, want)
		n := x.fill(dst[len(dst):cap(dst)])
		dst = dst[:len(dst)+n]
	}
	if len(dst)-base > most && x.failed == None {
		x.pending = dst[base:]
		return dst, None, ErrTooLarge
	}
	if cause := x.lostCause(); cause != None {
		return dst, cause, &causeError{cause}
	}
	return dst, None, nil
}

// lostCause is why the answer cannot be read on, None while it can or when it was
// read to its end.
func (x *Exchange) lostCause() Cause {
	if x.failed == None {
		return None
	}
	if c := x.why(); c != None {
		return c
	}
	return x.failed
}

// First gives the next payload of an answer that is to be relayed, for callers that must see its
// beginning; valid until the next call. With done nothing more comes; cause is the reason if the
// answer ended early. Relay continues after the payload: Hold has it relayed, too.
func (x *Exchange) First() (p []byte, done bool, cause Cause) {
	if x.state != stateOpen || x.link == nil {
		return nil, true, None
	}
	if p, x.payload = x.payload, nil; p == nil && !x.body.done && x.failed == None {
		p = x.in[:x.fill(x.in[:smallRead])]
	}
	return p, x.body.done || x.failed != None, x.lostCause()
}

// Hold has Relay give p to the lens before anything else. p must stay untouched until then; it
// may be the payload of First.
func (x *Exchange) Hold(p []byte) { x.pending = p }

// More appends the bytes of one read of the answer to dst, for callers that must see more of it
// before it is relayed. It may be called again; Relay gives out first all that was appended,
// which must stay untouched until then. done says that the answer has ended, complete or early.
func (x *Exchange) More(dst []byte) (_ []byte, done bool) {
	if x.state != stateOpen || x.link == nil {
		return dst, true
	}
	from := len(dst) - len(x.pending)
	if x.payload != nil {
		dst = append(dst, x.payload...)
		x.payload = nil
	} else if !x.body.done && x.failed == None {
		dst = slices.Grow(dst, smallBuffer)
		n := x.fill(dst[len(dst):cap(dst)])
		dst = dst[:len(dst)+n]
	}
	x.pending = dst[from:]
	return dst, x.body.done || x.failed != None
}

// Piece gives the next payload of an answer that is read piece by piece and not relayed; it is
// valid until the next call. Bytes that More appended do not come again. With done the answer has
// ended, complete or early: Finish says which.
func (x *Exchange) Piece() (p []byte, done bool) {
	if x.state != stateOpen || x.link == nil {
		return nil, true
	}
	x.pending = nil
	if p, x.payload = x.payload, nil; p == nil && !x.body.done && x.failed == None {
		x.grow()
		n := x.fill(x.large[:])
		p = x.large[:n]
	}
	return p, x.body.done || x.failed != None
}

// Finish ends the exchange after Piece; any error means that the answer is not
// complete.
func (x *Exchange) Finish() (Cause, error) {
	if x.state != stateOpen {
		return None, ErrNotOpen
	}
	failed := x.failed
	if failed == None && !x.body.done {
		failed = UpstreamTruncated
	}
	cause := x.end()
	if failed == None {
		return None, nil
	}
	if cause == None {
		cause = failed
	}
	return cause, &causeError{cause}
}

// Distrust keeps the connection from being used again though the answer came to
// its end: it was the answer to something else, so another may follow.
func (x *Exchange) Distrust() { x.suspect = true }

// Unbound takes the limit of OpenWithin off: the rest goes at the client's pace.
func (x *Exchange) Unbound() {
	x.within = 0
	x.total.Store(0)
}

// Cut ends the conversation from another goroutine: the one that owns the
// exchange sees it fail with Cut.
func (x *Exchange) Cut() {
	x.mu.Lock()
	if x.on {
		x.cut(Cut)
	}
	x.mu.Unlock()
}

// fill reads once and puts the payload at the front of p. The cause of an early end is left in
// x.failed.
func (x *Exchange) fill(p []byte) (n int) {
	x.beginPhase(IdleTimeout, x.endpoint.o.Idle)
	raw, err := x.link.Read(p)
	x.lastRaw = raw
	x.reads++
	if raw > 0 {
		n = x.decode(p[:raw])
	}
	if err != nil && !x.body.done && x.failed == None {
		x.failed = x.readFailure(err)
	}
	return n
}

func (x *Exchange) decode(p []byte) int {
	x.bytesIn += int64(len(p))
	n, err := x.body.decode(p)
	if err != nil {
		x.failed = UpstreamMalformed
	}
	if n > 0 && x.firstNs == 0 {
		x.firstNs = int64(time.Since(x.began))
	}
	return n
}

// readFailure is the cause of a failed read within an answer's body. The end
// of the connection is the end of the answer only when nothing else marks it.
func (x *Exchange) readFailure(err error) Cause {
	if c := x.why(); c != None {
		return c
	}
	if err == io.EOF {
		if x.body.kind == framedClose {
			x.body.done = true
			return None
		}
		return UpstreamTruncated
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return UpstreamTruncated // within a TLS record
	}
	return UpstreamReset
}

// causeError is the error of an answer that ended early.
type causeError struct{ cause Cause }

func (e *causeError) Error() string { return "the answer ended early: " + e.cause.String() }
