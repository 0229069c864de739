package billing

import (
	"errors"
	"fmt"
	"time"

	"farebox/billing/calendar"
	"farebox/billing/money"
	"farebox/billing/report"
	"farebox/billing/store"
)

// MoneyIn lists credits over all accounts in the order of time, or refunds, debits or grants
// of DIEM. Payments of wallets and operators' credits are credits.
type MoneyIn struct {
	Page
	Kind     string    `json:"kind,omitempty"`    // credit (default), refund, debit or grant
	Account  string    `json:"account,omitempty"` // id or name
	Currency Currency  `json:"currency,omitzero"`
	From     time.Time `json:"from,omitzero"`
	To       time.Time `json:"to,omitzero"`
}

func (m MoneyIn) carryOut(l *Ledger, _ *call) (list List[Booking], err error) {
	f := store.MoneyFilter{Currency: m.Currency, FromUs: toMicro(m.From), ToUs: toMicro(m.To), Kind: "TOP_UP"}
	if m.Kind != "" {
		f.Kind = ""
		for kind, name := range bookingKinds {
			if name == m.Kind {
				f.Kind = kind
			}
		}
	}
	if f.Kind == "" {
		return list, fmt.Errorf("%w: kind is %q; expected credit, refund, debit or grant", ErrQuery, m.Kind)
	}
	if f.Account, err = l.accountNo(m.Account); err == nil {
		err = m.after(&f.Behind.AtUs, &f.Behind.Entry)
	}
	var rows []*store.Booking
	var next *store.Booking
	if err == nil {
		rows, next, err = l.store.MoneyIn(f, m.most())
	}
	if err != nil {
		return list, fmt.Errorf("cannot list the money: %w", err)
	}
	return page(rows, next, func(b *store.Booking) string { return cursorAt(b.AtUs, b.Entry) },
		func(rows []*store.Booking) ([]Booking, error) {
			return describeAll(l, rows, func(l *Ledger, b *store.Booking, names accountNames) (Booking, error) {
				name, err := names.of(l, b.Account)
				return *bookingOf(b, name), err
			})
		})
}

// liabilityMost is how many days a list of liabilities has at most.
const liabilityMost = 366

// Liability is the balance of all accounts at the end of each UTC day, the latest first. Debt is not
// in it.
type Liability struct {
	From time.Time `json:"from,omitzero"` // default: 30 days before to
	To   time.Time `json:"to,omitzero"`   // included; default: today
}

// LiabilityDay is the balance of all accounts at the end of a day.
type LiabilityDay struct {
	Day string `json:"day"`
	money.Amounts
}

func (li Liability) carryOut(l *Ledger, _ *call) (list List[LiabilityDay], err error) {
	last := l.Today()
	if !li.To.IsZero() {
		last = min(last, calendar.DayAt(li.To))
	}
	first := last - 30
	if !li.From.IsZero() {
		first = calendar.DayAt(li.From)
	}
	list.Items = []LiabilityDay{}
	if first > last || last-first >= liabilityMost {
		return list, fmt.Errorf("%w: from is after to, or more than %d days before", ErrQuery, liabilityMost)
	}
	if err := l.catchUp(); err != nil {
		return list, err
	}
	days, err := l.store.Liability(first, last)
	if err != nil {
		return list, fmt.Errorf("cannot add up the balances: %w", err)
	}
	for _, d := range days {
		list.Items = append(list.Items, LiabilityDay{Day: time.Unix(int64(d.Day)*86400, 0).UTC().Format(time.DateOnly),
			Amounts: d.Balances.Amounts()})
	}
	return list, nil
}

// Revenue is charges less refunds, by account, model, upstream, key or day.
type Revenue struct {
	Page
	By      string    `json:"by"`
	Account string    `json:"account,omitempty"` // id or name
	From    time.Time `json:"from,omitzero"`     // UTC days, both included
	To      time.Time `json:"to,omitzero"`       // default: today
}

// RevenueRow is one sum.
type RevenueRow struct {
	ID       string `json:"id"` // of the account, key, model or upstream, or the day
	Name     string `json:"name"`
	Account  string `json:"account,omitempty"` // of a key
	Requests int64  `json:"requests"`
	money.Amounts
}

func (r Revenue) carryOut(l *Ledger, c *call) (list List[RevenueRow], err error) {
	skip := 0
	if err := r.after(&skip); err != nil {
		return list, err
	}
	sums, err := ReportUsage{report.SumQuery{Account: r.Account, From: r.From, To: r.To, By: r.By}}.carryOut(l, c)
	if err != nil {
		return list, err
	}
	if skip < 0 {
		return list, fmt.Errorf("%w: the cursor is of another list", ErrQuery)
	}
	sums = sums[min(skip, len(sums)):]
	list.Items = []RevenueRow{}
	if r.Limit > 0 && len(sums) > r.Limit {
		sums, list.Next = sums[:r.Limit], cursorAt(skip+r.Limit)
	}
	for _, s := range sums {
		list.Items = append(list.Items, RevenueRow{s.ID, s.Name, s.Account, s.Requests, s.Amounts})
	}
	return list, nil
}

// rotateMost is how long a key that was rotated stays valid at most, in hours.
const rotateMost = 30 * 24

// RotateKey makes a key with the settings of another one, which is valid for some hours more.
// The old one's use of its limits does not count for the new one.
type RotateKey struct {
	ID    string `json:"id"`
	Hours int    `json:"hours"` // 0: the old one is revoked now
}

func (r RotateKey) carryOut(l *Ledger, c *call) (k CreatedKey, err error) {
	fail := func(err error) (CreatedKey, error) {
		return CreatedKey{}, fmt.Errorf("cannot rotate the key %q: %w", r.ID, err)
	}
	if r.Hours < 0 || r.Hours > rotateMost {
		return fail(fmt.Errorf("%w: hours is %d; expected 0 to %d", ErrQuery, r.Hours, rotateMost))
	}
	old, err := l.store.KeyByID(r.ID)
	now := l.now() / 1000
	switch {
	case errors.Is(err, store.ErrNoRow):
		return fail(ErrNoKey)
	case err != nil:
		return fail(err)
	case old.Type == store.Wallet:
		return fail(ErrWalletKey)
	case old.RevokedUs != 0 || old.ExpiresUs != 0 && old.ExpiresUs <= now:
		return fail(errors.New("it is not valid any more: create a new one"))
	}
	a, err := l.account(old.Account)
	if err == nil {
		err = refusal(a.knownStatus())
	}
	if err != nil {
		return fail(err)
	}
	next := *old
	k.Secret = newSecret(l.brand, old.Type, c.secretOf(l))
	next.No, next.ID, next.CreatedUs, next.LastUsedUs = 0, newUUID(), now, 0
	next.Digest, next.Last6 = l.hasher.digest([]byte(k.Secret)), k.Secret[len(k.Secret)-6:]
	k.Info = keyInfo(&next)
	c.key(old)
	c.entry.AnswerFunc = jsonOf(fixed(CreatedKey{Info: k.Info}))
	ends := now + int64(r.Hours)*int64(time.Hour/time.Microsecond)
	if err := c.store.RotateKey(old, &next, ends, now, store.MaxActiveKeys); err != nil {
		return fail(err)
	}
	l.registry.reads.announce(next.Digest)
	if old, err = l.store.KeyByID(r.ID); err == nil {
		err = l.Accounts().enforceKey(old)
	}
	if err != nil {
		return k, fmt.Errorf("the key %q is rotated, but cannot be read: %w", r.ID, err)
	}
	return k, nil
}

// reveal gives the secret again.
func (r RotateKey) reveal(l *Ledger, c *call, k *CreatedKey) {
	k.Secret = newSecret(l.brand, k.Info.Type, c.secretOf(l))
}
