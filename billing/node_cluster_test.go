package billing

import (
	"sync/atomic"
	"testing"
	"time"

	"farebox/billing/store"
)

// cluster is several ledgers on one shared store.
type cluster struct {
	t     *testing.T
	db    *fakeStore
	skew  atomic.Int64 // how far the store's clock is ahead
	dirs  []string
	nodes []*Ledger
	conns []*fakeConn
	times nodeTimes
	opts  func(*Options)
}

// quickTimes are those of a node, about twenty times as fast.
var quickTimes = nodeTimes{
	beat: 20 * time.Millisecond, ttl: 400 * time.Millisecond, poll: 5 * time.Millisecond, keep: 20 * time.Millisecond,
	idle: 300 * time.Millisecond, ask: 5 * time.Second, recall: 5 * time.Second,
	rivals: 2 * time.Second,
}

func newCluster(t *testing.T, n int, adjust ...func(*cluster)) *cluster {
	t.Helper()
	c := &cluster{t: t, times: quickTimes}
	c.db = newFakeStore(func() int64 { return time.Now().UnixNano() + c.skew.Load() })
	for _, a := range adjust {
		a(c)
	}
	for i := range n {
		c.dirs = append(c.dirs, t.TempDir())
		c.nodes, c.conns = append(c.nodes, nil), append(c.conns, nil)
		c.open(i)
	}
	t.Cleanup(func() {
		for i := range c.nodes {
			c.close(i)
		}
		for _, fault := range c.db.check() {
			t.Errorf("recount: %s", fault)
		}
	})
	return c
}

func (c *cluster) open(i int) *Ledger {
	c.t.Helper()
	conn := c.db.connect()
	o := Options{Dir: c.dirs[i], Brand: "svc", NodeName: string(rune('a' + i)), segmentSize: 256 << 10, times: c.times}
	o.openShared = func() (store.Store, error) { return conn, nil }
	if c.opts != nil {
		c.opts(&o)
	}
	l, err := Open(o)
	if err != nil {
		c.t.Fatalf("cannot open node %d: %v", i, err)
	}
	c.nodes[i], c.conns[i] = l, conn
	return l
}

// close ends a node in order.
func (c *cluster) close(i int) {
	c.t.Helper()
	if c.nodes[i] == nil {
		return
	}
	c.heal(i)
	if err := c.nodes[i].Close(); err != nil && c.nodes[i].node.state.Load() != nodeFenced {
		c.t.Errorf("cannot close node %d: %v", i, err)
	}
	c.nodes[i] = nil
}

// kill ends a node as kill -9 does: nothing more of it reaches the store, and
// its directory stays as it is.
func (c *cluster) kill(i int) {
	c.t.Helper()
	l := c.nodes[i]
	c.cut(i)
	l.retention.work.Close()
	l.node.work.Close()
	if err := l.keyed.Close(); err != nil {
		c.t.Error(err)
	}
	l.project.work.Close()
	l.journal.Seal()
	l.journal.Halt()
	if err := l.lock.Close(); err != nil {
		c.t.Error(err)
	}
	c.nodes[i] = nil
}

// cut takes a node's connection away; heal restores it.
func (c *cluster) cut(i int) {
	f := func(string) (bool, bool) { return true, false }
	c.conns[i].cut.Store(&f)
}

func (c *cluster) heal(i int) { c.conns[i].cut.Store(nil) }

// account makes an account with a key on node 0, and returns the secret.
func (c *cluster) account(amount Nano, adjust ...func(*NewKey)) (id string, secret []byte) {
	c.t.Helper()
	l := c.nodes[0]
	a, err := l.CreateAccount("a" + newUUID())
	if err != nil {
		c.t.Fatal(err)
	}
	if amount > 0 {
		c.credit(a.ID, USD, amount)
	}
	return a.ID, c.key(a.ID, adjust...)
}

func (c *cluster) credit(id string, currency Currency, amount Nano) {
	c.t.Helper()
	if _, applied, err := c.nodes[0].Credit(id, currency, amount, "", ""); err != nil || !applied {
		c.t.Fatalf("credit: applied %v, %v", applied, err)
	}
}

func (c *cluster) key(account string, adjust ...func(*NewKey)) []byte {
	c.t.Helper()
	n := NewKey{Account: account, Type: store.Inference}
	for _, a := range adjust {
		a(&n)
	}
	_, secret, err := c.nodes[0].CreateKey(n)
	if err != nil {
		c.t.Fatal(err)
	}
	return []byte(secret)
}

func (c *cluster) lookup(i int, secret []byte) *Key {
	c.t.Helper()
	k, err := c.nodes[i].Lookup(secret)
	if err != nil {
		c.t.Fatal(err)
	}
	return k
}

func admitOn(k *Key, h *Hold, amount, least Nano) Denial {
	return k.Account.ledger.Admit(h, &Admission{Key: k, Slot: -1, Hold: amount, Min: least, Now: At(time.Now())})
}

func settleNow(h *Hold, cost Nano) (Nano, Nano) {
	return h.Settle(Settlement{Cost: cost, Status: 200, Now: At(time.Now())})
}

// eventually waits for a result of the nodes' background work.
func (c *cluster) eventually(what string, is func() bool) {
	c.t.Helper()
	const limit = 60 * time.Second
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		if is() {
			return
		}
	}
	c.t.Fatalf("not within %s: %s", limit, what)
}

// audit recounts every node that runs.
func (c *cluster) audit() {
	c.t.Helper()
	for i, l := range c.nodes {
		if l == nil {
			continue
		}
		r, err := l.Audit()
		if err != nil {
			c.t.Fatalf("cannot recount node %d: %v", i, err)
		}
		for _, fault := range r.Faults {
			c.t.Errorf("node %d: %s", i, fault)
		}
	}
}

func (c *cluster) money(account uint32) (m fakeMoney) {
	c.db.mu.Lock()
	defer c.db.mu.Unlock()
	for id, b := range c.db.buckets {
		if id.account == account {
			m.granted += b.granted
			m.avail += b.avail
			m.escrow += b.escrow
			m.spent += b.spent
			m.expired += b.expired
		}
	}
	return m
}

// debt returns the incurred and the paid debt of an account.
func (c *cluster) debt(account uint32) (d fakeDebt) {
	c.db.mu.Lock()
	defer c.db.mu.Unlock()
	if at := c.db.debts[account]; at != nil {
		d = *at
	}
	return d
}
