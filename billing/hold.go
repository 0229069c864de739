package billing

import (
	"sync/atomic"
	"time"

	"farebox/billing/journal"
	"farebox/billing/limits"
	"farebox/billing/money"
	"farebox/billing/replay"
	"farebox/billing/window"
	"farebox/config"
)

// Hold is money set aside for one request, from Admit until it is settled or
// voided, exactly once: a second resolve changes nothing and is counted. The
// zero value holds nothing. A Hold may be part of a pooled value, but must not
// be copied or reused (Reset) before it is resolved.
type Hold struct {
	state atomic.Uint32

	ledger     *Ledger
	key        *Key
	id         uint64       // sequence of its record in the journal
	parts      money.Parts  // the held money; guarded by the account's mutex
	day        int32        // whose DIEM and period it draws on
	regime     uint32       // of the key when it was admitted
	period     int32        // of the key's limits then
	beyond     Nano         // of parts, the amount not counted in the key's limits, see extend
	slot       int          // of the rate windows
	booked     int          // whose usage it becomes
	upstream   uint32       // that answers
	rate       *config.Rate // of the model, as admitted
	keyRate    *config.Rate
	tokens     int64
	ended      Nano  // that it held when it was resolved
	reach      Nano  // the part of Admission.Reach that could be paid for
	loose      Nano  // part of AccountState.loose
	credits    int64 // that count in the account's 24 hours; 0: none do
	creditHour int64 // in which they count
	requestID  [16]byte
	prepared   *Settlement       // of a job that it pays for; nil: of none
	windows    [2]*limits.Window // over Redis, whose tokens are corrected; nil: none

	next, prev *Hold // ring of the account's open holds
}

// States of a hold.
const (
	holdNone uint32 = iota
	holdOpen
	holdSettled
	holdVoided
)

// Settlement is how a request ended.
type Settlement struct {
	Cost      Nano
	Lines     money.Lines // the sold lines; Cost is less where not all of it is charged
	Reasoning int64       // tokens of the output that were not shown
	Model     string
	Flags     journal.Flags
	Status    int
	Took      time.Duration
	Now       window.Instant
	Tokens    int64 // used, replaces the estimate in the limit of tokens a minute
	Credits   int64 // used, replaces those of the Admission in the cap of 24 hours
}

// Open says whether the hold waits to be settled or voided.
func (h *Hold) Open() bool { return h.state.Load() == holdOpen }

// Book says whose usage the charge becomes, where that is not the model whose
// limits count.
func (h *Hold) Book(slot int) { h.booked = slot }

// From says which upstream answers, by its UpstreamNumber.
func (h *Hold) From(upstream uint32) { h.upstream = upstream }

// Granted is the held amount.
func (h *Hold) Granted() Nano {
	if !h.Open() {
		return 0
	}
	a := h.key.Account
	a.mu.Lock()
	n := h.parts.Total()
	a.mu.Unlock()
	return n
}

// Ended is the amount it held when it was resolved.
func (h *Hold) Ended() Nano { return h.ended }

// Reach is the part of the request's highest possible cost that the account and
// the key could pay for at its admission.
func (h *Hold) Reach() Nano { return h.reach }

// Extend holds more for the same request, all or nothing.
func (h *Hold) Extend(more Nano) bool {
	if more <= 0 {
		return more == 0 && h.Open()
	}
	return h.ExtendUpTo(more, more) == more
}

// ExtendUpTo holds as much of more for the same request as there is, but not
// less than least, and says how much that was: 0 where there is too little.
func (h *Hold) ExtendUpTo(more, least Nano) (got Nano) {
	if !h.Open() || more <= 0 {
		return 0
	}
	n := h.ledger.node
	if n == nil {
		return h.extend(more, least)
	}
	if !n.mayExtend() {
		return 0
	}
	if got = h.extend(more, more); got == 0 {
		got = n.extend(h, more, least)
	}
	return got
}

func (h *Hold) extend(more, least Nano) (got Nano) {
	a := h.key.Account
	a.mu.Lock()
	defer a.mu.Unlock()
	if h.state.Load() != holdOpen {
		return 0
	}
	now := h.ledger.now()
	a.roll(h.ledger.day(now))
	h.key.use.roll(a.day)
	take := a.allotMore(h, more, least)
	if got = take.Total(); got == 0 {
		return 0
	}
	rec := journal.Record{Kind: journal.Extend, TimeNs: now, Hold: h.id, Account: a.no, Held: got}
	if err := h.ledger.journal.Append(&rec, got); err != nil {
		return 0
	}
	a.give(h, &take)
	if u := h.key.use; !u.counts(h) && u.mostUSD != money.MaxCredit {
		// It belongs to a past period, and the rest of that is unknown: the cost
		// it pays is charged as debt, which no limit counts.
		h.beyond += got
	}
	if a.lease != nil {
		a.lease.took(a, more)
	}
	return got
}

// allotMore is allot for a hold that is open already. Across midnight the DIEM
// of the new day and the key's new period stay out of it: the hold belongs to
// the day in which it was opened.
func (a *AccountState) allotMore(h *Hold, more, least Nano) (take money.Parts) {
	if h.day == a.day {
		take, _ = a.allot(h.key, more, least, 0)
		return take
	}
	u := h.key.use
	if _, usd := u.room(); u.counts(h) {
		more = min(more, usd)
	}
	free := a.avail
	free[money.InDIEM] = 0
	if free.Total() < least || more < least {
		return take
	}
	return free.Take(more)
}

// Progress records the charge for the case that this process dies before the request
// is settled. Nothing is charged now.
func (h *Hold) Progress(sold *money.Lines) {
	if !h.Open() {
		return
	}
	a := h.key.Account
	a.mu.Lock()
	defer a.mu.Unlock()
	if h.state.Load() != holdOpen {
		return
	}
	rec := h.record(journal.Progress, &Settlement{Lines: *sold, Now: h.ledger.at(),
		Flags: journal.FlagIncomplete | journal.FlagEstimated})
	h.foresee(&rec, sold.Cost())
	// Without room in the journal the request is voided after a crash instead.
	_ = h.ledger.journal.Append(&rec, 0)
}

// foresee puts the charge and debt of this moment into a record.
func (h *Hold) foresee(r *journal.Record, cost Nano) {
	r.Amounts = h.chargeable(cost)
	r.Debt = max(0, min(cost-r.Amounts.Total(), maxDebt-h.key.Account.owed()))
}

// chargeable is the part of cost that the held money pays.
func (h *Hold) chargeable(cost Nano) money.Parts {
	held := h.parts
	return held.Take(min(cost, h.most()))
}

// most is the highest cost that the held money can pay.
func (h *Hold) most() Nano { return h.parts.Total() - h.beyond }

// limited is the part of the held money that was taken from the key's limits.
func (h *Hold) limited() money.Parts {
	p, rest := h.parts, h.beyond
	for i := len(p) - 1; i >= 0 && rest > 0; i-- {
		take := min(rest, p[i])
		p[i] -= take
		rest -= take
	}
	return p
}

// Foresee says how a charge of cost would be divided: DIEM, and all other currencies. ok is
// false where it goes beyond the held money: the currency of the rest is known once it is
// settled.
func (h *Hold) Foresee(cost Nano) (diem, usd Nano, ok bool) {
	if !h.Open() {
		return 0, 0, false
	}
	a := h.key.Account
	a.mu.Lock()
	p := h.chargeable(max(0, cost))
	a.mu.Unlock()
	diem, usd = p.ByLimit()
	return diem, usd, p.Total() == max(0, cost)
}

// SettleKept charges a request that has an idempotency key exactly when its
// answer is kept, also across kill -9: a commit in two steps, with the kept
// answer as its decision. The charge is prepared in the journal, then the answer
// is kept, then the charge is made. A process that dies in between finds the
// prepared charge at its next start and asks whether the answer was kept
// (recoverHolds). A request that has ended already stays as it is.
func (h *Hold) SettleKept(s Settlement, lead *replay.Lead, a *replay.Answer) (charged, owed Nano) {
	if lead.Ended() {
		return 0, 0
	}
	if h.prepared != nil {
		// Its job has decided already, and stays when the answer cannot be kept.
		charged, owed = h.Settle(s)
		lead.KeepCharged(h.id, a)
		return charged, owed
	}
	s.Flags |= journal.FlagKeyed
	h.prepare(&s)
	if !lead.Keep(h.id, a) {
		h.Void(s.Now)
		return 0, 0
	}
	return h.Settle(s)
}

// prepare records the charge of a keyed request that is about to be kept.
func (h *Hold) prepare(s *Settlement) {
	if !h.Open() {
		return
	}
	l, a := h.ledger, h.key.Account
	a.mu.Lock()
	rec := h.record(journal.Progress, s)
	h.foresee(&rec, max(0, s.Cost))
	// Without room in the journal the request is not charged after a crash.
	err := l.journal.Append(&rec, 0)
	a.mu.Unlock()
	if err == nil && l.journal.Power {
		l.journal.Wait(rec.Seq)
	}
}

// Settle charges the request. Its cost beyond the hold comes from the account's
// balance, as far as the key's limits go; the account owes the uncovered
// part from now on (debt.go). A hold that is resolved already stays as it is.
func (h *Hold) Settle(s Settlement) (charged, owed Nano) {
	if !h.state.CompareAndSwap(holdOpen, holdSettled) {
		h.again()
		return 0, 0
	}
	l, a := h.ledger, h.key.Account
	covered := Nano(0)
	if l.node != nil {
		covered = l.node.cover(h, s.Cost)
	}
	a.mu.Lock()
	a.roll(l.day(s.Now.Wall))
	h.key.use.roll(a.day)
	held := h.parts.Total()
	if h.prepared != nil {
		s.Cost = min(s.Cost, h.most())
	}
	rec := h.record(journal.Settle, &s)
	h.ended = held
	rec.Amounts, rec.Debt = a.charge(h, max(0, s.Cost))
	a.giveBack(h)
	h.key.use.tally.Add(s.Now.Wall)
	h.resolve(a, s.Now.Mono, s.Tokens, s.Credits)
	err := l.journal.Append(&rec, -held)
	a.lastSeq = rec.Seq
	if rec.Debt > 0 && err == nil {
		a.owe(&rec)
	}
	if a.owes() {
		a.pay(s.Now)
	}
	a.mu.Unlock()
	if covered > 0 {
		a.wait(h.key, -covered)
	}
	if err != nil {
		l.unrecorded(err)
	}
	if l.journal.Power {
		l.journal.Wait(rec.Seq)
	}
	return rec.Amounts.Total(), rec.Debt
}

// Void ends the hold without a charge. One whose job is there all the same is settled
// as it was prepared: the owner of the job goes on with it. Where the ledger is closed
// before this is known, its next start decides.
func (h *Hold) Void(now window.Instant) {
	undecided := false
	if h.prepared != nil && h.Open() {
		sold, err := h.ledger.Jobs().sold(h)
		if sold {
			s := *h.prepared
			s.Now = now
			h.Settle(s)
			return
		}
		undecided = err != nil
	}
	if !h.state.CompareAndSwap(holdOpen, holdVoided) {
		h.again()
		return
	}
	l, a := h.ledger, h.key.Account
	a.mu.Lock()
	a.roll(l.day(now.Wall))
	held := h.parts.Total()
	h.ended = held
	a.giveBack(h)
	h.resolve(a, now.Mono, 0, 0)
	rec := journal.Record{Kind: journal.Void, TimeNs: l.written(now), Hold: h.id, Account: a.no}
	var err error
	if !undecided {
		err = l.journal.Append(&rec, -held)
	}
	if a.owes() {
		a.pay(now)
	}
	a.mu.Unlock()
	if err != nil {
		l.unrecorded(err)
	}
}

// Reset makes the hold ready for its next use. One that is still open was
// forgotten: it is voided, so that its money comes back, and counted.
func (h *Hold) Reset() {
	if h.Open() {
		h.ledger.leak(h)
	}
	h.state.Store(holdNone)
	h.ledger, h.key, h.rate, h.keyRate = nil, nil, nil, nil
	h.credits, h.prepared, h.ended, h.upstream = 0, nil, 0, 0
}

// resolve takes the hold off its account and corrects the windows; now is of
// Instant.Mono.
func (h *Hold) resolve(a *AccountState, now, tokens, credits int64) {
	a.loose -= h.loose
	if h.credits > 0 {
		a.credits.Correct(h.creditHour, h.credits, credits, now)
		h.credits = 0
	}
	if h.rate != nil {
		if w := a.window(h.slot); w != nil {
			w.Correct(h.rate, now, h.tokens, tokens)
		}
	}
	if h.keyRate != nil {
		h.key.use.window.Correct(h.keyRate, now, h.tokens, tokens)
	}
	if h.windows != ([2]*limits.Window{}) {
		h.ledger.redis.Correct(&h.windows, h.rate, h.keyRate, now, tokens-h.tokens)
	}
	a.unlink(h)
	if a.lease != nil {
		a.lease.freed(a)
	}
}

// record is a settlement or progress of this hold, without amounts.
func (h *Hold) record(kind uint8, s *Settlement) journal.Record {
	flags := s.Flags
	if h.prepared != nil {
		flags |= journal.FlagJob
	}
	return journal.Record{
		Kind: kind, Flags: flags, TimeNs: h.ledger.written(s.Now), Hold: h.id, Account: h.key.Account.no,
		Key:   uint32(h.key.No),
		Model: modelNo(h.booked), Upstream: h.upstream, Day: h.day, RequestID: h.requestID, Lines: s.Lines, Reasoning: s.Reasoning,
		Status: uint16(s.Status), TookMs: uint32(s.Took / time.Millisecond),
	}
}

func (h *Hold) again() {
	if h.ledger != nil && h.state.Load() != holdNone {
		h.ledger.twice.Add(1)
	}
}
