package ledger

import (
	"fmt"
	"testing"
	"time"

	"farebox/bench/servers"
	"farebox/bench/upstream"
	"farebox/tests/rig"
)

// Promise P1: a farebox that is killed at a random moment under load has lost
// no charge of an answer that a client got whole, and charged none twice.
func TestKillLosesAndDoublesNothing(t *testing.T) { killEmbedded(t, 5) }

func TestLongKillLosesAndDoublesNothing(t *testing.T) { killEmbedded(t, servers.Campaign(15)) }

func killEmbedded(t *testing.T, rounds int) {
	sim := rig.StartUpstream(t, upstream.Options{})
	killRounds(t, sim, rig.StartGateway(t, fmt.Sprintf(rig.PrepaidConfig, sim.URL)), rounds)
}

// The same with the ledger in PostgreSQL: the node's journal brings the records that the
// store does not have yet.
func TestKillLosesAndDoublesNothingOnPostgreSQL(t *testing.T) { killOnPostgreSQL(t, 3) }

func TestLongKillLosesAndDoublesNothingOnPostgreSQL(t *testing.T) {
	killOnPostgreSQL(t, servers.Campaign(8))
}

func killOnPostgreSQL(t *testing.T, rounds int) {
	c := rig.StartCluster(t, 1)
	killRounds(t, c.Sim, c.Nodes[0], rounds)
}

func killRounds(t *testing.T, sim *rig.Simulated, g *rig.Gateway, rounds int) {
	g.NewAccount("a", "1000")
	key := g.Key("a")

	l := rig.NewLoad(t, sim, g, key)
	// A shared store hears of it with the next projection.
	for end := time.Now().Add(time.Minute); g.Settled()["a"].Spent != l.Price; time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("one request costs %s, want %s", g.Settled()["a"].Spent, l.Price)
		}
	}

	random := rig.Seeded(t)(1)
	for round := range rounds {
		end := l.Start(g, 16)
		time.Sleep(time.Duration(20+random.IntN(250)) * time.Millisecond)
		g.Kill()
		end()
		g.Start()
		if t.Failed() {
			t.Fatalf("round %d", round)
		}
	}
	if !sim.WaitIdle(time.Minute) {
		t.Error("the upstream is still answering")
	}
	if err := g.Stop(); err != nil {
		t.Error(err)
	}
	a := g.Settled()["a"]
	// The price of body and of stream differ by the length of the scenario
	// text in the prompt; bounds are computed from the truth of the upstream.
	most := rig.Produced(sim.Idle(t).Tokens)
	least := l.Price * rig.Money(l.Whole.Load())
	if a.Spent < least {
		t.Errorf("%d answers were received whole, but %s is charged, less than %s", l.Whole.Load(), a.Spent, least)
	}
	if a.Spent > most {
		t.Errorf("charged %s, but the upstream produced only %s", a.Spent, most)
	}
	if a.USD+a.Spent != 1_000_000_000_000 || a.Held != 0 {
		t.Errorf("the account does not add up: %+v", a)
	}
	g.CLI("verify")
	t.Logf("%d kills, %d requests sent, %d received whole; charged %s, between %s and %s", rounds, l.Sent.Load(),
		l.Whole.Load(), a.Spent, least, most)
}
