package billing

import (
	"math/bits"
	"time"

	"farebox/billing/calendar"
	"farebox/config"
)

const (
	minuteNs = int64(time.Minute)
	hourNs   = int64(time.Hour)
	dayNs    = int64(24 * time.Hour)
)

// maxDebtNs bounds how far into the future a window can be charged, so that an
// absurd token count neither overflows nor blocks a key for years.
const maxDebtNs = 24 * hourNs

// window is what one account used of one model, or one key of all models. The
// account's mutex guards it.
//
// Minutes and hours are GCRA with a burst of the whole limit, unless the config
// says less for a minute: the state is the theoretical arrival time, "used up
// to then". Who has used nothing for a period gets its whole limit at once and
// what becomes free meanwhile, twice the limit within the first period at most. Days and months are counters
// that begin again with the UTC calendar (notes: limits).
type window struct {
	minute, hour, tokens int64 // theoretical arrival times, Unix ns
	day, month           int32 // which day and month the counters below are for
	inDay, inMonth       int64
}

// refusal is why a window does not let a request through.
type refusal struct {
	limit      string
	allowed    int64
	remaining  int64
	retryAfter time.Duration
	resetNs    int64
}

// check says whether something that counts as n requests may pass; it changes
// nothing. Like tokens, what counts as more than the whole limit passes when
// nothing else is in the window: refusing it would refuse it for ever.
func (w *window) check(r *config.Rate, now int64, day int32, n, tokens int64, no *refusal) bool {
	most, ahead := burst(r)
	if ask := min(n, most); ask > 0 && !fits(w.minute, now, ask, r.RPM, minuteNs, ahead) {
		return no.until("RPM", r.RPM, now, w.minute+cost(ask, r.RPM, minuteNs)-ahead, w.minute)
	}
	if ask := min(n, r.RPH); ask > 0 && !fits(w.hour, now, ask, r.RPH, hourNs, hourNs) {
		return no.until("RPH", r.RPH, now, w.hour+cost(ask, r.RPH, hourNs)-hourNs, w.hour)
	}
	if r.RPD > 0 && w.day == day && w.inDay+min(n, r.RPD) > r.RPD {
		end := int64(day+1) * dayNs
		return no.until("RPD", r.RPD, now, end, end)
	}
	if r.RPMon > 0 {
		if month := calendar.MonthOf(day); w.month == month && w.inMonth+min(n, r.RPMon) > r.RPMon {
			end := int64(calendar.FirstDay(month+1)) * dayNs
			return no.until("RPMON", r.RPMon, now, end, end)
		}
	}
	if r.TPM > 0 && tokens > 0 {
		if ask := min(tokens, r.TPM); !fits(w.tokens, now, ask, r.TPM, minuteNs, minuteNs) {
			return no.until("TPM", r.TPM, now, w.tokens+cost(ask, r.TPM, minuteNs)-minuteNs, w.tokens)
		}
	}
	return true
}

// commit takes what check allowed.
func (w *window) commit(r *config.Rate, now int64, day int32, n, tokens int64) {
	if r.RPM > 0 {
		w.minute = max(w.minute, now) + cost(n, r.RPM, minuteNs)
	}
	if r.RPH > 0 {
		w.hour = max(w.hour, now) + cost(n, r.RPH, hourNs)
	}
	if r.RPD > 0 {
		if w.day != day {
			w.day, w.inDay = day, 0
		}
		w.inDay += n
	}
	if r.RPMon > 0 {
		if month := calendar.MonthOf(day); w.month != month {
			w.month, w.inMonth = month, 0
		}
		w.inMonth += n
	}
	if r.TPM > 0 && tokens > 0 {
		w.tokens = max(w.tokens, now) + cost(tokens, r.TPM, minuteNs)
	}
}

// correct replaces an estimate of tokens by what was used. More may go past
// the burst; less is given back, but never below now.
func (w *window) correct(r *config.Rate, now, estimate, actual int64) {
	if r.TPM <= 0 {
		return
	}
	switch {
	case actual > estimate:
		w.tokens = max(w.tokens, now) + cost(actual-estimate, r.TPM, minuteNs)
	case actual < estimate && w.tokens > now:
		w.tokens = max(now, w.tokens-cost(estimate-actual, r.TPM, minuteNs))
	}
}

func (no *refusal) until(limit string, allowed, now, retryNs, resetNs int64) bool {
	no.limit, no.allowed, no.remaining, no.resetNs = limit, allowed, 0, resetNs
	no.retryAfter = time.Duration(max(0, retryNs-now))
	return false
}

// burst is how many requests of the minute's limit may come at once, and how
// far ahead of now their time of arrival may be.
func burst(r *config.Rate) (most, aheadNs int64) {
	if r.Burst <= 0 || r.Burst >= r.RPM {
		return r.RPM, minuteNs
	}
	return r.Burst, cost(r.Burst, r.RPM, minuteNs)
}

// fits says whether n more units bring the time of arrival no further ahead of
// now than ahead.
func fits(tat, now, n, limit, period, ahead int64) bool {
	return max(tat, now)+cost(n, limit, period)-now <= ahead
}

// cost is the time that n units of a limit of limit a period stand for.
func cost(n, limit, period int64) int64 {
	hi, lo := bits.Mul64(uint64(n), uint64(period))
	if hi >= uint64(limit) {
		return maxDebtNs
	}
	q, _ := bits.Div64(hi, lo, uint64(limit))
	return int64(min(q, uint64(maxDebtNs)))
}

// left is how many units of a GCRA window are free, whose time of arrival may be
// ahead of now.
func left(tat, now, limit, period, ahead int64) int64 {
	free := ahead - max(0, tat-now)
	if free <= 0 {
		return 0
	}
	hi, lo := bits.Mul64(uint64(free), uint64(limit))
	q, _ := bits.Div64(hi, lo, uint64(period))
	return int64(q)
}

// unitsIn is how many units of a limit a time stands for.
func unitsIn(ns, limit, period int64) int64 {
	hi, lo := bits.Mul64(uint64(ns), uint64(limit))
	if hi >= uint64(period) {
		return 0
	}
	q, _ := bits.Div64(hi, lo, uint64(period))
	return int64(q)
}
