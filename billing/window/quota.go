package window

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

// NoQuota is the quota of a request without limits.
var NoQuota = Quota{LimitRequests: -1, LimitTokens: -1}

// Quota narrows q to this window where it has less left.
func (w *Window) Quota(r *config.Rate, now Instant, day int32, q *Quota) {
	requests := func(limit, remaining, resetNs int64) {
		if q.LimitRequests < 0 || remaining < q.RemainingRequests {
			q.LimitRequests, q.RemainingRequests = limit, remaining
			q.ResetRequestsUnix = ceilDiv(max(resetNs, now.Wall), int64(time.Second))
		}
	}
	if r.RPM > 0 {
		_, ahead := Burst(r)
		requests(r.RPM, Left(w.Minute, now.Mono, r.RPM, MinuteNs, ahead), now.WallAt(w.Minute))
	}
	if r.RPH > 0 {
		requests(r.RPH, Left(w.Hour, now.Mono, r.RPH, HourNs, HourNs), now.WallAt(w.Hour))
	}
	if r.RPD > 0 {
		used := int64(0)
		if w.Day == day {
			used = w.InDay
		}
		requests(r.RPD, max(0, r.RPD-used), int64(day+1)*DayNs)
	}
	if r.RPMon > 0 {
		used, month := int64(0), calendar.MonthOf(day)
		if w.Month == month {
			used = w.InMonth
		}
		requests(r.RPMon, max(0, r.RPMon-used), int64(calendar.FirstDay(month+1))*DayNs)
	}
	if r.TPM > 0 {
		if remaining := Left(w.Tokens, now.Mono, r.TPM, MinuteNs, MinuteNs); q.LimitTokens < 0 ||
			remaining < q.RemainingTokens {
			q.LimitTokens, q.RemainingTokens = r.TPM, remaining
			q.ResetTokensSeconds = ceilDiv(max(0, w.Tokens-now.Mono), int64(time.Second))
		}
	}
}

func ceilDiv(a, b int64) int64 { return (a + b - 1) / b }
