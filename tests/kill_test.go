package tests

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"farebox/bench/upstream"
)

// Promise P1: a farebox that is killed at a random moment under load has lost
// no charge of an answer that a client got whole, and charged none twice.
func TestKillLosesAndDoublesNothing(t *testing.T) { killEmbedded(t, 5) }

func TestLongKillLosesAndDoublesNothing(t *testing.T) { killEmbedded(t, kills(50)) }

func killEmbedded(t *testing.T, rounds int) {
	sim := startUpstream(t, upstream.Options{})
	killRounds(t, sim, startGateway(t, fmt.Sprintf(prepaidConfig, sim.URL)), rounds)
}

// The same with the ledger in PostgreSQL: the node's journal brings what the
// store does not have yet.
func TestKillLosesAndDoublesNothingOnPostgreSQL(t *testing.T) { killOnPostgreSQL(t, 3) }

func TestLongKillLosesAndDoublesNothingOnPostgreSQL(t *testing.T) { killOnPostgreSQL(t, kills(20)) }

func killOnPostgreSQL(t *testing.T, rounds int) {
	c := startCluster(t, 1)
	killRounds(t, c.sim, c.nodes[0], rounds)
}

// kills is how often a long test kills: FAREBOX_KILLS, or what a usual run takes.
func kills(usual int) int {
	if n, err := strconv.Atoi(os.Getenv("FAREBOX_KILLS")); err == nil && n > 0 {
		return n
	}
	return usual
}

func killRounds(t *testing.T, sim *simulated, g *gateway, rounds int) {
	g.NewAccount("a", "1000")
	key := g.Key("a")

	// Every request costs the same, so that the charges can be counted.
	body := ask("sim-chat", "[[sim tokens=8]] Hello", "")
	stream := ask("sim-chat", "[[sim tokens=8 gap_ms=2]] Hello", `,"stream":true`)
	if status, _, answer := g.post("/chat/completions", key, body); status != 200 {
		t.Fatalf("answered %d: %s", status, answer)
	}
	tokens := sim.idle(t).Tokens
	before := money(tokens.PromptTokens*1000 + tokens.CompletionTokens*2000)
	// A shared store hears of it with the next projection.
	for end := time.Now().Add(10 * time.Second); g.settled()["a"].Spent != before; time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("one request costs %s, want %s", g.settled()["a"].Spent, before)
		}
	}

	random := seeded(t)(1)
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
					if complete(caller, g.URL, key, text) {
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
	a := g.settled()["a"]
	// The price of body and of stream differ by the length of the scenario
	// text in the prompt; bounds are computed from the truth of the upstream.
	stats := sim.idle(t)
	most := money(stats.Tokens.PromptTokens*1000 + stats.Tokens.CompletionTokens*2000)
	least := before * money(whole.Load())
	if a.Spent < least {
		t.Errorf("%d answers were received whole, but %s is charged, less than %s", whole.Load(), a.Spent, least)
	}
	if a.Spent > most {
		t.Errorf("charged %s, but the upstream produced only %s", a.Spent, most)
	}
	if a.USD+a.Spent != 1_000_000_000_000 || a.Held != 0 {
		t.Errorf("the account does not add up: %+v", a)
	}
	g.cli("verify")
	t.Logf("%d kills, %d requests sent, %d received whole; charged %s, between %s and %s", rounds, began.Load(), whole.Load(), a.Spent, least, most)
}

// complete sends a request and says whether its answer came whole.
func complete(c *http.Client, url, key, body string) bool {
	req, err := http.NewRequest("POST", url+"/chat/completions", strings.NewReader(body))
	if err != nil {
		return false
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+key)
	res, err := c.Do(req)
	if err != nil {
		return false
	}
	defer func() { _ = res.Body.Close() }()
	raw, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != 200 {
		return false
	}
	return !strings.HasPrefix(string(raw), "data:") || (strings.HasSuffix(string(raw), "data: [DONE]\n\n") && !strings.Contains(string(raw), `"error"`))
}
