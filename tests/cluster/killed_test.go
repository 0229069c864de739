package cluster

import (
	"testing"
	"time"

	"farebox/bench/servers"
	"farebox/tests/rig"
)

// Three nodes spend one account's money while one of them after the other is killed and
// comes back. The charge lies between the whole answers of clients and the upstream's own
// count, and the books add up exactly.
func TestNodesThatAreKilledInTurnLoseAndDoubleNothing(t *testing.T) {
	t.Parallel()
	nodesThatAreKilledInTurn(t, 5*time.Second, 2*time.Second)
}

func TestLongNodesThatAreKilledInTurnLoseAndDoubleNothing(t *testing.T) {
	nodesThatAreKilledInTurn(t, time.Duration(servers.Campaign(25))*time.Second, 5*time.Second)
}

func nodesThatAreKilledInTurn(t *testing.T, length, every time.Duration) {
	c := rig.StartCluster(t, 3)
	first := c.Nodes[0]
	first.NewAccount("a", "1000")
	key := first.Key("a")

	l := rig.NewLoad(t, c.Sim, first, key)
	var ends []func()
	for _, g := range c.Nodes {
		ends = append(ends, l.Start(g, 8))
	}
	kills, random := 0, rig.Seeded(t)(1)
	for end := time.Now().Add(length); time.Now().Before(end); kills++ {
		time.Sleep(every - time.Second + time.Duration(random.Int64N(int64(time.Second))))
		g := c.Nodes[kills%len(c.Nodes)]
		g.Kill()
		time.Sleep(time.Duration(random.Int64N(int64(500 * time.Millisecond))))
		g.Start()
	}
	for _, end := range ends {
		end()
	}
	most := rig.Produced(c.Sim.Idle(t).Tokens)
	for _, g := range c.Nodes {
		if err := g.Stop(); err != nil {
			t.Errorf("%s did not stop well: %v", g.Config, err)
		}
	}
	a := first.Accounts()["a"]
	least := l.Price * rig.Money(l.Whole.Load())
	if a.Spent < least || a.Spent > most {
		t.Errorf("charged %s; %d answers were received whole, worth %s, and %s was produced", a.Spent, l.Whole.Load(),
			least, most)
	}
	if a.USD+a.Spent != 1_000_000_000_000 || a.Held != 0 {
		t.Errorf("the account does not add up: %+v", a)
	}
	first.CLI("verify")
	t.Logf("%d kills, %d requests sent, %d received whole; charged %s, between %s and %s", kills, l.Sent.Load(),
		l.Whole.Load(), a.Spent, least, most)
}
