package proxy

import (
	"time"

	"github.com/valyala/fasthttp"
)

// Result is how an attempt at an endpoint went: an open answer (Cause None, Status
// set), or a failure.
type Result struct {
	Status     int // of the answer, 0 if absent
	Cause      Cause
	Err        error // for the operator; names no hosts and no secrets
	RetryAfter time.Duration
	Reused     bool  // on a kept-alive connection
	Sent       bool  // the upstream may have begun to work on the request
	BeganNs    int64 // Unix ns at which the attempt began
	FirstNs    int64 // …and its answer's head had come, or the attempt was over
}

// Open begins a conversation. From here until x ends, a client that leaves cuts the upstream off,
// also before the first byte; without ctx no client waits for it. limit is for all attempts
// together, their answer and all, and its end has the cause TotalTimeout; 0: only the endpoints'
// own limits.
func (p *Proxy) Open(ctx *fasthttp.RequestCtx, x *Exchange, limit time.Duration) {
	if ctx == nil {
		x.begin(p, nil)
	} else {
		x.begin(p, ctx.Conn())
	}
	if limit > 0 {
		x.within = p.watch.due(limit)
		x.total.Store(x.within)
	}
}

// Ask connects to an endpoint, sends the request and waits for the answer's head. An answer with
// an error status is open, too, for Body to read. As long as no byte of an answer has gone to the
// client, Ask may be called again: the rest of the last attempt is dropped. After a failure that
// is the last the caller closes the exchange.
func (x *Exchange) Ask(t *Endpoint, r *Request) Result {
	start := x.began
	if x.asked {
		x.forget()
		start = time.Now()
	}
	x.asked = true
	res := x.attempt(t, r, start)
	res.BeganNs, res.FirstNs = start.UnixNano(), x.headNs
	return res
}

// Ask is Open with one attempt, which ends the exchange when it fails.
func (p *Proxy) Ask(ctx *fasthttp.RequestCtx, x *Exchange, limit time.Duration, t *Endpoint, r *Request) (res Result) {
	p.Open(ctx, x, limit)
	res.Cause = Panic // until Ask returns
	defer func() {
		if res.Cause != None {
			x.Close()
		}
	}()
	return x.Ask(t, r)
}

// attempt sends the request and reads the head of the answer. It is repeated
// once, on a fresh connection, when a kept-alive one turned out to be dead and
// the upstream cannot have begun to work on the request: nothing was written,
// or the operator says that repeating is safe (retry_safe) and the request does not
// say otherwise (Once). Any other failure is the caller's to judge: a POST must not run twice without anybody's decision.
func (x *Exchange) attempt(t *Endpoint, r *Request, start time.Time) (a Result) {
	a = x.once(t, r, start, false)
	if a.Cause == UpstreamReset && a.Reused && !x.gotByte && (!a.Sent || t.o.RetrySafe && !r.Once) {
		x.forget()
		a = x.once(t, r, start, true)
	}
	if x.disproven(t, &a) {
		// A refused request was not worked on, and another token may be accepted.
		x.forget()
		a = x.once(t, r, start, true)
	}
	x.headNs = time.Now().UnixNano()
	return a
}

func (x *Exchange) once(t *Endpoint, r *Request, start time.Time, fresh bool) (a Result) {
	x.gotByte = false
	if a.Cause, a.Err = x.prove(t, r); a.Cause != None {
		return a
	}
	if a.Cause, a.Err = x.connect(t, start.UnixNano(), fresh); a.Cause != None {
		return a
	}
	a.Reused = x.link.reused
	if t.o.Total > 0 {
		// Of all attempts together: a client waits no longer for several.
		x.limit(t.o.Total - time.Since(x.began))
	}
	wait := t.o.FirstByte
	if r.FirstByte > 0 {
		wait = r.FirstByte
	}
	x.beginPhase(FirstByteTimeout, wait)
	n, err := x.send(t, r)
	a.Sent = n > 0
	if err == errRequest || err == errSource {
		a.Cause, a.Err = UpstreamMalformed, err
		return a
	}
	if err != nil && !x.answersEarly(n) {
		a.Cause, a.Err = UpstreamReset, plainError(err)
		if c := x.why(); c != None {
			a.Cause = c
		}
		return a
	}
	x.unsent = err != nil
	if a.Cause, a.Err = x.receive(start); a.Cause != None {
		return a
	}
	if x.unsent {
		_ = x.link.SetReadDeadline(time.Time{})
		if a.Cause = x.why(); a.Cause != None { // a cut whose deadline this undid
			return a
		}
	}
	a.Status, a.RetryAfter = x.head.status, x.head.retryAfter
	if a.Status/100 == 2 {
		t.accept(start.UnixNano())
	}
	return a
}

// answersEarly prepares to read the answer of an upstream that stopped taking
// our request, as with 413: it may have said why before it closed.
func (x *Exchange) answersEarly(written int64) bool {
	if written == 0 || x.why() != None {
		return false
	}
	_ = x.link.SetReadDeadline(time.Now().Add(earlyAnswerWait))
	return x.why() == None
}

// forget drops the rest of the last attempt, to make room for another.
func (x *Exchange) forget() {
	cause := x.detach()
	x.total.Store(x.within)
	x.dropLink(cause == None && x.clean())
	x.shrink()
	x.payload, x.pending, x.failed, x.unsent, x.reads, x.firstNs = nil, nil, None, false, 0, 0
	x.body = framing{}
	x.head = head{length: -1, lines: x.head.lines[:0]}
}

// Limit gives the answer no longer than d from here on.
func (x *Exchange) Limit(d time.Duration) { x.limit(d) }

// limit starts the clock of the whole attempt, unless one runs out before.
func (x *Exchange) limit(d time.Duration) {
	if due, old := x.p.watch.due(d), x.total.Load(); old == 0 || due < old {
		x.total.Store(due)
	}
}
