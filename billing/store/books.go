package store

import (
	"fmt"

	"farebox/billing/money"
)

// Report is what a recount found. Faults is empty when everything adds up.
type Report struct {
	Accounts  int        `json:"accounts"`
	Loaded    int        `json:"loaded"` // of them in memory and compared, too
	OpenHolds int        `json:"openHolds"`
	Requests  int64      `json:"requests"` // whose detail is in the store
	Jobs      int64      `json:"jobs"`
	Payments  int64      `json:"payments"` // of wallets, whatever became of them
	Faults    []string   `json:"faults"`
	Credited  money.Nano `json:"credited"` // for payments of wallets, what was taken back again left out
	Charged   money.Nano `json:"charged"`
	Shortfall money.Nano `json:"shortfall"` // delivered and not charged
	Debt      money.Nano `json:"debt"`      // of it, what is owed still
}

// Fault notes what does not add up; of many the first hundred are kept.
func (r *Report) Fault(format string, args ...any) {
	const most = 100
	if len(r.Faults) < most {
		r.Faults = append(r.Faults, fmt.Sprintf(format, args...))
	}
}

// Recount is what the store says about itself.
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
	jobs         map[jobAt]money.Parts // what jobs cost by single requests
}

// Report is what the store's books say when each is compared with the others.
func (r *Recount) Report() Report {
	report := Report{Accounts: len(r.Accounts), Jobs: r.Jobs, Payments: r.Payments, Requests: r.Requests,
		Charged: r.Charged, Credited: r.Credited, Faults: r.Faults}
	for no, c := range r.Accounts {
		report.Shortfall += c.short + c.late.Total() + c.Incurred
		report.Debt += c.Incurred - c.Paid
		c.compare(no, &report, !r.DetailBehind)
	}
	return report
}

// AccountCount adds up one account from each of the books that must agree.
type AccountCount struct {
	Avail                   map[BucketID]money.Nano
	Spent, posted, daily    money.Parts // by buckets, postings, daily usage
	detail                  money.Parts // by single requests
	late                    money.Parts // of daily, what the house paid: its lease had been taken back
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
func (c *AccountCount) compare(no uint32, r *Report, detail bool) {
	paid := c.Spent
	paid.Sub(&c.repaid)
	if paid != c.posted {
		r.Fault("account %d: spent %v by balances; %v on requests and %v on debt by postings", no, c.Spent, c.posted,
			c.repaid)
	}
	paid.Add(&c.late)
	if paid != c.daily {
		r.Fault("account %d: spent %v by balances, %v of it on debt, and late %v; %v by days", no, c.Spent, c.repaid,
			c.late, c.daily)
	}
	if c.Incurred != c.owed+c.corrected || c.Paid != c.paidOff || c.Paid != c.repaid.Total() {
		r.Fault("account %d: owed %s and paid %s of it; by postings %s for requests, %s by corrections, paid %s "+
			"with %v", no, c.Incurred, c.Paid, c.owed, c.corrected, c.paidOff, c.repaid)
	}
	if detail && c.owed != c.detailOwed {
		r.Fault("account %d: %s became debt by postings, %s by requests", no, c.owed, c.detailOwed)
	}
	if detail && paid != c.detail {
		r.Fault("account %d: spent %v by balances and late %v, %v by requests", no, c.Spent, c.late, c.detail)
	}
	if detail && paid == c.detail && c.dailyPrint != c.detailPrint {
		r.Fault("account %d: its usage by day, key and model is not that of its requests", no)
	}
	if detail && c.short != c.detailShort {
		r.Fault("account %d: shortfall %s by postings, %s by requests", no, c.short, c.detailShort)
	}
	if detail && c.dailyCount != c.detailCount {
		r.Fault("account %d: %d requests by days, %d by requests", no, c.dailyCount, c.detailCount)
	}
	c.compareMoved(no, r)
	if c.credited != c.granted {
		r.Fault("account %d: %v credited by entries, %v granted by balances", no, c.credited, c.granted)
	}
}
