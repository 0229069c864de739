package rpc

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"farebox/bench/upstream/node"
	"farebox/tests/rig"
)

// The charges in the answers' headers match the ledger, to the credit, whatever goes
// wrong at the nodes meanwhile. FAREBOX_RPC_CALLS is how many requests are tried.
func TestCryptoHeadersAddUpToTheLedger(t *testing.T) {
	t.Parallel()
	n := 2000
	if text := os.Getenv("FAREBOX_RPC_CALLS"); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	c := startChainWith(t, 3,
		"      head_every: 200ms\n      hedge_after: 20ms\n      timeouts: { read: 200ms, heavy: 2s, write: 200ms }\n",
		"", "rpc:\n  rate: { rpm: 0 }\n  batch_memory: 64KB\n")
	c.Credit("rich", "100")
	stop := make(chan struct{})
	var breaking sync.WaitGroup
	breaking.Go(func() { breakNodes(c.nodes, stop) })

	var sum, sent, broken, failed atomic.Int64
	var all sync.WaitGroup
	const workers = 12
	for w := range workers {
		all.Go(func() {
			x := &traffic{rand.New(rand.NewPCG(uint64(w), 9))}
			for range n / workers {
				body := x.body()
				res := c.Open("POST", "/crypto/rpc/ethereum-sepolia", c.key, body)
				answer, err := io.ReadAll(res.Body)
				_ = res.Body.Close()
				sent.Add(1)
				text := res.Header.Get("X-Svc-Rpc-Credits")
				switch {
				case err != nil:
					broken.Add(1) // it broke off: not charged whatever the header said
					continue
				case res.StatusCode == 500 && text == "":
					failed.Add(1)
					continue
				case res.StatusCode != 200 || text == "":
					t.Errorf("%.200s gives %d %.200s", body, res.StatusCode, answer)
					continue
				}
				credits, err := strconv.ParseInt(text, 10, 64)
				if err != nil {
					t.Errorf("the credits are %q", text)
				}
				if want := chargeFor(t, body, answer); want != credits {
					t.Errorf("%.300s\ngives %.300s\nfor %d credits, want %d", body, answer, credits, want)
				}
				sum.Add(credits)
			}
		})
	}
	all.Wait()
	close(stop)
	breaking.Wait()
	if got := c.Settled()["rich"]; got.Spent != rig.Money(sum.Load()*700) {
		t.Errorf("the headers say %d credits, %s USD; the ledger has %s", sum.Load(), rig.Money(sum.Load()*700),
			got.Spent)
	}
	t.Logf("%d requests, %d credits, %d broke off, %d failed", sent.Load(), sum.Load(), broken.Load(), failed.Load())
	if sum.Load() == 0 || broken.Load()+failed.Load() > sent.Load()/2 {
		t.Error("too little of it went well")
	}
}

// breakNodes changes the faults of the nodes, one of them being well at any time.
func breakNodes(nodes []*node.Node, stop chan struct{}) {
	random := rand.New(rand.NewPCG(4, 4))
	const large = 200 << 10
	faults := []node.Faults{
		{}, {Large: large}, {Large: large, LargeCut: true}, {Status: 429}, {Status: 502}, {Hidden: "infura"},
		{Hidden: "alchemy"}, {Single: true}, {Item: true},
		{Shuffle: true}, {Duplicate: true}, {Missing: true}, {Foreign: true}, {NoID: true}, {Truncate: true},
		{Trailing: true}, {Empty: true}, {Drop: true},
		{Busy: 2}, {Delay: 30 * time.Millisecond}, {Delay: 400 * time.Millisecond}, {Lag: 100}, {Round: true},
	}
	for {
		well := random.IntN(len(nodes))
		for i, n := range nodes {
			f := faults[random.IntN(len(faults))]
			if i == well {
				f = node.Faults{Large: large}
			}
			f.Share = random.Float64()
			n.Fault(f)
		}
		select {
		case <-stop:
			return
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// traffic makes requests.
type traffic struct{ *rand.Rand }

func (x *traffic) call() string {
	method, params := "eth_call", fmt.Sprintf("[%d]", x.IntN(1000))
	switch x.IntN(8) {
	case 0:
		params = `["revert"]`
	case 1:
		method = "debug_traceCall"
	case 2:
		method = "eth_getLogs"
	case 3:
		method, params = "eth_sendRawTransaction", fmt.Sprintf(`["0x%08x"]`, x.Uint32())
	}
	id := strconv.Itoa(x.IntN(5))
	if x.IntN(5) == 0 {
		id = `"\u00e9"`
	}
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"` + method + `","params":` + params + `}`
}

func (x *traffic) body() string {
	if x.IntN(2) == 0 {
		return x.call()
	}
	calls := make([]string, 1+x.IntN(12))
	for i := range calls {
		calls[i] = x.call()
	}
	return "[" + strings.Join(calls, ",") + "]"
}

// chargeFor computes the right charge of a request from its answer.
func chargeFor(t *testing.T, body string, answer []byte) (credits int64) {
	t.Helper()
	type call struct {
		ID     json.RawMessage
		Method string
		Result json.RawMessage
		Error  *struct {
			Code    int
			Message string
		}
	}
	var asked, got []call
	if body[0] != '[' {
		body, answer = "["+body+"]", []byte("["+string(answer)+"]")
	}
	if err := json.Unmarshal([]byte(body), &asked); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(answer, &got); err != nil || len(got) != len(asked) {
		t.Errorf("%.200s gives %.200s: %v", body, answer, err)
		return 0
	}
	for i, a := range got {
		if string(a.ID) != string(asked[i].ID) {
			t.Errorf("answer %d to %.300s has id %s", i, body, a.ID)
		}
		switch {
		case a.Error != nil && a.Error.Message == "no answer from upstream":
		case a.Error != nil:
			credits += 5
		case asked[i].Method == "debug_traceCall":
			credits += 40
		default:
			credits += 20
		}
	}
	return credits
}
