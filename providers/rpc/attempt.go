package rpc

import (
	"fmt"
	"sync"
	"time"

	"github.com/tidwall/gjson"

	policy "farebox/providers/attempt"
	"farebox/proxy"
)

const (
	// maxWhole is the largest answer to a single call that is held in memory and judged
	// before it is sent; a larger one is judged while it streams.
	maxWhole = 64 << 10
	// maxRefusal bounds the bytes read of an answer with an error status.
	maxRefusal = 64 << 10
	// keptBuffer is the largest buffer that is pooled.
	keptBuffer = 256 << 10
)

// attempt is one exchange with one node. It is pooled; one goroutine at a
// time owns it.
type attempt struct {
	x     proxy.Exchange
	judge Judge
	buf   []byte // the answer, or its beginning
	large bool   // there is more of it, in x
	spool spool  // of a batch's answer

	node    *Node
	request proxy.Request
	first   int64         // id of the first call that was asked; the next ones count up
	patches []proxy.Patch // that put the ids into the request
	digits  []byte        // of the ids
}

var attempts = sync.Pool{New: func() any { return new(attempt) }}

func (a *attempt) release() {
	a.reset()
	attempts.Put(a)
}

func (a *attempt) reset() {
	a.x.Reset()
	a.judge.Reset()
	a.spool.close()
	a.spool = spool{}
	if cap(a.buf) > keptBuffer {
		a.buf = nil
	}
	a.buf, a.large, a.node = a.buf[:0], false, nil
	a.request = proxy.Request{}
}

// reply is the outcome of an attempt.
type reply struct {
	kind       replyKind
	cause      proxy.Cause // of failed
	maybe      bool        // the node may have run the request though it did not answer
	named      bool        // of lacking: the error names the method
	status     int         // of the answer, 0 if absent
	retryAfter time.Duration
}

type replyKind uint8

const (
	answered  replyKind = iota // there is an answer, perhaps an error, for the client
	busy                       // the node refused for reasons of its own
	lacking                    // the node does not serve the method
	behind                     // the node does not have the requested block yet
	known                      // the node has this transaction already
	spent                      // its nonce was used
	unbatched                  // the node does not take this batch
	refused                    // the node refused the request and did not say why in JSON-RPC
	failed                     // no answer, or an unusable one
	gone                       // the client is gone
)

var replyOf = [...]replyKind{Final: answered, Busy: busy, Lacking: lacking, Behind: behind, Known: known, Spent: spent,
	Unbatched: unbatched}

// question is the request to a node.
type question struct {
	method *Method // nil: a batch
	body   []byte
	ids    []span        // places of its calls' ids, in body or to be filled in
	wait   time.Duration // for the answer to begin
	within time.Duration // for all of it, however it trickles
	kept   time.Duration // of the request's time, for later questions
	// repeats says that it changes nothing: it is sent again where a node had closed the
	// connection.
	repeats bool
}

// open sends a request to a node and waits for the head of the answer. Unless t is alone, a
// client that leaves ends it.
func (a *attempt) open(t *ClientContext, u *Node, q question) (r reply, ok bool) {
	a.reset()
	a.node = u
	a.number(&q)
	a.request = proxy.Request{Path: u.path, Body: q.body, Patches: a.patches, ID: t.ID, Accept: "application/json",
		FirstByte: q.wait, Once: !q.repeats}
	client := t.Ctx
	if t.Alone {
		client = nil
	}
	res := t.Proxy.Ask(client, &a.x, q.within, u.Proxy, &a.request)
	switch res.Cause {
	case proxy.None:
		return reply{status: res.Status, retryAfter: res.RetryAfter}, true
	case proxy.ClientGone, proxy.ClientStalled, proxy.Shutdown, proxy.Cut:
		return reply{kind: gone, cause: res.Cause, maybe: res.Sent}, false
	}
	return reply{kind: failed, cause: res.Cause, maybe: res.Sent}, false
}

// call asks a node one call and judges the answer: whole when it is small, by
// its beginning when it is large. Nothing of it has been sent to the client yet.
func (a *attempt) call(t *ClientContext, u *Node, q question) reply {
	r, ok := a.open(t, u, q)
	if !ok {
		return r
	}
	status := a.x.Status()
	long := a.x.ContentLength() > maxWhole
	for seen, done := 0, false; !done; {
		a.buf, done = a.x.More(a.buf)
		a.judge.Write(a.buf[seen:])
		seen = len(a.buf)
		long = long || seen > maxWhole
		switch {
		case done && seen <= maxWhole:
		case long && (status >= 300 || a.judge.Broken() || a.judge.Array || seen > 2*maxWhole && !a.judge.Known()):
			a.x.Close()
			return reply{kind: failed, cause: proxy.UpstreamMalformed, maybe: true, retryAfter: r.retryAfter}
		case long && a.judge.Known() && !done:
			a.large = true
			if a.judge.Answers[0].IDTo != 0 && a.callOf(0) < 0 {
				return a.stray()
			}
			return a.judged(r, status, Final, q.method)
		}
	}
	return a.whole(r, status, q)
}

// whole judges an answer that was read to its end.
func (a *attempt) whole(r reply, status int, q question) reply {
	single := a.judge.Complete() && !a.judge.Array
	if single && a.callOf(0) < 0 {
		if !a.nameless(0) {
			return a.stray()
		}
		a.x.Distrust()
	}
	if cause, err := a.x.Finish(); err != nil {
		return a.broken(cause)
	}
	meaning := statusMeaning(status)
	if single {
		return a.judged(r, status, meaning, q.method)
	}
	switch {
	case meaning == Busy && status < 500 || status == 503:
		r.kind = busy
		return r
	case status >= 400 && status < 500:
		return reply{kind: refused}
	}
	// A gateway before the node may answer 502 or 504 after the node began.
	return reply{kind: failed, cause: proxy.UpstreamMalformed, maybe: true, retryAfter: r.retryAfter}
}

// read reads a whole answer of at most so many bytes to a question of our own.
func (a *attempt) read(most int) error {
	for done := false; !done; {
		if a.buf, done = a.x.More(a.buf); len(a.buf) > most {
			a.x.Close()
			return errLong
		}
	}
	a.judge.Write(a.buf)
	single := a.judge.Complete() && !a.judge.Array
	if single && a.callOf(0) < 0 {
		a.x.Distrust()
	}
	if _, err := a.x.Finish(); err != nil {
		return errMute
	}
	if !single || a.callOf(0) < 0 {
		return fmt.Errorf("%w (status %d)", errMute, a.x.Status())
	}
	return nil
}

// stray refuses the answer to another call. The next answer on its connection would be
// wrong, too, so it is closed.
func (a *attempt) stray() reply {
	a.x.Distrust()
	a.x.Close()
	a.large = false
	return reply{kind: failed, cause: proxy.UpstreamMalformed, maybe: true}
}

// judged classifies an answer.
func (a *attempt) judged(r reply, status int, meaning Meaning, m *Method) reply {
	if !a.judge.Answers[0].Failed() {
		if status >= 300 {
			a.x.Close()
			return reply{kind: failed, cause: proxy.UpstreamMalformed, maybe: true}
		}
		return r
	}
	said := Classify(a.node.of.Family, m, a.judge.Error(0))
	if said == Final && meaning == Busy && status != 500 && status != 404 {
		said = Busy
	}
	r.kind = replyOf[said]
	r.named = said == Lacking && names(a.judge.Error(0), m)
	return r
}

func (a *attempt) broken(cause proxy.Cause) reply {
	switch cause {
	case proxy.ClientGone, proxy.ClientStalled, proxy.Shutdown, proxy.Cut:
		return reply{kind: gone, cause: cause, maybe: true}
	}
	return reply{kind: failed, cause: cause, maybe: true}
}

// result is the result of a whole answer to a single call.
func (a *attempt) result() []byte { return []byte(gjson.GetBytes(a.buf, "result").Raw) }

// askPaced is ask for a small read, whose time counts for the node's pace.
func (a *attempt) askPaced(t *ClientContext, u *Node, q question, sent int64) reply {
	u.pace.Ask(sent)
	r := a.call(t, u, q)
	now := time.Now().UnixNano()
	u.paced(r, now, now-sent)
	return r
}

// paced notes how fast the node answered a small read. A read that was cut because another
// was faster counts as slower.
func (n *Node) paced(r reply, nowNs, tookNs int64) {
	switch {
	case r.kind == answered || r.kind == gone && r.cause == proxy.Cut:
		n.pace.Note(nowNs, tookNs, false)
	case r.kind == busy || r.kind == failed && r.cause != proxy.NoFreeConn:
		n.pace.Note(nowNs, tookNs, true)
	}
}

// verdict is the effect of a reply on the node's breaker.
func (n *Node) verdict(r reply) (v policy.Verdict) {
	switch r.kind {
	case gone, refused:
	case failed:
		v = policy.Lost(r.cause)
		v.Rest, v.Unsent = r.retryAfter, false // another node is asked, not the same one again
	case busy:
		n.busy.Add(1)
		status := r.status
		if status < 300 {
			status = tooMany // sent in an answer with status 200
		}
		v = policy.Judge(status, r.retryAfter)
	default:
		n.answers.Add(1)
		v.Health = policy.Good
	}
	v.Do = policy.Retry
	return v
}

// tooMany is the status of a limit that is sent with status 200.
const tooMany = 429
