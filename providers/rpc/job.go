package rpc

import (
	"hash/maphash"
	"time"

	"github.com/valyala/fasthttp"

	"farebox/config/fair"
	policy "farebox/providers/attempt"
	"farebox/proxy"
)

// Verdict is the outcome of one call, which decides its price.
type Verdict uint8

// The verdicts.
const (
	// Unanswered calls got an error of our own: no node answered.
	Unanswered Verdict = iota
	// Succeeded calls have a result.
	Succeeded
	// NodeError is a call that a node answered with an error.
	NodeError
	// Left is a call that a node may have run when the client left. It is charged in full:
	// a disconnect does not make work free.
	Left
)

// Job is one admitted request and its answer. It is pooled: call Reset before it is used
// again, and only after a Large answer was relayed.
type Job struct {
	Request
	// Verdicts of the calls, after Run.
	Verdicts []Verdict
	Cached   bool   // the answer is from the cache
	Begun    bool   // a node may have run a call that changes the chain
	Attempts int    // requests sent to nodes, over all calls
	Node     string // that gave the answer, or the last that was asked
	// Tee gets the pieces of a large answer as they go out; may be nil.
	Tee func(piece []byte)

	asking asking // for a single call, or for the whole batch
	main   *attempt
	body   []byte // as sent, when it was rebuilt
	ids    []span // places of its ids
	out    []byte // the answer, when it was put together
	// place of each call's answer in that of a batch (match).
	place  []int
	lens   lens
	lookup lookup
	from   ClientContext
	// account is the client's account: a node may rest for some accounts only.
	account    uint64
	deadlineNs int64 // the deadline of the request
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

// Once says that some call changes the chain and must not be sent twice: it is not a signed
// transaction that a chain knows by its hash.
func (j *Job) Once(f *Family) bool {
	for i := range j.Calls {
		m := j.Calls[i].Method
		if m.Class == Write && (!m.Raw || transactionHash(f, j.Params(i)) == nil) {
			return true
		}
	}
	return false
}

// ClientContext is the request that a job belongs to.
type ClientContext struct {
	Proxy   *proxy.Proxy
	Ctx     *fasthttp.RequestCtx
	Network *Network
	Account string // whose reads follow its writes
	Owner   fair.Owner
	// Alone: a begun job is finished although the client leaves.
	Alone bool
	ID    []byte // sent to nodes as X-Request-ID
}

// Result is the outcome of a job: one of Cause, Body, Large and Stream.
type Result struct {
	// Cause is why there is no answer at all, proxy.None when there is one.
	Cause      proxy.Cause
	RetryAfter time.Duration
	// Body is the answer, valid until Reset.
	Body []byte
	// Large is a large answer to a single call, which Relay sends as it arrives.
	Large bool
	// Stream is the answer of a batch that is too large for Body; to be closed.
	Stream *Stream

	attempts int
}

// Run asks nodes until every call is answered or given up.
func (j *Job) Run(t ClientContext) Result {
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

// accountSeed hashes the names of accounts.
var accountSeed = maphash.MakeSeed()

// left is how long the request may still take.
func (j *Job) left(nowNs int64) time.Duration { return time.Duration(j.deadlineNs - nowNs) }

// abandonCall notes that the client does not wait for call i any more. sent: a node may
// have begun to work on it.
func (j *Job) abandonCall(i int, cause proxy.Cause, sent bool) {
	if sent && (cause == proxy.ClientGone || cause == proxy.ClientStalled) {
		j.Verdicts[i] = Left
	}
}

// Close ends the unfinished exchanges of a job.
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
	j.Attempts, j.Node, j.main, j.from, j.Tee = 0, "", nil, ClientContext{}, nil
	j.account, j.deadlineNs, j.asking = 0, 0, asking{}
	j.lens = lens{buf: j.lens.buf[:0]}
	if cap(j.lookup.key) > keptBuffer {
		j.lookup.key = nil
	}
	j.Cached, j.Begun, j.lookup = false, false, lookup{key: j.lookup.key[:0]}
}

// pinned is the node that the account reads from after a transaction.
func (j *Job) pinned(nowNs int64) *Node {
	n := j.from.Network
	if name := n.pins.get(j.from.Account, nowNs); name != "" {
		return n.node(name)
	}
	return nil
}

// single asks one call, unless its answer is cached. An account that reads from
// the node that took its transaction asks that node.
func (j *Job) single(now int64) Result {
	kept := j.from.Network.cache
	if kept != nil {
		if body := kept.find(j, now, j.pinned(now) == nil); body != nil {
			j.Cached, j.Verdicts[0] = true, Succeeded
			return Result{Body: body}
		}
	}
	r := j.call(&j.asking, &j.main, 0, j.question(), nil, now)
	j.Attempts = r.attempts
	switch {
	case r.Cause != proxy.None:
	case r.Large && j.main.judge.Answers[0].IDTo == 0 && j.main.x.Reused():
		return j.held()
	case !r.Large:
		if kept != nil {
			kept.store(j, j.main, time.Now().UnixNano())
		}
		r.Body = j.finish()
	}
	return r
}

// held reads a large answer to its end before any of it goes out. Its id is last, and the
// connection had answered other calls before: it may repeat one of those answers.
func (j *Job) held() Result {
	n, parts := j.from.Network, make([]part, 1)
	defer closeParts(parts)
	if cause := j.main.keep(&parts[0], n, n.batchMemory/heldShare, j.from.Owner); cause != proxy.None {
		j.Verdicts[0] = Unanswered
		j.abandonCall(0, cause, true)
		return Result{Cause: cause}
	}
	return j.compose(pieces(nil).answer(&parts[0].spool, &parts[0].answer, j.ID(0)), parts)
}

// heldShare is the part of the memory for a batch's answer that a single one may take.
const heldShare = 8

// finish is the node's answer, under the client's ids. It is written in place, unless an id
// is longer than the node's.
func (j *Job) finish() []byte {
	a := j.main
	said, b, own := a.buf, a.buf[:0], true
	for i := range a.judge.Answers {
		n := &a.judge.Answers[i]
		if n.IDTo == 0 {
			j.out = appendAnswer(j.out[:0], said, n, j.ID(i)) // an error for the only call
			return j.out
		}
		own = own && int64(len(j.ID(i))) <= n.IDTo-n.IDFrom
	}
	if !own {
		b = j.out[:0]
	}
	from := int64(0)
	for i := range a.judge.Answers {
		n := &a.judge.Answers[i]
		b = append(append(b, said[from:n.IDFrom]...), j.ID(i)...)
		from = n.IDTo
	}
	b = append(b, said[from:]...)
	if !own {
		j.out = b
	}
	return b
}

// asking is the attempts of one call, or of a whole batch: the policy.Work of a Job.
type asking struct {
	j     *Job
	at    **attempt // that has the last answer; a hedge may replace it
	i     int       // which call; -1: the batch
	pick  picker
	q     question
	nowNs int64 // when the node is asked

	asked int   // requests sent to nodes
	node  *Node // the last that gave an answer
	last  reply
	over  bool // other nodes are not asked any more
	begun bool // a node may have begun to work on it
	lacks bool // a node does not serve the method, or not the batch
	// hash is that of a transaction that can be sent again, perhaps the node that
	// may have taken it.
	hash    []byte
	perhaps *Node
}

// run asks the nodes that are wanted, one after the other.
func (a *asking) run(w nodeNeeds, q question, now int64) {
	a.q, a.pick = q, a.j.from.Network.pick(w)
	a.pick.Run(a, a.pick.Fitting(a, now))
}

// Fits is policy.Work: the time limit of a node's answer is the rest of the request's time.
func (a *asking) Fits(_ *Node, now int64) bool {
	a.nowNs, a.q.within = now, a.j.left(now)-a.q.kept
	return a.q.within > 0
}

// Try is policy.Work.
func (a *asking) Try(u *Node) policy.Verdict {
	if a.i < 0 {
		return a.tryBatch(u)
	}
	t, m := &a.j.from, a.q.method
	a.asked++
	var r reply
	var v policy.Verdict
	by := u
	switch {
	case m.Class != Read:
		r = (*a.at).call(t, u, a.q)
		v = u.verdict(r)
	case t.Network.Config.HedgeAfter > 0:
		by, r, v = a.hedged(u)
	default:
		r = (*a.at).askPaced(t, u, a.q, a.nowNs)
		v = u.verdict(r)
	}
	a.note(by, r, m.Class)
	if m.Raw && a.hash == nil && (r.kind == known || r.kind == spent || r.kind == failed) {
		a.hash = transactionHash(t.Network.Family, a.j.Params(a.i))
	}
	switch r.kind {
	case busy, behind, refused:
	case lacking:
		if a.lacks = true; r.named {
			by.lacks[m.Index].met(a.j.account, time.Now().UnixNano())
		}
	case failed:
		// A write that may have run must not run twice.
		a.over = m.Class == Write && r.maybe && a.hash == nil
		if r.maybe && a.perhaps == nil {
			a.perhaps = by
		}
	default:
		a.over = true
	}
	return a.then(v)
}

// note stores the reply of a node. Calls of a batch with a write run one after the other.
func (a *asking) note(u *Node, r reply, class Class) {
	a.node, a.last, a.begun = u, r, a.begun || r.maybe
	if class == Write && (r.maybe || r.kind == answered) {
		a.j.Begun = true
	}
}

// then completes a verdict with its consequences.
func (a *asking) then(v policy.Verdict) policy.Verdict {
	if v.Do = policy.Retry; a.over {
		v.Do = policy.Fail
	}
	return v
}

// call asks nodes for call i until one answers, and leaves the answer in *at, which may
// become another attempt. q has the call alone. not is a node that was asked before. Calls
// of a batch that is split run side by side.
func (j *Job) call(c *asking, at **attempt, i int, q question, not *Node, now int64) (res Result) {
	m := j.Calls[i].Method
	*c = asking{j: j, at: at, i: i}
	defer func() { res.attempts += c.asked }()
	q.method, q.wait, q.kept = m, j.from.Network.timeout(m.Class), j.keptToLook(i)
	q.repeats = m.Class != Write
	c.run(nodeNeeds{method: m, account: j.account, pinned: j.pinned(now), not: not}, q, now)
	if !c.over {
		if by := c.landed(c.perhaps); by != nil {
			return j.taken(*at, i, by, c.hash)
		}
		return j.noAnswer(*at, i, c.last, c.lacks)
	}
	switch c.last.kind {
	case gone, failed:
		j.abandonCall(i, c.last.cause, c.begun)
		return Result{Cause: c.last.cause}
	case known:
		if c.hash != nil {
			return j.taken(*at, i, c.node, c.hash)
		}
	case spent:
		if by := c.landed(c.node); by != nil {
			return j.taken(*at, i, by, c.hash)
		}
	}
	return j.settleCall(*at, i, c.node)
}

// landed is the node that has the transaction, which first may have taken; nil: no node is
// known to have it.
func (a *asking) landed(first *Node) *Node {
	if a.hash == nil || first == nil {
		return nil
	}
	a.asked++
	return a.j.landed(first, a.hash)
}

// settleCall notes the outcome of call i.
func (j *Job) settleCall(a *attempt, i int, u *Node) Result {
	if a.judge.Answers[0].Failed() {
		j.Verdicts[i] = NodeError
		return Result{Large: a.large}
	}
	j.Verdicts[i] = Succeeded
	if j.Calls[i].Method.Class == Write {
		j.pin(u)
	}
	return Result{Large: a.large}
}

// pin makes the account read from the node that took its transaction.
func (j *Job) pin(u *Node) {
	if n := j.from.Network; n.pinFor > 0 && len(n.Nodes) > 1 {
		now := time.Now().UnixNano()
		n.pins.set(j.from.Account, u.Name, now+int64(n.pinFor), now)
	}
}

// noAnswer is the result if no node answered call i.
func (j *Job) noAnswer(a *attempt, i int, last reply, lacks bool) Result {
	switch {
	case last.kind == behind:
		return j.settleCall(a, i, a.node)
	case last.kind == refused:
		j.Verdicts[i] = NodeError
		j.ownAnswer(a, -32603, "the node refused the request")
		return Result{}
	case lacks || last.kind == 0 && !j.from.Network.anyServes(j.Calls[i].Method, j.account):
		j.Verdicts[i] = NodeError
		j.ownAnswer(a, -32601, "the method is not supported by the nodes of this network")
		return Result{}
	}
	return j.unreached(last)
}

// unreached is the result of a request that no node answered.
func (j *Job) unreached(last reply) Result {
	cause := last.cause
	if cause == proxy.None {
		cause = proxy.NoTarget
	}
	return Result{Cause: cause, RetryAfter: max(last.retryAfter, j.from.Network.restsFor(time.Now().UnixNano()))}
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
func (n *Network) anyServes(m *Method, account uint64) bool {
	now := time.Now().UnixNano()
	for _, u := range n.Nodes {
		if u.serves(m, account, now) {
			return true
		}
	}
	return false
}
