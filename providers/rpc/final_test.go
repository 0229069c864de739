package rpc

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"farebox/config"
)

// fork is the chain of a simulated node: blocks above from, and again above then, have a
// name in their hash.
type fork struct {
	final int64
	name  string
	from  int64
	then  int64 // 0: no second fork
	down  bool
}

func (f *fork) ask(tag string) (finalBlock, bool) {
	n := f.final
	if tag != "finalized" {
		n, _ = strconv.ParseInt(tag[2:], 16, 64)
	}
	if f.down || n == 0 || n > f.final+100 {
		return finalBlock{}, false
	}
	hash := fmt.Sprint(n)
	if n > f.from {
		hash += f.name
	}
	if f.then > 0 && n > f.then {
		hash += "!"
	}
	return finalBlock{number: n, hash: hash}, true
}

// Only blocks on which all nodes agree are final, and a changed block ends all kept answers.
func TestFinalBlocks(t *testing.T) {
	n := network(1, 1)
	n.Config.Cache = config.RPCCache{FinalEvery: time.Second}
	f := newFinals(n)
	now := int64(1_000_000 * time.Second)
	chains := []fork{{final: 100, from: 1000}, {final: 132, from: 1000}}
	generation := int64(0)
	expect := func(what string, want int64, flushed bool) {
		t.Helper()
		now += int64(time.Second)
		f.learn(func(u *Node, tag string) (finalBlock, bool) {
			i, _ := strconv.Atoi(u.Name)
			return chains[i].ask(tag)
		}, now)
		if got := f.top(now); got != want {
			t.Errorf("%s: final is %d, want %d", what, got, want)
		}
		if g := f.generation.Load(); (g != generation) != flushed {
			t.Errorf("%s: generation %d after %d", what, g, generation)
		}
		generation = f.generation.Load()
	}
	expect("the lowest counts", 100, false)
	if !f.agreed(n.Nodes[0], now) || !f.agreed(n.Nodes[1], now) || f.agreed(n.Nodes[0], now+10*int64(time.Second)) {
		t.Error("nodes that agreed are not known to, or for ever")
	}
	chains[0].final = 132
	expect("both go on", 132, false)
	chains[0].down = true
	chains[1].final = 164
	expect("one is down", 164, false)
	if f.agreed(n.Nodes[0], now) {
		t.Error("a node that is down agrees")
	}
	chains[0].down = false
	expect("one is back and behind", 132, false)
	chains[0].final = 100
	expect("one falls back on the same chain", 100, false)
	chains[0].final = 90
	expect("one falls back further than is remembered", 0, true)
	expect("and is believed again", 90, false)
	chains[0].final, chains[1].final = 200, 200
	expect("both go on again", 200, false)
	chains[0].from, chains[0].name = 150, "a"
	expect("one has another block 200", 0, true)
	expect("and still has", 0, true)
	chains[1].from, chains[1].name = 150, "a"
	expect("both have it", 200, false)
	chains[0].from, chains[1].from = 140, 140
	chains[0].name, chains[1].name = "c", "c"
	expect("a reorganisation below the final block", 0, true)
	expect("is the new truth", 200, false)
	chains[0].final, chains[1].final = 260, 230
	expect("goes on", 230, false)
	chains[0].then, chains[0].final = 210, 225
	expect("one falls back onto another chain, below the checked block", 200, false)
	chains[0].final = 240
	expect("which shows when it goes on", 0, true)
	chains[0].down, chains[1].down = true, true
	expect("no node answers", 0, false)
	now += int64(time.Minute)
	if f.top(now) != 0 {
		t.Error("an unconfirmed block is final for ever")
	}
}

// Methods and params whose answers may be kept, and similar ones whose answers must not be.
func TestWhatIsKept(t *testing.T) {
	const asked, never = 16, -1
	for params, want := range map[string]map[string]int64{
		`["0x10",true]`: {"eth_getBlockByNumber": asked, "eth_getBlockReceipts": asked, "eth_getBlockByHash": 0,
			"eth_call": never, "eth_sendRawTransaction": never},
		`["0x10"]`:          {"eth_getTransactionByHash": 0, "eth_getBlockTransactionCountByNumber": asked},
		`[ "0x10" , true ]`: {"eth_getBlockByNumber": asked},
		`["latest",false]`:  {"eth_getBlockByNumber": never}, `["finalized"]`: {"eth_getBlockByNumber": never},
		`["earliest"]`: {"eth_getBlockByNumber": never}, `[16]`: {"eth_getBlockByNumber": never},
		`["16"]`:       {"eth_getBlockByNumber": never},
		`["0x\u0031"]`: {"eth_getBlockByNumber": never}, `[""]`: {"eth_getBlockByNumber": never},
		`["0x"]`:   {"eth_getBlockByNumber": never},
		`["0x-1"]`: {"eth_getBlockByNumber": never}, `["0x1_0"]`: {"eth_getBlockByNumber": never},
		`[]`:           {"eth_getBlockByNumber": never},
		`{"0":"0x10"}`: {"eth_getBlockByNumber": never}, ``: {"eth_getBlockByNumber": never, "eth_chainId": 0},
		`["0xffffffffffffffff"]`:         {"eth_getBlockByNumber": never},
		`[["0x10"]]`:                     {"eth_getBlockByNumber": never},
		`["0xa","0x10"]`:                 {"eth_getBalance": asked, "eth_getStorageAt": never},
		`["0xa","latest"]`:               {"eth_getBalance": never},
		`["0xa"]`:                        {"eth_getBalance": never},
		`["0xa",{"blockNumber":"0x10"}]`: {"eth_getBalance": never},
		`["0xa","0x0","0x10"]`:           {"eth_getStorageAt": asked},
		`[{"fromBlock":"0x1","toBlock":"0x10","address":"0xa","topics":[null,{"a":1}]}]`: {"eth_getLogs": asked},
		`[{"toBlock":"0x10","fromBlock":"0x10"}]`:                                        {"eth_getLogs": asked},
		`[{"fromBlock":"0x1"}]`:                                                          {"eth_getLogs": never},
		`[{"toBlock":"0x10"}]`:                                                           {"eth_getLogs": never},
		`[{"fromBlock":"0x11","toBlock":"0x10"}]`:                                        {"eth_getLogs": never},
		`[{"fromBlock":"0x1","toBlock":"latest"}]`:                                       {"eth_getLogs": never},
		`[{"fromBlock":"0x1","toBlock":"0x10","toBlock":"latest"}]`:                      {"eth_getLogs": never},
		`[{"fromBlock":"0x1","toBlock":"0x10","TOBLOCK":"latest"}]`:                      {"eth_getLogs": never},
		`[{"fromBlock":"0x1","toBlock":"0x10","toBloc\u006b":"latest"}]`:                 {"eth_getLogs": never},
		`[{"fromBlock":"0x1","toBlock":"0x10","blockHash":"0xa"}]`:                       {"eth_getLogs": never},
	} {
		for name, block := range want {
			m := FamilyOf("evm").Find([]byte(name))
			if got, ok := m.keep.blockAsked([]byte(params)); ok != (block != never) || ok && got != block {
				t.Errorf("%s%s depends on block %d (%v), want %d", name, params, got, ok, block)
			}
		}
	}
	f := func(method, result string, block int64) {
		t.Helper()
		m := FamilyOf("evm").Find([]byte(method))
		asked, _ := m.keep.blockAsked([]byte(`["0x10","0x10","0x10"]`))
		if got, ok := m.keep.blockOf(asked, []byte(result)); ok != (block != never) || ok && got != block {
			t.Errorf("%s with the result %s depends on block %d (%v), want %d", method, result, got, ok, block)
		}
	}
	f("eth_getTransactionReceipt", `{"blockNumber":"0x7","a":1}`, 7)
	for _, nothing := range []string{"null", " null ", `""`, `"0x"`, "[]", "[ ]", "{}", "{\n}", `{"blockNumber":null}`,
		`{"a":1}`, `{"blockNumber":"latest"}`, `"0x7"`, `[{"blockNumber":"0x7"}]`} {
		f("eth_getTransactionReceipt", nothing, never)
	}
	f("eth_getBlockByNumber", `{"number":"0x10"}`, asked)
	f("eth_getBlockByNumber", `{"number":"0x11"}`, never) // the node is not where it says
	f("eth_getBlockReceipts", `[{"blockNumber":"0x10"}]`, asked)
	f("eth_getBlockReceipts", `[{"blockNumber":"0x11"}]`, never)
	f("eth_getBalance", `"0x0"`, asked)
	f("eth_getCode", `"0x"`, never)
	f("eth_chainId", `"0x1"`, 0)
}

// Whatever clients and nodes write, an answer is kept only for blocks up to
// those asked for, and nothing breaks.
func FuzzKeep(f *testing.F) {
	for _, s := range [][3]string{
		{"eth_getBlockByNumber", `["0x10",false]`, `{"number":"0x10"}`},
		{"eth_getLogs", `[{"fromBlock":"0x1","toBlock":"0x10"}]`, `[{}]`},
		{"eth_getTransactionReceipt", `["0xa"]`, `{"blockNumber":"0x1"}`}, {"eth_getBlockReceipts", `["0x10"]`, `[`},
		{"eth_chainId", ``, `1`},
	} {
		f.Add(s[0], []byte(s[1]), []byte(s[2]))
	}
	evm := FamilyOf("evm")
	f.Fuzz(func(t *testing.T, method string, params, result []byte) {
		m := evm.Find([]byte(method))
		if m == nil {
			return
		}
		var r Request
		if r.Scan(append(append([]byte(`{"method":"eth_call","params":`), params...), '}')) != nil {
			params = nil // no node gets it
		}
		asked, ok := m.keep.blockAsked(params)
		if !ok {
			return
		}
		block, ok := m.keep.blockOf(asked, result)
		if !ok {
			return
		}
		if c := m.keep.class; c == keepNever || block < 0 || (c == keepNumber || c == keepRange) && block != asked {
			t.Fatalf("%s%s with the result %s is kept for block %d", method, params, result, block)
		}
	})
}
