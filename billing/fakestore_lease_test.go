package billing

import (
	"errors"
	"slices"
	"time"

	"farebox/billing/journal"
	"farebox/billing/money"
)

func (c *fakeConn) Join(id, name string, ttl time.Duration) (no, inc uint32, err error) {
	err = c.do("Join", func() error {
		db := c.db
		i := slices.IndexFunc(db.nodes, func(n *fakeNode) bool { return n.id == id })
		if i < 0 {
			i = len(db.nodes)
			db.nodes = append(db.nodes, &fakeNode{nodeRow: nodeRow{no: uint32(i + 1), id: id}, applied: map[sink]uint64{}, progress: map[uint64]journal.Record{}})
		}
		n := db.nodes[i]
		n.inc++
		n.name, n.left, n.expiresUs = name, false, (db.clock()+int64(ttl))/1000
		c.no, c.inc = n.no, n.inc
		c.reclaims.Store(n.reclaims)
		return nil
	})
	return c.no, c.inc, err
}

func (c *fakeConn) Beat(ttl time.Duration) (b beat, err error) {
	reclaims := int64(0)
	err = c.as("Beat", func(n *fakeNode) error {
		now := c.db.clock()
		n.expiresUs = (now + int64(ttl)) / 1000
		b = beat{nowUs: now / 1000, feed: uint64(len(c.db.changes)), debt: c.db.owed()}
		reclaims = n.reclaims
		for _, o := range c.db.nodes {
			if o.expiresUs >= now/1000 && !o.left {
				b.live++
			}
		}
		return nil
	})
	if err == nil {
		b.reclaimed = c.reclaims.Swap(reclaims) != reclaims
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
		n.left = true
		return nil
	})
}

// has says whether a node has anything leased.
func (db *fakeStore) has(n *fakeNode) bool {
	for id := range db.leases {
		if id.node == n.no {
			return true
		}
	}
	for id := range db.quotas {
		if id.node == n.no {
			return true
		}
	}
	return false
}

// takeBack returns all leases of a node to what is left.
func (db *fakeStore) takeBack(n *fakeNode) (sum money.Parts) {
	for id, amount := range db.leases {
		if id.node == n.no {
			b := db.buckets[id.fakeBucket]
			b.escrow -= amount
			b.avail += amount
			sum[id.place] += amount
			delete(db.leases, id)
		}
	}
	for id := range db.quotas {
		if id.node == n.no {
			delete(db.quotas, id)
		}
	}
	return sum
}

func (c *fakeConn) LastOp() (op uint64, err error) {
	err = c.as("LastOp", func(n *fakeNode) error { op = n.op; return nil })
	return op, err
}

func (c *fakeConn) Grant(op uint64, wants []want) ([]funds, error) {
	return c.operate("Grant", op, wants, func(at *Nano, want Nano, left Nano) Nano {
		got := max(0, min(want, left))
		if c.db.stingy {
			got = 0
		}
		*at += got
		return got
	})
}

func (c *fakeConn) Return(op uint64, rests []want) ([]funds, error) {
	return c.operate("Return", op, rests, func(at *Nano, rest Nano, _ Nano) Nano {
		got := min(rest, *at)
		*at -= got
		return -got
	})
}

// operate carries out a lease operation once.
func (c *fakeConn) operate(call string, op uint64, wants []want, move func(at *Nano, n, left Nano) Nano) (list []funds, err error) {
	err = c.as(call, func(n *fakeNode) error {
		if n.reclaims != c.reclaims.Load() {
			return errReclaimed
		}
		if op == n.op {
			list = n.answer
			return nil
		}
		if op != n.op+1 {
			c.db.fault("node %d: operation %d after %d", n.no, op, n.op)
		}
		for i := range wants {
			if wants[i].key == 0 {
				c.db.collect(wants[i].account, wants[i].day)
			}
			list = append(list, c.db.move(n.no, &wants[i], move))
			if wants[i].key == 0 {
				c.db.collect(wants[i].account, wants[i].day)
				f := &list[i]
				granted := f.granted
				*f = c.db.funds(n.no, f.account, 0, f.day, 0)
				f.granted = granted
			}
		}
		n.op, n.answer = op, list
		return nil
	})
	return list, err
}

func (db *fakeStore) move(node uint32, w *want, move func(at *Nano, n, left Nano) Nano) funds {
	var moved money.Parts
	for place, n := range w.amounts {
		if n < 0 {
			db.fault("node %d wants %d", node, n)
		}
		if n == 0 {
			continue
		}
		if w.key != 0 {
			id := fakeQuota{node, w.key, place, w.period}
			at := db.quotas[id]
			got := move(&at, n, db.room(w.key, place, w.period))
			db.quotas[id] = at
			moved[place] = got
			continue
		}
		b := db.bucket(w.account, place, w.day)
		day := w.day
		if place != money.InDIEM {
			day = 0
		}
		id := fakeLease{fakeBucket{w.account, place, day}, node}
		at := db.leases[id]
		got := move(&at, n, b.avail)
		db.leases[id] = at
		b.avail -= got
		b.escrow += got
		moved[place] = got
	}
	f := db.funds(node, w.account, w.key, w.day, w.period)
	f.granted = moved
	return f
}

// room is what is left of a key's limit in a period.
func (db *fakeStore) room(key int64, place int, period int32) Nano {
	k := db.keys[key-1]
	limit := k.limitUSD
	if place == money.InDIEM {
		limit = k.limitDIEM
	}
	room := limitOf(limit)
	for id, n := range db.used {
		if id.key == key && id.place == place && k.period.number(id.day) == period {
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

func (db *fakeStore) funds(node, account uint32, key int64, day, period int32) funds {
	f := funds{account: account, key: key, day: day, period: period}
	for place := range f.lease {
		if key != 0 {
			f.avail[place] = db.room(key, place, period)
			for id, n := range db.quotas {
				if id.key == key && id.place == place && id.period == period {
					addFunds(&f, id.node == node, place, n)
				}
			}
			continue
		}
		f.debt = db.debt(account)
		b := db.bucket(account, place, day)
		f.avail[place] = b.avail
		for id, n := range db.leases {
			if id.account == account && id.place == place && (place != money.InDIEM || id.day == day) {
				addFunds(&f, id.node == node, place, n)
			}
		}
	}
	return f
}

func addFunds(f *funds, own bool, place int, n Nano) {
	if own {
		f.lease[place] += n
	} else {
		f.others[place] += n
	}
}

func (c *fakeConn) Funds(accounts []uint32, day int32) (list []funds, err error) {
	err = c.as("Funds", func(n *fakeNode) error {
		db := c.db
		all := accounts == nil
		if all {
			for _, a := range db.accounts {
				accounts = append(accounts, a.no)
			}
		}
		for _, no := range accounts {
			f := db.funds(n.no, no, 0, day, 0)
			if !all || f.lease != (money.Parts{}) {
				list = append(list, f)
			}
			for id, amount := range db.leases {
				if id.node == n.no && id.account == no && id.place == money.InDIEM && id.day != day && amount > 0 {
					f := db.funds(n.no, no, 0, id.day, 0)
					f.lease[money.InBundled], f.lease[money.InUSD] = 0, 0
					list = append(list, f)
				}
			}
			for id, amount := range db.quotas {
				if id.node == n.no && amount > 0 && db.keys[id.key-1].account == no {
					if f := db.funds(n.no, no, id.key, 0, id.period); !slices.Contains(list, f) {
						list = append(list, f)
					}
				}
			}
		}
		return nil
	})
	return list, err
}

func (c *fakeConn) Reclaim(grace time.Duration) (list []reclaimed, err error) {
	err = c.as("Reclaim", func(*fakeNode) error {
		for _, n := range c.db.nodes {
			if n.expiresUs*1000+int64(grace) < c.db.clock() && !n.left && c.db.has(n) {
				n.reclaims++
				list = append(list, reclaimed{n.no, n.name, c.db.takeBack(n)})
			}
		}
		return nil
	})
	return list, err
}

func (c *fakeConn) ReleaseNode(nameOrID string) error {
	return c.do("ReleaseNode", func() error {
		for _, n := range c.db.nodes {
			if n.name == nameOrID || n.id == nameOrID {
				if n.expiresUs*1000 >= c.db.clock() {
					return errors.New("it is alive")
				}
				n.reclaims++
				c.db.takeBack(n)
				return nil
			}
		}
		return errNoRow
	})
}

func (c *fakeConn) Nodes() (list []nodeRow, err error) {
	err = c.do("Nodes", func() error {
		for _, n := range c.db.nodes {
			list = append(list, n.nodeRow)
		}
		return nil
	})
	return list, err
}

func (c *fakeConn) Changes(after uint64) (list []change, err error) {
	err = c.as("Changes", func(*fakeNode) error {
		list = slices.Clone(c.db.changes[min(after, uint64(len(c.db.changes))):])
		return nil
	})
	return list, err
}

func (c *fakeConn) Recall(account uint32) error {
	return c.as("Recall", func(*fakeNode) error { c.db.change(changeRecall, account, 0); return nil })
}
