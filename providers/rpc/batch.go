package rpc

import (
	"slices"
	"time"

	policy "farebox/providers/attempt"
	"farebox/proxy"
)

// batch asks for all calls of a batch at once, if a node takes that, and else one by one.
// The answer is always an array with an answer for each call, in the order of the calls.
func (j *Job) batch(now int64) Result {
	c, q := &j.asking, j.question()
	q.wait = j.from.Network.timeout(j.Class())
	*c = asking{j: j, i: -1}
	c.run(nodeNeeds{request: &j.Request, account: j.account, batch: len(j.Calls), pinned: j.pinned(now)}, q, now)
	j.Attempts += c.asked
	switch {
	case c.over && c.last.kind == answered:
		return j.assemble(c.node, time.Now().UnixNano())
	case c.over:
		for i := range j.Calls {
			j.abandonCall(i, c.last.cause, c.begun)
		}
		return Result{Cause: c.last.cause}
	case c.lacks || c.asked == 0 && j.from.Network.takesNone(&j.Request, j.account, now):
		return j.split(time.Now().UnixNano())
	}
	return j.unreached(c.last)
}

// tryBatch is Try for a whole batch.
func (a *asking) tryBatch(u *Node) (v policy.Verdict) {
	j := a.j
	a.asked++
	r := j.askBatch(j.main, u, a.q)
	a.note(u, r, j.Class())
	switch r.kind {
	case refused, unbatched:
		// Whether the batch or one of its calls was refused shows when the calls are sent
		// one by one.
		if a.lacks = true; u.Config.Batch == "auto" {
			u.single.met(j.account, time.Now().UnixNano())
		}
		return a.then(v)
	case failed:
		a.over = r.maybe && j.Class() == Write
	case answered, gone:
		a.over = true
	}
	return a.then(u.verdict(r))
}

// takesNone says that no node would take the batch even if all were well.
func (n *Network) takesNone(r *Request, account uint64, now int64) bool {
	for _, u := range n.Nodes {
		if u.servesAll(r, account, now) && u.batches(len(r.Calls), account, now) {
			return false
		}
	}
	return true
}

// askBatch asks a node a whole batch and reads the answer to its end.
func (j *Job) askBatch(a *attempt, u *Node, q question) reply {
	r, ok := a.open(&j.from, u, q)
	if !ok {
		return r
	}
	status := a.x.Status()
	n := j.from.Network
	a.spool = spool{mem: a.buf[:0], most: n.batchMemory, room: n.room, owner: j.from.Owner}
	most := n.batchMost
	if status >= 300 {
		most = maxRefusal
	}
	cause := a.readAll(most, false)
	if cause == proxy.None && a.strays() && status < 300 {
		return a.stray()
	}
	if cause == proxy.None {
		cause, _ = a.x.Finish()
	}
	if cause != proxy.None {
		return a.broken(cause)
	}
	if a.judge.Complete() && a.judge.Array && status < 300 && !j.wholeRefusal(a) {
		return r
	}
	return j.batchRefusal(a, r, status)
}

// readAll reads an answer to its end into the spool, and judges it; the caller must call
// Finish. strict ends it as soon as it cannot be good any more.
func (a *attempt) readAll(most int64, strict bool) proxy.Cause {
	for {
		p, done := a.x.Piece()
		a.judge.Write(p)
		if a.spool.size+int64(len(p)) > most || strict && a.judge.Broken() {
			a.x.Close()
			return proxy.UpstreamMalformed
		}
		if a.spool.write(p) != nil {
			a.x.Close()
			return proxy.NoFreeConn // no room here; the node is not at fault
		}
		if done {
			break
		}
	}
	a.buf = a.spool.mem
	return proxy.None
}

// strays says that all answers read so far are for other calls. If any is ours, it counts;
// but no later answer on such a connection is used.
func (a *attempt) strays() bool {
	if !a.judge.Complete() {
		return false
	}
	ours, others := 0, 0
	for at := range a.judge.Answers {
		switch {
		case a.callOf(at) >= 0:
			ours++
			continue
		case !a.nameless(at):
			others++
		}
		a.x.Distrust()
	}
	return others > 0 && ours == 0 && (a.judge.Array || len(a.patches) == 1 || !a.judge.Answers[0].Failed())
}

// wholeRefusal says that the array has one error for all calls together.
func (j *Job) wholeRefusal(a *attempt) bool {
	return len(a.judge.Answers) == 1 && len(j.Calls) > 1 && a.judge.Answers[0].Failed() && a.callOf(0) < 0
}

// batchRefusal classifies an answer that is not an array of answers.
func (j *Job) batchRefusal(a *attempt, r reply, status int) reply {
	if a.judge.Complete() && len(a.judge.Answers) == 1 {
		if !a.judge.Answers[0].Failed() || len(j.Calls) == 1 && status < 300 {
			if len(j.Calls) == 1 { // unwrapped
				return r
			}
			return reply{kind: failed, cause: proxy.UpstreamMalformed, maybe: true}
		}
		if Classify(a.node.of.Family, nil, a.judge.Error(0)) == Busy {
			r.kind = busy
		} else {
			r.kind = unbatched
		}
		return r
	}
	switch {
	case status >= 400 && (status == 413 || statusMeaning(status) == Final):
		r.kind = unbatched
	case status >= 400 && status < 500 || status == 503:
		r.kind = busy
	default:
		return reply{kind: failed, cause: proxy.UpstreamMalformed, maybe: true, retryAfter: r.retryAfter}
	}
	return r
}

// assemble makes the client's answer of a node's array: unchanged if it is complete and in
// order, and else put together by the calls' ids. Calls that the node was too busy for, or
// does not know, are asked elsewhere.
func (j *Job) assemble(u *Node, now int64) Result {
	a := j.main
	place := j.match(a)
	asIs := a.judge.Array && len(a.judge.Answers) == len(j.Calls)
	var again []int
	var perhaps []sent      // transactions that the chain may have
	own := map[int][]byte{} // answers of ours
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
		m := j.Calls[i].Method
		switch said := Classify(u.of.Family, m, a.judge.Error(at)); said {
		case Known, Spent:
			if hash := j.sentHash(i); hash != nil {
				perhaps = append(perhaps, sent{call: i, hash: hash, there: said == Known})
			}
		case Busy:
			u.busy.Add(1)
			j.Verdicts[i] = Unanswered
			again = append(again, i)
		case Lacking:
			if names(a.judge.Error(at), m) {
				u.lacks[m.Index].met(j.account, now)
			}
			again = append(again, i)
		case Behind:
			again = append(again, i)
		}
	}
	j.lookUp(perhaps, u)
	for _, s := range perhaps {
		if s.there {
			j.Verdicts[s.call] = Succeeded
			own[s.call] = appendResult(nil, j.ID(s.call), s.hash)
		}
	}
	j.noteWrite(u)
	if asIs && len(again)+len(own) == 0 {
		if a.spool.inMemory() {
			return Result{Body: j.finish()}
		}
		return j.compose(j.renamed(a), nil)
	}
	parts := make([]part, len(j.Calls))
	defer closeParts(parts)
	if r := j.elsewhere(again, place, parts, u, now); r.Cause.Final() {
		return r
	}
	list := pieces{{text: []byte{'['}}}
	for i, at := range place {
		if i > 0 {
			list = append(list, piece{text: comma})
		}
		switch {
		case own[i] != nil:
			list = append(list, piece{text: own[i]})
		case parts[i].done:
			list = list.answer(&parts[i].spool, &parts[i].answer, j.ID(i))
		case at >= 0:
			list = list.answer(&a.spool, &a.judge.Answers[at], j.ID(i))
		default:
			list = append(list, piece{text: appendError(nil, j.ID(i), codeUnanswered, textUnanswered)})
		}
	}
	return j.compose(append(list, piece{text: []byte{']'}}), parts)
}

var comma = []byte{','}

// renamed is a node's array, with an answer to each call in order, under the clients' ids.
func (j *Job) renamed(a *attempt) (list pieces) {
	from := int64(0)
	for i := range a.judge.Answers {
		n := &a.judge.Answers[i]
		list = append(list, piece{spool: &a.spool, from: from, to: n.IDFrom}, piece{text: j.ID(i)})
		from = n.IDTo
	}
	return append(list, piece{spool: &a.spool, from: from, to: a.spool.size})
}

// part is the answer of a call that was asked alone.
type part struct {
	done   bool
	answer Answer
	spool  spool
}

func closeParts(parts []part) {
	for i := range parts {
		parts[i].spool.close()
	}
}

// compose makes a result of pieces: a body when all of them are in memory, else
// a stream that takes their files over.
func (j *Job) compose(list pieces, parts []part) Result {
	if list.inMemory() {
		j.out = list.appendTo(j.out[:0])
		return Result{Body: j.out}
	}
	s := &Stream{Size: list.size(), list: list, client: j.from.Ctx.Conn()}
	// The memory that the pieces point into must live as long as the stream.
	kept := make([]spool, 1+len(parts))
	moved := map[*spool]*spool{&j.main.spool: &kept[0]}
	kept[0], j.main.spool, j.main.buf = j.main.spool, spool{}, nil
	for i := range parts {
		moved[&parts[i].spool] = &kept[1+i]
		kept[1+i], parts[i].spool = parts[i].spool, spool{}
	}
	for i := range list {
		if p := &list[i]; p.spool != nil {
			p.spool = moved[p.spool]
		} else {
			p.text = slices.Clone(p.text) // an id is in the request's body
		}
	}
	for i := range kept {
		s.spools = append(s.spools, &kept[i])
	}
	return Result{Stream: s}
}

const (
	codeUnanswered = -32603
	textUnanswered = "no answer from upstream"
)

// match finds the answer for each call, -1 for those without: the first one
// when a node answers twice.
func (j *Job) match(a *attempt) []int {
	j.place = slices.Grow(j.place[:0], len(j.Calls))[:len(j.Calls)]
	place := j.place
	for i := range place {
		place[i] = -1
	}
	if !a.judge.Array { // unwrapped
		place[0] = 0
		return place
	}
	for at := range a.judge.Answers {
		if i := a.callOf(at); i >= 0 && place[i] < 0 {
			place[i] = at
		}
	}
	return place
}

// noteWrite pins the account to a node that took a transaction of its batch.
func (j *Job) noteWrite(u *Node) {
	for i := range j.Calls {
		if j.Calls[i].Method.Class == Write && j.Verdicts[i] == Succeeded {
			j.pin(u)
			return
		}
	}
}
