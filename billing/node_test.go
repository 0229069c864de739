package billing

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"farebox/config"
)

// cluster is several ledgers on one shared store.
type cluster struct {
	t     *testing.T
	db    *fakeStore
	skew  atomic.Int64 // what the store's clock is ahead
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
	o.openShared = func() (Store, error) { return conn, nil }
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
	l.node.close()
	if err := l.keyed.close(); err != nil {
		c.t.Error(err)
	}
	l.project.close()
	l.journal.seal()
	close(l.journal.stop)
	l.journal.stopped.Wait()
	l.journal.sync()
	if err := l.lock.Close(); err != nil {
		c.t.Error(err)
	}
	c.nodes[i] = nil
}

// cut takes a node's connection away; heal gives it back.
func (c *cluster) cut(i int) {
	f := func(string) (bool, bool) { return true, false }
	c.conns[i].cut.Store(&f)
}

func (c *cluster) heal(i int) { c.conns[i].cut.Store(nil) }

// account makes an account with a key, as node 0 does, and gives the secret.
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
	n := NewKey{Account: account, Type: Inference}
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
	return k.Account.ledger.Admit(h, &Admission{Key: k, Slot: -1, Hold: amount, Min: least, NowNs: time.Now().UnixNano()})
}

func settleNow(h *Hold, cost Nano) (Nano, Nano) {
	return h.Settle(Settlement{Cost: cost, Status: 200, NowNs: time.Now().UnixNano()})
}

// eventually waits for what the nodes do by themselves.
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

// "The database was gone for ten minutes before anybody noticed."
func TestOperatorSeesThatTheStoreIsAway(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	l := c.nodes[0]
	id, secret := c.account(10 * usd)
	k := c.lookup(0, secret)
	var h Hold
	admitOn(k, &h, 2*usd, 2*usd)
	list, err := l.Accounts()
	if err != nil || len(list) != 1 || list[0].ID != id {
		t.Fatalf("%+v, %v", list, err)
	}
	if a := list[0]; a.Leased.USD < 2*usd || a.USD+a.Leased.USD != 10*usd || a.Leased.Total() != a.Leased.USD {
		t.Errorf("with 2 of 10 USD held here the account is %+v", a)
	}
	if s := l.Stats(); s.StoreAway {
		t.Error("the store is there and called away")
	}
	c.cut(0)
	c.eventually("the figures say that the store is away", func() bool {
		s := l.Stats()
		return s.StoreAway && s.SessionAge > 3*c.times.beat
	})
	c.heal(0)
	c.eventually("the figures say that the store is back", func() bool {
		s := l.Stats()
		return !s.StoreAway && s.SessionAge < c.times.ttl
	})
	settleNow(&h, usd)
}

// "Two nodes spent the same last dollar", "the last cents were on the other
// node and my request was refused": as many holds are admitted as there is
// money for, on whichever node it was.
func TestLastDollarOnThreeNodes(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	const price = usd / 37
	_, secret := c.account(10 * usd)
	var keys []*Key
	for i := range c.nodes {
		keys = append(keys, c.lookup(i, secret))
	}
	holds := make([]Hold, 3*256)
	var admitted atomic.Int64
	var wg sync.WaitGroup
	for i := range holds {
		wg.Go(func() {
			for {
				d := admitOn(keys[i%3], &holds[i], price, price)
				switch {
				case d.Code == Admitted:
					admitted.Add(1)
					return
				case d.Code == InsufficientBalance:
					return
				default:
					t.Errorf("denied with %d", d.Code)
					return
				}
			}
		})
	}
	wg.Wait()
	if want := int64(10 * usd / price); admitted.Load() != want {
		t.Errorf("%d holds of %s were admitted on 10 USD, expected %d", admitted.Load(), price, want)
	}
	c.audit()
	for i := range holds {
		if holds[i].Open() {
			if _, short := settleNow(&holds[i], price); short != 0 {
				t.Errorf("short of %s", short)
			}
		}
	}
	c.audit()
	if m := c.money(1); m.spent != Nano(admitted.Load())*price || c.db.late != 0 {
		t.Errorf("%+v is booked, %s of it late", m, c.db.late)
	}
}

// Money that flows: charges below and beyond the hold, extensions, voids, three
// currencies, on three nodes, until nothing is left.
func TestThreeNodesSpendAnAccountToNothing(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	id, secret := c.account(5 * usd)
	c.credit(id, DIEM, 3*usd)
	c.credit(id, Bundled, 2*usd)
	var charged, short atomic.Int64
	var wg sync.WaitGroup
	for g := range 24 {
		k := c.lookup(g%3, secret)
		rnd := rand.New(rand.NewPCG(1, uint64(g)))
		wg.Go(func() {
			for refused := 0; refused < 2; {
				var h Hold
				want := Nano(rnd.Int64N(int64(usd/20))) + 1
				if d := admitOn(k, &h, want, 1); d.Code != Admitted {
					refused++
					continue
				}
				if rnd.IntN(3) == 0 {
					h.Extend(Nano(rnd.Int64N(int64(usd / 50))))
				}
				if rnd.IntN(5) == 0 {
					h.Void(time.Now().UnixNano())
					continue
				}
				n, s := settleNow(&h, Nano(rnd.Int64N(int64(want)*5/4+2)))
				charged.Add(int64(n))
				short.Add(int64(s))
			}
		})
	}
	wg.Wait()
	c.audit()
	m := c.money(1)
	if int64(m.spent) != charged.Load() || m.granted != 10*usd || c.db.late != 0 {
		t.Errorf("%+v booked and %s late, %d charged", m, c.db.late, charged.Load())
	}
	if left := m.avail + m.escrow; left > usd/100 {
		t.Errorf("%s are left, but requests for 1 nano were refused", left)
	}
}

// "The stream overran its hold by 7, the account had 5 more on the other node,
// and kept them": what there is pays for it, wherever it is.
func TestOverrunTakesWhatOtherNodesHave(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2, func(c *cluster) { c.times.idle = time.Hour })
	_, secret := c.account(10 * usd)
	var h, other Hold
	if d := admitOn(c.lookup(1, secret), &other, 5*usd, 5*usd); d.Code != Admitted {
		t.Fatalf("denied with %d", d.Code)
	}
	if d := admitOn(c.lookup(0, secret), &h, 5*usd, 5*usd); d.Code != Admitted {
		t.Fatalf("denied with %d", d.Code)
	}
	other.Void(time.Now().UnixNano())
	if n, short := settleNow(&h, 12*usd); n != 10*usd || short != 2*usd {
		t.Errorf("charged %s, short of %s", n, short)
	}
	c.audit()
}

// Where there is plenty, no request may wait for the network.
func TestPlentyNeedsNoNetwork(t *testing.T) {
	c := newCluster(t, 2, func(c *cluster) { c.times.keep, c.times.poll, c.times.beat = time.Hour, time.Hour, time.Hour })
	_, secret := c.account(1000 * usd)
	k := c.lookup(0, secret)
	var h Hold
	for range 3 {
		admitOn(k, &h, usd/1000, usd/1000)
		settleNow(&h, usd/1000)
		h.Reset()
	}
	c.nodes[0].node.keep()
	c.eventually("a slice", func() bool {
		k.Account.mu.Lock()
		defer k.Account.mu.Unlock()
		return k.Account.avail.total() >= sliceLeast && !k.Account.lease.asking
	})
	before := c.conns[0].calls.Load()
	for range 20 {
		if d := admitOn(k, &h, usd/1000, usd/1000); d.Code != Admitted {
			t.Fatalf("denied with %d", d.Code)
		}
		settleNow(&h, usd/1000)
		h.Reset()
	}
	if n := c.conns[0].calls.Load() - before; n != 0 {
		t.Errorf("20 requests of an account with a slice at hand made %d calls", n)
	}
}

// "The node was killed and its money was gone."
func TestKilledNodeAdoptsItsLeases(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2)
	_, secret := c.account(10 * usd)
	k := c.lookup(0, secret)
	var held, streaming, done Hold
	admitOn(k, &held, 2*usd, 2*usd)
	admitOn(k, &streaming, 3*usd, 3*usd)
	admitOn(k, &done, usd, usd)
	settleNow(&done, usd)
	streaming.Progress(2*usd, Usage{Prompt: 1, Completion: 1})
	c.kill(0)
	other := c.lookup(1, secret)
	var h Hold
	if d := admitOn(other, &h, 10*usd, 10*usd); d.Code != InsufficientBalance {
		t.Errorf("what a dead node has leased was spent again: %d", d.Code)
	}
	c.open(0)
	if d := admitOn(other, &h, 7*usd, 7*usd); d.Code != Admitted {
		t.Errorf("after the node came back, 7 USD are free, but the code is %d", d.Code)
	}
	settleNow(&h, 7*usd)
	c.audit()
	if m := c.money(1); m.spent != 10*usd || c.db.late != 0 {
		t.Errorf("%+v, %s late", m, c.db.late)
	}
}

// "The operator released a node that was only cut off": its charges come late,
// and what it had is not spent twice beyond them.
func TestReleasedNodeBooksItsChargesLate(t *testing.T) {
	c := newCluster(t, 2, func(c *cluster) { c.times.recall = 700 * time.Millisecond })
	_, secret := c.account(10 * usd)
	k := c.lookup(0, secret)
	var open, done Hold
	admitOn(k, &open, 2*usd, 2*usd)
	admitOn(k, &done, 3*usd, 3*usd)
	c.cut(0)
	settleNow(&done, 3*usd)
	if err := c.nodes[1].ReleaseNode("a"); err == nil {
		t.Error("a node with a session was released")
	}
	c.eventually("the session ends", func() bool { return c.nodes[1].ReleaseNode("a") == nil })
	var h Hold
	other := c.lookup(1, secret)
	if d := admitOn(other, &h, 6*usd, 6*usd); d.Code != Admitted {
		t.Fatalf("what was released cannot be spent: %d", d.Code)
	}
	c.eventually("node b keeps no more than it holds", func() bool {
		a := other.Account
		a.mu.Lock()
		defer a.mu.Unlock()
		// While the account is in use the node fetches a slice in advance.
		inUse := a.lease.touched || a.lease.asking || a.lease.giving
		return !inUse && c.money(1).avail == 4*usd
	})
	c.heal(0)
	c.eventually("node a counts its leases anew", func() bool {
		c.db.mu.Lock()
		defer c.db.mu.Unlock()
		// 1 USD is left for the hold of 2 that node a still has open.
		return c.db.charged.total() == 3*usd && open.Granted() == usd && c.nodes[0].node.state.Load() == nodeOpen
	})
	c.audit()
	if n, short := settleNow(&open, 2*usd); n != usd || short != usd {
		t.Errorf("charged %s, short of %s", n, short)
	}
	settleNow(&h, 6*usd)
	c.audit()
	if m := c.money(1); m.spent != 10*usd {
		t.Errorf("%+v", m)
	}
}

// relaxed: any node takes back what a node has that is gone for long, and the
// gone one has stopped before.
func TestRelaxedNodesReclaimAfterGrace(t *testing.T) {
	c := newCluster(t, 2, func(c *cluster) {
		c.opts = func(o *Options) { o.Leases = config.Leases{Reclaim: "relaxed", Grace: 200 * time.Millisecond} }
	})
	_, secret := c.account(10 * usd)
	k := c.lookup(0, secret)
	var h Hold
	admitOn(k, &h, 4*usd, 4*usd)
	c.cut(0)
	if n, _ := settleNow(&h, usd); n != usd {
		t.Fatal("not charged")
	}
	other := c.lookup(1, secret)
	var all Hold
	c.eventually("the leases of node a are reclaimed", func() bool { return admitOn(other, &all, 10*usd, 10*usd).Code == Admitted })
	if d := admitOn(k, &h, usd/100, usd/100); d.Code != StoreAway || d.RetryAfter == 0 {
		t.Errorf("a node without a session answers %+v", d)
	}
	if c.nodes[0].Healthy() == nil {
		t.Error("a node without a session calls itself healthy")
	}
	settleNow(&all, 9*usd)
	c.eventually("what node b did not use is back", func() bool { return c.money(1).avail == usd })
	c.heal(0)
	c.eventually("node a is back", func() bool { return c.nodes[0].Healthy() == nil })
	c.audit()
	if m := c.money(1); m.spent != 10*usd || c.db.late != 0 {
		t.Errorf("%+v, %s late", m, c.db.late)
	}
}

// "A copy of the node's disk was started, and both sold the same money."
func TestSecondProcessOfANodeFencesTheFirst(t *testing.T) {
	c := newCluster(t, 1)
	_, secret := c.account(10 * usd)
	k := c.lookup(0, secret)
	var h Hold
	admitOn(k, &h, usd, usd)
	other := c.db.connect()
	if _, inc, err := other.Join(c.nodes[0].node.id, "copy", time.Minute); err != nil || inc != 2 {
		t.Fatal(inc, err)
	}
	c.eventually("the first process is fenced", func() bool { return c.nodes[0].Healthy() != nil })
	if d := admitOn(k, &Hold{}, 1, 1); d.Code != NodeFenced {
		t.Errorf("a fenced node answers %+v", d)
	}
	settleNow(&h, usd)
	if err := c.nodes[0].project.catchUp(); err == nil {
		t.Error("a fenced node wrote charges")
	}
	if m := c.money(1); m.spent != 0 {
		t.Errorf("a fenced node charged %s", m.spent)
	}
}

// P4: the store is away. What is leased is spent, the rest waits, nothing is lost.
func TestStoreAwayWhileAdmitting(t *testing.T) {
	c := newCluster(t, 2, func(c *cluster) { c.times.ask = 200 * time.Millisecond })
	_, secret := c.account(10 * usd)
	_, cold := c.account(10 * usd)
	k, unleased := c.lookup(0, secret), c.lookup(0, cold)
	var h Hold
	admitOn(k, &h, usd, usd)
	h.Void(time.Now().UnixNano())
	k.Account.mu.Lock()
	leased := k.Account.avail.total()
	k.Account.mu.Unlock()
	c.cut(0)
	c.eventually("the outage is noticed", c.nodes[0].node.away.Load)
	spent := Nano(0)
	for {
		h.Reset()
		began := time.Now()
		d := admitOn(k, &h, usd/10, usd/10)
		if took := time.Since(began); took > quickTimes.ask-time.Second {
			t.Errorf("waited %s for a store that is away", took)
		}
		if d.Code == StoreAway {
			break
		}
		if d.Code != Admitted {
			t.Fatalf("denied with %d", d.Code)
		}
		settleNow(&h, usd/10)
		spent += usd / 10
	}
	if spent > leased || spent < leased-usd/10 {
		t.Errorf("%s of %s that were leased could be spent", spent, leased)
	}
	if d := admitOn(unleased, &Hold{}, 1, 1); d.Code != StoreAway {
		t.Errorf("an account without a lease gets %d instead of 503", d.Code)
	}
	if err := c.nodes[0].Healthy(); err != nil {
		t.Errorf("a node with leases is not ready: %v", err)
	}
	c.heal(0)
	c.eventually("money flows again", func() bool { h.Reset(); return admitOn(unleased, &h, usd, usd).Code == Admitted })
	h.Void(time.Now().UnixNano())
	c.audit()
	if m := c.money(1); m.spent != spent {
		t.Errorf("%s were spent, %+v is booked", spent, m)
	}
}

// Answers that are lost must not grant twice.
func TestLostAnswersOfTheStore(t *testing.T) {
	c := newCluster(t, 2)
	_, secret := c.account(20 * usd)
	for i := range c.nodes {
		var mu sync.Mutex
		rnd := rand.New(rand.NewPCG(7, uint64(i)))
		f := func(string) (bool, bool) {
			mu.Lock()
			defer mu.Unlock()
			n := rnd.IntN(10)
			return n == 0, n == 1
		}
		c.conns[i].cut.Store(&f)
	}
	var wg sync.WaitGroup
	for g := range 8 {
		var k *Key
		c.eventually("the key is found", func() (ok bool) {
			found, err := c.nodes[g%2].Lookup(secret)
			k = found
			return err == nil
		})
		wg.Go(func() {
			for range 60 {
				var h Hold
				if admitOn(k, &h, usd/20, 1).Code == Admitted {
					settleNow(&h, usd/25)
				}
			}
		})
	}
	wg.Wait()
	c.heal(0)
	c.heal(1)
	c.eventually("both are back", func() bool { return !c.nodes[0].node.away.Load() && !c.nodes[1].node.away.Load() })
	c.eventually("nothing is in doubt", func() bool {
		for _, l := range c.nodes {
			if !l.node.desk.step() {
				return false
			}
		}
		return true
	})
	c.audit()
	if c.db.late != 0 {
		t.Errorf("%s late", c.db.late)
	}
}

// P5: revoked on one node, refused on all within a second.
func TestRevocationReachesEveryNode(t *testing.T) {
	c := newCluster(t, 3, func(c *cluster) { c.times.poll = defaultTimes.poll })
	_, secret := c.account(10 * usd)
	id := ""
	for i := range c.nodes {
		id = c.lookup(i, secret).ID
	}
	if err := c.nodes[1].RevokeKey(id); err != nil {
		t.Fatal(err)
	}
	if _, err := c.nodes[1].Lookup(secret); err == nil {
		t.Error("the node that revoked the key finds it")
	}
	began := time.Now()
	for i := range c.nodes {
		c.eventually("the key is refused", func() bool { _, err := c.nodes[i].Lookup(secret); return err != nil })
	}
	if took := time.Since(began); took > 10*time.Second { // 5 ms on a machine with nothing else to do
		t.Errorf("it took %s", took)
	}
}

// A key that somebody tried before it was made works as soon as it is.
func TestNewKeyIsFoundOnEveryNode(t *testing.T) {
	c := newCluster(t, 2)
	id, _ := c.account(usd)
	secret := []byte(newSecret("svc", Inference))
	for i := range c.nodes {
		if _, err := c.nodes[i].Lookup(secret); err == nil {
			t.Fatal("found")
		}
		c.nodes[i].registry.unknown.Wait()
	}
	row, err := c.conns[0].FindAccount(id, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.conns[0].AddKey(&keyRow{id: newUUID(), account: row.no, typ: Inference, period: Epoch, digest: c.nodes[0].hasher.digest(secret)}, 9); err != nil {
		t.Fatal(err)
	}
	for i := range c.nodes {
		c.eventually("the key is found", func() bool { _, err := c.nodes[i].Lookup(secret); return err == nil })
	}
}

// "My limit of 5 a day was 5 a day and node" (LiteLLM #24682).
func TestKeyLimitIsOneForAllNodes(t *testing.T) {
	c := newCluster(t, 3, func(c *cluster) { c.times.recall = 700 * time.Millisecond })
	const price = usd / 7
	_, secret := c.account(100*usd, func(n *NewKey) { n.LimitUSD = nano(5 * usd) })
	var keys []*Key
	for i := range c.nodes {
		keys = append(keys, c.lookup(i, secret))
	}
	holds := make([]Hold, 3*40)
	var admitted atomic.Int64
	var wg sync.WaitGroup
	for i := range holds {
		wg.Go(func() {
			switch d := admitOn(keys[i%3], &holds[i], price, price); d.Code {
			case Admitted:
				admitted.Add(1)
			case KeyLimitUSD:
			default:
				t.Errorf("denied with %d", d.Code)
			}
		})
	}
	wg.Wait()
	if admitted.Load() != 35 {
		t.Errorf("%d holds of 1/7 USD passed a limit of 5 USD", admitted.Load())
	}
	for i := range holds {
		if holds[i].Open() {
			settleNow(&holds[i], price/2)
		}
	}
	c.audit()
	// Half of it was used: 17 holds more, on any node.
	admitted.Store(0)
	for i := range holds {
		holds[i].Reset()
		if admitOn(keys[i%3], &holds[i], price, price).Code == Admitted {
			admitted.Add(1)
		}
		if i > 24 {
			break
		}
	}
	if admitted.Load() != 17 {
		t.Errorf("%d holds more passed, expected 17", admitted.Load())
	}
	// Raised elsewhere: more at once, on every node; lowered: none.
	c.db.setLimit(1, func(k *keyRow) { k.limitUSD = nano(6 * usd) })
	for i := range keys {
		c.eventually("the raised limit", func() bool {
			var h Hold
			ok := admitOn(c.lookup(i, secret), &h, price, price).Code == Admitted
			if ok {
				h.Void(time.Now().UnixNano())
			}
			return ok
		})
	}
	c.db.setLimit(1, func(k *keyRow) { k.limitUSD = nano(usd) })
	for i := range keys {
		c.eventually("the lowered limit", func() bool {
			var h Hold
			d := admitOn(c.lookup(i, secret), &h, 1, 1)
			if d.Code == Admitted {
				h.Void(time.Now().UnixNano())
			}
			return d.Code == KeyLimitUSD
		})
	}
	for i := range holds {
		holds[i].Reset()
	}
	c.audit()
}

// A credit that an operator books elsewhere is seen, and spent, at once.
func TestCreditReachesEveryNode(t *testing.T) {
	c := newCluster(t, 2)
	id, secret := c.account(usd)
	k := c.lookup(1, secret)
	var h Hold
	if d := admitOn(k, &h, 2*usd, 2*usd); d.Code != InsufficientBalance {
		t.Fatalf("admitted on too little: %d", d.Code)
	}
	c.credit(id, USD, 4*usd)
	c.eventually("the balance shows it", func() bool { b, _, _ := k.Balance(); return b == 5*usd })
	if d := admitOn(k, &h, 5*usd, 5*usd); d.Code != Admitted {
		t.Errorf("denied with %d", d.Code)
	}
	c.eventually("the other node sees that it is held", func() bool {
		b, _, _ := c.lookup(0, secret).Balance()
		return b == 5*usd // what another node holds may still come back
	})
	settleNow(&h, 5*usd)
	if err := c.nodes[1].project.drain(); err != nil {
		t.Fatal(err)
	}
	zero := c.lookup(0, secret)
	c.eventually("nothing is left", func() bool {
		admitOn(zero, &Hold{}, 1, 1)
		b, _, _ := zero.Balance()
		return b == 0
	})
}

// The floor counts all that the account has, wherever it is (addendum 19.2).
func TestFloorCountsWhatOtherNodesHave(t *testing.T) {
	c := newCluster(t, 2)
	for _, l := range c.nodes {
		l.Configure(&config.Config{Billing: config.Billing{MinimumBalance: usd}})
	}
	_, secret := c.account(2 * usd)
	var first, second Hold
	if d := admitOn(c.lookup(0, secret), &first, 3*usd/2, 3*usd/2); d.Code != Admitted {
		t.Fatalf("denied with %d", d.Code)
	}
	if d := admitOn(c.lookup(1, secret), &second, usd/10, usd/10); d.Code != Admitted {
		t.Errorf("2 USD are there, 1.5 of them on the other node: %d", d.Code)
	}
	second.Void(time.Now().UnixNano())
	settleNow(&first, 3*usd/2)
	if err := c.nodes[0].project.drain(); err != nil {
		t.Fatal(err)
	}
	c.eventually("half a dollar is below the floor", func() bool {
		second.Reset()
		return admitOn(c.lookup(1, secret), &second, usd/10, usd/10).Code == InsufficientBalance
	})
}

// Money that is not needed does not stay where it was needed once.
func TestIdleLeasesGoBack(t *testing.T) {
	c := newCluster(t, 2)
	_, secret := c.account(10 * usd)
	k := c.lookup(0, secret)
	var h Hold
	admitOn(k, &h, 5*usd, 5*usd)
	settleNow(&h, usd)
	c.eventually("the rest is back", func() bool { return c.money(1).avail == 9*usd })
	c.eventually("nobody looks after it", func() bool {
		c.nodes[0].node.desk.mu.Lock()
		defer c.nodes[0].node.desk.mu.Unlock()
		return len(c.nodes[0].node.desk.active) == 0
	})
	c.audit()
}

// The local clock may be anywhere; days are the store's.
func TestWrongLocalClockMovesNoDay(t *testing.T) {
	var local atomic.Int64
	c := newCluster(t, 1, func(c *cluster) {
		c.opts = func(o *Options) { o.Clock = func() time.Time { return time.Now().Add(time.Duration(local.Load())) } }
	})
	c.db.daily[1] = 2 * usd
	_, secret := c.account(0)
	k := c.lookup(0, secret)
	spend := func(n Nano) DenialCode {
		var h Hold
		d := c.nodes[0].Admit(&h, &Admission{Key: k, Slot: -1, Hold: n, Min: n, NowNs: c.nodes[0].now()})
		if d.Code == Admitted {
			h.Settle(Settlement{Cost: n, NowNs: c.nodes[0].now()})
		}
		return d.Code
	}
	if code := spend(usd); code != Admitted {
		t.Fatalf("denied with %d", code)
	}
	local.Store(int64(40 * 24 * time.Hour))
	if code := spend(usd); code != Admitted {
		t.Errorf("denied with %d", code)
	}
	if code := spend(1); code != InsufficientBalance {
		t.Errorf("the local clock gave another day's allowance: %d", code)
	}
	local.Store(-int64(24 * time.Hour))
	if code := spend(1); code != InsufficientBalance {
		t.Errorf("the local clock gave another day's allowance: %d", code)
	}
	c.skew.Store(int64(24 * time.Hour))
	c.eventually("the next day's allowance", func() bool { return spend(2*usd) == Admitted })
	c.skew.Store(0)
	time.Sleep(5 * c.times.beat)
	if code := spend(1); code != InsufficientBalance {
		t.Errorf("the day came back: %d", code)
	}
	c.audit()
}

// Each day's allowance once, the old day's rest gone, wherever it was leased.
func TestDIEMOfTheDayOnTwoNodes(t *testing.T) {
	c := newCluster(t, 2)
	c.db.daily[1] = 4 * usd
	_, secret := c.account(0)
	var open Hold
	var keys []*Key
	for i := range c.nodes {
		keys = append(keys, c.lookup(i, secret))
	}
	admitOn(keys[0], &open, usd, usd)
	var h Hold
	if d := admitOn(keys[1], &h, 3*usd, 3*usd); d.Code != Admitted {
		t.Fatalf("denied with %d", d.Code)
	}
	settleNow(&h, usd)
	c.skew.Store(int64(24 * time.Hour))
	h.Reset()
	c.eventually("the new day's allowance", func() bool { return admitOn(keys[1], &h, 4*usd, 4*usd).Code == Admitted })
	if d := admitOn(keys[0], &Hold{}, 1, 1); d.Code != InsufficientBalance {
		t.Errorf("more than a day's allowance was held: %d", d.Code)
	}
	settleNow(&h, 4*usd)
	settleNow(&open, usd/2) // in the day that admitted it
	c.audit()
	c.eventually("the old day's rest expires", func() bool {
		for _, l := range c.nodes {
			l.node.keep()
			l.node.desk.step()
			l.project.sweptDay.Store(0)
			if err := l.project.expire(); err != nil {
				t.Fatal(err)
			}
		}
		m := c.money(1)
		return m.expired == 4*usd-usd-usd/2 && m.spent == 5*usd+usd/2 && m.avail == 0 && m.escrow == 0
	})
}
