package billing

import (
	"encoding/json"
	"fmt"

	"farebox/billing/money"
)

// Report is what a recount found. Faults is empty when everything adds up.
type Report struct {
	Accounts  int      `json:"accounts"`
	Loaded    int      `json:"loaded"` // of them in memory and compared, too
	OpenHolds int      `json:"openHolds"`
	Requests  int64    `json:"requests"` // whose detail is in the store
	Charged   Nano     `json:"-"`
	Shortfall Nano     `json:"-"` // delivered and not charged
	Debt      Nano     `json:"-"` // of it, what is owed still
	Faults    []string `json:"faults"`
}

// MarshalJSON writes amounts as decimal strings.
func (r Report) MarshalJSON() ([]byte, error) {
	type plain Report
	return json.Marshal(struct {
		plain
		Charged   money.Decimal `json:"charged"`
		Shortfall money.Decimal `json:"shortfall"`
		Debt      money.Decimal `json:"debt"`
	}{plain(r), money.Decimal(r.Charged), money.Decimal(r.Shortfall), money.Decimal(r.Debt)})
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (r *Report) UnmarshalJSON(b []byte) error {
	type plain Report
	var v struct {
		plain
		Charged   money.Decimal `json:"charged"`
		Shortfall money.Decimal `json:"shortfall"`
		Debt      money.Decimal `json:"debt"`
	}
	err := json.Unmarshal(b, &v)
	*r = Report(v.plain)
	r.Charged, r.Shortfall, r.Debt = Nano(v.Charged), Nano(v.Shortfall), Nano(v.Debt)
	return err
}

func (r *Report) fault(format string, args ...any) {
	const most = 100
	if len(r.Faults) < most {
		r.Faults = append(r.Faults, fmt.Sprintf(format, args...))
	}
}

// recount is what the store says about itself.
type recount struct {
	accounts map[uint32]*accountCount
	requests int64
	charged  Nano
	faults   []string
	// detailBehind: the single requests are not all written yet (of other nodes).
	detailBehind bool
}

// report is what the store's books say when each is compared with the others.
func (r *recount) report() Report {
	report := Report{Accounts: len(r.accounts), Requests: r.requests, Charged: r.charged, Faults: r.faults}
	for no, c := range r.accounts {
		report.Shortfall += c.short + c.late.Total() + c.incurred
		report.Debt += c.incurred - c.paid
		c.compare(no, &report, !r.detailBehind)
	}
	return report
}

// accountCount adds up one account from each of the books that must agree.
type accountCount struct {
	avail                   map[bucketID]Nano
	spent, posted, daily    money.Parts // by buckets, postings, daily usage
	detail                  money.Parts // by single requests
	late                    money.Parts // of daily, what the house paid: its lease had been taken back
	short, detailShort      Nano
	incurred, paid          Nano        // debt by its row
	owed, corrected         Nano        // the same by postings: of charges, and of corrections
	detailOwed              Nano        // of single requests
	paidOff                 Nano        // by postings to the debt
	repaid                  money.Parts // by postings to the balance
	dailyPrint, detailPrint usagePrint
	dailyCount, detailCount int64
	credited, granted       money.Parts
}

type bucketID struct {
	currency Currency
	day      int64
}

// compare checks that the books of the store agree about an account: I7, I9.
// Without detail the single requests are left out: some are not written yet.
func (c *accountCount) compare(no uint32, r *Report, detail bool) {
	paid := c.spent
	paid.Sub(&c.repaid)
	if paid != c.posted {
		r.fault("account %d: spent %v by balances; %v on requests and %v on debt by postings", no, c.spent, c.posted, c.repaid)
	}
	paid.Add(&c.late)
	if paid != c.daily {
		r.fault("account %d: spent %v by balances, %v of it on debt, and late %v; %v by days", no, c.spent, c.repaid, c.late, c.daily)
	}
	if c.incurred != c.owed+c.corrected || c.paid != c.paidOff || c.paid != c.repaid.Total() {
		r.fault("account %d: owed %s and paid %s of it; by postings %s for requests, %s by corrections, paid %s with %v", no, c.incurred, c.paid, c.owed, c.corrected, c.paidOff, c.repaid)
	}
	if detail && c.owed != c.detailOwed {
		r.fault("account %d: %s became debt by postings, %s by requests", no, c.owed, c.detailOwed)
	}
	if detail && paid != c.detail {
		r.fault("account %d: spent %v by balances and late %v, %v by requests", no, c.spent, c.late, c.detail)
	}
	if detail && paid == c.detail && c.dailyPrint != c.detailPrint {
		r.fault("account %d: its usage by day, key and model is not that of its requests", no)
	}
	if detail && c.short != c.detailShort {
		r.fault("account %d: shortfall %s by postings, %s by requests", no, c.short, c.detailShort)
	}
	if detail && c.dailyCount != c.detailCount {
		r.fault("account %d: %d requests by days, %d by requests", no, c.dailyCount, c.detailCount)
	}
	if c.credited != c.granted {
		r.fault("account %d: %v credited by entries, %v granted by balances", no, c.credited, c.granted)
	}
}
