package billing

import (
	"context"
	"slices"
	"sync"
)

// turns are the places of accounts for requests that may be under way at the
// same time on this node (addendum 13, Concurrency). The zero value is ready.
type turns struct {
	mu       sync.Mutex
	accounts map[*AccountState]*turn // those with a place taken
}

type turn struct {
	taken int
	line  []chan struct{} // who waits, the first first
}

// TryTurn takes one of most places of an account if one is free. True: the
// caller must give it back with GiveTurn.
func (l *Ledger) TryTurn(a *AccountState, most int) bool {
	t := &l.turns
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.take(a, most)
}

// TakeTurn is TryTurn that waits in line until ctx ends.
func (l *Ledger) TakeTurn(ctx context.Context, a *AccountState, most int) bool {
	t := &l.turns
	t.mu.Lock()
	if t.take(a, most) {
		t.mu.Unlock()
		return true
	}
	at := t.accounts[a]
	mine := make(chan struct{})
	at.line = append(at.line, mine)
	t.mu.Unlock()
	select {
	case <-mine:
		return true
	case <-ctx.Done():
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	i := slices.Index(at.line, mine)
	if i < 0 {
		return true // it was handed over at the same moment
	}
	at.line = slices.Delete(at.line, i, i+1)
	return false
}

func (t *turns) take(a *AccountState, most int) bool {
	at := t.accounts[a]
	switch {
	case at == nil:
		if t.accounts == nil {
			t.accounts = map[*AccountState]*turn{}
		}
		at = &turn{}
		t.accounts[a] = at
	case at.taken >= most:
		return false
	}
	at.taken++
	return true
}

// GiveTurn gives a place back: to the first in line, if there is one.
func (l *Ledger) GiveTurn(a *AccountState) {
	t := &l.turns
	t.mu.Lock()
	defer t.mu.Unlock()
	at := t.accounts[a]
	if len(at.line) > 0 {
		close(at.line[0])
		at.line = slices.Delete(at.line, 0, 1)
		return
	}
	if at.taken--; at.taken == 0 {
		delete(t.accounts, a)
	}
}
