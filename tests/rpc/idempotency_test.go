package rpc

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"farebox/bench/servers"
	"farebox/bench/upstream/node"
	"farebox/tests/rig"
)

// Requests with an Idempotency-Key (addendum 13): carried out once, charged once.

const (
	keyedRead  = `{"jsonrpc":"2.0","id":7,"method":"eth_call","params":[1]}`
	keyedReads = `[{"jsonrpc":"2.0","id":1,"method":"eth_call","params":[1]},{"jsonrpc":"2.0","id":2,"method":"eth_estimateGas","params":["revert"]}]`
)

// keyed posts with a key; err is the connection's error.
func (c *chain) keyed(key, body string) (status int, header http.Header, answer string, err error) {
	return rig.Try(rig.Client, c.URL+"/crypto/rpc/ethereum-sepolia", c.key, body, "Idempotency-Key", key)
}

// must is keyed where the connection has to hold.
func (c *chain) must(key, body string, status int) (http.Header, string) {
	c.t.Helper()
	got, header, answer, err := c.keyed(key, body)
	if err != nil || got != status {
		c.t.Fatalf("key %s gave %d %s %v, want %d", key, got, answer, err, status)
	}
	return header, answer
}

// manyFailures lets a client be refused as often as it likes.
const manyFailures = "limits: { failed_requests: { count: 0 } }\nrpc:\n  rate: { rpm: 0 }\n"

// withKeys runs a story with keys kept in files and in Redis.
func withKeys(t *testing.T, story func(t *testing.T, c *chain)) {
	t.Run("answers are kept in files", func(t *testing.T) {
		t.Parallel()
		story(t, startChainWith(t, 1, "", "", manyFailures))
	})
	t.Run("answers are kept in Redis", func(t *testing.T) {
		t.Parallel()
		r := servers.StartRedis(t)
		story(t, startChainWith(t, 1, "", "", "redis: { addresses: [\""+r.Addr+"\"], timeout: 5s }\n"+manyFailures))
	})
}

func TestKeyedCallIsAnsweredAgainForNothing(t *testing.T) {
	t.Parallel()
	withKeys(t, func(t *testing.T, c *chain) {
		for key, f := range map[string]struct {
			body    string
			credits int64
		}{"single": {keyedRead, 20}, "batch": {keyedReads, 25}} {
			first, answer := c.must(key, f.body, 200)
			c.charged(first, f.credits)
			if first.Get("Idempotent-Replayed") != "" {
				t.Error("the first answer says that it is a repeat")
			}
			ids := map[string]bool{first.Get("X-Request-Id"): true}
			for range 3 {
				again, text := c.must(key, f.body, 200)
				c.charged(again, f.credits)
				if text != answer || again.Get("Idempotent-Replayed") != "true" ||
					again.Get("Content-Type") != "application/json" {
					t.Errorf("the repeat is %v %s, want %s", again, text, answer)
				}
				ids[again.Get("X-Request-Id")] = true
			}
			if len(ids) != 4 {
				t.Errorf("4 answers have the request ids %v", ids)
			}
			if _, text := c.must(key, f.body+" ", 400); !strings.Contains(text, "Idempotency-Key") {
				t.Errorf("another body under the key gave %s", text)
			}
		}
		if s := c.nodes[0].Stats(); s.Requests != 2 {
			t.Errorf("the node had %d requests", s.Requests)
		}
		c.spent(45)
		c.CLI("verify")
		for name, want := range map[string]float64{"led": 2, "replayed": 6, "reused": 2, "free": 0} {
			if got, ok := c.Metric(`farebox_idempotency_total{outcome="` + name + `"}`); !ok || got != want {
				t.Errorf("/metrics counts %v requests as %s, want %v", got, name, want)
			}
		}
	})
}

func TestConcurrentKeyedDuplicatesAreOneCall(t *testing.T) {
	t.Parallel()
	withKeys(t, func(t *testing.T, c *chain) {
		c.nodes[0].Fault(node.Faults{Delay: 300 * time.Millisecond})
		var fresh, other atomic.Int64
		var wg sync.WaitGroup
		for i := range 64 {
			wg.Go(func() {
				body := keyedRead
				if i%8 == 7 {
					body += " "
				}
				status, header, answer, err := c.keyed("one", body)
				switch {
				case err != nil:
					t.Error(err)
				case status == 400 && strings.Contains(answer, "Idempotency-Key"):
					other.Add(1)
				case status != 200 || answer != `{"jsonrpc":"2.0","id":7,"result":[1]}`:
					t.Errorf("got %d %s", status, answer)
				case header.Get("Idempotent-Replayed") == "":
					fresh.Add(1)
				}
			})
		}
		wg.Wait()
		// Whichever body came first won; the others were refused while it was under way.
		if n := other.Load(); fresh.Load() != 1 || n != 8 && n != 56 {
			t.Errorf("%d were carried out, %d refused", fresh.Load(), n)
		}
		if s := c.nodes[0].Stats(); s.Requests != 1 {
			t.Errorf("the node had %d requests", s.Requests)
		}
		c.spent(20)
		c.MetricIs("farebox_holds_open", func(n float64) bool { return n == 0 })
	})
}

// A failure, there or here, is neither kept nor charged; a request that waits for it is
// carried out.
func TestFailedKeyedCallCanBeTriedAgain(t *testing.T) {
	t.Parallel()
	withKeys(t, func(t *testing.T, c *chain) {
		c.nodes[0].Fault(node.Faults{Status: 503, Delay: 200 * time.Millisecond})
		var wg sync.WaitGroup
		var good, bad atomic.Int64
		for range 6 {
			wg.Go(func() {
				status, _, answer, err := c.keyed("k", keyedRead)
				switch {
				case err == nil && status == 200:
					good.Add(1)
				case err == nil && status == 500:
					bad.Add(1)
					c.nodes[0].Fault(node.Faults{})
				default:
					t.Errorf("got %d %s %v", status, answer, err)
				}
			})
		}
		wg.Wait()
		if bad.Load() == 0 || good.Load() != 6-bad.Load() {
			t.Errorf("%d failed, %d did not", bad.Load(), good.Load())
		}
		c.spent(20)
		c.must("bad", `[{"jsonrpc":"2.0","id":7,"method":"eth_accounts"}]`, 400)
		header, _ := c.must("bad", keyedRead, 200)
		c.charged(header, 20)
		c.spent(40)
	})
}

func TestMalformedIdempotencyKey(t *testing.T) {
	t.Parallel()
	bad := []string{"a b", "ä", "a.b", strings.Repeat("k", 256)}
	c := startChain(t, 1, "")
	for _, key := range bad {
		if _, answer := c.must(key, keyedRead, 400); !strings.Contains(answer, `[A-Za-z0-9_-]{1,255}`) {
			t.Errorf("%.10q gave %s", key, answer)
		}
	}
	c.must(strings.Repeat("k", 255), keyedRead, 200)
	c.spent(20)
	c = startChainWith(t, 1, "", "", "idempotency: { malformed: ignore }\nrpc:\n  rate: { rpm: 0 }\n")
	for _, key := range bad {
		for range 2 {
			if header, _ := c.must(key, keyedRead, 200); header.Get("Idempotent-Replayed") != "" {
				t.Error("a malformed key was remembered")
			}
		}
	}
	c.spent(int64(40 * len(bad)))
}

// A repeat counts as a request.
func TestRepeatsCountInTheRateLimit(t *testing.T) {
	t.Parallel()
	c := startChainWith(t, 1, "", "", "rpc:\n  rate: { rpm: 3 }\n")
	for range 3 {
		c.must("k", keyedRead, 200)
	}
	c.must("k", keyedRead, 429)
	c.spent(20)
}

// A large answer is relayed as it comes, and kept; one that is larger than the
// limit is not carried out a second time.
func TestLargeKeyedAnswers(t *testing.T) {
	t.Parallel()
	c := startChainWith(t, 1, "", "", "idempotency: { max_answer: 4MB }\nrpc:\n  rate: { rpm: 0 }\n")
	logs := `{"jsonrpc":"2.0","id":18446744073709551615,"method":"eth_getLogs","params":[{}]}`
	c.nodes[0].Fault(node.Faults{Large: 3 << 20})
	_, first := c.must("3MB", logs, 200)
	again, text := c.must("3MB", logs, 200)
	if len(first) < 3<<20 || text != first || again.Get("Idempotent-Replayed") != "true" {
		t.Errorf("%d bytes first, %d again", len(first), len(text))
	}
	c.nodes[0].Fault(node.Faults{Large: 6 << 20})
	if _, first = c.must("6MB", logs, 200); len(first) < 6<<20 {
		t.Errorf("%d bytes", len(first))
	}
	c.must("6MB", logs, 409)
	if s := c.nodes[0].Stats(); s.Calls["eth_getLogs"] != 2 {
		t.Errorf("the node was asked %+v", s)
	}
	c.spent(40)
}

// A client that leaves in the middle of a large answer has it charged once, and
// does not get it a second time for nothing.
func TestKeyedAnswerThatTheClientLeft(t *testing.T) {
	t.Parallel()
	c := startChain(t, 1, "")
	c.nodes[0].Fault(node.Faults{Large: 32 << 20, Pause: 2 * time.Millisecond})
	logs := `{"jsonrpc":"2.0","id":1,"method":"eth_getLogs","params":[{}]}`
	req, err := http.NewRequest("POST", c.URL+"/crypto/rpc/ethereum-sepolia", strings.NewReader(logs))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = http.Header{"Content-Type": {"application/json"}, "Authorization": {"Bearer " + c.key},
		"Idempotency-Key": {"k"}}
	res, err := rig.Client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(res.Body, make([]byte, 1<<20)); err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	c.must("k", logs, 409)
	c.spent(20)
}

// The memory outlives a restart in order.
func TestKeysOutliveARestartOfTheGateway(t *testing.T) {
	t.Parallel()
	withKeys(t, func(t *testing.T, c *chain) {
		_, answer := c.must("k", keyedRead, 200)
		if err := c.Stop(); err != nil {
			t.Fatal(err)
		}
		c.Start()
		again, text := c.must("k", keyedRead, 200)
		if text != answer || again.Get("Idempotent-Replayed") != "true" {
			t.Errorf("after the restart %s", text)
		}
		c.spent(20)
	})
}

// A keyed write was under way when the gateway was killed, and its repetition ran it a
// second time at the node.
func TestAKeyedWriteOfUnknownOutcomeRunsOnce(t *testing.T) {
	t.Parallel()
	const write = `{"jsonrpc":"2.0","id":1,"method":"eth_sendUserOperation","params":[{},"0x"]}`
	withKeys(t, func(t *testing.T, c *chain) {
		unknown := func(when, key, body string) {
			t.Helper()
			if _, answer := c.must(key, body, 409); !strings.Contains(answer, "not known") {
				t.Errorf("%s: %s", when, answer)
			}
		}
		ran := func(want int) {
			t.Helper()
			if s := c.nodes[0].Stats(); s.Calls["eth_sendUserOperation"] != want {
				t.Errorf("the node ran %d writes, want %d", s.Calls["eth_sendUserOperation"], want)
			}
		}
		answers, batch := make(chan struct{}), "["+keyedRead+","+write+"]"
		c.nodes[0].Fault(node.Faults{Until: answers})
		var all sync.WaitGroup
		for key, body := range map[string]string{"killed": write, "batch": batch, "read": keyedRead} {
			all.Go(func() {
				if status, _, answer, err := c.keyed(key, body); err == nil {
					t.Errorf("%s was answered before the kill: %d %s", key, status, answer)
				}
			})
		}
		c.asked(3)
		c.Kill()
		close(answers)
		all.Wait()
		rig.Await(t, "the node ran the writes", func() bool {
			return c.nodes[0].Stats().Calls["eth_sendUserOperation"] == 2
		})
		c.nodes[0].Fault(node.Faults{})
		c.Start()
		for range 2 {
			unknown("after the kill", "killed", write)
			unknown("after the kill", "batch", batch)
			c.must("killed", keyedRead, 400)
			if err := c.Stop(); err != nil {
				t.Fatal(err)
			}
			c.Start()
		}
		ran(2)
		c.must("read", keyedRead, 200) // a read may run again
		c.spent(20)
		// The same holds when only the answer is lost.
		c.nodes[0].Fault(node.Faults{Drop: true})
		if _, answer := c.must("lost", write, 500); !strings.Contains(answer, "not known") {
			t.Errorf("the client whose answer was lost gets %s", answer)
		}
		unknown("after a lost answer", "lost", write)
		ran(3)
		// A request that the node refused may be tried again.
		c.nodes[0].Fault(node.Faults{Status: 503})
		c.must("refused", write, 500)
		c.nodes[0].Fault(node.Faults{})
		c.must("refused", write, 200)
		ran(4)
		c.spent(40)
		c.CLI("verify")
	})
}

// A key whose limit was used up read the answers of another key of the account.
func TestAnAPIKeyHasIdempotencyKeysOfItsOwn(t *testing.T) {
	t.Parallel()
	withKeys(t, func(t *testing.T, c *chain) {
		_, first := c.must("k", keyedRead, 200)
		other := *c
		other.key = c.Key("rich", "--limit-usd", "0.000001", "--limit-period", "LIFETIME")
		if _, answer := other.must("k", keyedRead, 402); strings.Contains(answer, "jsonrpc") {
			t.Errorf("the other key reads %s", answer)
		}
		if header, again := c.must("k", keyedRead, 200); again != first || header.Get("Idempotent-Replayed") != "true" {
			t.Errorf("the first key reads %s", again)
		}
		c.spent(20)
	})
}

// Without Redis no request with a key is carried out, those without go on.
func TestKeyedCallsWithoutRedis(t *testing.T) {
	t.Parallel()
	r := servers.StartRedis(t)
	c := startChainWith(t, 1, "", "", "redis: { addresses: [\""+r.Addr+
		"\"], timeout: 5s, away: open }\nrpc:\n  rate: { rpm: 0 }\n")
	c.must("k", keyedRead, 200)
	r.Kill()
	if header, _ := c.must("k2", keyedRead, 503); header.Get("Retry-After") == "" {
		t.Error("nothing says when to retry")
	}
	if status, _, answer := c.rpc(keyedRead); status != 200 {
		t.Errorf("without a key: %d %s", status, answer)
	}
	if s := c.nodes[0].Stats(); s.Requests != 2 {
		t.Errorf("the node had %d requests", s.Requests)
	}
	c.spent(40)
}

// Killed at a random moment, with clients that try again until they are
// answered: each request is charged exactly once, and gives the same answer for
// ever after. A node that took a transaction before the kill knows it already,
// which is an answer like any other.
func TestKillWithRetriesChargesKeyedCallsOnce(t *testing.T) { killKeyedCalls(t, 5) }

func TestLongKillWithRetriesChargesKeyedCallsOnce(t *testing.T) {
	killKeyedCalls(t, servers.Campaign(8))
}

func killKeyedCalls(t *testing.T, rounds int) {
	withKeys(t, func(t *testing.T, c *chain) {
		c.nodes[0].Fault(node.Faults{Delay: 2 * time.Millisecond})
		var next, made, credits atomic.Int64
		var answers sync.Map
		stop := make(chan struct{})
		var wg sync.WaitGroup
		for range 16 {
			wg.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					n := next.Add(1)
					body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"eth_call","params":[%d]}`, n)
					want := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"result":[%d]}`, n)
					if n%16 == 0 {
						body = fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"eth_sendRawTransaction","params":["0x%08x"]}`, n)
						want = ""
					}
					for try := 0; ; try++ {
						status, header, answer, err := c.keyed(fmt.Sprint("k", n), body)
						if err == nil && status == 200 {
							if want != "" && answer != want || want == "" &&
								!strings.Contains(answer, `"result":"0x`) &&
								!strings.Contains(answer, "already known") {
								t.Errorf("%s gave %s", body, answer)
							}
							charge, err := strconv.ParseInt(header.Get("X-Svc-Rpc-Credits"), 10, 64)
							if err != nil {
								t.Error(err)
							}
							credits.Add(charge)
							answers.Store(n, [2]string{body, answer})
							made.Add(1)
							break
						}
						if err == nil && status != 503 {
							t.Errorf("try %d of %s gave %d %s", try, body, status, answer)
						}
						time.Sleep(10 * time.Millisecond)
					}
				}
			})
		}
		random := rig.Seeded(t)(1)
		for round := range rounds {
			time.Sleep(time.Duration(20+random.IntN(150)) * time.Millisecond)
			c.Kill()
			c.Start()
			if t.Failed() {
				close(stop)
				t.Fatalf("round %d", round)
			}
		}
		close(stop)
		wg.Wait()
		sent := c.nodes[0].Stats().Requests
		c.spent(credits.Load())
		repeated := 0
		answers.Range(func(key, value any) bool {
			was := value.([2]string)
			header, answer := c.must(fmt.Sprint("k", key), was[0], 200)
			if answer != was[1] || header.Get("Idempotent-Replayed") != "true" {
				t.Errorf("%s gave %s, and then %s", was[0], was[1], answer)
			}
			repeated++
			return repeated < 500
		})
		if again := c.nodes[0].Stats().Requests; again != sent {
			t.Errorf("the node was asked %d times more for answered calls", again-sent)
		}
		c.spent(credits.Load())
		c.CLI("verify")
		t.Logf("%d kills, %d requests, %d calls at the node", rounds, made.Load(), sent)
	})
}

// Nodes that share PostgreSQL and Redis share keys: duplicates over both are
// one call and one charge, and the answer outlives the node that got it.
func TestNodesShareIdempotencyKeys(t *testing.T) {
	t.Parallel()
	cl := rig.StartCluster(t, 2)
	first := cl.Nodes[0]
	first.NewAccount("rich", "1")
	key := first.Key("rich")
	on := func(n int) *chain { return &chain{Gateway: cl.Nodes[n], t: t, key: key} }
	var fresh atomic.Int64
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			status, header, answer, err := on(i%2).keyed("shared", keyedRead)
			if err != nil || status != 200 || !strings.Contains(answer, `"id":7`) {
				t.Errorf("node %d gave %d %s %v", i%2, status, answer, err)
			} else if header.Get("Idempotent-Replayed") == "" {
				fresh.Add(1)
			}
		})
	}
	wg.Wait()
	if fresh.Load() != 1 {
		t.Errorf("%d requests were carried out", fresh.Load())
	}
	for n := range 2 {
		on(n).must("shared", keyedRead+" ", 400)
	}
	first.Kill()
	if header, _ := on(1).must("shared", keyedRead, 200); header.Get("Idempotent-Replayed") != "true" {
		t.Error("the answer went with its node")
	}
	first.Start()
	// A shared store hears of the charge with the next projection.
	rig.Await(t, "the charge is in the store", func() bool {
		return first.Settled()["rich"].Spent == rig.Money(20*700)
	})
}
