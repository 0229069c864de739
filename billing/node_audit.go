package billing

import (
	"farebox/billing/money"
	"farebox/billing/store"
)

// audit compares this node's memory with its leases: every nano is
// free, held, on its way back, or charged. The caller holds all accounts, and
// everything is applied.
func (n *node) audit(loaded []*AccountState, count *store.Recount) (store.Report, error) {
	report := count.Report()
	report.Loaded = len(loaded)
	rows := map[uint32][]store.Funds{}
	list, err := n.store.Funds(nil, n.day.Load())
	if err != nil {
		return report, err
	}
	for _, f := range list {
		rows[f.Account] = append(rows[f.Account], f)
	}
	held := Nano(0)
	for _, a := range loaded {
		report.OpenHolds += int(a.opened)
		held += a.auditLease(rows[a.no], &report)
		delete(rows, a.no)
	}
	for number, list := range rows {
		report.Fault("account %d: this node has leases on it, %v and others, but does not know it", number, list[0])
	}
	if s := n.l.Stats(); s.OpenHolds != report.OpenHolds || s.Held != held {
		report.Fault("figures: %d open holds with %s, counted %d with %s", s.OpenHolds, s.Held, report.OpenHolds, held)
	}
	return report, nil
}

// leaseID tells the leases of an account apart.
type leaseID struct {
	key         int64
	day, period int32
	place       int
}

func (a *AccountState) auditLease(rows []store.Funds, r *store.Report) (held Nano) {
	want, have := map[leaseID]Nano{}, map[leaseID]Nano{}
	add := func(m map[leaseID]Nano, key int64, day, period int32, p money.Parts) {
		for place, n := range p {
			if n == 0 {
				continue
			}
			id := leaseID{key, 0, period, place}
			if key == 0 && place == money.InDIEM {
				id.day = day
			}
			if m[id] += n; m[id] == 0 {
				delete(m, id)
			}
		}
	}
	for _, f := range rows {
		add(have, f.Key, f.Day, f.Period, f.Lease)
	}
	add(want, 0, a.day, 0, a.avail)
	for _, w := range a.lease.rests {
		add(want, w.Key, w.Day, w.Period, w.Amounts)
	}
	var current money.Parts
	stale := Nano(0)
	for h, n := a.open, a.opened; n > 0; h, n = h.next, n-1 {
		held += h.parts.Total()
		add(want, 0, h.day, 0, h.parts)
		p := h.parts
		if h.day != a.day {
			stale += p[money.InDIEM]
			p[money.InDIEM] = 0
		}
		current.Add(&p)
	}
	if current != a.held || stale != a.stale {
		r.Fault("account %d: holds add up to %v and %s of past days, the account says %v and %s", a.no, current, stale,
			a.held, a.stale)
	}
	for i, n := range a.avail {
		if n < 0 || a.held[i] < 0 {
			r.Fault("account %d: %s %s are free and %s held", a.no, money.SpendOrder[i], n, a.held[i])
		}
	}
	for _, w := range a.lease.heldQuotas(a) {
		add(want, w.Key, 0, w.Period, w.Amounts)
	}
	for _, u := range a.lease.limited {
		add(want, u.lease.key, 0, u.quota.period, u.lease.of(u.room()))
	}
	for id, n := range want {
		if have[id] != n && id.key == 0 {
			r.Fault("account %d: %s of lease %+v in memory, %s in the store", a.no, n, id, have[id])
		}
	}
	for id, n := range have {
		if _, known := want[id]; !known && id.key == 0 {
			r.Fault("account %d: %s of lease %+v in the store, nothing in memory", a.no, n, id)
		}
		if id.key != 0 && want[id] > n {
			r.Fault("account %d: %s of limit %+v in memory, %s in the store", a.no, want[id], id, n)
		}
	}
	return held
}
