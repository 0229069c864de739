//go:build unix

package billing

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"farebox/billing/money"
	"farebox/billing/window"
	"farebox/config"
)

var benchPrice = &config.Price{Input: 1_540_000, Output: 4_840_000}

var benchUsage = money.Usage{Prompt: 800, Completion: 200}

var benchRate = &config.Rate{RPM: 1 << 40, TPM: 1 << 40}

func cpuTime() time.Duration {
	var u unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func oneRequest(l *Ledger, h *Hold, k *Key, slot int, now window.Instant) {
	a := Admission{Key: k, Slot: slot, Rate: benchRate, Hold: 5_000_000, Min: 1_000_000, Tokens: 1200, Now: now}
	if d := l.Admit(h, &a); d.Code != Admitted {
		panic(d.Code)
	}
	sold := money.Text(benchPrice, benchUsage)
	h.Settle(Settlement{Cost: sold.Cost(), Lines: sold, Model: "m", Status: 200, Took: time.Second, Now: now,
		Tokens: 1000})
	h.Reset()
}

func benchLedger(b *testing.B, accounts, keys int, detailNow bool) (*Ledger, []*Key) {
	b.Helper()
	l, err := Open(Options{Dir: b.TempDir(), Brand: "svc", detailNow: detailNow})
	if err != nil {
		b.Fatal(err)
	}
	secrets := manyKeys(b, l, accounts, keys)
	list := make([]*Key, keys)
	for i, s := range secrets {
		if list[i], err = l.Lookup(s); err != nil {
			b.Fatal(err)
		}
	}
	return l, list
}

// BenchmarkAdmitSettle measures a request's wait in this package, on its own goroutine,
// with random keys of many. The projection pauses meanwhile; BenchmarkBusy includes it.
func BenchmarkAdmitSettle(b *testing.B) {
	for _, n := range []int{1, 1000, 100_000} {
		b.Run(fmt.Sprint(n, "keys"), func(b *testing.B) {
			l, keys := benchLedger(b, max(1, n/10), n, false)
			slot := l.ModelNumber("m")
			var h Hold
			rnd := rand.New(rand.NewPCG(1, 2))
			for _, k := range keys {
				oneRequest(l, &h, k, slot, At(time.Now()))
			}
			l.project.mu.Lock()
			b.ReportAllocs()
			cpu := cpuTime()
			for b.Loop() {
				oneRequest(l, &h, keys[rnd.IntN(n)], slot, At(time.Now()))
			}
			// On a shared machine wall time also counts the work of others.
			b.ReportMetric(float64(cpuTime()-cpu)/float64(b.N), "cpu-ns/op")
			l.project.mu.Unlock()
			if err := l.Close(); err != nil {
				b.Fatal(err)
			}
		})
	}
}

// BenchmarkBusy is the whole cost of a request in this package inside a busy process:
// between requests it does about 25 µs of work in place of the rest of a gateway.
// Admission, journal, syncing, preparing segments and projection are counted, the work
// between is subtracted, which leaves about half a microsecond of noise on a shared
// machine. The detail of the requests is measured after the traffic, when off peak.
func BenchmarkBusy(b *testing.B) {
	for _, c := range []struct {
		keys      int
		detailNow bool
	}{{1, false}, {1000, false}, {1, true}, {1000, true}, {100_000, false}} {
		b.Run(fmt.Sprintf("keys=%d/detailNow=%v", c.keys, c.detailNow), func(b *testing.B) {
			l, keys := benchLedger(b, max(1, c.keys/10), c.keys, c.detailNow)
			slot := l.ModelNumber("m")
			l.journal.Ready()
			time.Sleep(100 * time.Millisecond)
			rnd := rand.New(rand.NewPCG(1, 2))
			var h Hold
			sum, n := uint64(0), b.N
			between := func() {
				for range 22_000 {
					sum = sum*6364136223846793005 + 1442695040888963407
				}
			}
			run := func(n int, do func()) time.Duration {
				cpu := cpuTime()
				for range n {
					between()
					do()
				}
				return cpuTime() - cpu
			}
			idle := run(n/4, func() {}) + run(n/4, func() {})
			began := time.Now()
			busy := run(n, func() { oneRequest(l, &h, keys[rnd.IntN(len(keys))], slot, At(time.Now())) })
			b.ReportMetric(float64(n)/time.Since(began).Seconds(), "req/s")
			idle += run(n/4, func() {}) + run(n/4, func() {})
			cpu := cpuTime()
			l.journal.Flush()
			if err := l.project.project(); err != nil {
				b.Fatal(err)
			}
			rest := cpuTime() - cpu
			b.ReportMetric(float64(busy-idle+rest)/float64(n), "cpu-ns/req")
			lag := l.Stats().UsageLag
			cpu = cpuTime()
			if err := l.project.drain(); err != nil {
				b.Fatal(err)
			}
			if lag > 0 {
				b.ReportMetric(float64(cpuTime()-cpu)/float64(lag/2), "detail-cpu-ns/req")
			}
			b.ReportMetric(0, "ns/op")
			if sum == 0 {
				b.Log(sum)
			}
			if err := l.Close(); err != nil {
				b.Fatal(err)
			}
		})
	}
}

// BenchmarkLookup is the cost of finding a key: one that is in use, one that
// is used for the first time, and secrets that do not exist.
func BenchmarkLookup(b *testing.B) {
	l, err := Open(Options{Dir: b.TempDir(), Brand: "svc", idle: true})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	secrets := manyKeys(b, l, 1000, 100_000)
	b.Run("first", func(b *testing.B) {
		i := 0
		for b.Loop() {
			if _, err := l.Lookup(secrets[i%len(secrets)]); err != nil {
				b.Fatal(err)
			}
			i++
		}
	})
	for _, s := range secrets {
		if _, err := l.Lookup(s); err != nil {
			b.Fatal(err)
		}
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{1, 100_000} {
		b.Run(fmt.Sprint("hit/", n, "keys"), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := l.Lookup(secrets[rnd.IntN(n)]); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("unknown/same", func(b *testing.B) {
		for b.Loop() {
			_, _ = l.Lookup([]byte("SVC_INFERENCE_KEY_none"))
		}
	})
	b.Run("unknown/new", func(b *testing.B) {
		secret := []byte("SVC_INFERENCE_KEY_00000000")
		for b.Loop() {
			for i := len(secret) - 1; ; i-- {
				if secret[i]++; secret[i] != 0 {
					break
				}
			}
			_, _ = l.Lookup(secret)
		}
	})
}

// BenchmarkContended is admission and settlement of one account by all cores.
func BenchmarkContended(b *testing.B) {
	l, keys := benchLedger(b, 1, 1, false)
	defer func() { _ = l.Close() }()
	slot := l.ModelNumber("m")
	b.RunParallel(func(pb *testing.PB) {
		var h Hold
		for pb.Next() {
			oneRequest(l, &h, keys[0], slot, At(time.Now()))
		}
	})
}

// BenchmarkDurable admits and settles at a steady 50,000 requests a second for 20 s, over
// 100,000 keys at random, with the usual durability and all background work of
// production. It shows whether the store keeps up: the most records that it was behind,
// and the time for the rest. Run it with -benchtime 1x.
func BenchmarkDurable(b *testing.B) {
	const perSecond, length, accounts, keyCount = 50_000, 20 * time.Second, 10_000, 100_000
	const tick = time.Millisecond
	for b.Loop() {
		l, keys := benchLedger(b, accounts, keyCount, false)
		slot := l.ModelNumber("m")
		l.journal.Ready()
		time.Sleep(100 * time.Millisecond)
		rnd := rand.New(rand.NewPCG(1, 2))
		var h Hold
		behind, most, late := int64(0), int64(0), time.Duration(0)
		done, cpu, began := 0, cpuTime(), time.Now()
		for passed := time.Duration(0); passed < length; passed = time.Since(began) {
			// Requests that the machine delayed are made now.
			for due := int(passed.Seconds() * perSecond); done < due; done++ {
				oneRequest(l, &h, keys[rnd.IntN(keyCount)], slot, At(time.Now()))
			}
			if behind = l.Stats().JournalLag; behind > most {
				most = behind
			}
			late = max(late, time.Since(began)-passed)
			time.Sleep(tick)
		}
		took, used := time.Since(began), cpuTime()-cpu
		drained := func(lag func(Stats) int64) float64 {
			from := time.Now()
			for lag(l.Stats()) > 0 && time.Since(from) < 5*time.Minute {
				time.Sleep(tick)
			}
			return time.Since(from).Seconds()
		}
		b.ReportMetric(float64(done)/took.Seconds(), "req/s")
		b.ReportMetric(float64(used.Microseconds())/float64(done), "cpu-µs/req")
		b.ReportMetric(float64(most), "most-behind-records")
		b.ReportMetric(late.Seconds()*1000, "longest-round-ms")
		cpu = cpuTime()
		b.ReportMetric(drained(func(s Stats) int64 { return s.JournalLag }), "drain-s")
		b.ReportMetric(drained(func(s Stats) int64 { return s.UsageLag }), "detail-drain-s")
		b.ReportMetric(float64((cpuTime()-cpu).Microseconds())/float64(done), "detail-cpu-µs/req")
		r, err := l.Audit()
		if err != nil {
			b.Fatal(err)
		}
		sold := money.Text(benchPrice, benchUsage)
		cost := sold.Cost()
		// The money of these accounts was made without entries, which are faults.
		if charged := Nano(done) * cost; r.Requests != int64(done) || r.Charged != charged {
			b.Errorf("%d requests of %s were settled, booked are %d of %s", done, charged, r.Requests, r.Charged)
		}
		if err := l.Close(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(0, "ns/op")
}
