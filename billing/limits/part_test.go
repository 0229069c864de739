package limits

import (
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"

	"farebox/billing/window"
	"farebox/config"
)

// All nodes together exceed the refill by at most limit/nodes, whenever and wherever
// requests arrive, and however often Redis is lost.
func TestPartsAddUpToOneNodesPart(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		nodes := rapid.Int64Range(1, 12).Draw(t, "nodes")
		limit := rapid.Int64Range(1, 500).Draw(t, "limit")
		r, period := &config.Rate{RPM: limit}, window.MinuteNs
		switch rapid.IntRange(0, 3).Draw(t, "which") {
		case 1:
			r, period = &config.Rate{RPH: limit}, window.HourNs
		case 2:
			r, period = &config.Rate{RPD: limit}, window.DayNs
		case 3:
			r, period = &config.Rate{RPMon: limit}, 30*window.DayNs
		}
		atOnce := limit
		if r.RPM > 0 && rapid.Bool().Draw(t, "burst?") {
			r.Burst = rapid.Int64Range(1, limit).Draw(t, "burst")
			atOnce = r.Burst
		}
		parts := make([]part, nodes)
		entered, now := noon, noon
		passed := int64(0)
		for range rapid.IntRange(1, 400).Draw(t, "requests") {
			now += rapid.Int64Range(0, period/200).Draw(t, "pause")
			if rapid.IntRange(0, 50).Draw(t, "lost again") == 0 {
				entered = now
			}
			p := &parts[rapid.Int64Range(0, nodes-1).Draw(t, "node")]
			var no window.Refusal
			if !p.check(r, at(now), entered, nodes, 0, &no) {
				if no.RetryAfter <= 0 || no.Allowed != limit {
					t.Fatalf("refused with %+v", no)
				}
				if later := now + int64(no.RetryAfter); !p.check(r, at(later), entered, nodes, 0, &window.Refusal{}) {
					t.Fatalf("still refused after the %s that it named", no.RetryAfter)
				}
				continue
			}
			p.commit(r, now, entered, nodes, 0)
			passed++
		}
		most := float64(atOnce)/float64(nodes) + float64(limit)*float64(now-noon)/float64(period)
		if atOnce < nodes {
			most += float64(nodes) // a part of less than one request lets one through when it is due
		}
		if float64(passed) > most+1e-6 {
			t.Fatalf("%d passed with a limit of %d on %d nodes, at most %.2f may", passed, limit, nodes, most)
		}
	})
}

// "One pause of the machine and all limits were local for a second."
func TestTheBreakerOpensForReasonsOnly(t *testing.T) {
	why := errors.New("no answer")
	f := func(name string, want bool, calls func(b *breaker, at func(ms int) time.Time)) {
		t.Helper()
		opened := 0
		b := &breaker{slowAfter: 25 * time.Millisecond, opened: func(error) { opened++ }}
		begin := time.Now()
		calls(b, func(ms int) time.Time { return begin.Add(time.Duration(ms) * time.Millisecond) })
		if b.open.Load() != want || (opened == 1) != want {
			t.Errorf("%s: open %v, opened %d times", name, b.open.Load(), opened)
		}
		b.reset()
		if b.open.Load() {
			t.Errorf("%s: it does not close", name)
		}
	}
	f("five failures in a row", true, func(b *breaker, at func(int) time.Time) {
		for i := range 6 {
			b.done(at(i), time.Millisecond, why)
		}
	})
	f("failures between answers", false, func(b *breaker, at func(int) time.Time) {
		for i := range 40 {
			b.done(at(i), time.Millisecond, why)
			b.done(at(i), time.Millisecond, nil)
		}
	})
	f("2 % are slow for a second", true, func(b *breaker, at func(int) time.Time) {
		for i := range 1001 {
			b.done(at(i), time.Duration(1+i%50/49*29)*time.Millisecond, nil)
		}
	})
	f("1 % are slow", false, func(b *breaker, at func(int) time.Time) {
		for i := range 3001 {
			b.done(at(i), time.Duration(1+i%101/100*29)*time.Millisecond, nil)
		}
	})
	f("three slow ones of ten", false, func(b *breaker, at func(int) time.Time) {
		for i := range 30 {
			b.done(at(i*100), time.Duration(1+i%4/3*29)*time.Millisecond, nil)
		}
	})
}
