package billing

import (
	"testing"
	"time"

	"farebox/bench/servers"
	"farebox/config"
)

// A Redis that is away admits at most limit x (1 + 1/nodes), however it is away and
// whichever node used the limit before. One that lost its data counts from zero, so the
// limit may be used once more, and no request meets an error.
func TestALossOfRedisAdmitsLittleMore(t *testing.T) { lossesOfRedis(t, "flushed", "cut off") }

func TestLongALossOfRedisAdmitsLittleMore(t *testing.T) {
	lossesOfRedis(t, "killed", "restarted", "frozen", "swallowed")
}

func lossesOfRedis(t *testing.T, which ...string) {
	t.Parallel()
	const limit, nodesN = 900, 3
	type change func(*servers.Redis, *servers.Cut)
	losses := map[string]struct {
		lose, find change
		anew       bool // the data is lost
	}{
		"flushed": {func(r *servers.Redis, _ *servers.Cut) { r.Flush() }, nil, true},
		"killed": {
			func(r *servers.Redis, _ *servers.Cut) { r.Kill() },
			func(r *servers.Redis, _ *servers.Cut) { r.Start() }, true,
		},
		"restarted": {func(r *servers.Redis, _ *servers.Cut) { r.Kill(); r.Start() }, nil, true},
		"frozen": {
			func(r *servers.Redis, _ *servers.Cut) { r.Freeze() },
			func(r *servers.Redis, _ *servers.Cut) { r.Thaw() }, false,
		},
		"cut off": {
			func(_ *servers.Redis, c *servers.Cut) { c.Refuse(true) },
			func(_ *servers.Redis, c *servers.Cut) { c.Refuse(false) }, false,
		},
		"swallowed": {
			func(_ *servers.Redis, c *servers.Cut) { c.Hole(true) },
			func(_ *servers.Redis, c *servers.Cut) { c.Hole(false) }, false,
		},
	}
	for _, name := range which {
		loss := losses[name]
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := servers.StartRedis(t)
			cut := servers.StartCut(t, server.Addr)
			nodes := startNodes(t, nodesN, cut.Addr, config.Limits{}, func(c *config.Redis) {
				c.Timeout = 100 * time.Millisecond
			})
			rate := &config.Rate{RPH: limit}
			var s storm
			begin := time.Now()
			used := int64(0)
			for used < limit && time.Since(begin) < 30*time.Second { // one node uses all; a busy machine has it wait
				s.run(t, nodes[:1], rate, 4, 2*time.Second)
				used = s.admitted.Load()
			}
			if used < limit {
				t.Fatalf("%d of %d passed before", used, limit)
			}
			most := func(anew bool) int64 {
				n := int64(limit+limit/nodesN) + int64(time.Since(begin).Seconds()*limit/3600) + 1
				if anew {
					n += limit
				}
				return n
			}
			loss.lose(server, cut)
			s.run(t, nodes, rate, 4, 3*time.Second)
			alone := s.admitted.Load() - used
			if got, bound := s.admitted.Load(), most(loss.anew && loss.find == nil); got > bound {
				t.Errorf("%d requests passed, at most %d may", got, bound)
			}
			if loss.find != nil {
				loss.find(server, cut)
			}
			eventually(t, "limits are shared again", 20*time.Second, func() bool {
				for _, n := range nodes {
					if n.redis.Stats().Degraded {
						return false
					}
				}
				return true
			})
			s.run(t, nodes, rate, 4, 3*time.Second)
			for end := time.Now().Add(30 * time.Second); loss.anew && s.admitted.Load() < 2*limit && time.Now().Before(end); {
				s.run(t, nodes, rate, 4, time.Second) // a busy machine has not used it all yet
			}
			got, bound := s.admitted.Load(), most(loss.anew)
			if got > bound || loss.anew && got < 2*limit {
				t.Errorf("%d requests passed in the end, at most %d may", got, bound)
			}
			t.Logf("%d of %d before, %d alone, %d in the end, at most %d", used, limit, alone, got, bound)
		})
	}
}

// "Redis answered after 200 ms, and so did we." A slow Redis must not slow the gateway.
func TestASlowRedisDoesNotSlowRequests(t *testing.T) {
	t.Parallel()
	server := servers.StartRedis(t)
	cut := servers.StartCut(t, server.Addr)
	const timeout = 30 * time.Millisecond
	nodes := startNodes(t, 1, cut.Addr, config.Limits{}, func(c *config.Redis) { c.Timeout = timeout })
	rate := &config.Rate{RPH: 300_000}
	cut.Delay(200 * time.Millisecond)
	s := storm{pause: time.Millisecond}
	s.run(t, nodes, rate, 4, time.Second)
	if !nodes[0].redis.Stats().Degraded {
		t.Fatal("a Redis that takes 400 ms is in use")
	}
	if slowest := time.Duration(s.slowest.Load()); slowest > 10*timeout {
		t.Errorf("a request waited %s; the timeout is %s", slowest, timeout)
	}
	s.slowest.Store(0)
	admitted := s.admitted.Load()
	s.run(t, nodes, rate, 4, time.Second)
	if s.admitted.Load() == admitted {
		t.Error("nothing is admitted while Redis is slow")
	}
	cut.Delay(0)
	eventually(t, "the breaker closes again", 20*time.Second, func() bool { return !nodes[0].redis.Stats().Degraded })
}

// A node that counted alone reports its requests to Redis once, when Redis is back.
func TestRecoveryCountsNothingTwice(t *testing.T) {
	servers.NoRace(t)
	t.Parallel()
	server := servers.StartRedis(t)
	cut := servers.StartCut(t, server.Addr)
	nodes := startNodes(t, 2, cut.Addr, config.Limits{}, func(c *config.Redis) { c.Timeout = 100 * time.Millisecond })
	small := &config.Rate{RPD: 99_999}
	s := storm{pause: time.Millisecond}
	for range 3 {
		s.run(t, nodes, small, 2, 300*time.Millisecond)
		cut.Refuse(true)
		s.run(t, nodes, small, 2, time.Second)
		cut.Refuse(false)
		eventually(t, "both nodes are back", 20*time.Second, func() bool {
			return !nodes[0].redis.Stats().Degraded &&
				!nodes[1].redis.Stats().Degraded
		})
	}
	unknown := nodes[0].redis.Stats().Errors + nodes[1].redis.Stats().Errors
	var day int64
	admitted := s.admitted.Load()
	eventually(t, "Redis knows of all that passed", 5*time.Second, func() bool {
		day, _ = inRedis(t, server, nodes[0])
		return day >= admitted-unknown && day <= admitted+unknown
	})
	if unknown > 100 {
		t.Errorf("%d calls have an unknown end; that proves nothing", unknown)
	}
	t.Logf("%d passed, Redis counts %d, %d calls without an answer", admitted, day, unknown)
}

func TestThePolicyDecidesWithoutRedis(t *testing.T) {
	t.Parallel()
	rate := &config.Rate{RPD: 30}
	f := func(away string, wantAdmitted int64, wantCode DenialCode) {
		server := servers.StartRedis(t)
		n := startNodes(t, 1, server.Addr, config.Limits{}, func(c *config.Redis) { c.Away = away })[0]
		n.redis.SetNodes(3)
		server.Stop()
		eventually(t, "Redis is away", 20*time.Second, func() bool { return n.redis.Stats().Degraded })
		admitted := int64(0)
		var h Hold
		var d Denial
		for range 40 {
			if d = n.try(&h, rate, 0); d.Code == Admitted {
				admitted++
				h.Void(At(time.Now()))
			}
		}
		if admitted != wantAdmitted || d.Code != wantCode || d.RetryAfter <= 0 {
			t.Errorf("%s: %d admitted, then code %d, retry after %s", away, admitted, d.Code, d.RetryAfter)
		}
	}
	f("local_share", 3, RateRequests) // 30/3² at once
	f("open", 30, RateRequests)       // the node's own limit
	f("closed", 0, LimitsAway)
}

// "The gateway did not start because Redis was down."
func TestStartsWithoutRedisAndFindsItLater(t *testing.T) {
	t.Parallel()
	server := servers.StartRedis(t)
	server.Stop()
	n := startNodes(t, 1, server.Addr, config.Limits{})[0]
	var h Hold
	if d := n.try(&h, &config.Rate{RPM: 100}, 0); d.Code != Admitted || !n.redis.Stats().Degraded {
		t.Errorf("code %d, degraded %v", d.Code, n.redis.Stats().Degraded)
	}
	h.Void(At(time.Now()))
	server.Start()
	eventually(t, "limits are shared", 20*time.Second, func() bool { return !n.redis.Stats().Degraded })
}
