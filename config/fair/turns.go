package fair

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// ErrFull says that the queue has no place for this owner.
var ErrFull = errors.New("too much work is waiting already")

// Turns hands out a number of places. A free place goes to the waiting owner that
// holds the fewest; among equals, to the one that had the least work of late. Alone,
// an owner may hold all places. Work that has a place is never interrupted.
//
// When the queue is full, the owner that waits with the most pieces loses its newest
// one to an owner that waits with fewer. Safe for concurrent use.
type Turns struct {
	mu      sync.Mutex
	places  int
	queue   int
	taken   int
	waiting int
	arrived uint64           // number of the last waiter
	clock   time.Duration    // work of the share that was served last; new shares start here
	shares  map[uint64]*turn // by account; only those with a place or a waiter
}

// turn counts the held and waiting units of one owner. The share of all unpaid callers has parts
// by address, and no line of its own.
type turn struct {
	held    int
	waiting int
	worked  time.Duration // on the clock of Turns
	line    []*waiter
	parts   map[uint64]*turn
}

type waiter struct {
	number uint64
	owner  Owner
	ready  chan struct{} // closed when a place or a refusal is there
	lost   bool          // another owner took its place in the queue
}

// NewTurns makes Turns with a number of places, at least 1, and how many may wait.
func NewTurns(places, queue int) *Turns {
	return &Turns{places: max(1, places), queue: max(0, queue), shares: map[uint64]*turn{}}
}

// Place is a place that was taken. Its Done gives it back, exactly once.
type Place struct {
	turns *Turns
	owner Owner
	began time.Time
}

// Take waits for a place until ctx ends. The limits of [WithLimit] do not run
// meanwhile. The error is ErrFull or ctx's.
func (t *Turns) Take(ctx context.Context, o Owner) (Place, error) {
	if err := ctx.Err(); err != nil {
		return Place{}, err
	}
	t.mu.Lock()
	if t.taken < t.places && t.waiting == 0 {
		p := t.give(o)
		t.mu.Unlock()
		return p, nil
	}
	if t.waiting >= t.queue && !t.displace(o) {
		t.mu.Unlock()
		return Place{}, ErrFull
	}
	t.arrived++
	w := &waiter{number: t.arrived, owner: o, ready: make(chan struct{})}
	share, part := t.shareOf(o)
	share.waiting++
	if part != share {
		part.waiting++
	}
	part.line = append(part.line, w)
	t.waiting++
	t.mu.Unlock()
	defer waits(ctx)()
	select {
	case <-w.ready:
	case <-ctx.Done():
		t.mu.Lock()
		part := t.part(o)
		if part != nil {
			if i := slices.Index(part.line, w); i >= 0 {
				t.drop(o, i)
				t.mu.Unlock()
				return Place{}, ctx.Err()
			}
		}
		t.mu.Unlock() // it was answered at the same moment
	}
	if w.lost {
		return Place{}, ErrFull
	}
	return Place{turns: t, owner: o, began: time.Now()}, nil
}

// Try takes a place if one is free and nobody waits.
func (t *Turns) Try(o Owner) (p Place, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.taken >= t.places || t.waiting > 0 {
		return Place{}, false
	}
	return t.give(o), true
}

// Done gives the place back and hands it on.
func (p Place) Done() {
	t := p.turns
	t.mu.Lock()
	defer t.mu.Unlock()
	share, part := t.shareOf(p.owner)
	took := time.Since(p.began)
	t.taken--
	share.held--
	share.worked += took
	if part != share {
		part.held--
		part.worked += took
	}
	t.forget(p.owner)
	t.handOn()
}

// Waiting is how many pieces of work wait or have a place.
func (t *Turns) Waiting() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.waiting + t.taken
}

// Resize changes the number of places. Work that has one keeps it.
func (t *Turns) Resize(places int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.places = max(1, places)
	t.handOn()
}

func (t *Turns) handOn() {
	for t.taken < t.places && t.waiting > 0 {
		w := t.next()
		t.give(w.owner)
		close(w.ready)
	}
}

// give counts a place; the caller has mu.
func (t *Turns) give(o Owner) Place {
	share, part := t.shareOf(o)
	t.taken++
	share.held++
	if part != share {
		part.held++
	}
	return Place{turns: t, owner: o, began: time.Now()}
}

// shareOf finds the share of an owner and its part by address, which is the share itself
// for a paid account. Both are made where they are missing.
func (t *Turns) shareOf(o Owner) (share, part *turn) {
	share = t.shares[o.Account]
	if share == nil {
		share = &turn{worked: t.clock}
		t.shares[o.Account] = share
	}
	if o.Account != 0 {
		return share, share
	}
	if share.parts == nil {
		share.parts = map[uint64]*turn{}
	}
	part = share.parts[o.Net]
	if part == nil {
		part = &turn{worked: share.leastWorked()}
		share.parts[o.Net] = part
	}
	return share, part
}

// leastWorked is where a new part starts: level with the one that is served next.
func (t *turn) leastWorked() (least time.Duration) {
	first := true
	for _, p := range t.parts {
		if first || p.worked < least {
			least, first = p.worked, false
		}
	}
	return least
}

// part finds the line of an owner; nil where it has neither places nor waiters.
func (t *Turns) part(o Owner) *turn {
	share := t.shares[o.Account]
	if share == nil || o.Account != 0 {
		return share
	}
	return share.parts[o.Net]
}

// forget forgets shares without places and waiters.
func (t *Turns) forget(o Owner) {
	share := t.shares[o.Account]
	if o.Account == 0 {
		if p := share.parts[o.Net]; p.held == 0 && p.waiting == 0 {
			delete(share.parts, o.Net)
		}
	}
	if share.held == 0 && share.waiting == 0 {
		delete(t.shares, o.Account)
	}
}

// next takes the waiter whose turn it is out of the queue, and counts it as served.
func (t *Turns) next() *waiter {
	share := choose(t.shares)
	t.clock = max(t.clock, share.worked)
	part := share
	if share.parts != nil {
		part = choose(share.parts)
	}
	w := part.line[0]
	// The share stays, since give follows.
	part.line = slices.Delete(part.line, 0, 1)
	t.count(share, part, -1)
	return w
}

func (t *Turns) count(share, part *turn, n int) {
	t.waiting += n
	share.waiting += n
	if part != share {
		part.waiting += n
	}
}

// choose finds the share that is served next: it holds least, then it worked least, then
// it has waited longest.
func choose(of map[uint64]*turn) (best *turn) {
	for _, s := range of {
		if s.waiting == 0 {
			continue
		}
		if best == nil || s.held < best.held || s.held == best.held && (s.worked < best.worked ||
			s.worked == best.worked && s.oldest() < best.oldest()) {
			best = s
		}
	}
	return best
}

// oldest is the number of its first waiter.
func (t *turn) oldest() uint64 {
	if t.parts == nil {
		return t.line[0].number
	}
	least := ^uint64(0)
	for _, p := range t.parts {
		if len(p.line) > 0 {
			least = min(least, p.line[0].number)
		}
	}
	return least
}

// displace makes room in a full queue for an owner that waits with fewer pieces than
// another. The newest piece of the owner that waits with the most is refused.
func (t *Turns) displace(o Owner) bool {
	own := 0
	if share := t.shares[o.Account]; share != nil {
		own = share.waiting
	}
	account, most := largest(t.shares)
	switch {
	case most == nil:
		return false
	case account == o.Account && account == 0:
		// Unpaid callers compete with each other by address.
		if p := most.parts[o.Net]; p != nil {
			own = p.waiting
		} else {
			own = 0
		}
	case account == o.Account || most.waiting <= own+1:
		return false
	}
	loser := Owner{Account: account}
	part := most
	if most.parts != nil {
		loser.Net, part = largest(most.parts)
		if account == o.Account && part.waiting <= own+1 {
			return false
		}
	}
	w := part.line[len(part.line)-1]
	w.lost = true
	t.drop(loser, len(part.line)-1)
	close(w.ready)
	return true
}

// largest finds the share with the most waiters. Among equals the lowest number counts, so
// that the choice does not depend on the order of a map.
func largest(of map[uint64]*turn) (key uint64, most *turn) {
	for k, s := range of {
		if s.waiting > 0 && (most == nil || s.waiting > most.waiting || s.waiting == most.waiting && k < key) {
			key, most = k, s
		}
	}
	return key, most
}

// drop takes waiter i out of the line of an owner.
func (t *Turns) drop(o Owner, i int) {
	share, part := t.shareOf(o)
	part.line = slices.Delete(part.line, i, i+1)
	t.count(share, part, -1)
	t.forget(o)
}
