package billing

import (
	"strings"
	"testing"
	"time"

	"farebox/bench/servers"
	"farebox/billing/money"
	"farebox/billing/store"
)

// "I limited a key while a long stream of it ran, and together they spent more than the
// limit": the unused rest of a hold from before the limit was never taken out of it, so
// none of it returns there.
func TestHoldFromBeforeALimitReturnsNoneOfIt(t *testing.T) {
	c := newCluster(t, 2, func(c *cluster) { c.times.recall = 300 * time.Millisecond })
	_, secret := c.account(100 * usd)
	k, other := c.lookup(0, secret), c.lookup(1, secret)
	var before, all Hold
	if d := admitOn(k, &before, 5*usd, 5*usd); d.Code != Admitted {
		t.Fatal(d.Code)
	}
	c.db.setLimit(1, func(k *store.KeyRow) { k.LimitUSD = nano(10 * usd) })
	for i := range c.nodes {
		c.eventually("the limit is known", func() bool { return c.lookup(i, secret).LimitUSD != nil })
	}
	if d := admitOn(c.lookup(0, secret), &all, 10*usd, 10*usd); d.Code != Admitted {
		t.Fatalf("the whole limit: %d", d.Code)
	}
	before.Void(At(time.Now()))
	a := k.Account
	c.eventually("the rest has gone back", func() bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		return len(a.lease.rests) == 0 && !a.lease.giving
	})
	c.audit()
	var more Hold
	if d := admitOn(other, &more, usd, usd); d.Code != KeyLimitUSD {
		t.Errorf("beyond the limit on the other node: %d", d.Code)
		more.Void(At(time.Now()))
	}
	settleNow(&all, 10*usd)
	c.audit()
}

// A limit is removed during a hold and then restored: the unused rest of the hold belongs
// to the limit again.
func TestRestOfAHoldReturnsToALimitThatWasRemoved(t *testing.T) {
	c := newCluster(t, 1, func(c *cluster) { c.times.recall = 300 * time.Millisecond })
	_, secret := c.account(100*usd, func(n *NewKey) { n.LimitUSD = nano(10 * usd) })
	var h, all Hold
	if d := admitOn(c.lookup(0, secret), &h, 8*usd, 8*usd); d.Code != Admitted {
		t.Fatal(d.Code)
	}
	c.db.setLimit(1, func(k *store.KeyRow) { k.LimitUSD = nil })
	c.eventually("the limit is gone", func() bool { return c.lookup(0, secret).LimitUSD == nil })
	settleNow(&h, usd)
	c.db.setLimit(1, func(k *store.KeyRow) { k.LimitUSD = nano(10 * usd) })
	c.eventually("the limit is known", func() bool { return c.lookup(0, secret).LimitUSD != nil })
	k := c.lookup(0, secret)
	c.eventually("9 of 10 USD can be used", func() bool {
		if d := admitOn(k, &all, 9*usd, 9*usd); d.Code != Admitted {
			return false
		}
		settleNow(&all, 9*usd)
		return true
	})
	if d := admitOn(k, &all, usd/10, usd/10); d.Code != KeyLimitUSD {
		t.Errorf("beyond the limit: %d", d.Code)
	}
	c.audit()
}

// "We restored the database, kept the nodes' directories, and the charges of
// the last hour were made a second time": a journal of a node that the store
// has never heard of is not applied to it.
func TestJournalOfAnotherStoreIsNotApplied(t *testing.T) {
	c := newCluster(t, 1)
	_, secret := c.account(100 * usd)
	var h Hold
	if d := admitOn(c.lookup(0, secret), &h, usd, usd); d.Code != Admitted {
		t.Fatal(d.Code)
	}
	settleNow(&h, usd)
	c.kill(0)

	restored := newFakeStore(func() int64 { return time.Now().UnixNano() })
	for range 2 { // starting again does not get past it
		l, err := Open(Options{
			Dir: c.dirs[0], Brand: "svc", segmentSize: 256 << 10, times: c.times,
			openShared: func() (store.Store, error) { return restored.connect(), nil },
		})
		if err == nil {
			_ = l.Close()
			t.Fatal("the journal was applied to a store that does not know its node")
		}
		if !strings.Contains(err.Error(), "node.dir") {
			t.Errorf("refused with %v", err)
		}
	}
	if restored.charged != (money.Parts{}) {
		t.Errorf("%v were charged", restored.charged)
	}
	c.open(0) // on its own store it goes on
	if b, _, _ := c.lookup(0, secret).Balance(); b != 99*usd {
		t.Errorf("%s are left of 99", b)
	}
}

// lateStore runs a function between an update and its answer.
type lateStore struct {
	store.Store
	late func(row store.KeyRow)
}

func (s *lateStore) UpdateKey(row *store.KeyRow) error {
	err := s.Store.UpdateKey(row)
	if late := s.late; late != nil && err == nil {
		s.late = nil
		late(*row)
	}
	return err
}

// "Two admins lowered a limit at the same time on two nodes; one node kept the higher one
// until its restart": an update that a newer one overtook does not count.
func TestOvertakenUpdateOfAKeyDoesNotStay(t *testing.T) {
	t.Parallel()
	db := &lateStore{}
	f := openLedger(t, func(o *Options) {
		o.Shared = servers.Database(t)
		o.wrapStore = func(inner store.Store) store.Store { db.Store = inner; return db }
	})
	f.account("a", 100*usd)
	k, secret := f.key("a")
	limit := func() Nano {
		k, err := f.Lookup([]byte(secret))
		if err != nil || k.LimitUSD == nil {
			return -1
		}
		return *k.LimitUSD
	}
	db.late = func(row store.KeyRow) {
		row.LimitUSD = nano(usd)
		if err := db.Store.UpdateKey(&row); err != nil {
			t.Error(err)
		}
		eventually(t, "the feed has the change", time.Minute, func() bool { return limit() == usd })
	}
	if _, err := f.Accounts().UpdateKey(k.Account, k.ID, KeyChange{USD: &money.Limit{Set: true, Amount: 50 * usd}}); err != nil {
		t.Fatal(err)
	}
	if got := limit(); got != usd {
		t.Errorf("the limit in force is %s, the newest is 1", got)
	}
	f.recount()
}
