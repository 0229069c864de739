package billing

import (
	"testing"
	"time"

	"farebox/bench/servers"
	"farebox/billing/store"
)

// "I had five dollars, sent one request after the other, and every thirtieth was
// refused": the money was at another node, which answered later than the first one
// waited. The same holds for the rest of a key's limit and for lowered caps.
func TestLongMoneyOfOtherNodesIsFoundOnABusyMachine(t *testing.T) {
	findsMoney(t, 3, servers.Campaign(30))
}

func findsMoney(t *testing.T, nodes, calls int) {
	limit := 5 * usd
	l := nodesOn(t, servers.Database(t), nodes, func(int, *Options) {})
	for name, key := range map[string]*Nano{"balance": nil, "limit": &limit} {
		if _, err := l[0].CreateAccount(name); err != nil {
			t.Fatal(err)
		}
		amount := 5 * usd
		if key != nil {
			amount = 50 * usd
		}
		if _, _, err := l[0].Credit(name, USD, amount, "", ""); err != nil {
			t.Fatal(err)
		}
		_, secret, err := l[0].CreateKey(NewKey{Account: name, Type: store.Inference, Period: store.Lifetime,
			LimitUSD: key})
		if err != nil {
			t.Fatal(err)
		}
		t.Run(name, func(t *testing.T) { sequentially(t, l, []byte(secret), calls) })
	}
	auditNodes(t, l)
}

// sequentially sends one request after the other to nodes in turn. Before the last one
// the balance is exactly its hold.
func sequentially(t *testing.T, nodes []*Ledger, secret []byte, calls int) {
	servers.KeepBusy(t)
	var keys []*Key
	for _, l := range nodes {
		k, err := l.Lookup(secret)
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, k)
	}
	const want = 4 * usd
	cost := usd / Nano(calls)
	refused, lowered, reach := 0, 0, 0
	slowest, began := time.Duration(0), time.Now()
	for i := range calls {
		k := keys[i%len(nodes)]
		l := k.Account.ledger
		ask := Admission{Key: k, Slot: -1, Hold: want, Min: usd / 100, Now: l.at()}
		switch i / len(nodes) % 3 {
		case 1:
			ask.Min = want
		case 2:
			ask.Hold, ask.Reach = usd/100, want
		}
		var h Hold
		sent := time.Now()
		d := l.Admit(&h, &ask)
		slowest = max(slowest, time.Since(sent))
		switch {
		case d.Code != Admitted:
			refused++
			t.Logf("call %d: denied with %d after %s", i, d.Code, time.Since(sent))
			continue
		case h.Granted() < ask.Hold:
			lowered++
			t.Logf("call %d: %s of %s after %s", i, h.Granted(), ask.Hold, time.Since(sent))
		case h.Reach() < want:
			reach++
		}
		if charged, owed := h.Settle(Settlement{Cost: cost, Status: 200, Now: l.at()}); charged != cost {
			t.Errorf("charged %s of %s, %s owed", charged, cost, owed)
		}
	}
	if refused+lowered+reach > 0 {
		t.Errorf("of %d requests %d were refused and %d lowered, of %d streams the cap, while the money was there",
			calls, refused, lowered, reach)
	}
	t.Logf("%d calls, %s each, the slowest %s", calls, time.Since(began)/time.Duration(calls), slowest)
}

func auditNodes(t *testing.T, nodes []*Ledger) {
	t.Helper()
	for i, l := range nodes {
		r, err := l.Audit()
		if err != nil {
			t.Fatal(err)
		}
		for _, fault := range r.Faults {
			t.Errorf("node %d: %s", i, fault)
		}
	}
}
