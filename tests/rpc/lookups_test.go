package rpc

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"farebox/bench/upstream/node"
)

// Transactions of a batch whose nonces were used are looked for side by side.
func TestUsedNoncesOfABatchAreLookedUpSideBySide(t *testing.T) {
	t.Parallel()
	const delay, count = 200 * time.Millisecond, 100
	n, url := startSimulated(t, node.Options{})
	c := startHostile(t, 3, "", url)
	var calls, answers []string
	for i := range count {
		calls = append(calls, sendRaw(fmt.Sprintf("0x01%02x6c6f77", i))) // "low" at its end: the nonce was used
		hash := "0x" + keccak(fmt.Sprintf("\x01%clow", rune(i)))
		n.Give(hash)
		answers = append(answers, `{"jsonrpc":"2.0","id":1,"result":"`+hash+`"}`)
	}
	n.Fault(node.Faults{Delay: delay})
	began := time.Now()
	c.expect("["+strings.Join(calls, ",")+"]", "["+strings.Join(answers, ",")+"]", 20*count)
	took := time.Since(began)
	t.Logf("%d transactions took %v", count, took)
	if took > count*delay/2 {
		t.Errorf("a batch of %d took %v, at a node of %v", count, took, delay)
	}
	if stats := n.Stats(); stats.Calls["eth_sendRawTransaction"] != count ||
		stats.Calls["eth_getTransactionByHash"] != count {
		t.Errorf("the node was asked %v", stats.Calls)
	}
}

// The question whether a transaction landed ends with the time of the request,
// too: nodes that drip its answer held the client for five seconds each.
func TestLookingForATransactionEndsAtTheLimit(t *testing.T) {
	t.Parallel()
	const limit = 2 * time.Second
	node := func() string {
		return startDrippingOn(t, "eth_getTransactionByHash",
			`{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"nonce too low"}}`)
	}
	c := startHostile(t, 0, "      timeouts: { read: 1s, heavy: 1s, write: 1s, total: 2s }\n", node(), node())
	tries := int64(0)
	for _, body := range []string{sendRaw("0x01"), "[" + sendRaw("0x01") + "]"} {
		var took []time.Duration // a busy machine may stall: one of three is enough
		for len(took) == 0 || len(took) < 3 && slices.Min(took) > 2*limit {
			began := time.Now()
			status, _, answer := c.rpc(body)
			took = append(took, time.Since(began))
			if tries++; status != 200 || !strings.Contains(answer, "nonce too low") {
				t.Errorf("%s: %d %s after %s", body, status, answer, took)
			}
		}
		if slices.Min(took) > 2*limit {
			t.Errorf("%s took %s", body, took)
		}
	}
	c.spent(tries * 5)
}

// A node that took a transaction and drips its answer uses up its time, and the rest is
// enough to find the transaction at another.
func TestATransactionIsFoundWithinTheLimit(t *testing.T) {
	t.Parallel()
	const limit = 8 * time.Second
	n, url := startSimulated(t, node.Options{})
	n.Fault(node.Faults{Without: []string{"eth_sendRawTransaction"}})
	n.Give(hashOf01)
	c := startHostile(t, 0, "      timeouts: { read: 8s, heavy: 8s, write: 8s, total: 8s }\n",
		startDrippingOn(t, "eth_sendRawTransaction", `{"jsonrpc":"2.0","id":1,"result":null}`), url)
	began := time.Now()
	status, _, answer := c.rpc(sendRaw("0x01"))
	if took := time.Since(began); status != 200 || !strings.Contains(answer, hashOf01) || took > limit+limit/2 {
		t.Errorf("%d %s after %s", status, answer, took)
	}
	c.spent(20)
}

// startDrippingOn is a node that drips its answers to a method, and has one
// answer to all others.
func startDrippingOn(t *testing.T, method, other string) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		w.Header().Set("Content-Type", "application/json")
		if !bytes.Contains(body, []byte(method)) {
			answer := under(string(body), other)
			if body[0] == '[' {
				answer = "[" + answer + "]"
			}
			_, _ = io.WriteString(w, answer)
			return
		}
		for _, b := range []byte(`{"jsonrpc":"2.0","id":1,"result":"` + strings.Repeat("0", 1000) + `"}`) {
			select {
			case <-r.Context().Done():
				return
			case <-time.After(100 * time.Millisecond):
			}
			if _, err := w.Write([]byte{b}); err != nil {
				return
			}
			_ = http.NewResponseController(w).Flush()
		}
	}))
	t.Cleanup(s.Close)
	return s.URL
}
