package rpc

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"farebox/bench/upstream/node"
	"farebox/tests/rig"
)

// A node of another chain in a network gets no turns, and the log names it; neither a
// node that is down nor one that is slow holds up the others.
func TestANodeOfAnotherChainGetsNoTurns(t *testing.T) {
	t.Parallel()
	for _, f := range []struct {
		name  string
		ids   []int64
		odd   int
		words string
	}{
		{"the odd one of three", []int64{5, 1, 1}, 0, "a node is on another chain than its network"},
		{"two that differ", []int64{1, 5}, 1, "there is no majority"},
	} {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			var nodes []*node.Node
			urls := []string{}
			for _, id := range f.ids {
				n, url := startSimulated(t, node.Options{Chain: id})
				nodes, urls = append(nodes, n), append(urls, url)
			}
			urls = append(urls, "http://"+rig.FreeAddr(t)) // it is down
			c := startHostile(t, 3, "", urls...)
			for end := time.Now().Add(time.Minute); !strings.Contains(c.Log(), f.words) &&
				time.Now().Before(end); {
				time.Sleep(5 * time.Millisecond)
			}
			if !strings.Contains(c.Log(), f.words) || !strings.Contains(c.Log(), `"chain":"5","expected":"1"`) {
				t.Error("the log does not name it")
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
				if v, ok := c.Metric(name + string(rune('0'+i)) + `"}`); !ok || v != want {
					t.Errorf("node %d has %v in the metric", i, v)
				}
			}
		})
	}
}

// A node that is alone has no other to differ from: the chain that the operator expects
// shows that its address is wrong, before customers meet it and after.
func TestALoneNodeOfAnotherChainGetsNoTurns(t *testing.T) {
	t.Parallel()
	n, url := startSimulated(t, node.Options{Chain: 5})
	c := startHostile(t, 3, "      chain_id: 0x1\n", url)
	const words = "a node is on another chain than its network"
	if log := c.AwaitLog(words); !strings.Contains(log, `"chain":"5","expected":"1"`) {
		t.Error("the log does not name the chains")
	}
	for range 5 {
		if status, _, answer := c.rpc(chainID); status != 500 || strings.Contains(answer, "result") {
			t.Errorf("status %d: %s", status, answer)
		}
	}
	if asked := n.Stats().Requests; asked != 1 {
		t.Errorf("the node of another chain was asked %d times", asked)
	}
	if v, _ := c.Metric(`farebox_rpc_node_odd_chain{network="ethereum-sepolia",upstream="node-0"}`); v != 1 {
		t.Errorf("the metric has %v", v)
	}

	text, err := os.ReadFile(c.Config)
	if err != nil {
		t.Fatal(err)
	}
	c.WriteConfig(strings.Replace(string(text), "chain_id: 0x1", "chain_id: 5", 1))
	c.Signal(rig.Hangup)
	c.AwaitLog("on the chain of its network again")
	c.expect(chainID, `{"jsonrpc":"2.0","id":1,"result":"0x5"}`, 20)
}

func TestCheckOnlineComparesTheChainsOfNodes(t *testing.T) {
	t.Parallel()
	_, url := startSimulated(t, node.Options{Chain: 5})
	check := func(id string) (string, error) {
		file := filepath.Join(t.TempDir(), "farebox.yaml")
		text := fmt.Sprintf("rpc: { networks: [{ name: ethereum-mainnet, %s upstreams: [{ name: own, url: %q }] }] }\n",
			id, url)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return rig.RunIn(t, filepath.Dir(file), "check", "--online", "-c", file)
	}
	for _, id := range []string{"", "chain_id: 5,", "chain_id: 0x05,"} {
		if out, err := check(id); err != nil || !strings.Contains(out, `own: good (200); on chain "5"`) {
			t.Errorf("%q: %v\n%s", id, err, out)
		}
	}
	// The simulated node does not know Solana's methods, and answers with the question.
	if out, err := check("family: solana,"); err != nil || !strings.Contains(out, "own: good (200); it does not name its chain") {
		t.Errorf("a node that names no chain: %v\n%s", err, out)
	}
	if out, err := check("chain_id: 1,"); rig.ExitCode(err) != 1 ||
		!strings.Contains(out, `own: it is on chain "5", and chain_id of the network is 1`) {
		t.Errorf("%v\n%s", err, out)
	}
}
