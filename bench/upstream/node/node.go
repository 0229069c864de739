// Package node is a simulated blockchain node with the faults that real nodes and the services in front of them
// have, for tests. A well-behaved node is in the package chain.
//
// Nothing of the gateway may be imported here: a shared mistake would be invisible.
package node

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"farebox/bench/upstream/chain"
)

// Node is a chain.Node over HTTP that has faults.
type Node struct {
	*chain.Node

	mu       sync.Mutex
	faults   Faults
	random   *rand.Rand
	calls    map[string]int // run, by method
	requests int
	batches  int
	largest  int // calls in a batch
	server   *http.Server
}

// Options of a Node; the zero value is a well-behaved EVM node.
type Options = chain.NodeOptions

// Faults are the faults of a node. A fault with a Share hits that part of the
// requests, others all of them.
type Faults struct {
	Share  float64
	Delay  time.Duration
	Until  <-chan struct{} // where it is set, an answer waits for its end
	Status int             // HTTP status of every answer, with Body
	Body   string          // of Status; empty: a page of HTML
	Hidden string          // a limit in an answer with status 200: infura, alchemy, quicknode, public, therpc, text

	Single    bool // batches are refused with one error object
	Item      bool // batches are refused with an array of one error
	MaxBatch  int  // larger ones are refused with status 413
	Shuffle   bool // batches are answered in another order
	Duplicate bool // the second answer of a batch is sent twice, instead of the third
	Missing   bool // the last answer of a batch is missing
	Foreign   bool // an answer to no call is sent first
	NoID      bool // answers have no id
	Round     bool // ids are read as floating point numbers

	Truncate bool // answers break off in the middle
	Trailing bool // garbage follows
	Empty    bool // 204
	Drop     bool // requests are run, and then the connection closes without an answer
	Busy     int  // so many calls of each batch are refused as over the limit

	Lag      int64         // blocks behind
	Lie      chain.Lie     // its answer about the Ledger
	Without  []string      // methods that are not there
	LargeCut bool          // a large result breaks off before its end
	Large    int64         // bytes of the result of eth_getLogs and trace methods
	Pause    time.Duration // between pieces of a large result
}

// New makes a Node; Start or ServeHTTP runs it.
func New(o Options) *Node {
	return &Node{Node: chain.NewNode(o), calls: map[string]int{}, random: rand.New(rand.NewPCG(o.Seed, 7))}
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

// Fault sets the faults from now on.
func (n *Node) Fault(f Faults) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.faults = f
}

// Stats are the counts of a node's requests.
type Stats struct {
	Requests int // over HTTP
	Batches  int
	Largest  int            // calls in a batch
	Calls    map[string]int // run, by method
}

// Stats are the counts so far.
func (n *Node) Stats() Stats {
	n.mu.Lock()
	defer n.mu.Unlock()
	return Stats{n.requests, n.batches, n.largest, maps.Clone(n.calls)}
}

// ServeHTTP answers one request.
func (n *Node) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	f := n.draw()
	time.Sleep(f.Delay)
	if f.Until != nil {
		<-f.Until
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Node-Secret", "backend-7.internal.simulated")
	switch {
	case f.Status != 0:
		w.WriteHeader(f.Status)
		_, _ = io.WriteString(w, cmp.Or(f.Body, "<html><body>"+strconv.Itoa(f.Status)+" from backend-7</body></html>"))
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

// draw counts a request and gives its faults.
func (n *Node) draw() Faults {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.requests++
	f := n.faults
	if f.Share > 0 && n.random.Float64() >= f.Share {
		return Faults{Lag: f.Lag, Without: f.Without, Large: f.Large}
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

// largeMark is the place of a large result.
var largeMark = []byte(`"large-result-goes-here"`)

// writeLarge streams a list of logs in place of the mark.
func (n *Node) writeLarge(w http.ResponseWriter, out []byte, f *Faults) {
	before, after, found := bytes.Cut(out, largeMark)
	if !found {
		_, _ = w.Write(out)
		return
	}
	_, _ = w.Write(append(bytes.Clone(before), '['))
	piece := bytes.Repeat([]byte(chain.ExampleLog), 64)
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
