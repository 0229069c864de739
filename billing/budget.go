package billing

import (
	"sync"

	"farebox/config"
)

// budgets count the failed requests of each key x model x user and block those
// that fail too often (addendum 3.6). Memory is bounded: a shard that is full
// forgets its oldest entries, which favours the caller. Each node has its own,
// also where Redis shares the other limits: those are rates and calendar
// counters, taken before a request, while this is a count after it, one of each
// key, model and user, that ends in a block.
type budgets struct {
	shards [budgetShards]budgetShard
}

const (
	budgetShards  = 16
	budgetEntries = 4096 // of a shard
)

type budgetKey struct {
	key  int64
	slot int32
	// kind tells failed requests (0) and refused features (1) apart.
	kind uint8
	user uint64
}

type budget struct {
	startNs int64
	untilNs int64 // blocked until then
	count   int32
}

type budgetShard struct {
	mu sync.Mutex
	m  map[budgetKey]budget
}

func (b *budgets) shard(k *budgetKey) *budgetShard {
	x := (uint64(k.key)*0x9e3779b97f4a7c15 ^ k.user) * 0xff51afd7ed558ccd
	return &b.shards[x>>60%budgetShards]
}

// note counts one failure: the one that goes beyond limit.Count within
// limit.Window blocks for limit.Block.
func (b *budgets) note(k budgetKey, limit *config.Budget, now int64) {
	if limit.Count <= 0 {
		return
	}
	s := b.shard(&k)
	s.mu.Lock()
	defer s.mu.Unlock()
	e, known := s.m[k]
	if !known {
		s.makeRoom(limit, now)
	}
	if now-e.startNs >= int64(limit.Window) {
		e.startNs, e.count = now, 0
	}
	if e.count++; int(e.count) > limit.Count {
		e.untilNs, e.startNs, e.count = now+int64(limit.Block), 0, 0
	}
	s.m[k] = e
}

// makeRoom drops entries that mean nothing any more; when all still mean
// something it drops arbitrary ones.
func (s *budgetShard) makeRoom(limit *config.Budget, now int64) {
	if s.m == nil {
		s.m = make(map[budgetKey]budget)
	}
	if len(s.m) < budgetEntries {
		return
	}
	for k, e := range s.m {
		if e.untilNs <= now && now-e.startNs >= int64(limit.Window) {
			delete(s.m, k)
		}
	}
	for k := range s.m {
		if len(s.m) < budgetEntries*3/4 {
			return
		}
		delete(s.m, k)
	}
}

// blocked gives until when k is blocked; 0 when it is not.
func (b *budgets) blocked(k budgetKey, now int64) int64 {
	s := b.shard(&k)
	s.mu.Lock()
	e := s.m[k]
	s.mu.Unlock()
	if e.untilNs > now {
		return e.untilNs
	}
	return 0
}

// NoteFailure counts a failed request of a key, model and user (0: none)
// against the failed-request budget, or against that of refused features.
func (l *Ledger) NoteFailure(k *Key, slot int, user uint64, unsupported bool, nowNs int64) {
	b := budgetKey{key: k.No, slot: int32(slot), user: user}
	limit := &l.limits.Load().FailedRequests
	if unsupported {
		b.kind, limit = 1, &l.limits.Load().UnsupportedFeatures
	}
	l.budgets.note(b, limit, nowNs)
	l.failures.Store(true)
}

// FailureBlock gives until when (Unix ns) a key, model and user are blocked for
// too many failures, or for too many refused features; 0 when they are not.
func (l *Ledger) FailureBlock(k *Key, slot int, user uint64, nowNs int64) (until int64, unsupported bool) {
	if !l.failures.Load() {
		return 0, false
	}
	b := budgetKey{key: k.No, slot: int32(slot), user: user}
	until = l.budgets.blocked(b, nowNs)
	b.kind = 1
	if other := l.budgets.blocked(b, nowNs); other > until {
		return other, true
	}
	return until, false
}
