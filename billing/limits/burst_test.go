package limits

import (
	_ "embed"
	"testing"
	"time"

	"farebox/bench/servers"
	"farebox/billing/calendar"
	"farebox/billing/window"
	"farebox/config"
)

// "burst was refused together with Redis: each node let the whole minute through at
// once." Nodes that share Redis let as many through at once as one node without Redis,
// and a refused request gets the same wait.
func TestNodesTogetherLetOnlyTheBurstThroughAtOnce(t *testing.T) {
	t.Parallel()
	server := servers.StartRedis(t)
	// A permit returns every ten seconds, so none returns during the test.
	rate := &config.Rate{RPM: 6, Burst: 3}
	nodes := [2]*Limits{openLimits(t, server), openLimits(t, server)}
	slot := 0
	for name, counts := range map[string][]int64{
		"one by one":           {1, 1, 1, 1, 1},
		"two at once":          {2, 1, 1},
		"more than the burst":  {5, 1, 2},
		"more than the minute": {8, 1},
		"too many, then what there is still room": {2, 3, 1, 1},
	} {
		slot++
		var memory window.Window
		for i, count := range counts {
			now := now()
			// A node's unreported use reaches Redis with its next call or by itself.
			for _, n := range nodes {
				n.sync(false)
			}
			var list [8]Permit
			var no, noHere window.Refusal
			n := nodes[i%2]
			taken, verdict := n.Take(list[:], &Request{Account: 1, Slot: slot, Model: rate, Requests: count, Now: now},
				&no)
			if verdict == Taken {
				n.OweRest(&list[0], count-int64(taken))
			}
			here := memory.Check(rate, now, calendar.DayOf(now.Wall), count, 0, &noHere)
			if here {
				memory.Commit(rate, now.Mono, calendar.DayOf(now.Wall), count, 0)
			}
			if (verdict == Taken) != here {
				t.Errorf("%s: question %d for %d ends with %d on nodes, with %v in memory", name, i, count, verdict,
					here)
			}
			// For several requests, nodes name the wait for the first that is missing.
			if apart := no.RetryAfter - noHere.RetryAfter; count == 1 && apart.Abs() > 3*time.Second {
				t.Errorf("%s: question %d for %d waits %s on nodes, %s in memory", name, i, count, no.RetryAfter,
					noHere.RetryAfter)
			}
		}
	}
}

// A slice is idle while it waits, so it is a small part of the burst.
func TestASliceIsASmallPartOfABurst(t *testing.T) {
	t.Parallel()
	for _, f := range []struct{ burst, want int64 }{{0, 100}, {60_000, 100}, {1000, 100}, {500, 50}, {100, 10}, {99, 1},
		{1, 1}} {
		if got, _ := sliceOf(&config.Rate{RPM: 60_000, Burst: f.burst}); got != f.want {
			t.Errorf("a slice of a burst of %d has %d permits, want %d", f.burst, got, f.want)
		}
	}
	client := limitsOf(t, servers.StartRedis(t))
	a := askFor(&config.Rate{RPM: 60, Burst: 7}, 50, 0, 0)
	var got answer
	err := client.call(productionCode, []any{"{0}:w"}, a.append(nil), &got)
	if err != nil || got.windows[0].granted != 7 {
		t.Errorf("%d permits of a burst of 7, %v", got.windows[0].granted, err)
	}
}

// limitsBeforeBurst is the script of the releases that had no burst.
//
//go:embed testdata/before_burst.lua
var limitsBeforeBurst string

// While nodes are upgraded one after the other, both scripts count in the same windows.
// Neither misreads the other's values.
func TestNodesOfBeforeBurstCountInTheSameWindows(t *testing.T) {
	t.Parallel()
	client := limitsOf(t, servers.StartRedis(t))
	before := newScriptCode(limitsBeforeBurst)
	keys := []any{"{0}:w"}
	rate := &config.Rate{RPM: 60, RPH: 100, RPD: 20, RPMon: 30, TPM: 1_000_000}
	for i := range 21 {
		a := askFor(rate, 1, 10, 0)
		var got answer
		var err error
		if i%2 == 0 {
			err = client.call(productionCode, keys, a.append(nil), &got)
		} else {
			// It asks about an epoch too, and names it after the status.
			blob := appendDoubles(nil, 0, 0, float64(a.want), float64(a.minuteOne), a.minuteUnit,
				float64(a.hourOne), a.hourUnit, float64(a.dayLimit), float64(a.monthLimit),
				float64(a.tokenFit), float64(a.tokenTake), float64(a.tokenMore))
			var text string
			text, err = client.client.Eval(t.Context(), before.script, []string{"{0}:epoch", "{0}:w"}, blob).Text()
			if err == nil {
				err = readAnswer(text[:8]+text[16:], 1, &got)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		w := &got.windows[0]
		want := int64(min(i+1, 20))
		if w.state.InDay != want || w.state.InMonth != want || (got.status == statusTaken) != (i < 20) {
			t.Fatalf("after %d requests by both: status %d, %+v", i+1, got.status, *w)
		}
	}
	// Twenty are in the minute: about ten of a burst of 30 are left.
	a := askFor(&config.Rate{RPM: 60, Burst: 30}, 60, 0, 0)
	var got answer
	if err := client.call(productionCode, keys, a.append(nil), &got); err != nil {
		t.Fatal(err)
	}
	if n := got.windows[0].granted; n < 10 || n >= 30 {
		t.Errorf("%d of a burst of 30 are left after 20", n)
	}
}
