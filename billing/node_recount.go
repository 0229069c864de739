package billing

import (
	"fmt"
	"slices"

	"farebox/billing/money"
	"farebox/billing/store"
)

// When the leases of a node were taken back while it was away, the money in its
// memory is not its own any more. It stops, brings the store up to date, and
// adopts the store's word for each account: leased money less held money is
// free. Holds that the leases do not cover any more are made smaller; the house
// pays the cost of their requests beyond that.

// recount does so for all accounts in memory. The lease queue calls it: no lease
// operation is under way.
func (n *node) recount() bool {
	list := n.l.allLoaded()
	if err := n.l.project.catchUp(); err != nil {
		n.heard(err)
		return false
	}
	for _, a := range list {
		if err := n.recountAccount(a); err != nil {
			n.heard(err)
			return false
		}
	}
	n.state.CompareAndSwap(nodeSuspended, nodeOpen)
	n.l.log.Info().Int("accounts", len(list)).Msg("the leases of this node are counted anew")
	return true
}

func (n *node) recountAccount(a *AccountState) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.lease
	a.roll(n.day.Load())
	if a.opened == 0 && a.avail == (money.Parts{}) && len(s.rests) == 0 && len(s.limited) == 0 {
		return nil
	}
	// Nobody appends records of this account now.
	if a.lastSeq > n.l.project.ledgerSeq.Load() {
		if err := n.l.project.catchUp(); err != nil {
			return err
		}
	}
	list, err := n.store.Funds([]uint32{a.no}, a.day)
	if err != nil {
		return err
	}
	if missing := s.uncovered(a, list); len(missing) > 0 {
		n.queue.op++
		o := &operation{no: n.queue.op, wants: missing}
		o.takeAccount(a)
		if _, err := n.store.Grant(o.no, o.wants); err != nil {
			n.queue.pending = o // its grants are counted with the next recount
			return fmt.Errorf("cannot cover open holds: %w", err)
		}
		if list, err = n.store.Funds([]uint32{a.no}, a.day); err != nil {
			return err
		}
	}
	s.restate(a, list)
	return nil
}

// uncovered is the money of open holds that the leases do not cover.
func (s *lease) uncovered(a *AccountState, list []store.Funds) (missing []store.Want) {
	w := store.Want{Account: a.no, Day: a.day, Amounts: a.held}
	quotas := s.heldQuotas(a)
	for i := range list {
		f := &list[i]
		if f.Key == 0 && f.Day == a.day {
			w.Amounts.Sub(&f.Lease)
		}
		for j := range quotas {
			if quotas[j].Key == f.Key && quotas[j].Period == f.Period {
				quotas[j].Amounts.Sub(&f.Lease)
			}
		}
	}
	for _, w := range append([]store.Want{w}, quotas...) {
		for i := range w.Amounts {
			w.Amounts[i] = max(0, w.Amounts[i])
		}
		if w.Amounts != (money.Parts{}) {
			missing = append(missing, w)
		}
	}
	return missing
}

// heldQuotas is the use by open holds of the limits of keys in their period.
func (s *lease) heldQuotas(a *AccountState) (list []store.Want) {
	for _, u := range s.limited {
		w := store.Want{Account: a.no, Key: u.lease.key, Period: u.quota.period}
		for h, n := a.open, a.opened; n > 0; h, n = h.next, n-1 {
			if h.key.use != u || u.kind.Number(h.day) != u.quota.period || h.regime != u.regime {
				continue
			}
			held := u.lease.of(h.parts.ByLimit())
			w.Amounts.Add(&held)
		}
		list = append(list, w)
	}
	return list
}

// restate takes the leases from the store: everything is applied, and none
// but the caller holds the account.
func (s *lease) restate(a *AccountState, list []store.Funds) {
	s.rests = nil
	var have money.Parts // of this day
	quotas := s.heldQuotas(a)
	for i := range quotas {
		u := s.limited[i]
		u.quota.usd, u.quota.diem = quotas[i].Amounts[money.InUSD], quotas[i].Amounts[money.InDIEM]
		u.empty()
	}
	for i := range list {
		f := &list[i]
		switch {
		case f.Key == 0 && f.Day == a.day:
			have = f.Lease
			s.know(a, f, s.node.applied())
		case f.Key == 0:
			held := a.heldOf(f.Day)
			a.shrink(f.Day, money.Parts{money.InDIEM: max(0, held-f.Lease[money.InDIEM])})
			s.rest(store.Want{Account: a.no, Day: f.Day, Amounts: money.Parts{money.InDIEM: max(0,
				f.Lease[money.InDIEM]-held)}})
		default:
			s.restateQuota(a, f)
		}
	}
	for h, n := a.open, a.opened; n > 0; h, n = h.next, n-1 {
		if !slices.ContainsFunc(list, func(f store.Funds) bool { return f.Key == 0 && f.Day == h.day }) &&
			h.day != a.day {
			a.shrink(h.day, money.Parts{money.InDIEM: h.parts[money.InDIEM]})
		}
	}
	var lost money.Parts
	for i := range have {
		lost[i] = max(0, a.held[i]-have[i])
	}
	a.shrink(a.day, lost)
	a.avail = have
	a.avail.Sub(&a.held)
}

func (s *lease) restateQuota(a *AccountState, f *store.Funds) {
	for _, u := range s.limited {
		if u.lease.key == f.Key && u.quota.period == f.Period {
			if u.lease.usd {
				u.mostUSD = f.Lease[money.InUSD]
			}
			if u.lease.diem {
				u.mostDIEM = f.Lease[money.InDIEM]
			}
			u.lease.unleased, u.lease.others = f.Avail, f.Others
			return
		}
	}
	s.rest(store.Want{Account: a.no, Key: f.Key, Period: f.Period, Amounts: f.Lease})
}

// heldOf is the DIEM of a day in open holds.
func (a *AccountState) heldOf(day int32) (sum Nano) {
	for h, n := a.open, a.opened; n > 0; h, n = h.next, n-1 {
		if h.day == day {
			sum += h.parts[money.InDIEM]
		}
	}
	return sum
}

// shrink takes amounts out of open holds; DIEM out of those of day.
func (a *AccountState) shrink(day int32, lost money.Parts) {
	for h, n := a.open, a.opened; n > 0; h, n = h.next, n-1 {
		cut := lost
		if h.day != day {
			cut[money.InDIEM] = 0
		}
		for i := range cut {
			cut[i] = min(cut[i], h.parts[i])
		}
		if cut == (money.Parts{}) {
			continue
		}
		lost.Sub(&cut)
		h.parts.Sub(&cut)
		h.key.use.count(&cut, -1, h)
		a.ledger.journal.Unhold(cut.Total())
		a.unhold(h.day, &cut)
	}
}
