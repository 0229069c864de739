package node

import (
	"testing"

	"github.com/tidwall/gjson"

	"farebox/bench/upstream/chain"
)

// A Node with a ledger still has its own faults, and can lie.
func TestANodeTellsOfItsLedger(t *testing.T) {
	n := New(Options{Ledger: chain.NewEVM(chain.EVMOptions{ID: 5})})
	ask := func(method string) string {
		f := n.draw()
		answer := n.Answer([]byte(`{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":["x"]}`), &f)
		return gjson.GetBytes(answer, "result").String()
	}
	if ask("eth_chainId") != "0x5" || ask("something_else") != `["x"]` {
		t.Error("an honest node does not answer from its ledger")
	}
	n.Fault(Faults{Lie: chain.Stranger})
	if ask("eth_chainId") != "0x6" {
		t.Error("the node does not lie")
	}
}
