package rpc

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"farebox/bench/servers"
	"farebox/bench/upstream/node"
	"farebox/tests/rig"
)

// A customer got the answer to another customer's call: the node had sent it twice, and
// both clients began with id 1.

// startTwice is a node that sends every third answer again, 0 to 5 ms later.
func startTwice(t *testing.T) string {
	t.Helper()
	n := node.New(node.Options{})
	var count atomic.Int64
	return startNode(t, func(conn net.Conn, bodies iter.Seq[[]byte]) {
		for body := range bodies {
			answer := rawAnswer(n.Answer(body, &node.Faults{}))
			if _, err := conn.Write(answer); err != nil {
				return
			}
			if count.Add(1)%3 == 0 {
				time.Sleep(time.Duration(rand.IntN(5000)) * time.Microsecond)
				_, _ = conn.Write(answer)
			}
		}
	})
}

func TestAnAnswerThatIsSentTwiceReachesNobodyElse(t *testing.T) { sendTwice(t, 3000) }

func TestLongAnswersThatAreSentTwiceReachNobodyElse(t *testing.T) {
	sendTwice(t, int64(servers.Campaign(8_000)))
}

func sendTwice(t *testing.T, calls int64) {
	for _, f := range []struct {
		name, extra string
		nodes       int // that send answers twice
		batch       int // calls in a batch, 0: single ones
		id          func(call int64) string
	}{
		{"single calls with one id", "", 1, 0, func(int64) string { return "1" }},
		{"single calls with different ids", "", 1, 0, func(n int64) string { return fmt.Sprintf(`"call-%d"`, n) }},
		{"batches with one id", "", 1, 3, func(int64) string { return "1" }},
		{"hedged calls", "      hedge_after: 1ms\n", 2, 0, func(n int64) string { return fmt.Sprint(n % 3) }},
	} {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			_, good := startSimulated(t, node.Options{})
			urls := []string{good}
			for range f.nodes {
				urls = append(urls, startTwice(t))
			}
			first := startHostile(t, 0, f.extra, urls...)
			customers := []*chain{first, first.as("second")}
			var next, wrong, failed atomic.Int64
			var all sync.WaitGroup
			for w := range 8 {
				c := customers[w%len(customers)]
				all.Go(func() {
					n := max(1, f.batch)
					for i := next.Add(1); i <= calls/int64(n); i = next.Add(1) {
						asked, wanted := make([]string, n), make([]string, n)
						for k := range n {
							id, mine := f.id(i), fmt.Sprintf("%s-%d-%d", c.key[len(c.key)-8:], i, k)
							asked[k] = fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"eth_call","params":[%q]}`, id, mine)
							wanted[k] = fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":[%q]}`, id, mine)
						}
						call, want := strings.Join(asked, ","), strings.Join(wanted, ",")
						if f.batch > 0 {
							call, want = "["+call+"]", "["+want+"]"
						}
						status, _, answer, err := rig.Try(rig.Client, c.URL+"/crypto/rpc/ethereum-sepolia", c.key, call)
						switch {
						case err != nil || status != 200:
							failed.Add(1)
						case answer != want:
							if wrong.Add(1) < 4 {
								t.Errorf("call %s got %s", call, answer)
							}
						}
					}
				})
			}
			all.Wait()
			if wrong.Load() > 0 || failed.Load() > calls/100 {
				t.Errorf("of %d answers %d belong to another call, %d are missing", calls, wrong.Load(), failed.Load())
			}
		})
	}
}

// An answer whose id follows a large result goes to no client before its id is known, if
// the connection has answered others.
func TestALargeAnswerIsKnownByItsIDBeforeItGoesOut(t *testing.T) {
	t.Parallel()
	secret := strings.Repeat("secret ", 40_000)
	var answers atomic.Int64
	c := startHostile(t, 0, "", startNode(t, func(conn net.Conn, bodies iter.Seq[[]byte]) {
		was := ""
		for body := range bodies {
			if was == "" { // as sent again behind the first call's answer
				was = idOf(string(body))
			}
			answers.Add(1)
			_, _ = conn.Write(rawAnswer(fmt.Appendf(nil, `{"jsonrpc":"2.0","result":%q,"id":%s}`, secret, was)))
		}
	}))
	const call = `{"jsonrpc":"2.0","id":"mine","method":"eth_call","params":[]}`
	status, _, answer := c.rpc(call)
	if want := fmt.Sprintf(`{"jsonrpc":"2.0","result":%q,"id":"mine"}`, secret); status != 200 || answer != want {
		t.Fatalf("%d %.100s", status, answer)
	}
	other := c.as("second")
	time.Sleep(200 * time.Millisecond) // the connection is free again
	status, _, answer, err := rig.Try(rig.Client, other.URL+"/crypto/rpc/ethereum-sepolia", other.key, call)
	if status != 500 || strings.Contains(answer, "secret") || answers.Load() != 2 {
		t.Errorf("the second customer got %d %v: %.100s", status, err, answer)
	}
	c.spent(20)
}
