package billing

import (
	"fmt"

	"farebox/billing/money"
	"farebox/billing/store"
)

// The daily allowance of DIEM (addendum 19.1): an account has so many each UTC
// day, from 00:00, and the unused rest is lost. In memory a new day begins with
// the allowance (AccountState.roll). In the store the bucket of a day is made
// at its first charge, once, under a reference that names the day: after a
// restart it is found made, with the rest in it. So it is when the clock was
// ahead and is not any more (AccountState.later).

const (
	// leastAllowance is the smallest allowance but none (addendum 19.1).
	leastAllowance = Nano(100_000_000)
	// maxAllowance leaves the sum of an account's currencies in int64 when it has
	// maxCredit of the others.
	maxAllowance = Nano(10_000_000_000_000_000)
)

// SetAllowance gives an account so many DIEM a day from the next day on, and,
// if it had no allowance today, at once. 0 ends it.
type SetAllowance struct {
	Account string `json:"account"`
	Daily   Nano   `json:"daily"`
}

func (s SetAllowance) carryOut(l *Ledger, c *call) (Account, error) {
	if s.Daily != 0 && (s.Daily < leastAllowance || s.Daily > maxAllowance) {
		return Account{}, fmt.Errorf("cannot give %s DIEM a day: expected 0 for none, or %s to %s", s.Daily,
			leastAllowance, maxAllowance)
	}
	a, err := l.findAccount(s.Account)
	if err != nil {
		return Account{}, err
	}
	account := Account{ID: a.ID, Name: a.Name()}
	c.account(l, a)
	c.entry.AnswerFunc = jsonOf(fixed(account))
	if l.alone() {
		err = a.setAllowance(s.Daily, c.store)
	} else {
		err = a.setSharedAllowance(s.Daily, c.store)
	}
	if err != nil {
		return Account{}, fmt.Errorf("cannot set the allowance of the account %q: %w", s.Account, err)
	}
	return account, nil
}

// setAllowance changes the allowance while the account is locked. Days that
// have begun in memory had the old one, so they are booked with it first: the
// days with charges, and the days of open holds.
func (a *AccountState) setAllowance(daily Nano, db store.Store) error {
	l := a.ledger
	a.mu.Lock()
	defer a.mu.Unlock()
	a.roll(l.Today())
	if err := l.project.catchUp(); err != nil {
		return err
	}
	nowUs := l.now() / 1000
	for h, n := a.open, a.opened; n > 0; h, n = h.next, n-1 {
		if h.day == a.day {
			continue
		}
		if err := l.store.SetAllowance(a.no, a.refill, h.day, nowUs); err != nil {
			return err
		}
	}
	before, err := l.store.Account(a.no, a.day)
	if err != nil {
		return err
	}
	if err := db.SetAllowance(a.no, daily, a.day, nowUs); err != nil {
		return err
	}
	after, err := l.store.Account(a.no, a.day)
	if err != nil {
		return err
	}
	a.refill = daily
	a.avail[money.InDIEM] += after.Avail[money.InDIEM] - before.Avail[money.InDIEM]
	if a.owes() {
		a.pay(l.at())
	}
	return nil
}

// setSharedAllowance does it where allowances come by lease: a day's is booked
// with the first lease of it.
func (a *AccountState) setSharedAllowance(daily Nano, db store.Store) error {
	l := a.ledger
	if err := db.SetAllowance(a.no, daily, l.Today(), l.now()/1000); err != nil {
		return err
	}
	if l.node == nil {
		return nil // an operator's; the feed notifies the nodes
	}
	a.mu.Lock()
	a.lease.newDay = true
	a.mu.Unlock()
	// The store's value now: another node may have changed it again.
	if err := l.node.changed(&store.Change{Kind: store.ChangeAllowance, Account: a.no}); err != nil {
		return err
	}
	l.node.see(a)
	return nil
}

// Allowance is the account's DIEM of each UTC day; 0: no allowance.
func (a *AccountState) Allowance() Nano {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.refill
}
