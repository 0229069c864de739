package store

import (
	"database/sql"
	"errors"
	"fmt"

	"farebox/billing/calendar"
	"farebox/billing/journal"
	"farebox/billing/money"
)

// AddAccount makes an account. One with the same id is this one: the answer to
// an earlier try was lost.
func (s *sqlStore) AddAccount(row *AccountRow) error {
	return s.write(func(t *tx) error {
		err := t.Row("SELECT no FROM account WHERE id = $1", row.ID).Scan(&row.No)
		if !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		p := row.Profile
		if p == nil {
			p = &ProfileRow{ID: row.ID, Name: row.Name}
		}
		if err := t.freeProfile(p); err != nil {
			return err
		}
		err = t.Row(`INSERT INTO account(id, name, created_us, external_id, email, company, tax_id, metadata, low_balance)
			VALUES($1, $2, $3, $4, $5, $6, $7, $8, $9) RETURNING no`, row.ID, row.Name, row.CreatedUs, p.ExternalID, p.Email,
			p.Company, p.TaxID, p.Metadata, int64(p.LowBalance)).Scan(&row.No)
		t.change(ChangeAccount, row.No, 0)
		return s.unique(err)
	})
}

// selectAccounts gives an account with its balances, DIEM of one day, and
// its spending. The allowance of that day counts where it is not booked yet.
var selectAccounts = `SELECT a.no, a.id, a.name, a.created_us, a.diem_daily,
  coalesce((SELECT d.incurred - d.paid FROM debt d WHERE d.account = a.no), 0), a.status, a.status_us,
  CASE WHEN a.diem_daily = 0 THEN 1 ELSE (SELECT count(*) FROM entry e WHERE e.ref = 'diem:' || a.id || ':' || CAST($2 AS TEXT)) END,
  CAST(coalesce(max(CASE WHEN currency = 2 THEN day END), 0) AS {I64}),
  coalesce(max(CASE WHEN granted > 0 THEN 1 END), 0),
  (SELECT CAST(coalesce(sum(s.refunded), 0) AS {I64}) FROM account_sum s WHERE s.account = a.no), ` +
	byCurrency("CAST(coalesce(sum(CASE WHEN currency = {NO} AND day IN (0, $1) THEN avail END), 0) AS {I64})", ", ") + ", " +
	byCurrency("CAST(coalesce(sum(CASE WHEN currency = {NO} AND day IN (0, $1) THEN escrow END), 0) AS {I64})", ", ") + ", " +
	byCurrency("CAST(coalesce(sum(CASE WHEN currency = {NO} THEN spent END), 0) AS {I64})", ", ") + `
  FROM account a LEFT JOIN bucket b ON b.account = a.no `

var (
	sqlAccount   = selectAccounts + "WHERE a.no = $3 GROUP BY a.no"
	groupAccount = " GROUP BY a.no"
)

func scanAccount(scan func(...any) error) (*AccountRow, error) {
	r := &AccountRow{}
	booked, granted, last := 0, 0, int64(0)
	err := scan(pointers(pointers(pointers([]any{&r.No, &r.ID, &r.Name, &r.CreatedUs, &r.DIEMDaily, &r.Debt, &r.Status, &r.StatusUs,
		&booked, &last, &granted, &r.Refunded}, r.Avail[:]), r.Leased[:]), r.Spent[:])...)
	r.Paid = granted > 0 || r.DIEMDaily > 0
	if err == nil && booked == 0 {
		r.Avail[money.InDIEM] += r.DIEMDaily
	}
	if last > 0 {
		r.LastDIEM = calendar.DayOfDate(last)
	}
	return r, noRow(err)
}

func (s *sqlStore) Account(number uint32, day int32) (*AccountRow, error) {
	return ask(s, func(q *Query) (*AccountRow, error) { return q.Account(number, day) })
}

// Account gives an account as the transaction sees it.
func (q *Query) Account(number uint32, day int32) (*AccountRow, error) {
	return scanAccount(q.Row(sqlAccount, calendar.Date(day), calendar.DateText(day), number).Scan)
}

func (s *sqlStore) FindAccount(nameOrID string, day int32) (*AccountRow, error) {
	return ask(s, func(q *Query) (*AccountRow, error) {
		return scanAccount(q.Row(selectAccounts+"WHERE a.id = $3 OR a.name = $3"+groupAccount+
			" ORDER BY CASE WHEN a.id = $3 THEN 0 ELSE 1 END LIMIT 1", calendar.Date(day), calendar.DateText(day),
			nameOrID).Scan)
	})
}

func (s *sqlStore) Accounts(day int32) ([]*AccountRow, error) {
	list, _, err := s.AccountsOf(AccountFilter{}, day, pageless)
	return list, err
}

func (q *Query) accounts(text string, args ...any) (list []*AccountRow, err error) {
	err = q.Each(func(rows *sql.Rows) error {
		r, err := scanAccount(rows.Scan)
		list = append(list, r)
		return err
	}, text, args...)
	return list, err
}

// Credit books money from outside: an entry with two postings and the bucket.
// A ref that was used before changes nothing when it was for the same credit.
func (s *sqlStore) Credit(c *Credit) (applied bool, err error) {
	tried := false // whether an earlier attempt got as far as writing
	err = s.write(func(t *tx) error {
		// When an earlier attempt got as far as this and only its answer was lost,
		// the entry that is found is its own.
		applied = false
		day, kind, book := int64(0), "TOP_UP", "cash"
		switch {
		case c.Refund:
			kind, book = "REFUND", "refunds"
		case c.Currency != money.USD:
			book = "grants"
		}
		if c.Currency == money.DIEM {
			day = calendar.Date(c.Day)
			if err := t.allow(c.Account, c.Day, c.NowUs); err != nil {
				return err
			}
		}
		id, err := t.entry(&bookEntry{kind: kind, ref: c.Ref, memo: c.Memo, nowUs: c.NowUs})
		if err != nil {
			return err
		}
		if id == 0 {
			err := t.sameCredit(c, kind)
			applied = tried && err == nil
			t.unchanged()
			return err
		}
		if err := t.credits(c.Amount); err != nil {
			return err
		}
		applied, tried = true, true
		t.change(ChangeCredit, c.Account, 0)
		if err := t.grant(id, book, c.Account, c.Currency, day, c.Amount); err != nil {
			return err
		}
		if c.Refund {
			if err := t.refund(id, c.NowUs, c.refund()); err != nil {
				return err
			}
		}
		if err := t.collectNow(c.Account, c.Day, c.NowUs); err != nil {
			return err
		}
		c.Booked, err = t.Booking(c.Ref)
		return err
	})
	return applied && err == nil, err
}

// refund is the record of an operator's refund, for the request of Charge where that is known.
func (c *Credit) refund() journal.Record {
	back := journal.Record{Account: c.Account}
	if c.Charge != nil {
		back = repaidOf(c.Charge, money.Parts{})
	}
	back.Moved, back.Amounts = journal.Refunded, money.Parts{}
	back.Amounts[money.PlaceOf(c.Currency)] = c.Amount
	return back
}

// sameCredit refuses a ref that belongs to another credit.
func (t *tx) sameCredit(c *Credit, kind string) error {
	b, err := t.Booking(c.Ref)
	c.Booked = b
	if err == nil && (b.Kind != kind || b.Account != c.Account || b.Currency != c.Currency || b.Amount != c.Amount) {
		return &RefError{b}
	}
	return err
}

// Booking is the booking of a reference for an account: money in, or with the kind ADJUST
// out. Balance is the account's balance in the currency then.
type Booking struct {
	Entry           int64
	AtUs            int64
	Kind, Ref, Memo string
	Account         uint32
	Currency        money.Currency
	Amount, Balance money.Nano
}

// RefError is a reference that belongs to another entry.
type RefError struct{ Booking *Booking }

func (e *RefError) Error() string {
	return fmt.Sprintf("the reference %q belongs to another entry, %s of %s %s: use a new one", e.Booking.Ref,
		e.Booking.Kind, e.Booking.Amount, e.Booking.Currency)
}

// selectBooking selects the bookings of entries for customers. SQLite reads the tables of a CROSS
// JOIN in their order.
const selectBooking = `SELECT e.id, e.ts_us, e.kind, coalesce(e.ref, ''), e.memo, p.account, p.currency, p.amount,
	coalesce(p.balance_after, 0),
	CAST(coalesce((SELECT sum(amount) FROM posting d WHERE d.entry = e.id AND d.book = 'debt'), 0) AS {I64})
	FROM entry e CROSS JOIN posting p WHERE p.entry = e.id AND p.book = 'customer' AND `

func scanBooking(scan func(...any) error) (*Booking, error) {
	b := &Booking{}
	var owed money.Nano
	err := scan(&b.Entry, &b.AtUs, &b.Kind, &b.Ref, &b.Memo, &b.Account, &b.Currency, &b.Amount, &b.Balance, &owed)
	if b.Kind == "ADJUST" {
		b.Amount = -b.Amount - owed
	}
	return b, noRow(err)
}

// Booking finds the booking of a reference, or returns ErrNoRow.
func (q *Query) Booking(ref string) (*Booking, error) {
	return scanBooking(q.Row(selectBooking+"e.ref = $1", ref).Scan)
}

type bookEntry struct {
	kind, ref, memo, reason string
	nowUs                   int64
}

// entry begins an entry; 0 when its ref was used before.
func (t *tx) entry(e *bookEntry) (id int64, err error) {
	ref := sql.NullString{String: e.ref, Valid: e.ref != ""}
	err = t.Row("INSERT INTO entry(ts_us, kind, ref, memo, reason) VALUES($1, $2, $3, $4, $5) "+
		"ON CONFLICT(ref) DO NOTHING RETURNING id", e.nowUs, e.kind, ref, e.memo, e.reason).Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	return id, err
}

// grant books an entry that gives an account money from a book of the house.
func (t *tx) grant(entry int64, house string, account uint32, c money.Currency, day int64, amount money.Nano) error {
	_, err := t.exec(`INSERT INTO bucket(account, currency, day, granted, avail) VALUES($1, $2, $3, $4, $4)
		ON CONFLICT(account, currency, day) DO UPDATE SET granted = bucket.granted + excluded.granted, avail = bucket.avail + excluded.avail`,
		account, int64(c), day, int64(amount))
	if err != nil {
		return err
	}
	return t.post(entry, house, account, c, amount)
}

// post writes the two postings of an entry that moves amount from a book of the
// house to a customer.
func (t *tx) post(entry int64, house string, account uint32, c money.Currency, amount money.Nano) error {
	if err := t.postCustomers(entry, false, []posting{{account, money.PlaceOf(c), amount}}); err != nil {
		return err
	}
	t.pay(house, c, -amount)
	postings := t.bulk(sqlHousePosting)
	postings.add(entry, house, uint32(0), int64(c), -int64(amount))
	return postings.flush()
}

// allow books the DIEM allowance of an account for a day, once.
func (t *tx) allow(account uint32, day int32, nowUs int64) error {
	var daily money.Nano
	var id string
	err := t.Row("SELECT diem_daily, id FROM account WHERE no = $1", account).Scan(&daily, &id)
	if err != nil || daily == 0 {
		return noRow(err)
	}
	entry, err := t.entry(&bookEntry{kind: "GRANT", ref: "diem:" + id + ":" + calendar.DateText(day),
		reason: "the allowance of " + calendar.DateText(day), nowUs: nowUs})
	if err != nil || entry == 0 {
		return err
	}
	return t.grant(entry, "grants", account, money.DIEM, calendar.Date(day), daily)
}

func (s *sqlStore) SetAllowance(account uint32, daily money.Nano, day int32, nowUs int64) error {
	return s.write(func(t *tx) error {
		if err := t.allow(account, day, nowUs); err != nil {
			return err
		}
		if _, err := t.exec("UPDATE account SET diem_daily = $2 WHERE no = $1", account, int64(daily)); err != nil {
			return err
		}
		t.change(ChangeAllowance, account, 0)
		if err := t.allow(account, day, nowUs); err != nil {
			return err
		}
		return t.collectNow(account, day, nowUs)
	})
}

func (s *sqlStore) LaterDIEM(account uint32, day int32) (days map[int32]DayDIEM, err error) {
	err = s.read(func(q *Query) error {
		days = map[int32]DayDIEM{}
		err := each2(q, func(date int64, avail money.Nano) {
			days[calendar.DayOfDate(date)] = DayDIEM{avail: avail}
		}, "SELECT day, avail FROM bucket WHERE account = $1 AND currency = 2 AND day > $2", account,
			calendar.Date(day))
		if err != nil {
			return err
		}
		for day, d := range days {
			var n int
			if err := q.Row("SELECT count(*) FROM entry JOIN account a ON a.no = $1 WHERE ref = 'diem:' || a.id || "+
				"':' || CAST($2 AS TEXT)", account, calendar.DateText(day)).Scan(&n); err != nil {
				return err
			}
			d.allowed = n > 0
			days[day] = d
		}
		return nil
	})
	return days, err
}

// Shortfall is the sum of all deliveries without a charge: they became debt, or the house
// paid for its customers.
func (s *sqlStore) Shortfall() (money.Nano, error) {
	return value[money.Nano](s, `SELECT CAST(coalesce(sum(n), 0) AS {I64}) FROM (
		SELECT -balance AS n FROM house WHERE book IN ('shortfall', 'late') UNION ALL SELECT incurred FROM debt) AS b`)
}

// StaleDIEM finds allowances of days before a day that have not expired yet.
func (s *sqlStore) StaleDIEM(before int32) (list []StaleDIEM, err error) {
	err = s.read(func(q *Query) error {
		list = nil
		return each2(q, func(account uint32, date int64) {
			list = append(list, StaleDIEM{account, calendar.DayOfDate(date)})
		}, "SELECT account, day FROM bucket WHERE currency = 2 AND avail > 0 AND day < $1", calendar.Date(before))
	})
	return list, err
}

// ExpireDIEM books the rest of a day's allowance that is not leased as breakage.
func (s *sqlStore) ExpireDIEM(account uint32, day int32, nowUs int64) error {
	return s.write(func(t *tx) error {
		var left money.Nano
		err := t.Row("SELECT avail FROM bucket WHERE account = $1 AND currency = 2 AND day = $2 {LOCK}",
			account, calendar.Date(day)).Scan(&left)
		if err != nil || left == 0 {
			return noRow(err)
		}
		if _, err := t.exec("UPDATE bucket SET avail = 0, expired = expired + $3 WHERE account = $1 AND currency = 2 "+
			"AND day = $2", account, calendar.Date(day), int64(left)); err != nil {
			return err
		}
		id, err := t.entry(&bookEntry{kind: "EXPIRE", reason: "left of the allowance of " + calendar.DateText(day),
			nowUs: nowUs})
		if err != nil {
			return err
		}
		return t.post(id, "breakage", account, money.DIEM, -left)
	})
}

// AccountStatus says whether an account may be used. The numbers are stored.
type AccountStatus uint8

// An account is open until an operator suspends it, which can be undone, or
// closes it, which cannot. Either way its keys are refused, with the reason, from
// the next request on; requests that were admitted before run on. Its money,
// its books and its keys' records stay.
const (
	AccountOpen AccountStatus = iota
	AccountSuspended
	AccountClosed
)

var statusNames = [...]string{"open", "suspended", "closed"}

func (s AccountStatus) String() string { return statusNames[min(int(s), len(statusNames)-1)] }

// MarshalText writes the status in words.
func (s AccountStatus) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads the text of MarshalText.
func (s *AccountStatus) UnmarshalText(b []byte) error {
	for i, name := range statusNames {
		if string(b) == name {
			*s = AccountStatus(i)
			return nil
		}
	}
	return fmt.Errorf("cannot use the account status %q: expected open, suspended or closed", b)
}

// SetStatus writes the status of an account; done is false for one that is
// closed, which stays so.
func (s *sqlStore) SetStatus(account uint32, status AccountStatus, nowUs int64) (done bool, err error) {
	err = s.write(func(t *tx) error {
		var now AccountStatus
		if err := t.Row("SELECT status FROM account WHERE no = $1 {LOCK}", account).Scan(&now); err != nil {
			return noRow(err)
		}
		done = now == status || now != AccountClosed
		if now == status || !done {
			t.unchanged()
			return nil
		}
		t.change(ChangeAccount, account, 0)
		_, err := t.exec("UPDATE account SET status = $2, status_us = $3 WHERE no = $1", account, int64(status), nowUs)
		return err
	})
	return done && err == nil, err
}
