package rpc

import (
	"slices"
	"sync"

	"farebox/config/fair"
	"farebox/proxy"
)

// elsewhere asks other nodes the calls that u was too busy for or cannot answer. u's errors
// about its load do not go to the client; its error for a missing method does if no other
// node has an answer.
func (j *Job) elsewhere(again, place []int, parts []part, u *Node, now int64) (r Result) {
	if len(again) == 0 {
		return r
	}
	was := make([]Verdict, len(again))
	for k, i := range again {
		was[k] = j.Verdicts[i]
	}
	if len(j.from.Network.Nodes) > 1 {
		r = j.each(again, parts, u, now)
	}
	for k, i := range again {
		if parts[i].done {
			continue
		}
		if j.Verdicts[i] = was[k]; was[k] == Unanswered {
			place[i] = -1
		}
	}
	return r
}

// split asks the calls one by one: side by side, or in their order when one of
// them is a write, so that nonces are in order.
func (j *Job) split(now int64) Result {
	parts := make([]part, len(j.Calls))
	defer closeParts(parts)
	all := make([]int, len(j.Calls))
	for i := range all {
		all[i] = i
	}
	r := j.each(all, parts, nil, now)
	if r.Cause.Final() || r.Cause != proxy.None && !slices.ContainsFunc(parts, func(p part) bool { return p.done }) {
		return r
	}
	list := pieces{{text: []byte{'['}}}
	for i := range parts {
		if i > 0 {
			list = append(list, piece{text: comma})
		}
		if parts[i].done {
			list = list.answer(&parts[i].spool, &parts[i].answer, j.ID(i))
		} else {
			list = append(list, piece{text: appendError(nil, j.ID(i), codeUnanswered, textUnanswered)})
		}
	}
	return j.compose(append(list, piece{text: []byte{']'}}), parts)
}

// each asks some of the calls as singles and puts their answers into parts. The result is
// the last failure; calls that failed have no part. not is a node that was asked before.
func (j *Job) each(calls []int, parts []part, not *Node, now int64) Result {
	n := j.from.Network
	parallel := 1
	if j.Class() != Write {
		parallel = n.parallel()
	}
	var mu sync.Mutex
	var last Result
	one := func(i int) {
		a := attempts.Get().(*attempt)
		defer func() { a.release() }()
		var q question
		q.add(j.MethodName(i), j.Params(i))
		r := j.call(new(asking), &a, i, q, not, now)
		if r.Cause == proxy.None {
			r.Cause = a.keep(&parts[i], n, n.batchMemory/MaxBatch, j.from.Owner)
		}
		mu.Lock()
		defer mu.Unlock()
		j.Attempts += r.attempts
		if r.Cause != proxy.None {
			if j.Verdicts[i] != Left {
				j.Verdicts[i] = Unanswered
			}
			if !last.Cause.Final() {
				last = r
			}
		}
	}
	if parallel == 1 || len(calls) == 1 {
		for _, i := range calls {
			if one(i); last.Cause.Final() {
				break
			}
		}
		return last
	}
	fair.Each(len(calls), parallel, func(k int) { one(calls[k]) })
	return last
}

// parallel is how many calls of a batch may be under way at a time.
func (n *Network) parallel() int {
	most := 1
	for _, u := range n.Nodes {
		most = max(most, u.Config.MaxParallel)
	}
	return most
}

// keep moves the answer of a single call into a part, and reads a large one to its end;
// memory bounds its part in memory.
func (a *attempt) keep(p *part, n *Network, memory int, o fair.Owner) proxy.Cause {
	if !a.large {
		p.spool = spool{mem: slices.Clone(a.buf), most: len(a.buf), size: int64(len(a.buf))}
		p.answer, p.done = a.judge.Answers[0], true
		return proxy.None
	}
	a.large = false
	a.spool = spool{most: memory, room: n.room, owner: o}
	if a.spool.write(a.buf) != nil {
		a.x.Close()
		return proxy.NoFreeConn
	}
	cause := a.readAll(n.batchMost, true)
	if cause == proxy.None && a.judge.Complete() && a.callOf(0) < 0 {
		return a.stray().cause
	}
	if cause == proxy.None {
		cause, _ = a.x.Finish()
	}
	switch {
	case cause != proxy.None:
		return cause
	case !a.judge.Complete() || a.judge.Answers[0].Failed():
		return proxy.UpstreamMalformed
	}
	p.answer, p.done = a.judge.Answers[0], true
	p.spool, a.spool, a.buf = a.spool, spool{}, nil
	return proxy.None
}
