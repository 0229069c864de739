package providers

import (
	"math/rand/v2"
	"time"
)

// maxTries is how many targets a Plan can tell apart; a model has at most 64.
const maxTries = 64

// Plan chooses the targets of one request, one after the other, without
// allocating. Targets of the lowest priority number come first and share the
// requests by weight; resting ones are skipped; none is tried twice.
//
// When every target rests, the one whose rest ends first is asked all the same,
// one request at a time: a probe finds the upstream's return sooner than the
// clock, and costs a client that would be refused anyway nothing. All other
// requests are told at once that there is no capacity, and so is every request
// while the upstreams rest because they asked for it (Retry-After). The zero
// value is ready for Begin.
type Plan struct {
	model *Model
	tried uint64 // a bit for each target of the model
	any   bool   // a target was chosen
}

// Begin starts with a request for m.
func (p *Plan) Begin(m *Model) { *p = Plan{model: m} }

// Next is the next target to try; nil when there is no further one. Every
// target must be reported on, with Succeeded, Failed or Released.
func (p *Plan) Next(nowNs int64) *Target {
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
		if targets[i].Breaker.Acquire(nowNs) {
			p.any = true
			return targets[i]
		}
		// Somebody else became its probe meanwhile.
	}
}

func (p *Plan) free(targets []*Target, i int, nowNs int64) bool {
	return i < maxTries && p.tried&(1<<i) == 0 && targets[i].Breaker.Ready(nowNs)
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
		if i < maxTries && t.Breaker.Failing() && (best < 0 || t.Breaker.RestsUntil() < p.model.Targets[best].Breaker.RestsUntil()) {
			best = i
		}
	}
	if best < 0 {
		return nil
	}
	t := p.model.Targets[best]
	if !t.Breaker.Probe(nowNs) {
		return nil
	}
	p.tried |= 1 << best
	p.any = true
	return t
}

// RestsFor is how long until the first of the model's targets may be tried
// again; 0 when one may be now.
func (p *Plan) RestsFor(nowNs int64) time.Duration {
	least := int64(-1)
	for _, t := range p.model.Targets {
		left := max(t.Breaker.RestsUntil()-nowNs, 0)
		if least < 0 || left < least {
			least = left
		}
	}
	return time.Duration(max(least, 0))
}

// Succeeded reports that a target answered.
func (p *Plan) Succeeded(t *Target) { t.Breaker.Succeeded() }

// Failed reports that a target failed; retryAfter is how long it asked to be
// left alone, 0: it did not.
func (p *Plan) Failed(t *Target, nowNs int64, retryAfter time.Duration) {
	t.Breaker.Failed(nowNs, retryAfter)
}

// Release reports a target that was not asked, or whose client left: nothing
// was learnt of its health.
func (p *Plan) Release(t *Target) { t.Breaker.Released() }
