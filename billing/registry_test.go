package billing

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"farebox/billing/store"
)

// countingStore counts reads of keys.
type countingStore struct {
	store.Store
	reads atomic.Int64
}

func (s *countingStore) KeyByDigest(d store.Digest) (*store.KeyRow, error) {
	s.reads.Add(1)
	return s.Store.KeyByDigest(d)
}

func countReads(s **countingStore) func(*Options) {
	return func(o *Options) {
		o.wrapStore = func(inner store.Store) store.Store {
			*s = &countingStore{Store: inner}
			return *s
		}
	}
}

// "I revoked a stolen key and it still worked."
func TestRevokedKeyIsRefusedAtOnce(t *testing.T) {
	f := openLedger(t)
	f.account("a", usd)
	k, secret := f.key("a")
	stop := make(chan struct{})
	revoked := atomic.Bool{}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				gone := revoked.Load()
				if _, err := f.Lookup([]byte(secret)); gone && err == nil {
					t.Error("a key was valid after RevokeKey returned")
					return
				}
			}
		})
	}
	if err := f.RevokeKey(k.ID); err != nil {
		t.Fatal(err)
	}
	revoked.Store(true)
	time.Sleep(20 * time.Millisecond)
	close(stop)
	wg.Wait()
	f.reopen()
	if _, err := f.Lookup([]byte(secret)); !errors.Is(err, ErrUnknownKey) {
		t.Errorf("after a restart the revoked key gives %v", err)
	}
	if err := f.RevokeKey(k.ID); err != nil {
		t.Errorf("revoking again: %v", err)
	}
	if err := f.RevokeKey("no-such-key"); !errors.Is(err, ErrNoKey) {
		t.Errorf("revoking an unknown key: %v", err)
	}
}

func TestExpiredKeyIsRefused(t *testing.T) {
	f := openLedger(t)
	f.account("a", usd)
	_, secret := f.key("a", func(n *NewKey) { n.ExpiresAt = f.clock.now().Add(time.Hour) })
	f.clock.advance(time.Hour - 1)
	if _, err := f.Lookup([]byte(secret)); err != nil {
		t.Errorf("a nanosecond before: %v", err)
	}
	f.clock.advance(1)
	if _, err := f.Lookup([]byte(secret)); !errors.Is(err, ErrUnknownKey) {
		t.Errorf("at the time: %v", err)
	}
	if _, _, err := f.CreateKey(NewKey{Account: "a", Type: store.Inference, ExpiresAt: f.clock.now()}); err == nil {
		t.Error("a key was created that has expired already")
	}
}

// "Somebody tried a wrong key in a loop and the database melted."
func TestUnknownKeyIsAskedForOnce(t *testing.T) {
	var db *countingStore
	f := openLedger(t, countReads(&db))
	secret := []byte("SVC_INFERENCE_KEY_wrong")
	for range 100 {
		if _, err := f.Lookup(secret); !errors.Is(err, ErrUnknownKey) {
			t.Fatalf("an unknown key gives %v", err)
		}
		f.registry.unknown.Wait()
	}
	if n := db.reads.Load(); n != 1 {
		t.Errorf("100 tries read the store %d times", n)
	}
	d := f.hasher.digest(secret)
	if ttl, ok := f.registry.unknown.GetTTL(cacheKey(&d)); !ok || ttl <= 0 || ttl > unknownFor {
		t.Errorf("it is remembered for %v (%v), expected up to %v", ttl, ok, unknownFor)
	}
}

// All callers get the same Key at the first use of a key that another node created.
func TestFirstUsesAtOnceFindOneKey(t *testing.T) {
	var db *countingStore
	f := openLedger(t, countReads(&db))
	f.account("a", usd)
	_, secret, err := f.CreateKey(NewKey{Account: "a", Type: store.Admin, LimitUSD: nano(usd), Period: store.Month})
	if err != nil {
		t.Fatal(err)
	}
	var found [32]*Key
	var wg sync.WaitGroup
	for i := range found {
		wg.Go(func() { found[i], _ = f.Lookup([]byte(secret)) })
	}
	wg.Wait()
	for _, k := range found {
		if k == nil || k != found[0] {
			t.Fatal("two callers have different keys")
		}
	}
	if k := found[0]; k.Type != store.Admin || *k.LimitUSD != usd || k.LimitDIEM != nil || k.Period != store.Month ||
		k.Account.Name() != "a" || !strings.HasSuffix(secret, k.Last6) {
		t.Errorf("the key is %+v", found[0])
	}
	if n := db.reads.Load(); n != 1 {
		t.Errorf("the store was read %d times", n)
	}
}

// "The database was copied and the keys were in it."
func TestSecretsAreNotInTheStore(t *testing.T) {
	f := openLedger(t)
	f.account("a", usd)
	_, inference := f.key("a")
	_, admin := f.key("a", func(n *NewKey) { n.Type = store.Admin })
	for secret, form := range map[string]string{inference: `^SVC_INFERENCE_KEY_[0-9A-Za-z]{43}$`,
		admin: `^SVC_ADMIN_KEY_[0-9A-Za-z]{43}$`} {
		if !regexp.MustCompile(form).MatchString(secret) {
			t.Errorf("secret %q is not of the form %s", secret, form)
		}
	}
	err := filepath.WalkDir(f.dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		if info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %s: others can read it", path, info.Mode())
		}
		data, err := os.ReadFile(path)
		for _, secret := range []string{inference, admin} {
			if strings.Contains(string(data), secret[len(secret)-43:]) {
				t.Errorf("%s has a key's secret", path)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// "The pepper was lost and every key was refused without a word."
func TestLostPepperIsSaid(t *testing.T) {
	f := openLedger(t)
	f.account("a", usd)
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(f.options.Dir, pepperFile)
	pepper, _ := os.ReadFile(path)
	for name, spoil := range map[string]func() error{
		"removed": func() error { return os.Remove(path) },
		"cut":     func() error { return os.WriteFile(path, pepper[:10], 0o600) },
	} {
		if err := spoil(); err != nil {
			t.Fatal(err)
		}
		if l, err := Open(f.options); err == nil || !strings.Contains(err.Error(), "pepper") {
			t.Errorf("%s: opened with %v", name, err)
			if l != nil {
				_ = l.Close()
			}
		}
	}
	if err := os.WriteFile(path, pepper, 0o600); err != nil {
		t.Fatal(err)
	}
	f.open()
}

func TestSecretsDiffer(t *testing.T) {
	seen := map[string]bool{}
	for range 1000 {
		s := newSecret("svc", store.Inference, (*call)(nil).secretOf(nil))
		if seen[s] {
			t.Fatal("two secrets are equal")
		}
		seen[s] = true
	}
}

// replace makes a changed row the current version of k, as an update does.
func (f *fixture) replace(k *Key, change func(*store.KeyRow)) *Key {
	f.t.Helper()
	row, err := f.store.KeyByID(k.ID)
	if err != nil {
		f.t.Fatal(err)
	}
	change(row)
	if row.RevokedUs != 0 {
		// A revoked key leaves memory, and then the store is asked.
		if err := f.store.RevokeKey(row.No, row.RevokedUs); err != nil {
			f.t.Fatal(err)
		}
	}
	next, err := f.replaceKey(row)
	if err != nil {
		f.t.Fatal(err)
	}
	return next
}

// "I raised the key's limit and it could spend the whole of it again."
func TestChangedLimitForgetsNothingThatWasUsed(t *testing.T) {
	f := openLedger(t)
	f.account("a", 1000*usd)
	k, secret := f.key("a", func(n *NewKey) { n.LimitUSD = nano(5 * usd) })
	var held, h Hold
	f.Admit(&held, f.ask(k, usd))
	f.Admit(&h, f.ask(k, 3*usd))
	f.settle(&h, 3*usd)
	admits := func(want DenialCode, key *Key, n Nano) {
		t.Helper()
		h.Reset()
		if d := f.Admit(&h, f.ask(key, n)); d.Code != want {
			t.Fatalf("a hold of %s is answered with %d, expected %d", n, d.Code, want)
		}
		if want == Admitted {
			h.Void(f.clock.at())
		}
	}
	next := f.replace(k, func(r *store.KeyRow) { r.LimitUSD, r.Description = nano(6*usd), "larger" })
	if found, err := f.Lookup([]byte(secret)); err != nil || found != next || found.Description != "larger" {
		t.Fatalf("the key is found as %+v, %v", found, err)
	}
	// The new limit also binds a key that was looked up before the change.
	for _, key := range []*Key{k, next} {
		admits(KeyLimitUSD, key, 2*usd+1)
		admits(Admitted, key, 2*usd)
	}
	f.replace(next, func(r *store.KeyRow) { r.LimitUSD = nano(2 * usd) })
	admits(KeyLimitUSD, next, 1)
	if held.Extend(1) {
		t.Error("a hold from before the change was extended beyond the new limit")
	}
	f.replace(next, func(r *store.KeyRow) { r.LimitUSD = nil })
	admits(Admitted, next, 100*usd)
	f.Admit(&h, f.ask(k, 10*usd))
	f.settle(&h, 10*usd)
	// A limit returns with another period: usage without a limit counts, too.
	f.replace(next, func(r *store.KeyRow) { r.LimitUSD, r.Period = nano(20*usd), store.Lifetime })
	admits(KeyLimitUSD, k, 6*usd+1)
	admits(Admitted, k, 6*usd)
	f.settle(&held, usd/2)
	admits(KeyLimitUSD, k, 6*usd+usd/2+1)
	admits(Admitted, k, 6*usd+usd/2)
	f.replace(next, func(r *store.KeyRow) { r.RevokedUs = 1 })
	if _, err := f.Lookup([]byte(secret)); err == nil {
		t.Error("a key that was replaced by a revoked version is found")
	}
}

// A change must not lose requests in flight.
func TestChangedLimitUnderTraffic(t *testing.T) {
	f := openLedger(t)
	f.account("a", 1000*usd)
	k, _ := f.key("a")
	var current atomic.Pointer[Key]
	current.Store(k)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			var h Hold
			for {
				select {
				case <-stop:
					return
				default:
				}
				f.breathe()
				if f.Admit(&h, f.ask(current.Load(), usd/1000)).Code == Admitted {
					f.settle(&h, usd/2000)
				}
				h.Reset()
			}
		})
	}
	for i := range 40 {
		k = f.replace(k, func(r *store.KeyRow) {
			r.Period = []store.Period{store.Epoch, store.Month, store.Lifetime}[i%3]
			if r.LimitUSD = nil; i%4 != 0 {
				r.LimitUSD = nano(Nano(i) * usd)
			}
		})
		current.Store(k)
	}
	close(stop)
	wg.Wait()
	f.recount()
}
