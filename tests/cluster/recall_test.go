package cluster

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"farebox/bench/servers"
	"farebox/tests/rig"
)

// "I had five dollars and sent one request after the other through the load
// balancer; some were refused, and of others the answer was cut short."
func TestRequestsInTurnFindWhatTheOtherNodeHas(t *testing.T) {
	t.Parallel()
	requestsInTurn(t, 2, 24, 1)
}

func TestLongRequestsInTurnFindWhatOtherNodesHave(t *testing.T) {
	requestsInTurn(t, 3, 60, servers.Campaign(1))
}

// requestsInTurn sends requests to nodes in turn, on accounts with 5 USD and then
// with keys of that limit. Each holds 4 USD and costs less than a cent.
func requestsInTurn(t *testing.T, nodes, calls, accounts int) {
	c := dearCluster(t, nodes)
	servers.KeepBusy(t)
	first := c.Nodes[0]
	for i := range 2 * accounts {
		name, usd, limit := fmt.Sprint("balance", i), "5", []string{}
		if i%2 == 1 {
			name, usd, limit = fmt.Sprint("limit", i), "50", []string{"--limit-usd", "5", "--limit-period", "LIFETIME"}
		}
		first.NewAccount(name, usd)
		key := first.Key(name, limit...)
		refused, lowered, slowest, began := 0, 0, time.Duration(0), time.Now()
		for call := range calls {
			more := `,"max_completion_tokens":1000`
			if call/nodes%2 == 1 {
				more += `,"stream":true`
			}
			sent := time.Now()
			status, header, answer := c.Nodes[call%nodes].Post("/chat/completions", key,
				rig.Ask("sim-chat", "[[sim tokens=2]] Hello", more))
			slowest = max(slowest, time.Since(sent))
			switch {
			case status != 200:
				refused++
				t.Logf("%s, call %d: %d %s", name, call, status, answer)
			case header.Get("X-Svc-Max-Completion-Tokens") != "":
				lowered++
				t.Logf("%s, call %d: a cap of %s", name, call, header.Get("X-Svc-Max-Completion-Tokens"))
			}
		}
		if refused+lowered > calls/20 { // KeepBusy, and whatever else the machine does
			t.Errorf("%s: of %d requests %d were refused and %d lowered, while the money was there", name, calls, refused,
				lowered)
		}
		t.Logf("%s: %d requests, %s each, the slowest %s", name, calls, time.Since(began)/time.Duration(calls), slowest)
	}
	for _, g := range c.Nodes {
		if err := g.Stop(); err != nil {
			t.Error(err)
		}
	}
	first.CLI("verify")
}

// dearCluster has a model whose longest answer costs 4 USD.
func dearCluster(t *testing.T, nodes int) *rig.Cluster {
	t.Helper()
	c := rig.NewCluster(t)
	for i := range nodes {
		g := c.NewNode(fmt.Sprintf("n%d", i+1))
		text, err := os.ReadFile(g.Config)
		if err != nil {
			t.Fatal(err)
		}
		g.WriteConfig(strings.Replace(string(text), "price: { input: 1, output: 2 }", "price: { input: 1, output: 4000 }", 1))
		g.ListenAndStart()
		c.Nodes = append(c.Nodes, g)
	}
	return c
}
