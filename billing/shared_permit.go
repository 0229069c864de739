package billing

import (
	"errors"
	"time"

	"farebox/billing/window"
	"farebox/config"
)

// permit is what a request has of the shared windows: of its account and
// model, and of its key.
type permit struct {
	n       int
	windows [2]*sharedWindow
	rates   [2]*config.Rate
	scopes  [2]string
	asks    [2]ask
	refills [2]chan struct{} // of leases that this request asks for
	tokens  int64
	nowNs   int64
}

func (p *permit) add(w *sharedWindow, r *config.Rate, scope string) {
	p.windows[p.n], p.rates[p.n], p.scopes[p.n] = w, r, scope
	p.n++
}

// Locks are taken in this order everywhere: a key has one account.
func (p *permit) lock() {
	for i := range p.n {
		p.windows[i].mu.Lock()
	}
}

func (p *permit) unlock() {
	for i := range p.n {
		p.windows[i].mu.Unlock()
	}
}

// undo gives back what was taken from leases; all windows are locked.
func (p *permit) undo() {
	for i := range p.n {
		p.windows[i].undo(&p.asks[i], p.tokens)
		p.asks[i] = ask{}
	}
}

// admit is Ledger.Admit with shared limits.
func (s *sharedLimits) admit(h *Hold, a *Admission) Denial {
	l := s.ledger
	keyRate := l.keyRate.Load()
	if d := l.refusesHere(a, keyRate); d.Code != Admitted {
		return d
	}
	if a.requests() > 1 {
		return s.admitSeveral(h, a, keyRate)
	}
	var p permit
	if d := s.take(&p, a, keyRate); d.Code != Admitted {
		s.stats.refused.Add(1)
		return d
	}
	d := l.admit(h, a)
	if d.Code != Admitted {
		s.giveBack(&p)
		return d
	}
	h.shared = p.windows
	return d
}

// admitSeveral is admit for a request that counts as several: it takes that
// many permits, or none. The tokens are all the first one's. As in memory, what
// counts as more than may ever come at once passes when there is room for as
// much as may, and the rest is owed by those who come after.
func (s *sharedLimits) admitSeveral(h *Hold, a *Admission, keyRate *config.Rate) (d Denial) {
	var list [mostRequests]permit
	taken, want := 0, a.requests()
	for _, r := range []*config.Rate{a.Rate, keyRate} {
		if r == nil {
			continue
		}
		atOnce, _ := window.Burst(r)
		for _, limit := range []int64{atOnce, r.RPH, r.RPD, r.RPMon} {
			if limit > 0 {
				want = min(want, limit) // more than that would never pass
			}
		}
	}
	for one := *a; taken < int(want); taken++ {
		if d = s.take(&list[taken], &one, keyRate); d.Code != Admitted {
			s.stats.refused.Add(1)
			break
		}
		one.Tokens = 0
	}
	if d.Code == Admitted {
		d = s.ledger.admit(h, a)
	}
	if d.Code != Admitted {
		for i := range taken {
			s.giveBack(&list[i])
		}
		return d
	}
	s.oweRest(&list[0], a.requests()-want)
	h.shared = list[0].windows
	return d
}

// oweRest has Redis told of requests that passed without a permit.
func (s *sharedLimits) oweRest(p *permit, requests int64) {
	if requests <= 0 {
		return
	}
	p.lock()
	defer p.unlock()
	for i := range p.n {
		p.windows[i].owe(p.rates[i], requests, 0, p.windows[i].day(p.nowNs))
		s.later(p.windows[i])
	}
}

// refusesHere asks only the windows of this node.
func (l *Ledger) refusesHere(a *Admission, keyRate *config.Rate) Denial {
	acct := a.Key.Account
	acct.mu.Lock()
	defer acct.mu.Unlock()
	day := max(acct.day, l.day(a.NowNs))
	var no window.Refusal
	if a.Rate != nil {
		if w := acct.window(a.Slot); w != nil && !w.Check(a.Rate, a.NowNs, day, a.requests(), a.Tokens, &no) {
			return denied(&no, scopeAccount)
		}
	}
	if keyRate != nil && !a.Key.use.window.Check(keyRate, a.NowNs, day, a.requests(), a.Tokens, &no) {
		return denied(&no, scopeKey)
	}
	return Denial{}
}

// take takes a permit of every window that limits the request, or of none.
func (s *sharedLimits) take(p *permit, a *Admission, keyRate *config.Rate) Denial {
	p.tokens, p.nowNs = max(0, a.Tokens), a.NowNs
	acct := a.Key.Account
	if a.Rate != nil && *a.Rate != (config.Rate{}) && a.Slot >= 0 {
		p.add(s.window(windowID{account: acct.no, slot: int32(a.Slot)}), a.Rate, scopeAccount)
	}
	if keyRate != nil && *keyRate != (config.Rate{}) {
		p.add(s.window(windowID{account: acct.no, slot: -1, key: a.Key.No}), keyRate, scopeKey)
	}
	if p.n == 0 {
		return Denial{}
	}
	for waits := 0; ; {
		again, d := s.try(p, &waits)
		if !again {
			return d
		}
	}
}

// try spends from leases what it can and asks Redis for the rest.
func (s *sharedLimits) try(p *permit, waits *int) (again bool, _ Denial) {
	var no window.Refusal
	p.lock()
	for i := range p.n {
		if p.windows[i].refuses(p.nowNs, p.tokens, &no) {
			p.unlock()
			return false, denied(&no, p.scopes[i])
		}
	}
	asking := false
	for i := range p.n {
		w := p.windows[i]
		p.asks[i] = w.prepare(p.rates[i], p.tokens)
		if !p.asks[i].asks() {
			continue
		}
		asking = true
		if wait := w.refill; wait != nil && p.asks[i].lease && *waits < leaseWaits {
			p.undo()
			p.unlock()
			*waits++
			s.await(wait)
			return true, Denial{}
		}
	}
	if !asking {
		s.ahead(p)
		p.unlock()
		return false, Denial{}
	}
	if s.breaker.open.Load() {
		d := s.alone(p, s.lostNs.Load(), false)
		p.unlock()
		return false, d
	}
	for i := range p.n {
		lost := p.windows[i].bucket.lostNs.Load()
		if !p.windows[i].bucket.settling(p.nowNs) || s.away != awayShare || !p.asks[i].asks() {
			continue
		}
		part := &p.windows[i].part
		if !part.check(p.rates[i], p.nowNs, lost, s.nodes.Load(), p.tokens, &no) {
			p.undo()
			p.unlock()
			return false, denied(&no, p.scopes[i])
		}
		part.commit(p.rates[i], p.nowNs, lost, s.nodes.Load(), p.tokens)
		p.asks[i].want, p.asks[i].tokenMore = min(p.asks[i].want, 1), 0
	}
	return s.ask(p)
}

// ask asks Redis; the windows come locked.
func (s *sharedLimits) ask(p *permit) (again bool, _ Denial) {
	var asked [2]int // which windows are in the call
	n := 0
	for i := range p.n {
		if p.asks[i].asks() {
			asked[n] = i
			n++
			if w := p.windows[i]; p.asks[i].lease && w.refill == nil {
				p.refills[i] = make(chan struct{})
				w.refill = p.refills[i]
			}
			p.windows[i].correct(&p.asks[i])
		}
	}
	p.unlock()

	var a answer
	err := s.call(p, asked[:n], &a)

	p.lock()
	defer p.unlock()
	for _, i := range asked[:n] {
		p.windows[i].refilled(p.refills[i])
		p.refills[i] = nil
	}
	var no window.Refusal
	switch {
	case err != nil:
		sent := !errors.Is(err, errNotSent)
		for _, i := range asked[:n] {
			if !sent {
				p.windows[i].uncorrect(&p.asks[i])
			}
			s.later(p.windows[i])
		}
		return false, s.alone(p, p.nowNs, sent)
	case a.status == statusLost:
		// Nothing was done. The next try restores what this node knows.
		for _, i := range asked[:n] {
			p.windows[i].uncorrect(&p.asks[i])
		}
		p.undo()
		s.dataLost(p.windows[0].bucket, a.epoch, p.nowNs)
		return true, Denial{}
	}
	for at, i := range asked[:n] {
		p.windows[i].saw(p.rates[i], &a, at, p.nowNs)
	}
	if a.status != statusTaken {
		i := asked[a.status-1]
		p.windows[i].refused(p.rates[i], &a, a.status-1, p.tokens, p.nowNs, &no)
		p.undo()
		return false, denied(&no, p.scopes[i])
	}
	for at, i := range asked[:n] {
		w := p.windows[i]
		w.store(p.rates[i], &a, at, min(1, p.asks[i].want), p.nowNs)
		if w.permits > 0 || w.tokens > 0 {
			s.stats.leases.Add(1)
			s.later(w)
		}
	}
	return false, Denial{}
}

// call sends the asks of some windows of p and keeps the breaker informed.
func (s *sharedLimits) call(p *permit, asked []int, a *answer) error {
	b := p.windows[0].bucket
	keys := make([]any, 1, 3)
	keys[0] = b.epochKey
	blob := appendDoubles(make([]byte, 0, (1+len(asked)*askDoubles)*8), float64(b.known()))
	for _, i := range asked {
		keys = append(keys, p.windows[i].key)
		blob = p.asks[i].append(blob)
	}
	return s.send(b, keys, blob, a)
}

func (s *sharedLimits) send(b *bucket, keys []any, blob []byte, a *answer) error {
	s.stats.calls.Add(1)
	begin := time.Now()
	err := s.client.call(s.code, keys, blob, a)
	end := time.Now()
	s.breaker.done(end, end.Sub(begin), err)
	if err != nil {
		s.stats.errors.Add(1)
		return err
	}
	if a.status != statusLost {
		b.learn(a.epoch)
	}
	return nil
}

// await waits for a lease that somebody else asks for.
func (s *sharedLimits) await(wait chan struct{}) {
	t := time.NewTimer(s.client.timeout)
	defer t.Stop()
	select {
	case <-wait:
	case <-t.C:
	}
}

// alone decides without Redis; the windows come locked. sent says that Redis
// may have taken what it was asked for: it is not told again.
func (s *sharedLimits) alone(p *permit, enteredNs int64, sent bool) Denial {
	s.stats.alone.Add(1)
	var no window.Refusal
	switch s.away {
	case awayClosed:
		p.undo()
		return Denial{Code: LimitsAway, RetryAfter: breakerProbe}
	case awayShare:
		nodes := s.nodes.Load()
		for i := range p.n {
			w, r := p.windows[i], p.rates[i]
			if !p.asks[i].asks() {
				continue
			}
			day := w.day(p.nowNs)
			all := w.state(r, p.nowNs, day)
			if !all.Check(r, p.nowNs, day, 1, p.tokens, &no) || !w.part.check(r, p.nowNs, enteredNs, nodes, p.tokens, &no) {
				p.undo()
				return denied(&no, p.scopes[i])
			}
		}
		for i := range p.n {
			if p.asks[i].asks() {
				p.windows[i].part.commit(p.rates[i], p.nowNs, enteredNs, nodes, p.tokens)
			}
		}
	}
	for i := range p.n {
		a := &p.asks[i]
		if !a.asks() || sent {
			continue
		}
		permits, tokens := int64(0), int64(0)
		if a.want > 0 {
			permits = 1
		}
		if a.tokenTake > 0 {
			tokens = p.tokens
		}
		p.windows[i].owe(p.rates[i], permits, tokens, p.windows[i].day(p.nowNs))
		s.later(p.windows[i])
	}
	return Denial{}
}

// giveBack returns what a request took that was denied afterwards.
func (s *sharedLimits) giveBack(p *permit) {
	p.lock()
	defer p.unlock()
	for i := range p.n {
		w, r := p.windows[i], p.rates[i]
		permits, tokens := int64(0), int64(0)
		if counts(r) {
			permits = 1
		}
		if r.TPM > 0 {
			tokens = p.tokens
		}
		if size, _ := leaseOf(r); size > 1 {
			w.rate, w.leased = *r, p.nowNs
			w.permits += permits
			w.tokens += tokens
		} else {
			w.giveBack(r, permits, tokens)
		}
		s.later(w)
	}
}

// correct replaces the estimate of tokens by what a request used.
func (s *sharedLimits) correct(h *Hold, nowNs, tokens int64) {
	more := tokens - h.tokens
	if more == 0 {
		return
	}
	for i, w := range h.shared {
		r := h.rate
		if i == 1 || w != nil && w.id.slot < 0 {
			r = h.keyRate
		}
		if w == nil || r == nil || r.TPM <= 0 {
			continue
		}
		w.mu.Lock()
		w.owe(r, 0, more, 0)
		if s.breaker.open.Load() {
			w.part.correct(r, nowNs, s.nodes.Load(), more)
		}
		s.later(w)
		w.mu.Unlock()
	}
}
