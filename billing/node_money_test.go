package billing

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"farebox/config"
)

// "Two nodes spent the same last dollar", "the last cents were on the other node and my
// request was refused": holds are admitted up to the account's money, on whichever node
// it is.
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

// Money moves: charges below and beyond the hold, extensions, voids, three currencies, on
// three nodes, until nothing is left.
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
					h.Void(At(time.Now()))
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
	m, owed := c.money(1), c.debt(1)
	if int64(m.spent-owed.paid) != charged.Load() || int64(owed.incurred) != short.Load() || m.granted != 10*usd ||
		c.db.late != 0 {
		t.Errorf("%+v and %+v booked and %s late, %d charged and %d owed", m, owed, c.db.late, charged.Load(),
			short.Load())
	}
	if left := m.avail + m.escrow; left > usd/100 {
		t.Errorf("%s are left, but requests for 1 nano were refused", left)
	}
}

// "The stream overran its hold by 7, the account had 5 more on the other node, and kept
// them": the account's money pays for it, on whichever node it is.
func TestOverrunTakesMoneyOfOtherNodes(t *testing.T) {
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
	other.Void(At(time.Now()))
	if n, short := settleNow(&h, 12*usd); n != 10*usd || short != 2*usd {
		t.Errorf("charged %s, short of %s", n, short)
	}
	c.audit()
}

// With plenty of money, no request may wait for the network.
func TestPlentyNeedsNoNetwork(t *testing.T) {
	c := newCluster(t, 2, func(c *cluster) {
		c.times.keep, c.times.poll, c.times.beat = time.Hour, time.Hour,
			time.Hour
	})
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
		return k.Account.avail.Total() >= sliceLeast && !k.Account.lease.asking
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
		return b == 5*usd // money at another node may still come back
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

// The floor counts all money of the account, on whichever node it is (addendum 19.2).
func TestFloorCountsMoneyOfOtherNodes(t *testing.T) {
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
	second.Void(At(time.Now()))
	settleNow(&first, 3*usd/2)
	if err := c.nodes[0].project.drain(); err != nil {
		t.Fatal(err)
	}
	c.eventually("half a dollar is below the floor", func() bool {
		second.Reset()
		return admitOn(c.lookup(1, secret), &second, usd/10, usd/10).Code == BelowMinimum
	})
}

// Leases that are not needed return.
func TestIdleLeasesGoBack(t *testing.T) {
	c := newCluster(t, 2)
	_, secret := c.account(10 * usd)
	k := c.lookup(0, secret)
	var h Hold
	admitOn(k, &h, 5*usd, 5*usd)
	settleNow(&h, usd)
	c.eventually("the rest is back", func() bool { return c.money(1).avail == 9*usd })
	c.eventually("the account leaves the queue", func() bool {
		c.nodes[0].node.queue.mu.Lock()
		defer c.nodes[0].node.queue.mu.Unlock()
		return len(c.nodes[0].node.queue.active) == 0
	})
	c.audit()
}

// The local clock may be wrong; days are the store's.
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
		d := c.nodes[0].Admit(&h, &Admission{Key: k, Slot: -1, Hold: n, Min: n, Now: c.nodes[0].at()})
		if d.Code == Admitted {
			h.Settle(Settlement{Cost: n, Now: c.nodes[0].at()})
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

// Each day's allowance is granted once, and the rest of the previous day's expires on
// every node.
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
	c.eventually("the other node's day begins", func() bool { return c.nodes[0].Today() == c.nodes[1].Today() })
	if d := admitOn(keys[0], &Hold{}, 1, 1); d.Code != InsufficientBalance {
		t.Errorf("more than a day's allowance was held: %d", d.Code)
	}
	settleNow(&h, 4*usd)
	settleNow(&open, usd/2) // in the day that admitted it
	c.audit()
	c.eventually("the old day's rest expires", func() bool {
		for _, l := range c.nodes {
			l.node.keep()
			l.node.queue.step()
			l.project.sweptDay.Store(0)
			if err := l.project.expire(); err != nil {
				t.Fatal(err)
			}
		}
		m := c.money(1)
		return m.expired == 4*usd-usd-usd/2 && m.spent == 5*usd+usd/2 && m.avail == 0 && m.escrow == 0
	})
}

// "I was refused while my money was on its way from one place to another": returned money
// counts on the node until the store has it.
func TestMoneyOnItsWayBackIsNotGone(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2)
	limit := 5 * usd
	_, secret := c.account(10*usd, func(n *NewKey) { n.LimitUSD = &limit })
	k := c.lookup(0, secret)
	var h Hold
	if d := admitOn(k, &h, 4*usd, 4*usd); d.Code != Admitted {
		t.Fatalf("denied with %d", d.Code)
	}
	h.Void(c.nodes[0].at())
	a := k.Account
	var seen atomic.Int64
	look := func(call string) (before, after bool) {
		if call == "Return" && seen.Load() == 0 {
			seen.Store(int64(a.sources(k, 4*usd).reach))
		}
		return false, false
	}
	c.conns[0].cut.Store(&look)
	c.eventually("money goes back", func() bool {
		a.mu.Lock()
		a.lease.give(a, giveAll)
		a.mu.Unlock()
		return seen.Load() != 0
	})
	if got := Nano(seen.Load()); got < 4*usd {
		t.Errorf("%s of 4 USD could be had while it was on its way", got)
	}
}

// "I was refused for what the store had said before I paid in": an answer to the second
// try is as old as the first try. A failed step stays failed for its waiters, even if the
// store is back before they look.
func TestLateAnswersAreNotTakenForNews(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2, func(c *cluster) {
		c.times.manual, c.times.mono = true, func() int64 { return 1 }
	})
	id, secret := c.account(0)
	k := c.lookup(0, secret)
	a, n := k.Account, c.nodes[0].node
	lose := func(call string) (before, after bool) { return false, call == "Grant" }
	c.conns[0].cut.Store(&lose)
	a.wait(k, 10*usd)
	a.mu.Lock()
	n.queue.queueRequest(a)
	a.mu.Unlock()
	n.queue.mu.Lock()
	round := n.queue.round
	n.queue.mu.Unlock()
	n.queue.step()
	c.heal(0)
	n.heard(nil)
	if <-round.tried; round.answered {
		t.Error("a step whose answer was lost counts as answered")
	}
	if _, _, err := c.nodes[1].Credit(id, USD, 10*usd, "", ""); err != nil {
		t.Fatal(err)
	}
	if !n.queue.step() {
		t.Fatal("the store does not answer")
	}
	if from := a.sources(k, 10*usd); from.reach < 10*usd {
		t.Errorf("%s can be had of the 10 USD that were paid in before the answer", from.reach)
	}
	a.wait(k, -10*usd)
}
