package rpc

import (
	"hash/maphash"
	"time"

	"github.com/valyala/fasthttp"

	"farebox/proxy"
)

// Verdict is how one call ended, which decides what it costs.
type Verdict uint8

// The verdicts.
const (
	// Unanswered calls got an error of our own: no node answered.
	Unanswered Verdict = iota
	// Succeeded calls have a result.
	Succeeded
	// NodeError is a call that a node answered with an error.
	NodeError
	// Left is a call that a node may have run when the client left. It costs
	// what it would have: leaving early is no way to have work done for nothing.
	Left
)

// Job is one admitted request on its way to the nodes and back. It is pooled:
// Reset before it is used again, and only after a Large answer was relayed.
type Job struct {
	Request
	// Verdicts of the calls, after Run.
	Verdicts []Verdict
	Cached   bool   // the answer was kept from another request
	Attempts int    // requests sent to nodes, over all calls
	Node     string // that gave the answer, or the last that was asked
	// Tee is shown what goes out of a large answer; nil: nobody.
	Tee func(piece []byte)

	main *attempt
	body []byte // as sent, when it was rebuilt
	out  []byte // the answer, when it was put together
	// place of each call's answer in that of a batch (match).
	place  []int
	lens   lens
	lookup lookup
	from   Trip
	// account is who is asked for, among those that a node may be well or not for.
	account    uint64
	deadlineNs int64 // when the request gives up
}

// Writes says whether some call changes the chain.
func (j *Job) Writes() bool {
	for i := range j.Calls {
		if j.Calls[i].Method.Class == Write {
			return true
		}
	}
	return false
}

// Trip is what a job needs to know of the request it belongs to.
type Trip struct {
	Proxy   *proxy.Proxy
	Ctx     *fasthttp.RequestCtx
	Network *Network
	Account string // whose reads follow its writes
	// Alone: what was begun is carried to its end though the client leaves.
	Alone bool
	ID    []byte // sent to nodes as X-Request-ID
}

// Result is what a job came to: one of Cause, Body, Large and Stream.
type Result struct {
	// Cause is why there is no answer at all, None when there is one.
	Cause      proxy.Cause
	RetryAfter time.Duration
	// Body is the answer, valid until Reset.
	Body []byte
	// Large is a large answer to a single call, which Relay sends as it comes.
	Large bool
	// Stream is the answer of a batch that is too large for Body; to be closed.
	Stream *Stream

	attempts int
}

// Run asks nodes until every call is answered or given up.
func (j *Job) Run(t Trip) Result {
	j.from = t
	j.main = attempts.Get().(*attempt)
	j.Verdicts = append(j.Verdicts[:0], make([]Verdict, len(j.Calls))...)
	now := time.Now().UnixNano()
	j.account = max(1, maphash.String(accountSeed, t.Account))
	j.deadlineNs = now + int64(t.Network.limit())
	t.Network.heads.touch(t.Proxy, now)
	t.Network.chains.touch(t.Proxy, now)
	var r Result
	if j.Batch {
		r = j.batch(now)
	} else {
		r = j.single(now)
	}
	if j.main.node != nil {
		j.Node = j.main.node.Name
	}
	return r
}

// accountSeed makes numbers of accounts' names.
var accountSeed = maphash.MakeSeed()

// left is how long the request may still take.
func (j *Job) left(nowNs int64) time.Duration { return time.Duration(j.deadlineNs - nowNs) }

// leave notes that nobody waits for call i any more. sent: a node may have begun
// to work on it.
func (j *Job) leave(i int, cause proxy.Cause, sent bool) {
	if sent && (cause == proxy.ClientGone || cause == proxy.ClientStalled) {
		j.Verdicts[i] = Left
	}
}

// Close ends what a job began and will not finish.
func (j *Job) Close() {
	if j.main != nil {
		j.main.x.Close()
	}
}

// Reset makes the job ready for another request.
func (j *Job) Reset() {
	j.Request.Reset()
	if j.main != nil {
		j.main.release()
	}
	if cap(j.body) > keptBuffer {
		j.body = nil
	}
	if cap(j.out) > keptBuffer {
		j.out = nil
	}
	j.Verdicts, j.body, j.out = j.Verdicts[:0], j.body[:0], j.out[:0]
	j.Attempts, j.Node, j.main, j.from, j.Tee = 0, "", nil, Trip{}, nil
	j.account, j.deadlineNs = 0, 0
	j.lens = lens{buf: j.lens.buf[:0]}
	if cap(j.lookup.key) > keptBuffer {
		j.lookup.key = nil
	}
	j.Cached, j.lookup = false, lookup{key: j.lookup.key[:0]}
}

// pinned is the node that the account reads from after a transaction.
func (j *Job) pinned(nowNs int64) *Node {
	n := j.from.Network
	if name := n.pins.get(j.from.Account, nowNs); name != "" {
		return n.node(name)
	}
	return nil
}

// single asks one call, unless its answer is kept. An account that reads from
// the node that took its transaction asks that node.
func (j *Job) single(now int64) Result {
	kept := j.from.Network.cache
	if kept != nil {
		if body := kept.find(j, now, j.pinned(now) == nil); body != nil {
			j.Cached, j.Verdicts[0] = true, Succeeded
			return Result{Body: body}
		}
	}
	body := j.Body
	if !j.Untouched {
		j.body = j.appendSingle(j.body[:0], 0)
		body = j.body
	}
	r := j.call(&j.main, 0, body, j.singleID(), nil, now)
	j.Attempts = r.attempts
	if r.Cause == proxy.None && !r.Large {
		if kept != nil {
			kept.store(j, j.main, time.Now().UnixNano())
		}
		r.Body = j.finish()
	}
	return r
}

// singleID is the id under which a single call goes to nodes.
func (j *Job) singleID() []byte {
	if j.Untouched {
		return j.ID(0)
	}
	return defaultID
}

// finish is a single call's answer with the client's id.
func (j *Job) finish() []byte {
	a := j.main
	if id := j.ID(0); string(a.judge.ID(0)) != string(id) {
		j.out = appendAnswer(j.out[:0], a.buf, &a.judge.Answers[0], id)
		return j.out
	}
	return a.buf
}

// call asks nodes for call i until one answers, and leaves the answer in *at,
// which may become another attempt. body has the call under id. not is a node that
// had its turn. Calls of a batch that is split run side by side.
func (j *Job) call(at **attempt, i int, body, id []byte, not *Node, now int64) (res Result) {
	t := &j.from
	m := j.Calls[i].Method
	pick := t.Network.pick(want{method: m, account: j.account, pinned: j.pinned(now), not: not})
	q := question{method: m, body: body, id: id, wait: t.Network.timeout(m.Class), kept: j.keptToLook(i)}
	var last reply
	var hash []byte   // of a transaction that can be sent again
	var perhaps *Node // which may have taken it
	lacks, asked := false, 0
	defer func() { res.attempts += asked }()
	gotThere := false // a node may have begun to work on it
	for u := j.next(&pick, &q, now); u != nil; u = j.next(&pick, &q, now) {
		asked++
		var r reply
		switch {
		case m.Class != Read:
			r = (*at).ask(t, u, q)
		case t.Network.Config.HedgeAfter > 0:
			*at, u, r = j.hedged(*at, u, &pick, q)
		default:
			r = (*at).askPaced(t, u, q, now)
		}
		now = time.Now().UnixNano()
		u.report(r, j.account, now)
		gotThere = gotThere || r.maybe
		if m.Raw && hash == nil && (r.kind == known || r.kind == spent || r.kind == failed) {
			hash = transactionHash(t.Network.Family, j.Params(i))
		}
		switch r.kind {
		case answered, unbatched:
			return j.settleCall(*at, i, u, now)
		case known:
			if hash != nil {
				return j.taken(*at, i, u, hash, now)
			}
			return j.settleCall(*at, i, u, now)
		case spent:
			if hash != nil {
				asked++
				if by, ok := j.landed(u, hash); ok {
					return j.taken(*at, i, by, hash, now)
				}
			}
			return j.settleCall(*at, i, u, now)
		case gone:
			j.leave(i, r.cause, gotThere)
			return Result{Cause: r.cause}
		case lacking:
			if r.named {
				u.lacks[m.Index].met(j.account, now)
			}
			lacks = true
		case failed:
			if m.Class == Write && r.maybe && hash == nil {
				return Result{Cause: r.cause} // it may have run, and must not twice
			}
			if r.maybe && perhaps == nil {
				perhaps = u
			}
		}
		last = r
	}
	if hash != nil && perhaps != nil {
		asked++
		if by, ok := j.landed(perhaps, hash); ok {
			return j.taken(*at, i, by, hash, now)
		}
	}
	return j.noAnswer(*at, i, last, lacks, now)
}

// next is the next node to ask, which has for its answer what is left of the
// request's time; nil when there is none.
func (j *Job) next(pick *picker, q *question, now int64) *Node {
	if q.within = j.left(now) - q.kept; q.within <= 0 {
		return nil
	}
	return pick.Next(now)
}

// settleCall notes how call i ended.
func (j *Job) settleCall(a *attempt, i int, u *Node, now int64) Result {
	if a.judge.Answers[0].Failed() {
		j.Verdicts[i] = NodeError
		return Result{Large: a.large}
	}
	j.Verdicts[i] = Succeeded
	if j.Calls[i].Method.Class == Write {
		j.pin(u, now)
	}
	return Result{Large: a.large}
}

// pin makes the account read from the node that took its transaction.
func (j *Job) pin(u *Node, now int64) {
	if n := j.from.Network; n.pinFor > 0 && len(n.Nodes) > 1 {
		n.pins.set(j.from.Account, u.Name, now+int64(n.pinFor), now)
	}
}

// noAnswer is what is left when no node answered call i.
func (j *Job) noAnswer(a *attempt, i int, last reply, lacks bool, now int64) Result {
	switch {
	case last.kind == behind:
		return j.settleCall(a, i, a.node, now)
	case last.kind == refused:
		j.Verdicts[i] = NodeError
		j.ownAnswer(a, -32603, "the node refused the request")
		return Result{}
	case lacks || last.kind == 0 && !j.from.Network.anyServes(j.Calls[i].Method, j.account, now):
		j.Verdicts[i] = NodeError
		j.ownAnswer(a, -32601, "the method is not supported by the nodes of this network")
		return Result{}
	}
	cause := last.cause
	if cause == proxy.None {
		cause = proxy.NoTarget
	}
	return Result{Cause: cause, RetryAfter: max(last.retryAfter, j.from.Network.restsFor(now))}
}

// ownAnswer puts an error of ours where a node's answer would be.
func (j *Job) ownAnswer(a *attempt, code int, text string) {
	a.x.Close()
	a.large = false
	a.buf = appendError(a.buf[:0], defaultID, code, text)
	a.judge.Reset()
	a.judge.Write(a.buf)
}

// anyServes says whether some node is not known to lack a method.
func (n *Network) anyServes(m *Method, account uint64, now int64) bool {
	for _, u := range n.Nodes {
		if u.serves(m, account, now) {
			return true
		}
	}
	return false
}
