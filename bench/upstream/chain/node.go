package chain

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/tidwall/gjson"
)

// NodeOptions of a Node; the zero value is an EVM node.
type NodeOptions struct {
	Solana bool // slots and signatures, and the id is last
	Head   int64
	Chain  int64  // its id; default 1337
	Name   string // the answer to web3_clientVersion; default simulated-node
	Seed   uint64 // of the draws of faults, which package node has
	// Ledger is the state of the chain; nil: params are given back.
	Ledger Ledger
}

// Ledger answers the methods that it knows, as a node sees it: an EVM or a Solana.
type Ledger interface {
	Call(method string, params json.RawMessage, v View) (r Reply, known bool)
}

// Node is a simulated blockchain node that speaks JSON-RPC. It reads requests as geth does
// (encoding/json, so that the last of two members counts and case does not) and answers every method
// it does not know by giving its params back byte for byte. Package node has one with faults.
type Node struct {
	o NodeOptions

	mu   sync.Mutex
	pool map[string]bool // hashes of transactions it has
}

// NewNode makes a Node.
func NewNode(o NodeOptions) *Node {
	if o.Head == 0 {
		o.Head = 1000
	}
	if o.Chain == 0 {
		o.Chain = 1337
	}
	if o.Name == "" {
		o.Name = "simulated-node"
	}
	return &Node{o: o, pool: map[string]bool{}}
}

// NodeCall is a request as geth reads it.
type NodeCall struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Method  string          `json:"method"`
	Params  json.RawMessage `json:"params"`
}

// Calls reads a request, or a batch of them.
func Calls(body []byte) (calls []NodeCall, batch bool, err error) {
	if batch = bytes.HasPrefix(bytes.TrimLeft(body, " \t\r\n"), []byte{'['}); batch {
		return calls, true, json.Unmarshal(body, &calls)
	}
	calls = make([]NodeCall, 1)
	return calls, false, json.Unmarshal(body, &calls[0])
}

// Unreadable is the answer to a body that is not JSON.
var Unreadable = Reply{Code: -32700, Text: "parse error"}

// Answer runs a request and gives the answer's body.
func (n *Node) Answer(body []byte) []byte {
	calls, batch, err := Calls(body)
	if err != nil {
		return n.Write([]byte("null"), Unreadable)
	}
	answers := make([][]byte, len(calls))
	for i := range calls {
		answers[i] = n.Write(calls[i].Identity(), n.Run(&calls[i], View{}))
	}
	if !batch {
		return answers[0]
	}
	return Batch(answers)
}

// Batch is a list of answers.
func Batch(answers [][]byte) []byte {
	return append(append([]byte{'['}, bytes.Join(answers, []byte(","))...), ']')
}

// Identity is the id as sent, or null.
func (c *NodeCall) Identity() []byte {
	if c.ID == nil {
		return []byte("null")
	}
	return c.ID
}

// Run runs one call.
func (n *Node) Run(c *NodeCall, v View) Reply {
	if r := wanted(c); r.Code != 0 {
		return r
	}
	if n.o.Ledger != nil {
		if r, known := n.o.Ledger.Call(c.Method, c.Params, v); known {
			return r
		}
	}
	head := n.o.Head - v.Lag
	switch c.Method {
	case "eth_chainId":
		return answered(quantity(n.o.Chain))
	case "net_version":
		return answered(strconv.FormatInt(n.o.Chain, 10))
	case "eth_blockNumber":
		return answered(quantity(head))
	case "getSlot", "starknet_blockNumber", "getBlockHeight":
		return answered(head)
	case "web3_clientVersion":
		return answered(n.o.Name)
	case "eth_sendRawTransaction":
		return n.send(c)
	case "eth_getTransactionByHash", "eth_getTransactionReceipt":
		list, _ := arguments(c.Params, 1)
		hash := textAt(list, 0)
		n.mu.Lock()
		defer n.mu.Unlock()
		if !n.pool[hash] {
			return Reply{Result: []byte("null")}
		}
		return Reply{Result: fmt.Appendf(nil, `{"hash":%q,"transactionHash":%q,"blockNumber":"0x%x","status":"0x1"}`, hash, hash,
			head)}
	}
	if c.Params == nil {
		return Reply{Result: []byte("null")}
	}
	return Reply{Result: c.Params}
}

var thrown = []byte("throw '")

// wanted are the errors that a client asks for: [{"simulate":{"code":-32000,"message":"…"}}] in its params, and
// those whose words it chooses: the error of a tracer, an argument that is not a number, the reason of a revert.
func wanted(c *NodeCall) Reply {
	if asked := gjson.GetBytes(c.Params, "0.simulate"); asked.Get("code").Int() != 0 {
		return refused(int(asked.Get("code").Int()), asked.Get("message").Str)
	}
	if bytes.Contains(c.Params, []byte(`"revert"`)) {
		return refused(3, "execution reverted: asked to")
	}
	if _, rest, ok := bytes.Cut(c.Params, thrown); ok && strings.HasPrefix(c.Method, "debug_") {
		words, _, _ := bytes.Cut(rest, []byte("'"))
		return refused(-32000, string(words)+" at <eval>:1:25(3)")
	}
	if _, rest, ok := bytes.Cut(c.Params, []byte(`"revert:`)); ok {
		words, _, _ := bytes.Cut(rest, []byte(`"`))
		return refused(3, "execution reverted: "+string(words))
	}
	if c.Method == "eth_feeHistory" {
		// A block count is a number, or its hexadecimal or decimal digits.
		first := gjson.GetBytes(c.Params, "0")
		if _, err := strconv.ParseUint(first.Str, 0, 64); first.Type != gjson.Number && err != nil {
			return refused(-32602, "invalid argument 0: cannot unmarshal "+first.Str+
				" into Go value of type math.HexOrDecimal64")
		}
	}
	return Reply{}
}

// Give makes the node have a transaction that another one took.
func (n *Node) Give(hash string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.pool[hash] = true
}

// send takes a transaction; params[0] is its bytes.
func (n *Node) send(c *NodeCall) Reply {
	list, ok := arguments(c.Params, 1)
	if !ok {
		return refused(codeParams, "invalid params")
	}
	raw, err := hex.DecodeString(strings.TrimPrefix(textAt(list, 0), "0x"))
	if err != nil || len(raw) == 0 {
		return refused(codeParams, "invalid argument 0: hex string expected")
	}
	if bytes.HasSuffix(raw, []byte("low")) {
		return refused(-32000, "nonce too low: next nonce 7, tx nonce 6")
	}
	hash := hexOf(keccak(raw))
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.pool[hash] {
		return refused(-32000, "already known")
	}
	n.pool[hash] = true
	return answered(hash)
}

// Write is an answer with an id before or behind its outcome; nil: it has no id.
func (n *Node) Write(id []byte, r Reply) []byte {
	outcome := append([]byte(`"result":`), r.Result...)
	if r.Code != 0 {
		outcome = fmt.Appendf(nil, `"error":{"code":%d,"message":%q}`, r.Code, r.Text)
	}
	parts := [][]byte{[]byte(`{"jsonrpc":"2.0"`), append([]byte(`"id":`), id...), outcome}
	if n.o.Solana {
		parts[1], parts[2] = parts[2], parts[1]
	}
	if id == nil {
		parts = [][]byte{parts[0], outcome}
	}
	return append(bytes.Join(parts, []byte(",")), '}')
}

// ExampleLog is one of eth_getLogs, with a comma behind it.
var ExampleLog = `{"address":"0x` + strings.Repeat("ab", 20) + `","topics":["0x` + strings.Repeat("cd", 32) + `","0x` +
	strings.Repeat("01", 32) + `"],"data":"0x` + strings.Repeat("ef", 64) +
	`","blockNumber":"0x10","logIndex":"0x1","removed":false},`
