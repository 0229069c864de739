package billing

import (
	"sync"
	"time"

	"farebox/billing/money"
	"farebox/billing/store"
	"farebox/billing/window"
)

// AccountState is an account in memory: its balances, its held money and its
// rate windows. There is exactly one for each account that has been used since
// the start, and it never leaves memory, so no decision here uses an old copy.
// Its mutex guards its keys' counters, too: all limits of a request are checked
// and committed under this one lock.
type AccountState struct {
	// The fields that every request touches come first, in three cache lines: with many
	// accounts a request mostly waits for those.
	mu      sync.Mutex
	day     int32 // the UTC day that avail[inDIEM] belongs to; never goes back
	no      uint32
	avail   money.Parts // spendable now
	held    money.Parts // by open holds
	spent   money.Parts // since the account exists
	stale   Nano        // DIEM of past days in open holds
	lastSeq uint64      // of its last settlement in the journal
	open    *Hold       // ring of open holds, see link
	lease   *lease      // on a shared store: where the rest of the money is
	opened  int32
	slot    int32 // of the first model that it used, whose window is here
	first   window.Window
	ledger  *Ledger
	debt    Nano // owed, on an embedded store; see debt.go

	loose   Nano                    // money in open holds for prompts that were bounded, not counted
	refill  Nano                    // DIEM that a new day begins with
	later   map[int32]store.DayDIEM // days that have begun before, when the clock was ahead; mostly nil
	slots   []int32                 // of the further models, same index as windows
	windows []window.Window

	ID      string
	name    string              // guarded by registry.mu
	credits *window.Hours       // nil: none were ever counted
	deletes bool                // keys; guarded by registry.mu
	paid    bool                // it was ever credited; see Paid
	status  store.AccountStatus // guarded by registry.mu; its keys' gates say the same
	_       [77]byte            // up to a size that begins with a pair of cache lines
}

// No is the account's number in the store.
func (a *AccountState) No() uint32 { return a.no }

// Number tells the account from all others of this process; it is never 0.
func (a *AccountState) Number() uint64 { return uint64(a.no) + 1 }

// Paid says that the account was ever credited, in any currency, or has an allowance
// of DIEM. A paid account has a share of its own in shared resources
// (config/fair). It never becomes unpaid.
func (a *AccountState) Paid() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.paid {
		a.paid = a.refill > 0 || a.balance()+a.spent.Total()+a.stale > 0
	}
	return a.paid
}

// balance is the account's money, held money included.
func (a *AccountState) balance() Nano {
	n := a.avail.Total() + a.held.Total()
	if a.lease != nil {
		n += a.lease.unleased.Total() + a.lease.others.Total()
	}
	return n
}

// roll begins a new UTC day: the DIEM of the old one are gone, its allowance
// comes (addendum 19.1).
// Open holds keep theirs.
func (a *AccountState) roll(day int32) {
	if day <= a.day {
		return
	}
	diem := a.refill
	if a.lease != nil {
		a.lease.beginDay(a)
		diem = 0
	} else if d, begun := a.later[day]; begun {
		diem = d.Left(a.refill)
	}
	a.day = day
	a.avail[money.InDIEM] = diem
	a.stale += a.held[money.InDIEM]
	a.held[money.InDIEM] = 0
	if a.owes() {
		a.pay(a.ledger.at())
	}
}

// window gives the account's window of a model; nil for a slot below 0. It is
// valid until the next call.
func (a *AccountState) window(slot int) *window.Window {
	if slot < 0 {
		return nil
	}
	if a.slot == int32(slot) {
		return &a.first
	}
	if a.slot == noSlot {
		a.slot = int32(slot)
		return &a.first
	}
	for i, s := range a.slots {
		if s == int32(slot) {
			return &a.windows[i]
		}
	}
	a.slots = append(a.slots, int32(slot))
	a.windows = append(a.windows, window.Window{})
	return &a.windows[len(a.windows)-1]
}

const noSlot = -1

// give moves the held amounts of h from the balance, or back with take.
func (a *AccountState) give(h *Hold, p *money.Parts) {
	a.avail.Sub(p)
	a.held.Add(p)
	h.parts.Add(p)
	h.key.use.count(p, 1, h)
}

// giveBack returns the rest of h. DIEM of a past day are not spendable any
// more and expire.
func (a *AccountState) giveBack(h *Hold) {
	p := h.parts
	limited := h.limited()
	h.key.use.count(&limited, -1, h)
	h.parts, h.beyond = money.Parts{}, 0
	if h.day != a.day {
		if a.lease != nil {
			a.lease.rest(store.Want{Account: a.no, Day: h.day, Amounts: money.Parts{money.InDIEM: p[money.InDIEM]}})
		}
	}
	a.unhold(h.day, &p)
	a.avail.Add(&p)
}

// unhold takes amounts of a hold of a day off the held money. DIEM of a past day go from p.
func (a *AccountState) unhold(day int32, p *money.Parts) {
	if day != a.day {
		a.stale -= p[money.InDIEM]
		p[money.InDIEM] = 0
	}
	a.held.Sub(p)
}

// charge takes cost from the money of h, and the rest from the balance, as far
// as the key's limits go. The uncovered part is owed.
func (a *AccountState) charge(h *Hold, cost Nano) (charged money.Parts, owed Nano) {
	charged = h.chargeable(cost)
	h.parts.Sub(&charged)
	held := charged
	a.unhold(h.day, &held)
	rest := cost - charged.Total()
	if rest <= 0 {
		a.spent.Add(&charged)
		return charged, 0
	}
	// The charge is booked in the day of the hold; the DIEM of another day have
	// nothing to do with it.
	free := a.avail
	if h.day != a.day {
		free[money.InDIEM] = 0
	}
	diem, usd := h.key.use.roomFor(h)
	more, _ := a.divide(&free, diem, usd, rest, 1)
	a.avail.Sub(&more)
	h.key.use.count(&more, 1, h)
	charged.Add(&more)
	a.spent.Add(&charged)
	return charged, max(0, min(cost-charged.Total(), maxDebt-a.owed()))
}

// link puts h into the ring of open holds, which is how a recount finds them
// and how one that was forgotten is noticed.
func (a *AccountState) link(h *Hold) {
	if a.open == nil {
		h.next, h.prev = h, h
		a.open = h
	} else {
		h.next, h.prev = a.open, a.open.prev
		h.prev.next, h.next.prev = h, h
	}
	a.opened++
}

func (a *AccountState) unlink(h *Hold) {
	a.opened--
	if h.next == h {
		a.open = nil
	} else {
		h.next.prev, h.prev.next = h.prev, h.next
		if a.open == h {
			a.open = h.next
		}
	}
	h.next, h.prev = nil, nil
}

// Name is the name of the account now.
func (a *AccountState) Name() string {
	r := a.ledger.registry
	r.mu.Lock()
	defer r.mu.Unlock()
	return a.name
}

// rename brings a new name into force in this process.
func (a *AccountState) rename(name string) {
	r := a.ledger.registry
	r.mu.Lock()
	defer r.mu.Unlock()
	a.name = name
}

// Account is an account as an operator creates it.
type Account struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// AccountInfo is an account with its money. Balances are spendable now, Held is
// set aside by open holds, Spent is all charges since the account exists, in all
// currencies together, payments of its debt included.
//
// On a shared store balances are the money that is leased to no node, and
// Leased is the money of nodes: the amounts of their open holds and of their
// unreported charges are in it. Held is 0 then.
type AccountInfo struct {
	Account
	CreatedAt time.Time `json:"created_at"`
	Allowance Nano      `json:"diem_daily"` // DIEM of each UTC day
	money.Amounts
	Leased   Leased              `json:"leased"`
	Held     Nano                `json:"held"`
	Spent    Nano                `json:"spent"`
	Debt     Nano                `json:"debt"` // owed for requests that cost more than could be charged
	Status   store.AccountStatus `json:"status"`
	StatusAt time.Time           `json:"status_at,omitzero"` // zero: open from the beginning
}

// Leased is the money of an account that is at the nodes of a shared store.
type Leased struct{ money.Amounts }

// Types of package money that this room uses in every file.
type (
	// Nano is money.Nano.
	Nano = money.Nano
	// Currency is money.Currency.
	Currency = money.Currency
)

// The currencies that an account can hold.
const (
	USD     = money.USD
	DIEM    = money.DIEM
	Bundled = money.Bundled
)

// ParseCurrency reads the name of a currency in any case.
func ParseCurrency(s string) (Currency, error) { return money.ParseCurrency(s) }

// Schema is the version of the store's schema that this farebox reads and writes.
const Schema = store.Version
