package window

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// No 24 hours ever have more credits than the cap, and a request that waits for
// Retry-After is admitted.
func TestCreditsOfAnyDayStayWithinTheCap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.Int64Range(1, 200).Draw(t, "cap")
		type event struct{ at, credits int64 }
		var all []event
		var c Hours
		now, latest := noon, noon
		for range 150 {
			n := rapid.Int64Range(1, most).Draw(t, "credits")
			var no Refusal
			if !c.Check(n, most, at(now), &no) {
				if no.RetryAfter <= 0 || no.RetryAfter > 26*time.Hour || // a clock may be set back a little
					no.Allowed != most || no.Remaining >= n {
					t.Fatalf("%d credits are refused with %+v", n, no)
				}
				if rapid.Bool().Draw(t, "impatient") {
					now += rapid.Int64Range(0, int64(no.RetryAfter)).Draw(t, "some of it")
					continue
				}
				if now += int64(no.RetryAfter); !c.Check(n, most, at(now), &no) {
					t.Fatalf("%d credits are refused again after the Retry-After", n)
				}
			}
			taken, hour := n, c.Commit(n)
			if rapid.Bool().Draw(t, "gives back") {
				n = rapid.Int64Range(0, n).Draw(t, "used")
				c.Correct(hour, taken, n, now)
			}
			latest = max(latest, now) // a clock that was set back counts as standing still
			all = append(all, event{latest, n})
			sum := int64(0)
			for _, e := range all {
				if latest-e.at < DayNs {
					sum += e.credits
				}
			}
			if sum > most {
				t.Fatalf("%d credits in 24 hours under a cap of %d", sum, most)
			}
			now += rapid.Int64Range(-int64(time.Minute), 5*HourNs).Draw(t, "pause")
		}
	})
}
