package rpc

import (
	"bytes"
	"iter"
	"net"
	"strings"
	"sync/atomic"
	"testing"
)

// "Reads failed with 500 now and then": a node closes a connection that was idle at the moment of the
// next request. Reads are sent again, on a new connection. Writes are not: the node may have
// carried them out.
func TestReadsOutliveConnectionsThatTheirNodeCloses(t *testing.T) {
	t.Parallel()
	var lost, writes atomic.Int64
	c := startHostile(t, 0, "", startNode(t, func(conn net.Conn, bodies iter.Seq[[]byte]) {
		first := true
		for body := range bodies {
			if bytes.Contains(body, []byte("eth_sendUserOperation")) {
				writes.Add(1)
			}
			if !first {
				lost.Add(1)
				return
			}
			first = false
			answer := under(string(body), chainAnswer)
			if body[0] == '[' {
				answer = "[" + answer + "]"
			}
			if _, err := conn.Write(rawAnswer([]byte(answer))); err != nil {
				return
			}
		}
	}))
	for range 3 {
		for _, body := range []string{chainID, "[" + chainID + "]"} {
			if status, _, answer := c.rpc(body); status != 200 || !strings.Contains(answer, `"result":"0x539"`) {
				t.Errorf("%s is answered %d %s", body, status, answer)
			}
		}
	}
	before := lost.Load()
	if before < 3 {
		t.Fatalf("%d requests were lost: nothing is shown", before)
	}
	for range 3 {
		c.rpc(chainID)
		c.rpc(`{"jsonrpc":"2.0","id":1,"method":"eth_sendUserOperation","params":[{},"0x01"]}`)
	}
	if writes.Load() != 3 || lost.Load() == before {
		t.Errorf("a node got 3 writes %d times, and lost %d requests", writes.Load(), lost.Load()-before)
	}
}
