package jsonrpc

import (
	"slices"
	"sync"
	"time"

	"farebox/proxy"
)

// batch asks for all calls of a batch at once, where a node takes that, and
// one by one where none does. The answer is always an array with an answer for
// each call, in the order of the calls.
func (j *Job) batch(now int64) Result {
	t := &j.from
	body := j.Body
	if !j.Untouched {
		j.body = j.appendBatch(j.body[:0])
		body = j.body
	}
	class := j.Class()
	pick := Pick{network: t.Network}
	w := want{request: &j.Request, batch: len(j.Calls), pinned: j.pinned(now)}
	last, asked, split := reply{}, false, false
	for n := 0; n < maxAttempts; n++ {
		if n > 0 {
			now = time.Now().UnixNano()
		}
		u := pick.next(&w, now)
		if u == nil {
			break
		}
		asked = true
		j.Attempts++
		j.Node = u.Name
		r := j.askBatch(&j.main, u, body, t.Network.timeout(class))
		now = time.Now().UnixNano()
		if r.kind == refused || r.kind == unbatched {
			// Whether it is the batch or what is in it, the calls will tell one
			// by one.
			if u.Config.Batch == "auto" {
				u.single.Store(now + int64(learntFor))
			}
			split = true
			u.Breaker.Released()
			last = r
			continue
		}
		u.report(r, now)
		switch {
		case r.kind == answered:
			return j.assemble(u, now)
		case r.kind == gone:
			return Result{Cause: r.cause}
		case r.kind == failed && r.maybe && class == Write:
			return Result{Cause: r.cause}
		}
		last = r
	}
	if split || !asked && t.Network.takesNone(&j.Request, now) {
		return j.split(class, now)
	}
	cause := last.cause
	if cause == proxy.None {
		cause = proxy.NoTarget
	}
	return Result{Cause: cause, RetryAfter: max(last.retryAfter, t.Network.restsFor(now))}
}

// takesNone says that no node would take the batch even if all were well.
func (n *Network) takesNone(r *Request, now int64) bool {
	for _, u := range n.Nodes {
		if u.servesAll(r, now) && u.batches(len(r.Calls), now) {
			return false
		}
	}
	return true
}

// askBatch asks a node a whole batch and reads the answer to its end.
func (j *Job) askBatch(a *attempt, u *Node, body []byte, wait time.Duration) reply {
	r, ok := a.open(j.from.Proxy, j.from.Ctx, u, body, wait, j.from.ID)
	if !ok {
		return r
	}
	status := a.x.Status()
	most := int(j.from.Network.batchMost)
	if status >= 300 {
		most = maxRefusal
	}
	var cause proxy.Cause
	var err error
	a.buf, cause, err = a.x.Body(a.buf[:0], most)
	if err == proxy.ErrTooLarge {
		a.x.Close()
		return reply{kind: failed, cause: proxy.UpstreamMalformed, maybe: true}
	}
	if err != nil {
		return a.broken(cause)
	}
	a.judge.Write(a.buf)
	if a.judge.Complete() && a.judge.Array && status < 300 && !j.wholeRefusal(a) {
		return r
	}
	return j.batchRefusal(a, r, status)
}

// wholeRefusal says that the array has one error for all calls together.
func (j *Job) wholeRefusal(a *attempt) bool {
	return len(a.judge.Answers) == 1 && len(j.Calls) > 1 && a.judge.Answers[0].Failed() && j.callOf(a, 0, 0) < 0
}

// batchRefusal classifies an answer that is no array of answers.
func (j *Job) batchRefusal(a *attempt, r reply, status int) reply {
	if a.judge.Complete() && len(a.judge.Answers) == 1 {
		if !a.judge.Answers[0].Failed() || len(j.Calls) == 1 && status < 300 {
			if len(j.Calls) == 1 { // unwrapped
				return r
			}
			return reply{kind: failed, cause: proxy.UpstreamMalformed, maybe: true}
		}
		if Classify(a.node.of.Family, a.judge.Error(0)) == Busy {
			r.kind = busy
		} else {
			r.kind = unbatched
		}
		return r
	}
	switch {
	case status == 413 || status == 400 || status == 422:
		r.kind = unbatched
	case status >= 400 && status < 500 || status == 503:
		r.kind = busy
	default:
		return reply{kind: failed, cause: proxy.UpstreamMalformed, maybe: true, retryAfter: r.retryAfter}
	}
	return r
}

// callOf finds the call that an answer is for, -1 when it is for none. Most
// nodes answer in order, so that is looked at first.
func (j *Job) callOf(a *attempt, answer, hint int) int {
	if a.judge.Answers[answer].flags&answerLongID != 0 || a.judge.Answers[answer].IDTo == 0 {
		return -1
	}
	id := a.judge.ID(answer)
	var number [20]byte
	if hint < len(j.Calls) && string(j.sentID(number[:0], hint)) == string(id) {
		return hint
	}
	for i := range j.Calls {
		if string(j.sentID(number[:0], i)) == string(id) {
			return i
		}
	}
	return -1
}

// assemble makes the client's answer of a node's array: as it came when it is
// what it should be, and else put together by the calls' ids. Calls that the
// node was too busy for, or does not know, are asked elsewhere.
func (j *Job) assemble(u *Node, now int64) Result {
	a := &j.main
	place := j.match(a)
	asIs := j.Untouched && a.judge.Array && len(a.judge.Answers) == len(j.Calls)
	var again []int
	for i, at := range place {
		if at < 0 {
			asIs = false
			continue
		}
		asIs = asIs && at == i
		if !a.judge.Answers[at].Failed() {
			j.Verdicts[i] = Succeeded
			continue
		}
		j.Verdicts[i] = NodeError
		switch Classify(u.of.Family, a.judge.Error(at)) {
		case Busy:
			u.busy.Add(1)
			again = append(again, i)
		case Lacking:
			u.lacks[j.Calls[i].Method.Index].Store(now + int64(learntFor))
			again = append(again, i)
		}
	}
	j.noteWrite(u, now)
	if asIs && len(again) == 0 {
		return Result{Body: a.buf}
	}
	parts := make([][]byte, len(j.Calls))
	if r := j.elsewhere(again, place, parts, u, now); r.Cause.Final() {
		return r
	}
	out := append(j.out[:0], '[')
	for i, at := range place {
		if i > 0 {
			out = append(out, ',')
		}
		switch {
		case parts[i] != nil:
			out = append(out, parts[i]...)
		case at >= 0:
			out = appendAnswer(out, a.buf, &a.judge.Answers[at], j.ID(i))
		default:
			out = appendError(out, j.ID(i), codeUnanswered, textUnanswered)
		}
	}
	j.out = append(out, ']')
	return Result{Body: j.out}
}

// elsewhere asks other nodes the calls that u was too busy for or does not know.
// What u said of itself goes to nobody.
func (j *Job) elsewhere(again, place []int, parts [][]byte, u *Node, now int64) (r Result) {
	if len(again) == 0 {
		return r
	}
	if len(j.from.Network.Nodes) > 1 {
		r = j.each(again, parts, u, now)
	}
	for _, i := range again {
		switch {
		case parts[i] != nil:
		case u.serves(j.Calls[i].Method, now):
			j.Verdicts[i], place[i] = Unanswered, -1
		default:
			j.Verdicts[i] = NodeError
		}
	}
	return r
}

const (
	codeUnanswered = -32603
	textUnanswered = "no answer from upstream"
)

// match finds the answer for each call, -1 for those without: the first one
// when a node answers twice.
func (j *Job) match(a *attempt) []int {
	place := make([]int, len(j.Calls))
	for i := range place {
		place[i] = -1
	}
	if !a.judge.Array { // unwrapped
		place[0] = 0
		return place
	}
	for at := range a.judge.Answers {
		if i := j.callOf(a, at, at); i >= 0 && place[i] < 0 {
			place[i] = at
		}
	}
	return place
}

// noteWrite pins the account to a node that took a transaction of its batch.
func (j *Job) noteWrite(u *Node, now int64) {
	for i := range j.Calls {
		if j.Calls[i].Method.Class == Write && j.Verdicts[i] == Succeeded {
			j.pin(u, now)
			return
		}
	}
}

// split asks the calls one by one: side by side, or in their order when one of
// them is a write, so that nonces stay in order.
func (j *Job) split(class Class, now int64) Result {
	parts := make([][]byte, len(j.Calls))
	all := make([]int, len(j.Calls))
	for i := range all {
		all[i] = i
	}
	r := j.each(all, parts, nil, now)
	if r.Cause.Final() {
		return r
	}
	if !slices.ContainsFunc(j.Verdicts, func(v Verdict) bool { return v != Unanswered }) && r.Cause != proxy.None {
		return r
	}
	out := append(j.out[:0], '[')
	for i := range parts {
		if i > 0 {
			out = append(out, ',')
		}
		if parts[i] == nil {
			out = appendError(out, j.ID(i), codeUnanswered, textUnanswered)
			continue
		}
		out = append(out, parts[i]...)
	}
	j.out = append(out, ']')
	return Result{Body: j.out}
}

// each asks some of the calls as singles and puts their answers into parts.
// The result is the last failure; calls that failed have no part. not is a
// node that has had its turn.
func (j *Job) each(calls []int, parts [][]byte, not *Node, now int64) Result {
	parallel := 1
	if j.Class() != Write {
		for _, u := range j.from.Network.Nodes {
			parallel = max(parallel, u.Config.MaxParallel)
		}
	}
	var mu sync.Mutex
	var last Result
	one := func(i int) {
		a := attempts.Get().(*attempt)
		defer a.release()
		body := j.appendSingle(nil, i)
		r := j.call(a, i, body, not, now)
		if r.Cause == proxy.None {
			r.Cause = a.readOn(int(j.from.Network.batchMost))
		}
		mu.Lock()
		defer mu.Unlock()
		j.Attempts += r.attempts
		if r.Cause != proxy.None {
			j.Verdicts[i] = Unanswered
			if !last.Cause.Final() {
				last = r
			}
			return
		}
		parts[i] = appendAnswer(nil, a.buf, &a.judge.Answers[0], j.ID(i))
	}
	if parallel == 1 || len(calls) == 1 {
		for _, i := range calls {
			if one(i); last.Cause.Final() {
				break
			}
		}
		return last
	}
	var group sync.WaitGroup
	places := make(chan struct{}, parallel)
	for _, i := range calls {
		places <- struct{}{}
		group.Go(func() {
			defer func() { <-places }()
			one(i)
		})
	}
	group.Wait()
	return last
}

// readOn reads a large answer to its end into memory.
func (a *attempt) readOn(most int) proxy.Cause {
	for done := false; a.large; {
		seen := len(a.buf)
		if a.buf, done = a.x.More(a.buf); len(a.buf) > most {
			a.x.Close()
			return proxy.UpstreamMalformed
		}
		a.judge.Write(a.buf[seen:])
		if done {
			a.x.Close()
			a.large = false
		}
	}
	if !a.judge.Complete() {
		return proxy.UpstreamTruncated
	}
	return proxy.None
}
