package billing

import (
	"errors"
	"fmt"
	"time"

	"farebox/billing/money"
	"farebox/billing/store"
)

const (
	// debitTries x debitPause is how long a debit waits for what nodes have
	// leased and do not need.
	debitTries = 10
	debitPause = 200 * time.Millisecond
)

// Debit takes money out of an account: a correction, not a charge, so it is in no
// usage and in no key's limit. The balance never goes below zero: what is not
// there is refused, or with mayOwe becomes debt. A ref that was used before for
// the same debit changes nothing (applied is false).
func (l *Ledger) Debit(account string, currency Currency, amount Nano, ref, reason string,
	mayOwe bool) (info AccountInfo, applied bool, err error) {
	l.operating.Lock()
	defer l.operating.Unlock()
	switch {
	case amount <= 0 || amount > maxDebt:
		return info, false, fmt.Errorf("cannot debit %s %s: expected more than 0 and at most %s", amount, currency,
			maxDebt)
	case ref == "" || reason == "":
		return info, false, errors.New(
			"cannot debit without a reference and a reason: the books keep both, and a reference is debited once")
	case len(ref) > maxMemo || len(reason) > maxMemo:
		return info, false, fmt.Errorf("cannot debit: reference and reason may have at most %d bytes", maxMemo)
	}
	if _, err := ParseCurrency(currency.String()); err != nil {
		return info, false, err
	}
	if err := errors.Join(checkText("reference", ref), checkText("reason", reason)); err != nil {
		return info, false, err
	}
	a, err := l.findAccount(account)
	if err != nil {
		return info, false, err
	}
	d := &store.Debit{Account: a.no, Currency: currency, Day: l.Today(), Amount: amount, MayOwe: mayOwe, Ref: ref,
		Memo: reason, NowUs: l.now() / 1000}
	if _, shared := l.store.(store.Shared); shared {
		applied, err = l.debitShared(a, d)
	} else {
		applied, err = l.debitHere(a, d, l.store.Debit)
	}
	var short *store.ShortError
	if errors.As(err, &short) {
		return info, false, fmt.Errorf(
			"cannot debit %s %s from the account %q: only %s is free, without the holds of open requests; "+
				"debit less, or turn the rest into debt (--allow-debt), which the next credit pays", amount, currency,
			account, short.Free)
	}
	if err != nil {
		return info, false, fmt.Errorf("cannot debit the account %q: %w", account, err)
	}
	row, err := l.store.Account(a.no, l.Today())
	if err != nil {
		return info, applied, fmt.Errorf("the debit is booked, but the balance cannot be read: %w", err)
	}
	return l.describe(row), applied, nil
}

// debitHere takes it out of memory first, so that no request spends it meanwhile. book
// books it in the store.
func (l *Ledger) debitHere(a *AccountState, d *store.Debit, book func(*store.Debit) (bool, error)) (applied bool,
	err error) {
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

// debitShared asks the nodes for what they do not need when too little is left.
func (l *Ledger) debitShared(a *AccountState, d *store.Debit) (applied bool, err error) {
	mayOwe := d.MayOwe
	for try := range debitTries {
		d.MayOwe = mayOwe && try == debitTries-1
		applied, err = l.store.Debit(d)
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
			applied, err = l.store.Debit(d)
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
