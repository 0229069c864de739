package store

import (
	"slices"
	"testing"
	"time"

	"farebox/billing/money"
)

// "The other node had my money, and nobody waited until it had said so": a recall names
// the nodes with leases of the account or of its keys, and their answers arrive with the
// returned money. No recall waits for a node without a session.
func TestRecallIsAnsweredWithReturnedMoney(t *testing.T) {
	t.Parallel()
	l := newLeaseTest(t, 4)
	a, b, limited, gone := l.nodes[0], l.nodes[1], l.nodes[2], l.nodes[3]
	x := addAccount(t, a, "x", money.Parts{0, 0, 100})
	y := addAccount(t, a, "y", money.Parts{0, 0, 100})
	k := &KeyRow{ID: "k", Account: x, Type: Inference, Digest: Digest{1}, Period: Lifetime, LimitUSD: nano(100),
		CreatedUs: 1}
	if err := a.AddKey(k, 10); err != nil {
		t.Fatal(err)
	}
	b.grant(wanted(x, 60))
	limited.grant(limit(x, k.No, Lifetime, 30))
	gone.grant(wanted(x, 5))
	if _, err := gone.Beat(time.Microsecond); err != nil {
		t.Fatal(err)
	}
	list, err := a.Recall(a.node, y, x)
	if err != nil || len(list) != 2 {
		t.Fatalf("%+v (%v)", list, err)
	}
	if list[0].Account != y || len(list[0].Nodes) != 0 || list[1].Account != x ||
		!slices.Equal(list[1].Nodes, []uint32{b.node, limited.node}) || list[1].No != list[0].No+1 {
		t.Errorf("the recalls are %+v", list)
	}
	changes, err := b.Changes(list[0].No - 1)
	if err != nil || len(changes) != 2 || changes[1] != (Change{list[1].No, ChangeRecall, x, int64(a.node)}) {
		t.Errorf("the feed has %+v (%v)", changes, err)
	}
	expect := func(holders, answered []uint32) {
		t.Helper()
		found, err := a.Recalled(list)
		if err != nil || len(found) != 2 || len(found[0].Nodes)+len(found[0].Answered) > 0 ||
			!slices.Equal(found[1].Nodes, holders) || !slices.Equal(found[1].Answered, answered) {
			t.Errorf("the recalls are %+v (%v), expected holders %v and answers %v", found, err, holders, answered)
		}
	}
	expect([]uint32{b.node, limited.node}, nil)
	for range 2 { // the first answer of the store may be lost
		f, err := b.Return(b.op+1, []Want{wanted(x, 50)}, list[1].No)
		if err != nil || len(f) != 1 || f[0].Granted[money.InUSD] != 50 {
			t.Fatalf("returned: %+v (%v)", f, err)
		}
	}
	b.op++
	expect([]uint32{b.node, limited.node}, []uint32{b.node})
	for range 2 { // with nothing to give
		if _, err := limited.Return(limited.op+1, nil, list[1].No); err != nil {
			t.Fatal(err)
		}
	}
	limited.op++
	expect([]uint32{b.node, limited.node}, []uint32{b.node, limited.node})
	b.giveBack(wanted(x, 10))
	expect([]uint32{limited.node}, []uint32{b.node, limited.node})
	l.recount()
}
