package billing

import (
	"fmt"
	"slices"

	"farebox/billing/money"
)

// When the leases of a node were taken back while it was away, what it holds
// in memory is not its own any more. It stands still, brings the store up to
// date, and takes the store's word for each account: what is leased there less
// what is held here is free. Holds that the leases do not cover any more are
// made smaller; what their requests cost beyond that is the house's.

// recount does so for all accounts in memory. The desk calls it: no lease
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
		n.desk.op++
		o := &operation{no: n.desk.op, wants: missing}
		o.own(a)
		if _, err := n.store.Grant(o.no, o.wants); err != nil {
			n.desk.pending = o // what it grants is counted with the next recount
			return fmt.Errorf("cannot cover open holds: %w", err)
		}
		if list, err = n.store.Funds([]uint32{a.no}, a.day); err != nil {
			return err
		}
	}
	s.restate(a, list)
	return nil
}

// uncovered is what open holds have and the leases do not.
func (s *lease) uncovered(a *AccountState, list []funds) (missing []want) {
	w := want{account: a.no, day: a.day, amounts: a.held}
	quotas := s.heldQuotas(a)
	for i := range list {
		f := &list[i]
		if f.key == 0 && f.day == a.day {
			w.amounts.Sub(&f.lease)
		}
		for j := range quotas {
			if quotas[j].key == f.key && quotas[j].period == f.period {
				quotas[j].amounts.Sub(&f.lease)
			}
		}
	}
	for _, w := range append([]want{w}, quotas...) {
		for i := range w.amounts {
			w.amounts[i] = max(0, w.amounts[i])
		}
		if w.amounts != (money.Parts{}) {
			missing = append(missing, w)
		}
	}
	return missing
}

// heldQuotas is what open holds use of the limits of keys in their period.
func (s *lease) heldQuotas(a *AccountState) (list []want) {
	for _, u := range s.limited {
		w := want{account: a.no, key: u.lease.key, period: u.quota.period}
		for h, n := a.open, a.opened; n > 0; h, n = h.next, n-1 {
			if h.key.use != u || u.kind.number(h.day) != u.quota.period || h.regime != u.regime {
				continue
			}
			if u.lease.usd {
				w.amounts[money.InUSD] += h.parts[money.InBundled] + h.parts[money.InUSD]
			}
			if u.lease.diem {
				w.amounts[money.InDIEM] += h.parts[money.InDIEM]
			}
		}
		list = append(list, w)
	}
	return list
}

// restate takes the leases from the store: everything is applied, and nobody
// but the caller holds the account.
func (s *lease) restate(a *AccountState, list []funds) {
	s.rests = nil
	var have money.Parts // of this day
	quotas := s.heldQuotas(a)
	for i := range quotas {
		u := s.limited[i]
		u.quota.usd, u.quota.diem = quotas[i].amounts[money.InUSD], quotas[i].amounts[money.InDIEM]
		u.empty()
	}
	for i := range list {
		f := &list[i]
		switch {
		case f.key == 0 && f.day == a.day:
			have = f.lease
			s.know(a, f)
		case f.key == 0:
			held := a.heldOf(f.day)
			a.shrink(f.day, money.Parts{money.InDIEM: max(0, held-f.lease[money.InDIEM])})
			s.rest(want{account: a.no, day: f.day, amounts: money.Parts{money.InDIEM: max(0, f.lease[money.InDIEM]-held)}})
		default:
			s.restateQuota(a, f)
		}
	}
	for h, n := a.open, a.opened; n > 0; h, n = h.next, n-1 {
		if !slices.ContainsFunc(list, func(f funds) bool { return f.key == 0 && f.day == h.day }) && h.day != a.day {
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

func (s *lease) restateQuota(a *AccountState, f *funds) {
	for _, u := range s.limited {
		if u.lease.key == f.key && u.quota.period == f.period {
			if u.lease.usd {
				u.mostUSD = f.lease[money.InUSD]
			}
			if u.lease.diem {
				u.mostDIEM = f.lease[money.InDIEM]
			}
			u.lease.unleased, u.lease.others = f.avail, f.others
			return
		}
	}
	s.rest(want{account: a.no, key: f.key, period: f.period, amounts: f.lease})
}

// heldOf is what open holds have of the DIEM of a day.
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
		if h.day != a.day {
			a.stale -= cut[money.InDIEM]
			a.held[money.InBundled] -= cut[money.InBundled]
			a.held[money.InUSD] -= cut[money.InUSD]
		} else {
			a.held.Sub(&cut)
		}
	}
}
