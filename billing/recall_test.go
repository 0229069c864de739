package billing

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// "I was told that I had no money, and it was at a node that nobody could reach": while a
// node with a session has leases and does not answer, the balance is unknown.
func TestNodeThatDoesNotAnswerARecallIsNotTakenForPoor(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2, func(c *cluster) { c.times.recall = 300 * time.Millisecond })
	_, secret := c.account(10 * usd)
	k, other := c.lookup(0, secret), c.lookup(1, secret)
	var h Hold
	if d := admitOn(k, &h, 9*usd, 9*usd); d.Code != Admitted {
		t.Fatal(d.Code)
	}
	deaf := func(call string) (bool, bool) { return call == "Changes", false }
	c.conns[0].cut.Store(&deaf)
	h.Void(At(time.Now()))
	var lowered Hold
	if d := admitOn(other, &lowered, 8*usd, 8*usd); d.Code != StoreAway || d.RetryAfter == 0 {
		t.Errorf("answered %+v", d)
	}
	if d := admitOn(other, &lowered, 8*usd, usd/10); d.Code != Admitted {
		t.Errorf("money on this node is refused with %d", d.Code)
	}
	settleNow(&lowered, 0)
	c.heal(0)
	c.eventually("the money is found again", func() bool {
		h.Reset()
		return admitOn(other, &h, 10*usd, 10*usd).Code == Admitted
	})
	settleNow(&h, usd)
	c.audit()
}

// "One customer without money kept the database busy": requests that wait at the
// same time share a recall, and those that bring nothing become rare.
func TestRecallsOfAPoorAccountAreRare(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2)
	_, secret := c.account(10 * usd)
	k, poor := c.lookup(0, secret), c.lookup(1, secret)
	var h Hold
	if d := admitOn(k, &h, 9*usd, 9*usd); d.Code != Admitted {
		t.Fatal(d.Code)
	}
	var recalls, refused atomic.Int64
	count := func(call string) (bool, bool) {
		if call == "Recall" {
			recalls.Add(1)
		}
		return false, false
	}
	c.conns[1].cut.Store(&count)
	began := time.Now()
	var wg sync.WaitGroup
	for range 32 {
		wg.Go(func() {
			for time.Since(began) < 2*time.Second {
				var no Hold
				if d := admitOn(poor, &no, 5*usd, 5*usd); d.Code != InsufficientBalance {
					t.Errorf("answered %+v", d)
				}
				refused.Add(1)
			}
		})
	}
	wg.Wait()
	// 0.1, 0.2 and 0.4 s apart, then 0.5 s.
	if most := 6 + int64(time.Since(began)/recallMost); recalls.Load() == 0 || recalls.Load() > most {
		t.Errorf("%d recalls for %d refusals in %s, at most %d are fair", recalls.Load(), refused.Load(),
			time.Since(began), most)
	}
	settleNow(&h, usd)
	if d := admitOn(poor, &h, 9*usd, 9*usd); d.Code != Admitted {
		t.Errorf("money of the other node is refused with %d", d.Code)
	}
	settleNow(&h, usd)
	c.audit()
}

// "There were five dollars, two requests of four came at once, and both were
// refused": each node had a part of the money and waited for the other's.
func TestOneOfTwoWaitingNodesGetsTheMoney(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2)
	_, secret := c.account(5 * usd)
	keys := []*Key{c.lookup(0, secret), c.lookup(1, secret)}
	for round := range 4 {
		for _, k := range keys { // each has a part
			var h Hold
			if d := admitOn(k, &h, 2*usd, 2*usd); d.Code != Admitted {
				t.Fatalf("round %d: %d", round, d.Code)
			}
			defer h.Reset()
			h.Void(At(time.Now()))
		}
		var holds [2]Hold
		var codes [2]DenialCode
		var wg sync.WaitGroup
		for i, k := range keys {
			wg.Go(func() { codes[i] = admitOn(k, &holds[i], 4*usd, 4*usd).Code })
		}
		wg.Wait()
		if codes != [2]DenialCode{Admitted, InsufficientBalance} && codes != [2]DenialCode{InsufficientBalance, Admitted} {
			t.Errorf("round %d: the nodes answer %d", round, codes)
		}
		for i := range holds {
			if holds[i].Open() {
				holds[i].Void(At(time.Now()))
			}
		}
	}
	c.audit()
}

// "The cap of my stream was lowered with ninety dollars of my key's limit left": this
// node had leased little of the limit, and asks for more as the stream grows.
func TestReachCountsLimitsAtOtherNodes(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2)
	_, secret := c.account(100*usd, func(n *NewKey) { n.LimitUSD = nano(90 * usd) })
	k, other := c.lookup(0, secret), c.lookup(1, secret)
	var big, h, away Hold
	if d := admitOn(other, &away, usd, usd); d.Code != Admitted {
		t.Fatal(d.Code)
	}
	if d := admitOn(k, &big, 60*usd, 60*usd); d.Code != Admitted {
		t.Fatal(d.Code)
	}
	settleNow(&big, 0)
	l := c.nodes[1]
	d := l.Admit(&h, &Admission{Key: other, Slot: -1, Hold: usd, Min: usd, Reach: 80 * usd, Now: l.at()})
	if d.Code != Admitted || h.Reach() != 80*usd {
		t.Errorf("code %d, reach %s of 80", d.Code, h.Reach())
	}
	if got := h.ExtendUpTo(79*usd, usd); got != 79*usd {
		t.Errorf("%s of 79 more are held", got)
	}
	if got := h.ExtendUpTo(20*usd, 10*usd); got != 0 {
		t.Errorf("%s beyond the limit are held", got)
	}
	if got := h.ExtendUpTo(20*usd, usd); got != 9*usd {
		t.Errorf("%s of the last 9 are held", got)
	}
	settleNow(&away, 0)
	settleNow(&h, 80*usd)
	c.audit()
}
