package rpc

import (
	"bytes"
	"fmt"
	"iter"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"farebox/bench/upstream/node"
	"farebox/tests/rig"
)

// Customers and nodes that lie: the lies of one must not cost another.

// startHostile is a gateway before nodes at these addresses. Their healths count
// when failures is not 0; extra is written into the network's config.
func startHostile(t *testing.T, failures int, extra string, urls ...string) *chain {
	t.Helper()
	text := "log: { level: info, format: json, sample_above: 0 }\nlimits: { failed_requests: { count: 0 } }\nrpc:\n  " +
		"rate: { rpm: 0 }\n  networks:\n    - name: ethereum-sepolia\n      prefer_fast: false\n      " +
		"head_every: 0s\n" + extra + "      upstreams:\n"
	for i, url := range urls {
		text += fmt.Sprintf("        - { name: node-%d, url: %q, breaker: { failures: %d, open_for: 1m } }\n", i, url,
			failures)
	}
	c := &chain{t: t, Gateway: rig.StartGateway(t, text)}
	c.NewAccount("rich", chainCredit.String())
	c.key = c.Key("rich")
	return c
}

// as is the same chain used by another account.
func (c *chain) as(account string) *chain {
	c.t.Helper()
	other := *c
	c.NewAccount(account, "1")
	other.key = c.Key(account)
	return &other
}

// failing is a call that the simulated node answers with an error of the
// client's choice.
func failing(method string, code int, text string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":[{"simulate":{"code":%d,"message":%q}}]}`, method,
		code, text)
}

// A method stays in service whatever one customer's calls make a node say.
func TestNoCustomerSwitchesAMethodOffForOthers(t *testing.T) {
	t.Parallel()
	_, url := startSimulated(t, node.Options{})
	c := startHostile(t, 3, "", url)
	mallory := c.as("mallory")
	for _, e := range []struct {
		code int
		text string
	}{
		{-32000, "method not found    in server-side tracer function 'step'"}, {-32600, "method not supported"},
		{-32601, "method not found"},
		{-32601, "the method debug_traceCall does not exist/is not available"},
	} {
		for range 3 {
			status, header, answer := mallory.rpc(failing("debug_traceCall", e.code, e.text))
			if status != 200 || !strings.Contains(answer, `"error"`) {
				t.Errorf("%d %s: %d %s", e.code, e.text, status, answer)
			}
			mallory.charged(header, 5)
		}
		c.expect(`{"jsonrpc":"2.0","id":1,"method":"debug_traceCall","params":["others"]}`,
			`{"jsonrpc":"2.0","id":1,"result":["others"]}`, 40)
		c.expect(`[{"jsonrpc":"2.0","id":1,"method":"debug_traceCall","params":["others"]}]`,
			`[{"jsonrpc":"2.0","id":1,"result":["others"]}]`, 40)
	}
}

// A node is well however a customer makes it repeat words about limits, and the
// customer gets the answer, and pays for it.
func TestNoCustomerRestsANodeByItsWords(t *testing.T) {
	t.Parallel()
	_, url := startSimulated(t, node.Options{})
	c := startHostile(t, 3, "", url)
	mallory := c.as("mallory")
	const fees = `{"jsonrpc":"2.0","id":1,"method":"eth_feeHistory","params":[5]}`
	for _, e := range []struct {
		code int
		text string
	}{
		{-32602, "invalid argument 1: rate limit"}, {3, "execution reverted: rate limit"},
		{-32000, "execution reverted: quota"}, {-32000, "rate limit exceeded"},
		{-32015, "VM execution error: usage limit"}, {-32603,
			"VM Exception while processing transaction: reverted with custom error 'OwnableUnauthorizedAccount()'"},
		{-32603, "Error: VM Exception while processing transaction: reverted with reason string 'too many requests'"},
		{-32000, "service unavailable in server-side tracer function 'result'"},
	} {
		for range 5 {
			for _, method := range []string{"eth_feeHistory", "eth_call"} {
				status, header, answer := mallory.rpc(failing(method, e.code, e.text))
				if status != 200 || !strings.Contains(answer, e.text) {
					t.Errorf("%s, %d %s: %d %s", method, e.code, e.text, status, answer)
				}
				mallory.charged(header, 5)
			}
		}
		status, header, answer := mallory.rpc("[" + failing("eth_call", e.code, e.text) + "]")
		if status != 200 || !strings.Contains(answer, e.text) {
			t.Errorf("a batch, %d %s: %d %s", e.code, e.text, status, answer)
		}
		mallory.charged(header, 5)
		c.expect(fees, `{"jsonrpc":"2.0","id":1,"result":[5]}`, 20)
	}
	if v, ok := c.Metric(`farebox_rpc_node_failures_total{network="ethereum-sepolia",upstream="node-0"}`); !ok ||
		v != 0 {
		t.Errorf("the node has %v failures", v)
	}
}

// A method that a node lacks is no longer asked of it once two customers have
// met that.
func TestAMissingMethodIsLearntFromTwoCustomers(t *testing.T) {
	t.Parallel()
	n, url := startSimulated(t, node.Options{})
	c := startHostile(t, 3, "", url)
	n.Fault(node.Faults{Without: []string{"eth_call"}})
	const call = `{"jsonrpc":"2.0","id":1,"method":"eth_call"}`
	ask := func(c *chain, times int) {
		for range times {
			if status, _, answer := c.rpc(call); status != 200 || !strings.Contains(answer, "-32601") {
				t.Errorf("%d %s", status, answer)
			}
		}
	}
	ask(c, 5)
	if n := n.Stats().Calls["eth_call"]; n != 1 {
		t.Errorf("the first customer's calls reached the node %d times", n)
	}
	ask(c.as("second"), 5)
	ask(c.as("third"), 5)
	if n := n.Stats().Calls["eth_call"]; n != 2 {
		t.Errorf("all customers' calls reached the node %d times", n)
	}
}

// strayNode is a node whose connections bring unrequested answers: the last one again,
// each time before the right one (early) or a moment after it.
func strayNode(t *testing.T, early bool) string {
	t.Helper()
	n := node.New(node.Options{})
	var count atomic.Int64
	return startNode(t, func(conn net.Conn, bodies iter.Seq[[]byte]) {
		stray := []byte(`{"jsonrpc":"2.0","id":"somebody else's","result":"secret"}`)
		for body := range bodies {
			answer := n.Answer(body, &node.Faults{})
			again := count.Add(1)%2 == 0
			if again && early {
				_, _ = conn.Write(rawAnswer(stray))
			}
			_, _ = conn.Write(rawAnswer(answer))
			if again && !early {
				time.Sleep(time.Millisecond)
				_, _ = conn.Write(rawAnswer(answer))
			}
			stray = bytes.Clone(answer)
		}
	})
}

// Of a thousand calls beside answers that belong to others, each gets its own
// answer.
func TestNoAnswerGoesAstray(t *testing.T) {
	t.Parallel()
	for _, early := range []bool{false, true} {
		t.Run(map[bool]string{false: "after the right answer", true: "before the right answer"}[early],
			func(t *testing.T) {
				t.Parallel()
				_, good := startSimulated(t, node.Options{})
				c := startHostile(t, 0, "", strayNode(t, early), good)
				var all sync.WaitGroup
				var next, wrong, failed atomic.Int64
				for range 8 {
					all.Go(func() {
						for {
							i := next.Add(1)
							if i > 1000 {
								return
							}
							call := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"eth_call","params":["%d"]}`, i, i)
							want := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":["%d"]}`, i, i)
							if i%3 == 0 {
								call, want = "["+call+"]", "["+want+"]"
							}
							status, _, answer, err := rig.Try(rig.Client, c.URL+"/crypto/rpc/ethereum-sepolia", c.key,
								call)
							switch {
							case err != nil || status != 200:
								failed.Add(1)
							case answer != want:
								wrong.Add(1)
								t.Logf("call %s got %s", call, answer)
							}
						}
					})
				}
				all.Wait()
				if wrong.Load() > 0 || failed.Load() > 0 {
					t.Errorf("of 1000 answers %d belong to another call, %d are missing", wrong.Load(), failed.Load())
				}
			})
	}
}

// A node that gives an answer twice gave the answer to a question of our own to
// the first client, whose call had the same id.
func TestOurOwnQuestionsHaveIDsOfTheirOwn(t *testing.T) {
	t.Parallel()
	asked := make(chan string, 100)
	c := startHostile(t, 0, "      chain_id: 11155111\n", startSaying(t, func(body string) string {
		asked <- body
		return `{"jsonrpc":"2.0","id":` + gjson.Get(body, "id").Raw + `,"result":"0xaa36a7"}`
	}))
	if status, _, answer := c.rpc(`{"jsonrpc":"2.0","id":1,"method":"eth_call"}`); status != 200 {
		t.Fatalf("%d %s", status, answer)
	}
	seen := map[string]bool{}
	for !seen["eth_chainId"] || !seen["eth_call"] {
		select {
		case body := <-asked:
			method, id := gjson.Get(body, "method").Str, gjson.Get(body, "id").Int()
			if seen[method] = true; method != "eth_call" && id < 1<<50 {
				t.Errorf("our own question is %s", body)
			}
		case <-time.After(time.Minute):
			t.Fatalf("only %v were asked within a minute", seen)
		}
	}
}

// An answer is judged to its end: one that has a second result, or an error after its
// result, is not a success, however large the result was.
func TestAnswersThatContradictThemselvesFail(t *testing.T) {
	t.Parallel()
	large := `["` + strings.Repeat("x", 1<<20) + `"]`
	var answer atomic.Value
	c := startHostile(t, 0, "", startSaying(t, func(body string) string {
		said := under(body, answer.Load().(string))
		if strings.HasPrefix(body, "[") {
			said = "[" + said + "]"
		}
		return said
	}))
	const call = `{"jsonrpc":"2.0","id":1,"method":"eth_getLogs","params":[{}]}`
	answers := []struct {
		said          string
		paid, batched int64 // alone and in a batch; -1: it is not delivered
		broken        bool  // the connection ends before the answer does
	}{
		{`{"jsonrpc":"2.0","id":1,"result":1,"result":2}`, -1, -1, false},
		{`{"jsonrpc":"2.0","id":1,"result":1,"error":{"code":-32000,"message":"no"}}`, 5, 5, false},
		{`{"jsonrpc":"2.0","id":1,"result":1,"error":null}`, 20, 20, false},
		{`{"jsonrpc":"2.0","id":1,"result":null,"error":{"code":-32000,"message":"no"}}`, 5, 5, false},
		{`{"jsonrpc":"2.0","id":1,"result":` + large + `,"error":null}`, 20, 20, false},
		{`{"jsonrpc":"2.0","id":1,"result":` + large + `,"error":{"code":-32000,"message":"no"}}`, 0, 5, true},
		{`{"jsonrpc":"2.0","id":1,"result":` + large + `,"result":1}`, 0, -1, true},
		{`{"jsonrpc":"2.0","result":` + large + `,"id":2}`, 0, -1, true},
		{`{"jsonrpc":"2.0","id":2,"result":` + large + `}`, -1, -1, false},
		// Other parsers read an error there, or nothing at all.
		{`{"jsonrpc":"2.0","id":1,"\u0065rror":{"code":-32000,"message":"no"}}`, -1, -1, false},
		{`{"jsonrpc":"2.0","id":1,"result":1,"\u0065rror":{"code":-32000,"message":"no"}}`, -1, -1, false},
		{`{"jsonrpc":"2.0","id":1,"\u0065rror":{"code":-32000,"message":"no"},"result":1}`, -1, -1, false},
		{`{"jsonrpc":"2.0","id":1,"result":1,"err\u006Fr":{"code":-32000,"message":"no"}}`, -1, -1, false},
		{`{"jsonrpc":"2.0","id":1,"result":1,"Error":{"code":-32000,"message":"no"}}`, -1, -1, false},
		{`{"jsonrpc":"2.0","id":1,"result":1,"r\u0065sult":2}`, -1, -1, false},
		{`{"jsonrpc":"2.0","id":1,"result":"a` + "\x00" + `b"}`, -1, -1, false},
		{`{"jsonrpc":"2.0","id":1,"result":` + large + `,"\u0065rror":{"code":-32000,"message":"no"}}`, 0, -1, true},
	}
	for _, f := range answers {
		name := f.said[:min(40, len(f.said))] + "…" + f.said[max(0, len(f.said)-30):]
		answer.Store(f.said)
		before := c.Settled()["rich"].Spent
		status, header, got, err := rig.Try(rig.Client, c.URL+"/crypto/rpc/ethereum-sepolia", c.key, call)
		switch {
		case f.broken:
			if err == nil {
				t.Errorf("%s is delivered as whole", name)
			}
		case f.paid < 0:
			if err != nil || status != 500 || header.Get("X-Svc-Rpc-Credits") != "" {
				t.Errorf("%s: %d %v %.100s", name, status, err, got)
			}
		case err != nil || status != 200 || got != f.said:
			t.Errorf("%s: %d %v %.100s", name, status, err, got)
		}
		if paid := c.Settled()["rich"].Spent - before; paid != rig.Money(max(f.paid, 0)*700) {
			t.Errorf("%s cost %s", name, paid)
		}
	}
	for _, f := range answers { // a batch is judged before any of it goes out
		answer.Store(f.said)
		status, header, got := c.rpc("[" + call + "]")
		if f.batched < 0 && (status != 500 || header.Get("X-Svc-Rpc-Credits") != "") ||
			f.batched >= 0 && (status != 200 || got != "["+f.said+"]") {
			t.Errorf("in a batch %.100s: %d %.100s", f.said, status, got)
		}
		if f.batched >= 0 {
			c.charged(header, f.batched)
		}
	}
	c.spent(50 + 55)
}

// params: null is a call without params, and identity no encoding.
func TestCallsWithoutParams(t *testing.T) {
	t.Parallel()
	c := startChain(t, 1, "")
	for _, params := range []string{``, `,"params":null`, `,"params": null `} {
		c.expect(`{"jsonrpc":"2.0","id":1,"method":"eth_chainId"`+params+`}`, chainAnswer, 20)
		c.expect(`[{"jsonrpc":"2.0","id":1,"method":"eth_call"`+params+`}]`, `[{"jsonrpc":"2.0","id":1,"result":null}]`,
			20)
	}
	status, _, answer, err := rig.Try(rig.Client, c.URL+"/crypto/rpc/ethereum-sepolia", c.key, chainID,
		"Content-Encoding", "identity")
	if err != nil || status != 200 || answer != chainAnswer {
		t.Errorf("%d %s %v", status, answer, err)
	}
}
