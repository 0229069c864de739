package billing

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"farebox/bench/servers"
	"farebox/billing/window"
	"farebox/config"
)

// Extra work of a request, here searches, counts in its own window, with many callers at
// once, all units or none.
func TestExtraWorkCountsInItsOwnWindow(t *testing.T) {
	t.Parallel()
	f := openLedger(t)
	f.account("a", usd)
	k, _ := f.key("a")
	slot, rate := f.ModelNumber("search"), &config.Rate{RPM: 20}
	var passed atomic.Int64
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			for range 4 {
				if f.Count(k, slot, rate, 3, f.clock.at()).Code == Admitted {
					passed.Add(3)
				}
			}
		})
	}
	all.Wait()
	if n := passed.Load(); n != 18 {
		t.Errorf("%d of 20 passed by threes, want 18", n)
	}
	var q window.Quota
	k.Quota(slot, rate, f.clock.at(), &q)
	if q.RemainingRequests != 2 {
		t.Errorf("%d are left, want 2", q.RemainingRequests)
	}
	var h Hold
	a := f.ask(k, usd/2)
	a.Slot, a.Rate, a.Requests = slot, rate, 3
	if d := f.Admit(&h, a); d.Code != RateRequests || d.Allowed != 20 {
		t.Errorf("a request for three more: %+v", d)
	}
	if d := f.Count(k, slot, nil, 8, f.clock.at()); d.Code != Admitted {
		t.Errorf("without a limit: %+v", d)
	}
}

// Nodes that share limits count together, and refused units are returned.
func TestNodesCountExtraWorkTogether(t *testing.T) {
	t.Parallel()
	nodes := startNodes(t, 2, servers.StartRedis(t).Addr, config.Limits{})
	rate := &config.Rate{RPD: 10}
	count := func(n *testNode, requests int64) DenialCode {
		d := n.Count(n.key, n.slot, rate, requests, At(time.Now()))
		return d.Code
	}
	if a, b, c := count(nodes[0], 4), count(nodes[1], 4), count(nodes[0], 4); a != Admitted || b != Admitted ||
		c != RateRequests {
		t.Fatalf("4, 4 and 4 of 10: %v %v %v", a, b, c)
	}
	for i := range 2 {
		eventually(t, "refused units are back", 60*time.Second, func() bool { return count(nodes[i], 1) == Admitted })
	}
	if code := count(nodes[1], 1); code != RateRequests {
		t.Errorf("11 of 10: %v", code)
	}
}
