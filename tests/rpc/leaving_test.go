package rpc

import (
	"context"
	"fmt"
	"iter"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"farebox/bench/upstream/node"
	"farebox/tests/rig"
)

// Leaving early does not get a node's work for nothing.

// leave posts a body and closes the connection when the context ends.
func (c *chain) leave(ctx context.Context, body string, headers ...string) {
	c.t.Helper()
	req, err := http.NewRequestWithContext(ctx, "POST", c.URL+"/crypto/rpc/ethereum-sepolia", strings.NewReader(body))
	if err != nil {
		c.t.Error(err)
		return
	}
	req.Header = http.Header{"Content-Type": {"application/json"}, "Authorization": {"Bearer " + c.key}}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := rig.Client.Do(req)
	if err == nil {
		_ = res.Body.Close()
		c.t.Errorf("the answer was there before the client left: %d", res.StatusCode)
	}
}

// asked waits until the node has had so many requests.
func (c *chain) asked(requests int) {
	c.t.Helper()
	rig.Await(c.t, "the node is asked", func() bool { return c.nodes[0].Stats().Requests == requests })
}

// Transactions whose clients left are mined and charged, traces and batches that
// a node was asked for are charged.
func TestLeavingARunningCallCostsItsPrice(t *testing.T) {
	t.Parallel()
	c := startChain(t, 1, "")
	answers := make(chan struct{})
	c.nodes[0].Fault(node.Faults{Until: answers})
	ctx, leave := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for i := range 10 {
		all.Go(func() { c.leave(ctx, sendRaw(fmt.Sprintf("0x09%02x", i))) })
	}
	for range 60 {
		all.Go(func() {
			c.leave(ctx, `{"jsonrpc":"2.0","id":1,"method":"debug_traceTransaction","params":["0x1"]}`)
		})
	}
	batch := "[" + strings.TrimSuffix(strings.Repeat(`{"jsonrpc":"2.0","id":1,"method":"eth_call","params":[1]},`, 100),
		",") + "]"
	for range 5 {
		all.Go(func() { c.leave(ctx, batch) })
	}
	c.asked(75)
	leave()
	all.Wait()
	close(answers)
	rig.Await(t, "every transaction is mined", func() bool {
		return c.nodes[0].Stats().Calls["eth_sendRawTransaction"] == 10
	})
	rig.Await(t, "nothing is carried any more", func() bool {
		v, ok := c.Metric("farebox_rpc_carried_requests")
		return ok && v == 0
	})
	c.spent(10*20 + 60*40 + 5*100*20)
	c.CLI("verify")
}

// A request that never reached a node costs nothing.
func TestLeavingBeforeANodeWasAskedIsFree(t *testing.T) {
	t.Parallel()
	mute, err := net.Listen("tcp", "127.0.0.1:0") // connections are taken, TLS is not spoken
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = mute.Close() }()
	c := startHostile(t, 0, "", "https://"+mute.Addr().String())
	for i := range 6 {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		c.leave(ctx, []string{chainID, "[" + chainID + "]"}[i%2])
		cancel()
	}
	c.spent(0)
}

// A request with a key is carried to its end without its client, so that its
// repetition finds the answer and runs nothing twice.
func TestKeyedWriteWhoseConnectionWasLostRunsOnce(t *testing.T) {
	t.Parallel()
	withKeys(t, func(t *testing.T, c *chain) {
		for i, body := range []string{
			`{"jsonrpc":"2.0","id":1,"method":"eth_sendUserOperation","params":[{},"0x"]}`, keyedReads,
		} {
			key, answers := fmt.Sprint("lost-", i), make(chan struct{})
			c.nodes[0].Fault(node.Faults{Until: answers})
			ctx, leave := context.WithCancel(t.Context())
			var lost sync.WaitGroup
			lost.Go(func() { c.leave(ctx, body, "Idempotency-Key", key) })
			c.asked(i + 1)
			leave()
			lost.Wait()
			close(answers)
			header, answer := c.must(key, body, 200)
			if header.Get("Idempotent-Replayed") != "true" {
				t.Errorf("the repetition was carried out: %s", answer)
			}
		}
		if s := c.nodes[0].Stats(); s.Calls["eth_sendUserOperation"] != 1 || s.Requests != 2 {
			t.Errorf("the node was asked %+v", s)
		}
		c.spent(20 + 25)
	})
}

// A node that drips its answer is given up when the limit of the request is
// reached, and another one is asked no longer than that either.
func TestADrippingAnswerEndsAtTheLimit(t *testing.T) {
	t.Parallel()
	c := startHostile(t, 0, "      timeouts: { read: 1s, heavy: 1s, write: 1s, total: 2s }\n", startDripping(t))
	for _, body := range []string{chainID, "[" + chainID + "]",
		`{"jsonrpc":"2.0","id":1,"method":"eth_sendUserOperation","params":[]}`} {
		began := time.Now()
		status, _, answer := c.rpc(body)
		if took := time.Since(began); status != 500 || took > 20*time.Second || !strings.Contains(answer, "too long") {
			t.Errorf("%s: %d %s after %s", body, status, answer, took)
		}
	}
	c.spent(0)
}

// startDripping is a node that sends a byte of its answer every 200 ms.
func startDripping(t *testing.T) string {
	t.Helper()
	return startNode(t, func(conn net.Conn, bodies iter.Seq[[]byte]) {
		for range bodies {
			answer := rawAnswer([]byte(`{"jsonrpc":"2.0","id":1,"result":"` + strings.Repeat("0", 1000) + `"}`))
			head := strings.Index(string(answer), "{")
			if _, err := conn.Write(answer[:head]); err != nil {
				return
			}
			for _, b := range answer[head:] {
				time.Sleep(200 * time.Millisecond)
				if _, err := conn.Write([]byte{b}); err != nil {
					return
				}
			}
		}
	})
}
