package store

import (
	"database/sql"
	"errors"
	"fmt"

	"farebox/billing/calendar"
	"farebox/billing/money"
)

// Debit is a correction: money that an operator takes out of an account.
type Debit struct {
	Account   uint32
	Currency  money.Currency
	Day       int32 // whose DIEM
	Amount    money.Nano
	Owed      money.Nano // of amount, what becomes debt; on a shared store the store finds it
	MayOwe    bool
	Ref, Memo string
	Reason    string
	NowUs     int64
}

// ShortError is a debit of more than is free.
type ShortError struct{ Free money.Nano }

func (e *ShortError) Error() string { return "only " + e.Free.String() + " is free" }

// Debit books a correction: less was granted, and what the bucket does not have
// becomes debt.
func (s *sqlStore) Debit(d *Debit) (applied bool, err error) {
	tried := false // whether an earlier attempt got as far as writing
	err = s.write(func(t *tx) error {
		applied, err = t.debit(d)
		tried = tried || applied
		if err != nil || applied {
			return err
		}
		_, err = t.debited(d)
		applied = tried && err == nil
		return err
	})
	return applied && err == nil, err
}

// debit books a debit; false where its reference was used before.
func (t *tx) debit(d *Debit) (done bool, err error) {
	day := int64(0)
	if d.Currency == money.DIEM {
		day = calendar.Date(d.Day)
		if err := t.allow(d.Account, d.Day, d.NowUs); err != nil {
			return false, err
		}
	}
	id, err := t.entry(&bookEntry{kind: "ADJUST", ref: d.Ref, memo: d.Memo, reason: d.Reason, nowUs: d.NowUs})
	if err != nil || id == 0 {
		return false, err
	}
	take, err := t.debitable(d, day)
	if err != nil {
		return false, err
	}
	postings := t.bulk(sqlHousePosting)
	corrections := map[money.Currency]money.Nano{d.Currency: take}
	if take > 0 {
		if _, err := t.exec("UPDATE bucket SET granted = granted - $4, avail = avail - $4 WHERE account = $1 AND currency = $2 AND day = $3",
			d.Account, int64(d.Currency), day, int64(take)); err != nil {
			return false, err
		}
	}
	if err := t.postCustomers(id, false, []posting{{d.Account, money.PlaceOf(d.Currency), -take}}); err != nil {
		return false, err
	}
	if owed := d.Amount - take; owed > 0 {
		if _, err := t.owe(id, postings, map[uint32]money.Nano{d.Account: owed}); err != nil {
			return false, err
		}
		corrections[money.USD] += owed
		if _, err := t.exec("INSERT INTO owed(account, record, amount) VALUES($1, $2, $3)", d.Account, []byte{}, int64(owed)); err != nil {
			return false, err
		}
	}
	for _, c := range money.SpendOrder {
		if n := corrections[c]; n != 0 {
			t.pay("corrections", c, n)
			postings.add(id, "corrections", uint32(0), int64(c), int64(n))
		}
	}
	if err := postings.flush(); err != nil {
		return false, err
	}
	t.change(ChangeCredit, d.Account, 0)
	return true, t.collectNow(d.Account, d.Day, d.NowUs)
}

// debitable is how much of a debit the bucket pays.
func (t *tx) debitable(d *Debit, day int64) (money.Nano, error) {
	if !t.s.shared {
		return d.Amount - d.Owed, nil
	}
	var avail money.Nano
	err := t.Row("SELECT avail FROM bucket WHERE account = $1 AND currency = $2 AND day = $3 {LOCK}", d.Account,
		int64(d.Currency), day).Scan(&avail)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return 0, err
	}
	if avail < d.Amount && !d.MayOwe {
		return 0, &ShortError{avail}
	}
	return min(avail, d.Amount), nil
}

// Debited says whether a debit is booked already, and refuses a reference that
// belongs to something else.
func (s *sqlStore) Debited(d *Debit) (bool, error) {
	return ask(s, func(q *Query) (bool, error) { return q.debited(d) })
}

func (q *Query) debited(d *Debit) (done bool, err error) {
	var kind string
	var account uint32
	var amount money.Nano
	err = q.Row(`SELECT kind, CAST(max(account) AS {I64}), CAST(coalesce(sum(-amount), 0) AS {I64}) FROM entry JOIN posting ON entry = id
		WHERE ref = $1 AND book IN ('customer', 'debt') GROUP BY kind`, d.Ref).Scan(&kind, &account, &amount)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	if err == nil && (kind != "ADJUST" || account != d.Account || amount != d.Amount) {
		return false, fmt.Errorf("the reference %q belongs to another entry, %s of %s: use a new one", d.Ref, kind,
			amount)
	}
	return err == nil, err
}
