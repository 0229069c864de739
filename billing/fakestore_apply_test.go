package billing

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"farebox/billing/journal"
	"farebox/billing/money"
	"farebox/billing/store"
)

func (c *fakeConn) Applied(s store.Sink) (seq uint64, err error) {
	err = c.as("Applied", func(n *fakeNode) error { seq = n.applied[s]; return nil })
	return seq, err
}

func (c *fakeConn) SoldBefore() journal.SoldBefore { return nil }

func (c *fakeConn) OpenProgress() (list []journal.Record, err error) {
	err = c.as("OpenProgress", func(n *fakeNode) error {
		for _, hold := range slices.Sorted(maps.Keys(n.progress)) {
			list = append(list, n.progress[hold])
		}
		return nil
	})
	return list, err
}

func (c *fakeConn) advance(n *fakeNode, s store.Sink, first, last uint64) (done bool) {
	if n.applied[s] >= last {
		return true
	}
	if n.applied[s] != first-1 {
		c.db.fault("node %d: %s is at %d, the batch is %d to %d", n.No, s, n.applied[s], first, last)
	}
	n.applied[s] = last
	return false
}

func (db *fakeStore) fault(format string, args ...any) {
	db.faults = append(db.faults, fmt.Sprintf(format, args...))
}

// Apply takes charges from the node's leases, then from the free balance. The rest is
// late.
func (c *fakeConn) Apply(b *store.Batch) error {
	return c.as("Apply", func(n *fakeNode) error {
		if c.advance(n, store.ToLedger, b.First, b.Last) {
			return nil
		}
		for i := range b.Rollups {
			c.db.charge(n, b, &b.Rollups[i])
		}
		for _, sum := range b.Shortfall {
			c.db.short += sum
		}
		c.db.settleDebts(n, b)
		for hold, r := range b.Progress {
			n.progress[hold] = r
		}
		for _, hold := range b.Resolved {
			delete(n.progress, hold)
		}
		return nil
	})
}

func (db *fakeStore) charge(n *fakeNode, b *store.Batch, u *store.Rollup) {
	var total money.Parts
	for s := range b.Each(u) {
		total[s.Place] += s.Amount
	}
	for place, sum := range total {
		if sum == 0 {
			continue
		}
		bucket := db.bucket(u.Account, place, u.Day)
		day := u.Day
		if place != money.InDIEM {
			day = 0
		}
		lease := fakeLease{fakeBucket{u.Account, place, day}, n.No}
		fromLease := min(sum, db.leases[lease])
		db.leases[lease] -= fromLease
		bucket.escrow -= fromLease
		fromLeft := min(sum-fromLease, bucket.avail)
		bucket.avail -= fromLeft
		bucket.spent += fromLease + fromLeft
		db.charged[place] += fromLease + fromLeft
		late := sum - fromLease - fromLeft
		db.late += late
		db.short += late
		if u.Key == 0 {
			continue
		}
		k := db.keys[u.Key-1]
		use := fakeUse{int64(u.Key), money.LimitPlace(place), u.Day}
		db.used[use] += sum
		quota := fakeQuota{n.No, int64(u.Key), money.LimitPlace(place), k.Period.Number(u.Day)}
		db.quotas[quota] -= min(sum, db.quotas[quota])
	}
}

func (c *fakeConn) AddPages(pages []*journal.Page, first, last uint64) error {
	return c.as("AddPages", func(n *fakeNode) error {
		if c.advance(n, store.ToUsage, first, last) {
			return nil
		}
		for _, p := range pages {
			if err := p.Each(nil, func(r *journal.Record) error {
				id := fmt.Sprint(n.No, "/", r.Seq)
				if c.db.seen[id] {
					c.db.fault("record %s is there twice", id)
				}
				c.db.seen[id] = true
				return nil
			}); err != nil {
				return err
			}
		}
		return nil
	})
}

func (c *fakeConn) StaleDIEM(before int32) (list []store.StaleDIEM, err error) {
	err = c.do("StaleDIEM", func() error {
		for id, b := range c.db.buckets {
			if id.place == money.InDIEM && id.day < before && b.avail > 0 {
				list = append(list, store.StaleDIEM{Account: id.account, Day: id.day})
			}
		}
		slices.SortFunc(list, func(a, b store.StaleDIEM) int {
			return cmp.Compare(a.Account, b.Account)*2 + cmp.Compare(a.Day, b.Day)
		})
		return nil
	})
	return list, err
}

func (c *fakeConn) ExpireDIEM(account uint32, day int32, _ int64) error {
	return c.do("ExpireDIEM", func() error {
		b := c.db.bucket(account, money.InDIEM, day)
		b.expired += b.avail
		b.avail = 0
		return nil
	})
}

func (c *fakeConn) Shortfall() (n Nano, err error) {
	err = c.do("Shortfall", func() error {
		n = c.db.short
		for _, d := range c.db.debts {
			n += d.incurred
		}
		return nil
	})
	return n, err
}

// Recount checks the invariants of the whole store.
func (c *fakeConn) Recounted() (done, all int64) { return 0, 0 }

func (c *fakeConn) Recount(pinned func()) (r *store.Recount, err error) {
	pinned()
	err = c.do("Recount", func() error {
		r = &store.Recount{Accounts: map[uint32]*store.AccountCount{}, Charged: c.db.charged.Total(),
			Faults: c.db.check()}
		r.Requests = int64(len(c.db.seen))
		for _, a := range c.db.accounts {
			r.Accounts[a.No] = &store.AccountCount{}
		}
		return nil
	})
	return r, err
}

func (db *fakeStore) check() []string {
	faults := slices.Clone(db.faults)
	escrow := map[fakeBucket]Nano{}
	for id, n := range db.leases {
		escrow[id.fakeBucket] += n
		if n < 0 {
			faults = append(faults, fmt.Sprintf("lease %+v is %d", id, n))
		}
	}
	for account, d := range db.debts {
		if d.paid < 0 || d.paid > d.incurred {
			faults = append(faults, fmt.Sprintf("account %d owed %d and paid %d", account, d.incurred, d.paid))
		}
	}
	for id, b := range db.buckets {
		if b.granted != b.avail+b.escrow+b.spent+b.expired || min(b.avail, b.escrow, b.spent, b.expired) < 0 {
			faults = append(faults, fmt.Sprintf("bucket %+v: %+v", id, *b))
		}
		if escrow[id] != b.escrow {
			faults = append(faults, fmt.Sprintf("bucket %+v has %d in escrow, the leases %d", id, b.escrow, escrow[id]))
		}
	}
	return faults
}

func (c *fakeConn) Debt() (n Nano, err error) {
	err = c.do("Debt", func() error { n = c.db.owed(); return nil })
	return n, err
}

func (db *fakeStore) owed() (n Nano) {
	for _, d := range db.debts {
		n += d.incurred - d.paid
	}
	return n
}

func (db *fakeStore) debt(account uint32) Nano {
	if d := db.debts[account]; d != nil {
		return d.incurred - d.paid
	}
	return 0
}

// collect pays an account's debt from its unleased balance.
func (db *fakeStore) collect(account uint32, day int32) {
	for place := range money.Currencies {
		d := db.debts[account]
		if d == nil || d.incurred == d.paid {
			return
		}
		b := db.bucket(account, place, day)
		n := min(b.avail, d.incurred-d.paid)
		b.avail -= n
		b.spent += n
		if d.paid += n; n > 0 {
			db.change(store.ChangeDebt, account, 0)
		}
	}
}

// settleDebts applies the debts of a batch.
func (db *fakeStore) settleDebts(n *fakeNode, b *store.Batch) {
	for account, more := range b.Debt {
		if db.debts[account] == nil {
			db.debts[account] = &fakeDebt{}
		}
		db.debts[account].incurred += more
		db.change(store.ChangeDebt, account, 0)
	}
	for id, amount := range b.Payments {
		at := fakeBucket{id.Account, id.Place, id.Day}
		lease := fakeLease{at, n.No}
		got := min(amount, db.leases[lease])
		db.leases[lease] -= got
		bucket := db.bucket(id.Account, id.Place, id.Day)
		bucket.escrow -= got
		bucket.avail += got
		db.collect(id.Account, id.Day)
	}
	for account := range b.Debt {
		db.collect(account, b.Day)
	}
	for id := range b.Payments {
		db.collect(id.Account, b.Day)
	}
}
