package jsonrpc

import (
	"sync"
	"time"

	"github.com/tidwall/gjson"
	"github.com/valyala/fasthttp"

	"farebox/proxy"
)

const (
	// maxWhole is the largest answer to a single call that is held in memory
	// and judged before it goes out; a larger one is judged while it streams.
	maxWhole = 64 << 10
	// maxRefusal bounds what is read of an answer with an error status.
	maxRefusal = 64 << 10
	// keptBuffer is the largest buffer that is pooled.
	keptBuffer = 256 << 10
)

// attempt is one conversation with one node. It is pooled; one goroutine at a
// time owns it.
type attempt struct {
	x     proxy.Exchange
	judge Judge
	buf   []byte // the answer, or its beginning
	large bool   // there is more of it, in x
	spool spool  // of a batch's answer

	node    *Node
	request proxy.Request
	went    proxy.Attempt
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
	a.request, a.went = proxy.Request{}, proxy.Attempt{}
}

// reply is what an attempt came to.
type reply struct {
	kind       replyKind
	cause      proxy.Cause // of failed
	maybe      bool        // the node may have run the request though it did not answer
	retryAfter time.Duration
}

type replyKind uint8

const (
	answered  replyKind = iota // there is an answer, perhaps an error, for the client
	busy                       // the node refused for reasons of its own
	lacking                    // the node does not serve the method
	known                      // the node has this transaction already
	spent                      // its nonce was used
	unbatched                  // the node does not take this batch
	refused                    // the node refused the request and did not say why in JSON-RPC
	failed                     // no answer, or none that can be used
	gone                       // nobody waits for the answer any more
)

var replyOf = [...]replyKind{Final: answered, Busy: busy, Lacking: lacking, Known: known, Spent: spent, Unbatched: unbatched}

// Next is proxy.Plan: one attempt at one node; what follows is decided above.
func (a *attempt) Next(n int) (*proxy.Target, *proxy.Request) {
	if n > 0 {
		return nil, nil
	}
	return a.node.Proxy, &a.request
}

// Verdict is proxy.Plan.
func (a *attempt) Verdict(_ *proxy.Target, went proxy.Attempt) proxy.Action {
	a.went = went
	return proxy.Accept
}

// open sends a body to a node and waits for the head of the answer. Without a
// client (ctx nil) it is a question of our own.
func (a *attempt) open(p *proxy.Proxy, ctx *fasthttp.RequestCtx, u *Node, body []byte, wait time.Duration, id []byte) (r reply, ok bool) {
	a.reset()
	a.node = u
	a.request = proxy.Request{Path: u.path, Body: body, ID: id, Accept: "application/json", FirstByte: wait}
	var res proxy.Result
	if ctx == nil {
		res = p.OpenAlone(&a.x, a)
	} else {
		res = p.Open(ctx, &a.x, a)
	}
	switch res.Cause {
	case proxy.None:
		return reply{retryAfter: res.RetryAfter}, true
	case proxy.ClientGone, proxy.ClientStalled, proxy.Shutdown, proxy.Cut:
		return reply{kind: gone, cause: res.Cause, maybe: a.went.Sent}, false
	}
	return reply{kind: failed, cause: res.Cause, maybe: a.went.Sent}, false
}

// ask asks a node one call and judges the answer: whole when it is small, by
// its beginning when it is large. Nothing of it has gone to the client yet.
func (a *attempt) ask(p *proxy.Proxy, ctx *fasthttp.RequestCtx, u *Node, body []byte, wait time.Duration, id []byte) reply {
	r, ok := a.open(p, ctx, u, body, wait, id)
	if !ok {
		return r
	}
	status := a.x.Status()
	meaning := statusMeaning(status)
	var cause proxy.Cause
	var err error
	a.buf, cause, err = a.x.Body(a.buf[:0], maxWhole)
	if err == proxy.ErrTooLarge && meaning == Final && status < 300 {
		return a.askMore(r)
	}
	if err == proxy.ErrTooLarge {
		a.x.Close()
		return reply{kind: failed, cause: proxy.UpstreamMalformed, maybe: true, retryAfter: r.retryAfter}
	}
	if err != nil {
		return a.broken(cause)
	}
	a.judge.Write(a.buf)
	if !a.judge.Complete() || a.judge.Array {
		switch {
		case meaning == Busy && status < 500 || status == 503:
			return reply{kind: busy, retryAfter: r.retryAfter}
		case status >= 400 && status < 500:
			return reply{kind: refused}
		}
		// A gateway in front of the node may say 502 or 504 after the node began.
		return reply{kind: failed, cause: proxy.UpstreamMalformed, maybe: true, retryAfter: r.retryAfter}
	}
	return a.judged(r, status, meaning)
}

// judged classifies a whole answer.
func (a *attempt) judged(r reply, status int, meaning Meaning) reply {
	if !a.judge.Answers[0].Failed() {
		if status >= 300 {
			return reply{kind: failed, cause: proxy.UpstreamMalformed, maybe: true}
		}
		return r
	}
	said := Classify(a.node.of.Family, a.judge.Error(0))
	if said == Final && meaning == Busy && status != 500 && status != 404 {
		said = Busy
	}
	r.kind = replyOf[said]
	return r
}

// askMore goes on until it is known what a large answer is.
func (a *attempt) askMore(r reply) reply {
	a.large = true
	seen := 0
	for done := false; ; {
		a.judge.Write(a.buf[seen:])
		seen = len(a.buf)
		switch {
		case a.judge.Broken() || a.judge.Array || done && !a.judge.Complete() || seen > 2*maxWhole && !a.judge.Known():
			a.x.Close()
			return reply{kind: failed, cause: proxy.UpstreamMalformed, maybe: true}
		case a.judge.Known():
			return a.judged(r, a.x.Status(), Final)
		}
		a.buf, done = a.x.More(a.buf)
	}
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

// paced notes how fast the node answered a small read. One that was cut since
// another was faster would have taken longer.
func (u *Node) paced(r reply, nowNs, tookNs int64) {
	switch {
	case r.kind == answered || r.kind == gone && r.cause == proxy.Cut:
		u.pace.note(nowNs, tookNs, false)
	case r.kind == busy || r.kind == failed && r.cause != proxy.NoFreeConn:
		u.pace.note(nowNs, tookNs, true)
	}
}

// report tells the node's breaker what came of it.
func (u *Node) report(r reply, nowNs int64) {
	switch r.kind {
	case gone:
		u.Breaker.Released()
	case failed:
		if r.cause == proxy.NoFreeConn { // our own cap
			u.Breaker.Released()
			return
		}
		u.Breaker.Failed(nowNs, r.retryAfter)
	case busy:
		u.busy.Add(1)
		u.Breaker.Failed(nowNs, r.retryAfter)
	case refused:
		u.Breaker.Released()
	default:
		u.answers.Add(1)
		u.Breaker.Succeeded()
	}
}
