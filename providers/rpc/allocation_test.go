//go:build !race

package rpc

import (
	"strings"
	"testing"

	"farebox/config"
)

func batchOf(n int) []byte {
	call := `{"jsonrpc":"2.0","id":%,"method":"eth_getBalance","params":["0x742d35Cc6634C0532925a3b844Bc454e4438f44e","latest"]}`
	var calls []string
	for i := range n {
		calls = append(calls, strings.Replace(call, "%", string(rune('1'+i%9))+strings.Repeat("0", i/9), 1))
	}
	return []byte("[" + strings.Join(calls, ",") + "]")
}

// Reading a request allocates nothing, however many calls it has; nor does
// judging an answer.
func TestScanAndJudgeAllocateNothing(t *testing.T) {
	var r Request
	f := FamilyOf("evm")
	body := batchOf(100)
	if fault := r.Scan(body); fault != nil {
		t.Fatal(fault)
	}
	if n := testing.AllocsPerRun(100, func() {
		if r.Scan(body) != nil || r.Resolve(f) != nil || r.Credits(20) != 2000 {
			t.Error("it was refused")
		}
		r.Reset()
	}); n != 0 {
		t.Errorf("a batch takes %v allocations", n)
	}
	var j Judge
	answer := []byte("[" + strings.Repeat(`{"jsonrpc":"2.0","id":1,"result":{"a":["0x12",null]}},`, 99) +
		`{"jsonrpc":"2.0","id":1,"result":1}]`)
	j.Write(answer)
	if n := testing.AllocsPerRun(100, func() {
		j.Reset()
		if !j.Write(answer) || !j.Complete() {
			t.Error("it was refused")
		}
	}); n != 0 {
		t.Errorf("judging takes %v allocations", n)
	}
}

func BenchmarkScanBatch(b *testing.B) {
	var r Request
	body := batchOf(100)
	f := FamilyOf("evm")
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		r.Scan(body)
		r.Resolve(f)
	}
}

func BenchmarkScanSingle(b *testing.B) {
	var r Request
	body := batchOf(1)
	body = body[1 : len(body)-1]
	f := FamilyOf("evm")
	for b.Loop() {
		r.Scan(body)
		r.Resolve(f)
	}
}

func BenchmarkJudgeLogs(b *testing.B) {
	log := `{"address":"0x` + strings.Repeat("ab", 20) + `","topics":["0x` + strings.Repeat("cd", 32) + `","0x` +
		strings.Repeat("01", 32) + `"],"data":"0x` + strings.Repeat("ef", 64) +
		`","blockNumber":"0x10","logIndex":"0x1","removed":false},`
	answer := []byte(`{"jsonrpc":"2.0","id":1,"result":[` + strings.Repeat(log, 3000) + `null]}`)
	var j Judge
	b.SetBytes(int64(len(answer)))
	for b.Loop() {
		j.Reset()
		j.Write(answer)
	}
}

// A constant that is kept costs no memory to give.
func TestKeptAnswerAllocatesNothing(t *testing.T) {
	n, now := caching(t, config.RPCCache{Size: 1 << 20, MaxItem: 64 << 10})
	const ask = `{"jsonrpc":"2.0","id":7,"method":"eth_chainId","params":[]}`
	j, _ := asked(t, n, ask, now)
	answers(j, n.Nodes[0], `{"jsonrpc":"2.0","id":7,"result":"0x1"}`, now)
	body := []byte(ask)
	if allocs := testing.AllocsPerRun(200, func() {
		j.Scan(body)
		j.Resolve(n.Family)
		if n.cache.find(j, now, true) == nil {
			t.Fatal("the answer is not kept")
		}
	}); allocs != 0 {
		t.Errorf("a kept answer allocates %v times", allocs)
	}
}
