package billing

import (
	"time"

	"farebox/billing/journal"
	"farebox/billing/limits"
	"farebox/billing/money"
	"farebox/billing/window"
	"farebox/config"
)

// Admission has the demands of a request that is not yet sent upstream.
type Admission struct {
	Key          *Key
	Slot         int          // of the model, from Ledger.ModelNumber
	Rate         *config.Rate // of the model's tier; nil: none
	Hold         Nano         // the expected cost of the request
	Min          Nano         // the smallest hold that is still of use; equal to Hold: all or nothing
	Reach        Nano         // its highest possible cost, where Hold grows with the answer; 0: Hold
	Loose        Nano         // part of Hold that counting exactly would lower; 0: it was counted
	Tokens       int64        // estimate for the limit of tokens a minute
	Requests     int64        // how many requests it counts as, at most 8; 0: 1
	Credits      int64        // blockchain credits that it may cost; they count where DailyCredits is not 0
	DailyCredits int64        // credits of the account in 24 hours; 0: any number
	Floor        Nano         // the balance it needs, where that is more than the operator's minimum
	Now          window.Instant
	RequestID    [16]byte
	Stream       bool
}

// DenialCode is why a request is not admitted.
type DenialCode uint8

// The ways a request can be denied.
const (
	Admitted            DenialCode = iota
	RateRequests                   // too many requests
	RateTokens                     // too many tokens
	InsufficientBalance            // the account cannot pay
	KeyLimitUSD                    // the key's USD limit of this period is used up
	KeyLimitDIEM                   // the key's DIEM limit of this period is used up
	JournalFull                    // nothing can be recorded, so nothing may be sold
	LimitsAway                     // Redis is away, and the policy is to let nothing through
	StoreAway                      // the shared store does not answer, and this node has leased too little
	NodeFenced                     // another process has become this node
	RateCredits                    // too many blockchain credits in 24 hours
	InDebt                         // the account owes for earlier requests
	CountFirst                     // Loose is a noticeable part of the balance: count and ask again
	BelowMinimum                   // the account has less than the operator's minimum
)

// OfMoney says that the account or the key cannot pay.
func (c DenialCode) OfMoney() bool {
	return c >= InsufficientBalance && c <= KeyLimitDIEM || c == BelowMinimum
}

// Denial is the answer of Admit; its zero value means admitted.
type Denial struct {
	Code       DenialCode
	Limit      string // RPM RPH RPD RPMON TPM; of RateCredits RPD
	Scope      string // user (the account) or api_key
	RetryAfter time.Duration
	Allowed    int64 // units of the limit a window
	Remaining  int64
	Reset      time.Time
	Owed       Nano     // of InDebt, in USD
	Short      Shortage // of InDebt, and where Code is OfMoney
}

// Scopes of a limit (addendum 3.6, x-ratelimit-type).
const (
	scopeAccount = "user"
	scopeKey     = "api_key"
)

// Admit checks rate windows, key limits and balance together, and when all of
// them let the request through takes from all of them and opens h. A denied
// request has used nothing.
func (l *Ledger) Admit(h *Hold, a *Admission) Denial {
	if l.redis != nil {
		return l.admitOverall(h, a)
	}
	return l.admit(h, a)
}

// admitOverall is Admit where Redis has the limits of all nodes. The node's own
// windows refuse first, without a call, requests beyond this node's own use.
func (l *Ledger) admitOverall(h *Hold, a *Admission) Denial {
	keyRate := l.keyRate.Load()
	if d := l.refusesHere(a, keyRate); d.Code != Admitted {
		return d
	}
	if a.requests() > 1 {
		return l.admitSeveral(h, a, keyRate)
	}
	var one [1]limits.Permit
	return l.admitWith(one[:], h, a, keyRate)
}

// admitSeveral is admitOverall for a request that counts as several; a function
// of its own, so that others do not pay for its stack.
func (l *Ledger) admitSeveral(h *Hold, a *Admission, keyRate *config.Rate) Denial {
	var list [mostRequests]limits.Permit
	return l.admitWith(list[:], h, a, keyRate)
}

func (l *Ledger) admitWith(permits []limits.Permit, h *Hold, a *Admission, keyRate *config.Rate) Denial {
	var refusal window.Refusal
	q := l.overall(a.Key, a.Slot, a.Rate, keyRate, a.Now)
	q.Requests, q.Tokens = a.requests(), a.Tokens
	n, verdict := l.redis.Take(permits, &q, &refusal)
	switch verdict {
	case limits.AccountFull:
		return denied(&refusal, scopeAccount)
	case limits.KeyFull:
		return denied(&refusal, scopeKey)
	case limits.Away:
		return Denial{Code: LimitsAway, RetryAfter: refusal.RetryAfter}
	}
	d := l.admit(h, a)
	if d.Code != Admitted {
		l.redis.GiveBack(permits[:n])
		return d
	}
	l.redis.OweRest(&permits[0], q.Requests-int64(n))
	h.windows = permits[0].Windows()
	return d
}

// overall is the demand of a request on the windows of all nodes.
func (l *Ledger) overall(k *Key, slot int, r, keyRate *config.Rate, now window.Instant) limits.Request {
	return limits.Request{Account: k.Account.no, Slot: slot, Key: k.No, Model: r, KeyRate: keyRate, Now: now}
}

// refusesHere asks only the windows of this node.
func (l *Ledger) refusesHere(a *Admission, keyRate *config.Rate) Denial {
	acct := a.Key.Account
	acct.mu.Lock()
	defer acct.mu.Unlock()
	day := max(acct.day, l.day(a.Now.Wall))
	var refusal window.Refusal
	if a.Rate != nil {
		if w := acct.window(a.Slot); w != nil && !w.Check(a.Rate, a.Now, day, a.requests(), a.Tokens, &refusal) {
			return denied(&refusal, scopeAccount)
		}
	}
	if keyRate != nil && !a.Key.use.window.Check(keyRate, a.Now, day, a.requests(), a.Tokens, &refusal) {
		return denied(&refusal, scopeKey)
	}
	return Denial{}
}

// mostRequests is how many requests one can count as: one for each picture.
const mostRequests = 8

func (a *Admission) requests() int64 { return min(max(a.Requests, 1), mostRequests) }

// admit is Admit on this node's own state.
func (l *Ledger) admit(h *Hold, a *Admission) Denial {
	if h.state.Load() == holdOpen {
		l.leak(h)
	}
	d, short := l.admitHere(h, a, false)
	if short {
		return l.node.admit(h, a)
	}
	return d
}

// admitHere is admit on the state in memory. On a shared store it may be short of
// money that is elsewhere, and has then done nothing, unless it is final.
func (l *Ledger) admitHere(h *Hold, a *Admission, final bool) (d Denial, short bool) {
	k := a.Key
	acct := k.Account
	if l.node != nil {
		if code := l.node.closed(); code != Admitted {
			return Denial{Code: code, RetryAfter: time.Second}, false
		}
	}
	day := l.day(a.Now.Wall)
	keyRate := l.keyRate.Load()

	acct.mu.Lock()
	acct.roll(day)
	day = acct.day
	k.use.roll(day)
	if a.Hold > 0 && acct.owes() {
		acct.pay(a.Now)
		if owed := acct.owed(); owed > 0 {
			d = acct.shortage(k, InDebt, a.Min)
			d.Owed = owed
			acct.mu.Unlock()
			return d, acct.lease != nil && !final
		}
	}
	var model *window.Window
	if a.Rate != nil {
		model = acct.window(a.Slot)
	}
	var refusal window.Refusal
	if model != nil && !model.Check(a.Rate, a.Now, day, a.requests(), a.Tokens, &refusal) {
		acct.mu.Unlock()
		return denied(&refusal, scopeAccount), false
	}
	if keyRate != nil && !k.use.window.Check(keyRate, a.Now, day, a.requests(), a.Tokens, &refusal) {
		acct.mu.Unlock()
		return denied(&refusal, scopeKey), false
	}
	counted := a.DailyCredits > 0 && a.Credits > 0
	if counted {
		if acct.credits == nil {
			acct.credits = &window.Hours{}
		}
		if !acct.credits.Check(a.Credits, l.creditCap(a.DailyCredits), a.Now, &refusal) {
			acct.mu.Unlock()
			d = denied(&refusal, scopeAccount)
			d.Code = RateCredits
			return d, false
		}
	}
	var take money.Parts
	if a.Loose > 0 && (acct.loose+a.Loose) > acct.free(l.nodes())/looseShare {
		acct.mu.Unlock()
		return Denial{Code: CountFirst}, false
	}
	if a.Hold > 0 {
		var code DenialCode
		floor := max(Nano(l.floor.Load()), a.Floor)
		take, code = acct.allot(k, a.Hold, a.Min, floor)
		if acct.lease != nil && !final && acct.short(k, &take, a.Hold) {
			acct.mu.Unlock()
			return Denial{Code: code}, true
		}
		if code != Admitted {
			needed := min(max(a.Min, 1), a.Hold)
			if code == BelowMinimum {
				needed = max(needed, floor)
			}
			d = acct.shortage(k, code, needed)
			acct.mu.Unlock()
			return d, false
		}
	}
	rec := journal.Record{Kind: journal.Hold, TimeNs: l.written(a.Now), Account: acct.no, Key: uint32(k.No),
		Held: take.Total()}
	if err := l.journal.Append(&rec, rec.Held); err != nil {
		acct.mu.Unlock()
		return Denial{Code: JournalFull}, false
	}
	if model != nil {
		model.Commit(a.Rate, a.Now.Mono, day, a.requests(), a.Tokens)
	}
	if keyRate != nil {
		k.use.window.Commit(keyRate, a.Now.Mono, day, a.requests(), a.Tokens)
	}
	h.ledger, h.key, h.id, h.day, h.regime = l, k, rec.Hold, day, k.use.regime
	h.slot, h.booked, h.rate, h.keyRate, h.tokens, h.requestID = a.Slot, a.Slot, a.Rate, keyRate, a.Tokens, a.RequestID
	h.windows = [2]*limits.Window{}
	h.reach, h.loose = a.Hold, a.Loose
	if a.Reach > a.Hold {
		h.reach = acct.affordable(k, a.Reach)
	}
	acct.loose += a.Loose
	if counted {
		h.credits, h.creditHour = a.Credits, acct.credits.Commit(a.Credits)
	}
	h.parts, h.beyond, h.period = money.Parts{}, 0, k.use.quota.period
	acct.give(h, &take)
	acct.link(h)
	h.state.Store(holdOpen)
	if acct.lease != nil {
		acct.lease.took(acct, a.Hold)
	}
	acct.mu.Unlock()
	return Denial{}, false
}

// creditCap is this node's part of a cap.
func (l *Ledger) creditCap(most int64) int64 {
	if l.node != nil {
		most /= max(1, l.node.live.Load())
	}
	return most
}

// allot finds the amounts that a hold of up to want can take, in spend order. It changes
// nothing. A key's limit never makes a request change its currency: money that
// the limit keeps back ends the hold there (design.md 7), unless the operator
// lets DIEM fall through to the others.
func (a *AccountState) allot(k *Key, want, least, floor Nano) (take money.Parts, code DenialCode) {
	if a.balance() < floor {
		return take, BelowMinimum
	}
	diem, usd := k.use.room()
	return a.divide(&a.avail, diem, usd, want, least)
}

// looseShare of an account's free money may be held for prompts that were
// bounded and not counted: all of them together, so that at most this part of a
// spent balance is ever refused while it is there.
const looseShare = 64

// free is the part of the account's free money that this node may count on.
func (a *AccountState) free(nodes int64) Nano {
	elsewhere := a.elsewhere()
	return (a.avail.Total() + elsewhere.Total()) / Nano(nodes)
}

// affordable is how much of want the account and the key could pay for now.
func (a *AccountState) affordable(k *Key, want Nano) Nano {
	all, diem, usd := a.everywhere(k.use)
	take, _ := a.divide(&all, diem, usd, want, 1)
	return take.Total()
}

// divide is allot for given money and the rest of the key's limits.
func (a *AccountState) divide(from *money.Parts, diem, usd, want, least Nano) (take money.Parts, code DenialCode) {
	least = min(max(least, 1), want)
	code = InsufficientBalance
	rest := want
	for i := range take {
		can, limit := from[i], KeyLimitUSD
		room := &usd
		if i == money.InDIEM {
			limit, room = KeyLimitDIEM, &diem
		}
		take[i] = min(rest, can, *room)
		rest -= take[i]
		*room -= take[i]
		if rest > 0 && take[i] < can && (i != money.InDIEM || !a.ledger.keyFallthrough.Load()) {
			code = limit
			break
		}
	}
	if want-rest < least {
		return money.Parts{}, code
	}
	return take, Admitted
}

// denied is the answer to a request that a window does not let through.
func denied(refusal *window.Refusal, scope string) Denial {
	code := RateRequests
	if refusal.Limit == "TPM" {
		code = RateTokens
	}
	return Denial{
		Code: code, Limit: refusal.Limit, Scope: scope, Allowed: refusal.Allowed, Remaining: refusal.Remaining,
		RetryAfter: refusal.RetryAfter, Reset: time.Unix(0, refusal.ResetNs),
	}
}

// BalanceAt is the spendable money of the key's account for a request that began at a
// time (Unix ns). On a shared store it has the money elsewhere as of a second ago at most
// while the account is in use.
func (k *Key) BalanceAt(nowNs int64) (p money.Parts) {
	a := k.Account
	day := a.ledger.day(nowNs)
	a.mu.Lock()
	a.roll(day)
	if a.lease != nil {
		p = a.elsewhere()
	}
	p.Add(&a.avail)
	a.mu.Unlock()
	return p
}

// Quota fills q for a model: of its limits and those of the key over all
// models, whichever has less left.
func (k *Key) Quota(slot int, r *config.Rate, now window.Instant, q *window.Quota) {
	*q = window.NoQuota
	a := k.Account
	day := a.ledger.day(now.Wall)
	a.mu.Lock()
	if r != nil && slot >= 0 {
		a.window(slot).Quota(r, now, day, q)
	}
	keyRate := a.ledger.keyRate.Load()
	if keyRate != nil {
		k.use.window.Quota(keyRate, now, day, q)
	}
	a.mu.Unlock()
	if l := a.ledger; l.redis != nil {
		all := l.overall(k, slot, r, keyRate, now)
		l.redis.Quota(&all, q)
	}
}

// HasRoom says that the limits of the key leave a part of the account's money
// to spend.
func (k *Key) HasRoom(nowNs int64) bool {
	a := k.Account
	day := a.ledger.day(nowNs)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.roll(day)
	k.use.roll(a.day)
	have, diem, usd := a.everywhere(k.use)
	haveDIEM, haveUSD := have.ByLimit()
	return min(haveDIEM, diem) > 0 || min(haveUSD, usd) > 0
}

// Count checks and counts n requests, at most 8, in a window of an account other than that
// of a request that was admitted: of the request's further work. Nothing is held,
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
	var refusal window.Refusal
	var permits [mostRequests]limits.Permit
	q := l.overall(k, slot, r, nil, now)
	q.Requests = a.requests()
	taken, verdict := l.redis.Take(permits[:], &q, &refusal)
	switch verdict {
	case limits.AccountFull, limits.KeyFull:
		return denied(&refusal, scopeAccount)
	case limits.Away:
		return Denial{Code: LimitsAway, RetryAfter: refusal.RetryAfter}
	}
	d := l.count(&a)
	if d.Code != Admitted {
		l.redis.GiveBack(permits[:taken])
		return d
	}
	l.redis.OweRest(&permits[0], q.Requests-int64(taken))
	return d
}

// count is Count on this node's own state.
func (l *Ledger) count(a *Admission) Denial {
	acct := a.Key.Account
	acct.mu.Lock()
	defer acct.mu.Unlock()
	day := max(acct.day, l.day(a.Now.Wall))
	w := acct.window(a.Slot)
	var refusal window.Refusal
	if !w.Check(a.Rate, a.Now, day, a.requests(), 0, &refusal) {
		return denied(&refusal, scopeAccount)
	}
	w.Commit(a.Rate, a.Now.Mono, day, a.requests(), 0)
	return Denial{}
}
