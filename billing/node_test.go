package billing

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"farebox/config"
)

// "The database was gone for ten minutes before anybody noticed."
func TestOperatorSeesThatTheStoreIsAway(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	l := c.nodes[0]
	id, secret := c.account(10 * usd)
	k := c.lookup(0, secret)
	var h Hold
	admitOn(k, &h, 2*usd, 2*usd)
	list, err := l.ListAccounts()
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
	streaming.Progress(worth(2 * usd))
	c.kill(0)
	other := c.lookup(1, secret)
	var h Hold
	if d := admitOn(other, &h, 10*usd, 10*usd); d.Code != InsufficientBalance {
		t.Errorf("leases of a dead node were spent again: %d", d.Code)
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

// "The operator released a node that was only cut off": its charges come late, and its
// leases are not spent twice beyond them.
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
		t.Fatalf("released money cannot be spent: %d", d.Code)
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
		// Before the store's lock: a recount holds the account's lock while it asks the
		// store.
		granted := open.Granted()
		c.db.mu.Lock()
		defer c.db.mu.Unlock()
		// 1 USD is left for the hold of 2 that node a still has open.
		return c.db.charged.Total() == 3*usd && granted == usd && c.nodes[0].node.state.Load() == nodeOpen
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

// relaxed: any node reclaims the leases of a node that is gone for long. The gone node
// has stopped spending before that.
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
	c.eventually("the leases of node a are reclaimed", func() bool {
		return admitOn(other, &all, 10*usd, 10*usd).
			Code == Admitted
	})
	if d := admitOn(k, &h, usd/100, usd/100); d.Code != StoreAway || d.RetryAfter == 0 {
		t.Errorf("a node without a session answers %+v", d)
	}
	if c.nodes[0].Healthy() == nil {
		t.Error("a node without a session calls itself healthy")
	}
	settleNow(&all, 9*usd)
	c.eventually("the rest of node b is back", func() bool { return c.money(1).avail == usd })
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

// P4: the store is away. Leased money is spent, other requests wait, nothing is lost.
func TestStoreAwayWhileAdmitting(t *testing.T) {
	c := newCluster(t, 2, func(c *cluster) { c.times.ask = 200 * time.Millisecond })
	_, secret := c.account(10 * usd)
	_, cold := c.account(10 * usd)
	k, unleased := c.lookup(0, secret), c.lookup(0, cold)
	var h Hold
	admitOn(k, &h, usd, usd)
	h.Void(At(time.Now()))
	k.Account.mu.Lock()
	leased := k.Account.avail.Total()
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
	c.eventually("money flows again", func() bool {
		h.Reset()
		return admitOn(unleased, &h, usd, usd).
			Code == Admitted
	})
	h.Void(At(time.Now()))
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
			if !l.node.queue.step() {
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

// "One poor account kept PostgreSQL busy": the store reported money that it did not
// grant, and the node asked for it again and again without a pause.
func TestUngrantedMoneyIsRequestedAtAPace(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, func(c *cluster) { c.times.recall = time.Second })
	_, secret := c.account(10 * usd)
	k := c.lookup(0, secret)
	stingy := func(is bool) {
		c.db.mu.Lock()
		defer c.db.mu.Unlock()
		c.db.stingy = is
	}
	stingy(true)
	defer stingy(false)
	var grants atomic.Int64
	count := func(call string) (bool, bool) {
		if call == "Grant" {
			grants.Add(1)
		}
		return false, false
	}
	c.conns[0].cut.Store(&count)
	var h Hold
	if d := admitOn(k, &h, usd, usd); d.Code != InsufficientBalance {
		t.Errorf("denied with %d", d.Code)
	}
	if most := int64(c.times.recall/lookApart+2) * asksAtOnce; grants.Load() == 0 || grants.Load() > most {
		t.Errorf("asked %d times within %s, at most %d are fair", grants.Load(), c.times.recall, most)
	}
}

// "I was refused with ten dollars on my account": on a busy store each answer takes
// longer than a recall. The node still asks again for unleased money.
func TestSlowAnswersDoNotHideUnleasedMoney(t *testing.T) {
	t.Parallel()
	var now atomic.Int64
	now.Store(1)
	c := newCluster(t, 1, func(c *cluster) {
		c.times.manual, c.times.mono, c.times.recall = true, now.Load, time.Second
	})
	_, secret := c.account(10 * usd)
	k := c.lookup(0, secret)
	asked := 0
	slow := func(call string) (bool, bool) {
		if call == "Grant" {
			asked++
			now.Add(int64(2 * time.Second))
			c.db.mu.Lock()
			c.db.stingy = asked < 3 // another node took it, and returned it
			c.db.mu.Unlock()
		}
		return false, false
	}
	c.conns[0].cut.Store(&slow)
	var h Hold
	if d := admitOn(k, &h, usd, usd); d.Code != Admitted {
		t.Errorf("denied with %d after %d answers", d.Code, asked)
	}
	h.Void(At(time.Now()))
	c.heal(0)
}
