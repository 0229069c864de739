package ledger

import (
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"farebox/bench/upstream"
	"farebox/tests/rig"
)

// Promise P1: a farebox that is killed at a random moment under load has lost
// no charge of an answer that a client got whole, and charged none twice.
func TestKillLosesAndDoublesNothing(t *testing.T) { killEmbedded(t, 5) }

func TestLongKillLosesAndDoublesNothing(t *testing.T) { killEmbedded(t, rig.Kills(50)) }

func killEmbedded(t *testing.T, rounds int) {
	sim := rig.StartUpstream(t, upstream.Options{})
	killRounds(t, sim, rig.StartGateway(t, fmt.Sprintf(rig.PrepaidConfig, sim.URL)), rounds)
}

// The same with the ledger in PostgreSQL: the node's journal brings what the
// store does not have yet.
func TestKillLosesAndDoublesNothingOnPostgreSQL(t *testing.T) { killOnPostgreSQL(t, 3) }

func TestLongKillLosesAndDoublesNothingOnPostgreSQL(t *testing.T) { killOnPostgreSQL(t, rig.Kills(20)) }

func killOnPostgreSQL(t *testing.T, rounds int) {
	c := rig.StartCluster(t, 1)
	killRounds(t, c.Sim, c.Nodes[0], rounds)
}

func killRounds(t *testing.T, sim *rig.Simulated, g *rig.Gateway, rounds int) {
	g.NewAccount("a", "1000")
	key := g.Key("a")

	// Every request costs the same, so that the charges can be counted.
	body := rig.Ask("sim-chat", "[[sim tokens=8]] Hello", "")
	stream := rig.Ask("sim-chat", "[[sim tokens=8 gap_ms=2]] Hello", `,"stream":true`)
	if status, _, answer := g.Post("/chat/completions", key, body); status != 200 {
		t.Fatalf("answered %d: %s", status, answer)
	}
	tokens := sim.Idle(t).Tokens
	before := rig.Money(tokens.PromptTokens*1000 + tokens.CompletionTokens*2000)
	// A shared store hears of it with the next projection.
	for end := time.Now().Add(10 * time.Second); g.Settled()["a"].Spent != before; time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("one request costs %s, want %s", g.Settled()["a"].Spent, before)
		}
	}

	random := rig.Seeded(t)(1)
	var whole, began atomic.Int64 // answers received to the last byte; requests sent
	caller := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	for round := range rounds {
		stop := make(chan struct{})
		var wg sync.WaitGroup
		for worker := range 16 {
			wg.Add(1)
			go func() {
				defer wg.Done()
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
					}
				}
			}()
		}
		time.Sleep(time.Duration(20+random.IntN(250)) * time.Millisecond)
		g.Kill()
		close(stop)
		wg.Wait()
		g.Start()
		if t.Failed() {
			t.Fatalf("round %d", round)
		}
	}
	if !sim.WaitIdle(10 * time.Second) {
		t.Error("the upstream is still answering")
	}
	if err := g.Stop(); err != nil {
		t.Error(err)
	}
	a := g.Settled()["a"]
	// The price of body and of stream differ by the length of the scenario
	// text in the prompt; bounds are computed from the truth of the upstream.
	stats := sim.Idle(t)
	most := rig.Money(stats.Tokens.PromptTokens*1000 + stats.Tokens.CompletionTokens*2000)
	least := before * rig.Money(whole.Load())
	if a.Spent < least {
		t.Errorf("%d answers were received whole, but %s is charged, less than %s", whole.Load(), a.Spent, least)
	}
	if a.Spent > most {
		t.Errorf("charged %s, but the upstream produced only %s", a.Spent, most)
	}
	if a.USD+a.Spent != 1_000_000_000_000 || a.Held != 0 {
		t.Errorf("the account does not add up: %+v", a)
	}
	g.CLI("verify")
	t.Logf("%d kills, %d requests sent, %d received whole; charged %s, between %s and %s", rounds, began.Load(), whole.Load(), a.Spent, least, most)
}
