package billing

import (
	"testing"
	"time"

	"farebox/bench/servers"
	"farebox/billing/report"
	"farebox/billing/store"
)

// "I read the history from one node to its end, went on from there, and what
// another node had served just before was in neither part." A node on a busy
// machine may be late, so one of five tries is enough.
func TestHistoryWaitsForOtherNodes(t *testing.T) {
	t.Parallel()
	times := nodeTimes{
		beat: 200 * time.Millisecond, ttl: 30 * time.Second, poll: 20 * time.Millisecond, keep: 50 * time.Millisecond,
		idle: time.Second, ask: 30 * time.Second, recall: 3 * time.Second,
	}
	nodes := nodesOn(t, servers.Database(t), 2, func(_ int, o *Options) { o.times = times })
	f := &fixture{t: t, clock: newTestClock(), Ledger: nodes[0]}
	f.account("a", 10*usd)
	_, secret, err := f.CreateKey(NewKey{Account: "a", Type: store.Inference})
	if err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(60 * time.Second); !(reportSource{nodes[0]}).SeveralNodes(); time.Sleep(
		20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the first node does not know the second")
		}
	}
	var keys [2]*Key
	for i, l := range nodes {
		if keys[i], err = l.Lookup([]byte(secret)); err != nil {
			t.Fatal(err)
		}
	}
	var shown []int
	for served := 1; served <= 5; served++ {
		l := nodes[1]
		var h Hold
		if d := l.Admit(&h, &Admission{Key: keys[1], Slot: -1, Hold: 1000, Min: 1000, Now: l.at()}); d.Code !=
			Admitted {
			t.Fatalf("denied with %d", d.Code)
		}
		h.Settle(Settlement{Cost: 1000, Status: 200, Now: l.at()})
		time.Sleep(100 * time.Millisecond) // the nodes differ a little in what time it is
		list, err := nodes[0].Reports(keys[0].Account).History(report.HistoryQuery{PageSize: 100})
		if err != nil {
			t.Fatal(err)
		}
		if shown = append(shown, len(list.Entries)); len(list.Entries) == served {
			return
		}
	}
	t.Errorf("after each request of the other node the history has %v", shown)
}
