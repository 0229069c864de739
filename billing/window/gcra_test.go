package window

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"farebox/billing/calendar"
	"farebox/config"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC).UnixNano()

// at is an instant at which the wall clock and the monotonic clock agree.
func at(ns int64) Instant { return Instant{Wall: ns, Mono: ns} }

// tryWindow asks a window for one request and takes it if it is admitted.
func tryWindow(w *Window, r *config.Rate, now, tokens int64) (Refusal, bool) {
	var no Refusal
	ok := w.Check(r, at(now), calendar.DayOf(now), 1, tokens, &no)
	if ok {
		w.Commit(r, now, calendar.DayOf(now), 1, tokens)
	}
	return no, ok
}

// "The documentation says 20 requests a minute, I got 19", "or 21 at once."
func TestExactlyTheLimitPassesAtOnce(t *testing.T) {
	for _, limit := range []int64{1, 7, 20, 60, 500, 99_991} {
		for _, r := range []config.Rate{{RPM: limit}, {RPH: limit}, {RPD: limit}, {RPMon: limit}} {
			var w Window
			passed := int64(0)
			for range limit + 5 {
				if _, ok := tryWindow(&w, &r, noon, 0); ok {
					passed++
				}
			}
			if passed != limit {
				t.Errorf("%d of %d requests passed under %+v", passed, limit, r)
			}
		}
	}
}

// A request for four pictures counts as four (addendum 3.6): six of them do not fit into
// a limit of 20, and the remaining ones still serve single pictures.
func TestARequestForSeveralPicturesCountsAsSeveral(t *testing.T) {
	for name, r := range map[string]config.Rate{"RPM": {RPM: 20}, "RPH": {RPH: 20}, "RPD": {RPD: 20},
		"RPMON": {RPMon: 20}} {
		var w Window
		var no Refusal
		ask := func(n int64) bool {
			ok := w.Check(&r, at(noon), calendar.DayOf(noon), n, 0, &no)
			if ok {
				w.Commit(&r, noon, calendar.DayOf(noon), n, 0)
			}
			return ok
		}
		for i := range 4 {
			if !ask(4) {
				t.Fatalf("%s: request %d for four is refused", name, i)
			}
		}
		if !ask(1) || ask(4) || no.Limit != name || !ask(3) || ask(1) {
			t.Errorf("%s: 20 a period do not divide into 4, 4, 4, 4, 1 and 3", name)
		}
	}
	// A request above the limit passes if the window is empty.
	var w Window
	r := config.Rate{RPM: 2, RPD: 3}
	if !w.Check(&r, at(noon), calendar.DayOf(noon), 4, 0, &Refusal{}) {
		t.Error("four pictures never pass a limit of two")
	}
}

// "I waited as long as Retry-After said and was refused again."
func TestRetryAfterIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := config.Rate{
			RPM: rapid.Int64Range(0, 50).Draw(t, "rpm"), RPH: rapid.Int64Range(0, 80).Draw(t, "rph"),
			RPD: rapid.Int64Range(0, 90).Draw(t, "rpd"), RPMon: rapid.Int64Range(0, 99).Draw(t, "rpmon"),
			TPM: rapid.Int64Range(0, 5000).Draw(t, "tpm"),
		}
		now := noon
		var w Window
		for range 200 {
			tokens := rapid.Int64Range(0, 900).Draw(t, "tokens")
			no, ok := tryWindow(&w, &r, now, tokens)
			if ok {
				now += rapid.Int64Range(0, int64(time.Second)).Draw(t, "pause")
				continue
			}
			if no.RetryAfter <= 0 {
				t.Fatalf("refused by %s with retry after %s", no.Limit, no.RetryAfter)
			}
			early := now + int64(no.RetryAfter) - 1
			if w.Check(&r, at(early), calendar.DayOf(early), 1, tokens, &Refusal{}) {
				t.Fatalf("%s: a request passes before its announced wait of %s", no.Limit, no.RetryAfter)
			}
			now += int64(no.RetryAfter)
			var again Refusal
			if !w.Check(&r, at(now), calendar.DayOf(now), 1, tokens, &again) && again.Limit == no.Limit {
				t.Fatalf("%s refuses for another %s after the %s that it named", no.Limit, again.RetryAfter,
					no.RetryAfter)
			}
		}
	})
}

func TestMonthlyAndDailyCountersBeginAgainWithTheCalendar(t *testing.T) {
	var w Window
	r := config.Rate{RPD: 2, RPMon: 3}
	last := time.Date(2026, 11, 30, 23, 59, 59, 0, time.UTC).UnixNano()
	for range 2 {
		if no, ok := tryWindow(&w, &r, last, 0); !ok {
			t.Fatalf("refused by %s", no.Limit)
		}
	}
	no, ok := tryWindow(&w, &r, last, 0)
	if ok || no.Limit != "RPD" || no.RetryAfter != time.Second {
		t.Fatalf("third request of the day: passed %v, %s, retry after %s", ok, no.Limit, no.RetryAfter)
	}
	next := last + int64(time.Second)
	for i := range 2 {
		if no, ok := tryWindow(&w, &r, next, 0); !ok {
			t.Fatalf("request %d of the new day and month refused by %s", i+1, no.Limit)
		}
	}
	next += 24 * HourNs
	if no, ok := tryWindow(&w, &r, next, 0); !ok {
		t.Fatalf("third request of the month refused by %s", no.Limit)
	}
	if no, ok := tryWindow(&w, &r, next, 0); ok || no.Limit != "RPMON" ||
		time.Unix(0, no.ResetNs).UTC().Format(time.DateOnly) != "2027-01-01" {
		t.Fatalf("fourth request of the month: passed %v, %s until %s", ok, no.Limit, time.Unix(0, no.ResetNs).UTC())
	}
}

// "My request is larger than the limit, so it is refused for ever."
func TestARequestBeyondTheTokenLimitPassesAlone(t *testing.T) {
	var w Window
	r := config.Rate{TPM: 1000}
	if _, ok := tryWindow(&w, &r, noon, 5000); !ok {
		t.Fatal("refused although nothing else is in the window")
	}
	no, ok := tryWindow(&w, &r, noon, 1)
	if ok || no.Limit != "TPM" || no.RetryAfter < 4*time.Minute {
		t.Errorf("one token more: passed %v, retry after %s; the window owes 4 minutes", ok, no.RetryAfter)
	}
}

func TestTokensAreCorrectedToTheirUse(t *testing.T) {
	r := config.Rate{TPM: 1000}
	var w Window
	tryWindow(&w, &r, noon, 800)
	w.Correct(&r, noon, 800, 300)
	if got := Left(w.Tokens, noon, r.TPM, MinuteNs, MinuteNs); got != 700 {
		t.Errorf("%d tokens left after 300 of 1000 were used", got)
	}
	w.Correct(&r, noon, 300, 1500)
	if got := Left(w.Tokens, noon, r.TPM, MinuteNs, MinuteNs); got != 0 {
		t.Errorf("%d tokens left after 1500 of 1000 were used", got)
	}
	w.Correct(&r, noon, 1_000_000, 0)
	if w.Tokens != noon {
		t.Errorf("giving back more than was taken leaves the window at %d, now is %d", w.Tokens, noon)
	}
	w.Correct(&r, noon, 0, 1<<62)
	if owed := w.Tokens - noon; owed <= 0 || owed > maxDebtNs {
		t.Errorf("an absurd count leaves a debt of %s", time.Duration(owed))
	}
}

// A limit of 60 a minute let 117 pass in 58 seconds, and no setting made it fewer.
func TestNoMoreThanTheBurstPassesAtOnce(t *testing.T) {
	r := config.Rate{RPM: 60, Burst: 10}
	var w Window
	within := func(seconds int64) (passed int) {
		for at := noon; at < noon+seconds*int64(time.Second); at += int64(100 * time.Millisecond) {
			for {
				if _, ok := tryWindow(&w, &r, at, 0); !ok {
					break
				}
				passed++
			}
		}
		return passed
	}
	if n := within(1); n != 10 {
		t.Errorf("%d passed at once instead of 10", n)
	}
	w = Window{}
	if n := within(58); n != 67 { // the burst, and one with each of the 57 seconds that ended
		t.Errorf("%d passed in 58 s instead of 67", n)
	}
	q := Quota{LimitRequests: -1}
	w = Window{}
	if w.Quota(&r, at(noon), calendar.DayOf(noon), &q); q.LimitRequests != 60 || q.RemainingRequests != 10 {
		t.Errorf("the headers promise %d of %d", q.RemainingRequests, q.LimitRequests)
	}
	// A request above the burst passes alone, and then the next one waits.
	var no Refusal
	if !w.Check(&r, at(noon), calendar.DayOf(noon), 25, 0, &no) {
		t.Fatal("a request that counts as 25 never passes")
	}
	w.Commit(&r, noon, calendar.DayOf(noon), 25, 0)
	if _, ok := tryWindow(&w, &r, noon+15*int64(time.Second), 0); ok {
		t.Error("the next one passed before the taken units were back")
	}
	if no, ok := tryWindow(&w, &r, noon+16*int64(time.Second), 0); !ok {
		t.Errorf("the next one is refused for another %s", no.RetryAfter)
	}
}

// "After the clock was put right every key got 429 for five hours": waits follow the
// monotonic clock, and the times in answers follow the wall clock that clients see.
func TestClockThatIsSetMovesOnlyShownTimes(t *testing.T) {
	r := config.Rate{RPM: 1, TPM: 100}
	for _, set := range []time.Duration{0, 5 * time.Hour, -5 * time.Hour, 40 * 24 * time.Hour} {
		var w Window
		tryWindow(&w, &r, noon, 100)
		now := Instant{Wall: noon + int64(set), Mono: noon}.Add(20 * time.Second)
		var no Refusal
		if w.Check(&r, now, calendar.DayOf(now.Wall), 1, 0, &no) || no.RetryAfter != 40*time.Second ||
			no.ResetNs != now.Wall+int64(40*time.Second) {
			t.Errorf("with the clock set by %s, 20 s after the minute's only request: %+v", set, no)
		}
		q := NoQuota
		w.Quota(&r, now, calendar.DayOf(now.Wall), &q)
		if want := (Quota{LimitRequests: 1, ResetRequestsUnix: now.Wall/1e9 + 40, LimitTokens: 100, RemainingTokens: 33,
			ResetTokensSeconds: 40}); q != want {
			t.Errorf("with the clock set by %s the headers say %+v, not %+v", set, q, want)
		}
		daily := config.Rate{RPD: 1}
		day := calendar.DayOf(now.Wall)
		w.Commit(&daily, now.Mono, day, 1, 0)
		if w.Check(&daily, now, day, 1, 0, &no) || no.RetryAfter <= 0 || no.RetryAfter > 24*time.Hour ||
			no.ResetNs != int64(day+1)*DayNs {
			t.Errorf("with the clock set by %s a day's limit: %+v", set, no)
		}
	}
}
