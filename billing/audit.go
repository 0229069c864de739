package billing

import (
	"encoding/json"
	"errors"
	"farebox/billing/calendar"
	"farebox/billing/money"
	"fmt"
	"slices"
	"sync"
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

// Audit recounts the money: the invariants of the notes (5.2) that apply to
// one node, in memory, in the journal and in the store. All accounts that are
// in memory stand still meanwhile.
func (l *Ledger) Audit() (Report, error) {
	l.operating.Lock()
	defer l.operating.Unlock()
	if l.node != nil {
		l.node.desk.ops.Lock()
		defer l.node.desk.ops.Unlock()
		if !l.node.desk.finish() {
			return Report{}, errors.New("cannot recount: the outcome of a lease operation is not known, the store does not answer")
		}
	}
	r := l.registry
	r.mu.Lock()
	defer r.mu.Unlock()
	loaded := make([]*AccountState, 0, len(r.accounts))
	for _, a := range r.accounts {
		loaded = append(loaded, a)
	}
	slices.SortFunc(loaded, func(a, b *AccountState) int { return compare(a.no, b.no) })
	for _, a := range loaded {
		a.mu.Lock()
		defer a.mu.Unlock()
	}
	// Nobody can append now: every record is written under an account's lock.
	if err := l.project.drain(); err != nil {
		return Report{}, err
	}
	count, err := l.store.Recount(func() {})
	if err != nil {
		return Report{}, err
	}
	if l.node != nil {
		return l.node.audit(loaded, count)
	}
	report := count.report()
	report.Loaded = len(loaded)
	open, held := 0, Nano(0)
	for _, a := range loaded {
		c := count.accounts[a.no]
		if c != nil && a.refill > 0 {
			// An allowance that nothing has drawn on yet is in no bucket.
			row, err := l.store.Account(a.no, a.day)
			if err != nil {
				return report, err
			}
			c.avail[bucketID{DIEM, calendar.Date(a.day)}] = row.avail[money.InDIEM]
		}
		n, sum := a.audit(c, &report)
		open += n
		held += sum
	}
	for _, k := range r.byNo {
		if err := l.auditKey(k, &report); err != nil {
			return report, err
		}
	}
	report.OpenHolds = open
	if s := l.Stats(); s.OpenHolds != open || s.Held != held || s.Shortfall != report.Shortfall || s.Debt != report.Debt {
		report.fault("figures: %d open holds with %s, shortfall %s and debt %s, counted %d with %s, %s and %s",
			s.OpenHolds, s.Held, s.Shortfall, s.Debt, open, held, report.Shortfall, report.Debt)
	}
	return report, nil
}

// Verify recounts the books of the store, each by itself, and compares them.
// With nothing else going on, what is in memory and in the journal is compared
// with them, too; beside traffic that would stop every account meanwhile.
func (l *Ledger) Verify() (Report, error) {
	if l.idle && l.journal != nil {
		return l.Audit()
	}
	count, err := l.countStore()
	if err != nil {
		return Report{}, err
	}
	return count.report(), nil
}

// countStore recounts the store. Where this process writes to it, that is at a
// moment when the detail is as far as the balances, so that they can be compared.
func (l *Ledger) countStore() (*recount, error) {
	if l.journal == nil {
		return l.store.Recount(func() {})
	}
	p := l.project
	if err := p.drain(); err != nil {
		return nil, err
	}
	p.mu.Lock()
	release := sync.OnceFunc(p.mu.Unlock)
	defer release()
	if err := p.level(); err != nil {
		return nil, err
	}
	return l.store.Recount(release)
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

// audit compares memory with the store: what is spendable or held in memory is
// what the store has. The caller holds the account's lock.
func (a *AccountState) audit(c *accountCount, r *Report) (open int, held Nano) {
	if c == nil {
		r.fault("account %d: in memory but not in the store", a.no)
		return 0, 0
	}
	var current, stale money.Parts
	for h := a.open; open < int(a.opened); h = h.next {
		open++
		held += h.parts.Total()
		if h.day == a.day {
			current.Add(&h.parts)
		} else {
			stale.Add(&h.parts)
		}
	}
	current[money.InBundled] += stale[money.InBundled]
	current[money.InUSD] += stale[money.InUSD]
	if current != a.held || stale[money.InDIEM] != a.stale {
		r.fault("account %d: holds add up to %v and %s of past days, the account says %v and %s", a.no, current, stale[money.InDIEM], a.held, a.stale)
	}
	for place, currency := range money.SpendOrder {
		day := int64(0)
		if place == money.InDIEM {
			day = calendar.Date(a.day)
		}
		stored := c.avail[bucketID{currency, day}]
		if a.avail[place] < 0 || a.held[place] < 0 || a.avail[place]+a.held[place] != stored {
			r.fault("account %d: %s %s spendable and %s held in memory, %s in the store", a.no, currency, a.avail[place], a.held[place], stored)
		}
	}
	if owed := c.incurred - c.paid; a.debt != owed {
		r.fault("account %d: owes %s in memory, %s in the store", a.no, a.debt, owed)
	}
	if a.spent != c.spent {
		r.fault("account %d: spent %v in memory, %v in the store", a.no, a.spent, c.spent)
	}
	return open, held
}

// auditKey compares what a key has used of its limits with the store (I11).
// The caller holds its account's lock.
func (l *Ledger) auditKey(k *Key, r *Report) error {
	if k.LimitUSD == nil && k.LimitDIEM == nil {
		return nil
	}
	a := k.Account
	u := k.use
	u.roll(a.day)
	used, err := l.keyUsed(k, u.kind, a.day)
	if err != nil {
		return err
	}
	if usd := used[money.InBundled] + used[money.InUSD]; usd != u.quota.usd || used[money.InDIEM] != u.quota.diem {
		r.fault("key %d: used %s USD and %s DIEM in memory, %s and %s by days and holds", k.No, u.quota.usd, u.quota.diem, usd, used[money.InDIEM])
	}
	return nil
}
