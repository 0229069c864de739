package billing

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// fakeStore is a shared store written down as plainly as possible: what the
// tests of nodes run on, fast, with a clock and faults of their own. Each node
// has a fakeConn to it.
type fakeStore struct {
	mu       sync.Mutex
	clock    func() int64 // Unix ns
	pepper   []byte
	accounts []*accountRow
	keys     []*keyRow
	models   []string
	refs     map[string]bool
	daily    map[uint32]Nano // DIEM of each day
	buckets  map[fakeBucket]*fakeMoney
	leases   map[fakeLease]Nano
	quotas   map[fakeQuota]Nano
	used     map[fakeUse]Nano // by key, currency group and day
	nodes    []*fakeNode
	changes  []change
	charged  parts
	short    Nano
	late     Nano // of short: charges that found no money
	seen     map[string]bool
	faults   []string
}

type fakeBucket struct {
	account uint32
	place   int
	day     int32
}

type fakeMoney struct{ granted, avail, escrow, spent, expired Nano }

type fakeLease struct {
	fakeBucket
	node uint32
}

type fakeQuota struct {
	node   uint32
	key    int64
	place  int
	period int32
}

type fakeUse struct {
	key   int64
	place int
	day   int32
}

type fakeNode struct {
	nodeRow
	reclaims int64 // how often its leases were taken back
	op       uint64
	answer   []funds
	applied  map[sink]uint64
	progress map[uint64]record
}

func newFakeStore(clock func() int64) *fakeStore {
	return &fakeStore{
		clock: clock, refs: map[string]bool{}, daily: map[uint32]Nano{}, buckets: map[fakeBucket]*fakeMoney{}, leases: map[fakeLease]Nano{},
		quotas: map[fakeQuota]Nano{}, used: map[fakeUse]Nano{}, seen: map[string]bool{},
	}
}

// fakeConn is one process's way to the store. cut, when set, may break a call
// before it is carried out, or lose its answer.
type fakeConn struct {
	Store   // what nodes never call
	db      *fakeStore
	no, inc uint32
	// reclaims is the node's when this process was last told.
	reclaims atomic.Int64
	cut      atomic.Pointer[func(call string) (before, after bool)]
	calls    atomic.Int64
}

var errCut = errors.New("the connection is cut")

func (db *fakeStore) connect() *fakeConn { return &fakeConn{db: db} }

// do runs one call as a transaction.
func (c *fakeConn) do(call string, f func() error) error {
	c.calls.Add(1)
	after := false
	if cut := c.cut.Load(); cut != nil {
		before := false
		if before, after = (*cut)(call); before {
			return errCut
		}
	}
	c.db.mu.Lock()
	defer c.db.mu.Unlock()
	err := f()
	if err == nil && after {
		return errCut
	}
	return err
}

// as is do for calls that only the current incarnation may make.
func (c *fakeConn) as(call string, f func(n *fakeNode) error) error {
	return c.do(call, func() error {
		n := c.db.nodes[c.no-1]
		if n.inc != c.inc || n.left {
			return errFenced
		}
		return f(n)
	})
}

func (c *fakeConn) Close() error { return nil }

func (c *fakeConn) Pepper(fresh []byte) (p []byte, err error) {
	err = c.do("Pepper", func() error {
		if c.db.pepper == nil {
			c.db.pepper = fresh
		}
		p = c.db.pepper
		return nil
	})
	return p, err
}

func (db *fakeStore) change(kind changeKind, account uint32, key int64) {
	db.changes = append(db.changes, change{no: uint64(len(db.changes) + 1), kind: kind, account: account, key: key})
}

// bucket is made with the day's allowance when it is first drawn on.
func (db *fakeStore) bucket(account uint32, place int, day int32) *fakeMoney {
	if place != inDIEM {
		day = 0
	}
	id := fakeBucket{account, place, day}
	b := db.buckets[id]
	if b == nil {
		b = &fakeMoney{}
		if place == inDIEM {
			b.granted, b.avail = db.daily[account], db.daily[account]
		}
		db.buckets[id] = b
	}
	return b
}

func (c *fakeConn) AddAccount(row *accountRow) error {
	return c.do("AddAccount", func() error {
		row.no = uint32(len(c.db.accounts) + 1)
		copied := *row
		c.db.accounts = append(c.db.accounts, &copied)
		c.db.change(changeAccount, row.no, 0)
		return nil
	})
}

func (db *fakeStore) account(no uint32, day int32) *accountRow {
	row := *db.accounts[no-1]
	for i := range row.avail {
		b := db.bucket(no, i, day)
		row.avail[i], row.leased[i] = b.avail, b.escrow
	}
	for id, b := range db.buckets {
		if id.account == no {
			row.spent[id.place] += b.spent
		}
	}
	return &row
}

func (c *fakeConn) Account(no uint32, day int32) (row *accountRow, err error) {
	err = c.do("Account", func() error { row = c.db.account(no, day); return nil })
	return row, err
}

func (c *fakeConn) FindAccount(nameOrID string, day int32) (row *accountRow, err error) {
	err = c.do("FindAccount", func() error {
		for _, a := range c.db.accounts {
			if a.id == nameOrID || a.name == nameOrID {
				row = c.db.account(a.no, day)
				return nil
			}
		}
		return errNoRow
	})
	return row, err
}

func (c *fakeConn) Accounts(day int32) (list []*accountRow, err error) {
	err = c.do("Accounts", func() error {
		for _, a := range c.db.accounts {
			list = append(list, c.db.account(a.no, day))
		}
		return nil
	})
	return list, err
}

func (c *fakeConn) Credit(p *credit) (applied bool, err error) {
	err = c.do("Credit", func() error {
		if c.db.refs[p.ref] {
			return nil
		}
		c.db.refs[p.ref], applied = true, true
		b := c.db.bucket(p.account, p.currency.place(), p.day)
		b.granted += p.amount
		b.avail += p.amount
		c.db.change(changeCredit, p.account, 0)
		return nil
	})
	return applied, err
}

func (c *fakeConn) AddKey(row *keyRow, _ int) error {
	return c.do("AddKey", func() error {
		row.no = int64(len(c.db.keys) + 1)
		copied := *row
		c.db.keys = append(c.db.keys, &copied)
		c.db.change(changeKey, row.account, row.no)
		return nil
	})
}

func (c *fakeConn) key(call string, is func(*keyRow) bool) (row *keyRow, err error) {
	err = c.do(call, func() error {
		for _, k := range c.db.keys {
			if is(k) {
				copied := *k
				row = &copied
				return nil
			}
		}
		return errNoRow
	})
	return row, err
}

func (c *fakeConn) KeyByDigest(d digest) (*keyRow, error) {
	return c.key("KeyByDigest", func(k *keyRow) bool { return k.digest == d })
}

func (c *fakeConn) KeyByID(id string) (*keyRow, error) {
	return c.key("KeyByID", func(k *keyRow) bool { return k.id == id })
}

func (c *fakeConn) RevokeKey(no, nowUs int64) error {
	return c.do("RevokeKey", func() error {
		c.db.keys[no-1].revokedUs = nowUs
		c.db.change(changeKey, c.db.keys[no-1].account, no)
		return nil
	})
}

// setLimit is what another node's update of a key comes to.
func (db *fakeStore) setLimit(no int64, change func(*keyRow)) {
	db.mu.Lock()
	defer db.mu.Unlock()
	change(db.keys[no-1])
	db.change(changeKey, db.keys[no-1].account, no)
}

func (c *fakeConn) Models() (list map[uint32]string, err error) {
	err = c.do("Models", func() error {
		list = map[uint32]string{}
		for i, id := range c.db.models {
			list[uint32(i+1)] = id
		}
		return nil
	})
	return list, err
}

func (c *fakeConn) AddModel(id string) (no uint32, err error) {
	err = c.do("AddModel", func() error {
		i := slices.Index(c.db.models, id)
		if i < 0 {
			i = len(c.db.models)
			c.db.models = append(c.db.models, id)
		}
		no = uint32(i + 1)
		return nil
	})
	return no, err
}

func (c *fakeConn) TouchKeys(map[int64]int64) error { return nil }

func (c *fakeConn) AddViolations([]violation) error { return nil }

func (c *fakeConn) SetAllowance(account uint32, daily Nano, day int32, _ int64) error {
	return c.do("SetAllowance", func() error {
		c.db.daily[account] = daily
		c.db.bucket(account, inDIEM, day)
		c.db.change(changeAllowance, account, 0)
		return nil
	})
}

func (c *fakeConn) Applied(s sink) (seq uint64, err error) {
	err = c.as("Applied", func(n *fakeNode) error { seq = n.applied[s]; return nil })
	return seq, err
}

func (c *fakeConn) OpenProgress() (list []record, err error) {
	err = c.as("OpenProgress", func(n *fakeNode) error {
		for _, hold := range slices.Sorted(maps.Keys(n.progress)) {
			list = append(list, n.progress[hold])
		}
		return nil
	})
	return list, err
}

func (c *fakeConn) advance(n *fakeNode, s sink, first, last uint64) (done bool) {
	if n.applied[s] >= last {
		return true
	}
	if n.applied[s] != first-1 {
		c.db.fault("node %d: %s is at %d, the batch is %d to %d", n.no, s, n.applied[s], first, last)
	}
	n.applied[s] = last
	return false
}

func (db *fakeStore) fault(format string, args ...any) {
	db.faults = append(db.faults, fmt.Sprintf(format, args...))
}

// Apply takes charges out of the node's leases, then out of what is left, then
// out of the house.
func (c *fakeConn) Apply(b *batch) error {
	return c.as("Apply", func(n *fakeNode) error {
		if c.advance(n, sinkLedger, b.first, b.last) {
			return nil
		}
		for i := range b.rollups {
			c.db.charge(n, &b.rollups[i])
		}
		for _, sum := range b.shortfall {
			c.db.short += sum
		}
		for hold, r := range b.progress {
			n.progress[hold] = r
		}
		for _, hold := range b.resolved {
			delete(n.progress, hold)
		}
		return nil
	})
}

func (db *fakeStore) charge(n *fakeNode, u *rollup) {
	for place := range u.cells {
		a := u.cells[place].amounts
		sum := Nano(a[0] + a[1] + a[2] + a[3])
		if sum == 0 {
			continue
		}
		bucket := db.bucket(u.account, place, u.day)
		day := u.day
		if place != inDIEM {
			day = 0
		}
		lease := fakeLease{fakeBucket{u.account, place, day}, n.no}
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
		if u.key == 0 {
			continue
		}
		k := db.keys[u.key-1]
		use := fakeUse{int64(u.key), quotaPlace(place), u.day}
		db.used[use] += sum
		quota := fakeQuota{n.no, int64(u.key), quotaPlace(place), k.period.number(u.day)}
		db.quotas[quota] -= min(sum, db.quotas[quota])
	}
}

func (c *fakeConn) AddPages(pages []*usagePage, first, last uint64) error {
	return c.as("AddPages", func(n *fakeNode) error {
		if c.advance(n, sinkUsage, first, last) {
			return nil
		}
		for _, p := range pages {
			if err := p.each(func(r *record) error {
				id := fmt.Sprint(n.no, "/", r.seq)
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

func (c *fakeConn) StaleDIEM(before int32) (list []staleDIEM, err error) {
	err = c.do("StaleDIEM", func() error {
		for id, b := range c.db.buckets {
			if id.place == inDIEM && id.day < before && b.avail > 0 {
				list = append(list, staleDIEM{id.account, id.day})
			}
		}
		slices.SortFunc(list, func(a, b staleDIEM) int { return compare(a.account, b.account)*2 + compare(a.day, b.day) })
		return nil
	})
	return list, err
}

func (c *fakeConn) ExpireDIEM(account uint32, day int32, _ int64) error {
	return c.do("ExpireDIEM", func() error {
		b := c.db.bucket(account, inDIEM, day)
		b.expired += b.avail
		b.avail = 0
		return nil
	})
}

func (c *fakeConn) Shortfall() (n Nano, err error) {
	err = c.do("Shortfall", func() error { n = c.db.short; return nil })
	return n, err
}

// Recount checks the invariants of the whole store.
func (c *fakeConn) Recount(pinned func()) (r *recount, err error) {
	pinned()
	err = c.do("Recount", func() error {
		r = &recount{accounts: map[uint32]*accountCount{}, charged: c.db.charged.total(), faults: c.db.check()}
		r.requests = int64(len(c.db.seen))
		for _, a := range c.db.accounts {
			r.accounts[a.no] = &accountCount{}
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

func (c *fakeConn) Join(id, name string, ttl time.Duration) (no, inc uint32, err error) {
	err = c.do("Join", func() error {
		db := c.db
		i := slices.IndexFunc(db.nodes, func(n *fakeNode) bool { return n.id == id })
		if i < 0 {
			i = len(db.nodes)
			db.nodes = append(db.nodes, &fakeNode{nodeRow: nodeRow{no: uint32(i + 1), id: id}, applied: map[sink]uint64{}, progress: map[uint64]record{}})
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
		b = beat{nowUs: now / 1000, feed: uint64(len(c.db.changes))}
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
func (db *fakeStore) takeBack(n *fakeNode) (sum parts) {
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
			list = append(list, c.db.move(n.no, &wants[i], move))
		}
		n.op, n.answer = op, list
		return nil
	})
	return list, err
}

func (db *fakeStore) move(node uint32, w *want, move func(at *Nano, n, left Nano) Nano) funds {
	var moved parts
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
		if place != inDIEM {
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
	if place == inDIEM {
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
					f.add(id.node == node, place, n)
				}
			}
			continue
		}
		b := db.bucket(account, place, day)
		f.avail[place] = b.avail
		for id, n := range db.leases {
			if id.account == account && id.place == place && (place != inDIEM || id.day == day) {
				f.add(id.node == node, place, n)
			}
		}
	}
	return f
}

func (f *funds) add(own bool, place int, n Nano) {
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
			if !all || f.lease != (parts{}) {
				list = append(list, f)
			}
			for id, amount := range db.leases {
				if id.node == n.no && id.account == no && id.place == inDIEM && id.day != day && amount > 0 {
					f := db.funds(n.no, no, 0, id.day, 0)
					f.lease[inBundled], f.lease[inUSD] = 0, 0
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
