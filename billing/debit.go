package billing

import (
	"errors"
	"fmt"
	"time"

	"farebox/billing/money"
	"farebox/billing/store"
)

const (
	// debitTries x debitPause is how long a debit waits for money that nodes have
	// leased and do not need.
	debitTries = 10
	debitPause = 200 * time.Millisecond
)

// DebitAccount takes money out of an account: a correction, not a charge, so it is in no
// usage and in no key's limit. The memo says why. The balance never goes below zero: the rest
// is refused, or with MayOwe becomes debt. A ref that was used before for the same debit
// changes nothing.
type DebitAccount struct {
	CreditAccount
	MayOwe bool `json:"may_owe,omitempty"` // the account may owe afterwards
}

// Debited is an account after a debit.
type Debited struct {
	Info    AccountInfo `json:"info"`
	Applied bool        `json:"applied"` // false: the ref was booked before
	Booking *Booking    `json:"booking,omitempty"`
}

func (da DebitAccount) carryOut(l *Ledger, c *call) (done Debited, err error) {
	switch {
	case da.Amount <= 0 || da.Amount > maxDebt:
		return done, fmt.Errorf("cannot debit %s %s: expected more than 0 and at most %s", da.Amount, da.Currency, maxDebt)
	case da.Ref == "" || da.Memo == "":
		return done, errors.New(
			"cannot debit without a reference and a reason: the books keep both, and a reference is debited once")
	case len(da.Ref) > maxMemo || len(da.Memo) > maxMemo:
		return done, fmt.Errorf("cannot debit: reference and reason may have at most %d bytes", maxMemo)
	}
	if _, err := ParseCurrency(da.Currency.String()); err != nil {
		return done, err
	}
	if err := errors.Join(checkRef(da.Ref), checkText("reason", da.Memo)); err != nil {
		return done, err
	}
	a, err := l.findAccount(da.Account)
	if err != nil {
		return done, err
	}
	d := &store.Debit{Account: a.no, Currency: da.Currency, Day: l.Today(), Amount: da.Amount, MayOwe: da.MayOwe, Ref: da.Ref,
		Memo: da.Memo, NowUs: l.now() / 1000}
	c.account(l, a)
	c.entry.AnswerFunc = jsonOf(func(tx *store.Query) (any, error) {
		row, err := tx.Account(a.no, l.Today())
		if err != nil {
			return nil, err
		}
		return Debited{Info: storedInfo(row), Applied: true, Booking: bookingOf(d.Booked, a.Name())}, nil
	})
	if l.alone() {
		done.Applied, err = a.debit(d, c.store.Debit)
	} else {
		done.Applied, err = a.debitShared(d, c.store)
	}
	var short *store.ShortError
	if errors.As(err, &short) {
		return done, fmt.Errorf(
			"cannot debit %s %s from the account %q: only %s is free, without the holds of open requests; "+
				"debit less, or turn the rest into debt (--allow-debt), which the next credit pays", da.Amount, da.Currency,
			da.Account, short.Free)
	}
	if err != nil {
		return done, fmt.Errorf("cannot debit the account %q: %w", da.Account, l.refTaken(err))
	}
	row, err := l.store.Account(a.no, l.Today())
	if err != nil {
		return done, fmt.Errorf("the debit is booked, but the balance cannot be read: %w", err)
	}
	done.Info, done.Booking = l.describe(row), bookingOf(d.Booked, a.Name())
	return done, nil
}

// debit takes money out of memory first, so that no request spends it meanwhile. book
// books it in the store.
func (a *AccountState) debit(d *store.Debit, book func(*store.Debit) (bool, error)) (applied bool, err error) {
	l := a.ledger
	place := money.PlaceOf(d.Currency)
	a.mu.Lock()
	a.roll(l.Today())
	d.Day = a.day
	take := min(a.avail[place], d.Amount)
	d.Owed = d.Amount - take
	if d.Owed > 0 && !d.MayOwe {
		a.mu.Unlock()
		done, err := l.store.Debited(d) // with more money then
		if done || err != nil {
			return false, err
		}
		return false, &store.ShortError{Free: take}
	}
	a.avail[place] -= take
	a.mu.Unlock()
	applied, err = book(d)
	a.mu.Lock()
	defer a.mu.Unlock()
	if applied {
		a.debt += d.Owed
		l.debt.Add(int64(d.Owed))
		l.shortfall.Add(int64(d.Owed))
	} else if d.Currency != DIEM || a.day == d.Day {
		a.avail[place] += take
	}
	if a.owes() {
		a.pay(l.at())
	}
	return applied, err
}

// debitShared asks the nodes for money that they do not need when too little is left.
func (a *AccountState) debitShared(d *store.Debit, db store.Store) (applied bool, err error) {
	l := a.ledger
	mayOwe := d.MayOwe
	for try := range debitTries {
		d.MayOwe = mayOwe && try == debitTries-1
		applied, err = db.Debit(d)
		var short *store.ShortError
		if !errors.As(err, &short) {
			break
		}
		row, reading := l.store.Account(a.no, d.Day)
		if reading != nil {
			return false, reading
		}
		if row.Leased[money.PlaceOf(d.Currency)] == 0 {
			if !mayOwe {
				break
			}
			d.MayOwe = true
			applied, err = db.Debit(d)
			break
		}
		if _, err := l.store.(store.Shared).Recall(0, a.no); err != nil {
			return false, err
		}
		time.Sleep(debitPause)
	}
	if err == nil && l.node != nil {
		l.node.see(a)
	}
	return applied, err
}
