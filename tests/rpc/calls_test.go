package rpc

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/crypto/sha3"

	"farebox/bench/upstream/node"
	"farebox/tests/rig"
)

// Blockchain calls through farebox, with nodes that record their calls.

// chain is a gateway with simulated nodes for ethereum-sepolia, and a customer.
type chain struct {
	*rig.Gateway
	t     *testing.T
	nodes []*node.Node
	key   string
}

const chainCredit = rig.Money(1_000_000_000)

// startChain starts a gateway before so many nodes; extra is written into the
// network's config, indented by 6. Nodes have their turns by weight alone, so
// that bad ones have theirs, unless extra says prefer_fast.
func startChain(t *testing.T, nodes int, extra string) *chain {
	t.Helper()
	return startChainWith(t, nodes, extra, "", "rpc:\n  rate: { rpm: 0 }\n")
}

func startChainWith(t *testing.T, nodes int, extra, perNode, head string) *chain {
	t.Helper()
	c := &chain{t: t}
	text := "log: { level: info, format: json, sample_above: 0 }\n" + head +
		"  networks:\n    - name: ethereum-sepolia\n" + extra + "      upstreams:\n"
	if !strings.Contains(extra, "prefer_fast") {
		text = strings.Replace(text, "ethereum-sepolia\n", "ethereum-sepolia\n      prefer_fast: false\n", 1)
	}
	for i := range nodes {
		n := node.New(node.Options{Seed: uint64(i), Name: fmt.Sprintf("node-%d", i)})
		url, err := n.Start()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(n.Close)
		c.nodes = append(c.nodes, n)
		text += fmt.Sprintf("        - { name: node-%d, url: \"%s/v2/secret-path?key=secret-query\", breaker: { "+
			"failures: 0 }%s }\n", i, url, perNode)
	}
	c.Gateway = rig.StartGateway(t, text)
	c.NewAccount("rich", chainCredit.String())
	c.key = c.Key("rich")
	return c
}

// rpc posts a body to the network.
func (c *chain) rpc(body string) (int, http.Header, string) {
	c.t.Helper()
	status, header, answer := c.Post("/crypto/rpc/ethereum-sepolia", c.key, body)
	return status, header, string(answer)
}

// expect posts a body and wants an answer with status 200 and a charge.
func (c *chain) expect(body, answer string, credits int64) {
	c.t.Helper()
	status, header, got := c.rpc(body)
	if status != 200 || got != answer {
		c.t.Errorf("%s\n gave %d %s\nwant 200 %s", body, status, got, answer)
	}
	c.charged(header, credits)
}

// charged checks the billing headers.
func (c *chain) charged(h http.Header, credits int64) {
	c.t.Helper()
	if got := h.Get("X-Svc-Rpc-Credits"); got != strconv.FormatInt(credits, 10) {
		c.t.Errorf("credits are %q, want %d", got, credits)
	}
	if got, want := h.Get("X-Svc-Rpc-Cost-Usd"), fmt.Sprintf("0.%08d", credits*70); got != want {
		c.t.Errorf("cost is %q, want %s", got, want)
	}
	if len(h.Get("X-Request-Id")) != 32 {
		c.t.Errorf("the request id is %q", h.Get("X-Request-Id"))
	}
}

// spent waits for all to be settled and compares the account's charge.
func (c *chain) spent(credits int64) {
	c.t.Helper()
	if got := c.Settled()["rich"]; got.Spent != rig.Money(credits*700) ||
		got.USD != chainCredit-rig.Money(credits*700) {
		c.t.Errorf("spent %s, %s left; want %s spent", got.Spent, got.USD, rig.Money(credits*700))
	}
}

// The list of networks needs no key and is sorted.
func TestCryptoNetworks(t *testing.T) {
	t.Parallel()
	c := startChain(t, 1, "      credits: 20\n      upstreams: [{ name: a, url: \"http://127.0.0.1:9\" }]\n    - "+
		"name: base-mainnet\n")
	status, _, body := c.Get("/crypto/rpc/networks", "")
	if status != 200 || string(body) != `{"networks":["base-mainnet","ethereum-sepolia"]}` {
		t.Errorf("the list is %d %s", status, body)
	}
	status, _, body = c.Post("/crypto/rpc/blast-mainnet", c.key, `{}`)
	if status != 400 || !strings.Contains(string(body), `"error":"Unsupported RPC network"`) ||
		!strings.Contains(string(body), "ethereum-sepolia") {
		t.Errorf("an unknown network gives %d %s", status, body)
	}
	if status, _, _ := c.Post("/crypto/rpc/base-mainnet", "", `{}`); status != 401 {
		t.Errorf("without a key the status is %d", status)
	}
}

// Calls and batches keep every byte of ids, params and results, and cost the price of the table.
func TestCryptoCalls(t *testing.T) {
	t.Parallel()
	c := startChain(t, 1, "")
	const odd = `[{"z":18446744073709551615,"a":9007199254740993,"f":1.10,"e":1e2,"s":"\u00e9\/ü"}, "0x" ]`
	total := int64(0)
	f := func(body, answer string, credits int64) {
		t.Helper()
		c.expect(body, answer, credits)
		total += credits
	}
	f(`{"jsonrpc":"2.0","id":1,"method":"eth_chainId"}`, `{"jsonrpc":"2.0","id":1,"result":"0x539"}`, 20)
	f(`{"jsonrpc":"2.0","id":"a b","method":"eth_call","params":`+odd+`}`,
		`{"jsonrpc":"2.0","id":"a b","result":`+odd+`}`, 20)
	for _, id := range []string{`9007199254740993`, `18446744073709551615`, `null`, `1.50`, `-0`, `"\u00e9\/"`, `"é"`,
		`1e3`, `"<&>"`} {
		f(`{"jsonrpc":"2.0","id":`+id+`,"method":"eth_chainId","params":[]}`,
			`{"jsonrpc":"2.0","id":`+id+`,"result":"0x539"}`, 20)
	}
	f(` {"method":"eth_call" , "params":{"b":1},"x":[1,{"method":"eth_accounts"}]} `,
		`{"jsonrpc":"2.0","id":1,"result":{"b":1}}`, 20)
	f(`{"jsonrpc":"2.0","id":7,"method":"eth_estimateGas","params":["revert"]}`,
		`{"jsonrpc":"2.0","id":7,"error":{"code":3,"message":"execution reverted: asked to"}}`, 5)
	f(`{"jsonrpc":"2.0","id":7,"method":"debug_traceCall","params":[1]}`, `{"jsonrpc":"2.0","id":7,"result":[1]}`, 40)
	f(`{"jsonrpc":"2.0","id":7,"method":"txpool_content","params":[1]}`, `{"jsonrpc":"2.0","id":7,"result":[1]}`, 80)
	f("\n[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"eth_chainId\"}]", `[{"jsonrpc":"2.0","id":1,"result":"0x539"}]`,
		20)
	// Equal ids and missing ones: each call gets its own answer, in order.
	f(`[{"jsonrpc":"2.0","id":1,"method":"eth_call","params":[1]},{"jsonrpc":"2.0","id":1,"method":"eth_call","params":[2]},`+
		`{"id":null,"method":"eth_call","params":["revert"]},{"method":"eth_call","params":[4]}]`,
		`[{"jsonrpc":"2.0","id":1,"result":[1]},{"jsonrpc":"2.0","id":1,"result":[2]},`+
			`{"jsonrpc":"2.0","id":null,"error":{"code":3,"message":"execution reverted: asked to"}},{"jsonrpc":"2.0","id":1,"result":[4]}]`, 65)
	if s := c.nodes[0].Stats(); s.Calls["eth_accounts"] != 0 || s.Batches != 2 {
		t.Errorf("the node was asked %+v", s)
	}
	c.spent(total)
	status, _, usage := c.Get("/billing/usage?limit=1", c.Key("rich", "--type", "ADMIN"))
	if want := `"sku":"crypto-rpc-ethereum-sepolia","pricePerUnitUsd":0.0000007,"units":65,"amount":-0.0000455,"currency":"USD"`; status != 200 || !strings.Contains(string(usage), want) {
		t.Errorf("the usage is %d %s, want in it %s", status, usage, want)
	}
	_, _, sum := c.Get("/billing/usage-analytics", c.Key("rich", "--type", "ADMIN"))
	if want := `{"modelName":"crypto-rpc-ethereum-sepolia","unitType":"credits","modelType":null,"totalUsd":` +
		rig.Money(total*700).String() + `,"totalDiem":0,"totalUnits":` + strconv.FormatInt(total, 10) +
		`}`; !strings.Contains(string(sum), want) {
		t.Errorf("the analytics are %s, want in it %s", sum, want)
	}
	metrics, err := http.Get(c.MetricsURL())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = metrics.Body.Close() }()
	series, err := io.ReadAll(metrics.Body)
	for _, want := range []string{
		fmt.Sprintf("farebox_rpc_credits_total{network=\"ethereum-sepolia\"} %d\n", total),
		`farebox_rpc_node_state{network="ethereum-sepolia",upstream="node-0"} 0`,
	} {
		if err != nil || !strings.Contains(string(series), want) {
			t.Errorf("%v, the metrics do not say %s", err, want)
		}
	}
	for _, secret := range []string{"secret-path", "secret-query", "0x539"} {
		if strings.Contains(c.Log(), secret) {
			t.Errorf("the log has %q", secret)
		}
	}
}

// Ambiguous bodies and bodies that are not requests are refused, and nothing of them
// reaches a node.
func TestCryptoRefusals(t *testing.T) {
	t.Parallel()
	c := startChain(t, 1, "")
	f := func(body, path, text string) {
		t.Helper()
		c.key = c.Key("rich") // each has a budget of failures of its own
		status, header, answer := c.rpc(body)
		var got struct {
			Error  string
			Issues []struct {
				Path    []any
				Message string
			}
		}
		if err := json.Unmarshal([]byte(answer), &got); err != nil || status != 400 || len(got.Issues) == 0 {
			t.Errorf("%.80s gives %d %s", body, status, answer)
			return
		}
		if at := strings.Trim(strings.ReplaceAll(fmt.Sprint(got.Issues[0].Path), " ", "."), "[]"); at != path ||
			!strings.Contains(got.Error, text) {
			t.Errorf("%.80s gives %s", body, answer)
		}
		if header.Get("X-Svc-Rpc-Credits") != "" {
			t.Errorf("%.80s: a refusal has a charge", body)
		}
	}
	f(` `, "", "empty")
	f(`[]`, "", "batch is empty")
	f(`[`+strings.Repeat(`{"jsonrpc":"2.0","id":1,"method":"eth_chainId"},`, 100)+
		`{"jsonrpc":"2.0","id":1,"method":"eth_chainId"}]`, "", "more than 100")
	f(`{"jsonrpc":"2.0","id":1,"method":"eth_chainId"`, "", "ends before")
	f(`{"jsonrpc":"2.0","id":1,"method":"eth_chainId"}{}`, "", "not valid JSON")
	f(`{"jsonrpc":"2.0","id":1,"method":"eth_chainId","METHOD":"eth_accounts"}`, "method", "lower case")
	f(`{"jsonrpc":"2.0","id":1,"method":"eth_chainId","method":"eth_accounts"}`, "method", "more than once")
	f(`{"jsonrpc":"2.0","id":1,"m\u0065thod":"eth_accounts","method":"eth_chainId"}`, "", "escape")
	f(`{"jsonrpc":"2.0","id":1,"method":"eth_\u0063hainId"}`, "method", "without escapes")
	f(`{"jsonrpc":"1.0","id":1,"method":"eth_chainId"}`, "jsonrpc", `must be "2.0"`)
	f(`{"jsonrpc":"2.0","id":{},"method":"eth_chainId"}`, "id", "must be a string, a number or null")
	f(`{"jsonrpc":"2.0","id":1,"method":"eth_chainId","params":1}`, "params", "array or an object")
	f(`[{"jsonrpc":"2.0","id":1,"method":"eth_chainId"},7]`, "1", "must be a JSON-RPC request object")
	f(`[{"jsonrpc":"2.0","id":1,"method":"eth_accounts"},{"jsonrpc":"2.0","id":2,"method":"eth_chainId"},{"jsonrpc":"2.0","id":3,"method":"getSlot"},{"jsonrpc":"2.0","id":4,"method":"eth_subscribe"}]`,
		"0.method", "Unsupported RPC methods for ethereum-sepolia: eth_accounts, getSlot, eth_subscribe")
	// Clients such as ethers fall back to another method only after an error of JSON-RPC.
	for body, want := range map[string]string{
		`{"jsonrpc":"2.0","id":"a","method":"eth_newFilter"}`: `{"jsonrpc":"2.0","id":"a","error":{"code":-32601,"message":"the method eth_newFilter does not exist/is not available"}}`,
		`{"method":"eth_subscribe"}`:                          `{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"the method eth_subscribe does not exist/is not available"}}`,
	} {
		if status, header, answer := c.rpc(body); status != 200 || answer != want || header.Get("X-Svc-Rpc-Credits") != "0" ||
			header.Get("X-Svc-Rpc-Cost-Usd") != "0.00000000" {
			t.Errorf("%s gives %d %s", body, status, answer)
		}
	}
	if s := c.nodes[0].Stats(); s.Requests != 0 {
		t.Errorf("the node was asked %+v", s)
	}
	c.spent(0)
}

// Limits and an empty account are said before a node is asked.
func TestCryptoLimits(t *testing.T) {
	t.Parallel()
	c := startChainWith(t, 1, "", "", "rpc:\n  rate: { rpm: 2 }\n")
	call := `[{"jsonrpc":"2.0","id":1,"method":"eth_chainId"},{"jsonrpc":"2.0","id":2,"method":"eth_chainId"}]`
	for _, left := range []string{"1", "0"} {
		if status, header, body := c.rpc(call); status != 200 || header.Get("X-Ratelimit-Limit-Requests") != "2" ||
			header.Get("X-Ratelimit-Remaining-Requests") != left || header.Get("X-Ratelimit-Reset-Requests") == "" {
			t.Fatalf("%d %v %s", status, header, body)
		}
	}
	status, header, body := c.rpc(call)
	if status != 429 || !strings.Contains(body, `"customMessage":`) || header.Get("Retry-After") == "" ||
		header.Get("X-Ratelimit-Limit") != "2" || header.Get("X-Ratelimit-Remaining") != "0" ||
		header.Get("X-Ratelimit-Reset") == "" {
		t.Errorf("the third request gives %d %v %s", status, header, body)
	}
	if _, _, limits := c.Get("/api_keys/rate_limits", c.key); !strings.Contains(string(limits),
		`{"apiModelId":"crypto-rpc","rateLimits":[{"amount":2,"type":"RPM"}]}`) {
		t.Errorf("the limits are %s", limits)
	}
	if _, _, log := c.Get("/api_keys/rate_limits/log", c.Key("rich", "--type", "ADMIN")); !strings.Contains(string(log),
		`"modelId":"crypto-rpc","rateLimitTier":"paid","rateLimitType":"RPM"`) {
		t.Errorf("the log of refusals is %s", log)
	}
	c.NewAccount("poor", "")
	c.key = c.Key("poor")
	if status, _, body := c.rpc(call); status != 402 || !strings.Contains(body, "INSUFFICIENT_BALANCE") {
		t.Errorf("without money: %d %s", status, body)
	}
	c.spent(80)
}

// keccak is the hash of text in hexadecimal digits.
func keccak(text string) string {
	h := sha3.NewLegacyKeccak256()
	_, _ = h.Write([]byte(text))
	return hex.EncodeToString(h.Sum(nil))
}
