package billing

import (
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"farebox/billing/store"
	"farebox/config"
)

// stuckStore answers queries for unknown secrets only after it is released.
type stuckStore struct {
	store.Store
	known   sync.Map // digests
	waiting atomic.Int32
	free    chan struct{}
}

// As knows the keys that operators make, too.
func (s *stuckStore) As(e *store.AuditEntry) store.Store { return &stuckView{s.Store.As(e), s} }

type stuckView struct {
	store.Store
	all *stuckStore
}

func (v *stuckView) AddKey(row *store.KeyRow, most int) error {
	v.all.known.Store(row.Digest, true)
	return v.Store.AddKey(row, most)
}

func (s *stuckStore) AddKey(row *store.KeyRow, most int) error {
	s.known.Store(row.Digest, true)
	return s.Store.AddKey(row, most)
}

func (s *stuckStore) KeyByDigest(d store.Digest) (*store.KeyRow, error) {
	if _, ok := s.known.Load(d); !ok {
		s.waiting.Add(1)
		<-s.free
		s.waiting.Add(-1)
	}
	return s.Store.KeyByDigest(d)
}

// "While somebody tried random keys on 3,000 connections, a key that was
// revoked was served for two seconds, and a new one could not be used."
func TestStrangersDelayNobody(t *testing.T) {
	var db *stuckStore
	f := openLedger(t, func(o *Options) {
		o.wrapStore = func(inner store.Store) store.Store {
			db = &stuckStore{Store: inner, free: make(chan struct{})}
			return db
		}
	})
	f.account("a", usd)
	k, secret := f.key("a")
	_, before, err := f.CreateKey(NewKey{Account: "a", Type: store.Inference})
	if err != nil {
		t.Fatal(err)
	}

	const tries = 3000
	var many, unknown atomic.Int32
	var wg sync.WaitGroup
	for i := range tries {
		wg.Go(func() {
			switch _, err := f.Lookup(fmt.Appendf(nil, "SVC_INFERENCE_KEY_%d", i)); {
			case errors.Is(err, ErrManyUnknownKeys):
				many.Add(1)
			case errors.Is(err, ErrUnknownKey):
				unknown.Add(1)
			default:
				t.Errorf("a random secret gives %v", err)
			}
		})
	}
	for many.Load() < tries-keyReadsWaiting {
		time.Sleep(time.Millisecond)
	}
	if n := db.waiting.Load(); n > keyReadsAtOnce {
		t.Errorf("%d reads of the store at once for secrets of no key", n)
	}

	done := make(chan struct{})
	go func() {
		defer close(done)
		if _, err := f.Lookup([]byte(before)); err != nil {
			t.Errorf("the first use of a key: %v", err)
		}
		if _, secret, err := f.CreateKey(NewKey{Account: "a", Type: store.Inference}); err != nil {
			t.Error(err)
		} else if _, err := f.Lookup([]byte(secret)); err != nil {
			t.Errorf("the first use of a new key: %v", err)
		}
		if err := f.RevokeKey(k.ID); err != nil {
			t.Error(err)
		}
		if f.Live(k) {
			t.Error("a revoked key is still served")
		}
	}()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Error("keys wait for clients that try secrets")
	}
	close(db.free)
	wg.Wait()
	<-done
	if _, err := f.Lookup([]byte(secret)); !errors.Is(err, ErrUnknownKey) {
		t.Errorf("the revoked key gives %v", err)
	}
	if n := unknown.Load(); n == 0 || n > keyReadsWaiting {
		t.Errorf("%d were looked up, at most %d may wait", n, keyReadsWaiting)
	}
}

// A key that is revoked while its first use reads it is refused afterwards.
func TestAKeyRevokedDuringItsFirstUseIsRefused(t *testing.T) {
	f := openLedger(t)
	f.account("a", usd)
	for range 50 {
		info, secret, err := f.CreateKey(NewKey{Account: "a", Type: store.Inference, LimitUSD: nano(usd)})
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() { _, _ = f.Lookup([]byte(secret)) })
		}
		if err := f.RevokeKey(info.ID); err != nil {
			t.Fatal(err)
		}
		if _, err := f.Lookup([]byte(secret)); !errors.Is(err, ErrUnknownKey) {
			t.Fatalf("a revoked key gives %v", err)
		}
		wg.Wait()
		if _, err := f.Lookup([]byte(secret)); !errors.Is(err, ErrUnknownKey) {
			t.Fatalf("a revoked key gives %v after its first uses", err)
		}
	}
}

// An address that tries keys may not try new ones, and keys in use are served.
func TestAnAddressThatTriesKeysMustWait(t *testing.T) {
	f := openLedger(t)
	f.Configure(&config.Config{
		Limits: config.Limits{WrongKeys: config.Budget{Count: 100, Window: time.Minute, Block: time.Minute}}})
	f.account("a", usd)
	_, used := f.key("a")
	_, unused, err := f.CreateKey(NewKey{Account: "a", Type: store.Inference})
	if err != nil {
		t.Fatal(err)
	}
	bad, good := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	var wrong *TooManyWrong
	for i := range 101 {
		if _, err := f.LookupFrom(bad, fmt.Appendf(nil, "random %d", i)); !errors.Is(err, ErrUnknownKey) {
			t.Fatalf("try %d: %v", i, err)
		}
	}
	if _, err := f.LookupFrom(bad, []byte("one more")); !errors.As(err, &wrong) || wrong.After != time.Minute {
		t.Errorf("the 102nd: %v", err)
	}
	for name, lookup := range map[string]func() error{
		"a key in use":    func() error { _, err := f.LookupFrom(bad, []byte(used)); return err },
		"a key just made": func() error { _, err := f.LookupFrom(bad, []byte(unused)); return err },
		"another address": func() error {
			_, err := f.LookupFrom(good, []byte("random"))
			return ignore(err, ErrUnknownKey)
		},
		"a socket of no address": func() error {
			_, err := f.LookupFrom(netip.Addr{}, []byte("random"))
			return ignore(err, ErrUnknownKey)
		},
	} {
		if err := lookup(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	f.clock.advance(time.Minute)
	if _, err := f.LookupFrom(bad, []byte("later")); !errors.Is(err, ErrUnknownKey) {
		t.Errorf("a minute later: %v", err)
	}
}

func ignore(err, one error) error {
	if errors.Is(err, one) {
		return nil
	}
	return err
}

// "Keys that were made and deleted stayed in memory for ever."
func TestKeysThatAreDeletedLeaveMemory(t *testing.T) {
	f := openLedger(t)
	f.account("a", usd)
	f.key("a") // one that stays
	const keys = 100_000
	a := f.loaded(1)
	heap := func() int64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := heap()
	var held *Key // a request that is still under way
	most := int64(0)
	for i := range int64(keys) {
		row := &store.KeyRow{No: 1000 + i, ID: newUUID(), Account: a.no, Type: store.Inference, Period: store.Epoch,
			Version: 1}
		for b := range 8 {
			row.Digest[b] = byte(i >> (8 * b))
		}
		k, err := f.adoptKey(row, f.registry.epoch.Load())
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			held = k
		}
		k.Touch(f.clock.nano())
		f.forgetKey(k)
		if i == keys/2 {
			most = heap() - before
		}
	}
	if err := f.touched.flush(noTouches{f.store}); err != nil {
		t.Fatal(err)
	}
	grown := heap() - before
	t.Logf("half of the keys: %d bytes more; all of them: %d", most, grown)
	if grown > 4<<20 {
		t.Errorf("%d keys that are gone take %d bytes", keys, grown)
	}
	f.registry.mu.Lock()
	if n := len(f.registry.byNo); n != 1 {
		t.Errorf("%d keys are in memory, expected the one that lives", n)
	}
	f.registry.mu.Unlock()
	runtime.KeepAlive(held)
}

type noTouches struct{ store.Store }

func (noTouches) TouchKeys(map[int64]int64) error { return nil }

// An expired key leaves memory, and continues from its earlier usage when its owner
// prolongs it.
func TestExpiredKeysLeaveMemory(t *testing.T) {
	f := openLedger(t)
	f.account("a", 10*usd)
	k, secret := f.key("a", func(n *NewKey) {
		n.ExpiresAt, n.LimitUSD, n.Period = f.clock.now().Add(time.Minute), nano(3*usd), store.Lifetime
	})
	var h, open Hold
	f.Admit(&h, f.ask(k, 2*usd))
	f.settle(&h, 2*usd)
	f.Admit(&open, f.ask(k, usd))
	f.clock.advance(2 * time.Hour)
	f.forgetExpired()
	if f.registry.byNumber(k.No) == nil {
		t.Error("a key with an open hold was forgotten")
	}
	f.settle(&open, usd)
	if err := f.project.catchUp(); err != nil {
		t.Fatal(err)
	}
	f.forgetExpired()
	if f.registry.byNumber(k.No) != nil {
		t.Error("an expired key is still in memory")
	}
	if _, err := f.Lookup([]byte(secret)); !errors.Is(err, ErrUnknownKey) {
		t.Errorf("the expired key gives %v", err)
	}
	later := f.clock.now().Add(time.Hour)
	if _, err := f.Accounts().UpdateKey(k.Account, k.ID, KeyChange{ExpiresAt: &later}); err != nil {
		t.Fatal(err)
	}
	again, err := f.Lookup([]byte(secret))
	if err != nil {
		t.Fatalf("the prolonged key: %v", err)
	}
	h.Reset()
	if d := f.Admit(&h, f.ask(again, 1)); d.Code != KeyLimitUSD {
		t.Errorf("its used limit is forgotten: %v", d.Code)
	}
	f.recount()
}

// "Somebody tries random keys from one address, and the first request with my key since
// the restart is refused."
func TestOneAddressDoesNotTakeTheReadsOfUnknownKeys(t *testing.T) {
	var db *stuckStore
	f := openLedger(t, func(o *Options) {
		o.wrapStore = func(inner store.Store) store.Store {
			db = &stuckStore{Store: inner, free: make(chan struct{})}
			return db
		}
	})
	f.account("a", usd)
	_, secret := f.key("a")
	f.reopen() // nothing is in memory, and no key was announced
	db.known.Store(f.hasher.digest([]byte(secret)), true)
	var wg sync.WaitGroup
	for i := range keyReadsWaiting {
		wg.Go(func() {
			_, _ = f.LookupFrom(netip.MustParseAddr("192.0.2.1"), fmt.Appendf(nil, "SVC_INFERENCE_KEY_%d", i))
		})
	}
	for f.registry.reads.turns.Waiting() < keyReadsWaiting {
		time.Sleep(time.Millisecond)
	}
	found := make(chan error)
	go func() {
		_, err := f.LookupFrom(netip.MustParseAddr("192.0.2.2"), []byte(secret))
		found <- err
	}()
	for n := range keyReadsAtOnce {
		db.free <- struct{}{} // one read of the greedy address ends, then the next
		select {
		case err := <-found:
			if err != nil {
				t.Errorf("a key that exists gives %v", err)
			}
			close(db.free)
			wg.Wait()
			return
		case <-time.After(2 * time.Second):
			if n == keyReadsAtOnce-1 {
				t.Error("it waits for more than the reads that were under way")
			}
		}
	}
	close(db.free)
	wg.Wait()
	<-found
}
