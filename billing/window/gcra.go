package window

import (
	"math/bits"
	"time"

	"farebox/billing/calendar"
	"farebox/config"
)

// Periods in nanoseconds.
const (
	MinuteNs = int64(time.Minute)
	HourNs   = int64(time.Hour)
	DayNs    = int64(24 * time.Hour)
)

// maxDebtNs bounds how far into the future a window can be charged, so that an
// absurd token count neither overflows nor blocks a key for years.
const maxDebtNs = 24 * HourNs

// Window is one account's use of one model, or one key of all models.
//
// Minutes and hours are GCRA with a burst of the whole limit, unless the config
// says less for a minute: the state is the theoretical arrival time, "used up
// to then". A caller that used nothing for a period gets its whole limit at once and
// the part that becomes free meanwhile, twice the limit within the first period at most.
// Days and months are counters that begin again with the UTC calendar.
type Window struct {
	Minute, Hour, Tokens int64 // theoretical arrival times, Instant.Mono
	Day, Month           int32 // which day and month the counters below are for
	InDay, InMonth       int64
}

// Refusal is why a window does not let a request through.
type Refusal struct {
	Limit      string
	Allowed    int64
	Remaining  int64
	RetryAfter time.Duration
	ResetNs    int64 // of the wall clock
}

// Check says whether something that counts as n requests may pass; it changes
// nothing. As with tokens, a request for more than the whole limit passes when
// nothing else is in the window: refusing it would refuse it for ever.
func (w *Window) Check(r *config.Rate, now Instant, day int32, n, tokens int64, refusal *Refusal) bool {
	most, ahead := Burst(r)
	if ask := min(n, most); ask > 0 && !fits(w.Minute, now.Mono, ask, r.RPM, MinuteNs, ahead) {
		return refusal.After("RPM", r.RPM, now, w.Minute+Span(ask, r.RPM, MinuteNs)-ahead, w.Minute)
	}
	if ask := min(n, r.RPH); ask > 0 && !fits(w.Hour, now.Mono, ask, r.RPH, HourNs, HourNs) {
		return refusal.After("RPH", r.RPH, now, w.Hour+Span(ask, r.RPH, HourNs)-HourNs, w.Hour)
	}
	if r.RPD > 0 && w.Day == day && w.InDay+min(n, r.RPD) > r.RPD {
		end := int64(day+1) * DayNs
		return refusal.Until("RPD", r.RPD, now.Wall, end, end)
	}
	if r.RPMon > 0 {
		if month := calendar.MonthOf(day); w.Month == month && w.InMonth+min(n, r.RPMon) > r.RPMon {
			end := int64(calendar.FirstDay(month+1)) * DayNs
			return refusal.Until("RPMON", r.RPMon, now.Wall, end, end)
		}
	}
	if r.TPM > 0 && tokens > 0 {
		if ask := min(tokens, r.TPM); !fits(w.Tokens, now.Mono, ask, r.TPM, MinuteNs, MinuteNs) {
			return refusal.After("TPM", r.TPM, now, w.Tokens+Span(ask, r.TPM, MinuteNs)-MinuteNs, w.Tokens)
		}
	}
	return true
}

// Commit takes the use that Check allowed; now is of Instant.Mono.
func (w *Window) Commit(r *config.Rate, now int64, day int32, n, tokens int64) {
	if r.RPM > 0 {
		w.Minute = max(w.Minute, now) + Span(n, r.RPM, MinuteNs)
	}
	if r.RPH > 0 {
		w.Hour = max(w.Hour, now) + Span(n, r.RPH, HourNs)
	}
	if r.RPD > 0 {
		if w.Day != day {
			w.Day, w.InDay = day, 0
		}
		w.InDay += n
	}
	if r.RPMon > 0 {
		if month := calendar.MonthOf(day); w.Month != month {
			w.Month, w.InMonth = month, 0
		}
		w.InMonth += n
	}
	if r.TPM > 0 && tokens > 0 {
		w.Tokens = max(w.Tokens, now) + Span(tokens, r.TPM, MinuteNs)
	}
}

// Correct replaces an estimate of tokens by the real use. More may go past
// the burst; less is given back, but never below now, which is of Instant.Mono.
func (w *Window) Correct(r *config.Rate, now, estimate, actual int64) {
	if r.TPM <= 0 {
		return
	}
	switch {
	case actual > estimate:
		w.Tokens = max(w.Tokens, now) + Span(actual-estimate, r.TPM, MinuteNs)
	case actual < estimate && w.Tokens > now:
		w.Tokens = max(now, w.Tokens-Span(estimate-actual, r.TPM, MinuteNs))
	}
}

// Until fills in a refusal; all times are of one clock.
func (r *Refusal) Until(limit string, allowed, now, retryNs, resetNs int64) bool {
	r.Limit, r.Allowed, r.Remaining, r.ResetNs = limit, allowed, 0, resetNs
	r.RetryAfter = time.Duration(max(0, retryNs-now))
	return false
}

// After is Until for times of Instant.Mono.
func (r *Refusal) After(limit string, allowed int64, now Instant, retry, reset int64) bool {
	return r.Until(limit, allowed, now.Wall, now.WallAt(retry), now.WallAt(reset))
}

// Burst is how many requests of the minute's limit may come at once, and how
// far ahead of now their time of arrival may be.
func Burst(r *config.Rate) (most, aheadNs int64) {
	if r.Burst <= 0 || r.Burst >= r.RPM {
		return r.RPM, MinuteNs
	}
	return r.Burst, Span(r.Burst, r.RPM, MinuteNs)
}

// fits says whether n more units bring the time of arrival no further ahead of
// now than ahead.
func fits(tat, now, n, limit, period, ahead int64) bool {
	return max(tat, now)+Span(n, limit, period)-now <= ahead
}

// Span is the time for n units of a limit of limit a period.
func Span(n, limit, period int64) int64 {
	hi, lo := bits.Mul64(uint64(n), uint64(period))
	if hi >= uint64(limit) {
		return maxDebtNs
	}
	q, _ := bits.Div64(hi, lo, uint64(limit))
	return int64(min(q, uint64(maxDebtNs)))
}

// Left is how many units of a GCRA window are free, whose time of arrival may be
// ahead of now.
func Left(tat, now, limit, period, ahead int64) int64 {
	free := ahead - max(0, tat-now)
	if free <= 0 {
		return 0
	}
	hi, lo := bits.Mul64(uint64(free), uint64(limit))
	q, _ := bits.Div64(hi, lo, uint64(period))
	return int64(q)
}

// Units is how many units of a limit a time is worth.
func Units(ns, limit, period int64) int64 {
	hi, lo := bits.Mul64(uint64(ns), uint64(limit))
	if hi >= uint64(period) {
		return 0
	}
	q, _ := bits.Div64(hi, lo, uint64(period))
	return int64(q)
}
