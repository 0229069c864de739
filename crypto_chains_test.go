package main

import (
	"strings"
	"testing"
	"time"

	"farebox/bench/upstream"
)

// A node of another chain in a network gets no turns, and the operator is told;
// neither a node that is down nor one that is slow holds up anybody.
func TestANodeOfAnotherChainGetsNoTurns(t *testing.T) {
	t.Parallel()
	for _, f := range []struct {
		name  string
		ids   []int64
		odd   int
		words string
	}{
		{"the odd one of three", []int64{5, 1, 1}, 0, "a node is on another chain than its network"},
		{"two that differ", []int64{1, 5}, 1, "no majority tells"},
	} {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			var nodes []*upstream.Node
			urls := []string{}
			for _, id := range f.ids {
				n, url := startSimulated(t, upstream.NodeOptions{Chain: id})
				nodes, urls = append(nodes, n), append(urls, url)
			}
			urls = append(urls, "http://"+freeAddr(t)) // it is down
			c := startHostile(t, 3, "", urls...)
			for end := time.Now().Add(10 * time.Second); !strings.Contains(c.Log(), f.words) && time.Now().Before(end); {
				time.Sleep(5 * time.Millisecond)
			}
			if !strings.Contains(c.Log(), f.words) || !strings.Contains(c.Log(), `"chain":"5","expected":"1"`) {
				t.Error("the log does not tell")
			}
			for range 40 {
				c.expect(chainID, `{"jsonrpc":"2.0","id":1,"result":"0x1"}`, 20)
				c.expect("["+chainID+"]", `[{"jsonrpc":"2.0","id":1,"result":"0x1"}]`, 20)
			}
			if n := nodes[f.odd].Stats().Requests; n != 1 {
				t.Errorf("the odd node was asked %d times", n)
			}
			name := `farebox_rpc_node_odd_chain{network="ethereum-sepolia",upstream="node-`
			for i := range f.ids {
				want := 0.0
				if i == f.odd {
					want = 1
				}
				if v, ok := c.metric(name + string(rune('0'+i)) + `"}`); !ok || v != want {
					t.Errorf("node %d has %v in the metric", i, v)
				}
			}
		})
	}
}
