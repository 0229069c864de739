package billing

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dgraph-io/ristretto/v2"
)

// ErrUnknownKey is a secret that belongs to no live key: unknown, revoked or
// expired. Callers must not tell these apart.
var ErrUnknownKey = errors.New("the key is unknown, revoked or expired")

// registry finds keys by the digest of their secret. Keys that have been used
// since the start are in memory for good, with the state that hangs off them;
// others are read from the store at their first use, so that neither the start
// nor idle memory grows with the number of keys. Digests that the store does
// not know are remembered for a while in an evicting cache, which may forget.
type registry struct {
	shards   [registryShards]registryShard
	unknown  *ristretto.Cache[uint64, digest]
	epoch    atomic.Uint64 // of unknown: older entries mean nothing
	loading  sync.Mutex    // one read of the store at a time; also guards byNo and accounts
	byNo     map[int64]*Key
	accounts map[uint32]*AccountState

	keySlab     slab[Key]
	accountSlab slab[AccountState]
}

const (
	registryShards = 64
	// unknownFor is how long an unknown digest is not asked for again.
	unknownFor = 5 * time.Second
	// unknownMost bounds how many are remembered.
	unknownMost = 1 << 14
)

type registryShard struct {
	mu sync.RWMutex
	m  map[digest]*Key
}

func newRegistry() (*registry, error) {
	unknown, err := ristretto.NewCache(&ristretto.Config[uint64, digest]{
		NumCounters: 10 * unknownMost, MaxCost: unknownMost, BufferItems: 64, IgnoreInternalCost: true,
	})
	if err != nil {
		return nil, fmt.Errorf("cannot make the cache of unknown keys: %w", err)
	}
	r := &registry{unknown: unknown, byNo: map[int64]*Key{}, accounts: map[uint32]*AccountState{}}
	for i := range r.shards {
		r.shards[i].m = map[digest]*Key{}
	}
	return r, nil
}

func (r *registry) shard(d *digest) *registryShard { return &r.shards[d[0]%registryShards] }

func (r *registry) get(d *digest) *Key {
	s := r.shard(d)
	s.mu.RLock()
	k := s.m[*d]
	s.mu.RUnlock()
	return k
}

func (r *registry) put(d *digest, k *Key) {
	s := r.shard(d)
	s.mu.Lock()
	s.m[*d] = k
	s.mu.Unlock()
	r.byNo[k.No] = k
}

func (r *registry) isUnknown(d *digest) bool {
	known, ok := r.unknown.Get(cacheKey(d) + r.epoch.Load())
	return ok && known == *d
}

func (r *registry) setUnknown(d *digest) {
	r.unknown.SetWithTTL(cacheKey(d)+r.epoch.Load(), *d, 1, unknownFor)
}

// forgetUnknown is for when a key was made elsewhere.
func (r *registry) forgetUnknown() { r.epoch.Add(1) }

// cacheKey is a part of the digest; digests are pseudo-random under the pepper.
func cacheKey(d *digest) uint64 { return binary.LittleEndian.Uint64(d[:]) }

// Lookup finds the live key that a secret belongs to, or gives ErrUnknownKey.
func (l *Ledger) Lookup(secret []byte) (*Key, error) {
	d := l.hasher.digest(secret)
	k := l.registry.get(&d)
	if k == nil {
		var err error
		if k, err = l.loadKey(&d); err != nil {
			return nil, err
		}
	}
	if !l.valid(k) {
		return nil, ErrUnknownKey
	}
	return k, nil
}

func (l *Ledger) valid(k *Key) bool {
	return !k.use.revoked.Load() && (k.expiresNs == 0 || l.now() < k.expiresNs)
}

// Live says whether a key that Lookup gave is what Lookup would give again.
func (l *Ledger) Live(k *Key) bool { return !k.outdated.Load() && l.valid(k) }

// loadKey reads a key at its first use.
func (l *Ledger) loadKey(d *digest) (*Key, error) {
	r := l.registry
	if r.isUnknown(d) {
		return nil, ErrUnknownKey
	}
	r.loading.Lock()
	defer r.loading.Unlock()
	if k := r.get(d); k != nil {
		return k, nil
	}
	row, err := l.store.KeyByDigest(*d)
	if errors.Is(err, errNoRow) {
		r.setUnknown(d)
		return nil, ErrUnknownKey
	}
	if err != nil {
		return nil, fmt.Errorf("cannot look up a key: %w", err)
	}
	return l.adoptKey(row)
}

// adoptKey makes the one Key of a row. The caller holds loading.
func (l *Ledger) adoptKey(row *keyRow) (*Key, error) {
	r := l.registry
	if k := r.byNo[row.no]; k != nil {
		return k, nil
	}
	acct, err := l.account(row.account)
	if err != nil {
		return nil, err
	}
	k := row.key(r.keySlab.take(), acct)
	u := &k.first
	k.use, u.keyRest = u, new(keyRest)
	u.revoked.Store(row.revokedUs != 0)
	day := l.today()
	if l.node != nil {
		u.lease = &quotaLease{account: acct, key: k.No}
		u.enforce(k, day)
		r.put(&row.digest, k)
		return k, nil
	}
	u.kind, u.mostUSD, u.mostDIEM = k.Period, limitOf(k.LimitUSD), limitOf(k.LimitDIEM)
	if k.limited() {
		// What was held or charged before it was in memory is all in the store.
		used, err := l.store.KeyUsed(row.account, row.no, k.Period, day)
		if err == nil {
			u.later, err = l.keyUsedLater(k, day)
		}
		if err != nil {
			return nil, fmt.Errorf("cannot read what key %s has used: %w", row.id, err)
		}
		u.quota = quotaOf(k.Period.number(day), &used)
	}
	r.put(&row.digest, k)
	return k, nil
}

// key fills in the record of a row, without its state.
func (r *keyRow) key(k *Key, acct *AccountState) *Key {
	k.No, k.Account, k.expiresNs = r.no, acct, expiryNs(r.expiresUs)
	k.keyRecord = &keyRecord{
		ID: r.id, Type: r.typ, Last6: r.last6, Description: r.description,
		Privacy: r.privacy, Period: r.period, LimitUSD: r.limitUSD, LimitDIEM: r.limitDIEM,
		CreatedAt: fromMicro(r.createdUs), ExpiresAt: fromMicro(r.expiresUs),
	}
	return k
}

// expiryNs is when a key expires, in Unix ns; 0: never. What lies beyond 2262
// has no such number, and never comes.
func expiryNs(us int64) int64 {
	if us > math.MaxInt64/1000 {
		return 0
	}
	return us * 1000
}

func (k *Key) limited() bool { return k.LimitUSD != nil || k.LimitDIEM != nil }

// replaceKey makes the row the current version of its key: from its return on,
// lookups find it and its limits hold, also for holds that are extended. What
// the key has used so far, its rate windows and its revocation stay. A key
// that is not in memory needs nothing: nil. The caller holds loading and has
// written the row to the store.
func (l *Ledger) replaceKey(row *keyRow) (*Key, error) {
	old := l.registry.byNo[row.no]
	if old == nil {
		return nil, nil
	}
	k := row.key(new(Key), old.Account)
	k.use = old.use
	a := k.Account
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := l.relimit(k, old); err != nil {
		return nil, fmt.Errorf("cannot read what key %s has used: %w", row.id, err)
	}
	if row.revokedUs != 0 {
		k.use.revoked.Store(true)
	}
	l.registry.put(&row.digest, k)
	old.outdated.Store(true)
	return k, nil
}

// relimit brings k's limits into force. Where the use of the new period is not
// in memory, because the key had no limits or another kind of period, it is
// counted anew while the account stands still: everything that was recorded is
// projected first. The caller holds the account's lock.
func (l *Ledger) relimit(k, old *Key) error {
	u := k.use
	if u.lease != nil {
		u.relimit(k)
		return nil
	}
	if k.limited() && (!old.limited() || k.Period != u.kind) {
		if err := l.project.catchUp(); err != nil {
			return err
		}
		day := k.Account.day
		used, err := l.keyUsed(k, k.Period, day)
		if err == nil {
			u.later, err = l.keyUsedLater(k, day)
		}
		if err != nil {
			return err
		}
		u.quota = quotaOf(k.Period.number(day), &used)
	}
	u.kind, u.mostUSD, u.mostDIEM = k.Period, limitOf(k.LimitUSD), limitOf(k.LimitDIEM)
	return nil
}

// keyUsed is what a key has used in the period that day lies in, by the store
// and by its open holds. The caller holds the account's lock.
func (l *Ledger) keyUsed(k *Key, p Period, day int32) (parts, error) {
	a := k.Account
	used, err := l.store.KeyUsed(a.no, k.No, p, day)
	for h, n := a.open, a.opened; n > 0; h, n = h.next, n-1 {
		if h.key.No == k.No && p.number(h.day) == p.number(day) {
			used.add(&h.parts)
		}
	}
	return used, err
}

// keyUsedLater is what a key has used in periods after the one that day lies in:
// of a time when the clock was ahead. What those begin with, or a limit would
// hold twice in each of them.
func (l *Ledger) keyUsedLater(k *Key, day int32) (map[int32]quota, error) {
	days, err := l.store.KeyUsedLater(k.Account.no, k.No, day)
	if err != nil {
		return nil, err
	}
	var later map[int32]quota
	for d, used := range days {
		n := k.Period.number(d)
		if n <= k.Period.number(day) {
			continue
		}
		if later == nil {
			later = map[int32]quota{}
		}
		q, more := later[n], quotaOf(n, &used)
		more.usd, more.diem = more.usd+q.usd, more.diem+q.diem
		later[n] = more
	}
	return later, nil
}

// account gives the one AccountState of an account, from the store at its first
// use. The caller holds loading.
func (l *Ledger) account(no uint32) (*AccountState, error) {
	r := l.registry
	if a := r.accounts[no]; a != nil {
		return a, nil
	}
	day := l.today()
	row, err := l.store.Account(no, day)
	if err != nil {
		return nil, fmt.Errorf("cannot read account %d: %w", no, err)
	}
	a := r.accountSlab.take()
	*a = AccountState{ID: row.id, Name: row.name, no: no, ledger: l, day: day, avail: row.avail, refill: row.diemDaily, spent: row.spent, slot: noSlot}
	switch {
	case l.node != nil:
		if err := l.node.lease(a); err != nil {
			return nil, fmt.Errorf("cannot read the funds of account %d: %w", no, err)
		}
	case row.lastDIEM > day:
		if a.later, err = l.store.LaterDIEM(no, day); err != nil {
			return nil, fmt.Errorf("cannot read account %d: %w", no, err)
		}
	}
	r.accounts[no] = a
	return a, nil
}

func fromMicro(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(us).UTC()
}

func toMicro(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}
