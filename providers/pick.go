package providers

import (
	"math/bits"
	"math/rand/v2"
	"time"

	"farebox/providers/attempt"
)

// MaxAttempts bounds how many targets one request may try.
const MaxAttempts = 4

// maxTries is how many targets a Plan can tell apart; a model has at most 64.
const maxTries = 64

// Plan chooses the targets of one request, one after the other, without
// allocating. Targets of the lowest priority number come first and share the
// requests by weight; resting ones are skipped; none is tried twice, but for
// the last one when it could not be connected to: nothing was sent to it.
//
// When every target rests, the one whose rest ends first is asked all the same,
// one request at a time: a probe finds the upstream's return sooner than the
// clock, and costs a client that would be refused anyway nothing. That holds
// also when the upstream asked for the rest (Retry-After): one customer's limit
// there is not everybody's. What the requests of a single account met is no
// reason to refuse others at all. All other requests are told at once that there is
// no capacity. The zero value is ready for Begin.
type Plan struct {
	model   *Model
	account uint64  // whose request it is, 0: ours
	tried   uint64  // a bit for each target of the model
	any     bool    // a target was chosen
	asked   *Target // chosen and not yet reported on
	again   bool    // …and to be asked once more: nothing was sent to it
	twice   bool    // …which happens once
}

// Begin starts with a request of our own for m.
func (p *Plan) Begin(m *Model) { p.BeginFor(m, 0) }

// BeginFor starts with an account's request for m.
func (p *Plan) BeginFor(m *Model, account uint64) { *p = Plan{model: m, account: account} }

// Next is the next target to try; nil when there is no further one. Every
// target must be reported on, with Report or Release.
func (p *Plan) Next(nowNs int64) *Target {
	if p.again {
		p.again = false
		return p.asked
	}
	p.asked = p.choose(nowNs)
	return p.asked
}

func (p *Plan) choose(nowNs int64) *Target {
	targets := p.model.Targets
	for from := 0; from < len(targets); {
		to := from + 1
		for to < len(targets) && targets[to].Priority == targets[from].Priority {
			to++
		}
		if t := p.pick(targets, from, to, nowNs); t != nil {
			return t
		}
		from = to
	}
	if p.any {
		return nil
	}
	return p.lastResort(nowNs)
}

// pick chooses among the targets from..to of one priority, by weight.
func (p *Plan) pick(targets []*Target, from, to int, nowNs int64) *Target {
	for {
		total, only := 0, -1
		for i := from; i < to; i++ {
			if p.free(targets, i, nowNs) {
				total += targets[i].Weight
				only = i
			}
		}
		if total == 0 {
			return nil
		}
		i := only
		if total != targets[only].Weight {
			i = p.draw(targets, from, to, nowNs, rand.IntN(total))
		}
		p.tried |= 1 << i
		if targets[i].Breaker.AcquireFor(p.account, nowNs) {
			p.any = true
			return targets[i]
		}
		// Somebody else became its probe meanwhile.
	}
}

func (p *Plan) free(targets []*Target, i int, nowNs int64) bool {
	return i < maxTries && p.tried&(1<<i) == 0 && targets[i].Breaker.ReadyFor(p.account, nowNs)
}

// draw is the target that a number below the sum of the weights falls on.
// Healths change under our feet: then it is the last one that is free, or any.
func (p *Plan) draw(targets []*Target, from, to int, nowNs int64, n int) int {
	last := from
	for i := from; i < to; i++ {
		if !p.free(targets, i, nowNs) {
			continue
		}
		if n -= targets[i].Weight; n < 0 {
			return i
		}
		last = i
	}
	return last
}

// lastResort probes the target whose rest ends first.
func (p *Plan) lastResort(nowNs int64) *Target {
	best := -1
	for i, t := range p.model.Targets {
		if i < maxTries && (best < 0 || t.Breaker.RestsUntil() < p.model.Targets[best].Breaker.RestsUntil()) {
			best = i
		}
	}
	if best < 0 {
		return nil
	}
	t := p.model.Targets[best]
	if !t.Breaker.RestsForAnother(p.account) && !t.Breaker.ProbeFor(p.account, nowNs) {
		return nil
	}
	p.tried |= 1 << best
	p.any = true
	return t
}

// RestsFor is how long until the first of a model's targets may be tried again;
// 0 when one may be now.
func RestsFor(m *Model, nowNs int64) time.Duration {
	least := int64(-1)
	for _, t := range m.Targets {
		left := max(t.Breaker.RestsUntil()-nowNs, 0)
		if least < 0 || left < least {
			least = left
		}
	}
	return time.Duration(max(least, 0))
}

// Report tells a target's health how an attempt went. One that could not be
// connected to is asked once more when there is no other: a burst of requests
// can be more than it takes at once.
func (p *Plan) Report(t *Target, v attempt.Verdict, nowNs int64) {
	if v.Unsent && !p.twice && !p.others(nowNs) && bits.OnesCount64(p.tried) < MaxAttempts {
		p.again, p.twice = true, true
		return
	}
	p.asked = nil
	v.Report(t.Breaker, p.account, nowNs)
}

// End gives back what was chosen and never reported on: the client left, or
// something panicked.
func (p *Plan) End() {
	if p.asked != nil {
		p.asked.Breaker.Released()
		p.asked = nil
	}
}

// others says that there is a further target to try.
func (p *Plan) others(nowNs int64) bool {
	for i := range p.model.Targets {
		if p.free(p.model.Targets, i, nowNs) {
			return true
		}
	}
	return false
}

// Release reports a target that was not asked: nothing was learnt of its health.
func (p *Plan) Release(t *Target) { p.Report(t, attempt.Verdict{}, 0) }
