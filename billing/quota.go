package billing

import (
	"time"

	"farebox/billing/calendar"
	"farebox/config"
)

// Quota is the state of the limits that a request ran under, for its answer's
// headers. A limit of -1 is none.
type Quota struct {
	LimitRequests, RemainingRequests, ResetRequestsUnix int64
	LimitTokens, RemainingTokens, ResetTokensSeconds    int64
}

// noQuota is the quota of a request without limits.
var noQuota = Quota{LimitRequests: -1, LimitTokens: -1}

// quota narrows q to this window where it has less left.
func (w *window) quota(r *config.Rate, now int64, day int32, q *Quota) {
	requests := func(limit, remaining, resetNs int64) {
		if q.LimitRequests < 0 || remaining < q.RemainingRequests {
			q.LimitRequests, q.RemainingRequests = limit, remaining
			q.ResetRequestsUnix = ceilDiv(max(resetNs, now), int64(time.Second))
		}
	}
	if r.RPM > 0 {
		_, ahead := burst(r)
		requests(r.RPM, left(w.minute, now, r.RPM, minuteNs, ahead), w.minute)
	}
	if r.RPH > 0 {
		requests(r.RPH, left(w.hour, now, r.RPH, hourNs, hourNs), w.hour)
	}
	if r.RPD > 0 {
		used := int64(0)
		if w.day == day {
			used = w.inDay
		}
		requests(r.RPD, max(0, r.RPD-used), int64(day+1)*dayNs)
	}
	if r.RPMon > 0 {
		used, month := int64(0), calendar.MonthOf(day)
		if w.month == month {
			used = w.inMonth
		}
		requests(r.RPMon, max(0, r.RPMon-used), int64(calendar.FirstDay(month+1))*dayNs)
	}
	if r.TPM > 0 {
		if remaining := left(w.tokens, now, r.TPM, minuteNs, minuteNs); q.LimitTokens < 0 || remaining < q.RemainingTokens {
			q.LimitTokens, q.RemainingTokens = r.TPM, remaining
			q.ResetTokensSeconds = ceilDiv(max(0, w.tokens-now), int64(time.Second))
		}
	}
}

func ceilDiv(a, b int64) int64 { return (a + b - 1) / b }
