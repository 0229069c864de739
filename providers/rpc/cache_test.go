package rpc

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"farebox/config"
)

// caching is a network that keeps answers, whose final block is 100.
func caching(t *testing.T, c config.RPCCache) (*Network, int64) {
	t.Helper()
	n := network(1)
	c.FinalEvery, c.MaxAge = time.Hour, time.Hour
	n.Config.Cache = c
	kept, err := newCache(n)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(kept.free)
	n.cache = kept
	now := time.Now().UnixNano()
	kept.finals.askedNs.Store(now) // no node has to be asked
	kept.finals.block.Store(100)
	kept.finals.blockNs.Store(now)
	kept.finals.agrees[0].Store(now)
	return n, now
}

// asked is a job for one call, before it goes to a node.
func asked(t *testing.T, n *Network, body string, now int64) (*Job, []byte) {
	t.Helper()
	j := &Job{from: ClientContext{Network: n}, Verdicts: make([]Verdict, 1)}
	if f := j.Scan([]byte(body)); f != nil || j.Resolve(n.Family) != nil {
		t.Fatalf("%s is refused: %v", body, f)
	}
	return j, n.cache.find(j, now, true)
}

// answers is the attempt with which a node gave an answer to j.
func answers(j *Job, u *Node, answer string, now int64) {
	a := &attempt{node: u, buf: []byte(answer)}
	a.judge.Write(a.buf)
	j.Verdicts[0] = Succeeded
	u.of.cache.store(j, a, now)
	u.of.cache.m.Wait()
}

const (
	askReceipt = `{"jsonrpc":"2.0","id":1,"method":"eth_getTransactionReceipt","params":["0xa"]}`
	receipt    = `{"jsonrpc":"2.0","id":1,"result":{"blockNumber":"0x10"}}`
)

// A node that changes to another chain while it is asked leaves nothing behind.
func TestAnswerOfAnotherChainIsNotGiven(t *testing.T) {
	n, now := caching(t, config.RPCCache{Size: 1 << 20, MaxItem: 64 << 10})
	f := n.cache.finals
	kept := func() bool {
		_, body := asked(t, n, askReceipt, now)
		return body != nil
	}
	// The contradiction is found while the call is under way.
	j, _ := asked(t, n, askReceipt, now)
	f.generation.Add(1)
	if answers(j, n.Nodes[0], receipt, now); kept() {
		t.Error("an answer from before the contradiction is given")
	}
	// It was found before, and nodes agree again when the answer comes.
	f.block.Store(0)
	j, _ = asked(t, n, askReceipt, now)
	f.block.Store(100)
	if answers(j, n.Nodes[0], receipt, now); kept() {
		t.Error("an answer that was asked while nothing was final is given")
	}
	// A node that did not agree of late.
	j, _ = asked(t, n, askReceipt, now)
	f.agrees[0].Store(0)
	if answers(j, n.Nodes[0], receipt, now); kept() {
		t.Error("an answer of a node that did not agree is given")
	}
	f.agrees[0].Store(now)
	j, _ = asked(t, n, askReceipt, now)
	if answers(j, n.Nodes[0], receipt, now); !kept() {
		t.Error("a final answer is not given")
	}
	if now += int64(time.Hour); kept() {
		t.Error("an answer is given after its time")
	}
	now -= int64(time.Hour)
	f.block.Store(15)
	if kept() {
		t.Error("an answer above the final block is given")
	}
	f.block.Store(100)
	// Equal hashes do not give another's answer.
	j, _ = asked(t, n, `{"method":"eth_getTransactionReceipt","params":["0xb"]}`, now)
	k := n.cache.get(j.lookup.hash)
	other, _ := asked(t, n, askReceipt, now)
	if k != nil {
		t.Fatal("there is an answer already")
	}
	n.cache.set(j.lookup.hash, n.cache.get(other.lookup.hash), 100)
	n.cache.m.Wait()
	if _, body := asked(t, n, `{"method":"eth_getTransactionReceipt","params":["0xb"]}`, now); body != nil {
		t.Errorf("another call's answer is given: %s", body)
	}
	n.cache.free()
	if kept() {
		t.Error("a closed cache gives answers")
	}
	j, _ = asked(t, n, askReceipt, now)
	a := &attempt{node: n.Nodes[0], buf: []byte(receipt)}
	a.judge.Write(a.buf)
	j.Verdicts[0] = Succeeded
	n.cache.store(j, a, now) // and must not panic
}

// Of several nodes one may be on another chain: its own constants are not kept either.
func TestConstantsOfNodesThatDisagreeAreNotKept(t *testing.T) {
	const ask, answer = `{"jsonrpc":"2.0","id":1,"method":"eth_chainId"}`, `{"jsonrpc":"2.0","id":1,"result":"0x1"}`
	for _, compares := range []bool{false, true} {
		n, now := caching(t, config.RPCCache{Size: 1 << 20, MaxItem: 64 << 10})
		n.cache.compares = compares
		n.cache.finals.agrees[0].Store(0)
		j, _ := asked(t, n, ask, now)
		answers(j, n.Nodes[0], answer, now)
		if _, body := asked(t, n, ask, now); (body == nil) != compares {
			t.Errorf("with several nodes %v: kept %s", compares, body)
		}
		n.cache.finals.agrees[0].Store(now)
		j, _ = asked(t, n, ask, now)
		answers(j, n.Nodes[0], answer, now)
		if _, body := asked(t, n, ask, now); string(body) != answer {
			t.Errorf("of a node that agrees: kept %s", body)
		}
	}
}

// The kept answers stay within their bounds.
func TestCacheIsBounded(t *testing.T) {
	n, now := caching(t, config.RPCCache{Size: 1 << 20, MaxItem: 10 << 10})
	for i := range 2000 {
		body := `{"method":"web3_sha3","params":["` + strconv.Itoa(i) + `"]}`
		j, _ := asked(t, n, body, now)
		answers(j, n.Nodes[0], `{"id":1,"result":"`+strings.Repeat("x", 4<<10)+`"}`, now)
	}
	if left := n.cache.m.RemainingCost(); left < 0 {
		t.Errorf("%d bytes more than allowed are kept", -left)
	}
	large := `{"method":"web3_sha3","params":["large"]}`
	j, _ := asked(t, n, large, now)
	answers(j, n.Nodes[0], `{"id":1,"result":"`+strings.Repeat("x", 10<<10)+`"}`, now)
	if _, body := asked(t, n, large, now); body != nil {
		t.Error("an answer above max_item is kept")
	}
}
