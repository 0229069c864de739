package limits

import (
	"errors"
	"fmt"
	"time"

	"farebox/config"
)

// Background work: slices are renewed before they run out and returned
// when unused, Redis gets unreported use, and is pinged while it is
// away.

const (
	flushEvery = 100 * time.Millisecond
	// flushMost bounds one round of calls; the rest follows in the next.
	flushMost = 2000
)

func (s *Limits) run() {
	tick := time.NewTicker(flushEvery)
	defer tick.Stop()
	looked := time.Now()
	for {
		select {
		case <-s.work.Closing():
			s.sync(true)
			return
		case <-tick.C:
		}
		if time.Since(looked) >= breakerProbe {
			looked = time.Now()
			s.probeRedis()
		}
		if !s.breaker.open.Load() {
			s.sync(false)
		}
	}
}

// Close returns the rest of slices and ends the connections.
func (s *Limits) Close() {
	s.work.Close()
	_ = s.client.close() // nothing is lost with it
}

// probeRedis asks whether Redis is there.
func (s *Limits) probeRedis() {
	away := s.breaker.open.Load()
	err := s.greet()
	switch {
	case err == nil && away:
		s.breaker.reset()
		s.log.Warn().Int64("nodes", s.nodes.Load()).Dur("away_ms", time.Duration(s.clock().Mono-s.lostNs.Load())).
			Msg("Redis is back: limits are shared again")
	case err != nil && !away:
		now := time.Now()
		s.breaker.done(now, s.client.timeout, err)
	}
}

// breakerOpened is called when the breaker opens.
func (s *Limits) breakerOpened(why error) {
	s.lostNs.Store(s.clock().Mono)
	s.stats.away.Add(1)
	s.log.Error().Err(why).Str("policy", s.away).Int64("nodes", s.nodes.Load()).
		Msg("cannot reach Redis: limits are not shared until it is back; see redis.away in the config")
}

var errSlow = errors.New("more than one call in a hundred is slow")

// greet asks the server of every bucket for its clock, and has the first one
// write, which a replica would refuse.
func (s *Limits) greet() error {
	calls := make([]scriptCall, s.buckets)
	for i := range calls {
		var probe ask
		if i == 0 {
			probe = ask{want: 1, hourOne: 1, hourUnit: 1}
		}
		calls[i] = scriptCall{key: fmt.Sprintf("%s{%d}:probe", s.prefix, i), blob: probe.append(nil)}
	}
	s.client.callAll(s.code, calls)
	now, worst := s.clock().Wall, int64(0)
	for i := range calls {
		c := &calls[i]
		if c.err != nil {
			return c.err
		}
		if skew := now - c.answer.nowUs*1000; abs(skew) > abs(worst) {
			worst = skew
		}
	}
	s.skewNs.Store(worst)
	if s.skewed != nil {
		s.skewed(time.Duration(worst))
	}
	return nil
}

func abs(n int64) int64 { return max(n, -n) }

// later puts a window on the list of those with unreported use; the window
// is locked.
func (s *Limits) later(w *Window) {
	if w.listed {
		return
	}
	w.listed = true
	s.flush.Lock()
	s.flush.list = append(s.flush.list, w)
	s.flush.Unlock()
}

// scriptCall is one of several calls that are sent together.
type scriptCall struct {
	key    any // of its window
	blob   []byte
	answer answer
	err    error
}

// sync sends use that Redis does not know; at the end all slices go back.
func (s *Limits) sync(end bool) {
	s.flush.Lock()
	list := s.flush.list
	if len(list) > flushMost && !end {
		s.flush.list = append([]*Window(nil), list[flushMost:]...)
		list = list[:flushMost]
	} else {
		s.flush.list = nil
	}
	s.flush.Unlock()
	if len(list) == 0 || end && s.breaker.open.Load() {
		return
	}
	now := s.clock().Mono
	windows := make([]*Window, 0, len(list))
	asks := make([]ask, 0, len(list))
	calls := make([]scriptCall, 0, len(list))
	for _, w := range list {
		w.mu.Lock()
		w.listed = false
		w.expire(now, end)
		if w.permits > 0 || w.tokens > 0 {
			s.later(w)
		}
		var a ask
		w.correct(&a)
		w.mu.Unlock()
		if a.owed == (owed{}) {
			continue
		}
		windows, asks = append(windows, w), append(asks, a)
		calls = append(calls, scriptCall{key: w.key, blob: a.append(make([]byte, 0, askDoubles*8))})
	}
	begin := time.Now()
	s.client.callAll(s.code, calls)
	var failed error
	for i := range calls {
		c, w := &calls[i], windows[i]
		s.stats.calls.Add(1)
		if c.err != nil {
			s.stats.errors.Add(1)
			failed = c.err
		}
		w.mu.Lock()
		switch {
		case c.err == nil:
			w.saw(&c.answer, 0, now)
		case errors.Is(c.err, errNotSent):
			w.uncorrect(&asks[i])
			s.later(w)
		}
		w.mu.Unlock()
	}
	if len(calls) > 0 {
		// One round is one observation: its calls shared their fate.
		s.breaker.done(time.Now(), time.Since(begin)/time.Duration(1+len(calls)/300), failed)
	}
}

// ahead asks for the next slice before the last one is spent; the windows come
// locked.
func (s *Limits) ahead(p *Permit) {
	if s.breaker.open.Load() {
		return
	}
	for i := range p.n {
		w, r := p.windows[i], p.rates[i]
		permits, tokens := sliceOf(r)
		few := counts(r) && w.permits < permits/2 || r.TPM > 0 && p.tokens > 0 && w.tokens < tokens/2
		if permits == 1 || !few || w.refill != nil || p.now.Mono < w.again {
			continue
		}
		w.refill = make(chan struct{})
		s.work.Go(func() { s.renew(w, r, p.now.Mono) })
	}
}

// renew takes a slice.
func (s *Limits) renew(w *Window, r *config.Rate, now int64) {
	p := Permit{n: 1}
	p.windows[0], p.rates[0] = w, r
	permits, tokens := sliceOf(r)
	if !counts(r) {
		permits = 0
	}
	w.mu.Lock()
	a := &p.asks[0]
	*a = askFor(r, permits, 0, max(0, tokens-w.tokens))
	w.correct(a)
	mine := w.refill
	w.mu.Unlock()

	var got answer
	err := s.call(&p, []int{0}, &got)

	w.mu.Lock()
	defer w.mu.Unlock()
	w.refilled(mine)
	switch {
	case err != nil:
		if errors.Is(err, errNotSent) {
			w.uncorrect(a)
		}
		w.again = now + fullFor
		s.later(w)
	default:
		w.saw(&got, 0, now)
		if got.status != statusTaken {
			w.again = now + fullFor
			return
		}
		s.stats.slices.Add(1)
		w.store(r, &got, 0, 0, now)
		s.later(w)
	}
}
