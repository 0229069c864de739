package billing

import (
	"errors"
	"slices"
	"sync"
	"time"

	"farebox/billing/store"
)

// desk carries out a node's lease operations, one after the other: requests
// that wait at the same time share one Grant, and what several accounts do not
// need goes back in one Return. An operation whose outcome is not known is
// repeated under its number until it is; nothing else happens meanwhile.
type desk struct {
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
	active  []*AccountState // admitted something of late
	round   *round          // that will try what is queued now
	bell    chan struct{}
}

// round is one step of the desk, for those who wait for it.
type round struct {
	tried    chan struct{} // closed at its end
	answered bool          // by the store; written before that
}

// operation is a Grant or a Return whose outcome is not known yet.
type operation struct {
	no     uint64
	give   bool
	wants  []store.Want
	owners []*AccountState // of wants
	tried  bool            // and without an answer
}

const (
	// deskBatch bounds one operation.
	deskBatch = 1024
	// deskAgain is how long the desk waits after the store did not answer.
	deskAgain = 50 * time.Millisecond
)

func (d *desk) init(n *node) {
	d.n, d.round, d.bell = n, newRound(), make(chan struct{}, 1)
}

func newRound() *round { return &round{tried: make(chan struct{})} }

// ask, give, look and list queue an account; the caller holds its mutex.
func (d *desk) ask(a *AccountState)  { d.queue(&d.asking, a, &a.lease.asking) }
func (d *desk) give(a *AccountState) { d.queue(&d.giving, a, &a.lease.giving) }
func (d *desk) look(a *AccountState) { d.queue(&d.looking, a, &a.lease.looking) }

func (d *desk) list(a *AccountState) {
	d.mu.Lock()
	d.active = append(d.active, a)
	d.mu.Unlock()
}

func (d *desk) queue(q *[]*AccountState, a *AccountState, queued *bool) {
	if *queued {
		return
	}
	*queued = true
	d.mu.Lock()
	*q = append(*q, a)
	d.mu.Unlock()
	d.knock()
}

func (d *desk) knock() {
	select {
	case d.bell <- struct{}{}:
	default:
	}
}

func (d *desk) run() {
	for {
		select {
		case <-d.n.stop:
			return
		case <-d.bell:
		}
		for !d.step() {
			select {
			case <-d.n.stop:
				return
			case <-time.After(deskAgain):
			}
		}
	}
}

// step does what is queued. false: the store did not answer and there is more.
func (d *desk) step() (answered bool) {
	d.ops.Lock()
	defer d.ops.Unlock()
	d.mu.Lock()
	round := d.round
	d.round = newRound()
	d.mu.Unlock()
	defer func() {
		round.answered = answered
		close(round.tried)
	}()
	if d.n.state.Load() == nodeFenced {
		return true
	}
	if !d.finish() {
		return false
	}
	if d.n.state.Load() == nodeSuspended {
		return d.n.recount()
	}
	// What others wait for goes first.
	return d.lookAll() && d.giveAll() && d.askAll()
}

// takeQueue empties a queue, or the first of it.
func (d *desk) takeQueue(q *[]*AccountState) []*AccountState {
	d.mu.Lock()
	defer d.mu.Unlock()
	some := *q
	if len(some) > deskBatch {
		some, *q = slices.Clone(some[:deskBatch]), some[deskBatch:]
		d.knock()
		return some
	}
	*q = nil
	return some
}

func (d *desk) giveAll() bool {
	o := &operation{give: true}
	for _, a := range d.takeQueue(&d.giving) {
		a.mu.Lock()
		a.roll(d.n.day.Load())
		a.lease.giving = false
		o.wants = a.lease.gives(a, o.wants)
		a.mu.Unlock()
		o.own(a)
	}
	return d.begin(o)
}

func (d *desk) askAll() bool {
	o := &operation{}
	for _, a := range d.takeQueue(&d.asking) {
		a.mu.Lock()
		a.roll(d.n.day.Load())
		a.lease.asking = false
		o.wants = a.lease.wants(a, o.wants)
		a.mu.Unlock()
		o.own(a)
	}
	return d.begin(o)
}

func (o *operation) own(a *AccountState) {
	for len(o.owners) < len(o.wants) {
		o.owners = append(o.owners, a)
	}
}

func (d *desk) begin(o *operation) bool {
	if len(o.wants) == 0 {
		return true
	}
	d.op++
	o.no = d.op
	d.pending = o
	return d.finish()
}

// finish brings the pending operation to its end.
func (d *desk) finish() bool {
	o := d.pending
	if o == nil {
		return true
	}
	do := d.n.store.Grant
	if o.give {
		do = d.n.store.Return
	}
	list, err := do(o.no, o.wants)
	d.n.heard(err)
	if errors.Is(err, store.ErrReclaimed) {
		_, _ = d.n.beat() // it says the same, and lets the node go on
		return false
	}
	if err != nil {
		o.tried = true
		return errors.Is(err, store.ErrFenced)
	}
	d.pending = nil
	for i := range list {
		a, w, f := o.owners[i], &o.wants[i], &list[i]
		a.mu.Lock()
		if o.tried {
			d.look(a) // it may have been carried out the first time: the answer is as old
		}
		if o.give {
			a.lease.know(a, f)
		} else {
			a.lease.granted(a, w, f)
		}
		if a.owes() {
			a.pay(d.n.l.at())
		}
		a.mu.Unlock()
	}
	return true
}

func (d *desk) lookAll() bool {
	list := d.takeQueue(&d.looking)
	if len(list) == 0 {
		return true
	}
	byNo := make(map[uint32]*AccountState, len(list))
	accounts := make([]uint32, len(list))
	for i, a := range list {
		accounts[i], byNo[a.no] = a.no, a
		a.mu.Lock()
		a.lease.looking = false
		a.mu.Unlock()
	}
	found, err := d.n.store.Funds(accounts, d.n.day.Load())
	d.n.heard(err)
	if err != nil {
		return errors.Is(err, store.ErrFenced)
	}
	for i := range found {
		f := &found[i]
		a := byNo[f.Account]
		if a == nil || f.Key == 0 && f.Day != d.n.day.Load() {
			continue // DIEM of a day that is over
		}
		a.mu.Lock()
		a.roll(d.n.day.Load())
		a.lease.know(a, f)
		if a.owes() {
			a.pay(d.n.l.at())
		}
		a.mu.Unlock()
	}
	return true
}

// keep visits the leases that are in use.
func (n *node) keep() {
	d := &n.desk
	d.mu.Lock()
	list := d.active
	d.active = nil
	d.mu.Unlock()
	now := n.t.mono()
	stay := list[:0]
	for _, a := range list {
		a.mu.Lock()
		a.roll(n.day.Load())
		idle := a.lease.look(a, now)
		a.lease.listed = !idle
		a.mu.Unlock()
		if !idle {
			stay = append(stay, a)
		}
	}
	d.mu.Lock()
	d.active = append(d.active, stay...)
	d.mu.Unlock()
}
