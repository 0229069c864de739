package store

import (
	"encoding/hex"
	"errors"
	"fmt"
	"slices"

	"farebox/billing/calendar"
	"farebox/billing/journal"
	"farebox/billing/money"
)

// Movements of a balance besides charges. Refunds, debt that is paid and charges that the
// house waives count as consumption, too: each has a record of its request, where that is
// known, in pages of node 0 and in usage_moved. The records are written when their
// transaction ends, under the cursor of node 0, which numbers them in the order of commits.

// storeNode is the node of the records of the store itself.
const storeNode = 0

const (
	sqlAddSum = `INSERT INTO account_sum(account, currency, postings, balance) {ROWS iiii}
		ON CONFLICT(account, currency) DO UPDATE SET postings = account_sum.postings + 1, balance = account_sum.balance + excluded.balance`
	sqlPosting = `INSERT INTO posting(entry, book, account, currency, amount, balance_after, moved, no)
		SELECT u.entry, 'customer', u.account, u.currency, u.amount, s.balance, u.moved, s.postings
		FROM {FROM entry i, account i, currency i, amount i, moved i}
		JOIN account_sum s ON s.account = u.account AND s.currency = u.currency`
	sqlNextMoved = "UPDATE applied SET seq = seq + $1 WHERE node = 0 AND sink = 'usage' RETURNING seq"
	sqlOweMore   = "INSERT INTO owed(account, record, amount) {ROWS ibi}"
	sqlOwedRows  = "SELECT no, record, amount FROM owed WHERE account = $1 ORDER BY no LIMIT 256"
)

// posting is a customer's side of an entry: the amount that an account gets, or gives.
type posting struct {
	account uint32
	place   int
	amount  money.Nano
}

// postCustomers books the customers' side of an entry: at most one posting an account and
// currency, in the order of both. The buckets are locked.
func (t *tx) postCustomers(entry int64, charges bool, list []posting) error {
	sums, rows := t.bulk(sqlAddSum), t.bulk(sqlPosting)
	for i := range list {
		sums.add(list[i].account, int64(money.SpendOrder[list[i].place]), 1, int64(list[i].amount))
	}
	if err := sums.flush(); err != nil {
		return err
	}
	for i := range list {
		rows.add(entry, list[i].account, int64(money.SpendOrder[list[i].place]), int64(list[i].amount), flag(!charges))
		t.movesOn(entry, money.SpendOrder[list[i].place], list[i].amount)
	}
	return rows.flush()
}

// refund records the refund of an entry, which its posting has booked.
func (t *tx) refund(entry, nowUs int64, back journal.Record) error {
	t.move(entry, nowUs, back)
	for place, n := range back.Amounts {
		if n == 0 {
			continue
		}
		if _, err := t.exec("UPDATE account_sum SET refunded = refunded + $3 WHERE account = $1 AND currency = $2", back.Account,
			int64(money.SpendOrder[place]), int64(n)); err != nil {
			return err
		}
	}
	return nil
}

// move records consumption of an entry that is not a charge, when t ends.
func (t *tx) move(entry int64, nowUs int64, r journal.Record) {
	r.Kind, r.Hold, r.TimeNs, r.Day = journal.Settle, uint64(entry), nowUs*1000, calendar.DayOf(nowUs*1000)
	r.Flags, r.Debt, r.Shortfall = 0, 0, 0
	t.moved = append(t.moved, r)
}

// writeMoved writes the records of move.
func (t *tx) writeMoved() error {
	n := uint64(len(t.moved))
	if n == 0 {
		return nil
	}
	var last uint64
	if err := t.Row(sqlNextMoved, n).Scan(&last); err != nil {
		return err
	}
	var pages journal.Pages
	pages.Begin(last - n)
	batch := NewBatch()
	for i := range t.moved {
		r := &t.moved[i]
		r.Seq = last - n + 1 + uint64(i)
		pages.Add(r)
		batch.Add(r)
	}
	if err := t.rangeMoved(); err != nil {
		return err
	}
	batch.sort()
	days := t.bulk(sqlUsageMoved)
	batch.addDays(days)
	if err := days.flush(); err != nil {
		return err
	}
	t.moved = nil
	return t.addPages(storeNode, pages.List())
}

// rangeMoved notes in the entries where their records are. One of charges has its own.
func (t *tx) rangeMoved() error {
	for from := 0; from < len(t.moved); {
		entry, to := t.moved[from].Hold, from+1
		for to < len(t.moved) && t.moved[to].Hold == entry {
			to++
		}
		if _, err := t.exec("UPDATE entry SET node = 0, seq_first = $2, seq_last = $3 WHERE id = $1 AND kind <> 'CHARGE'",
			entry, t.moved[from].Seq, t.moved[to-1].Seq); err != nil {
			return err
		}
		from = to
	}
	return nil
}

// anyDay is the day of a charge whose DIEM may be of any.
const anyDay = -1

// waive records which charges of a batch came too late for their account to pay.
func (t *tx) waive(entry int64, b *Batch, list []charge) {
	for i := range list {
		e := &list[i]
		left := e.late
		for j := range b.Rollups {
			u := &b.Rollups[j]
			if left == 0 {
				break
			}
			if u.Account != e.account || e.place == money.InDIEM && e.day != anyDay && u.Day != e.day {
				continue
			}
			for s := range b.Each(u) {
				n := min(left, s.Amount)
				if int(s.Place) != e.place || n <= 0 {
					continue
				}
				left -= n
				r := journal.Record{Moved: journal.Waived, Account: u.Account, Key: u.Key, Model: u.model, Upstream: u.upstream}
				r.Lines.Add(s.kind, 0, 0)
				r.Amounts[e.place] = n
				t.move(entry, b.NowUs, r)
			}
		}
		if left > 0 {
			r := journal.Record{Moved: journal.Waived, Account: e.account}
			r.Amounts[e.place] = left
			t.move(entry, b.NowUs, r)
		}
	}
}

// repay records a payment of debt by an account: the oldest debt first, each for the request
// that left it. Debt from a correction is not consumption.
func (t *tx) repay(entry int64, account uint32, paid money.Parts, nowUs int64) error {
	type row struct {
		no     int64
		record []byte
		amount money.Nano
	}
	var corrected money.Parts
	for paid.Total() > 0 {
		rows, err := list(&t.Query, func(r *row) []any { return []any{&r.no, &r.record, &r.amount} }, sqlOwedRows, account)
		if err != nil {
			return err
		}
		if len(rows) == 0 {
			// A recount tells of it; the books go on.
			t.move(entry, nowUs, journal.Record{Moved: journal.Repaid, Account: account, Amounts: paid})
			break
		}
		for i := range rows {
			n := min(rows[i].amount, paid.Total())
			if n == 0 {
				break
			}
			part := paid.Take(n)
			if len(rows[i].record) > 0 {
				r, err := journal.ReadRecord(rows[i].record, t.s.before)
				if err != nil {
					return err
				}
				t.move(entry, nowUs, repaidOf(r, part))
			} else {
				corrected.Add(&part)
			}
			if n == rows[i].amount {
				_, err = t.exec("DELETE FROM owed WHERE no = $1", rows[i].no)
			} else {
				_, err = t.exec("UPDATE owed SET amount = amount - $2 WHERE no = $1", rows[i].no, int64(n))
			}
			if err != nil {
				return err
			}
		}
	}
	for place, n := range corrected {
		if n == 0 {
			continue
		}
		if _, err := t.exec("UPDATE posting SET corrected = $4 WHERE entry = $1 AND book = 'customer' AND account = $2 AND currency = $3",
			entry, account, int64(money.SpendOrder[place]), int64(n)); err != nil {
			return err
		}
	}
	return nil
}

// repaidOf is a payment of the debt of a charge: of its last line, whose units have
// been counted.
func repaidOf(r *journal.Record, paid money.Parts) journal.Record {
	sold := r.Sold()
	last := sold[len(sold)-1]
	back := *r
	back.Moved, back.Amounts, back.Reasoning, back.Lines = journal.Repaid, paid, 0, money.Lines{}
	back.Lines.Add(last.Kind, 0, last.Price)
	return back
}

// refundOf is the refund of a charge in one currency: the units that it paid for.
func refundOf(r *journal.Record, place int, amount money.Nano) journal.Record {
	var s journal.Shares
	r.Spread(&s)
	back := *r
	back.Moved, back.Reasoning, back.Lines, back.Amounts = journal.Refunded, 0, money.Lines{}, money.Parts{}
	back.Amounts[place] = amount
	sold := r.Sold()
	for _, x := range s.All() {
		if int(x.Place) == place {
			back.Lines.Add(x.Kind, x.Units, sold[x.Line].Price)
		}
	}
	return back
}

// chargeOf finds the charge of a hold in the detail; nil: it is not there.
func (q *Query) chargeOf(account, node uint32, hold uint64) (found *journal.Record, err error) {
	return q.findCharge(account, "node = $2 AND seq_last >= $3", func(r *journal.Record) bool { return r.Hold == hold },
		node, hold)
}

// errFound ends a search.
var errFound = errors.New("found")

// findCharge gives the first charge in the pages that match, the latest first, for which
// is says so; nil: none.
func (q *Query) findCharge(account uint32, match string, is func(*journal.Record) bool, args ...any) (
	found *journal.Record, err error,
) {
	const step = 64
	type pageID struct {
		node  uint32
		first uint64
	}
	for offset := 0; ; offset += step {
		ids, err := list(q, func(p *pageID) []any { return []any{&p.node, &p.first} }, fmt.Sprintf(
			"SELECT node, seq_first FROM usage_page WHERE account = $1 AND node > 0 AND %s ORDER BY first_us DESC LIMIT %d OFFSET %d",
			match, step, offset), append([]any{account}, args...)...)
		if err != nil {
			return nil, err
		}
		for _, id := range ids {
			p := journal.Page{Account: account, Node: id.node, First: id.first}
			err := q.Row("SELECT seq_last, requests, data FROM usage_page WHERE account = $1 AND node = $2 AND seq_first = $3",
				account, id.node, id.first).Scan(&p.Last, &p.Requests, &p.Data)
			if err != nil {
				return nil, err
			}
			err = p.Each(q.s.before, func(r *journal.Record) error {
				if !is(r) {
					return nil
				}
				one := *r
				found = &one
				return errFound
			})
			if err != nil {
				if errors.Is(err, errFound) {
					err = nil
				}
				return found, err
			}
		}
		if len(ids) < step {
			return nil, nil
		}
	}
}

// RequestOf reads the id of a request at the start of the reference of a refund, with
// hyphens or without.
func RequestOf(ref string) (id [16]byte, ok bool) {
	digits := make([]byte, 0, 2*len(id))
	for i := 0; i < len(ref) && len(digits) < cap(digits); i++ {
		if ref[i] != '-' {
			digits = append(digits, ref[i])
		}
	}
	if len(digits) < cap(digits) {
		return id, false
	}
	_, err := hex.Decode(id[:], digits)
	return id, err == nil
}

// Charge finds the charge of a request of an account; nil: the detail does not have it.
func (q *Query) Charge(account uint32, request [16]byte) (*journal.Record, error) {
	return q.findCharge(account, "1 = 1", func(r *journal.Record) bool { return r.RequestID == request })
}

// sortPostings brings postings into the order in which they are booked.
func sortPostings(list []posting) {
	slices.SortFunc(list, func(a, b posting) int {
		return comparePlaces(placeID{a.account, money.SpendOrder[a.place], 0}, placeID{b.account, money.SpendOrder[b.place], 0})
	})
}

// The checks of a recount on movements (moved.go): that the postings of every account and
// currency have numbers without a gap and balances that follow from one another, up to
// the sum of its buckets; and that consumption besides charges agrees with its entries.

// movedAccount adds up consumption besides charges, of one account.
type movedAccount struct {
	refunded, correctedPaid money.Parts // by postings
	moved                   [journal.Waived + 1]money.Parts
	movedDaily, movedDetail usagePrint
	owedLeft, owedOfCharges money.Nano // by the rows of debts
}

func (c *movedAccount) addMoved(r *journal.Record) {
	c.moved[r.Moved].Add(&r.Amounts)
	c.movedDetail.addRecord(r)
}

func (c *AccountCount) compareMoved(number uint32, r *Report) {
	if c.refunded != c.moved[journal.Refunded] || c.late != c.moved[journal.Waived] {
		r.Fault("account %d: %v refunded and %v waived by postings, %v and %v by requests", number, c.refunded, c.late,
			c.moved[journal.Refunded], c.moved[journal.Waived])
	}
	if c.movedDaily != c.movedDetail {
		r.Fault("account %d: its consumption besides charges by day, key and model is not that of its requests", number)
	}
	if left := c.Incurred - c.Paid; c.owedLeft != left {
		r.Fault("account %d: owes %s, by single requests and corrections %s", number, left, c.owedLeft)
	}
	of := c.moved[journal.Repaid]
	paid := of
	if paid.Add(&c.correctedPaid); paid != c.repaid {
		r.Fault("account %d: %v of its debt was paid by postings, by requests %v and %v of corrections", number, c.repaid, of,
			c.correctedPaid)
	}
	if c.owed != of.Total()+c.owedOfCharges {
		r.Fault("account %d: %s became debt by charges; %v of it was paid by requests, %s is owed still", number, c.owed, of,
			c.owedOfCharges)
	}
}

func (r *Recount) countMoved(q *Query) error {
	err := r.eachUsage(q, "usage_moved", func(c *AccountCount, u *usageRow) {
		if u.requests != 0 {
			r.fault("consumption besides charges of account %d with %d requests", u.id.Account, u.requests)
		}
		c.movedDaily.add(&u.id, u.place, u.kind, 0, u.units, u.amount)
	})
	if err != nil {
		return err
	}
	err = each3(q, func(number uint32, all, charges money.Nano) {
		if c := r.Accounts[number]; c != nil {
			c.owedLeft, c.owedOfCharges = all, charges
		} else {
			r.fault("account %d, which does not exist, owes %s", number, all)
		}
	}, `SELECT account, CAST(sum(amount) AS {I64}), CAST(sum(CASE WHEN length(record) > 0 THEN amount ELSE 0 END) AS {I64}) FROM owed GROUP BY account`)
	if err != nil {
		return err
	}
	err = each3(q, func(number uint32, currency money.Currency, n money.Nano) {
		if c := r.Accounts[number]; c != nil {
			c.correctedPaid[money.PlaceOf(currency)] += n
		}
	}, "SELECT account, currency, corrected FROM posting WHERE moved <> 0 AND corrected <> 0")
	if err != nil {
		return err
	}
	refusal, n, m, held, booked, in := new(uint32), new(int64), new(int64), new(money.Nano), new(money.Nano), new(money.Currency)
	for _, check := range []struct {
		fault string
		into  []any
		query string
	}{
		{"account %d: %s in the buckets of %s, by its postings %s", []any{refusal, held, in, booked}, `SELECT account, CAST(sum(held) AS {I64}), currency, CAST(sum(booked) AS {I64}) FROM (
		SELECT account, currency, avail + escrow AS held, 0 AS booked FROM bucket
		UNION ALL SELECT account, currency, 0, balance FROM account_sum) AS b
		GROUP BY account, currency HAVING sum(held) <> sum(booked)`},
		{"account %d: posting %d in %s is number %d and leaves %s, by all before it %s", []any{refusal, n, in, m, held, booked}, `SELECT account, n, currency, coalesce(no, 0), coalesce(balance_after, 0), CAST(sum AS {I64}) FROM (
		SELECT account, currency, no, balance_after, row_number() OVER (PARTITION BY account, currency ORDER BY no) AS n,
			sum(amount) OVER (PARTITION BY account, currency ORDER BY no) AS sum FROM posting WHERE book = 'customer') AS p
		WHERE no IS NULL OR no <> n OR balance_after IS NULL OR balance_after <> sum`},
		{"account %d: %s refunded in %s, counted as %s", []any{refusal, held, in, booked}, `SELECT account, CAST(sum(n) AS {I64}), currency, CAST(sum(counted) AS {I64}) FROM (
		SELECT p.account, p.currency, p.amount AS n, 0 AS counted FROM posting p JOIN entry e ON e.id = p.entry WHERE p.book = 'customer' AND e.kind = 'REFUND'
		UNION ALL SELECT account, currency, 0, refunded FROM account_sum) AS b
		GROUP BY account, currency HAVING sum(n) <> sum(counted)`},
		{"account %d: %d postings in %s, counted as %d", []any{refusal, n, in, m}, `SELECT account, CAST(sum(n) AS {I64}), currency, CAST(sum(counted) AS {I64}) FROM (
		SELECT account, currency, 1 AS n, 0 AS counted FROM posting WHERE book = 'customer'
		UNION ALL SELECT account, currency, 0, postings FROM account_sum) AS b
		GROUP BY account, currency HAVING sum(n) <> sum(counted)`},
	} {
		if err := r.none(q, check.fault, check.into, check.query); err != nil {
			return err
		}
	}
	return nil
}
