package billing

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"farebox/bench/servers"
	"farebox/billing/limits"
	"farebox/billing/window"
	"farebox/config"
)

// testNode is a process with its own ledger; its accounts and keys have the
// same numbers as those of the others, as on a shared store.
type testNode struct {
	*fixture
	key  *Key
	slot int
}

// startNodes starts nodes that share the limits in the Redis at an address.
func startNodes(t testing.TB, n int, address string, shared config.Limits, adjust ...func(*config.Redis)) []*testNode {
	t.Helper()
	nodes := make([]*testNode, n)
	for i := range nodes {
		c := config.Redis{Addresses: []string{address}, Timeout: time.Second, Away: "local_share"}
		for _, a := range adjust {
			a(&c)
		}
		f := openLedger(t, func(o *Options) {
			o.Clock, o.Redis, o.segmentSize = time.Now, c, 4<<20
			o.limits = func(c *limits.Options) { c.Prefix = "test:" }
		})
		f.Configure(&config.Config{Limits: shared})
		f.account("a", usd)
		k, _ := f.key("a")
		nodes[i] = &testNode{f, k, f.ModelNumber("model")}
		f.redis.SetNodes(n)
	}
	return nodes
}

// try makes one request.
func (n *testNode) try(h *Hold, rate *config.Rate, tokens int64) Denial {
	return n.Admit(h, &Admission{Key: n.key, Slot: n.slot, Rate: rate, Tokens: tokens, Now: At(time.Now())})
}

// storm has all nodes try for a while and counts the outcomes.
type storm struct {
	admitted, refused, other atomic.Int64
	slowest                  atomic.Int64 // ns
	pause                    time.Duration
}

func (s *storm) run(t testing.TB, nodes []*testNode, rate *config.Rate, clients int, d time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	var all sync.WaitGroup
	for _, n := range nodes {
		for range clients {
			all.Go(func() {
				var h Hold
				for ctx.Err() == nil {
					begin := time.Now()
					denial := n.try(&h, rate, 0)
					took := int64(time.Since(begin))
					for old := s.slowest.Load(); took > old &&
						!s.slowest.CompareAndSwap(old, took); old = s.slowest.Load() {
					}
					switch denial.Code {
					case Admitted:
						s.admitted.Add(1)
						h.Void(At(time.Now()))
						h.Reset()
						time.Sleep(s.pause)
					case RateRequests:
						s.refused.Add(1)
						time.Sleep(min(denial.RetryAfter, time.Millisecond))
					default:
						s.other.Add(1)
						t.Errorf("a request ends with code %d", denial.Code)
						return
					}
				}
			})
		}
	}
	all.Wait()
}

// inRedis reads a counter of the window of the model and the day.
func inRedis(t testing.TB, r *servers.Redis, n *testNode) (day, month int64) {
	t.Helper()
	state, _ := r.Do("GET", fmt.Sprintf("test:{0}:a%d:m%d", n.key.Account.no, n.slot+1)).(string)
	if len(state) != 64 {
		return 0, 0
	}
	at := func(i int) int64 {
		return int64(math.Float64frombits(binary.LittleEndian.Uint64([]byte(state[i*8 : i*8+8]))))
	}
	return at(5), at(7)
}

func eventually(t testing.TB, what string, within time.Duration, met func() bool) {
	t.Helper()
	for begin := time.Now(); time.Since(begin) < within; time.Sleep(10 * time.Millisecond) {
		if met() {
			return
		}
	}
	t.Fatalf("not within %s: %s", within, what)
}

// "Two nodes, a limit of 200: 400 requests passed." Small limits, one call a request.
// They are counted in a day, which does not refill, so they are exact.
func TestNodesTogetherAdmitExactlyTheLimit(t *testing.T) {
	t.Parallel()
	server := servers.StartRedis(t)
	nodes := startNodes(t, 3, server.Addr, config.Limits{Key: config.Rate{RPMon: 450}})
	rate := &config.Rate{RPD: 300}
	var s storm
	s.run(t, nodes[:2], rate, 8, time.Second)
	if got := s.admitted.Load(); got != 300 {
		t.Errorf("%d of 300 a day of a model passed through two nodes", got)
	}
	other := &config.Rate{RPD: 1000}
	for _, n := range nodes {
		n.slot = n.ModelNumber("another model")
	}
	s.run(t, nodes, other, 8, time.Second)
	if got := s.admitted.Load(); got != 450 {
		t.Errorf("%d of 450 a month of a key passed through three nodes", got)
	}
}

// In a cluster the windows of a request are in one slot, those of different accounts in
// different ones.
func TestLongNodesShareLimitsThroughACluster(t *testing.T) {
	t.Parallel()
	cluster := servers.StartCluster(t)
	nodes := startNodes(t, 2, cluster.Addrs[0], config.Limits{Key: config.Rate{RPMon: 250}},
		func(c *config.Redis) { c.Cluster = true })
	rate := &config.Rate{RPD: 100}
	var keys [4][]*Key // of each account, one a node
	for i := range keys {
		name := string(rune('b' + i))
		for _, n := range nodes {
			n.account(name, usd)
			n.key, _ = n.fixture.key(name)
			keys[i] = append(keys[i], n.key)
		}
		var s storm
		s.run(t, nodes, rate, 4, 500*time.Millisecond)
		for _, n := range nodes {
			n.slot++
		}
		s.run(t, nodes, &config.Rate{RPD: 1000}, 4, 500*time.Millisecond)
		if got := s.admitted.Load(); got != 250 {
			t.Errorf("account %s: %d of 100 of a model and 250 of a key passed through two nodes", name, got)
		}
	}
	// One of three masters loses its data: the limits of accounts on the others stay
	// used up.
	cluster.Nodes[1].Flush()
	again := 0
	for _, list := range keys {
		for i, n := range nodes {
			n.key = list[i]
		}
		var s storm
		s.run(t, nodes, &config.Rate{RPD: 1000}, 4, 200*time.Millisecond)
		if s.admitted.Load() > 0 {
			again++
		}
	}
	if again == 0 || again == len(keys) {
		t.Errorf("%d of %d accounts begin anew after one of three masters was emptied", again, len(keys))
	}
}

// Large limits are taken in slices. Unspent permits of a node must return, or the last
// permits of a limit are never sold.
func TestSlicesAddUpToTheLimit(t *testing.T) {
	servers.NoRace(t)
	t.Parallel()
	server := servers.StartRedis(t)
	nodes := startNodes(t, 3, server.Addr, config.Limits{})
	const limit = 100_000
	rate := &config.Rate{RPD: limit}
	var s storm
	for end := time.Now().Add(time.Minute); s.admitted.Load() < limit && time.Now().Before(end); {
		s.run(t, nodes, rate, 4, time.Second) // slices go back after a second
	}
	s.run(t, nodes, rate, 2, time.Second)
	if got := s.admitted.Load(); got != limit {
		t.Errorf("%d of %d passed", got, limit)
	}
	calls := int64(0)
	for _, n := range nodes {
		calls += n.redis.Stats().Calls
	}
	if calls > limit/5 {
		t.Errorf("%d calls for %d requests: permits were not taken in slices", calls, limit)
	}
}

// "The request was refused for lack of money and counted against my limit."
func TestARequestWithoutMoneyGivesItsPermitBack(t *testing.T) {
	t.Parallel()
	server := servers.StartRedis(t)
	n := startNodes(t, 1, server.Addr, config.Limits{})[0]
	rate := &config.Rate{RPD: 50, TPM: 1000}
	var h Hold
	for range 60 {
		a := &Admission{Key: n.key, Slot: n.slot, Rate: rate, Tokens: 10, Hold: 100 * usd, Min: 100 * usd,
			Now: At(time.Now())}
		if d := n.Admit(&h, a); d.Code != InsufficientBalance {
			t.Fatalf("code %d, %s", d.Code, d.Limit)
		}
	}
	eventually(t, "Redis counts no request", time.Minute, func() bool {
		day, _ := inRedis(t, server, n)
		return day == 0
	})
}

// A request that counts as four takes four shared permits, or none.
func TestSeveralPermitsAreTakenTogether(t *testing.T) {
	t.Parallel()
	redis := servers.StartRedis(t)
	nodes := startNodes(t, 2, redis.Addr, config.Limits{})
	rate := &config.Rate{RPD: 10}
	four := func(n *testNode) Denial {
		var h Hold
		d := n.Admit(&h, &Admission{Key: n.key, Slot: n.slot, Rate: rate, Requests: 4, Now: At(time.Now())})
		if d.Code == Admitted {
			h.Void(At(time.Now()))
		}
		return d
	}
	if d := four(nodes[0]); d.Code != Admitted {
		t.Fatalf("%+v", d)
	}
	if d := four(nodes[1]); d.Code != Admitted {
		t.Fatalf("%+v", d)
	}
	if d := four(nodes[0]); d.Code != RateRequests {
		t.Fatalf("12 of 10 passed: %+v", d)
	}
	var h Hold
	for i := range 2 {
		eventually(t, "the units of a refused request are back", 60*time.Second, func() bool {
			return nodes[i].try(&h, rate, 0).Code == Admitted
		})
		h.Void(At(time.Now()))
		h.Reset()
	}
	if d := nodes[1].try(&h, rate, 0); d.Code != RateRequests {
		t.Errorf("11 of 10 passed: %+v", d)
	}
}

// The estimate of tokens is far too high. The unused tokens must be free again for the
// other node.
func TestTokensAreCorrectedForAllNodes(t *testing.T) {
	t.Parallel()
	server := servers.StartRedis(t)
	nodes := startNodes(t, 2, server.Addr, config.Limits{})
	rate := &config.Rate{TPM: 10_000}
	var h Hold
	if d := nodes[0].try(&h, rate, 10_000); d.Code != Admitted {
		t.Fatal(d)
	}
	var other Hold
	if d := nodes[1].try(&other, rate, 9000); d.Code != RateTokens {
		t.Fatalf("the other node admits beyond the limit: %+v", d)
	}
	h.Settle(Settlement{Model: "model", Status: 200, Now: At(time.Now()), Tokens: 100})
	eventually(t, "the other node may use the unused tokens", time.Minute, func() bool {
		return nodes[1].try(&other, rate, 9000).Code == Admitted
	})
	var q window.Quota
	nodes[1].key.Quota(nodes[1].slot, rate, At(time.Now()), &q)
	if q.LimitTokens != 10_000 || q.RemainingTokens < 900 || q.RemainingTokens > 2500 {
		t.Errorf("the other node reports %d of %d tokens left, about 900 are", q.RemainingTokens, q.LimitTokens)
	}
	other.Void(At(time.Now()))
}

// "One node says 499 requests are left, the next one 100."
func TestHeadersCountAllNodes(t *testing.T) {
	t.Parallel()
	server := servers.StartRedis(t)
	nodes := startNodes(t, 2, server.Addr, config.Limits{})
	rate := &config.Rate{RPD: 500}
	var h Hold
	for i := range 400 {
		if d := nodes[i%8/7].try(&h, rate, 0); d.Code != Admitted {
			t.Fatal(d)
		}
		h.Void(At(time.Now()))
	}
	var q window.Quota
	nodes[1].key.Quota(nodes[1].slot, rate, At(time.Now()), &q)
	if q.RemainingRequests != 100 {
		t.Errorf("%d requests left of 500 after 400", q.RemainingRequests)
	}
}

// Limits of different ledgers must not meet in one Redis: their account
// numbers are the same.
func TestLedgersDoNotMeetInRedis(t *testing.T) {
	t.Parallel()
	server := servers.StartRedis(t)
	c := config.Redis{Addresses: []string{server.Addr}, Timeout: time.Second, Away: "local_share"}
	var prefixes []string
	for range 2 {
		openLedger(t, func(o *Options) {
			o.Redis, o.limits = c, func(c *limits.Options) { prefixes = append(prefixes, c.Prefix) }
		})
	}
	if prefixes[0] == prefixes[1] {
		t.Errorf("both use %s", prefixes[0])
	}
}
