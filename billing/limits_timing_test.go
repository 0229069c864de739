//go:build unix

package billing

import (
	"slices"
	"sync"
	"testing"
	"time"

	"farebox/bench/servers"
	"farebox/config"
)

// BenchmarkSharedAdmit is an admission and its end with limits in Redis: with small
// limits, where every request asks, and with large ones, which are taken in slices. CPU
// is that of this process; Redis's is reported beside it.
func BenchmarkSharedAdmit(b *testing.B) {
	for _, c := range []struct {
		name    string
		rate    config.Rate
		key     config.Rate
		redis   bool
		clients int
		pause   time.Duration
	}{
		{"none", config.Rate{RPM: 1 << 40, TPM: 1 << 40}, config.Rate{}, false, 1, 0},
		{"sliced", config.Rate{RPM: 100_000_000, TPM: 1 << 40}, config.Rate{}, true, 1, 0},
		{"sliced/two_windows", config.Rate{RPM: 100_000_000, TPM: 1 << 40}, config.Rate{RPM: 1 << 30}, true, 1, 0},
		{"sliced/32", config.Rate{RPM: 100_000_000, TPM: 1 << 40}, config.Rate{}, true, 32, 0},
		{"small/1", config.Rate{RPD: 5, RPM: 1 << 40}, config.Rate{}, true, 1, 0},
		{"small/32", config.Rate{RPD: 5, RPM: 1 << 40}, config.Rate{}, true, 32, 0},
		{"small/32/paced", config.Rate{RPD: 5, RPM: 1 << 40}, config.Rate{}, true, 32, 10 * time.Millisecond},
		{"small/four_limits/32", config.Rate{RPD: 5, RPM: 1 << 40, RPH: 1 << 40, TPM: 1 << 40},
			config.Rate{RPM: 1 << 30}, true, 32, 0},
	} {
		b.Run(c.name, func(b *testing.B) {
			r := servers.StartRedis(b)
			if c.rate.RPD > 0 {
				c.rate.RPD = 99_999 // less than a slice: small, but never used up in a bench
			}
			address := ""
			if c.redis {
				address = r.Addr
			}
			n := startBench(b, address, config.Limits{Key: c.key})
			// Many models, so that no limit is used up.
			slots := make([]int, 64)
			for i := range slots {
				slots[i] = n.ModelNumber(string(rune('a' + i)))
			}
			each := b.N/c.clients + 1
			took := make([][]int64, c.clients)
			beginCPU, beginRedis := cpuTime(), r.CPU()
			b.ResetTimer()
			var all sync.WaitGroup
			for i := range c.clients {
				all.Go(func() {
					var h Hold
					list := make([]int64, 0, each)
					for j := range each {
						time.Sleep(c.pause)
						begin := time.Now()
						a := Admission{Key: n.key, Slot: slots[(i+j)%len(slots)], Rate: &c.rate, Hold: 1000, Min: 1000,
							Tokens: 1200, Now: At(begin)}
						if d := n.Admit(&h, &a); d.Code != Admitted {
							b.Errorf("%+v", d)
							return
						}
						list = append(list, int64(time.Since(begin)))
						h.Settle(Settlement{Cost: 900, Model: "m", Status: 200, Now: At(begin), Tokens: 1000})
						h.Reset()
					}
					took[i] = list
				})
			}
			all.Wait()
			b.StopTimer()
			done := float64(each * c.clients)
			list := slices.Concat(took...)
			slices.Sort(list)
			b.ReportMetric(float64(cpuTime()-beginCPU)/done, "cpu-ns/op")
			b.ReportMetric(float64(r.CPU()-beginRedis)/done, "redis-ns/op")
			b.ReportMetric(float64(list[len(list)/2])/1e3, "p50-µs")
			b.ReportMetric(float64(list[len(list)*99/100])/1e3, "p99-µs")
			b.ReportMetric(float64(n.redis.Stats().Calls)/done, "calls/op")
			if n.redis.Stats().Degraded {
				b.Log("Redis was away for a while: these figures are not those of sharing")
			}
		})
	}
}

func startBench(b *testing.B, address string, limits config.Limits) *testNode {
	b.Helper()
	c := config.Redis{Timeout: time.Second, Away: "local_share"}
	if address != "" {
		c.Addresses = []string{address}
	}
	f := openLedger(b, func(o *Options) { o.Clock, o.Redis, o.segmentSize = time.Now, c, 32<<20 })
	f.Configure(&config.Config{Limits: limits})
	f.account("a", 1_000_000*usd)
	k, _ := f.key("a")
	return &testNode{f, k, 0}
}
