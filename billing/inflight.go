package billing

import (
	"context"
	"slices"
	"sync"
)

// inFlight bounds how many requests of an account are under way at the same time
// on this node (addendum 13, Concurrency). The zero value is ready. x/sync/semaphore and
// fair.Turns have one size from their beginning; a reload changes the size of this one.
type inFlight struct {
	mu       sync.Mutex
	accounts map[*AccountState]*semaphore // those with a slot taken
}

type semaphore struct {
	taken int
	queue []chan struct{} // requests that wait, the first first
}

// TryAcquire takes one of most slots of an account if one is free. True: the
// caller must give it back with Release.
func (l *Ledger) TryAcquire(a *AccountState, most int) bool {
	t := &l.inFlight
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.take(a, most)
}

// Acquire is TryAcquire that waits in a queue until ctx ends.
func (l *Ledger) Acquire(ctx context.Context, a *AccountState, most int) bool {
	t := &l.inFlight
	t.mu.Lock()
	if t.take(a, most) {
		t.mu.Unlock()
		return true
	}
	at := t.accounts[a]
	mine := make(chan struct{})
	at.queue = append(at.queue, mine)
	t.mu.Unlock()
	select {
	case <-mine:
		return true
	case <-ctx.Done():
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	i := slices.Index(at.queue, mine)
	if i < 0 {
		return true // it was handed over at the same moment
	}
	at.queue = slices.Delete(at.queue, i, i+1)
	return false
}

func (t *inFlight) take(a *AccountState, most int) bool {
	at := t.accounts[a]
	switch {
	case at == nil:
		if t.accounts == nil {
			t.accounts = map[*AccountState]*semaphore{}
		}
		at = &semaphore{}
		t.accounts[a] = at
	case at.taken >= most:
		return false
	}
	at.taken++
	return true
}

// Release gives a slot back: to the first in the queue, if there is one.
func (l *Ledger) Release(a *AccountState) {
	t := &l.inFlight
	t.mu.Lock()
	defer t.mu.Unlock()
	at := t.accounts[a]
	if len(at.queue) > 0 {
		close(at.queue[0])
		at.queue = slices.Delete(at.queue, 0, 1)
		return
	}
	if at.taken--; at.taken == 0 {
		delete(t.accounts, a)
	}
}
