package store

import (
	"database/sql"
	"errors"
	"maps"
	"slices"

	"farebox/billing/calendar"
	"farebox/billing/journal"
	"farebox/billing/money"
)

// Debt in the store (debt.go): one row for each account that ever owed, and the
// book "debt", in which a debt is negative as long as it is not paid.

const (
	sqlOwe = `INSERT INTO debt(account, incurred, paid) {ROWS iii}
		ON CONFLICT(account) DO UPDATE SET incurred = debt.incurred + excluded.incurred`
	sqlPaid   = "UPDATE debt SET paid = paid + $2 WHERE account = $1"
	sqlOwing  = "SELECT account, incurred - paid FROM debt WHERE account = ANY($1) AND incurred > paid ORDER BY account"
	debtBook  = "debt"
	paidEntry = "DEBT" // kind of the entry that pays
)

// Debt is the debt of all accounts.
func (s *sqlStore) Debt() (money.Nano, error) {
	return value[money.Nano](s, "SELECT CAST(coalesce(sum(incurred - paid), 0) AS {I64}) FROM debt")
}

// owe adds to the debt of accounts and books it: off the book of debt of each; the
// other side is revenue of the same entry. It gives the sum.
func (t *tx) owe(entry int64, postings *bulk, more map[uint32]money.Nano) (sum money.Nano, err error) {
	rows := t.bulk(sqlOwe)
	for _, account := range slices.Sorted(maps.Keys(more)) {
		n := more[account]
		sum += n
		t.pay(debtBook, money.USD, -n)
		t.change(ChangeDebt, account, 0)
		postings.add(entry, debtBook, account, int64(money.USD), -int64(n))
		rows.add(account, int64(n), 0)
	}
	return sum, rows.flush()
}

// oweFor notes which charges left debt.
func (t *tx) oweFor(list []journal.Record) error {
	rows := t.bulk(sqlOweMore)
	for i := range list {
		r := list[i]
		r.Kind = journal.Settle
		rows.add(r.Account, r.Bytes(), int64(r.Debt))
	}
	return rows.flush()
}

// repaid are the payments of debts in one entry.
type repaid struct {
	list []charge
	by   map[uint32]*money.Parts
}

func (p *repaid) add(account uint32, place int, day int32, n money.Nano) {
	if n == 0 {
		return
	}
	if p.by == nil {
		p.by = map[uint32]*money.Parts{}
	}
	if p.by[account] == nil {
		p.by[account] = &money.Parts{}
	}
	p.by[account][place] += n
	p.list = append(p.list, charge{account: account, place: place, day: day, amount: n})
}

// bookPayments makes the entry of payments whose buckets have been debited.
func (t *tx) bookPayments(p *repaid, nowUs int64) error {
	if len(p.list) == 0 {
		return nil
	}
	entry, err := t.entry(&bookEntry{kind: paidEntry, reason: "debt of earlier requests is paid first", nowUs: nowUs})
	if err != nil {
		return err
	}
	slices.SortFunc(p.list, func(a, b charge) int { return comparePlaces(a.id(), b.id()) })
	if err := t.postCharges(entry, false, &charged{list: p.list}); err != nil {
		return err
	}
	postings := t.bulk(sqlHousePosting)
	var revenue money.Parts
	for _, account := range slices.Sorted(maps.Keys(p.by)) {
		paid := p.by[account]
		n := paid.Total()
		if _, err := t.exec(sqlPaid, account, int64(n)); err != nil {
			return err
		}
		if err := t.repay(entry, account, *paid, nowUs); err != nil {
			return err
		}
		t.pay(debtBook, money.USD, n)
		t.change(ChangeDebt, account, 0)
		postings.add(entry, debtBook, account, int64(money.USD), int64(n))
		// It was booked as revenue in USD; now it is revenue in the currency of the payment.
		revenue.Add(paid)
		revenue[money.InUSD] -= n
	}
	t.postRevenue(entry, postings, &revenue)
	return postings.flush()
}

// payDebts books the payments of this process, which has all the money of the store in
// memory.
func (t *tx) payDebts(b *Batch) error {
	var p repaid
	for id, n := range b.Payments {
		p.add(id.Account, id.Place, id.Day, n)
	}
	if err := t.spend(&charged{list: p.list}, b.NowUs); err != nil {
		return err
	}
	return t.bookPayments(&p, b.NowUs)
}

// handIn takes the money that this node hands in for debts out of its leases, as far as
// they are its own still.
func (t *tx) handIn(b *Batch) error {
	if len(b.Payments) == 0 {
		return nil
	}
	amounts := map[placeID]money.Nano{}
	var ids []placeID
	for id, n := range b.Payments {
		c := charge{account: id.Account, place: id.Place, day: id.Day}
		amounts[c.id()] += n
		ids = append(ids, c.id())
	}
	found, err := t.lockBuckets(ids, b.NowUs)
	if err != nil {
		return err
	}
	slices.SortFunc(ids, comparePlaces)
	var moves []move
	for _, id := range ids {
		row := found[id]
		if row == nil {
			continue
		}
		if n := min(row.lease, amounts[id]); n > 0 {
			moves = append(moves, move{placeID: id, avail: n, escrow: -n, taken: n, ends: n == row.lease})
		}
	}
	return t.moveMoney(moves)
}

// collect pays debts of accounts from money that is not leased: their DIEM of
// the given days first, as everything is spent.
func (t *tx) collect(days map[uint32][]int32, nowUs int64) error {
	accounts := make([]int64, 0, len(days))
	for _, account := range slices.Sorted(maps.Keys(days)) {
		accounts = append(accounts, int64(account))
	}
	owing, err := t.owing(accounts, "")
	if err != nil || len(owing) == 0 {
		return err
	}
	var ids []placeID
	for _, d := range owing {
		ids = append(ids, d.places(days[d.account])...)
	}
	found, err := t.lockBuckets(slices.Clone(ids), nowUs)
	if err != nil {
		return err
	}
	// Read the debts again, now that no other transaction can pay them.
	if owing, err = t.owing(accounts, " FOR UPDATE"); err != nil {
		return err
	}
	var p repaid
	var moves []move
	for _, d := range owing {
		for _, id := range d.places(days[d.account]) {
			row := found[id]
			if row == nil || row.avail <= 0 || d.owed <= 0 {
				continue
			}
			n := min(row.avail, d.owed)
			row.avail -= n
			d.owed -= n
			moves = append(moves, move{placeID: id, avail: -n, spent: n})
			day := int32(0)
			if id.currency == money.DIEM {
				day = calendar.DayOfDate(id.date)
			}
			p.add(d.account, money.PlaceOf(id.currency), day, n)
		}
	}
	slices.SortFunc(moves, func(a, b move) int { return comparePlaces(a.placeID, b.placeID) })
	if err := t.moveMoney(moves); err != nil {
		return err
	}
	return t.bookPayments(&p, nowUs)
}

// debtRow is the debt of an account.
type debtRow struct {
	account uint32
	owed    money.Nano
}

func (q *Query) owing(accounts []int64, lock string) ([]debtRow, error) {
	if len(accounts) == 0 {
		return nil, nil
	}
	return list(q, func(d *debtRow) []any { return []any{&d.account, &d.owed} }, sqlOwing+lock, accounts)
}

// places are the buckets that pay, in spend order.
func (d *debtRow) places(days []int32) (ids []placeID) {
	for _, day := range days {
		ids = append(ids, placeID{d.account, money.DIEM, calendar.Date(day)})
	}
	for _, c := range money.SpendOrder {
		if c != money.DIEM {
			ids = append(ids, placeID{account: d.account, currency: c})
		}
	}
	return ids
}

// collectFor is collect for the accounts of lease operations.
func (t *tx) collectFor(wants []Want, nowUs int64) error {
	days := map[uint32][]int32{}
	for i := range wants {
		if w := &wants[i]; w.Key == 0 && !slices.Contains(days[w.Account], w.Day) {
			days[w.Account] = append(days[w.Account], w.Day)
		}
	}
	return t.collect(days, nowUs)
}

// collectNow is collect for one account. Of an embedded store the process that
// has it open pays.
func (t *tx) collectNow(account uint32, day int32, nowUs int64) error {
	if !t.s.shared {
		return nil
	}
	return t.collect(map[uint32][]int32{account: {day}}, nowUs)
}

// Debit is a correction: money that an operator takes out of an account.
type Debit struct {
	Account   uint32
	Currency  money.Currency
	Day       int32 // whose DIEM
	Amount    money.Nano
	Owed      money.Nano // the part of amount that becomes debt; a shared store finds it itself
	MayOwe    bool
	Ref, Memo string
	Reason    string
	NowUs     int64
	Booked    *Booking // the booking by Debit, now or before
}

// ShortError is a debit of more than is free.
type ShortError struct{ Free money.Nano }

func (e *ShortError) Error() string { return "only " + e.Free.String() + " is free" }

// Debit books a correction: less was granted, and the part that the bucket
// lacks becomes debt.
func (s *sqlStore) Debit(d *Debit) (applied bool, err error) {
	tried := false // whether an earlier attempt got as far as writing
	err = s.write(func(t *tx) error {
		applied, err = t.debit(d)
		tried = tried || applied
		if err == nil && applied {
			d.Booked, err = t.Booking(d.Ref)
		}
		if err != nil || applied {
			return err
		}
		t.unchanged()
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
	b, err := q.Booking(d.Ref)
	d.Booked = b
	if errors.Is(err, ErrNoRow) {
		return false, nil
	}
	if err == nil && (b.Kind != "ADJUST" || b.Account != d.Account || b.Currency != d.Currency || b.Amount != d.Amount) {
		return false, &RefError{b}
	}
	return err == nil, err
}
