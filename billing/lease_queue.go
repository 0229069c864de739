package billing

import (
	"errors"
	"slices"
	"sync"
	"time"

	"farebox/billing/store"
)

// leaseQueue carries out a node's lease operations, one after the other: requests
// that wait at the same time share one Grant, and money that several accounts do not
// need goes back in one Return. An operation whose outcome is not known is
// repeated under its number until it is; nothing else happens meanwhile.
type leaseQueue struct {
	n *node

	// ops is held from before amounts leave or enter the accounts until the
	// store and they agree again. It comes before registry.mu and the
	// accounts' mutexes.
	ops     sync.Mutex
	op      uint64
	pending *operation

	mu      sync.Mutex // comes after the accounts' mutexes
	asking  []*AccountState
	giving  []*AccountState
	looking []*AccountState
	calling []*AccountState
	active  []*AccountState // admitted something recently
	round   *round          // that will try the accounts queued now
	woken   chan struct{}
}

// round is one step of the queue, for the requests that wait for it.
type round struct {
	tried    chan struct{} // closed at its end
	answered bool          // by the store; written before that
}

// operation is a Grant or a Return whose outcome is not known yet.
type operation struct {
	no      uint64
	give    bool
	wants   []store.Want
	owners  []*AccountState // of wants
	recalls []uint64        // that it answers
	tried   bool            // and without an answer
	// applied is the last record in the store before its first question.
	applied uint64
}

const (
	// opBatch bounds one operation.
	opBatch = 1024
	// opAgain is how long the queue waits after the store did not answer.
	opAgain = 50 * time.Millisecond
)

func (q *leaseQueue) init(n *node) {
	q.n, q.round, q.woken = n, newRound(), make(chan struct{}, 1)
}

func newRound() *round { return &round{tried: make(chan struct{})} }

// ask, give, look, call and list queue an account; the caller holds its mutex.
func (q *leaseQueue) queueRequest(a *AccountState) { q.add(&q.asking, a, &a.lease.asking) }
func (q *leaseQueue) give(a *AccountState)         { q.add(&q.giving, a, &a.lease.giving) }
func (q *leaseQueue) queueVisit(a *AccountState)   { q.add(&q.looking, a, &a.lease.looking) }
func (q *leaseQueue) call(a *AccountState)         { q.add(&q.calling, a, &a.lease.recalls.calling) }

func (q *leaseQueue) list(a *AccountState) {
	q.mu.Lock()
	q.active = append(q.active, a)
	q.mu.Unlock()
}

func (q *leaseQueue) add(list *[]*AccountState, a *AccountState, queued *bool) {
	if *queued {
		return
	}
	*queued = true
	q.mu.Lock()
	*list = append(*list, a)
	q.mu.Unlock()
	q.wake()
}

func (q *leaseQueue) wake() {
	select {
	case q.woken <- struct{}{}:
	default:
	}
}

func (q *leaseQueue) run() {
	for {
		select {
		case <-q.n.work.Closing():
			return
		case <-q.woken:
		}
		for !q.step() {
			if !q.n.work.Sleep(opAgain) {
				return
			}
		}
	}
}

// step does the queued work. false: the store did not answer and there is more.
func (q *leaseQueue) step() (answered bool) {
	q.ops.Lock()
	defer q.ops.Unlock()
	q.mu.Lock()
	round := q.round
	q.round = newRound()
	q.mu.Unlock()
	defer func() {
		round.answered = answered
		close(round.tried)
	}()
	if q.n.state.Load() == nodeFenced {
		return true
	}
	if !q.finish() {
		return false
	}
	if q.n.state.Load() == nodeSuspended {
		return q.n.recount()
	}
	// Money that other nodes wait for goes first.
	return q.lookAll() && q.giveAll() && q.recallAll() && q.askAll()
}

// take empties a list of queued accounts, or takes its first.
func (q *leaseQueue) take(list *[]*AccountState) []*AccountState {
	q.mu.Lock()
	defer q.mu.Unlock()
	some := *list
	if len(some) > opBatch {
		some, *list = slices.Clone(some[:opBatch]), some[opBatch:]
		q.wake()
		return some
	}
	*list = nil
	return some
}

func (q *leaseQueue) giveAll() bool {
	o := &operation{give: true}
	return q.sweep(o, &q.giving, func(a *AccountState) {
		a.lease.giving = false
		o.wants = a.lease.gives(a, o.wants)
		o.recalls, a.lease.recalls.asked = append(o.recalls, a.lease.recalls.asked...), nil
	})
}

func (q *leaseQueue) askAll() bool {
	o := &operation{}
	return q.sweep(o, &q.asking, func(a *AccountState) {
		a.lease.asking = false
		o.wants = a.lease.wants(a, o.wants)
	})
}

// sweep begins an operation for the accounts of a list; collect adds the wants
// of one account, under its lock.
func (q *leaseQueue) sweep(o *operation, list *[]*AccountState, collect func(*AccountState)) bool {
	for _, a := range q.take(list) {
		a.mu.Lock()
		a.roll(q.n.day.Load())
		collect(a)
		a.mu.Unlock()
		o.takeAccount(a)
	}
	return q.begin(o)
}

func (o *operation) takeAccount(a *AccountState) {
	for len(o.owners) < len(o.wants) {
		o.owners = append(o.owners, a)
	}
}

func (q *leaseQueue) begin(o *operation) bool {
	if len(o.wants) == 0 && len(o.recalls) == 0 {
		return true
	}
	q.op++
	o.no, o.applied = q.op, q.n.applied()
	q.pending = o
	return q.finish()
}

// finish brings the pending operation to its end.
func (q *leaseQueue) finish() bool {
	o := q.pending
	if o == nil {
		return true
	}
	var list []store.Funds
	var err error
	if o.give {
		list, err = q.n.store.Return(o.no, o.wants, o.recalls...)
	} else {
		list, err = q.n.store.Grant(o.no, o.wants)
	}
	q.n.heard(err)
	if errors.Is(err, store.ErrReclaimed) {
		_, _ = q.n.beat() // it says the same, and allows the node to go on
		return false
	}
	if err != nil {
		o.tried = true
		return errors.Is(err, store.ErrFenced)
	}
	q.pending = nil
	for i := range list {
		a, w, f := o.owners[i], &o.wants[i], &list[i]
		a.mu.Lock()
		if o.tried {
			q.queueVisit(a) // it may have been carried out the first time: the answer is as old
		}
		if o.give {
			a.lease.know(a, f, o.applied)
		} else {
			a.lease.granted(a, w, f, o.applied)
		}
		if a.owes() {
			a.pay(q.n.l.at())
		}
		a.mu.Unlock()
	}
	return true
}

func (q *leaseQueue) lookAll() bool {
	list := q.take(&q.looking)
	if len(list) == 0 {
		return true
	}
	byNo := make(map[uint32]*AccountState, len(list))
	accounts := make([]uint32, len(list))
	var open []*recall
	for i, a := range list {
		accounts[i], byNo[a.no] = a.no, a
		a.mu.Lock()
		a.lease.looking = false
		if r := a.lease.recalls.sent; r != nil && r.No != 0 && !r.done {
			open = append(open, r)
		}
		a.mu.Unlock()
	}
	if !q.readAnswers(open, byNo) {
		return false
	}
	applied := q.n.applied()
	found, err := q.n.store.Funds(accounts, q.n.day.Load())
	q.n.heard(err)
	if err != nil {
		return errors.Is(err, store.ErrFenced)
	}
	for i := range found {
		f := &found[i]
		a := byNo[f.Account]
		if a == nil || f.Key == 0 && f.Day != q.n.day.Load() {
			continue // DIEM of a past day
		}
		a.mu.Lock()
		a.roll(q.n.day.Load())
		a.lease.know(a, f, applied)
		if a.owes() {
			a.pay(q.n.l.at())
		}
		a.mu.Unlock()
	}
	return true
}

// keep visits the leases that are in use.
func (n *node) keep() {
	q := &n.queue
	q.mu.Lock()
	list := q.active
	q.active = nil
	q.mu.Unlock()
	now := n.t.mono()
	stay := list[:0]
	for _, a := range list {
		a.mu.Lock()
		a.roll(n.day.Load())
		idle := a.lease.maintain(a, now)
		a.lease.listed = !idle
		a.mu.Unlock()
		if !idle {
			stay = append(stay, a)
		}
	}
	q.mu.Lock()
	q.active = append(q.active, stay...)
	q.mu.Unlock()
}
