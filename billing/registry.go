package billing

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dgraph-io/ristretto/v2"

	"farebox/billing/money"
	"farebox/billing/slab"
	"farebox/billing/store"
)

// ErrUnknownKey is a secret that belongs to no live key: unknown, revoked or
// expired. Callers must not tell these apart.
var ErrUnknownKey = errors.New("the key is unknown, revoked or expired")

// registry finds keys by the digest of their secret. Keys that have been used
// since the start are in memory as long as they live, with the state that hangs
// off them; others are read from the store at their first use, so that neither
// the start nor idle memory grows with the number of keys. Digests that the
// store does not know are remembered for a while in an evicting cache, which may
// forget.
//
// No lock is held while the store is read, so that a client that tries secrets
// delays no other: mu is for publication alone. A row is only published when
// epoch says that no key has changed meanwhile without being in memory;
// otherwise it is read again.
type registry struct {
	shards    [registryShards]registryShard
	unknown   *ristretto.Cache[uint64, *unknownKey]
	epoch     atomic.Uint64 // counts changes of keys that were not in memory; older entries of unknown mean nothing
	reads     *keyReads
	replacing sync.Mutex // one key is changed at a time

	mu       sync.Mutex // guards the members below
	byNo     map[int64]*Key
	accounts map[uint32]*AccountState
	finding  map[store.Digest]*keyFlight
	opening  map[uint32]chan struct{} // accounts that are being read; closed when they are in memory

	keySlab     slab.Of[Key]
	accountSlab slab.Of[AccountState]
}

// keyFlight is the first use of a key that several requests make at once.
type keyFlight struct {
	over chan struct{}
	key  *Key
	err  error
}

const (
	registryShards = 64
	// unknownFor is how long an unknown digest is not asked for again.
	unknownFor = 5 * time.Second
	// unknownMost bounds how many are remembered.
	unknownMost = 1 << 14
	// loadTries is how often a key is read again because keys have changed.
	loadTries = 20
	// loadAtOnce are the tries without a pause before them.
	loadAtOnce = 3
)

type registryShard struct {
	mu sync.RWMutex
	m  map[store.Digest]*Key
}

func newRegistry() (*registry, error) {
	unknown, err := ristretto.NewCache(&ristretto.Config[uint64, *unknownKey]{
		NumCounters: 10 * unknownMost, MaxCost: unknownMost, BufferItems: 64, IgnoreInternalCost: true,
	})
	if err != nil {
		return nil, fmt.Errorf("cannot make the cache of unknown keys: %w", err)
	}
	r := &registry{
		unknown: unknown, byNo: map[int64]*Key{}, accounts: map[uint32]*AccountState{},
		finding: map[store.Digest]*keyFlight{}, opening: map[uint32]chan struct{}{}, reads: newKeyReads(),
	}
	for i := range r.shards {
		r.shards[i].m = map[store.Digest]*Key{}
	}
	return r, nil
}

func (r *registry) shard(d *store.Digest) *registryShard { return &r.shards[d[0]%registryShards] }

func (r *registry) get(d *store.Digest) *Key {
	s := r.shard(d)
	s.mu.RLock()
	k := s.m[*d]
	s.mu.RUnlock()
	return k
}

// put publishes k. The caller holds mu.
func (r *registry) put(k *Key) {
	s := r.shard(&k.digest)
	s.mu.Lock()
	s.m[k.digest] = k
	s.mu.Unlock()
	r.byNo[k.No] = k
}

// drop takes k out of memory. The caller holds mu.
func (r *registry) drop(k *Key) {
	s := r.shard(&k.digest)
	s.mu.Lock()
	delete(s.m, k.digest)
	s.mu.Unlock()
	delete(r.byNo, k.No)
}

// byNumber gives a key that is in memory.
func (r *registry) byNumber(number int64) *Key {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.byNo[number]
}

// unknownKey is a digest of no live key.
type unknownKey struct {
	digest store.Digest
	err    error
}

// isUnknown returns the remembered refusal of a secret; nil if absent.
func (r *registry) isUnknown(d *store.Digest) error {
	if known, ok := r.unknown.Get(cacheKey(d) + r.epoch.Load()); ok && known.digest == *d {
		return known.err
	}
	return nil
}

// setUnknown remembers the store's answer at an epoch.
func (r *registry) setUnknown(d *store.Digest, epoch uint64, err error) {
	r.unknown.SetWithTTL(cacheKey(d)+epoch, &unknownKey{*d, err}, 1, unknownFor)
}

// changed is for when a key that is not in memory was made or changed: earlier
// reads of it mean nothing. The caller holds mu, so that nothing that
// was read before is published afterwards.
func (r *registry) changed() { r.epoch.Add(1) }

// cacheKey is a part of the digest; digests are pseudo-random under the pepper.
func cacheKey(d *store.Digest) uint64 { return binary.LittleEndian.Uint64(d[:]) }

// Lookup finds the live key that a secret belongs to, or gives ErrUnknownKey, or
// ErrSuspended or ErrClosed of its account.
func (l *Ledger) Lookup(secret []byte) (*Key, error) { return l.LookupFrom(netip.Addr{}, secret) }

// LookupFrom is Lookup for a client's address. One that has tried too many
// secrets of no key finds only keys that are in use, and those that were made
// here of late: TooManyWrong. The zero Addr may try any number.
func (l *Ledger) LookupFrom(from netip.Addr, secret []byte) (*Key, error) {
	d := l.hasher.digest(secret)
	k := l.registry.get(&d)
	if k == nil {
		if after := l.mustWait(from); after > 0 && !l.registry.reads.expected(&d) {
			return nil, &TooManyWrong{After: after}
		}
		var err error
		if k, err = l.loadKey(from, &d); err != nil {
			l.noteWrong(from, err)
			return nil, err
		}
	}
	if err := l.usable(k); err != nil {
		l.noteWrong(from, err)
		return nil, err
	}
	return k, nil
}

// RefusedKey is a key that is known and may not be used: ErrSuspended or ErrClosed of its account,
// or ErrUnknownKey, since it is revoked or has expired.
type RefusedKey struct {
	account uint32
	key     int64
	why     error
}

func (e *RefusedKey) Error() string { return e.why.Error() }

func (e *RefusedKey) Unwrap() error { return e.why }

// By names the cause of the refusal, as limits have names.
func (e *RefusedKey) By() string {
	switch e.why {
	case ErrSuspended:
		return "account_suspended"
	case ErrClosed:
		return "account_closed"
	}
	return "key_revoked"
}

// usable returns the reason why a key may not be used; nil: it may.
func (l *Ledger) usable(k *Key) error {
	err := k.use.barred()
	if err == nil && !l.valid(k) {
		err = ErrUnknownKey
	}
	if err != nil {
		return &RefusedKey{k.Account.no, k.No, err}
	}
	return nil
}

func (l *Ledger) valid(k *Key) bool {
	return k.use.gate.Load() == 0 && (k.expiresNs == 0 || l.now() < k.expiresNs)
}

// Live says whether Lookup would return this key again.
func (l *Ledger) Live(k *Key) bool { return !k.outdated.Load() && l.valid(k) }

// loadKey reads a key at its first use: once for all concurrent requests.
func (l *Ledger) loadKey(from netip.Addr, d *store.Digest) (*Key, error) {
	r := l.registry
	if err := r.isUnknown(d); err != nil {
		return nil, err
	}
	r.mu.Lock()
	if k := r.get(d); k != nil {
		r.mu.Unlock()
		return k, nil
	}
	f := r.finding[*d]
	if f != nil {
		r.mu.Unlock()
		<-f.over
		return f.key, f.err
	}
	f = &keyFlight{over: make(chan struct{}), err: errMoved}
	r.finding[*d] = f
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		delete(r.finding, *d)
		r.mu.Unlock()
		close(f.over)
	}()
	f.key, f.err = l.findKey(from, d)
	return f.key, f.err
}

// errMoved is a key that keeps changing while it is read.
var errMoved = errors.New("it keeps changing")

func (l *Ledger) findKey(from netip.Addr, d *store.Digest) (*Key, error) {
	r := l.registry
	leave, err := r.reads.acquire(from, d)
	if err != nil {
		return nil, err
	}
	defer leave()
	err = errMoved
	for try := range loadTries {
		if try >= loadAtOnce {
			time.Sleep(time.Duration(try) * time.Millisecond) // the changes of other keys are being taken over
		}
		epoch := r.epoch.Load()
		row, reading := l.store.KeyByDigest(*d)
		refusal := ErrUnknownKey
		if reading == nil {
			refusal = nil
			if l.dead(row) {
				refusal = &RefusedKey{row.Account, row.No, ErrUnknownKey}
			}
		}
		if refusal != nil && (reading == nil || errors.Is(reading, store.ErrNoRow)) {
			r.setUnknown(d, epoch, refusal)
			return nil, refusal
		}
		if reading != nil {
			return nil, fmt.Errorf("cannot look up a key: %w", reading)
		}
		leave() // the key is known
		var k *Key
		if k, err = l.adoptKey(row, epoch); !errors.Is(err, errMoved) {
			return k, err
		}
	}
	return nil, fmt.Errorf("cannot look up a key: %w", err)
}

// dead says that the key of a row is revoked or has expired.
func (l *Ledger) dead(row *store.KeyRow) bool {
	expires := expiryNs(row.ExpiresUs)
	return row.RevokedUs != 0 || expires != 0 && l.now() >= expires
}

// adoptKey makes the one Key of a row that was read at an epoch, or gives
// errMoved when the row may have changed since.
func (l *Ledger) adoptKey(row *store.KeyRow, epoch uint64) (*Key, error) {
	r := l.registry
	acct, err := l.account(row.Account)
	if err != nil {
		return nil, err
	}
	var used money.Parts
	var later map[int32]quota
	day := l.Today()
	if limited := row.LimitUSD != nil || row.LimitDIEM != nil; limited && l.node == nil {
		// All earlier holds and charges, from before it was in memory, are in the store.
		used, err = l.store.KeyUsed(row.Account, row.No, row.Period, day)
		if err == nil {
			later, err = l.keyUsedLater(row.Account, row.No, row.Period, day)
		}
		if err != nil {
			return nil, fmt.Errorf("cannot read what key %s has used: %w", row.ID, err)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if k := r.byNo[row.No]; k != nil {
		return k, nil
	}
	if r.epoch.Load() != epoch {
		return nil, errMoved
	}
	k := keyOf(r.room(acct), row, acct)
	u := &k.first
	k.use, u.keyRest = u, new(keyRest)
	u.bar(acct.status)
	if l.node != nil {
		u.lease = &quotaLease{account: acct, key: k.No}
		u.enforce(k, day)
		r.put(k)
		return k, nil
	}
	u.kind, u.mostUSD, u.mostDIEM = k.Period, limitOf(k.LimitUSD), limitOf(k.LimitDIEM)
	if k.limited() {
		u.quota, u.later = quotaOf(k.Period.Number(day), &used), later
	}
	r.put(k)
	return k, nil
}

// room is where a new key goes: next to the others, or, where an account deletes
// its keys again, by itself, so that its memory comes back alone. The caller
// holds mu.
func (r *registry) room(a *AccountState) *Key {
	if a.deletes {
		return new(Key)
	}
	return r.keySlab.Take()
}

// key fills in the record of a row, without its state.
func keyOf(k *Key, r *store.KeyRow, acct *AccountState) *Key {
	k.No, k.Account, k.expiresNs = r.No, acct, expiryNs(r.ExpiresUs)
	k.keyRecord = &keyRecord{
		ID: r.ID, Type: r.Type, Last6: r.Last6, Description: r.Description,
		Privacy: r.Privacy, Period: r.Period, LimitUSD: r.LimitUSD, LimitDIEM: r.LimitDIEM,
		CreatedAt: fromMicro(r.CreatedUs), ExpiresAt: fromMicro(r.ExpiresUs), digest: r.Digest, version: r.Version,
	}
	return k
}

// expiryNs is when a key expires, in Unix ns; 0: never. A time beyond 2262
// has no such number, and never comes.
func expiryNs(us int64) int64 {
	if us > math.MaxInt64/1000 {
		return 0
	}
	return us * 1000
}

func (k *Key) limited() bool { return k.LimitUSD != nil || k.LimitDIEM != nil }

// limitedLike says whether both have the same limits, of the same period.
func (k *Key) limitedLike(other *Key) bool {
	same := func(a, b *Nano) bool { return a == b || a != nil && b != nil && *a == *b }
	return k.Period == other.Period && same(k.LimitUSD, other.LimitUSD) && same(k.LimitDIEM, other.LimitDIEM)
}

// replaceKey makes the row the current version of its key: from its return on,
// lookups find it and its limits hold, also for holds that are extended. The
// key's use so far, its rate windows and its revocation stay. A key
// that is not in memory needs nothing: nil. The caller has written the row to
// the store or read it there.
func (l *Ledger) replaceKey(row *store.KeyRow) (*Key, error) {
	r := l.registry
	r.replacing.Lock()
	defer r.replacing.Unlock()
	r.mu.Lock()
	old := r.byNo[row.No]
	if old == nil {
		r.changed()
	}
	r.mu.Unlock()
	if old == nil || row.Version < old.version {
		return old, nil
	}
	k := keyOf(new(Key), row, old.Account)
	k.use = old.use
	if err := l.relimit(k, old); err != nil {
		return nil, fmt.Errorf("cannot read what key %s has used: %w", row.ID, err)
	}
	r.mu.Lock()
	if k.digest != old.digest {
		r.drop(old) // its digest is another key's now (retireKey)
	}
	r.put(k)
	r.mu.Unlock()
	old.outdated.Store(true)
	if row.RevokedUs != 0 {
		l.forgetKey(k)
	}
	return k, nil
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
