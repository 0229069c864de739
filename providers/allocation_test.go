//go:build !race

package providers

import (
	"testing"

	"farebox/providers/attempt"
)

// Finding and choosing happen for every request.
func TestChoosingDoesNotAllocate(t *testing.T) {
	c := catalogOf(t, pickText+
		`  - { id: old, context_tokens: 1000, price: { input: 5, output: 5 }, aliases: [gpt-3], traits: [default], targets: [{ upstream: a }],
      deprecation: { date: 2026-11-01, removes_at: 2026-11-20, replacement: m, auto_remap: true } }
`, nil, today)
	f := func(name string, run func()) {
		t.Helper()
		if n := testing.AllocsPerRun(1000, run); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
	for _, name := range []string{"m", "gpt-3", "default", "nobody"} {
		text := []byte(name)
		f("resolve "+name, func() { c.Resolve(text, "text") })
	}
	suffixed := []byte("m:enable_web_search=on")
	f("suffix", func() { SplitSuffix(suffixed) })
	now := today.UnixNano()
	var p Picker
	f("pick", func() {
		p.Begin(c.names["m"].Targets, 0)
		for t := p.Next(now); t != nil; t = p.Next(now) {
			p.Report(t, attempt.Verdict{Do: attempt.Retry, Health: attempt.Good}, 0)
		}
	})
	f("list", func() { c.List("all", today) })
}
