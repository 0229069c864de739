package billing

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"farebox/billing/journal"
	"farebox/billing/money"
	"farebox/billing/store"
)

// fakeStore is a shared store as plain as possible. The tests of nodes run on it, fast,
// with a clock and faults of their own. Each node has a fakeConn to it.
type fakeStore struct {
	mu       sync.Mutex
	clock    func() int64 // Unix ns
	pepper   []byte
	accounts []*store.AccountRow
	keys     []*store.KeyRow
	models   []string
	refs     map[string]bool
	daily    map[uint32]Nano // DIEM of each day
	buckets  map[fakeBucket]*fakeMoney
	leases   map[fakeLease]Nano
	quotas   map[fakeQuota]Nano
	used     map[fakeUse]Nano // by key, currency group and day
	nodes    []*fakeNode
	changes  []store.Change
	answered map[uint64][]uint32 // recalls, by nodes
	charged  money.Parts
	debts    map[uint32]*fakeDebt
	short    Nano
	late     Nano // part of short: charges without money
	seen     map[string]bool
	faults   []string
	stingy   bool // it grants nothing
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
	store.NodeRow
	reclaims int64 // how often its leases were taken back
	op       uint64
	answer   []store.Funds
	applied  map[store.Sink]uint64
	progress map[uint64]journal.Record
}

func newFakeStore(clock func() int64) *fakeStore {
	return &fakeStore{
		clock: clock, refs: map[string]bool{}, daily: map[uint32]Nano{}, buckets: map[fakeBucket]*fakeMoney{},
		leases: map[fakeLease]Nano{},
		quotas: map[fakeQuota]Nano{}, debts: map[uint32]*fakeDebt{}, used: map[fakeUse]Nano{}, seen: map[string]bool{},
		answered: map[uint64][]uint32{},
	}
}

// fakeConn is one process's connection to the store. cut, when set, may break a call
// before it is executed, or lose its answer.
type fakeConn struct {
	store.Store // methods that nodes never call
	db          *fakeStore
	no, inc     uint32
	// reclaims is the node's count at the last answer to this process.
	reclaims atomic.Int64
	cut      atomic.Pointer[func(call string) (before, after bool)]
	calls    atomic.Int64
}

var errCut = errors.New("the connection is cut")

// As ignores the audit log.
func (c *fakeConn) As(*store.AuditEntry) store.Store { return c }

// AccountsOf returns all accounts, whatever the filter.
func (c *fakeConn) AccountsOf(_ store.AccountFilter, day int32, _ int) ([]*store.AccountRow, *store.AccountRow, error) {
	list, err := c.Accounts(day)
	return list, nil, err
}

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
		if n.Inc != c.inc || n.Left {
			return store.ErrFenced
		}
		return f(n)
	})
}

func (c *fakeConn) Close() error { return nil }

func (c *fakeConn) RefundsDue(int) ([]string, error) { return nil, nil }

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

func (db *fakeStore) change(kind store.ChangeKind, account uint32, key int64) {
	db.changes = append(db.changes, store.Change{No: uint64(len(db.changes) + 1), Kind: kind, Account: account,
		Key: key})
}

// bucket creates a bucket with the day's allowance when it is first used.
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

func (c *fakeConn) AddAccount(row *store.AccountRow) error {
	return c.do("AddAccount", func() error {
		row.No = uint32(len(c.db.accounts) + 1)
		copied := *row
		c.db.accounts = append(c.db.accounts, &copied)
		c.db.change(store.ChangeAccount, row.No, 0)
		return nil
	})
}

func (db *fakeStore) account(no uint32, day int32) *store.AccountRow {
	row := *db.accounts[no-1]
	for i := range row.Avail {
		b := db.bucket(no, i, day)
		row.Avail[i], row.Leased[i] = b.avail, b.escrow
	}
	row.Debt = db.debt(no)
	for id, b := range db.buckets {
		if id.account == no {
			row.Spent[id.place] += b.spent
		}
	}
	return &row
}

func (c *fakeConn) Account(no uint32, day int32) (row *store.AccountRow, err error) {
	err = c.do("Account", func() error { row = c.db.account(no, day); return nil })
	return row, err
}

// Profile is empty: no account is ever erased.
func (c *fakeConn) Profile(no uint32) (*store.ProfileRow, error) {
	return &store.ProfileRow{No: no}, nil
}

func (c *fakeConn) FindAccount(nameOrID string, day int32) (row *store.AccountRow, err error) {
	err = c.do("FindAccount", func() error {
		for _, a := range c.db.accounts {
			if a.ID == nameOrID || a.Name == nameOrID {
				row = c.db.account(a.No, day)
				return nil
			}
		}
		return store.ErrNoRow
	})
	return row, err
}

func (c *fakeConn) Accounts(day int32) (list []*store.AccountRow, err error) {
	err = c.do("Accounts", func() error {
		for _, a := range c.db.accounts {
			list = append(list, c.db.account(a.No, day))
		}
		return nil
	})
	return list, err
}

func (c *fakeConn) Credit(p *store.Credit) (applied bool, err error) {
	err = c.do("Credit", func() error {
		if c.db.refs[p.Ref] {
			return nil
		}
		c.db.refs[p.Ref], applied = true, true
		b := c.db.bucket(p.Account, money.PlaceOf(p.Currency), p.Day)
		b.granted += p.Amount
		b.avail += p.Amount
		c.db.collect(p.Account, p.Day)
		c.db.change(store.ChangeCredit, p.Account, 0)
		return nil
	})
	return applied, err
}

func (c *fakeConn) AddKey(row *store.KeyRow, _ int) error {
	return c.do("AddKey", func() error {
		row.No = int64(len(c.db.keys) + 1)
		copied := *row
		c.db.keys = append(c.db.keys, &copied)
		c.db.change(store.ChangeKey, row.Account, row.No)
		return nil
	})
}

func (c *fakeConn) key(call string, is func(*store.KeyRow) bool) (row *store.KeyRow, err error) {
	err = c.do(call, func() error {
		for _, k := range c.db.keys {
			if is(k) {
				copied := *k
				row = &copied
				return nil
			}
		}
		return store.ErrNoRow
	})
	return row, err
}

func (c *fakeConn) KeyByDigest(d store.Digest) (*store.KeyRow, error) {
	return c.key("KeyByDigest", func(k *store.KeyRow) bool { return k.Digest == d })
}

func (c *fakeConn) KeyByID(id string) (*store.KeyRow, error) {
	return c.key("KeyByID", func(k *store.KeyRow) bool { return k.ID == id })
}

func (c *fakeConn) RevokeKey(no, nowUs int64) error {
	return c.do("RevokeKey", func() error {
		c.db.keys[no-1].RevokedUs = nowUs
		c.db.change(store.ChangeKey, c.db.keys[no-1].Account, no)
		return nil
	})
}

// setLimit changes a key as another node's update does.
func (db *fakeStore) setLimit(no int64, change func(*store.KeyRow)) {
	db.mu.Lock()
	defer db.mu.Unlock()
	change(db.keys[no-1])
	db.change(store.ChangeKey, db.keys[no-1].Account, no)
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

func (c *fakeConn) AddUpstream(id string) (no uint32, err error) { return c.AddModel(id) }

func (c *fakeConn) TouchKeys(map[int64]int64) error { return nil }

func (c *fakeConn) AddViolations([]store.Violation) error { return nil }

func (c *fakeConn) SetAllowance(account uint32, daily Nano, day int32, _ int64) error {
	return c.do("SetAllowance", func() error {
		c.db.daily[account] = daily
		c.db.bucket(account, money.InDIEM, day)
		c.db.collect(account, day)
		c.db.change(store.ChangeAllowance, account, 0)
		return nil
	})
}
