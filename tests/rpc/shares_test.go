package rpc

import (
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"farebox/bench/servers"
	"farebox/tests/rig"
)

// Kept answers are shared by account: no account takes the idempotency keys of others,
// with money or without (design.md, P10).

// withSmallStore runs a story with a store of 1 MB, in files and in Redis.
func withSmallStore(t *testing.T, story func(t *testing.T, c *chain, r *servers.Redis)) {
	const small = "billing: { minimum_balance: 0 }\nidempotency: { max_stored: 1MB, max_keys: 600 }\n" + manyFailures
	t.Run("answers are kept in files", func(t *testing.T) {
		t.Parallel()
		story(t, startChainWith(t, 1, "", "", small), nil)
	})
	t.Run("answers are kept in Redis", func(t *testing.T) {
		t.Parallel()
		r := servers.StartRedis(t)
		story(t, startChainWith(t, 1, "", "", "redis: { addresses: [\""+r.Addr+"\"], timeout: 5s }\n"+small), r)
	})
}

// kept is how many bytes of keyed requests there are.
func (c *chain) kept(r *servers.Redis) (n int64) {
	c.t.Helper()
	if r != nil {
		client := r.Client()
		defer func() { _ = client.Close() }()
		names, err := client.Keys(c.t.Context(), "*:keys:*").Result()
		if err != nil {
			c.t.Fatal(err)
		}
		return int64(len(names))
	}
	paths, err := filepath.Glob(filepath.Join(c.Store, "idempotency", "*"))
	if err != nil {
		c.t.Fatal(err)
	}
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			c.t.Fatal(err)
		}
		n += info.Size()
	}
	return n
}

// "A key without money took Idempotency-Key from all of us for a day."
func TestRefusedKeyedRequestsKeepNothing(t *testing.T) {
	t.Parallel()
	withSmallStore(t, func(t *testing.T, c *chain, r *servers.Redis) { refuseKeyed(t, c, r, 6000) })
}

func TestLongTwentyThousandRefusedKeyedRequestsKeepNothing(t *testing.T) {
	withSmallStore(t, func(t *testing.T, c *chain, r *servers.Redis) { refuseKeyed(t, c, r, 20_000) })
}

func refuseKeyed(t *testing.T, c *chain, r *servers.Redis, n int64) {
	c.NewAccount("poor", "")
	poor := c.Key("poor")
	before := c.kept(r)
	var next atomic.Int64
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for {
				i := next.Add(1)
				if i > n {
					return
				}
				status, _, answer, err := rig.Try(rig.Client, c.URL+"/crypto/rpc/ethereum-sepolia", poor, keyedRead,
					"Idempotency-Key", fmt.Sprint("poor-", i))
				if err != nil || status != 402 {
					t.Errorf("request %d is answered %d %s, %v", i, status, answer, err)
					return
				}
			}
		})
	}
	all.Wait()
	if after := c.kept(r); after != before {
		t.Errorf("%d refused requests grew the store from %d to %d", n, before, after)
	}
	c.must("mine", keyedRead, 200)
	if again, _ := c.must("mine", keyedRead, 200); again.Get("Idempotent-Replayed") != "true" {
		t.Error("the answer was not kept")
	}
	c.spent(20)
	if s := c.nodes[0].Stats(); s.Requests != 1 {
		t.Errorf("the node had %d requests", s.Requests)
	}
}

// "Another customer kept 700 answers for a cent, and mine was refused."
func TestAGreedyAccountLeavesKeysAndSpaceToOthers(t *testing.T) {
	t.Parallel()
	withSmallStore(t, func(t *testing.T, c *chain, r *servers.Redis) {
		c.NewAccount("greedy", "10")
		greedy := c.Key("greedy")
		random := rig.Seeded(t)(1)
		ask := func(i int) (int, string) {
			status, _, answer, err := rig.Try(rig.Client, c.URL+"/crypto/rpc/ethereum-sepolia", greedy,
				echo(random, 3000), "Idempotency-Key", fmt.Sprint("greedy-", i))
			if err != nil {
				t.Fatal(err)
			}
			return status, answer
		}
		served := 0
		for i := range 700 {
			switch status, answer := ask(i); {
			case status == 200:
				served++
			case status != 503 || !strings.Contains(answer, "share of the kept answers"):
				t.Fatalf("request %d is answered %d %s", i, status, answer)
			}
		}
		if served == 700 || served < 200 {
			t.Errorf("%d of 700 were served; there is 1 MB", served)
		}
		body := echo(random, 3000)
		_, first := c.must("mine", body, 200)
		again, answer := c.must("mine", body, 200)
		if answer != first || again.Get("Idempotent-Replayed") != "true" {
			t.Errorf("the honest one's answer was not kept: %v", again)
		}
		if full, ok := c.Metric(`farebox_idempotency_total{outcome="full"}`); !ok || full != float64(700-served) {
			t.Errorf("%v requests are counted as beyond a share, not %d", full, 700-served)
		}
		if r == nil { // as before after a restart
			if err := c.Stop(); err != nil {
				t.Fatal(err)
			}
			c.Start()
			if status, answer := ask(1000); status != 503 {
				t.Errorf("after a restart the greedy one is answered %d %s", status, answer)
			}
			c.must("mine-2", body, 200)
		}
	})
}

// echo is a call whose answer has so many random digits.
func echo(random *rand.Rand, n int) string {
	b := make([]byte, n/2)
	for i := range b {
		b[i] = byte(random.Uint32())
	}
	return `{"jsonrpc":"2.0","id":1,"method":"eth_call","params":["0x` + hex.EncodeToString(b) + `"]}`
}

// "I spent my last cent on that answer, and lost it on the way." A paid answer is given
// again to an account that is empty now.
func TestAKeptAnswerIsGivenToAnEmptyAccount(t *testing.T) {
	t.Parallel()
	withKeys(t, func(t *testing.T, c *chain) {
		_, first := c.must("k", keyedRead, 200)
		left := c.Settled()["rich"].USD
		c.CLI("account", "debit", "rich", left.String(), "--ref", "all", "--reason", "a test")
		if status, _, answer := c.rpc(keyedRead); status != http.StatusPaymentRequired {
			t.Fatalf("the account has no money, and is answered %d %s", status, answer)
		}
		c.must("other", keyedRead, 402)
		again, answer := c.must("k", keyedRead, 200)
		if answer != first || again.Get("Idempotent-Replayed") != "true" {
			t.Errorf("it is given %v %s", again, answer)
		}
		c.must("k", keyedRead+" ", 400)
		if s := c.nodes[0].Stats(); s.Requests != 1 {
			t.Errorf("the node had %d requests", s.Requests)
		}
	})
}
