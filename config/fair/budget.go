package fair

import (
	"sync"
	"time"
)

// Budget counts seconds of work that nobody paid for, such as a hostile document that
// ends in an error. Each owner may use a burst at once, which refills at a steady rate:
// the burst a minute. Beyond it the owner waits. Safe for concurrent use.
type Budget struct {
	mu    sync.Mutex
	burst time.Duration
	full  map[Owner]time.Time // when the burst is whole again
}

// budgetOwners bounds the memory of a Budget. Owners whose burst is whole go first.
const budgetOwners = 1 << 14

// NewBudget makes a Budget; a burst of 0 or less is no limit.
func NewBudget(burst time.Duration) *Budget {
	return &Budget{burst: burst, full: map[Owner]time.Time{}}
}

// Resize changes the burst. The used part keeps its share of it.
func (b *Budget) Resize(burst time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.burst = burst
}

// Spend counts work of an owner.
func (b *Budget) Spend(o Owner, work time.Duration, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.burst <= 0 || work <= 0 {
		return
	}
	b.makeRoom(now)
	from := now
	if at := b.full[o]; at.After(now) {
		from = at
	}
	b.full[o] = from.Add(time.Duration(float64(work) / float64(b.burst) * float64(time.Minute)))
}

// Wait is how long an owner has to wait until it may use more; 0: not at all.
func (b *Budget) Wait(o Owner, now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.burst <= 0 {
		return 0
	}
	whole, used := b.full[o]
	if !used {
		return 0
	}
	return max(0, whole.Sub(now)-time.Minute)
}

func (b *Budget) makeRoom(now time.Time) {
	if len(b.full) < budgetOwners {
		return
	}
	for o, at := range b.full {
		if !at.After(now) {
			delete(b.full, o)
		}
	}
	for o := range b.full {
		if len(b.full) < budgetOwners*3/4 {
			return
		}
		delete(b.full, o)
	}
}
