package store

import (
	"database/sql"
	"fmt"

	"farebox/billing/journal"
	"farebox/billing/money"
)

// Report is the result of a recount. Faults is empty when everything adds up.
type Report struct {
	Accounts  int        `json:"accounts"`
	Loaded    int        `json:"loaded"` // of them in memory and compared, too
	OpenHolds int        `json:"open_holds"`
	Requests  int64      `json:"requests"` // whose detail is in the store
	Jobs      int64      `json:"jobs"`
	Payments  int64      `json:"payments"` // of wallets, whatever became of them
	Faults    []string   `json:"faults"`
	Credited  money.Nano `json:"credited"` // for payments of wallets, without those that were taken back
	Charged   money.Nano `json:"charged"`
	Shortfall money.Nano `json:"shortfall"` // delivered and not charged
	Debt      money.Nano `json:"debt"`      // the part of it that is still owed
}

// Fault notes a difference; of many the first hundred are kept.
func (r *Report) Fault(format string, args ...any) {
	const most = 100
	if len(r.Faults) < most {
		r.Faults = append(r.Faults, fmt.Sprintf(format, args...))
	}
}

// Recount has the sums of each of the books of a store.
type Recount struct {
	Accounts map[uint32]*AccountCount
	Requests int64
	Charged  money.Nano
	Faults   []string
	// DetailBehind: the single requests are not all written yet (of other nodes).
	DetailBehind bool
	Jobs         int64 // whose rows are there
	Payments     int64
	Credited     money.Nano            // for payments
	jobs         map[jobAt]money.Parts // the cost of jobs by single requests
	prunedUs     int64                 // before then there are sums in place of single requests
}

// Report compares each of the books with the others.
func (r *Recount) Report() Report {
	report := Report{Accounts: len(r.Accounts), Jobs: r.Jobs, Payments: r.Payments, Requests: r.Requests,
		Charged: r.Charged, Credited: r.Credited, Faults: r.Faults}
	for number, c := range r.Accounts {
		report.Shortfall += c.short + c.late.Total() + c.Incurred
		report.Debt += c.Incurred - c.Paid
		c.compare(number, &report, !r.DetailBehind)
	}
	return report
}

// AccountCount adds up one account from each of the books that must agree.
type AccountCount struct {
	Avail                   map[BucketID]money.Nano
	Spent, posted, daily    money.Parts // by buckets, postings, daily usage
	detail                  money.Parts // by single requests
	late                    money.Parts // the part of daily that the house paid: the lease had been taken back
	short, detailShort      money.Nano
	Incurred, Paid          money.Nano  // debt by its row
	owed, corrected         money.Nano  // the same by postings: of charges, and of corrections
	detailOwed              money.Nano  // of single requests
	paidOff                 money.Nano  // by postings to the debt
	repaid                  money.Parts // by postings to the balance
	dailyPrint, detailPrint usagePrint
	dailyCount, detailCount int64
	credited, granted       money.Parts
	movedAccount
}

// BucketID is a sum of one currency and UTC day.
type BucketID struct {
	Currency money.Currency
	Day      int64
}

// compare checks that the books of the store agree about an account: I7, I9.
// Without detail the single requests are left out: some are not written yet.
func (c *AccountCount) compare(number uint32, r *Report, detail bool) {
	paid := c.Spent
	paid.Sub(&c.repaid)
	if paid != c.posted {
		r.Fault("account %d: spent %v by balances; %v on requests and %v on debt by postings", number, c.Spent, c.posted,
			c.repaid)
	}
	paid.Add(&c.late)
	if paid != c.daily {
		r.Fault("account %d: spent %v by balances, %v of it on debt, and late %v; %v by days", number, c.Spent, c.repaid,
			c.late, c.daily)
	}
	if c.Incurred != c.owed+c.corrected || c.Paid != c.paidOff || c.Paid != c.repaid.Total() {
		r.Fault("account %d: owed %s and paid %s of it; by postings %s for requests, %s by corrections, paid %s "+
			"with %v", number, c.Incurred, c.Paid, c.owed, c.corrected, c.paidOff, c.repaid)
	}
	if detail && c.owed != c.detailOwed {
		r.Fault("account %d: %s became debt by postings, %s by requests", number, c.owed, c.detailOwed)
	}
	if detail && paid != c.detail {
		r.Fault("account %d: spent %v by balances and late %v, %v by requests", number, c.Spent, c.late, c.detail)
	}
	if detail && paid == c.detail && c.dailyPrint != c.detailPrint {
		r.Fault("account %d: its usage by day, key and model is not that of its requests", number)
	}
	if detail && c.short != c.detailShort {
		r.Fault("account %d: shortfall %s by postings, %s by requests", number, c.short, c.detailShort)
	}
	if detail && c.dailyCount != c.detailCount {
		r.Fault("account %d: %d requests by days, %d by requests", number, c.dailyCount, c.detailCount)
	}
	c.compareMoved(number, r)
	if c.credited != c.granted {
		r.Fault("account %d: %v credited by entries, %v granted by balances", number, c.credited, c.granted)
	}
}

// The checks of a recount besides sums: that the rows of nodes, leases, cursors
// and the feed fit together.

// countLeases checks that the escrow of each bucket is the sum of its leases
// (I3), that no lease is negative (I4), and that leases belong to a node that
// has not ended.
func (r *Recount) countLeases(q *Query) error {
	err := r.none(q, "bucket %d %s %d: %s in escrow, the leases add up to %s",
		[]any{new(uint32), new(money.Currency), new(int64), new(money.Nano), new(money.Nano)}, `SELECT account, currency, day, CAST(sum(escrow) AS {I64}), CAST(sum(leased) AS {I64}) FROM (
		SELECT account, currency, day, escrow, 0 AS leased FROM bucket
		UNION ALL SELECT account, currency, day, 0, amount FROM lease) AS b
		GROUP BY account, currency, day HAVING sum(escrow) <> sum(leased)`)
	if err != nil {
		return err
	}
	err = r.none(q, "%[1]s %[3]d of node %[2]d is %[4]s, or its node has ended",
		[]any{new(string), new(uint32), new(int64), new(money.Nano)}, `SELECT what, node, owner, amount FROM (
		SELECT 'the lease of account' AS what, node, account AS owner, amount FROM lease
		UNION ALL SELECT 'the lease of a limit of key', node, api_key, amount FROM quota) AS l
		WHERE amount < 0 OR NOT EXISTS(SELECT 1 FROM node n WHERE n.no = l.node AND n.ended = 0)`)
	if err != nil {
		return err
	}
	return r.none(q, "a limit is leased of key %d, which does not exist", []any{new(int64)},
		"SELECT DISTINCT api_key FROM quota WHERE NOT EXISTS(SELECT 1 FROM api_key k WHERE k.no = quota.api_key)")
}

// countCursors checks that each node has both cursors, of its incarnation
// (nodes from before a restoration are not known any more), and that charges of a node were booked
// from one run of records after the other.
func (r *Recount) countCursors(q *Query) error {
	ledger := map[uint32]uint64{}
	err := q.Each(func(rows *sql.Rows) error {
		var node uint32
		var n int
		var first, last, inc, usageSeq, ledgerSeq uint64
		if err := rows.Scan(&node, &n, &first, &last, &inc, &usageSeq, &ledgerSeq); err != nil {
			return err
		}
		ledger[node] = ledgerSeq
		if n != 2 || first != last || first != inc || usageSeq > ledgerSeq {
			r.fault("node %d: %d cursors of the incarnations %d to %d, it is %d; balances up to record %d, detail "+
				"up to %d", node, n, first, last, inc, ledgerSeq, usageSeq)
		}
		if usageSeq < ledgerSeq {
			r.DetailBehind = true
		}
		return nil
	}, `SELECT a.node, count(*), min(a.inc), max(a.inc), coalesce(max(n.inc), max(a.inc)),
		coalesce(max(CASE WHEN sink = 'usage' THEN seq END), 0), coalesce(max(CASE WHEN sink = 'ledger' THEN seq END), 0)
		FROM applied a LEFT JOIN node n ON n.no = a.node WHERE a.node > 0 GROUP BY a.node`)
	if err != nil {
		return err
	}
	last := map[uint32]uint64{}
	err = each4(q, func(id, node, first, to sql.NullInt64) {
		number := uint32(node.Int64)
		if !node.Valid || !first.Valid || !to.Valid || first.Int64 > to.Int64 || uint64(first.Int64) <= last[number] ||
			uint64(to.Int64) > ledger[number] {
			r.fault("entry %d: charges of the records %d to %d of node %d, which has booked up to %d before and is "+
				"applied up to %d",
				id.Int64, first.Int64, to.Int64, number, last[number], ledger[number])
		}
		last[number] = uint64(to.Int64)
	}, "SELECT id, node, seq_first, seq_last FROM entry WHERE kind = 'CHARGE' ORDER BY node, seq_first")
	if err != nil {
		return err
	}
	return each4(q, func(node uint32, hold, seq uint64, data []byte) {
		var rec journal.Record
		if rec.Get(data, seq, q.s.before) == 0 || rec.Hold != hold || seq > ledger[node] {
			r.fault("the progress of hold %d of node %d is damaged", hold, node)
		}
	}, "SELECT node, hold, seq, record FROM open_progress")
}

// countFeed checks that no change is missing.
func (r *Recount) countFeed(q *Query) error {
	var n, first, last, counted int64
	err := q.Row("SELECT count(*), coalesce(min(no), 0), coalesce(max(no), 0), (SELECT value FROM counter WHERE name "+
		"= 'change') FROM change").
		Scan(&n, &first, &last, &counted)
	if err == nil && (n > 0 && n != last-first+1 || last > counted || n > 0 && last != counted) {
		r.fault("the feed has %d changes from %d to %d, and counted %d", n, first, last, counted)
	}
	return err
}
