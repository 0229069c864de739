package rpc

import (
	"strings"
	"testing"
	"time"

	"farebox/tests/rig"
)

// The limit of blockchain calls holds over all nodes together, and the calls of both are
// on one bill.
func TestNodesShareTheLimitOfBlockchainCalls(t *testing.T) {
	t.Parallel()
	c := rig.StartCluster(t, 2)
	first := c.Nodes[0]
	first.NewAccount("a", "10")
	key, admin := first.Key("a"), first.Key("a", "--type", "ADMIN")
	began := time.Now()
	passed := 0
	for i := range 80 {
		status, header, body := c.Nodes[i%2].Post("/crypto/rpc/ethereum-sepolia", key, chainID)
		switch {
		case status == 200 && header.Get("X-Svc-Rpc-Credits") == "20":
			passed++
		case status == 429 && header.Get("X-Ratelimit-Limit") == "30":
		default:
			t.Fatalf("%d %v %s", status, header, body)
		}
	}
	// 30 a minute: 30 at once, and one more every two seconds.
	if most := 31 + int(time.Since(began)/(2*time.Second)); passed < 30 || passed > most {
		t.Errorf("%d requests passed, want 30 to %d", passed, most)
	}
	rig.Await(t, "all of it is on the bill of both nodes", func() bool {
		for _, g := range c.Nodes {
			_, _, usage := g.Get("/billing/usage?limit=500", admin)
			if strings.Count(string(usage), `"sku":"crypto-rpc-ethereum-sepolia"`) != passed {
				return false
			}
		}
		return true
	})
}
