package cluster

import (
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"farebox/tests/rig"
)

// Three nodes spend one account's money while one of them after the other is
// killed and comes back. What is charged lies between what clients received
// whole and what the upstream produced, and the books add up exactly.
func TestNodesThatAreKilledInTurnLoseAndDoubleNothing(t *testing.T) {
	t.Parallel()
	nodesThatAreKilledInTurn(t, 5*time.Second, 2*time.Second)
}

func TestLongNodesThatAreKilledInTurnLoseAndDoubleNothing(t *testing.T) {
	nodesThatAreKilledInTurn(t, time.Minute, 5*time.Second)
}

func nodesThatAreKilledInTurn(t *testing.T, length, every time.Duration) {
	c := rig.StartCluster(t, 3)
	first := c.Nodes[0]
	first.NewAccount("a", "1000")
	key := first.Key("a")

	body := rig.Ask("sim-chat", "[[sim tokens=8]] Hello", "")
	stream := rig.Ask("sim-chat", "[[sim tokens=8 gap_ms=2]] Hello", `,"stream":true`)
	if status, _, answer := first.Post("/chat/completions", key, body); status != 200 {
		t.Fatalf("answered %d: %s", status, answer)
	}
	one := c.Sim.Idle(t).Tokens
	price := rig.Money(one.PromptTokens*1000 + one.CompletionTokens*2000)

	var whole, began atomic.Int64
	stop := make(chan struct{})
	var wg sync.WaitGroup
	caller := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	for _, g := range c.Nodes {
		for worker := range 8 {
			wg.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					text := body
					if worker%4 == 0 {
						text = stream
					}
					began.Add(1)
					if rig.Complete(caller, g.URL, key, text) {
						whole.Add(1)
					} else {
						time.Sleep(20 * time.Millisecond) // the node is down
					}
				}
			})
		}
	}
	kills, random := 0, rig.Seeded(t)(1)
	for end := time.Now().Add(length); time.Now().Before(end); kills++ {
		time.Sleep(every - time.Second + time.Duration(random.Int64N(int64(time.Second))))
		g := c.Nodes[kills%len(c.Nodes)]
		g.Kill()
		time.Sleep(time.Duration(random.Int64N(int64(500 * time.Millisecond))))
		g.Start()
	}
	close(stop)
	wg.Wait()
	stats := c.Sim.Idle(t)
	most := rig.Money(stats.Tokens.PromptTokens*1000 + stats.Tokens.CompletionTokens*2000)
	for _, g := range c.Nodes {
		if err := g.Stop(); err != nil {
			t.Errorf("%s did not stop well: %v", g.Config, err)
		}
	}
	a := first.Accounts()["a"]
	least := price * rig.Money(whole.Load())
	if a.Spent < least || a.Spent > most {
		t.Errorf("charged %s; %d answers were received whole, worth %s, and %s was produced", a.Spent, whole.Load(), least, most)
	}
	if a.USD+a.Spent != 1_000_000_000_000 || a.Held != 0 {
		t.Errorf("the account does not add up: %+v", a)
	}
	first.CLI("verify")
	t.Logf("%d kills, %d requests sent, %d received whole; charged %s, between %s and %s", kills, began.Load(), whole.Load(), a.Spent, least, most)
}
