package limits

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"pgregory.net/rapid"

	"farebox/bench/servers"
	"farebox/billing/calendar"
	"farebox/billing/window"
	"farebox/config"
)

// limitsOf connects to a server for one test.
func limitsOf(t testing.TB, r *servers.Redis, adjust ...func(*config.Redis)) *redisClient {
	t.Helper()
	// The timeout is long: the machine is shared, and these tests do not measure time.
	c := &config.Redis{Addresses: []string{r.Addr}, Timeout: 5 * time.Second}
	for _, a := range adjust {
		a(c)
	}
	client, err := newRedisClient(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.close() })
	return client
}

// openLimits is a node on a server.
func openLimits(t *testing.T, r *servers.Redis) *Limits {
	t.Helper()
	log := zerolog.Nop()
	s, err := Open(&Options{
		Redis:  config.Redis{Addresses: []string{r.Addr}, Timeout: time.Second, Away: awayShare},
		Prefix: "test:", Log: &log, Clock: now,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// clocked is the script with a clock that the test sets: "now" in Redis.
func clocked(t testing.TB) *scriptCode {
	const clock = "local clock = call('TIME')"
	if !strings.Contains(scriptSource, clock) {
		t.Fatal("the script reads its clock in another way")
	}
	return newScriptCode(strings.Replace(scriptSource, clock,
		"local now = call('GET', (string.gsub(keys[1], 'a$', 'now'))); local clock = { string.sub(now, 1, -7), "+
			"string.sub(now, -6) }", 1))
}

// Limits must not depend on the place of their counters: one node with Redis and one
// without refuse the same requests of any history.
func TestRedisDecidesLikeTheWindowsInMemory(t *testing.T) {
	t.Parallel()
	server := servers.StartRedis(t)
	client, code := limitsOf(t, server), clocked(t)
	direct := server.Client()
	defer func() { _ = direct.Close() }()
	n := 0
	rapid.Check(t, func(t *rapid.T) {
		n++
		draw := func(name string, most int64) int64 {
			if rapid.IntRange(0, 2).Draw(t, name+"?") == 0 {
				return 0
			}
			return rapid.Int64Range(1, most).Draw(t, name)
		}
		rate := config.Rate{RPM: draw("rpm", 50), RPH: draw("rph", 80), RPD: draw("rpd", 90), RPMon: draw("rpmon", 99),
			TPM: draw("tpm", 1_000_000)}
		keyRate := config.Rate{RPM: draw("key rpm", 60), RPD: draw("key rpd", 60), TPM: draw("key tpm", 5000)}
		for _, r := range []*config.Rate{&rate, &keyRate} {
			if r.RPM > 0 && rapid.Bool().Draw(t, "burst?") {
				r.Burst = rapid.Int64Range(1, r.RPM).Draw(t, "burst")
			}
		}
		rates := []*config.Rate{&rate, &keyRate}
		var windows [2]window.Window
		nowUs := noon/1000 + rapid.Int64Range(0, 40*86_400).Draw(t, "day")*1_000_000 +
			rapid.Int64Range(0, 999_999).Draw(t, "µs")
		keys := []any{fmt.Sprintf("t%d:{0}:a", n), fmt.Sprintf("t%d:{0}:b", n)}
		clockKey := fmt.Sprintf("t%d:{0}:now", n)
		for range rapid.IntRange(1, 60).Draw(t, "requests") {
			nowUs += rapid.OneOf(rapid.Int64Range(0, 3_000_000), rapid.Int64Range(0, 9*3_600_000_000)).Draw(t, "pause")
			if err := direct.Set(t.Context(), clockKey, nowUs, 0).Err(); err != nil {
				t.Fatal(err)
			}
			now, day := nowUs*1000, calendar.DayOf(nowUs*1000)
			tokens := rapid.Int64Range(0, 2000).Draw(t, "tokens")
			var blob []byte
			correct := rapid.IntRange(0, 5).Draw(t, "correct") == 0
			var used int64
			if correct {
				used = rapid.Int64Range(0, 4000).Draw(t, "used")
			}
			for i, r := range rates {
				a := askFor(r, 0, tokens, 0)
				if counts(r) {
					a = askFor(r, 1, tokens, 0)
				}
				if correct && r.TPM > 0 {
					// The correction of an earlier request is sent along.
					windows[i].Correct(r, now, tokens, used)
					var w Window
					w.owe(r, 0, used-tokens, day)
					a.owed = w.owed
				}
				blob = a.append(blob)
			}
			want, no := 0, window.Refusal{}
			for i, r := range rates {
				if !windows[i].Check(r, at(now), day, 1, tokens, &no) {
					want = i + 1
					break
				}
			}
			if want == 0 {
				for i, r := range rates {
					windows[i].Commit(r, now, day, 1, tokens)
				}
			}
			var got answer
			if err := client.call(code, keys, blob, &got); err != nil {
				t.Fatal(err)
			}
			if got.status != want || got.nowUs != nowUs {
				t.Fatalf("Redis says %d, memory says %d (%s)", got.status, want, no.Limit)
			}
			for i, r := range rates {
				var there, here window.Quota
				there.LimitRequests, there.LimitTokens, here.LimitRequests, here.LimitTokens = -1, -1, -1, -1
				got.windows[i].state.Quota(r, at(now), day, &there)
				windows[i].Quota(r, at(now), day, &here)
				if there != here {
					t.Fatalf("window %d: Redis has %+v left, memory %+v", i, there, here)
				}
				var again window.Refusal
				if want == i+1 && (got.windows[i].state.Check(r, at(now), day, 1, tokens, &again) || again != no) {
					t.Fatalf("Redis refuses with %+v, memory with %+v", again, no)
				}
			}
		}
	})
}

// A slice is as many permits as there are, and the next one is refused.
func TestASliceTakesTheRest(t *testing.T) {
	t.Parallel()
	client := limitsOf(t, servers.StartRedis(t))
	r := &config.Rate{RPM: 6000, RPH: 100_000, RPD: 5050, TPM: 600_000}
	keys := []any{"{0}:w"}
	total := int64(0)
	for _, want := range []int64{5000, 45, 10, 10} {
		a := askFor(r, want, 0, 0)
		var got answer
		if err := client.call(productionCode, keys, a.append(nil), &got); err != nil {
			t.Fatal(err)
		}
		if got.status == statusTaken {
			total += got.windows[0].granted
		} else if total < 5050 {
			t.Errorf("refused after %d of 5050", total)
		}
		if got.windows[0].granted > want {
			t.Errorf("%d permits for %d", got.windows[0].granted, want)
		}
	}
	if total != 5050 {
		t.Errorf("%d permits were taken of a limit of 5050", total)
	}
}

// "After the restart of Redis every request failed with NOSCRIPT."
func TestTheScriptComesBackAfterARestart(t *testing.T) {
	t.Parallel()
	server := servers.StartRedis(t)
	client := limitsOf(t, server)
	for _, how := range []int32{callFunction, callScript} {
		client.how.Store(how)
		for range 2 {
			a := askFor(&config.Rate{RPM: 10}, 1, 0, 0)
			var got answer
			var err error
			for range 3 { // connections of before the restart are broken
				if err = client.call(productionCode, []any{"{0}:w"}, a.append(nil), &got); err == nil {
					break
				}
			}
			if err != nil || got.status != statusTaken {
				t.Fatalf("how %d: %v, status %d", how, err, got.status)
			}
			server.Stop()
			server.Start()
		}
		client.how.Store(callUnknown)
	}
}

// A server that cannot take writes counts as away, so the probe writes.
func TestTheProbeWrites(t *testing.T) {
	t.Parallel()
	server := servers.StartRedis(t)
	openLimits(t, server)
	direct := server.Client()
	defer func() { _ = direct.Close() }()
	if n, err := direct.Exists(t.Context(), "test:{0}:probe").Result(); n != 1 || err != nil {
		t.Errorf("%d keys were written, %v", n, err)
	}
}

// An older Redis has no Functions, and some services forbid them.
func TestScriptsServeWithoutFunctions(t *testing.T) {
	t.Parallel()
	server := servers.StartRedis(t, "--rename-command", "FUNCTION", "")
	client := limitsOf(t, server)
	var got answer
	a := askFor(&config.Rate{RPM: 10}, 1, 0, 0)
	if err := client.call(productionCode, []any{"{0}:w"}, a.append(nil), &got); err != nil {
		t.Fatal(err)
	}
	if how := client.how.Load(); how != callScript || got.windows[0].granted != 1 {
		t.Errorf("called by %d, granted %d", how, got.windows[0].granted)
	}
	server.Do("SCRIPT", "FLUSH")
	if err := client.call(productionCode, []any{"{0}:w"}, a.append(nil), &got); err != nil {
		t.Errorf("after SCRIPT FLUSH: %v", err)
	}
}

func TestLongClusterAndSentinelAnswer(t *testing.T) {
	t.Parallel()
	ask := func(c *redisClient, slot int) error {
		a := askFor(&config.Rate{RPM: 10}, 1, 0, 0)
		var got answer
		err := c.call(productionCode, []any{fmt.Sprintf("{%d}:w", slot)}, a.append(nil), &got)
		if err == nil && got.windows[0].granted != 1 {
			err = fmt.Errorf("granted %d", got.windows[0].granted)
		}
		return err
	}
	cluster := servers.StartCluster(t)
	c := limitsOf(t, cluster.Nodes[0], func(c *config.Redis) { c.Cluster, c.Addresses = true, cluster.Addrs })
	for slot := range 50 {
		if err := ask(c, slot); err != nil {
			t.Errorf("slot %d: %v", slot, err)
		}
	}
	s := servers.StartSentinels(t)
	c = limitsOf(t, s.Master, func(c *config.Redis) { c.SentinelMaster, c.Addresses = s.Name, s.Addrs })
	if err := ask(c, 1); err != nil {
		t.Fatal(err)
	}
	s.Master.Kill()
	for begin := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		err := ask(c, 2)
		if err == nil {
			break
		}
		if time.Since(begin) > time.Minute {
			t.Fatalf("a minute after the master was killed: %v", err)
		}
	}
}
