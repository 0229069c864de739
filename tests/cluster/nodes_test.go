package cluster

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"farebox/tests/rig"
)

// Several farebox processes on one PostgreSQL and one Redis.

// A key that one node revokes is refused by the others within a second.
func TestRevokedKeyIsRefusedOnEveryNodeWithinASecond(t *testing.T) {
	t.Parallel()
	c := rig.StartCluster(t, 2)
	a, b := c.Nodes[0], c.Nodes[1]
	a.NewAccount("a", "10")
	body := rig.Ask("sim-chat", "[[sim tokens=2]] Hello", "")
	rig.Soon(t, "the refusal of a revoked key on the other node", time.Second, func(int) time.Duration {
		id, key := a.NewKey("a")
		for _, g := range c.Nodes {
			if status, _, answer := g.Post("/chat/completions", key, body); status != 200 {
				t.Fatalf("answered %d: %s", status, answer)
			}
		}
		a.CLI("key", "revoke", id)
		return rig.Took(t, "the key is refused", func() bool {
			status, _, _ := b.Post("/chat/completions", key, body)
			return status == 401
		})
	})
}

// The last dollar is spent once, on whichever nodes it is asked for.
func TestNodesNeverSpendTheLastDollarTwice(t *testing.T) {
	t.Parallel()
	spendTheLastDollar(rig.StartCluster(t, 2))
}

// spendTheLastDollar stops the nodes at its end.
func spendTheLastDollar(c *rig.Cluster) {
	t, first := c.T, c.Nodes[0]
	first.NewAccount("last", "1")
	key := first.Key("last")
	// Each answer costs at least 100,000 nano; 1 USD pays for fewer than 10,000.
	body := rig.Ask("sim-chat", "[[sim tokens=400]] Hello", `,"max_completion_tokens":400`)
	before := c.Sim.Idle(t).Tokens
	var paid, refused, other atomic.Int64
	var wg sync.WaitGroup
	for i := range 32 {
		g := c.Nodes[i%len(c.Nodes)]
		wg.Go(func() {
			for refusedHere := 0; refusedHere < 3; {
				status, _, answer := g.Post("/chat/completions", key, body)
				switch status {
				case 200:
					paid.Add(1)
				case 402:
					refused.Add(1)
					refusedHere++
				default:
					other.Add(1)
					t.Errorf("answered %d: %s", status, answer)
					return
				}
			}
		})
	}
	wg.Wait()
	after := c.Sim.Idle(t).Tokens
	produced := rig.Money((after.PromptTokens-before.PromptTokens)*1000 +
		(after.CompletionTokens-before.CompletionTokens)*2000)
	for _, g := range c.Nodes {
		if err := g.Stop(); err != nil {
			t.Error(err)
		}
	}
	a := first.Accounts()["last"]
	if a.Spent != produced || a.USD < 0 || a.USD+a.Spent != 1_000_000_000 {
		t.Errorf("produced %s, the account is %+v", produced, a)
	}
	one := produced / rig.Money(paid.Load())
	if a.USD > 2*one+one {
		t.Errorf("%s is left, though an answer costs %s", a.USD, one)
	}
	t.Logf("%d paid, %d refused; %s left, an answer costs %s", paid.Load(), refused.Load(), a.USD, one)
}

// load sends requests to every node until it is stopped. It counts whole answers, expected
// refusals while a part of the cluster is away (503, 402 or 429), and all others.
type clusterLoad struct {
	whole, away, wrong atomic.Int64
	example            atomic.Value
	stop               chan struct{}
	wg                 sync.WaitGroup
}

func load(c *rig.Cluster, key, body string, workers int) *clusterLoad {
	l := &clusterLoad{stop: make(chan struct{})}
	caller := &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	for _, g := range c.Nodes {
		for range workers {
			l.wg.Go(func() {
				for {
					select {
					case <-l.stop:
						return
					default:
					}
					status, _, answer, err := rig.Try(caller, g.URL+"/chat/completions", key, body)
					switch {
					case err != nil || status == 200 && !strings.Contains(answer, `"usage"`):
						l.wrong.Add(1)
						l.example.Store(fmt.Sprint(status, " ", err, " ", answer))
					case status == 200:
						l.whole.Add(1)
					case status == 503 || status == 429:
						l.away.Add(1)
						time.Sleep(5 * time.Millisecond)
					default:
						l.wrong.Add(1)
						l.example.Store(fmt.Sprint(status, " ", answer))
					}
				}
			})
		}
	}
	return l
}

// goesOn says whether more is answered from here on.
func (l *clusterLoad) goesOn() bool {
	before := l.whole.Load()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if l.whole.Load() > before+8 { // a few were answered already, and only not yet read
			return true
		}
	}
	return false
}

func (l *clusterLoad) end() {
	close(l.stop)
	l.wg.Wait()
}

// settle waits for the upstream, stops the nodes and compares the books with the upstream's count.
func settle(c *rig.Cluster, credit rig.Money) {
	c.T.Helper()
	stats := c.Sim.Idle(c.T)
	produced := rig.Money(stats.Tokens.PromptTokens*1000 + stats.Tokens.CompletionTokens*2000)
	for _, g := range c.Nodes {
		if err := g.Stop(); err != nil {
			c.T.Errorf("a node did not stop well: %v", err)
		}
	}
	first := c.Nodes[0]
	if a := first.Accounts()["a"]; a.Spent != produced || a.USD+a.Spent != credit || a.USD < 0 || a.Held != 0 ||
		a.Leased.USD != 0 {
		c.T.Errorf("produced %s, the account is %+v", produced, a)
	}
	first.CLI("verify")
}

// A limit of 30 requests a minute is 30 over all nodes together.
func TestLimitHoldsOverAllNodes(t *testing.T) {
	t.Parallel()
	limitHolds(rig.StartCluster(t, 3))
}

func limitHolds(c *rig.Cluster) {
	t, first := c.T, c.Nodes[0]
	first.NewAccount("limited", "10")
	key := first.Key("limited")
	body := rig.Ask("sim-few", "[[sim tokens=2]] Hello", "")
	var admitted atomic.Int64
	var wg sync.WaitGroup
	for _, g := range c.Nodes {
		for range 8 {
			wg.Go(func() {
				for range 10 {
					switch status, _, answer := g.Post("/chat/completions", key, body); status {
					case 200:
						admitted.Add(1)
					case 429:
					default:
						t.Errorf("answered %d: %s", status, answer)
					}
				}
			})
		}
	}
	began := time.Now()
	wg.Wait()
	// The window gives one back every two seconds.
	if most := 30 + int64(time.Since(began)/(2*time.Second)) + 1; admitted.Load() < 30 || admitted.Load() > most {
		t.Errorf("%d requests were admitted, the limit is 30 a minute", admitted.Load())
	}
}
