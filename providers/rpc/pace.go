package rpc

import (
	"math"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// paceMemory is how long a node's last answers count: what is older by so
	// much has 1/e of its weight.
	paceMemory = float64(5 * time.Second)
	// paceForgets is how fast what is known of a node that is not asked any more
	// shrinks, so that one that was slow is tried again: by half every so often.
	paceForgets = float64(10 * time.Second)
	// paceApart is how much worse a node has to be than another to lose its
	// turn. Latencies of equal nodes differ by less most of the time, and then
	// the weights alone decide.
	paceApart = 1.5
	// paceErrors is how many times worse a node looks that fails always.
	paceErrors = 9
)

// pace is how fast and how surely a node has answered of late. It counts small
// reads only, which take all nodes about the same.
type pace struct {
	mu      sync.Mutex
	lastNs  atomic.Int64 // of the last answer or failure; 0: none
	askedNs atomic.Int64
	tookNs  atomic.Uint64 // math.Float64bits; a weighted mean over answers; 0: none
	errors  atomic.Uint64 // the same of failures, 0 to 1
}

// note counts an answer that took so long, or a failure. What comes while
// another is counted is left out.
func (p *pace) note(nowNs, tookNs int64, failed bool) {
	if !p.mu.TryLock() {
		return
	}
	defer p.mu.Unlock()
	last := p.lastNs.Load()
	old := math.Exp(-float64(max(nowNs-last, 0)) / paceMemory)
	if last == 0 {
		old = 0
	}
	// Many answers at the same moment count a little each, too.
	old = min(old, 0.98)
	mix := func(at *atomic.Uint64, sample float64) {
		at.Store(math.Float64bits(old*math.Float64frombits(at.Load()) + (1-old)*sample))
	}
	if failed {
		mix(&p.errors, 1)
	} else {
		mix(&p.errors, 0)
		if p.tookNs.Load() == 0 {
			p.tookNs.Store(math.Float64bits(float64(tookNs)))
		}
		mix(&p.tookNs, float64(tookNs))
	}
	p.lastNs.Store(max(last, nowNs))
}

// ask notes that the node is asked: it is not one to be tried again any more.
func (p *pace) ask(nowNs int64) {
	const apart = int64(time.Millisecond) // so that many requests write little
	if nowNs-p.askedNs.Load() > apart {
		p.askedNs.Store(nowNs)
	}
}

// worse says that another node answers so much faster or surer that it should
// have this one's turn. Where only one of them has ever answered, only failures
// make a difference.
func (p *pace) worse(other *pace, nowNs int64) bool {
	own, others := p.tookNs.Load(), other.tookNs.Load()
	if others == 0 {
		return false
	}
	if own == 0 {
		own = others
	}
	return p.cost(own, nowNs) > paceApart*other.cost(others, nowNs)
}

// cost is what waiting for a node comes to that answers so fast (Float64bits).
func (p *pace) cost(took uint64, nowNs int64) float64 {
	idle := float64(max(nowNs-p.askedNs.Load(), 0))
	return math.Float64frombits(took) * (1 + paceErrors*math.Float64frombits(p.errors.Load())) * math.Exp2(
		-idle/paceForgets)
}
