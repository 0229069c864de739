package node

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"farebox/bench/upstream/chain"
)

// Answer runs a request and gives the answer's body.
func (n *Node) Answer(body []byte, f *Faults) []byte {
	calls, batch, err := chain.Calls(body)
	null := []byte("null")
	if batch && err == nil {
		n.mu.Lock()
		n.batches++
		n.largest = max(n.largest, len(calls))
		n.mu.Unlock()
	}
	switch {
	case err != nil:
		return n.Write(null, chain.Unreadable)
	case f.Hidden != "" && batch:
		return n.Write(null, limits(f.Hidden))
	case f.Hidden != "":
		return n.Write(calls[0].Identity(), limits(f.Hidden))
	case !batch:
		return n.run(&calls[0], f)
	case f.Single:
		return n.Write(null, chain.Reply{Code: -32600, Text: "batch requests are not allowed"})
	case f.Item, f.MaxBatch > 0 && len(calls) > f.MaxBatch:
		return chain.Batch([][]byte{n.Write(null, chain.Reply{Code: -32600, Text: "batch too large"})})
	}
	answers := make([][]byte, len(calls))
	for i := range calls {
		if i < f.Busy {
			answers[i] = n.Write(calls[i].Identity(), limits("infura"))
			continue
		}
		answers[i] = n.run(&calls[i], f)
	}
	return joinAnswers(answers, f)
}

func joinAnswers(answers [][]byte, f *Faults) []byte {
	if f.Shuffle {
		slices.Reverse(answers)
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
	return chain.Batch(answers)
}

// run runs one call.
func (n *Node) run(c *chain.NodeCall, f *Faults) []byte {
	id := c.Identity()
	if x, err := strconv.ParseFloat(string(id), 64); f.Round && err == nil {
		id, _ = json.Marshal(x)
	}
	if f.NoID {
		id = nil
	}
	n.mu.Lock()
	n.calls[c.Method]++
	n.mu.Unlock()
	for _, name := range f.Without {
		if stem, wild := strings.CutSuffix(name, "*"); name == c.Method || wild && strings.HasPrefix(c.Method, stem) {
			return n.Write(id, chain.Reply{Code: -32601, Text: "the method " + c.Method + " does not exist/is not available"})
		}
	}
	r := n.Run(c, chain.View{Lag: f.Lag, Lie: f.Lie})
	if r.Code == 0 && f.Large > 0 && slices.Contains(large, c.Method) {
		r.Result = largeMark
	}
	return n.Write(id, r)
}

// large are the methods whose results have any size.
var large = []string{"eth_getLogs", "trace_filter", "debug_traceTransaction", "getProgramAccounts"}

// limits is a limit dressed as an answer, as services dress it.
func limits(owner string) chain.Reply {
	code, text := -32005, "daily request count exceeded, request rate limited"
	switch owner {
	case "alchemy":
		code, text = 429, "Your app has exceeded its compute units per second capacity. If you have retries enabled, "+
			"you can safely ignore this message."
	case "quicknode":
		code, text = -32007, "15/second request limit reached - reduce calls per second or upgrade your account at "+
			"quicknode.com"
	case "public":
		code, text = -32016, "over rate limit"
	case "therpc":
		code, text = -32029, "Too many requests"
	case "text":
		code, text = -32000, "Rate limit exceeded"
	}
	return chain.Reply{Code: code, Text: text}
}
