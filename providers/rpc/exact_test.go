package rpc

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"farebox/bench/upstream/node"
	"farebox/config"
	"farebox/providers/health"
	"farebox/proxy"
)

// offline is a job whose node is called in the process, to try many requests.
type offline struct {
	job  Job
	node *node.Node
	at   *Node
}

func newOffline(o node.Options) *offline {
	f := FamilyOf("evm")
	n := &Network{Name: "test", Family: f, Base: 20, Config: &config.RPCNetwork{}, pins: newPins()}
	n.heads = newHeads(n)
	u := &Node{Name: "test", Config: &config.RPCUpstream{Batch: "auto", MaxBatch: 100, Weight: 1}, of: n,
		Breaker: health.NewBreaker(0, time.Second), denied: make([]bool, len(f.Methods))}
	u.notes = &notes{lacks: make([]learnedRefusal, len(f.Methods))}
	n.Nodes = []*Node{u}
	return &offline{node: node.New(o), at: u}
}

// ask returns the client's answer to a body, and the node's request; fault: refused.
func (o *offline) ask(body []byte, f *node.Faults) (answer, sent []byte, fault *Fault) {
	j := &o.job
	j.Reset()
	if fault := j.Scan(body); fault != nil {
		return nil, nil, fault
	}
	if j.Resolve(o.at.of.Family) != nil {
		return nil, nil, &Fault{Text: "unknown method"}
	}
	j.from = ClientContext{Network: o.at.of}
	j.Verdicts = append(j.Verdicts[:0], make([]Verdict, len(j.Calls))...)
	j.main = attempts.Get().(*attempt)
	a := j.main
	a.reset()
	a.node = o.at
	sent = j.sentBy(a)
	a.buf = o.node.Answer(sent, f)
	a.spool = spool{mem: a.buf}
	a.judge.Write(a.buf)
	if j.Batch {
		return j.assemble(o.at, 0).Body, sent, nil
	}
	j.settleCall(a, 0, o.at)
	return j.finish(), sent, nil
}

// sentBy is an attempt's request to its node.
func (r *Request) sentBy(a *attempt) []byte {
	q := r.outgoing(nil, nil)
	a.number(&q)
	return proxy.AppendPatched(nil, q.body, a.patches)
}

// Ids, params and results of every request come back byte for byte: the
// simulated node gives back params as results.
func TestEveryByteIsKept(t *testing.T) {
	n := envelopes(t)
	g := newGenerator(3)
	for _, o := range []node.Options{{}, {Solana: true}} {
		for _, f := range []node.Faults{{}, {Shuffle: true}, {Foreign: true, NoID: false}} {
			x := newOffline(o)
			taken := 0
			for range n / 6 {
				body := g.envelope(false)
				answer, sent, fault := x.ask([]byte(body), &f)
				if fault != nil {
					continue // an extra member with an escape in its name
				}
				taken++
				want := expected(t, body)
				got := answersOf(t, answer, x.job.Batch)
				if len(got) != len(want) {
					t.Fatalf("%q gives %q", body, answer)
				}
				for i := range want {
					if got[i].id != want[i].id || got[i].result != want[i].result {
						t.Fatalf("call %d of %q, sent as %q, gives %q\nwant id %s result %s", i, body, sent, answer,
							want[i].id, want[i].result)
					}
				}
			}
			if taken < n/6*3/4 {
				t.Errorf("%+v %+v: only %d of %d requests were taken", o, f, taken, n/6)
			}
		}
	}
}

type echoed struct{ id, result string }

// expected reads a request with another parser than ours.
func expected(t *testing.T, body string) (list []echoed) {
	t.Helper()
	err := each([]byte(body), func(raw []byte) error {
		var c map[string]json.RawMessage
		if err := json.Unmarshal(raw, &c); err != nil {
			return err
		}
		p := echoed{"1", "null"}
		if id, ok := c["id"]; ok {
			p.id = string(id)
		}
		if params, ok := c["params"]; ok {
			p.result = string(params)
		}
		if string(c["method"]) == `"eth_chainId"` {
			p.result = `"0x539"`
		}
		list = append(list, p)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func answersOf(t *testing.T, answer []byte, batch bool) (list []echoed) {
	t.Helper()
	if batch != strings.HasPrefix(string(answer), "[") {
		t.Fatalf("the answer is %q", answer)
	}
	err := each(answer, func(raw []byte) error {
		var c map[string]json.RawMessage
		if err := json.Unmarshal(raw, &c); err != nil {
			return err
		}
		if len(c) != 3 {
			return fmt.Errorf("%s has %d members", raw, len(c))
		}
		list = append(list, echoed{string(c["id"]), string(c["result"])})
		return nil
	})
	if err != nil {
		t.Fatalf("%v in %q", err, answer)
	}
	return list
}

// Whatever a node leaves out, repeats or mixes up, a batch has one answer for
// each call, in order, and missing ones are errors that cost nothing.
func TestBatchIsRepaired(t *testing.T) {
	for _, f := range []node.Faults{{Duplicate: true}, {Missing: true}, {Shuffle: true, Missing: true},
		{Foreign: true, Duplicate: true}, {NoID: true}, {Round: true}} {
		for _, ids := range [][]string{{"1", "2", "3"}, {"1", "1", "1"}, {`"a"`, `"b"`, `"é"`},
			{"9007199254740993", "9007199254740992", "null"}} {
			x := newOffline(node.Options{})
			var calls []string
			for i, id := range ids {
				calls = append(calls, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"eth_call","params":[%d]}`, id, i))
			}
			answer, _, fault := x.ask([]byte("["+strings.Join(calls, ",")+"]"), &f)
			if fault != nil {
				t.Fatal(fault)
			}
			var list []struct {
				ID     json.RawMessage
				Result json.RawMessage
				Error  *struct{ Code int }
			}
			if err := json.Unmarshal(answer, &list); err != nil || len(list) != 3 {
				t.Fatalf("%+v: %s", f, answer)
			}
			paid := int64(0)
			for i, e := range list {
				if string(e.ID) != ids[i] {
					t.Errorf("%+v: answer %d has id %s: %s", f, i, e.ID, answer)
				}
				switch {
				case e.Error != nil && e.Error.Code == codeUnanswered && e.Result == nil:
				case e.Error == nil && string(e.Result) == fmt.Sprintf("[%d]", i):
					paid += 20
				default:
					t.Errorf("%+v: answer %d is wrong: %s", f, i, answer)
				}
			}
			if got := x.job.Charge(20, 5); got != paid {
				t.Errorf("%+v: charged %d for %s", f, got, answer)
			}
		}
	}
}
