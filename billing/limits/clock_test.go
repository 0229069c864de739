package limits

import (
	"fmt"
	"testing"
	"time"

	"farebox/billing/window"
	"farebox/config"
)

// "After the clock was put right every key got 429 for five hours": a node times the
// limits of Redis with its monotonic clock. Only the times in answers follow the
// machine's wall clock.
func TestClockThatIsSetMovesNothingThatIsKnownOfRedis(t *testing.T) {
	for _, jump := range []time.Duration{5 * time.Hour, -5 * time.Hour} {
		s := &Limits{buckets: 1}
		for i := range s.shards {
			s.shards[i].m = map[windowID]*Window{}
		}
		r := &config.Rate{RPM: 1}
		w := s.window(windowID{account: 1, slot: 1})
		before := window.Instant{Wall: noon + int64(jump), Mono: noon}
		redis := noon + int64(2*time.Minute)
		said := &answer{status: 1, nowUs: redis / 1000}
		said.windows[0].state.Minute = redis + window.MinuteNs
		w.saw(said, 0, before.Mono)
		var no window.Refusal
		if w.refused(r, said, 0, 0, before, &no); no.RetryAfter != time.Minute ||
			no.ResetNs != before.Wall+window.MinuteNs {
			t.Errorf("%s: a minute's only request was made just now: %+v", jump, no)
		}
		now := before.Add(10 * time.Millisecond)
		now.Wall -= int64(jump)
		if !w.refuses(now.Mono, 0, &no) || no.RetryAfter > time.Minute {
			t.Errorf("%s: a refusal of 10 ms ago is forgotten, or lasts %s", jump, no.RetryAfter)
		}
		left := window.NoQuota
		all := w.state(r, now.Mono, w.day(now))
		if all.Quota(r, now, w.day(now), &left); left.RemainingRequests != 0 ||
			left.ResetRequestsUnix != now.Wall/1e9+60 {
			t.Errorf("%s: the headers say %+v", jump, left)
		}
	}
}

// When Redis was away at a node's midnight, the node sends the day of Redis's clock.
func TestADaysCountGoesByRedissClock(t *testing.T) {
	const day = int64(20_000)
	midnight := day * window.DayNs
	for _, skew := range []time.Duration{2 * time.Minute, -2 * time.Minute} {
		t.Run(fmt.Sprint(skew), func(t *testing.T) {
			w := &Window{}
			redis := midnight - int64(time.Minute) // one minute before a midnight
			w.seenN, w.seenU = redis+int64(skew), redis/1000
			if got := w.day(window.Instant{Mono: w.seenN + int64(30*time.Second)}); got != int32(day-1) {
				t.Errorf("30 s before Redis's midnight it is day %d", got)
			}
			if got := w.day(window.Instant{Mono: w.seenN + int64(90*time.Second)}); got != int32(day) {
				t.Errorf("30 s after Redis's midnight it is day %d", got)
			}
		})
	}
}
