package billing

import (
	"errors"
	"slices"
	"time"

	"farebox/billing/store"
)

// A recall asks the other nodes for an account's money that they do not need. Each of
// them gives back its free money and answers in the same transaction. A
// request is refused, or gets less, when all have answered, and not after a time:
// only then is it known that the money is spent or held.

const (
	// recallApart is the time between two recalls of an account by one node. It
	// doubles up to recallMost while they bring nothing.
	recallApart = 100 * time.Millisecond
	recallMost  = 500 * time.Millisecond
	// contendedFor is how long an account counts as contended after a recall: no
	// node has more of it than it needs.
	contendedFor = 2 * time.Second
)

// recalls is a lease's state of them.
type recalls struct {
	next    *recall // is sent as soon as it is due
	sent    *recall // the last one
	apart   time.Duration
	calling bool // in the node's queue for next

	asked []uint64 // by other nodes; the next return answers them
	until int64    // of the monotonic clock: the account is contended
}

// recall is one question to other nodes and its state. The account's mutex guards it.
type recall struct {
	store.Recall // No is 0 while it is not sent
	sentNs       int64
	done         bool // all asked nodes have answered, have no lease any more, or no session
	more         bool // a node that was not asked has a lease
	found        bool // it helped a request
}

// contended says whether nodes are short of the account.
func (s *lease) contended() bool { return s.recalls.until != 0 && s.node.t.mono() < s.recalls.until }

// freed gives back at once the unused rest of a hold of a contended account.
func (s *lease) freed(a *AccountState) {
	if s.contended() {
		s.give(a, giveAll)
	}
}

// recalled gives back the money free here of an account that another node is
// short of. Requests that wait here for the same money do not keep it: too
// little on each of two nodes would help neither; together it goes to the first
// that asks.
func (n *node) recalled(c *store.Change) {
	a := n.l.loaded(c.Account)
	if a == nil || c.Key == int64(n.no) {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.lease
	s.recalls.asked = append(s.recalls.asked, c.No)
	s.recalls.until = n.t.mono() + int64(contendedFor)
	s.give(a, giveAll)
}

// recall joins the next recall of an account. The money from a recall that is sent already
// may be older than the request.
func (a *AccountState) recall() *recall {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.lease
	if s.recalls.next == nil {
		s.recalls.next = &recall{}
	}
	return s.recalls.next
}

// due says whether the next recall may be sent: one at a time, and no more often
// than is of use.
func (s *recalls) due(now int64, most time.Duration) bool {
	if s.next == nil || s.sent == nil {
		return s.next != nil
	}
	passed := now - s.sent.sentNs
	return passed >= int64(s.apart) && (s.sent.done || passed >= int64(most))
}

// takeNext takes the recall that is sent now.
func (s *recalls) takeNext(now int64) *recall {
	if s.sent != nil && !s.sent.found {
		s.apart = min(2*s.apart, recallMost)
	} else {
		s.apart = recallApart
	}
	s.sent, s.next = s.next, nil
	s.sent.sentNs, s.until = now, now+int64(contendedFor)
	return s.sent
}

// recallAll sends the recalls that are due. The others stay with the requests
// that wait for them.
func (q *leaseQueue) recallAll() bool {
	now := q.n.t.mono()
	var owners []*AccountState
	var list []*recall
	var accounts []uint32
	for _, a := range q.take(&q.calling) {
		a.mu.Lock()
		s := &a.lease.recalls
		s.calling = false
		if s.due(now, q.n.t.recall) {
			owners, list, accounts = append(owners, a), append(list, s.takeNext(now)), append(accounts, a.no)
		}
		a.mu.Unlock()
	}
	if len(list) == 0 {
		return true
	}
	sent, err := q.n.store.Recall(q.n.no, accounts...)
	q.n.heard(err)
	for i, r := range list {
		owners[i].mu.Lock()
		if err != nil {
			r.done, r.more = true, true // it may not have been sent
		} else {
			r.Recall = sent[i]
			r.done = len(r.Nodes) == 0
		}
		owners[i].mu.Unlock()
	}
	return err == nil || errors.Is(err, store.ErrFenced)
}

// readAnswers reads from the store which nodes have answered recalls.
func (q *leaseQueue) readAnswers(open []*recall, byNo map[uint32]*AccountState) bool {
	if len(open) == 0 {
		return true
	}
	list := make([]store.Recall, len(open))
	for i, r := range open {
		list[i] = r.Recall
	}
	found, err := q.n.store.Recalled(list)
	q.n.heard(err)
	if err != nil {
		return errors.Is(err, store.ErrFenced)
	}
	for i, r := range open {
		a := byNo[r.Account]
		a.mu.Lock()
		r.heard(&found[i])
		a.mu.Unlock()
	}
	return true
}

// heard judges an answer of the store. A node that had no lease when the others
// were asked may not know of it.
func (r *recall) heard(f *store.Recalled) {
	r.done, r.more = true, false
	for _, number := range f.Nodes {
		switch {
		case !slices.Contains(r.Nodes, number):
			r.more = true
		case !slices.Contains(f.Answered, number):
			r.done = false
		}
	}
}

// over says whether a recall is done, and whether one more may bring more.
func (a *AccountState) over(r *recall) (done, more bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return r.done, r.more
}

// helped notes that a request found enough money with r.
func (a *AccountState) helped(r *recall) {
	if r != nil {
		a.mu.Lock()
		r.found = true
		a.mu.Unlock()
	}
}

// awaitRecall waits until r has brought something for a hold of want, until it is
// done, or until end. false: the store did not answer.
func (n *node) awaitRecall(k *Key, want Nano, r *recall, end int64) (answered bool) {
	a := k.Account
	for first := true; ; first = false {
		if !n.await(func() {
			n.queue.queueVisit(a)
			if a.lease.recalls.next == r {
				n.queue.call(a)
			}
		}, a) {
			return false
		}
		if done, _ := a.over(r); done || n.t.mono() >= end || !first && a.sources(k, want).left {
			return true
		}
		n.sleep(lookApart)
	}
}
