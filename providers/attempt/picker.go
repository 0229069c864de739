package attempt

import (
	"math"
	"math/bits"
	"math/rand/v2"
	"time"

	"farebox/providers/health"
)

const (
	// MaxAttempts bounds how many targets one request may try.
	MaxAttempts = 4
	// maxTargets bounds the targets of a Picker; a model or a network
	// has at most as many.
	maxTargets = 64
	// probeShare: one in so many requests may go to a target because it has not
	// been asked for long.
	probeShare = 32
)

// Rule gives a Picker the facts about its targets.
type Rule[T any] interface {
	// Target is a target's health, and its share of the requests among the
	// targets of its rank, at least 1.
	Target(t T) (b *health.Breaker, weight int)
	// Rank orders the targets: those of the lowest rank are first. Below 0 t cannot serve
	// the request.
	Rank(t T, nowNs int64) int
	// Pace is how fast t answers requests of this kind, where Fast is set.
	Pace(t T) *health.Pace
}

// Picker chooses the targets of one request, one after the other, without allocating.
// Targets of the lowest rank are first and share the requests by weight; resting ones are
// skipped; none is tried twice, but for the last one when it could not be connected to:
// nothing was sent to it.
//
// When every target rests, the one whose rest ends first is asked all the same, one request
// at a time: a probe finds the upstream's return sooner than the clock, and costs nothing,
// since the client would be refused otherwise. That holds also when the upstream asked for
// the rest (Retry-After): one customer's limit there does not concern all. Failures of a
// single account's requests never close a target to others. All other requests are refused
// at once for lack of capacity. Targets that operators hold get nothing, but for requests
// that failed at all others, where a target is only drained. The zero value is ready for
// Begin.
type Picker[T comparable, R Rule[T]] struct {
	Rule    R    // to be set after Begin, unless its zero value will do
	Fast    bool // the same; those much slower than the fastest lose their turns: Rule.Pace
	targets []T
	account uint64 // the account of the request, 0: our own
	tried   uint64 // a bit for each target
	asks    int    // targets that were asked
	any     bool   // a target was chosen
	asked   T      // chosen and not yet reported on
	again   bool   // …and to be asked once more: nothing was sent to it
	resent  bool   // …which happens once
	over    bool   // there is no further attempt after the last one
}

// Begin starts with an account's request (0: one of our own) for these targets.
func (p *Picker[T, R]) Begin(targets []T, account uint64) {
	*p = Picker[T, R]{targets: targets, account: account}
}

// Next is the next target to try; the zero T if there is no further one, or nothing more to
// try after the last verdict. Every target must be reported on, with Report or Pass.
func (p *Picker[T, R]) Next(nowNs int64) T {
	var none T
	if p.over || p.asks >= MaxAttempts {
		return none
	}
	if p.again {
		p.again = false
	} else {
		p.asked = p.Choose(nowNs)
		if p.asked == none && p.asks > 0 {
			p.asked = p.drained(nowNs)
		}
	}
	if p.asked != none {
		p.asks++
	}
	return p.asked
}

// Choose is a target beside the one that Next gave and that is still asked; the
// caller reports on it to its breaker.
func (p *Picker[T, R]) Choose(nowNs int64) (t T) {
	for {
		i := p.draw(nowNs)
		if i < 0 {
			break
		}
		p.tried |= 1 << i
		if b, _ := p.Rule.Target(p.targets[i]); b.AcquireFor(p.account, nowNs) {
			p.any = true
			return p.targets[i]
		}
		// Another request became its probe meanwhile.
	}
	if p.any {
		return t
	}
	return p.lastResort(nowNs)
}

// drained is a target that operators drained: requests that failed everywhere else try it.
func (p *Picker[T, R]) drained(nowNs int64) (none T) {
	for i, t := range p.targets[:min(len(p.targets), maxTargets)] {
		if b, _ := p.Rule.Target(t); b.Held() == health.Drained && p.tried&(1<<i) == 0 && p.Rule.Rank(t, nowNs) >= 0 {
			p.tried |= 1 << i
			return t
		}
	}
	return none
}

// draw is one of the free targets of the lowest rank, by weight; -1: no target is free.
func (p *Picker[T, R]) draw(nowNs int64) int {
	lowest, total, set := 0, 0, uint64(0)
	for i, t := range p.targets {
		switch rank, weight := p.free(i, t, nowNs); {
		case rank < 0 || set != 0 && rank > lowest:
		case set == 0 || rank < lowest:
			lowest, total, set = rank, weight, 1<<i
		default:
			total += weight
			set |= 1 << i
		}
	}
	if p.Fast && set&(set-1) != 0 {
		set, total = p.fastest(set, nowNs), 0
		for s := set; s != 0; s &= s - 1 {
			total += p.weight(s)
		}
	}
	if set&(set-1) == 0 {
		return bits.Len64(set) - 1
	}
	n := rand.IntN(total)
	for s := set; ; s &= s - 1 {
		if n -= p.weight(s); n < 0 {
			return bits.TrailingZeros64(s)
		}
	}
}

// weight is that of the first target of a set.
func (p *Picker[T, R]) weight(set uint64) int {
	_, weight := p.Rule.Target(p.targets[bits.TrailingZeros64(set)])
	return weight
}

// fastest keeps the targets of a set that answer about as fast as the best of them, and
// those that have never answered and do not fail. One request in probeShare probes whether
// a slow one is fast again.
func (p *Picker[T, R]) fastest(set uint64, nowNs int64) (near uint64) {
	probes, best := rand.Uint32N(probeShare) == 0, math.Inf(1)
	for s := set; s != 0; s &= s - 1 {
		if cost, known := p.Rule.Pace(p.targets[bits.TrailingZeros64(s)]).Cost(nowNs, probes); known {
			best = min(best, cost)
		}
	}
	if math.IsInf(best, 1) {
		return set
	}
	for s := set; s != 0; s &= s - 1 {
		cost, known := p.Rule.Pace(p.targets[bits.TrailingZeros64(s)]).Cost(nowNs, probes)
		if !known {
			cost += best
		}
		if cost <= best+health.PaceApart {
			near |= s & -s
		}
	}
	return near
}

// free is the rank and the weight of a target that may be asked; a rank below 0
// means that it may not.
func (p *Picker[T, R]) free(i int, t T, nowNs int64) (rank, weight int) {
	if i >= maxTargets || p.tried&(1<<i) != 0 {
		return -1, 0
	}
	b, weight := p.Rule.Target(t)
	if !b.ReadyFor(p.account, nowNs) {
		return -1, 0
	}
	return p.Rule.Rank(t, nowNs), weight
}

// lastResort probes the target whose rest ends first.
func (p *Picker[T, R]) lastResort(nowNs int64) (none T) {
	best, ends := -1, int64(0)
	for i, t := range p.targets[:min(len(p.targets), maxTargets)] {
		if b, _ := p.Rule.Target(t); b.Held() == health.Free && p.Rule.Rank(t, nowNs) >= 0 && (best < 0 || b.RestsUntil() < ends) {
			best, ends = i, b.RestsUntil()
		}
	}
	if best < 0 {
		return none
	}
	b, _ := p.Rule.Target(p.targets[best])
	if !b.RestsForAnother(p.account) && !b.ProbeFor(p.account, nowNs) {
		return none
	}
	p.tried |= 1 << best
	p.any = true
	return p.targets[best]
}

// Report adds the verdict on an attempt to the target's health and to Next's choice. A
// target that could not be connected to is asked once more when there is no other: a burst
// of requests can be more than it takes at once.
func (p *Picker[T, R]) Report(t T, v Verdict, nowNs int64) {
	var none T
	p.over = v.Do != Retry
	if v.Unsent && !p.resent && p.draw(nowNs) < 0 && bits.OnesCount64(p.tried) < MaxAttempts {
		p.again, p.resent = true, true
		return
	}
	b, _ := p.Rule.Target(t)
	v.Report(b, p.account, nowNs)
	if v.Health != Begun {
		p.asked = none
	}
}

// Pass releases a target that was not asked, for Next to name another: its health does not
// change.
func (p *Picker[T, R]) Pass(t T) {
	p.Report(t, Verdict{Do: Retry}, 0)
	p.asks--
}

// End releases a chosen target that was never reported on: the client left, or
// something panicked.
func (p *Picker[T, R]) End() {
	var none T
	if p.asked != none {
		b, _ := p.Rule.Target(p.asked)
		b.Released()
		p.asked = none
	}
}

// RestsFor is how long until the first of the targets that can serve may be
// tried again; 0 when one may be now.
func RestsFor[T any, R Rule[T]](targets []T, rule R, nowNs int64) time.Duration {
	least := int64(-1)
	for _, t := range targets {
		if rule.Rank(t, nowNs) < 0 {
			continue
		}
		b, _ := rule.Target(t)
		if b.Held() != health.Free {
			continue
		}
		left := max(b.RestsUntil()-nowNs, 0)
		if least < 0 || left < least {
			least = left
		}
	}
	return time.Duration(max(least, 0))
}
