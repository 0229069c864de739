package upstream

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"farebox/bench/upstream/chain"
)

// Node is a simulated blockchain node that speaks JSON-RPC over HTTP, for tests
// and demonstrations. It reads requests as geth does (encoding/json, so that
// the last of two members counts and case does not), answers every method it
// does not know by giving its params back byte for byte, and has the faults
// that real nodes and the services in front of them have.
type Node struct {
	o NodeOptions

	mu       sync.Mutex
	faults   NodeFaults
	random   *rand.Rand
	head     int64
	pool     map[string]bool // hashes of transactions it has
	calls    map[string]int  // run, by method
	requests int
	batches  int
	largest  int // calls in a batch
	server   *http.Server
}

// NodeOptions of a Node; the zero value is a well-behaved EVM node.
type NodeOptions struct {
	Solana bool // slots and signatures, and the id comes last
	Head   int64
	Chain  int64 // its id; default 1337
	Seed   uint64
	Name   string // what web3_clientVersion says; default simulated-node
	// Ledger is what the chain holds; nil: params are given back.
	Ledger Ledger
}

// Ledger answers the methods that it knows, as a node sees it. Both chains of the
// package chain are.
type Ledger interface {
	Call(method string, params json.RawMessage, v chain.View) (r chain.Reply, known bool)
}

// NodeFaults are what goes wrong. A fault with a Share hits that part of the
// requests, others all of them.
type NodeFaults struct {
	Share  float64
	Delay  time.Duration
	Status int    // HTTP status of every answer, with Body
	Body   string // of Status; empty: a page of HTML
	Hidden string // a limit in an answer with status 200: infura, alchemy, quicknode, public, therpc, text

	Single    bool // batches are refused with one error object
	Item      bool // batches are refused with an array of one error
	MaxBatch  int  // larger ones are refused with status 413
	Shuffle   bool // batches are answered in another order
	Duplicate bool // the second answer of a batch comes twice, instead of the third
	Missing   bool // the last answer of a batch is missing
	Foreign   bool // an answer for nobody comes first
	NoID      bool // answers have no id
	Round     bool // ids are read as floating point numbers

	Truncate bool // answers break off in the middle
	Trailing bool // garbage follows
	Empty    bool // 204
	Drop     bool // requests are run, and then the connection closes without an answer
	Busy     int  // so many calls of each batch are refused as over the limit

	Lag      int64         // blocks behind
	Lie      chain.Lie     // what it says of the Ledger
	Without  []string      // methods that are not there
	LargeCut bool          // a large result breaks off before its end
	Large    int64         // bytes of the result of eth_getLogs and trace methods
	Pause    time.Duration // between pieces of a large result
}

// NewNode makes a Node; Start or ServeHTTP runs it.
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
	return &Node{o: o, head: o.Head, pool: map[string]bool{}, calls: map[string]int{},
		random: rand.New(rand.NewPCG(o.Seed, 7))}
}

// Start serves on a free loopback port and gives its URL.
func (n *Node) Start() (url string, err error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	n.server = &http.Server{Handler: n, ReadHeaderTimeout: time.Minute}
	go func() { _ = n.server.Serve(ln) }()
	return "http://" + ln.Addr().String(), nil
}

// Close ends Start.
func (n *Node) Close() { _ = n.server.Close() }

// Fault sets what goes wrong from now on.
func (n *Node) Fault(f NodeFaults) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.faults = f
}

// Give makes the node have a transaction that another one took.
func (n *Node) Give(hash string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.pool[hash] = true
}

// NodeStats are what a node was asked.
type NodeStats struct {
	Requests int // over HTTP
	Batches  int
	Largest  int            // calls in a batch
	Calls    map[string]int // run, by method
}

// Stats are the counts so far.
func (n *Node) Stats() NodeStats {
	n.mu.Lock()
	defer n.mu.Unlock()
	return NodeStats{n.requests, n.batches, n.largest, maps.Clone(n.calls)}
}

// nodeCall is a request as geth reads it.
type nodeCall struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Method  string          `json:"method"`
	Params  json.RawMessage `json:"params"`
}

func (c *nodeCall) id() []byte {
	if c.ID == nil {
		return []byte("null")
	}
	return c.ID
}

// ServeHTTP answers one request.
func (n *Node) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	f := n.draw()
	time.Sleep(f.Delay)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Node-Secret", "backend-7.internal.simulated")
	switch {
	case f.Status != 0:
		w.WriteHeader(f.Status)
		_, _ = io.WriteString(w, or(f.Body, "<html><body>"+strconv.Itoa(f.Status)+" from backend-7</body></html>"))
		return
	case f.Empty:
		w.WriteHeader(http.StatusNoContent)
		return
	}
	out := n.Answer(body, &f)
	if f.Drop || f.Truncate {
		n.cut(w, out, f.Truncate)
		return
	}
	if f.Large > 0 && bytes.Contains(out, largeMark) {
		n.writeLarge(w, out, &f)
		return
	}
	if f.Trailing {
		out = append(out, "garbage"...)
	}
	_, _ = w.Write(out)
}

func or(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

// draw counts a request and says what goes wrong with it.
func (n *Node) draw() NodeFaults {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.requests++
	f := n.faults
	if f.Share > 0 && n.random.Float64() >= f.Share {
		return NodeFaults{Lag: f.Lag, Without: f.Without, Large: f.Large}
	}
	return f
}

// cut breaks off: after half of the answer, or before it.
func (n *Node) cut(w http.ResponseWriter, out []byte, half bool) {
	conn, buf, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	if half {
		fmt.Fprintf(buf, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", len(out))
		_, _ = buf.Write(out[:len(out)/2])
		_ = buf.Flush()
	}
	_ = conn.Close()
}

// largeMark stands where a large result goes.
var largeMark = []byte(`"large-result-goes-here"`)

// writeLarge streams a list of logs in place of the mark.
func (n *Node) writeLarge(w http.ResponseWriter, out []byte, f *NodeFaults) {
	before, after, found := bytes.Cut(out, largeMark)
	if !found {
		_, _ = w.Write(out)
		return
	}
	_, _ = w.Write(append(bytes.Clone(before), '['))
	piece := bytes.Repeat(largeLog, 64)
	for left := f.Large; left > 0; left -= int64(len(piece)) {
		if _, err := w.Write(piece); err != nil {
			return
		}
		if f.Pause > 0 {
			_ = http.NewResponseController(w).Flush()
			time.Sleep(f.Pause)
		}
	}
	if f.LargeCut {
		panic(http.ErrAbortHandler)
	}
	_, _ = io.WriteString(w, "null]")
	n.writeLarge(w, after, f)
	if f.Trailing {
		_, _ = io.WriteString(w, "garbage")
	}
}

var largeLog = []byte(`{"address":"0x` + strings.Repeat("ab", 20) + `","topics":["0x` + strings.Repeat("cd", 32) +
	`","0x` + strings.Repeat("01", 32) +
	`"],"data":"0x` + strings.Repeat("ef", 64) + `","blockNumber":"0x10","logIndex":"0x1","removed":false},`)

// Answer runs a request and gives the answer's body.
func (n *Node) Answer(body []byte, f *NodeFaults) []byte {
	trimmed := bytes.TrimLeft(body, " \t\r\n")
	if len(trimmed) == 0 || trimmed[0] != '[' {
		var c nodeCall
		if json.Unmarshal(body, &c) != nil {
			return nodeError(nil, n.o.Solana, []byte("null"), -32700, "parse error")
		}
		if f.Hidden != "" {
			return n.hidden(nil, &c, f.Hidden)
		}
		return n.run(nil, &c, f)
	}
	var calls []nodeCall
	if json.Unmarshal(body, &calls) != nil {
		return nodeError(nil, n.o.Solana, []byte("null"), -32700, "parse error")
	}
	n.mu.Lock()
	n.batches++
	n.largest = max(n.largest, len(calls))
	n.mu.Unlock()
	switch {
	case f.Hidden != "":
		return n.hidden(nil, &nodeCall{ID: []byte("null")}, f.Hidden)
	case f.Single:
		return nodeError(nil, false, []byte("null"), -32600, "batch requests are not allowed")
	case f.Item, f.MaxBatch > 0 && len(calls) > f.MaxBatch:
		return append(nodeError([]byte{'['}, false, []byte("null"), -32600, "batch too large"), ']')
	}
	answers := make([][]byte, len(calls))
	for i := range calls {
		if i < f.Busy {
			answers[i] = n.hidden(nil, &calls[i], "infura")
			continue
		}
		answers[i] = n.run(nil, &calls[i], f)
	}
	return joinAnswers(answers, f)
}

func joinAnswers(answers [][]byte, f *NodeFaults) []byte {
	if f.Shuffle {
		for i := range len(answers) / 2 {
			k := len(answers) - 1 - i
			answers[i], answers[k] = answers[k], answers[i]
		}
	}
	if f.Duplicate && len(answers) > 2 {
		answers[2] = answers[1]
	}
	if f.Missing {
		answers = answers[:len(answers)-1]
	}
	if f.Foreign {
		answers = append([][]byte{[]byte(`{"jsonrpc":"2.0","id":"nobody","result":"0x0"}`)}, answers...)
	}
	return append(append([]byte{'['}, bytes.Join(answers, []byte(","))...), ']')
}

// run runs one call.
func (n *Node) run(b []byte, c *nodeCall, f *NodeFaults) []byte {
	id := c.id()
	if x, err := strconv.ParseFloat(string(id), 64); f.Round && err == nil {
		id, _ = json.Marshal(x)
	}
	if f.NoID {
		id = nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.calls[c.Method]++
	for _, name := range f.Without {
		if stem, wild := strings.CutSuffix(name, "*"); name == c.Method || wild && strings.HasPrefix(c.Method, stem) {
			return nodeError(b, n.o.Solana, id, -32601, "the method "+c.Method+" does not exist/is not available")
		}
	}
	result, code, text := n.result(c, f)
	if code != 0 {
		return nodeError(b, n.o.Solana, id, code, text)
	}
	return nodeResult(b, n.o.Solana, id, result)
}

// asked is an error that a client asked for: [{"simulate":{"code":-32000,"message":"…"}}]
// in its params, as real nodes repeat what they were sent, what a contract says
// when it reverts and what a tracer throws.
func (c *nodeCall) asked() (code int, text string) {
	if !bytes.Contains(c.Params, []byte(`"simulate"`)) {
		return 0, ""
	}
	var params []struct {
		Simulate struct {
			Code    int
			Message string
		}
	}
	if json.Unmarshal(c.Params, &params) != nil || len(params) == 0 {
		return 0, ""
	}
	return params[0].Simulate.Code, params[0].Simulate.Message
}

// result is what a call gives; under mu.
func (n *Node) result(c *nodeCall, f *NodeFaults) (result []byte, code int, text string) {
	if code, text = c.asked(); code != 0 {
		return nil, code, text
	}
	if bytes.Contains(c.Params, []byte(`"revert"`)) {
		return nil, 3, "execution reverted: asked to"
	}
	if code, text := echoed(c); code != 0 {
		return nil, code, text
	}
	if n.o.Ledger != nil {
		if r, known := n.o.Ledger.Call(c.Method, c.Params, chain.View{Lag: f.Lag, Lie: f.Lie}); known {
			return r.Result, r.Code, r.Text
		}
	}
	head := n.head - f.Lag
	switch c.Method {
	case "eth_chainId":
		return fmt.Appendf(nil, `"0x%x"`, n.o.Chain), 0, ""
	case "net_version":
		return fmt.Appendf(nil, `"%d"`, n.o.Chain), 0, ""
	case "eth_blockNumber":
		return fmt.Appendf(nil, `"0x%x"`, head), 0, ""
	case "getSlot", "starknet_blockNumber", "getBlockHeight":
		return strconv.AppendInt(nil, head, 10), 0, ""
	case "web3_clientVersion":
		return fmt.Appendf(nil, "%q", n.o.Name), 0, ""
	case "eth_sendRawTransaction":
		return n.send(c)
	case "eth_getTransactionByHash", "eth_getTransactionReceipt":
		var params []string
		if json.Unmarshal(c.Params, &params) != nil || len(params) == 0 || !n.pool[params[0]] {
			return []byte("null"), 0, ""
		}
		return fmt.Appendf(nil, `{"hash":%q,"transactionHash":%q,"blockNumber":"0x%x","status":"0x1"}`, params[0],
			params[0], head), 0, ""
	case "eth_getLogs", "trace_filter", "debug_traceTransaction", "getProgramAccounts":
		if f.Large > 0 {
			return largeMark, 0, ""
		}
	}
	if c.Params == nil {
		return []byte("null"), 0, ""
	}
	return c.Params, 0, ""
}
