package proxy

import (
	"time"

	"github.com/valyala/fasthttp"
)

// Plan decides where a request goes. It is asked again as long as no byte of an
// answer has gone to the client.
type Plan interface {
	// Next names the target of an attempt (0, 1, 2 …) and the request for it;
	// nil ends the attempts.
	Next(attempt int) (*Target, *Request)
	// Verdict is told how each attempt went. With Attempt.Cause None the answer's
	// head can be read from the Exchange.
	Verdict(t *Target, a Attempt) Action
}

// Action is what follows an attempt.
type Action uint8

const (
	// Accept goes on with this answer; after a failure it is Fail.
	Accept Action = iota
	// Retry asks Next again. When it has nothing more, an answer that was read
	// stays open, as after Fail.
	Retry
	// Fail gives up and keeps this attempt as the result.
	Fail
)

// Attempt is how one attempt at a target went.
type Attempt struct {
	Status     int // of the answer, 0 when there is none
	Cause      Cause
	Err        error // for the operator; names no hosts and no secrets
	RetryAfter time.Duration
	Took       time.Duration // to the answer's head or the failure
	Reused     bool          // on a kept-alive connection
	Sent       bool          // the upstream may have begun to work on the request
}

// Result is what the attempts came to: an open answer (Cause None, Status set),
// or the last failure.
type Result struct {
	Status     int
	Cause      Cause
	Err        error
	Target     *Target
	RetryAfter time.Duration
	Took       time.Duration // of all attempts
	Attempts   int
}

// Open runs the attempts of plan until one is accepted: connect, send, wait for
// the answer's head. From here until x ends, a client that leaves cuts the
// upstream off, also before the first byte. An answer with an error status is
// open, too, for Body to read.
func (p *Proxy) Open(ctx *fasthttp.RequestCtx, x *Exchange, plan Plan) Result {
	x.begin(p, ctx.Conn())
	return p.run(x, plan)
}

// OpenAlone is Open for a conversation that no client waits for.
func (p *Proxy) OpenAlone(x *Exchange, plan Plan) Result { return p.OpenWithin(nil, x, 0, plan) }

// OpenWithin is Open with a limit for all attempts together, their answer and
// all; what it cuts ends with TotalTimeout. 0: none but the targets' own.
// Without ctx no client waits for it.
func (p *Proxy) OpenWithin(ctx *fasthttp.RequestCtx, x *Exchange, limit time.Duration, plan Plan) Result {
	if ctx == nil {
		x.begin(p, nil)
	} else {
		x.begin(p, ctx.Conn())
	}
	if limit > 0 {
		x.within = p.watch.due(limit)
		x.total.Store(x.within)
	}
	return p.run(x, plan)
}

func (p *Proxy) run(x *Exchange, plan Plan) Result {
	panicking := true
	defer func() {
		if panicking { // in the plan: nothing may stay registered
			x.Close()
		}
	}()
	res := Result{Cause: NoTarget, Err: errNoTarget}
	t, r := plan.Next(0)
	for t != nil {
		if res.Attempts > 0 {
			x.forget()
		}
		start := x.began
		if res.Attempts > 0 {
			start = time.Now()
		}
		a, ended := x.attempt(t, r, start)
		res = Result{
			Status: a.Status, Cause: a.Cause, Err: a.Err, Target: t,
			RetryAfter: a.RetryAfter, Took: ended.Sub(x.began), Attempts: res.Attempts + 1,
		}
		action := plan.Verdict(t, a)
		if action != Retry || x.why().Final() {
			break
		}
		t, r = plan.Next(res.Attempts)
	}
	if res.Cause != None {
		x.end()
	}
	panicking = false
	return res
}

// attempt sends the request and reads the head of the answer. It is repeated
// once, on a fresh connection, when a kept-alive one turned out to be dead and
// the upstream cannot have begun to work on the request: nothing was written,
// or the operator says that repeating is safe (retry_safe). Any other failure
// is the plan's to judge: a POST must not run twice without anybody's decision.
func (x *Exchange) attempt(t *Target, r *Request, start time.Time) (a Attempt, ended time.Time) {
	a = x.once(t, r, start, false)
	if a.Cause == UpstreamReset && a.Reused && !x.gotByte && (!a.Sent || t.o.RetrySafe) {
		x.forget()
		a = x.once(t, r, start, true)
	}
	ended = time.Now()
	a.Took = ended.Sub(start)
	x.headNs = ended.UnixNano()
	return a, ended
}

func (x *Exchange) once(t *Target, r *Request, start time.Time, fresh bool) (a Attempt) {
	x.gotByte = false
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
	x.enter(FirstByteTimeout, wait)
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

// forget drops what the last attempt left, to make room for another.
func (x *Exchange) forget() {
	cause := x.detach()
	x.total.Store(x.within)
	x.dropLink(cause == None && x.clean())
	x.shrink()
	x.payload, x.pending, x.failed, x.unsent, x.reads = nil, nil, None, false, 0
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
