package billing

import (
	"math/bits"
	"time"

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
		if month := monthOf(day); w.month == month && w.inMonth+min(n, r.RPMon) > r.RPMon {
			end := int64(firstDay(month+1)) * dayNs
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
		if month := monthOf(day); w.month != month {
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
	no.limit, no.allowed, no.resetNs = limit, allowed, resetNs
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

// dayOf is the UTC day of a time, counted from 1970-01-01.
func dayOf(ns int64) int32 { return int32(ns / dayNs) }

// monthOf is the UTC month of a day, counted from 1970-01.
func monthOf(day int32) int32 {
	y, m, _ := civil(day)
	return (y-1970)*12 + m - 1
}

// firstDay is the first day of a month of monthOf.
func firstDay(month int32) int32 {
	t := time.Date(1970+int(month/12), time.Month(month%12+1), 1, 0, 0, 0, 0, time.UTC)
	return int32(t.Unix() / 86400)
}

// civil is the calendar date of a day counted from 1970-01-01 (the days-to-civil
// algorithm of Howard Hinnant, which needs no table and no time.Time).
func civil(day int32) (y, m, d int32) {
	z := day + 719468
	era := z / 146097
	doe := z - era*146097
	yoe := (doe - doe/1460 + doe/36524 - doe/146096) / 365
	doy := doe - (365*yoe + yoe/4 - yoe/100)
	mp := (5*doy + 2) / 153
	d = doy - (153*mp+2)/5 + 1
	m = mp + 3
	if m > 12 {
		m -= 12
	}
	y = yoe + era*400
	if m <= 2 {
		y++
	}
	return y, m, d
}

// dateNumber is a day as it stands in the store: 20261121.
func dateNumber(day int32) int64 {
	y, m, d := civil(day)
	return int64(y)*10000 + int64(m)*100 + int64(d)
}
