package billing

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"farebox/billing/journal"
	"farebox/billing/money"
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
	charged  money.Parts
	debts    map[uint32]*fakeDebt
	short    Nano
	late     Nano // of short: charges that found no money
	seen     map[string]bool
	faults   []string
	stingy   bool // it grants nothing, whatever there is
}

type fakeBucket struct {
	account uint32
	place   int
	day     int32
}

type fakeMoney struct{ granted, avail, escrow, spent, expired Nano }

type fakeDebt struct{ incurred, paid Nano }

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
	progress map[uint64]journal.Record
}

func newFakeStore(clock func() int64) *fakeStore {
	return &fakeStore{
		clock: clock, refs: map[string]bool{}, daily: map[uint32]Nano{}, buckets: map[fakeBucket]*fakeMoney{}, leases: map[fakeLease]Nano{},
		quotas: map[fakeQuota]Nano{}, debts: map[uint32]*fakeDebt{}, used: map[fakeUse]Nano{}, seen: map[string]bool{},
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
	if place != money.InDIEM {
		day = 0
	}
	id := fakeBucket{account, place, day}
	b := db.buckets[id]
	if b == nil {
		b = &fakeMoney{}
		if place == money.InDIEM {
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
	row.debt = db.debt(no)
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
		b := c.db.bucket(p.account, money.PlaceOf(p.currency), p.day)
		b.granted += p.amount
		b.avail += p.amount
		c.db.collect(p.account, p.day)
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
		c.db.bucket(account, money.InDIEM, day)
		c.db.collect(account, day)
		c.db.change(changeAllowance, account, 0)
		return nil
	})
}
