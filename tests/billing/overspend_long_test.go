package billing

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"farebox/bench/overspend"
	"farebox/bench/upstream"
	"farebox/tests/rig"
)

// The worst case of money in large counts: small balances and small key limits,
// 1, 32 and 64 requests of an account at once, one node and three.

// Whatever upstreams claim and whenever clients leave: no balance and no key limit is passed, and
// of the operator's payments within the requested caps at most one visible slice a request is lost.
func TestLongNoBalanceAndNoKeyLimitIsPassed(t *testing.T) {
	l := startLab(t, 1)
	sent := int64(0)
	for i, run := range []struct {
		at, each       int
		balance, limit string
		all            bool
	}{
		{1, 1, richMoney, "", true}, {1, 4, smallMoney, "", true}, {1, 4, richMoney, smallMoney, false},
		{32, 12, richMoney, smallMoney, false}, {64, 64, smallMoney, "", false},
	} {
		r := l.run(fmt.Sprintf("r%d-", i), run.balance, run.limit, run.at, run.each, func(o *overspend.Options) {
			if run.all {
				o.Rotate, o.Lanes = false, 32
			}
		})
		t.Logf("%d at once, balance %s, key limit %q", run.at, run.balance, run.limit)
		sent += l.count(r)
	}
	sent += l.count(l.crowded("c-", smallMoney, "", 32, 32))
	if sent < 20_000 {
		t.Errorf("only %d requests were sent", sent)
	}
	l.verify()
}

// count judges a run, shows its sum and counts its requests.
func (l *lab) count(r *overspend.Result) int64 {
	l.t.Helper()
	judge(l.t, r)
	rows := r.Rows()
	sum := rows[len(rows)-1]
	l.t.Logf("%d cells, %.0f s: %s", len(r.Cells), r.Seconds, strings.Join(sum.Texts(), " | "))
	return sum.Sum.Sent
}

// The same on three nodes that share the accounts.
func TestLongNoBalanceAndNoKeyLimitIsPassedOnThreeNodes(t *testing.T) {
	l := startLab(t, 3)
	sent := l.count(l.run("a-", smallMoney, "", 32, 12, nil))
	sent += l.count(l.run("b-", richMoney, smallMoney, 1, 4, nil))
	if sent < 5_000 {
		t.Errorf("only %d requests were sent", sent)
	}
	l.verify()
}

// 256 requests at once on a balance for ten that use their whole cap: ten are
// served, and nothing is left lying under holds that were too fat.
func TestLongBalanceForTenIsUsedUp(t *testing.T) {
	for _, nodes := range []int{1, 3} {
		t.Run(fmt.Sprintf("it is used up on nodes: %d", nodes), func(t *testing.T) {
			l := startLab(t, nodes)
			// Long prompts and short answers: a bound of a token a byte holds five
			// times the prompt's cost.
			const tokens = 100
			prompt := strings.Repeat("the small river moves past old stone houses ", 900)
			liar, err := overspend.LiarsNamed([]string{"uses_cap"})
			if err != nil {
				t.Fatal(err)
			}
			stays, _ := overspend.LeaversNamed([]string{"stays"})
			// Cells of the same kind are runs, one after the other.
			runs := func(n int) func(*overspend.Options) {
				names := make([]string, n)
				for i := range names {
					names[i] = "chat"
				}
				return func(o *overspend.Options) {
					o.Liars, o.Leavers, o.Endpoints = liar, stays, overspendEndpoints(t, names...)
					o.Cap, o.Prompt, o.Rotate, o.Lanes = tokens, prompt, false, 1
				}
			}
			// A rich account measures the cost of one request.
			probe := l.run("p-", richMoney, "", 1, 1, runs(1)).Cells[0]
			if probe.Charged == 0 || probe.Charged != probe.Real {
				t.Fatalf("one request is worth %s and was charged %s", rig.Money(probe.Real), rig.Money(probe.Charged))
			}
			const slack = 50_000 // ids of other letters are other tokens
			balance := rig.Money(10*probe.Charged + slack)
			least, served, away := 1.0, []int64{}, 0
			for run, c := range l.run("m-", balance.String(), "", 256, 256, runs(20)).Cells {
				used := float64(c.Charged) / float64(balance)
				if nodes > 1 && c.Failed > 0 && c.Overdraw == 0 {
					// A store that does not answer in time gives 503: that refuses no
					// money, and happens on a busy machine.
					if away++; away > 2 {
						t.Errorf("run %d: the shared store was away: %s", run, c.Note)
					}
					continue
				}
				least = min(least, used)
				served = append(served, c.Let)
				if c.Overdraw > 0 || used < 0.98 {
					t.Errorf("run %d: %d of 256 were served, %.1f %% of the balance was used, %s too much; %s", run,
						c.Let, 100*used, rig.Money(c.Overdraw), c.Note)
				}
			}
			t.Logf("served %v; at least %.1f %% of the balance was used", served, 100*least)
			l.verify()
		})
	}
}

// brokenConfig has an upstream that breaks whole answers, and one that does not.
const brokenConfig = `
log: { level: error, format: json }
billing: { minimum_balance: 0 }
limits: { failed_requests: { count: 0 } }
upstreams:
  - { name: broken, base_url: %s }
  - { name: healthy, base_url: %s }
models:
  - id: sim-chat
    tier: unlimited
    context_tokens: 128000
    price: { input: 1, output: 2 }
    targets: [{ upstream: broken }, { upstream: healthy, priority: 1 }]
`

// Whole answers that break after a head that promised well are failures of
// their upstream, not of the customer.
func TestLongBrokenWholeAnswersAreTakenFromTheStandby(t *testing.T) {
	for _, fault := range []string{
		"cut=rst cut_after=100", "cut=fin cut_after=100", "truncate=1", "empty=1", "wrong=html", "wrong=text",
		"wrong=half", "wrong=array", "wrong=bare",
	} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			sc, err := upstream.ParseScenario(fault)
			if err != nil {
				t.Fatal(err)
			}
			broken, healthy := rig.StartUpstream(t, upstream.Options{Scenario: sc}),
				rig.StartUpstream(t, upstream.Options{})
			g := rig.StartGateway(t, fmt.Sprintf(brokenConfig, broken.URL, healthy.URL))
			g.NewAccount("a", "10")
			key := g.Key("a")
			const requests = 1000
			c := &http.Client{Timeout: rig.CallLimit, Transport: &http.Transport{MaxIdleConnsPerHost: 16}}
			var next, answered atomic.Int64
			var first sync.Map
			var workers sync.WaitGroup
			for range 16 {
				workers.Go(func() {
					for next.Add(1) <= requests {
						status, _, answer, err := rig.Try(c, g.URL+"/chat/completions", key,
							rig.Ask("sim-chat", "Hello", ""))
						if status == 200 && err == nil && strings.Contains(answer, `"finish_reason":"stop"`) {
							answered.Add(1)
						} else {
							first.LoadOrStore("first", fmt.Sprint(status, " ", answer, " ", err))
						}
					}
				})
			}
			workers.Wait()
			if n := answered.Load(); n < requests*999/1000 {
				why, _ := first.Load("first")
				t.Errorf("%d of %d requests were answered beside a healthy standby: %v", n, requests, why)
			}
			if made := healthy.Idle(t).Tokens; g.Settled()["a"].Spent !=
				rig.Money(made.PromptTokens*1000+made.CompletionTokens*2000) {
				t.Errorf("charged %s; the standby made %+v", g.Settled()["a"].Spent, made)
			}
		})
	}
}
