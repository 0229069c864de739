package rpc

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"farebox/tests/rig"
)

// Answers about finalized blocks, kept (rpc.networks[].cache).

// finalNode is a node with blocks: it answers each call with the configured result, and
// counts calls.
type finalNode struct {
	*httptest.Server
	mu     sync.Mutex
	final  int64
	fork   string            // in the hashes of its blocks
	result map[string]string // by method, or method and params
	asked  map[string]int
}

func startFinalNode(t *testing.T) *finalNode {
	n := &finalNode{final: 100, result: map[string]string{}, asked: map[string]int{}}
	n.Server = httptest.NewServer(n)
	t.Cleanup(n.Close)
	return n
}

func (n *finalNode) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var calls []struct {
		ID     json.RawMessage
		Method string
		Params json.RawMessage
	}
	batch := strings.HasPrefix(string(body), "[")
	if !batch {
		body = append(append([]byte{'['}, body...), ']')
	}
	if err != nil || json.Unmarshal(body, &calls) != nil {
		w.WriteHeader(400)
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	list := make([]string, 0, len(calls))
	for _, c := range calls {
		text := c.Method + string(c.Params)
		result, known := n.result[text]
		if !known {
			result, known = n.result[c.Method]
		}
		block := int64(0)
		if _, err := fmt.Sscanf(string(c.Params), `["0x%x",false]`, &block); err == nil ||
			string(c.Params) == `["finalized",false]` {
			if block == 0 {
				block = n.final
			}
			result, known = fmt.Sprintf(`{"number":"0x%x","hash":"0x%x%s"}`, block, block, n.fork), true
		} else {
			n.asked[text]++
		}
		if !known {
			result = `"0x1"`
		}
		list = append(list, ` {"result" : `+result+`,"x":1e2, "id":`+string(c.ID)+` , "jsonrpc":"2.0"}`)
	}
	if out := strings.Join(list, ","); batch {
		_, _ = io.WriteString(w, "["+out+"]\n")
	} else {
		_, _ = io.WriteString(w, out+"\n")
	}
}

func (n *finalNode) set(do func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	do()
}

func (n *finalNode) count(text string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.asked[text]
}

// cacheRules end with the interval at which nodes are asked for the final block; an
// answer counts five times as long.
const cacheRules = "      head_every: 0s\n      prefer_fast: false\n      cache: { size: 8MB, final_every: %s }\n    " +
	"  upstreams:\n"

// startFinal starts a gateway that keeps these nodes' answers, on two networks.
func startFinal(t *testing.T, every string, nodes ...*finalNode) *chain {
	t.Helper()
	text := manyFailures + "  networks:\n"
	for _, name := range []string{"ethereum-sepolia", "base-mainnet"} {
		text += "    - name: " + name + "\n" + fmt.Sprintf(cacheRules, every)
		for i, n := range nodes {
			text += fmt.Sprintf("        - { name: node-%d, url: %q, breaker: { failures: 0 } }\n", i, n.URL)
		}
	}
	c := &chain{t: t, Gateway: rig.StartGateway(t, text)}
	c.NewAccount("rich", chainCredit.String())
	c.key = c.Key("rich")
	return c
}

// hit says whether the answer was kept.
func (c *chain) hit(call string) (hit bool, answer string) {
	c.t.Helper()
	status, header, answer := c.rpc(call)
	if status != 200 {
		c.t.Fatalf("%s gave %d %s", call, status, answer)
	}
	return header.Get("X-Svc-Rpc-Cache") == "HIT", answer
}

// final waits until a call's answer is kept.
func (c *chain) final(call string) {
	c.t.Helper()
	rig.Await(c.t, "the answer to "+call+" is kept", func() bool {
		hit, _ := c.hit(call)
		return hit
	})
}

func call(id, method, params string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"` + method + `","params":` + params + `}`
}

// A kept answer is the node's, byte for byte, with the client's id and for the same
// price; and only for the same method, params and network.
func TestCryptoCache(t *testing.T) {
	t.Parallel()
	n := startFinalNode(t)
	const odd = `{"blockNumber":"0x10", "z":18446744073709551615,"f":1.10,"s":"\u00e9\/ü" }`
	n.set(func() { n.result[`eth_getTransactionReceipt["0xa"]`] = odd })
	c := startFinal(t, "2s", n)
	c.final(call("1", "eth_getTransactionReceipt", `["0xa"]`))
	for _, id := range []string{"1", `"x"`, "null", "18446744073709551615", `"\u0041\\"`, "-0", "1.50"} {
		status, header, answer := c.rpc(call(id, "eth_getTransactionReceipt", `["0xa"]`))
		if want := `{"result" : ` + odd + `,"x":1e2, "id":` + id + ` , "jsonrpc":"2.0"}`; status != 200 ||
			answer != want || header.Get("X-Svc-Rpc-Cache") != "HIT" {
			t.Errorf("id %s: %d %v\n%s\nwant\n%s", id, status, header, answer, want)
		}
		c.charged(header, 20)
	}
	if hit, answer := c.hit(`{"method":"eth_getTransactionReceipt","params":["0xa"]}`); !hit ||
		!strings.Contains(answer, `"id":1 `) {
		t.Errorf("without an id: %v %s", hit, answer)
	}
	before := n.count(`eth_getTransactionReceipt["0xa"]`)
	// Another text is another question, whatever it means.
	for _, other := range []string{`[ "0xa"]`, `["0xa",{"a":1,"a":2}]`, `["0xa",{"a":2,"a":1}]`, `["0xA"]`} {
		n.set(func() {
			n.result[`eth_getTransactionReceipt`+other] = `{"blockNumber":"0x11","of":` + fmt.Sprintf("%q", other) + `}`
		})
		hit, first := c.hit(call("1", "eth_getTransactionReceipt", other))
		if hit || !strings.Contains(first, fmt.Sprintf("%q", other)) {
			t.Errorf("%s has the answer of another: %s", other, first)
		}
		c.final(call("1", "eth_getTransactionReceipt", other))
		if _, second := c.hit(call("1", "eth_getTransactionReceipt", other)); strings.TrimSpace(first) != second {
			t.Errorf("%s gave %s, and then %s", other, first, second)
		}
	}
	if hit, _ := c.hit(call("1", "eth_getTransactionByHash", `["0xa"]`)); hit {
		t.Error("another method has the answer")
	}
	if _, header, _ := c.Post("/crypto/rpc/base-mainnet", c.key,
		call("1", "eth_getTransactionReceipt", `["0xa"]`)); header.Get("X-Svc-Rpc-Cache") != "" {
		t.Error("another network has the answer")
	}
	// Batches are asked as ever.
	if hit, _ := c.hit("[" + call("1", "eth_getTransactionReceipt", `["0xa"]`) + "]"); hit {
		t.Error("a batch was answered from the cache")
	}
	// One for the other network, and one for the batch.
	if after := n.count(`eth_getTransactionReceipt["0xa"]`); after != before+2 {
		t.Errorf("the node was asked %d times more, want 2", after-before)
	}
	// A repeat under a key is a repeat, however it was answered first.
	first, answer := c.must("k", call("1", "eth_getTransactionReceipt", `["0xa"]`), 200)
	again, repeat := c.must("k", call("1", "eth_getTransactionReceipt", `["0xa"]`), 200)
	if first.Get("X-Svc-Rpc-Cache") != "HIT" || answer != repeat || again.Get("Idempotent-Replayed") != "true" {
		t.Errorf("under a key: %v %s, %v %s", first, answer, again, repeat)
	}
	c.MetricIs(`farebox_rpc_final_block{network="ethereum-sepolia"}`, func(v float64) bool { return v == 100 })
	if v, ok := c.Metric(`farebox_rpc_cache_hits_total{network="ethereum-sepolia"}`); !ok || v < 8 {
		t.Errorf("%v answers were kept ones", v)
	}
	c.CLI("verify")
}

// Answers that may change, or say nothing, are never kept.
func TestCryptoCacheKeepsNothingElse(t *testing.T) {
	t.Parallel()
	n := startFinalNode(t)
	n.set(func() {
		n.result[`eth_getTransactionReceipt["null"]`] = `null`
		n.result[`eth_getTransactionReceipt["pending"]`] = `{"blockNumber":null}`
		n.result[`eth_getTransactionReceipt["young"]`] = `{"blockNumber":"0x65"}`
		n.result[`eth_getTransactionReceipt["large"]`] = `{"blockNumber":"0x10","a":"` + strings.Repeat("x", 63<<10) +
			`"}`
		n.result[`eth_getTransactionReceipt["huge"]`] = `{"blockNumber":"0x10","a":"` + strings.Repeat("x", 200<<10) +
			`"}`
		n.result[`eth_getTransactionReceipt["error"]`] = `null,"error":{"code":3,"message":"blockNumber 0x10"}`
		n.result[`eth_getLogs`] = `[]`
		n.result[`eth_getTransactionReceipt["good"]`] = `{"blockNumber":"0x64"}`
	})
	c := startFinal(t, "2s", n)
	good := call("1", "eth_getTransactionReceipt", `["good"]`)
	c.final(good)
	for _, text := range []string{
		`eth_getTransactionReceipt["null"]`, `eth_getTransactionReceipt["pending"]`,
		`eth_getTransactionReceipt["young"]`,
		`eth_getTransactionReceipt["huge"]`, `eth_getTransactionReceipt["error"]`,
		`eth_getTransactionReceipt["` + strings.Repeat("y", 64<<10) + `"]`,
		`eth_getLogs[{"fromBlock":"0x1","toBlock":"0x10"}]`, `eth_getBalance["0xa","latest"]`,
		`eth_getBalance["0xa","0x65"]`,
		`eth_call[{},"0x10"]`, `eth_blockNumber[]`, `eth_gasPrice[]`,
	} {
		method, params, _ := strings.Cut(text, "[")
		for range 3 {
			if hit, answer := c.hit(call("1", method, "["+params)); hit {
				t.Errorf("%.60s was kept: %.80s", text, answer)
			}
		}
		if got := n.count(text); got != 3 {
			t.Errorf("the node was asked %.60s %d times, want 3", text, got)
		}
	}
	// Now it is final.
	n.set(func() { n.final = 101 })
	c.final(call("1", "eth_getTransactionReceipt", `["young"]`))
	c.final(call("1", "eth_getBalance", `["0xa","0x65"]`))
	c.final(call("1", "eth_getTransactionReceipt", `["large"]`))
	c.final(call("1", "eth_chainId", `[]`))
	if hit, _ := c.hit(good); !hit {
		t.Error("the kept answer is not given any more")
	}
}

// Nodes that contradict each other, or themselves, end the kept answers.
func TestCryptoCacheAndReorganisations(t *testing.T) {
	t.Parallel()
	one, two := startFinalNode(t), startFinalNode(t)
	for _, n := range []*finalNode{one, two} {
		n.set(func() { n.result["eth_getTransactionReceipt"] = `{"blockNumber":"0x10"}` })
	}
	c := startFinal(t, "200ms", one, two)
	receipt := call("1", "eth_getTransactionReceipt", `["0xa"]`)
	c.final(receipt)
	// An account that sent a transaction reads from that node.
	if status, _, answer := c.rpc(sendRaw("0x01")); status != 200 {
		t.Fatalf("%d %s", status, answer)
	}
	if hit, _ := c.hit(receipt); hit {
		t.Error("an account that reads its own writes was answered from the cache")
	}
	c.NewAccount("other", "1")
	c.key = c.Key("other")
	c.final(receipt)
	one.set(func() { one.fork = "f" })
	misses := 0
	rig.Await(t, "nothing is kept while nodes disagree", func() bool {
		if hit, _ := c.hit(receipt); hit {
			misses = 0
		}
		misses++
		return misses > 30
	})
	// Both on the other chain: their new answers are kept, not the old ones.
	for _, n := range []*finalNode{one, two} {
		n.set(func() { n.fork, n.result["eth_getTransactionReceipt"] = "f", `{"blockNumber":"0x11"}` })
	}
	rig.Await(t, "the answer of the new chain is kept", func() bool {
		hit, answer := c.hit(receipt)
		if hit && !strings.Contains(answer, `"0x11"`) {
			t.Errorf("the answer of the old chain is given: %s", answer)
		}
		return hit && strings.Contains(answer, `"0x11"`)
	})
	// Other nodes under the same name begin with nothing.
	three := startFinalNode(t)
	three.set(func() { three.result["eth_getTransactionReceipt"] = `{"blockNumber":"0x12"}` })
	c.WriteConfig(manyFailures + "  networks:\n    - name: ethereum-sepolia\n" +
		fmt.Sprintf(cacheRules+"        - { name: node-0, url: %q }\n", "200ms", three.URL))
	c.Signal(rig.Hangup)
	rig.Await(t, "the new node is asked", func() bool {
		hit, answer := c.hit(receipt)
		return !hit && strings.Contains(answer, `"0x12"`)
	})
	c.final(receipt)
}
