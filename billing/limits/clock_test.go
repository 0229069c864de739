package limits

import (
	"fmt"
	"testing"
	"time"

	"farebox/billing/window"
)

// "After the clock was put right every key got 429 for five hours": what a node
// remembers of limits that Redis keeps goes with its clock.
func TestClockThatIsSetMovesWhatIsKnownOfRedis(t *testing.T) {
	for _, jump := range []time.Duration{5 * time.Hour, -5 * time.Hour} {
		s := &Limits{buckets: 1}
		for i := range s.shards {
			s.shards[i].m = map[windowID]*Window{}
		}
		before := noon
		w := s.window(windowID{account: 1, slot: 1})
		w.full, w.fullUntil = window.Refusal{Limit: "RPM", RetryAfter: time.Second}, before+fullFor
		w.permits, w.leased = 7, before
		gap := int64(10 * time.Millisecond)
		now := before + int64(jump) + gap
		s.Shift(&window.Step{By: int64(jump), Now: now, Gap: gap})
		var no window.Refusal
		if !w.refuses(now, 0, &no) || no.RetryAfter > time.Second {
			t.Errorf("%s: a refusal of 10 ms ago is forgotten, or lasts %s", jump, no.RetryAfter)
		}
		if w.refuses(now+fullFor, 0, &no) {
			t.Errorf("%s: a refusal outlives its time", jump)
		}
		if w.expire(now, false); w.permits != 7 {
			t.Errorf("%s: permits of 10 ms ago went back", jump)
		}
		if w.expire(now+leaseLife, false); w.permits != 0 {
			t.Errorf("%s: permits stay beyond their time", jump)
		}
		if s.lostNs.Load() != 0 {
			t.Errorf("%s: a loss that never was is at %d", jump, s.lostNs.Load())
		}
		s.lostNs.Store(before)
		s.Shift(&window.Step{By: int64(jump), Now: now, Gap: gap})
		if lost := s.lostNs.Load(); lost > now || now-lost > gap {
			t.Errorf("%s: a loss of 10 ms ago is %s ago", jump, time.Duration(now-lost))
		}
	}
}

// A Redis that was away at a node's midnight is told the day that it is there.
func TestADaysCountGoesByRedissClock(t *testing.T) {
	const day = int64(20_000)
	midnight := day * window.DayNs
	for _, skew := range []time.Duration{2 * time.Minute, -2 * time.Minute} {
		t.Run(fmt.Sprint(skew), func(t *testing.T) {
			w := &Window{}
			redis := midnight - int64(time.Minute) // one minute before a midnight
			w.seenN, w.seenU = redis+int64(skew), redis/1000
			if got := w.day(w.seenN + int64(30*time.Second)); got != int32(day-1) {
				t.Errorf("30 s before Redis's midnight it is day %d", got)
			}
			if got := w.day(w.seenN + int64(90*time.Second)); got != int32(day) {
				t.Errorf("30 s after Redis's midnight it is day %d", got)
			}
		})
	}
}
