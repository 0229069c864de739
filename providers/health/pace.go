package health

import (
	"math"
	"sync/atomic"
	"time"
)

const (
	// paceMemory is how long the last answers of a target count: an answer that much older
	// has 1/e of the weight.
	paceMemory = float64(5 * time.Second)
	// paceForgets is the half-life of a slow target's bad pace for requests that may probe
	// it, while it is not asked.
	paceForgets = float64(10 * time.Second)
	// paceProbe is when such a target is due, however slow it was.
	paceProbe = int64(30 * time.Second)
	// paceErrors is the factor for a target that always fails.
	paceErrors = 9
	// paceEvery is the least time between two samples, so that many requests write
	// little.
	paceEvery = int64(time.Millisecond)

	// PaceApart is the distance from the best target, in doublings, from which on a target
	// loses its turns: half as much again. Latencies of equal targets differ by less most
	// of the time, and then the weights alone decide.
	PaceApart = 0.585
)

// Pace is the recent speed and reliability of a target's answers. Its samples must
// be comparable. It takes the mean of their logarithms, so that one long answer
// does not outweigh many. Safe for concurrent use, without locks; the zero value
// is ready.
type Pace struct {
	lastNs  atomic.Int64 // of the last answer or failure; 0: no request yet
	askedNs atomic.Int64
	took    atomic.Uint64 // math.Float64bits of the doublings of 1 ns; 0: no answer yet
	errors  atomic.Uint64 // the same of failures, 0 to 1
}

// Note counts an answer that took so long, or a failure. Of many at the same
// moment it counts one.
func (p *Pace) Note(nowNs, tookNs int64, failed bool) {
	last := p.lastNs.Load()
	if nowNs-last < paceEvery || !p.lastNs.CompareAndSwap(last, nowNs) {
		return
	}
	old := 0.0
	if last != 0 {
		// Many answers in a short time count a little each, too.
		old = min(math.Exp(-float64(nowNs-last)/paceMemory), 0.98)
	}
	mix := func(at *atomic.Uint64, old, sample float64) {
		at.Store(math.Float64bits(old*math.Float64frombits(at.Load()) + (1-old)*sample))
	}
	if failed {
		mix(&p.errors, old, 1)
		return
	}
	mix(&p.errors, old, 0)
	if p.took.Load() == 0 {
		old = 0
	}
	mix(&p.took, old, math.Log2(float64(max(tookNs, 2))))
}

// Ask notes that the target is asked: it is not due for a probe any more.
func (p *Pace) Ask(nowNs int64) {
	if nowNs-p.askedNs.Load() > paceEvery {
		p.askedNs.Store(nowNs)
	}
}

// Cost is the expected wait for the target, in doublings. Of one that has
// never answered (known is false) only its failures count. To a request
// that may probe, a target that has not been asked for long costs less.
func (p *Pace) Cost(nowNs int64, probes bool) (doublings float64, known bool) {
	took := math.Float64frombits(p.took.Load())
	if errors := math.Float64frombits(p.errors.Load()); errors > 0.01 {
		doublings = math.Log2(1 + paceErrors*errors)
	}
	if probes {
		idle := max(nowNs-p.askedNs.Load(), 0)
		if idle >= paceProbe {
			return 0, took > 0
		}
		doublings -= float64(idle) / paceForgets
	}
	return took + doublings, took > 0
}
