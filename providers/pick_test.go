package providers

import (
	"sync"
	"testing"
	"time"
)

const pickText = `
upstreams:
  - { name: a, base_url: "http://127.0.0.1:1/v1", breaker: { failures: 2, open_for: 10s } }
  - { name: b, base_url: "http://127.0.0.1:2/v1", breaker: { failures: 2, open_for: 10s } }
  - { name: c, base_url: "http://127.0.0.1:3/v1", breaker: { failures: 2, open_for: 10s } }
  - { name: never, base_url: "http://127.0.0.1:4/v1", breaker: { failures: 0 } }
models:
  - { id: m, context_tokens: 9, price: free, targets: [{ upstream: c, priority: 5 }, { upstream: a, weight: 3 }, { upstream: b, weight: 1 }] }
  - { id: one, context_tokens: 9, price: free, targets: [{ upstream: a, model: alone }] }
  - { id: never, context_tokens: 9, price: free, targets: [{ upstream: never }] }
`

// order is the names of the targets that a request would try, all failing to
// be reported on.
func order(m *Model, now int64) string {
	var p Picker
	p.Begin(m.Targets, 0)
	text := ""
	for t := p.Next(now); t != nil; t = p.Next(now) {
		text += t.Upstream.Name
		p.Pass(t)
	}
	return text
}

func TestTargetsShareByWeightAndPriority(t *testing.T) {
	c := catalogOf(t, pickText, nil, today)
	now := today.UnixNano()
	seen := map[string]int{}
	const n = 4000
	for range n {
		seen[order(c.names["m"], now)]++
	}
	if len(seen) != 2 || seen["abc"]+seen["bac"] != n {
		t.Fatalf("orders %v", seen)
	}
	if share := float64(seen["abc"]) / n; share < 0.70 || share > 0.80 {
		t.Errorf("a weight of 3 in 4 got %.2f", share)
	}
}

func TestRestingTargetsAreLeftAlone(t *testing.T) {
	c := catalogOf(t, pickText, nil, today)
	m := c.names["m"]
	now := today.UnixNano()
	target := map[string]*Target{}
	for _, x := range m.Targets {
		target[x.Upstream.Name] = x
	}
	f := func(at time.Duration, want ...string) {
		t.Helper()
		for range 50 {
			got := order(m, now+int64(at))
			ok := false
			for _, w := range want {
				ok = ok || got == w
			}
			if !ok {
				t.Fatalf("after %v: %s, want %v", at, got, want)
			}
		}
	}
	var p Picker
	p.Begin(m.Targets, 0)
	target["a"].Breaker.Failed(now, 0)
	f(0, "abc", "bac") // one failure does not count
	target["a"].Breaker.Succeeded()
	target["a"].Breaker.Failed(now, 0)
	f(0, "abc", "bac") // and was forgiven
	target["a"].Breaker.Failed(now, 0)
	f(0, "bc")
	f(9*time.Second, "bc")
	f(10*time.Second, "abc", "bac") // it may be tried again
	target["b"].Breaker.Failed(now, 30*time.Second)
	f(9*time.Second, "c")
	f(29*time.Second, "ac")
	f(30*time.Second, "abc", "bac")
	target["b"].Breaker.Failed(now, time.Hour) // no target is left alone for an hour
	f(121*time.Second, "abc", "bac")
}

func TestRestedTargetIsProbedByOneRequest(t *testing.T) {
	c := catalogOf(t, pickText, nil, today)
	m := c.names["one"]
	now := today.UnixNano()
	var p Picker
	p.Begin(m.Targets, 0)
	m.Targets[0].Breaker.Failed(now, 0)
	m.Targets[0].Breaker.Failed(now, 0)
	later := now + int64(11*time.Second)
	var passed, refused int
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			var p Picker
			p.Begin(m.Targets, 0)
			got := p.Next(later)
			mu.Lock()
			defer mu.Unlock()
			if got != nil {
				passed++
			} else {
				refused++
			}
		})
	}
	wg.Wait()
	if passed != 1 || refused != 63 {
		t.Fatalf("%d passed, %d were refused", passed, refused)
	}
	m.Targets[0].Breaker.Failed(later, 0) // the probe failed: it rests again
	if order(m, later+int64(9*time.Second)) != "a" {
		t.Error("the last resort of one target is that target")
	}
	m.Targets[0].Breaker.Succeeded()
	if got := order(m, later) + order(m, later); got != "aa" {
		t.Errorf("back again: %s", got)
	}
	// A probe whose request was never reported on is forgotten after a while.
	m.Targets[0].Breaker.Failed(now, 0)
	m.Targets[0].Breaker.Failed(now, 0)
	p.Begin(m.Targets, 0)
	if p.Next(later) == nil {
		t.Fatal("no probe")
	}
	var other Picker
	other.Begin(m.Targets, 0)
	if other.Next(later+int64(time.Minute)) != nil {
		t.Error("two probes at once")
	}
	other.Begin(m.Targets, 0)
	if other.Next(later+int64(10*time.Minute)) == nil {
		t.Error("a lost probe closed the target for good")
	}
}

// When all rest, one request at a time is let through to the one that may be
// back first, also when they asked for time.
func TestAllTargetsResting(t *testing.T) {
	c := catalogOf(t, pickText, nil, today)
	m := c.names["m"]
	now := today.UnixNano()
	var p Picker
	p.Begin(m.Targets, 0)
	for i, x := range m.Targets {
		x.Breaker.Failed(now+int64(i), 0)
		x.Breaker.Failed(now+int64(i), 0)
	}
	first := m.Targets[0]
	var q Picker
	q.Begin(m.Targets, 0)
	if q.Next(now) != first || q.Next(now) != nil {
		t.Error("the first to be back is the last resort, and the only one")
	}
	var r Picker
	r.Begin(m.Targets, 0)
	if r.Next(now) != nil {
		t.Error("two requests went to a target that rests")
	}
	if left := RestsFor(m, now); left != 10*time.Second {
		t.Errorf("it rests for %v", left)
	}
	q.Pass(first)

	one := c.names["one"]
	p.Begin(one.Targets, 0)
	one.Targets[0].Breaker.Failed(now, time.Minute)
	if p.Next(now) != one.Targets[0] {
		t.Error("a lone target that asked for a minute is not asked at all")
	}
	q.Begin(one.Targets, 0)
	if q.Next(now) != nil {
		t.Error("a lone target that asked for a minute is asked by two at once")
	}
	if left := RestsFor(one, now); left != time.Minute {
		t.Errorf("it rests for %v", left)
	}
	p.Pass(one.Targets[0])
	never := c.names["never"]
	p.Begin(never.Targets, 0)
	for range 100 {
		never.Targets[0].Breaker.Failed(now, time.Minute)
	}
	if p.Next(now) == nil {
		t.Error("a breaker that was switched off opened")
	}
}
