package billing

import (
	"cmp"
	"errors"
	"slices"
	"sync"
	"time"

	"farebox/billing/calendar"
	"farebox/billing/money"
	"farebox/billing/store"
)

// Audit recounts the money: the invariants of the notes (5.2) that apply to
// one node, in memory, in the journal and in the store. All accounts that are
// in memory are locked meanwhile.
func (l *Ledger) Audit() (store.Report, error) {
	l.operating.Lock()
	defer l.operating.Unlock()
	if l.node != nil {
		l.node.queue.ops.Lock()
		defer l.node.queue.ops.Unlock()
		if !l.node.queue.finish() {
			return store.Report{}, errors.New(
				"cannot recount: the outcome of a lease operation is not known, the store does not answer")
		}
	}
	r := l.registry
	r.mu.Lock()
	defer r.mu.Unlock()
	loaded := make([]*AccountState, 0, len(r.accounts))
	for _, a := range r.accounts {
		loaded = append(loaded, a)
	}
	slices.SortFunc(loaded, func(a, b *AccountState) int { return cmp.Compare(a.no, b.no) })
	for _, a := range loaded {
		a.mu.Lock()
		defer a.mu.Unlock()
	}
	// Nobody can append now: every record is written under an account's lock.
	if err := l.project.drain(); err != nil {
		return store.Report{}, err
	}
	count, err := l.store.Recount(func() {})
	if err != nil {
		return store.Report{}, err
	}
	if l.node != nil {
		return l.node.audit(loaded, count)
	}
	report := count.Report()
	report.Loaded = len(loaded)
	open, held := 0, Nano(0)
	for _, a := range loaded {
		c := count.Accounts[a.no]
		if c != nil && a.refill > 0 {
			// An allowance that nothing has drawn on yet is in no bucket.
			row, err := l.store.Account(a.no, a.day)
			if err != nil {
				return report, err
			}
			c.Avail[store.BucketID{Currency: DIEM, Day: calendar.Date(a.day)}] = row.Avail[money.InDIEM]
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
	if s := l.Stats(); s.OpenHolds != open || s.Held != held || s.Shortfall != report.Shortfall ||
		s.Debt != report.Debt {
		report.Fault("figures: %d open holds with %s, shortfall %s and debt %s, counted %d with %s, %s and %s",
			s.OpenHolds, s.Held, s.Shortfall, s.Debt, open, held, report.Shortfall, report.Debt)
	}
	return report, nil
}

// Verify recounts the books of the store, each by itself, and compares them.
// With nothing else going on, memory and the journal are compared with them,
// too; during traffic that would stop every account meanwhile.
type Verify struct{}

func (Verify) carryOut(l *Ledger, c *call) (report store.Report, err error) {
	if !l.verifying.CompareAndSwap(false, true) {
		return report, ErrVerifying
	}
	defer l.verifying.Store(false)
	v := Verification{StartedAt: fromMicro(l.now() / 1000), By: c.By.Name}
	running := v
	l.verification.Store(&running)
	report, err = l.verify()
	if v.EndedAt = fromMicro(l.now() / 1000); err != nil {
		v.Error = err.Error()
	} else {
		v.Report = &report
	}
	l.verification.Store(&v)
	return report, err
}

// ErrVerifying refuses a second recount during the first.
var ErrVerifying = errors.New("a recount is running; GET /verify shows how far it is")

// Verification is the recount that runs on this node, or the last one.
type Verification struct {
	StartedAt time.Time     `json:"started_at,omitzero"` // zero: none since the start of the process
	EndedAt   time.Time     `json:"ended_at,omitzero"`   // zero: it runs
	By        string        `json:"by,omitempty"`
	Counted   int64         `json:"counted"`  // single requests
	Requests  int64         `json:"requests"` // that it counts
	Report    *store.Report `json:"report,omitempty"`
	Error     string        `json:"error,omitempty"`
}

// GetVerification asks how far a recount is, and for the result of the last one.
type GetVerification struct{}

func (GetVerification) carryOut(l *Ledger, c *call) (v Verification, err error) {
	if last := l.verification.Load(); last != nil {
		v = *last
		v.Counted, v.Requests = l.store.Recounted()
	}
	return v, nil
}

func (l *Ledger) verify() (store.Report, error) {
	if l.idle && l.journal != nil {
		return l.Audit()
	}
	count, err := l.countStore()
	if err != nil {
		return store.Report{}, err
	}
	return count.Report(), nil
}

// countStore recounts the store. Where this process writes to it, that is at a
// moment when the detail is as far as the balances, so that they can be compared.
func (l *Ledger) countStore() (*store.Recount, error) {
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

// audit compares memory with the store: spendable and held money in memory is
// the store's. The caller holds the account's lock.
func (a *AccountState) audit(c *store.AccountCount, r *store.Report) (open int, held Nano) {
	if c == nil {
		r.Fault("account %d: in memory but not in the store", a.no)
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
	past := stale[money.InDIEM]
	stale[money.InDIEM] = 0
	current.Add(&stale)
	if current != a.held || past != a.stale {
		r.Fault("account %d: holds add up to %v and %s of past days, the account says %v and %s", a.no, current,
			past, a.held, a.stale)
	}
	for place, currency := range money.SpendOrder {
		day := int64(0)
		if place == money.InDIEM {
			day = calendar.Date(a.day)
		}
		stored := c.Avail[store.BucketID{Currency: currency, Day: day}]
		if a.avail[place] < 0 || a.held[place] < 0 || a.avail[place]+a.held[place] != stored {
			r.Fault("account %d: %s %s spendable and %s held in memory, %s in the store", a.no, currency,
				a.avail[place], a.held[place], stored)
		}
	}
	if owed := c.Incurred - c.Paid; a.debt != owed {
		r.Fault("account %d: owes %s in memory, %s in the store", a.no, a.debt, owed)
	}
	if a.spent != c.Spent {
		r.Fault("account %d: spent %v in memory, %v in the store", a.no, a.spent, c.Spent)
	}
	return open, held
}

// auditKey compares the used part of a key's limits with the store (I11).
// The caller holds its account's lock.
func (l *Ledger) auditKey(k *Key, r *store.Report) error {
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
	if diem, usd := used.ByLimit(); usd != u.quota.usd || diem != u.quota.diem {
		r.Fault("key %d: used %s USD and %s DIEM in memory, %s and %s by days and holds", k.No, u.quota.usd,
			u.quota.diem, usd, diem)
	}
	return nil
}
