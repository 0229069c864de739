package rpc

import (
	"testing"
	"time"

	"farebox/config"
)

func parsed(t *testing.T, nodes string) *config.Config {
	t.Helper()
	c, err := config.Parse("test.yaml", []byte("rpc:\n  networks:\n    - name: base-mainnet\n      upstreams:\n"+nodes),
		func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// A reload keeps the connections, health and lessons of nodes that did not
// change, and the pins of the network.
func TestReloadKeepsWhatDidNotChange(t *testing.T) {
	first := "        - { name: a, url: \"http://127.0.0.1:1/x?key=1\" }\n        - { name: b, url: " +
		"\"http://127.0.0.1:2\" }\n"
	old, err := NewNetworks(parsed(t, first), nil)
	if err != nil {
		t.Fatal(err)
	}
	n := old.Find("base-mainnet")
	if n == nil || n.Base != 20 || n.Family.Name != "evm" || string(n.Nodes[0].path) != "/x?key=1" ||
		old.Find("ethereum-mainnet") != nil {
		t.Fatalf("the network is %+v", n)
	}
	now := time.Now().UnixNano()
	call := n.Family.Find([]byte("eth_call"))
	n.Nodes[0].lacks[call.Index].all.Store(now + int64(time.Hour))
	n.Nodes[0].head.Store(77)
	n.pins.set("account", "a", now+int64(time.Hour), now)

	next, err := NewNetworks(parsed(t,
		"        - { name: a, weight: 5, url: \"http://127.0.0.1:1/y\" }\n        - { name: b, url: "+
			"\"http://127.0.0.1:3\" }\n"), old)
	if err != nil {
		t.Fatal(err)
	}
	old.Close(next)
	m := next.Find("base-mainnet")
	a, b := m.Nodes[0], m.Nodes[1]
	if a.Proxy != n.Nodes[0].Proxy || a.Breaker != n.Nodes[0].Breaker || a.serves(call, 0, now) ||
		a.head.Load() != 77 || string(a.path) != "/y" || a.Config.Weight != 5 {
		t.Error("the unchanged state of node a was not kept")
	}
	if b.Proxy == n.Nodes[1].Proxy || !b.serves(call, 0, now) {
		t.Error("node b is at another address, and was kept")
	}
	if m.pins.get("account", now) != "a" {
		t.Error("the pin was lost")
	}
	next.Close(nil)
}
