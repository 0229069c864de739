package billing

import (
	"encoding/binary"
	"net/netip"
	"sync"

	"farebox/billing/window"
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
	kind budgetKind
	user uint64 // or address
}

// budgetKind is the kind of counted events.
type budgetKind uint8

const (
	failedRequests budgetKind = iota
	refusedFeatures
	abortedRequests
	wrongSecrets
)

// keyBudget is how many times the failures of one user of a key all its models
// and users together may have: the name of the user is the client's own choice.
const keyBudget = 10

type budgetShard struct {
	mu sync.Mutex
	m  map[budgetKey]window.Failures
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
	e.Note(limit, now)
	s.m[k] = e
}

// makeRoom drops entries that mean nothing any more; when all still mean
// something it drops arbitrary ones.
func (s *budgetShard) makeRoom(limit *config.Budget, now int64) {
	if s.m == nil {
		s.m = make(map[budgetKey]window.Failures)
	}
	if len(s.m) < budgetEntries {
		return
	}
	for k, e := range s.m {
		if e.Over(limit, now) {
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
	return e.Blocked(now)
}

// whoFails is the number of a key, or a number below 0 that stands for a client's address.
// Requests of wallets count for their address, since wallets cost nothing (addendum 3.6);
// those over a Unix socket have no address and count for the key.
func whoFails(from netip.Addr, k *Key) int64 {
	if !from.IsValid() {
		return k.No
	}
	b := from.As16()
	x := binary.LittleEndian.Uint64(b[:8])*0x9e3779b97f4a7c15 ^ binary.LittleEndian.Uint64(b[8:])
	return -1 - int64(x>>1)
}

// NoteFailure counts a failed request of a key, model and user (0: none)
// against the failed-request budget, or against that of refused features; and
// against that of the key as a whole. from is the address of a wallet's request.
func (l *Ledger) NoteFailure(from netip.Addr, k *Key, slot int, user uint64, unsupported bool, now window.Instant) {
	who := whoFails(from, k)
	b := budgetKey{key: who, slot: int32(slot), user: user}
	limit := l.limits.Load().FailedRequests
	if unsupported {
		b.kind, limit = refusedFeatures, l.limits.Load().UnsupportedFeatures
	}
	l.budgets.note(b, &limit, now.Mono)
	limit.Count *= keyBudget
	l.keyBudgets.note(budgetKey{key: who, kind: b.kind}, &limit, now.Mono)
	l.failures.Store(true)
}

// NoteAbort counts a request whose client left after an upstream was asked.
func (l *Ledger) NoteAbort(k *Key, now window.Instant) {
	l.keyBudgets.note(budgetKey{key: k.No, kind: abortedRequests}, &l.limits.Load().AbortedRequests, now.Mono)
	l.failures.Store(true)
}

// FailureBlock gives until when (Unix ns) a key, model and user are blocked for
// too many failures, refused features or aborts, and for which: the kind of the
// refusal (addendum 16.5). 0 when they are not. from is the address of a wallet's request.
func (l *Ledger) FailureBlock(from netip.Addr, k *Key, slot int, user uint64, now window.Instant) (until int64,
	kind string) {
	if !l.failures.Load() {
		return 0, ""
	}
	limits, mono := l.limits.Load(), int64(0)
	check := func(b *budgets, key budgetKey, limit *config.Budget, name string) {
		if limit.Count <= 0 {
			return
		}
		if other := b.blocked(key, now.Mono); other > mono {
			mono, kind = other, name
		}
	}
	who := whoFails(from, k)
	one := budgetKey{key: who, slot: int32(slot), user: user}
	all := budgetKey{key: who}
	check(&l.budgets, one, &limits.FailedRequests, FailedRequests)
	check(&l.keyBudgets, all, &limits.FailedRequests, FailedRequests)
	one.kind, all.kind = refusedFeatures, refusedFeatures
	check(&l.budgets, one, &limits.UnsupportedFeatures, UnsupportedRequests)
	check(&l.keyBudgets, all, &limits.UnsupportedFeatures, UnsupportedRequests)
	all.key, all.kind = k.No, abortedRequests
	check(&l.keyBudgets, all, &limits.AbortedRequests, AbortedRequests)
	if mono == 0 {
		return 0, ""
	}
	return now.WallAt(mono), kind
}
