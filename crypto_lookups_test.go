package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"farebox/bench/upstream"
)

// Transactions of a batch whose nonces were used are looked for side by side.
func TestUsedNoncesOfABatchAreLookedUpSideBySide(t *testing.T) {
	t.Parallel()
	const delay, count = 50 * time.Millisecond, 100
	n, url := startSimulated(t, upstream.NodeOptions{})
	c := startHostile(t, 3, "", url)
	var calls, answers []string
	for i := range count {
		calls = append(calls, sendRaw(fmt.Sprintf("0x01%02x6c6f77", i))) // "low" at its end: the nonce was used
		hash := "0x" + keccak(fmt.Sprintf("\x01%clow", rune(i)))
		n.Give(hash)
		answers = append(answers, `{"jsonrpc":"2.0","id":1,"result":"`+hash+`"}`)
	}
	n.Fault(upstream.NodeFaults{Delay: delay})
	began := time.Now()
	c.expect("["+strings.Join(calls, ",")+"]", "["+strings.Join(answers, ",")+"]", 20*count)
	took := time.Since(began)
	t.Logf("%d transactions took %v", count, took)
	if took > count*delay/2 {
		t.Errorf("a batch of %d took %v, at a node of %v", count, took, delay)
	}
	if stats := n.Stats(); stats.Calls["eth_sendRawTransaction"] != count || stats.Calls["eth_getTransactionByHash"] != count {
		t.Errorf("the node was asked %v", stats.Calls)
	}
}
