package billing

import (
	"farebox/billing/limits"
	"farebox/billing/window"
	"farebox/config"
)

// Count checks and counts n requests, at most 8, in a window of an account beside that
// of a request that was admitted: of what the request has done besides. Nothing is held,
// and the limits of the key have counted the request already. One that is refused has
// used nothing.
func (l *Ledger) Count(k *Key, slot int, r *config.Rate, n int64, now window.Instant) Denial {
	if r == nil || slot < 0 {
		return Denial{}
	}
	a := Admission{Key: k, Slot: slot, Rate: r, Requests: n, Now: now}
	if l.redis == nil {
		return l.count(&a)
	}
	if d := l.refusesHere(&a, nil); d.Code != Admitted {
		return d
	}
	var no window.Refusal
	var permits [mostRequests]limits.Permit
	q := l.overall(k, slot, r, nil, now)
	q.Requests = a.requests()
	taken, verdict := l.redis.Take(permits[:], &q, &no)
	switch verdict {
	case limits.AccountFull, limits.KeyFull:
		return denied(&no, scopeAccount)
	case limits.Away:
		return Denial{Code: LimitsAway, RetryAfter: no.RetryAfter}
	}
	d := l.count(&a)
	if d.Code != Admitted {
		l.redis.GiveBack(permits[:taken])
		return d
	}
	l.redis.OweRest(&permits[0], q.Requests-int64(taken))
	return d
}

// count is Count with what this node knows.
func (l *Ledger) count(a *Admission) Denial {
	acct := a.Key.Account
	acct.mu.Lock()
	defer acct.mu.Unlock()
	day := max(acct.day, l.day(a.Now.Wall))
	w := acct.window(a.Slot)
	var no window.Refusal
	if !w.Check(a.Rate, a.Now, day, a.requests(), 0, &no) {
		return denied(&no, scopeAccount)
	}
	w.Commit(a.Rate, a.Now.Mono, day, a.requests(), 0)
	return Denial{}
}
