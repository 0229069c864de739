package rpc

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"farebox/bench/upstream/node"
)

const turnRules = "rpc:\n  rate: { rpm: 0 }\n  max_in_flight: 1\n  turn_wait: "

// One request of an account at a time: the next waits for its turn, and has the
// same answer for the same price.
func TestCryptoRequestsTakeTurns(t *testing.T) {
	t.Parallel()
	c := startChainWith(t, 1, "      head_every: 0s\n", "", turnRules+"60s\n")
	c.nodes[0].Fault(node.Faults{Delay: 30 * time.Millisecond})
	const n = 8
	began := time.Now()
	var all sync.WaitGroup
	for range n {
		all.Go(func() { c.expect(chainID, chainAnswer, 20) })
	}
	all.Wait()
	if took := time.Since(began); took < n*30*time.Millisecond {
		t.Errorf("%d requests of 30 ms each took %s: they were served side by side", n, took)
	}
	c.spent(n * 20)
}

// A request that waited too long for its turn is refused and costs nothing; other
// accounts do not wait.
func TestCryptoTurnThatDoesNotCome(t *testing.T) {
	t.Parallel()
	c := startChainWith(t, 1, "      head_every: 0s\n      timeouts: { read: 50s }\n", "", turnRules+"50ms\n")
	c.NewAccount("other", "1")
	other := c.Key("other")
	answers := make(chan struct{})
	c.nodes[0].Fault(node.Faults{Until: answers})
	var all sync.WaitGroup
	var answered, refused atomic.Int64
	for range 2 {
		all.Go(func() {
			switch status, header, answer := c.rpc(chainID); {
			case status == 200:
				answered.Add(1)
			case status == 429 && header.Get("Retry-After") != "" && header.Get("X-RateLimit-Limit") == "" &&
				strings.Contains(answer, "at most 1 are served") && strings.Contains(answer, `"customMessage"`):
				refused.Add(1)
				close(answers)
			default:
				t.Errorf("answered %d %v %s", status, header, answer)
			}
		})
	}
	all.Go(func() {
		if status, _, answer := c.Post("/crypto/rpc/ethereum-sepolia", other, chainID); status != 200 {
			t.Errorf("another account is answered %d %s", status, answer)
		}
	})
	all.Wait()
	c.nodes[0].Fault(node.Faults{})
	if answered.Load() != 1 || refused.Load() != 1 {
		t.Errorf("of two requests at once %d were answered and %d refused", answered.Load(), refused.Load())
	}
	c.expect(chainID, chainAnswer, 20)
	if a := c.Settled()["rich"]; a.Held != 0 {
		t.Errorf("%s are still held", a.Held)
	}
	c.spent(2 * 20)
}
