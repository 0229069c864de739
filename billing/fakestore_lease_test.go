package billing

import (
	"errors"
	"slices"
	"time"

	"farebox/billing/journal"
	"farebox/billing/money"
	"farebox/billing/store"
)

func (c *fakeConn) Join(id, name string, ttl time.Duration) (no, inc uint32, err error) {
	err = c.do("Join", func() error {
		db := c.db
		i := slices.IndexFunc(db.nodes, func(n *fakeNode) bool { return n.ID == id })
		if i < 0 {
			i = len(db.nodes)
			db.nodes = append(db.nodes, &fakeNode{NodeRow: store.NodeRow{No: uint32(i + 1), ID: id},
				applied: map[store.Sink]uint64{}, progress: map[uint64]journal.Record{}})
		}
		n := db.nodes[i]
		n.Inc++
		n.Name, n.Left, n.ExpiresUs = name, false, (db.clock()+int64(ttl))/1000
		c.no, c.inc = n.No, n.Inc
		c.reclaims.Store(n.reclaims)
		return nil
	})
	return c.no, c.inc, err
}

func (c *fakeConn) Beat(ttl time.Duration) (b store.Beat, err error) {
	reclaims := int64(0)
	err = c.as("Beat", func(n *fakeNode) error {
		now := c.db.clock()
		n.ExpiresUs = (now + int64(ttl)) / 1000
		b = store.Beat{NowUs: now / 1000, Feed: uint64(len(c.db.changes)), Debt: c.db.owed()}
		reclaims = n.reclaims
		for _, o := range c.db.nodes {
			if o.ExpiresUs >= now/1000 && !o.Left {
				b.Live++
			}
		}
		return nil
	})
	if err == nil {
		b.Reclaimed = c.reclaims.Swap(reclaims) != reclaims
	}
	return b, err
}

func (c *fakeConn) Now() (us int64, err error) {
	err = c.as("Now", func(*fakeNode) error { us = c.db.clock() / 1000; return nil })
	return us, err
}

func (c *fakeConn) Leave() error {
	return c.as("Leave", func(n *fakeNode) error {
		c.db.takeBack(n)
		n.Left = true
		return nil
	})
}

// has says whether a node has anything leased.
func (db *fakeStore) has(n *fakeNode) bool {
	for id := range db.leases {
		if id.node == n.No {
			return true
		}
	}
	for id := range db.quotas {
		if id.node == n.No {
			return true
		}
	}
	return false
}

// takeBack returns all leases of a node to the free balances.
func (db *fakeStore) takeBack(n *fakeNode) (sum money.Parts) {
	for id, amount := range db.leases {
		if id.node == n.No {
			b := db.buckets[id.fakeBucket]
			b.escrow -= amount
			b.avail += amount
			sum[id.place] += amount
			delete(db.leases, id)
		}
	}
	for id := range db.quotas {
		if id.node == n.No {
			delete(db.quotas, id)
		}
	}
	return sum
}

func (c *fakeConn) LastOp() (op uint64, err error) {
	err = c.as("LastOp", func(n *fakeNode) error { op = n.op; return nil })
	return op, err
}

func (c *fakeConn) Grant(op uint64, wants []store.Want) ([]store.Funds, error) {
	return c.operate("Grant", op, wants, func(at *Nano, want Nano, left Nano) Nano {
		got := max(0, min(want, left))
		if c.db.stingy {
			got = 0
		}
		*at += got
		return got
	})
}

func (c *fakeConn) Return(op uint64, rests []store.Want, recalls ...uint64) ([]store.Funds, error) {
	return c.operate("Return", op, rests, func(at *Nano, rest Nano, _ Nano) Nano {
		got := min(rest, *at)
		*at -= got
		return -got
	}, recalls...)
}

// operate executes a lease operation once.
func (c *fakeConn) operate(call string, op uint64, wants []store.Want,
	move func(at *Nano, n, left Nano) Nano, recalls ...uint64) (list []store.Funds, err error) {
	err = c.as(call, func(n *fakeNode) error {
		if n.reclaims != c.reclaims.Load() {
			return store.ErrReclaimed
		}
		if op == n.op {
			list = n.answer
			return nil
		}
		if op != n.op+1 {
			c.db.fault("node %d: operation %d after %d", n.No, op, n.op)
		}
		for i := range wants {
			if wants[i].Key == 0 {
				c.db.collect(wants[i].Account, wants[i].Day)
			}
			list = append(list, c.db.move(n.No, &wants[i], move))
			if wants[i].Key == 0 {
				c.db.collect(wants[i].Account, wants[i].Day)
				f := &list[i]
				granted := f.Granted
				*f = c.db.funds(n.No, f.Account, 0, f.Day, 0)
				f.Granted = granted
			}
		}
		n.op, n.answer = op, list
		for _, no := range recalls {
			c.db.answered[no] = append(c.db.answered[no], n.No)
		}
		return nil
	})
	return list, err
}

func (db *fakeStore) move(node uint32, w *store.Want, move func(at *Nano, n, left Nano) Nano) store.Funds {
	var moved money.Parts
	for place, n := range w.Amounts {
		if n < 0 {
			db.fault("node %d wants %d", node, n)
		}
		if n == 0 {
			continue
		}
		if w.Key != 0 {
			id := fakeQuota{node, w.Key, place, w.Period}
			at := db.quotas[id]
			got := move(&at, n, db.room(w.Key, place, w.Period))
			db.quotas[id] = at
			moved[place] = got
			continue
		}
		b := db.bucket(w.Account, place, w.Day)
		day := w.Day
		if place != money.InDIEM {
			day = 0
		}
		id := fakeLease{fakeBucket{w.Account, place, day}, node}
		at := db.leases[id]
		got := move(&at, n, b.avail)
		db.leases[id] = at
		b.avail -= got
		b.escrow += got
		moved[place] = got
	}
	f := db.funds(node, w.Account, w.Key, w.Day, w.Period)
	f.Granted = moved
	return f
}

// room is the rest of a key's limit in a period.
func (db *fakeStore) room(key int64, place int, period int32) Nano {
	k := db.keys[key-1]
	limit := k.LimitUSD
	if place == money.InDIEM {
		limit = k.LimitDIEM
	}
	room := limitOf(limit)
	for id, n := range db.used {
		if id.key == key && id.place == place && k.Period.Number(id.day) == period {
			room -= n
		}
	}
	for id, n := range db.quotas {
		if id.key == key && id.place == place && id.period == period {
			room -= n
		}
	}
	return max(0, room)
}

func (db *fakeStore) funds(node, account uint32, key int64, day, period int32) store.Funds {
	f := store.Funds{Account: account, Key: key, Day: day, Period: period}
	for place := range f.Lease {
		if key != 0 {
			f.Avail[place] = db.room(key, place, period)
			for id, n := range db.quotas {
				if id.key == key && id.place == place && id.period == period {
					addFunds(&f, id.node == node, place, n)
				}
			}
			continue
		}
		f.Debt = db.debt(account)
		b := db.bucket(account, place, day)
		f.Avail[place] = b.avail
		for id, n := range db.leases {
			if id.account == account && id.place == place && (place != money.InDIEM || id.day == day) {
				addFunds(&f, id.node == node, place, n)
			}
		}
	}
	return f
}

func addFunds(f *store.Funds, own bool, place int, n Nano) {
	if own {
		f.Lease[place] += n
	} else {
		f.Others[place] += n
	}
}

func (c *fakeConn) Funds(accounts []uint32, day int32) (list []store.Funds, err error) {
	err = c.as("Funds", func(n *fakeNode) error {
		db := c.db
		all := accounts == nil
		if all {
			for _, a := range db.accounts {
				accounts = append(accounts, a.No)
			}
		}
		for _, no := range accounts {
			f := db.funds(n.No, no, 0, day, 0)
			if !all || f.Lease != (money.Parts{}) {
				list = append(list, f)
			}
			for id, amount := range db.leases {
				if id.node == n.No && id.account == no && id.place == money.InDIEM && id.day != day && amount > 0 {
					f := db.funds(n.No, no, 0, id.day, 0)
					f.Lease[money.InBundled], f.Lease[money.InUSD] = 0, 0
					list = append(list, f)
				}
			}
			for id, amount := range db.quotas {
				if id.node == n.No && amount > 0 && db.keys[id.key-1].Account == no {
					if f := db.funds(n.No, no, id.key, 0, id.period); !slices.Contains(list, f) {
						list = append(list, f)
					}
				}
			}
		}
		return nil
	})
	return list, err
}

func (c *fakeConn) Reclaim(grace time.Duration) (list []store.Reclaimed, err error) {
	err = c.as("Reclaim", func(*fakeNode) error {
		for _, n := range c.db.nodes {
			if n.ExpiresUs*1000+int64(grace) < c.db.clock() && !n.Left && c.db.has(n) {
				n.reclaims++
				list = append(list, store.Reclaimed{No: n.No, Name: n.Name, Amount: c.db.takeBack(n)})
			}
		}
		return nil
	})
	return list, err
}

func (c *fakeConn) ReleaseNode(nameOrID string) error {
	return c.do("ReleaseNode", func() error {
		for _, n := range c.db.nodes {
			if n.Name == nameOrID || n.ID == nameOrID {
				if n.ExpiresUs*1000 >= c.db.clock() {
					return errors.New("it is alive")
				}
				n.reclaims++
				c.db.takeBack(n)
				return nil
			}
		}
		return store.ErrNoRow
	})
}

func (c *fakeConn) Nodes() (list []store.NodeRow, err error) {
	err = c.do("Nodes", func() error {
		for _, n := range c.db.nodes {
			list = append(list, n.NodeRow)
		}
		return nil
	})
	return list, err
}

func (c *fakeConn) Changes(after uint64) (list []store.Change, err error) {
	err = c.as("Changes", func(*fakeNode) error {
		list = slices.Clone(c.db.changes[min(after, uint64(len(c.db.changes))):])
		return nil
	})
	return list, err
}

func (c *fakeConn) Recall(but uint32, accounts ...uint32) (list []store.Recall, err error) {
	err = c.as("Recall", func(*fakeNode) error {
		for _, no := range accounts {
			c.db.change(store.ChangeRecall, no, int64(but))
			list = append(list, store.Recall{Account: no, No: uint64(len(c.db.changes)), Nodes: c.holders(no)})
		}
		return nil
	})
	return list, err
}

func (c *fakeConn) Recalled(list []store.Recall) (found []store.Recalled, err error) {
	err = c.as("Recalled", func(*fakeNode) error {
		for _, r := range list {
			found = append(found, store.Recalled{Nodes: c.holders(r.Account), Answered: c.db.answered[r.No]})
		}
		return nil
	})
	return found, err
}

// holders are the other nodes with a session that have leases of an account.
func (c *fakeConn) holders(account uint32) (list []uint32) {
	db := c.db
	for _, n := range db.nodes {
		if n.No == c.no || n.Left || n.ExpiresUs <= db.clock()/1000 {
			continue
		}
		has := false
		for id, amount := range db.leases {
			has = has || id.node == n.No && id.account == account && amount > 0
		}
		for id, amount := range db.quotas {
			has = has || id.node == n.No && db.keys[id.key-1].Account == account && amount > 0
		}
		if has {
			list = append(list, n.No)
		}
	}
	return list
}
