package rpc

import (
	"fmt"
	"testing"
	"time"

	"farebox/config"
	"farebox/providers/health"
)

// network has nodes of these weights.
func network(weights ...int) *Network {
	f := FamilyOf("evm")
	n := &Network{Name: "test", Family: f, Config: &config.RPCNetwork{MaxLag: 5, HeadEvery: time.Second,
		PreferFast: true}, pins: newPins()}
	for i, w := range weights {
		u := &Node{Name: fmt.Sprint(i), Config: &config.RPCUpstream{Batch: "auto", MaxBatch: 10, Weight: w}, of: n,
			Breaker: health.NewBreaker(1, time.Minute), pace: &health.Pace{}, denied: make([]bool, len(f.Methods))}
		u.notes = &notes{lacks: make([]learnedRefusal, len(f.Methods))}
		n.Nodes = append(n.Nodes, u)
	}
	n.heads = newHeads(n)
	return n
}

// Nodes are asked by weight, each once, and those that rest or are behind last.
func TestPick(t *testing.T) {
	const now = int64(1_000_000 * time.Second)
	n := network(1, 3, 1)
	w := nodeNeeds{method: n.Family.Find([]byte("eth_call"))}
	order := func() (list []*Node) {
		p := n.pick(w)
		for u := p.Next(now); u != nil; u = p.Next(now) {
			list = append(list, u)
			u.Breaker.Released()
		}
		return list
	}
	first := map[string]int{}
	for range 5000 {
		list := order()
		if len(list) != 3 || list[0] == list[1] || list[1] == list[2] || list[0] == list[2] {
			t.Fatalf("the order is %v", list)
		}
		first[list[0].Name]++
	}
	if first["1"] < 2700 || first["1"] > 3300 || first["0"] < 800 || first["0"] > 1200 {
		t.Errorf("weights 1, 3, 1 give %v", first)
	}
	// Behind: last, not never.
	for i, head := range []int64{100, 94, 100} {
		n.Nodes[i].head.Store(head)
		n.Nodes[i].headNs.Store(now)
	}
	n.heads.top.Store(100)
	n.heads.topNs.Store(now)
	for range 50 {
		if list := order(); len(list) != 3 || list[2].Name != "1" {
			t.Fatalf("the node that is behind is not last: %v", list)
		}
	}
	n.heads.topNs.Store(now - int64(time.Hour)) // no request for a long time
	// Pinned: first, also by chance of its weight.
	w.pinned = n.Nodes[2]
	for range 50 {
		if list := order(); list[0].Name != "2" {
			t.Fatal("the pinned node is not first")
		}
	}
	// Resting: not at all while another is well, and the last resort else.
	n.Nodes[2].Breaker.Failed(now, 0)
	for range 50 {
		if list := order(); len(list) != 2 {
			t.Fatalf("a node that rests is asked: %v", list)
		}
	}
	n.Nodes[0].Breaker.Failed(now, 0)
	n.Nodes[1].Breaker.Failed(now-int64(time.Second), 0)
	if list := order(); len(list) != 1 || list[0].Name != "1" {
		t.Errorf("of three that rest the one whose rest ends first is probed, not %v", list)
	}
	if left := n.restsFor(now); left != 59*time.Second {
		t.Errorf("the first node is back in %s", left)
	}
}

// A node's refusal of a method is remembered for a while.
func TestPickRemembersRefusals(t *testing.T) {
	now := int64(1_000_000 * time.Second)
	n := network(1, 1)
	call := n.Family.Find([]byte("eth_call"))
	n.Nodes[0].lacks[call.Index].all.Store(now + int64(refusalTTL))
	n.Nodes[1].single.all.Store(now + int64(refusalTTL))
	asked := func(w nodeNeeds) string {
		p := n.pick(w)
		names := ""
		for u := p.Next(now); u != nil; u = p.Next(now) {
			names += u.Name
			u.Breaker.Released()
		}
		return names
	}
	if got := asked(nodeNeeds{method: call}); got != "1" {
		t.Errorf("eth_call is asked of %q", got)
	}
	var r Request
	if r.Scan([]byte(`[{"method":"eth_chainId"},{"method":"eth_chainId"}]`)) != nil || r.Resolve(n.Family) != nil {
		t.Fatal("the batch is refused")
	}
	if got := asked(nodeNeeds{request: &r, batch: 2}); got != "0" {
		t.Errorf("a batch is given to %q", got)
	}
	if got := asked(nodeNeeds{request: &r, batch: 11}); got != "" {
		t.Errorf("a batch above max_batch is given to %q", got)
	}
	now += int64(refusalTTL)
	if got := asked(nodeNeeds{method: call}); len(got) != 2 {
		t.Errorf("after a while eth_call is asked of %q", got)
	}
}

// A node that could not answer a call of a batch was asked for it once more, by
// itself, where the account reads from it.
func TestPinnedNodeThatHadItsTurnIsNotAskedAgain(t *testing.T) {
	n := network(1, 1)
	for range 50 {
		p := n.pick(nodeNeeds{method: n.Family.Find([]byte("eth_call")), pinned: n.Nodes[0], not: n.Nodes[0]})
		if u := p.Next(1); u != n.Nodes[1] || p.Next(1) != nil {
			t.Fatalf("%v is asked", u)
		}
	}
}

// A lone node that refused one account's requests answered 503 to all others, but
// for one at a time.
func TestAFailureOfOneAccountAtALoneNodeKeepsNoOtherOut(t *testing.T) {
	const now = int64(time.Hour)
	n := network(1)
	call := n.Family.Find([]byte("eth_call"))
	n.Nodes[0].Breaker.FailedFor(1, now, time.Minute)
	asks := func(account uint64) bool {
		p := n.pick(nodeNeeds{method: call, account: account})
		return p.Next(now) != nil
	}
	if !asks(2) || !asks(3) || !asks(2) {
		t.Error("others are kept out")
	}
	if !asks(1) || asks(1) {
		t.Error("the account itself probes, one request at a time")
	}
	n.Nodes[0].Breaker.Failed(now, time.Minute) // a probe of our own
	if asks(2) && asks(3) {
		t.Error("a failure that all accounts meet must rest the node for all")
	}
}

// Pins end, and their number is bounded.
func TestPins(t *testing.T) {
	p := newPins()
	p.set("a", "node", 100, 0)
	if p.get("a", 99) != "node" || p.get("b", 99) != "" || p.get("a", 100) != "" || p.some.Load() {
		t.Error("a pin does not end at its time")
	}
	for i := range maxPins + 10 {
		p.set(fmt.Sprint(i), "node", int64(i), int64(i/2))
	}
	if len(p.m) > maxPins {
		t.Errorf("there are %d pins", len(p.m))
	}
	if p.get(fmt.Sprint(maxPins+9), 0) != "node" {
		t.Error("the newest pin is gone")
	}
}
