package rpc

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"farebox/bench/upstream/node"
	"farebox/tests/rig"
)

const (
	chainID      = `{"jsonrpc":"2.0","id":1,"method":"eth_chainId"}`
	chainAnswer  = `{"jsonrpc":"2.0","id":1,"result":"0x539"}`
	threeCalls   = `[{"jsonrpc":"2.0","id":1,"method":"eth_call","params":[1]},{"jsonrpc":"2.0","id":2,"method":"eth_call","params":[2]},{"jsonrpc":"2.0","id":3,"method":"eth_call","params":[3]}]`
	threeAnswers = `[{"jsonrpc":"2.0","id":1,"result":[1]},{"jsonrpc":"2.0","id":2,"result":[2]},{"jsonrpc":"2.0","id":3,"result":[3]}]`
)

// A request to a node that is busy, broken, slow or gone goes to another one, however the
// node fails, and the client pays once.
func TestCryptoFailover(t *testing.T) {
	t.Parallel()
	c := startChain(t, 2, "      head_every: 0s\n      timeouts: { read: 3s }\n")
	total := int64(0)
	faults := map[string]node.Faults{
		"429": {Status: 429}, "503": {Status: 503}, "502": {Status: 502},
		"401": {Status: 401, Body: `{"error":"bad key of backend-7"}`}, "402": {Status: 402},
		"infura": {Hidden: "infura"}, "alchemy": {Hidden: "alchemy"}, "quicknode": {Hidden: "quicknode"},
		"public": {Hidden: "public"}, "therpc": {Hidden: "therpc"},
		"empty": {Empty: true}, "truncated": {Truncate: true}, "trailing": {Trailing: true}, "dropped": {Drop: true},
		"slow":    {Delay: 20 * time.Second},
		"without": {Without: []string{"eth_chainId", "eth_call"}},
	}
	// A missing method is remembered of a node, so that comes last.
	for _, name := range slices.Sorted(maps.Keys(faults)) {
		c.nodes[0].Fault(faults[name])
		for range 3 { // by weight, the bad one is asked in half of the cases
			c.expect(chainID, chainAnswer, 20)
			c.expect(threeCalls, threeAnswers, 60)
			total += 80
		}
		if t.Failed() {
			t.Fatalf("with the fault %q", name)
		}
	}
	if s := c.nodes[0].Stats(); s.Requests < 10 {
		t.Errorf("the bad node was asked only %d times", s.Requests)
	}
	c.spent(total)
}

// A node that is much slower than the other has hardly a turn.
func TestCryptoSlowNode(t *testing.T) {
	t.Parallel()
	c := startChain(t, 2, "      head_every: 0s\n      prefer_fast: true\n      timeouts: { read: 50s }\n")
	c.nodes[0].Fault(node.Faults{Status: 503})
	c.expect(chainID, chainAnswer, 20) // by the other, whichever was asked first
	c.nodes[0].Fault(node.Faults{Delay: time.Second})
	for range 40 {
		c.expect(chainID, chainAnswer, 20)
	}
	if n := c.nodes[0].Stats().Requests; n > 10 {
		t.Errorf("the slow node was asked %d times", n)
	}
	c.spent(41 * 20)
}

// When no node answers, the answer says so, costs nothing and reveals nothing about the nodes.
func TestCryptoNoNodeAnswers(t *testing.T) {
	t.Parallel()
	c := startChain(t, 2, "      head_every: 0s\n      timeouts: { read: 3s }\n")
	for name, f := range map[string]node.Faults{
		"500": {Status: 500}, "infura": {Hidden: "infura"}, "alchemy": {Hidden: "alchemy"},
		"truncated": {Truncate: true}, "slow": {Delay: 20 * time.Second},
		"429": {Status: 429, Body: "upgrade at backend-7"},
	} {
		for _, n := range c.nodes {
			n.Fault(f)
		}
		for _, body := range []string{chainID, threeCalls} {
			status, header, answer := c.rpc(body)
			if status != 500 || header.Get("X-Svc-Rpc-Credits") != "" ||
				!strings.Contains(answer, "nothing was charged") || strings.Contains(answer, "backend") ||
				strings.Contains(answer, "127.0.0.1") {
				t.Errorf("%s: %d %v %s", name, status, header, answer)
			}
		}
	}
	// A method that no node has is an answer, and costs the price of an error.
	for _, n := range c.nodes {
		n.Fault(node.Faults{Without: []string{"eth_chainId"}})
	}
	status, header, answer := c.rpc(chainID)
	if status != 200 || !strings.Contains(answer, "-32601") {
		t.Errorf("a method that no node has: %d %s", status, answer)
	}
	c.charged(header, 5)
	c.spent(5)
}

// A node that refuses a request with a status answers it, at the price of an error; a
// status about the node itself costs nothing (addendum 13, Upstream).
func TestCryptoStatusesOfNodes(t *testing.T) {
	t.Parallel()
	c := startChain(t, 1, "      head_every: 0s\n")
	total := int64(0)
	for _, status := range []int{400, 401, 402, 403, 404, 405, 408, 409, 415, 418, 422, 429, 431, 451, 500, 501, 502,
		503} {
		c.nodes[0].Fault(node.Faults{Status: status})
		pays := slices.Contains([]int{400, 405, 409, 415, 418, 422, 431, 451}, status)
		for body, credits := range map[string]int64{chainID: 5, threeCalls: 15} {
			got, header, answer := c.rpc(body)
			if !pays {
				if got != 500 || header.Get("X-Svc-Rpc-Credits") != "" {
					t.Errorf("status %d gives %d %v %s", status, got, header, answer)
				}
				continue
			}
			if got != 200 || !strings.Contains(answer, "the node refused the request") {
				t.Errorf("status %d gives %d %s", status, got, answer)
			}
			c.charged(header, credits)
			total += credits
		}
	}
	c.spent(total)
}

// Batches that a node refuses are asked call by call, and the node is given no
// more of them; calls that a node is too busy for are asked elsewhere.
func TestCryptoBatchesThatNodesRefuse(t *testing.T) {
	t.Parallel()
	c := startChain(t, 1, "")
	for name, f := range map[string]node.Faults{"single": {Single: true}, "item": {Item: true},
		"413": {MaxBatch: 2}} {
		c.nodes[0].Fault(f)
		before := c.nodes[0].Stats()
		c.expect(threeCalls, threeAnswers, 60)
		c.expect(threeCalls, threeAnswers, 60)
		if after := c.nodes[0].Stats(); after.Batches > before.Batches+1 {
			t.Errorf("%s: the node got %d more batches", name, after.Batches-before.Batches)
		}
	}
	c.spent(6 * 60)

	two := startChain(t, 2, "      head_every: 0s\n")
	two.nodes[0].Fault(node.Faults{Busy: 2})
	for range 6 {
		two.expect(threeCalls, threeAnswers, 60)
	}
	// Both too busy for two of three: those cost nothing.
	two.nodes[1].Fault(node.Faults{Busy: 2, Hidden: ""})
	two.nodes[0].Fault(node.Faults{Hidden: "infura"})
	unanswered := `"error":{"code":-32603,"message":"no answer from upstream"}}`
	status, header, answer := two.rpc(threeCalls)
	if want := `[{"jsonrpc":"2.0","id":1,` + unanswered + `,{"jsonrpc":"2.0","id":2,` + unanswered +
		`,{"jsonrpc":"2.0","id":3,"result":[3]}]`; status != 200 || answer != want {
		t.Errorf("%d %s, want %s", status, answer, want)
	}
	two.charged(header, 20)
	two.spent(6*60 + 20)
}

// Nodes that do not serve a method are not asked for it, and a batch is split
// when none serves all of it.
func TestCryptoNodesWithoutMethods(t *testing.T) {
	t.Parallel()
	c := startChainWith(t, 2, "      head_every: 0s\n", "", "rpc:\n  rate: { rpm: 0 }\n")
	c.nodes[0].Fault(node.Faults{Without: []string{"trace_*"}})
	c.nodes[1].Fault(node.Faults{Without: []string{"eth_getLogs"}})
	body := `[{"jsonrpc":"2.0","id":1,"method":"trace_block","params":[1]},{"jsonrpc":"2.0","id":2,"method":"eth_getLogs","params":[2]}]`
	for range 8 {
		c.expect(body, `[{"jsonrpc":"2.0","id":1,"result":[1]},{"jsonrpc":"2.0","id":2,"result":[2]}]`, 60)
	}
	// Each was learnt once, or never met.
	if a, b := c.nodes[0].Stats().Calls["trace_block"], c.nodes[1].Stats().Calls["eth_getLogs"]; a > 1 || b > 1 {
		t.Errorf("nodes were asked %d and %d times for methods that they do not have", a, b)
	}
	c.spent(8 * 60)
}

// A node that is behind gets no reads while others are not.
func TestCryptoNodesBehind(t *testing.T) {
	t.Parallel()
	c := startChain(t, 2, "      max_lag: 5\n      head_every: 100ms\n")
	c.nodes[0].Fault(node.Faults{Lag: 50})
	rig.Await(t, "the node that is behind is skipped", func() bool {
		before := c.nodes[0].Stats().Calls["eth_chainId"]
		for range 16 {
			if status, _, answer := c.rpc(chainID); status != 200 {
				t.Fatalf("%d %s", status, answer)
			}
		}
		return c.nodes[0].Stats().Calls["eth_chainId"] == before
	})
	c.nodes[0].Fault(node.Faults{Lag: 3})
	rig.Await(t, "the node that caught up is asked again", func() bool {
		before := c.nodes[0].Stats().Calls["eth_chainId"]
		for range 16 {
			c.rpc(chainID)
		}
		return c.nodes[0].Stats().Calls["eth_chainId"] > before
	})
}

func sendRaw(raw string) string {
	return `{"jsonrpc":"2.0","id":1,"method":"eth_sendRawTransaction","params":["` + raw + `"]}`
}

// keccak256 of the byte 0x01.
const hashOf01 = "0x5fe7f977e71dba2ea1a68e21057beebb9be2ac30c6410aa38d4f3fbe41dcffd2"

// A transaction whose node fell silent is sent to another one; one that a node
// has already is a success; one whose nonce was used is one only if it landed.
func TestCryptoTransactionsAreSentAgainSafely(t *testing.T) {
	t.Parallel()
	c := startChain(t, 2, "      head_every: 0s\n")
	answer := `{"jsonrpc":"2.0","id":1,"result":"` + hashOf01 + `"}`
	c.expect(sendRaw("0x01"), answer, 20)
	c.expect(sendRaw("0x01"), answer, 20) // already known, or new to the other node
	for _, n := range c.nodes {
		n.Give(hashOf01)
	}
	c.expect(sendRaw("0x01"), answer, 20)
	// The node takes it and falls silent.
	for i, n := range c.nodes {
		n.Fault(node.Faults{Drop: true})
		for k := range 4 {
			status, header, got := c.rpc(sendRaw(fmt.Sprintf("0x02%02x%02x", i, k)))
			if status != 200 || !strings.Contains(got, `"result":"0x`) {
				t.Errorf("a transaction whose node fell silent: %d %s", status, got)
			}
			c.charged(header, 20)
		}
		n.Fault(node.Faults{})
	}
	// "low" at its end makes the simulated node say that the nonce is used.
	low := sendRaw("0x016c6f77")
	if status, header, got := c.rpc(low); status != 200 || !strings.Contains(got, "nonce too low") {
		t.Errorf("a used nonce: %d %s", status, got)
	} else {
		c.charged(header, 5)
	}
	hash := "0x" + keccak("\x01low")
	for _, n := range c.nodes {
		n.Give(hash)
	}
	c.expect(low, `{"jsonrpc":"2.0","id":1,"result":"`+hash+`"}`, 20)
	// The same within a batch.
	status, header, got := c.rpc("[" + sendRaw("0x01") + "," + chainID + "," + low + "]")
	if want := "[" + answer + "," + chainAnswer + `,{"jsonrpc":"2.0","id":1,"result":"` + hash + `"}]`; status != 200 ||
		got != want {
		t.Errorf("a batch with transactions that are there: %d %s, want %s", status, got, want)
	}
	c.charged(header, 60)
	// Other writes have no hash: they are never sent twice.
	for _, n := range c.nodes {
		n.Fault(node.Faults{Drop: true})
	}
	if status, _, got := c.rpc(
		`{"jsonrpc":"2.0","id":1,"method":"eth_sendUserOperation","params":[{},"0x"]}`); status != 500 {
		t.Errorf("a write without a hash: %d %s", status, got)
	}
	ran := 0
	for _, n := range c.nodes {
		ran += n.Stats().Calls["eth_sendUserOperation"]
	}
	if ran != 1 {
		t.Errorf("a write ran %d times", ran)
	}
	c.spent(3*20 + 8*20 + 5 + 20 + 60)
}

// After a transaction the account reads from the node that took it.
func TestCryptoReadsFollowWrites(t *testing.T) {
	t.Parallel()
	c := startChain(t, 3, "      head_every: 0s\n")
	for k := range 4 {
		status, _, got := c.rpc(sendRaw(fmt.Sprintf("0x07%02x", k)))
		if status != 200 {
			t.Fatalf("%d %s", status, got)
		}
		var sent struct{ Result string }
		if err := json.Unmarshal([]byte(got), &sent); err != nil {
			t.Fatal(err)
		}
		for range 12 {
			_, _, got := c.rpc(`{"jsonrpc":"2.0","id":1,"method":"eth_getTransactionByHash","params":["` + sent.Result +
				`"]}`)
			if !strings.Contains(got, sent.Result) {
				t.Fatalf("the account does not see its own transaction: %s", got)
			}
		}
	}
	// Another account is not pinned.
	c.NewAccount("other", "1")
	c.key = c.Key("other")
	for range 60 {
		c.rpc(chainID)
	}
	for i, n := range c.nodes {
		if n.Stats().Calls["eth_chainId"] == 0 {
			t.Errorf("node %d was never asked by another account", i)
		}
	}
}

// A read that takes long is asked of a second node; the first answer counts,
// and is paid once. Writes are not.
func TestCryptoHedging(t *testing.T) {
	t.Parallel()
	c := startChain(t, 2, "      head_every: 0s\n      hedge_after: 50ms\n      timeouts: { read: 20s }\n")
	c.nodes[0].Fault(node.Faults{Delay: 15 * time.Second})
	began := time.Now()
	for range 6 {
		c.expect(chainID, chainAnswer, 20)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("six hedged reads took %s", took)
	}
	c.nodes[0].Fault(node.Faults{Delay: 300 * time.Millisecond})
	c.nodes[1].Fault(node.Faults{Delay: 300 * time.Millisecond})
	for k := range 3 {
		c.rpc(sendRaw(fmt.Sprintf("0x09%02x", k)))
	}
	if n := c.nodes[0].Stats().Calls["eth_sendRawTransaction"] + c.nodes[1].Stats().
		Calls["eth_sendRawTransaction"]; n != 3 {
		t.Errorf("three transactions were sent %d times", n)
	}
	c.spent(9 * 20)
}

// Large answers stream, are judged to their end, and cost nothing when they
// break off.
func TestCryptoLargeAnswers(t *testing.T) {
	t.Parallel()
	c := startChain(t, 1, "")
	const size = 8 << 20
	c.nodes[0].Fault(node.Faults{Large: size})
	read := func(body string) (got string, credits string, err error) {
		res := c.Open("POST", "/crypto/rpc/ethereum-sepolia", c.key, body)
		defer func() { _ = res.Body.Close() }()
		all, err := io.ReadAll(res.Body)
		return string(all), res.Header.Get("X-Svc-Rpc-Credits"), err
	}
	logs := func(id string) string {
		return `{"jsonrpc":"2.0","id":` + id + `,"method":"eth_getLogs","params":[{}]}`
	}
	for _, id := range []string{"1", `"\u00e9"`, "1.0"} {
		got, credits, err := read(logs(id))
		if err != nil || credits != "20" || len(got) < size || !json.Valid([]byte(got)) ||
			!strings.HasPrefix(got, `{"jsonrpc":"2.0","id":`+id+`,"result":[`) {
			t.Errorf("%v, %s credits, %d bytes: %.80s", err, credits, len(got), got)
		}
	}
	c.spent(60)
	// A batch of them is held, beyond memory in a file.
	got, credits, err := read("[" + logs("1") + "," + chainID + "," + logs("1") + "]")
	var list []struct {
		ID     json.RawMessage
		Result json.RawMessage
	}
	if jsonErr := json.Unmarshal([]byte(got), &list); err != nil || jsonErr != nil || credits != "60" ||
		len(list) != 3 || len(list[0].Result) < size || string(list[1].Result) != `"0x539"` ||
		len(list[2].Result) < size {
		t.Errorf("%v %v, %s credits, %d bytes", err, jsonErr, credits, len(got))
	}
	c.spent(120)
	c.nodes[0].Fault(node.Faults{Large: size, LargeCut: true})
	if got, credits, err := read(logs("1")); err == nil || credits != "20" {
		t.Errorf("an answer that breaks off looks whole: %d bytes, %s credits", len(got), credits)
	}
	c.nodes[0].Fault(node.Faults{Large: size, Trailing: true})
	if got, _, err := read(logs("1")); err == nil {
		t.Errorf("an answer followed by garbage looks whole: %d bytes", len(got))
	}
	c.spent(120)
}

// A batch's answer beyond batch_memory goes to a file without a name, as it came or put
// together again.
func TestCryptoLargeBatches(t *testing.T) {
	t.Parallel()
	c := startChainWith(t, 1, "", "", "rpc:\n  rate: { rpm: 0 }\n  batch_memory: 64KB\n")
	const size = 1 << 20
	c.nodes[0].Fault(node.Faults{Large: size})
	for _, f := range []node.Faults{{Large: size}, {Large: size, Shuffle: true}, {Large: size, Missing: true},
		{Large: size, Single: true}} {
		c.nodes[0].Fault(f)
		status, header, answer := c.rpc(
			`[{"jsonrpc":"2.0","id":1,"method":"eth_getLogs"},{"jsonrpc":"2.0","id":"é","method":"eth_chainId"},{"jsonrpc":"2.0","id":2,"method":"eth_getLogs","params":[]}]`)
		var list []struct {
			ID     json.RawMessage
			Result json.RawMessage
			Error  json.RawMessage
		}
		if err := json.Unmarshal([]byte(answer), &list); err != nil || status != 200 || len(list) != 3 {
			t.Errorf("%+v: %d, %v, %d answers in %d bytes", f, status, err, len(list), len(answer))
			continue
		}
		if string(list[0].ID) != "1" || string(list[1].ID) != `"é"` || string(list[2].ID) != "2" ||
			len(list[0].Result) < size {
			t.Errorf("%+v: %s %s %s, %d bytes", f, list[0].ID, list[1].ID, list[2].ID, len(list[0].Result))
		}
		want := int64(60)
		if list[2].Error != nil {
			want = 40
		}
		c.charged(header, want)
	}
}

// Solana nodes write the id last; their methods and prices are their own.
func TestCryptoSolana(t *testing.T) {
	t.Parallel()
	n := node.New(node.Options{Solana: true})
	url, err := n.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Close)
	g := rig.StartGateway(t,
		fmt.Sprintf("rpc:\n  rate: { rpm: 0 }\n  networks:\n    - { name: solana-mainnet, upstreams: [{ name: a, "+
			"url: %q }] }\n", url))
	g.NewAccount("rich", "1")
	key := g.Key("rich")
	f := func(body, want string, credits string) {
		t.Helper()
		status, header, answer := g.Post("/crypto/rpc/solana-mainnet", key, body)
		if status != 200 || string(answer) != want || header.Get("X-Svc-Rpc-Credits") != credits {
			t.Errorf("%s gives %d %s for %s credits\nwant %s for %s", body, status, answer,
				header.Get("X-Svc-Rpc-Credits"), want, credits)
		}
	}
	const rent = `[{"rentEpoch":18446744073709551615,"lamports":1e3}]`
	f(`{"jsonrpc":"2.0","id":1,"method":"getAccountInfo","params":`+rent+`}`,
		`{"jsonrpc":"2.0","result":`+rent+`,"id":1}`, "30")
	f(`{"jsonrpc":"2.0","id":1.0,"method":"getAccountInfo","params":`+rent+`}`,
		`{"jsonrpc":"2.0","result":`+rent+`,"id":1.0}`, "30")
	f(`{"jsonrpc":"2.0","id":"x","method":"getSupply","params":[]}`, `{"jsonrpc":"2.0","result":[],"id":"x"}`, "120")
	f(`[{"jsonrpc":"2.0","id":1,"method":"getSlot"},{"id":1,"method":"getSlot"}]`,
		`[{"jsonrpc":"2.0","result":1000,"id":1},{"jsonrpc":"2.0","result":1000,"id":1}]`, "60")
	n.Fault(node.Faults{Large: 1 << 20})
	res := g.Open("POST", "/crypto/rpc/solana-mainnet", key,
		`{"jsonrpc":"2.0","id":"\u00e9","method":"getProgramAccounts","params":[]}`)
	defer func() { _ = res.Body.Close() }()
	all, err := io.ReadAll(res.Body)
	if err != nil || len(all) < 1<<20 || !json.Valid(all) || !strings.HasSuffix(string(all), `,"id":"\u00e9"}`) {
		t.Errorf("%v, %d bytes: …%s", err, len(all), all[max(0, len(all)-40):])
	}
}
