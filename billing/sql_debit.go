package billing

import (
	"database/sql"
	"errors"
	"fmt"

	"farebox/billing/calendar"
	"farebox/billing/money"
)

// debit is a correction: money that an operator takes out of an account.
type debit struct {
	account   uint32
	currency  Currency
	day       int32 // whose DIEM
	amount    Nano
	owed      Nano // of amount, what becomes debt; on a shared store the store finds it
	mayOwe    bool
	ref, memo string
	nowUs     int64
}

// shortError is a debit of more than is free.
type shortError struct{ free Nano }

func (e *shortError) Error() string { return "only " + e.free.String() + " is free" }

// Debit books a correction: less was granted, and what the bucket does not have
// becomes debt.
func (s *sqlStore) Debit(d *debit) (applied bool, err error) {
	err = s.write(func(t *tx) error {
		tried := applied
		applied = false
		day := int64(0)
		if d.currency == DIEM {
			day = calendar.Date(d.day)
			if err := t.allow(d.account, d.day, d.nowUs); err != nil {
				return err
			}
		}
		id, err := t.entry(&bookEntry{kind: "ADJUST", ref: d.ref, memo: d.memo, nowUs: d.nowUs})
		if err != nil {
			return err
		}
		if id == 0 {
			_, err := t.debited(d)
			applied = tried && err == nil
			return err
		}
		take, err := t.debitable(d, day)
		if err != nil {
			return err
		}
		postings := t.bulk(sqlHousePosting)
		corrections := map[Currency]Nano{d.currency: take}
		if take > 0 {
			var balance Nano
			if err := t.row(`UPDATE bucket SET granted = granted - $4, avail = avail - $4 WHERE account = $1 AND currency = $2 AND day = $3
				RETURNING avail + escrow`, d.account, int64(d.currency), day, int64(take)).Scan(&balance); err != nil {
				return err
			}
			if _, err := t.exec("INSERT INTO posting(entry, book, account, currency, amount, balance_after) VALUES($1, 'customer', $2, $3, $4, $5)",
				id, d.account, int64(d.currency), -int64(take), int64(balance)); err != nil {
				return err
			}
		}
		if owed := d.amount - take; owed > 0 {
			if _, err := t.owe(id, postings, map[uint32]Nano{d.account: owed}); err != nil {
				return err
			}
			corrections[USD] += owed
		}
		for _, c := range money.SpendOrder {
			if n := corrections[c]; n != 0 {
				t.pay("corrections", c, n)
				if err := postings.add(id, "corrections", uint32(0), int64(c), int64(n)); err != nil {
					return err
				}
			}
		}
		if err := postings.flush(); err != nil {
			return err
		}
		applied = true
		t.change(changeCredit, d.account, 0)
		return t.collectNow(d.account, d.day, d.nowUs)
	})
	return applied && err == nil, err
}

// debitable is how much of a debit the bucket pays.
func (t *tx) debitable(d *debit, day int64) (Nano, error) {
	if !t.s.shared {
		return d.amount - d.owed, nil
	}
	var avail Nano
	err := t.row("SELECT avail FROM bucket WHERE account = $1 AND currency = $2 AND day = $3 {LOCK}", d.account, int64(d.currency), day).Scan(&avail)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return 0, err
	}
	if avail < d.amount && !d.mayOwe {
		return 0, &shortError{avail}
	}
	return min(avail, d.amount), nil
}

// Debited says whether a debit is booked already, and refuses a reference that
// belongs to something else.
func (s *sqlStore) Debited(d *debit) (done bool, err error) {
	err = s.read(func(q *query) error {
		done, err = q.debited(d)
		return err
	})
	return done, err
}

func (q *query) debited(d *debit) (done bool, err error) {
	var kind string
	var account uint32
	var amount Nano
	err = q.row(`SELECT kind, CAST(max(account) AS {I64}), CAST(coalesce(sum(-amount), 0) AS {I64}) FROM entry JOIN posting ON entry = id
		WHERE ref = $1 AND book IN ('customer', 'debt') GROUP BY kind`, d.ref).Scan(&kind, &account, &amount)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	if err == nil && (kind != "ADJUST" || account != d.account || amount != d.amount) {
		return false, fmt.Errorf("the reference %q belongs to another entry, %s of %s: use a new one", d.ref, kind, amount)
	}
	return err == nil, err
}
