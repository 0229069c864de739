package limits

import (
	"errors"
	"time"

	"farebox/billing/window"
	"farebox/config"
)

// Permit is a request's part of the windows of all nodes: of its account and
// model, and of its key.
type Permit struct {
	n       int
	windows [2]*Window
	rates   [2]*config.Rate
	full    [2]Verdict // the verdict if that window refuses
	asks    [2]ask
	refills [2]chan struct{} // of slices that this request asks for
	tokens  int64
	now     window.Instant
}

func (p *Permit) add(w *Window, r *config.Rate, full Verdict) {
	p.windows[p.n], p.rates[p.n], p.full[p.n] = w, r, full
	p.n++
}

// Locks are taken in this order everywhere: a key has one account.
func (p *Permit) lock() {
	for i := range p.n {
		p.windows[i].mu.Lock()
	}
}

func (p *Permit) unlock() {
	for i := range p.n {
		p.windows[i].mu.Unlock()
	}
}

// undo gives back permits and tokens taken from slices; all windows are locked.
func (p *Permit) undo() {
	for i := range p.n {
		p.windows[i].undo(&p.asks[i], p.tokens)
		p.asks[i] = ask{}
	}
}

// Verdict is the answer to a request.
type Verdict uint8

// The ways a request can be answered.
const (
	Taken       Verdict = iota
	AccountFull         // a limit of the account and model refuses
	KeyFull             // a limit of the key refuses
	Away                // Redis is away, and the policy is to let nothing through
)

// Take takes a permit for each request that q counts as, at most for len(list),
// or none, and gives how many it took; no says why it did not. The tokens are all
// the first one's. As in memory, a request that counts as more than the limit
// passes when there is room for the whole limit, and the rest is owed by those that
// come after: see OweRest.
func (s *Limits) Take(list []Permit, q *Request, refusal *window.Refusal) (taken int, v Verdict) {
	one := *q
	for want := q.atOnce(len(list)); taken < want; taken++ {
		if v = s.take(&list[taken], &one, refusal); v != Taken {
			s.stats.refused.Add(1)
			s.GiveBack(list[:taken])
			return 0, v
		}
		one.Tokens = 0
	}
	return taken, Taken
}

// atOnce is how many permits a request may take at once.
func (q *Request) atOnce(most int) int {
	want := min(q.Requests, int64(most))
	if want == 1 {
		return 1
	}
	for _, r := range []*config.Rate{q.Model, q.KeyRate} {
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
	return int(want)
}

// OweRest has Redis told of requests that passed without a permit.
func (s *Limits) OweRest(p *Permit, requests int64) {
	if requests <= 0 {
		return
	}
	p.lock()
	defer p.unlock()
	for i := range p.n {
		p.windows[i].owe(p.rates[i], requests, 0, p.windows[i].day(p.now))
		s.later(p.windows[i])
	}
}

// take takes a permit of every window that limits the request, or of none.
func (s *Limits) take(p *Permit, q *Request, refusal *window.Refusal) Verdict {
	p.tokens, p.now = max(0, q.Tokens), q.Now
	if q.Model != nil && *q.Model != (config.Rate{}) && q.Slot >= 0 {
		p.add(s.window(q.model()), q.Model, AccountFull)
	}
	if q.KeyRate != nil && *q.KeyRate != (config.Rate{}) {
		p.add(s.window(q.key()), q.KeyRate, KeyFull)
	}
	if p.n == 0 {
		return Taken
	}
	for waits := 0; ; {
		again, v := s.try(p, &waits, refusal)
		if !again {
			return v
		}
	}
}

// try spends from slices where it can and asks Redis for the rest.
func (s *Limits) try(p *Permit, waits *int, refusal *window.Refusal) (again bool, _ Verdict) {
	p.lock()
	for i := range p.n {
		if p.windows[i].refuses(p.now.Mono, p.tokens, refusal) {
			p.unlock()
			return false, p.full[i]
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
		if wait := w.refill; wait != nil && p.asks[i].slice && *waits < sliceWaits {
			p.undo()
			p.unlock()
			*waits++
			s.await(wait)
			return true, Taken
		}
	}
	if !asking {
		s.ahead(p)
		p.unlock()
		return false, Taken
	}
	if s.breaker.open.Load() {
		d := s.alone(p, s.lostNs.Load(), false, refusal)
		p.unlock()
		return false, d
	}
	return false, s.askRedis(p, refusal)
}

// askRedis asks Redis; the windows come locked.
func (s *Limits) askRedis(p *Permit, refusal *window.Refusal) Verdict {
	var asked [2]int // which windows are in the call
	n := 0
	for i := range p.n {
		if p.asks[i].asks() {
			asked[n] = i
			n++
			if w := p.windows[i]; p.asks[i].slice && w.refill == nil {
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
	if err != nil {
		sent := !errors.Is(err, errNotSent)
		for _, i := range asked[:n] {
			if !sent {
				p.windows[i].uncorrect(&p.asks[i])
			}
			s.later(p.windows[i])
		}
		return s.alone(p, p.now.Mono, sent, refusal)
	}
	for at, i := range asked[:n] {
		p.windows[i].saw(&a, at, p.now.Mono)
	}
	if a.status != statusTaken {
		i := asked[a.status-1]
		p.windows[i].refused(p.rates[i], &a, a.status-1, p.tokens, p.now, refusal)
		p.undo()
		return p.full[i]
	}
	for at, i := range asked[:n] {
		w := p.windows[i]
		w.store(p.rates[i], &a, at, min(1, p.asks[i].want), p.now.Mono)
		if w.permits > 0 || w.tokens > 0 {
			s.stats.slices.Add(1)
			s.later(w)
		}
	}
	return Taken
}

// call sends the asks of some windows of p and keeps the breaker informed.
func (s *Limits) call(p *Permit, asked []int, a *answer) error {
	keys := make([]any, 0, 2)
	blob := make([]byte, 0, len(asked)*askDoubles*8)
	for _, i := range asked {
		keys = append(keys, p.windows[i].key)
		blob = p.asks[i].append(blob)
	}
	return s.send(keys, blob, a)
}

func (s *Limits) send(keys []any, blob []byte, a *answer) error {
	s.stats.calls.Add(1)
	begin := time.Now()
	err := s.client.call(s.code, keys, blob, a)
	end := time.Now()
	s.breaker.done(end, end.Sub(begin), err)
	if err != nil {
		s.stats.errors.Add(1)
	}
	return err
}

// await waits for a slice that another request asks for.
func (s *Limits) await(wait chan struct{}) {
	t := time.NewTimer(s.client.timeout)
	defer t.Stop()
	select {
	case <-wait:
	case <-t.C:
	}
}

// alone decides without Redis; the windows come locked. sent says that Redis
// may have taken the permits: the request is not repeated.
func (s *Limits) alone(p *Permit, enteredNs int64, sent bool, refusal *window.Refusal) Verdict {
	s.stats.alone.Add(1)
	switch s.away {
	case awayClosed:
		p.undo()
		*refusal = window.Refusal{RetryAfter: breakerProbe}
		return Away
	case awayShare:
		nodes := s.nodes.Load()
		for i := range p.n {
			w, r := p.windows[i], p.rates[i]
			if !p.asks[i].asks() {
				continue
			}
			day := w.day(p.now)
			all := w.state(r, p.now.Mono, day)
			if !all.Check(r, p.now, day, 1, p.tokens, refusal) || !w.part.check(r, p.now, enteredNs, nodes, p.tokens, refusal) {
				p.undo()
				return p.full[i]
			}
		}
		for i := range p.n {
			if p.asks[i].asks() {
				p.windows[i].part.commit(p.rates[i], p.now.Mono, enteredNs, nodes, p.tokens)
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
		p.windows[i].owe(p.rates[i], permits, tokens, p.windows[i].day(p.now))
		s.later(p.windows[i])
	}
	return Taken
}

// GiveBack returns the permits of a request that was denied afterwards.
func (s *Limits) GiveBack(list []Permit) {
	for i := range list {
		s.giveBack(&list[i])
	}
}

func (s *Limits) giveBack(p *Permit) {
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
		if size, _ := sliceOf(r); size > 1 {
			w.rate, w.taken = *r, p.now.Mono
			w.permits += permits
			w.tokens += tokens
		} else {
			w.giveBack(r, permits, tokens)
		}
		s.later(w)
	}
}

// Windows are those whose tokens are corrected at the end.
func (p *Permit) Windows() [2]*Window { return p.windows }

// Correct adds more tokens to an estimate of them, or takes some off, for a
// request that ran under the limits of its model and key; now is of Instant.Mono.
func (s *Limits) Correct(windows *[2]*Window, model, key *config.Rate, now, more int64) {
	if more == 0 {
		return
	}
	for i, w := range windows {
		r := model
		if i == 1 || w != nil && w.id.slot < 0 {
			r = key
		}
		if w == nil || r == nil || r.TPM <= 0 {
			continue
		}
		w.mu.Lock()
		w.owe(r, 0, more, 0)
		if s.breaker.open.Load() {
			w.part.correct(r, now, s.nodes.Load(), more)
		}
		s.later(w)
		w.mu.Unlock()
	}
}
