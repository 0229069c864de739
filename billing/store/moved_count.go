package store

import (
	"database/sql"

	"farebox/billing/journal"
	"farebox/billing/money"
)

// What a recount checks of movements (moved.go): that the postings of every account and
// currency have numbers without a gap and balances that follow from one another, up to
// what its buckets hold; and that consumption besides charges is what its entries say.

// movedAccount adds up consumption besides charges, of one account.
type movedAccount struct {
	refunded, correctedPaid money.Parts // by postings
	moved                   [journal.Waived + 1]money.Parts
	movedDaily, movedDetail usagePrint
	owedLeft, owedOfCharges money.Nano // by the rows of what is owed
}

func (c *movedAccount) addMoved(r *journal.Record) {
	c.moved[r.Moved].Add(&r.Amounts)
	c.movedDetail.addRecord(r)
}

func (c *AccountCount) compareMoved(no uint32, r *Report) {
	if c.refunded != c.moved[journal.Refunded] || c.late != c.moved[journal.Waived] {
		r.Fault("account %d: %v refunded and %v waived by postings, %v and %v by requests", no, c.refunded, c.late,
			c.moved[journal.Refunded], c.moved[journal.Waived])
	}
	if c.movedDaily != c.movedDetail {
		r.Fault("account %d: its consumption besides charges by day, key and model is not that of its requests", no)
	}
	if left := c.Incurred - c.Paid; c.owedLeft != left {
		r.Fault("account %d: owes %s, by single requests and corrections %s", no, left, c.owedLeft)
	}
	of := c.moved[journal.Repaid]
	paid := of
	if paid.Add(&c.correctedPaid); paid != c.repaid {
		r.Fault("account %d: %v of its debt was paid by postings, by requests %v and %v of corrections", no, c.repaid, of,
			c.correctedPaid)
	}
	if c.owed != of.Total()+c.owedOfCharges {
		r.Fault("account %d: %s became debt by charges; %v of it was paid by requests, %s is owed still", no, c.owed, of,
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
	err = q.Each(func(rows *sql.Rows) error {
		var no uint32
		var all, charges money.Nano
		if err := rows.Scan(&no, &all, &charges); err != nil {
			return err
		}
		if c := r.Accounts[no]; c != nil {
			c.owedLeft, c.owedOfCharges = all, charges
		} else {
			r.fault("account %d, which does not exist, owes %s", no, all)
		}
		return nil
	}, `SELECT account, CAST(sum(amount) AS {I64}), CAST(sum(CASE WHEN length(record) > 0 THEN amount ELSE 0 END) AS {I64}) FROM owed GROUP BY account`)
	if err != nil {
		return err
	}
	err = q.Each(func(rows *sql.Rows) error {
		var no uint32
		var currency money.Currency
		var n money.Nano
		err := rows.Scan(&no, &currency, &n)
		if c := r.Accounts[no]; c != nil {
			c.correctedPaid[money.PlaceOf(currency)] += n
		}
		return err
	}, "SELECT account, currency, corrected FROM posting WHERE moved <> 0 AND corrected <> 0")
	if err != nil {
		return err
	}
	no, n, m, held, booked, in := new(uint32), new(int64), new(int64), new(money.Nano), new(money.Nano), new(money.Currency)
	for _, check := range []struct {
		fault string
		into  []any
		query string
	}{
		{"account %d: %s in the buckets of %s, by its postings %s", []any{no, held, in, booked}, `SELECT account, CAST(sum(held) AS {I64}), currency, CAST(sum(booked) AS {I64}) FROM (
		SELECT account, currency, avail + escrow AS held, 0 AS booked FROM bucket
		UNION ALL SELECT account, currency, 0, balance FROM account_sum) AS b
		GROUP BY account, currency HAVING sum(held) <> sum(booked)`},
		{"account %d: posting %d in %s is number %d and leaves %s, by all before it %s", []any{no, n, in, m, held, booked}, `SELECT account, n, currency, coalesce(no, 0), coalesce(balance_after, 0), CAST(sum AS {I64}) FROM (
		SELECT account, currency, no, balance_after, row_number() OVER (PARTITION BY account, currency ORDER BY no) AS n,
			sum(amount) OVER (PARTITION BY account, currency ORDER BY no) AS sum FROM posting WHERE book = 'customer') AS p
		WHERE no IS NULL OR no <> n OR balance_after IS NULL OR balance_after <> sum`},
		{"account %d: %s refunded in %s, counted as %s", []any{no, held, in, booked}, `SELECT account, CAST(sum(n) AS {I64}), currency, CAST(sum(counted) AS {I64}) FROM (
		SELECT p.account, p.currency, p.amount AS n, 0 AS counted FROM posting p JOIN entry e ON e.id = p.entry WHERE p.book = 'customer' AND e.kind = 'REFUND'
		UNION ALL SELECT account, currency, 0, refunded FROM account_sum) AS b
		GROUP BY account, currency HAVING sum(n) <> sum(counted)`},
		{"account %d: %d postings in %s, counted as %d", []any{no, n, in, m}, `SELECT account, CAST(sum(n) AS {I64}), currency, CAST(sum(counted) AS {I64}) FROM (
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
