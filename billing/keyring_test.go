package billing

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"farebox/bench/servers"
	"farebox/billing/money"
	"farebox/billing/store"
)

// A change is in force when UpdateKey returns, and the key's usage stays.
func TestUpdateKeyIsInForceAtOnce(t *testing.T) {
	f := openLedger(t)
	f.account("a", 100*usd)
	k, secret := f.key("a", func(n *NewKey) { n.LimitUSD, n.Period = nano(10*usd), store.Lifetime })
	if code := f.pay(k, 4*usd); code != Admitted {
		t.Fatal(code)
	}
	update := func(c KeyChange) KeyInfo {
		t.Helper()
		info, err := f.Accounts().UpdateKey(k.Account, k.ID, c)
		if err != nil {
			t.Fatal(err)
		}
		return info
	}
	text, period, private := "changed", store.Month, store.PrivateOnly
	info := update(KeyChange{USD: &money.Limit{Set: true, Amount: 5 * usd}, Description: &text, Period: &period,
		Privacy: &private})
	if info.Description != text || info.Period != store.Month || info.Privacy != store.PrivateOnly ||
		*info.LimitUSD != 5*usd {
		t.Errorf("changed to %+v", info)
	}
	now, err := f.Lookup([]byte(secret))
	if err != nil || now == k || now.Privacy != store.PrivateOnly || now.Description != text {
		t.Fatalf("found %+v, %v", now, err)
	}
	if code := f.pay(now, 2*usd); code != KeyLimitUSD {
		t.Errorf("2 after 4 of 5: code %d", code)
	}
	if code := f.pay(k, 2*usd); code != KeyLimitUSD {
		t.Errorf("with the old record, 2 after 4 of 5: code %d", code)
	}
	update(KeyChange{USD: &money.Limit{}})
	if code := f.pay(now, 20*usd); code != Admitted {
		t.Errorf("without a limit: code %d", code)
	}
	update(KeyChange{USD: &money.Limit{Set: true, Amount: 25 * usd}})
	if code := f.pay(now, 2*usd); code != KeyLimitUSD {
		t.Errorf("2 after 24 of 25: code %d", code)
	}
	soon := f.clock.now().Add(time.Hour)
	update(KeyChange{ExpiresAt: &soon})
	f.clock.advance(2 * time.Hour)
	if _, err := f.Lookup([]byte(secret)); !errors.Is(err, ErrUnknownKey) {
		t.Errorf("after its new expiry the key gives %v", err)
	}
	update(KeyChange{ExpiresAt: &time.Time{}})
	if _, err := f.Lookup([]byte(secret)); err != nil {
		t.Errorf("without an expiry the key gives %v", err)
	}
	f.recount()
	f.reopen()
	now, err = f.Lookup([]byte(secret))
	if err != nil || *now.LimitUSD != 25*usd || now.Privacy != store.PrivateOnly || !now.ExpiresAt.IsZero() {
		t.Errorf("after a restart: %+v, %v", now, err)
	}
}

// "Two admins changed a key at once and one change was lost."
func TestConcurrentUpdatesAllCount(t *testing.T) {
	f := openLedger(t)
	f.account("a", usd)
	k, _ := f.key("a")
	// Another node changes the key behind this one's back.
	store := &racingStore{Store: f.Ledger.store}
	f.Ledger.store = store
	store.race = func() {
		row, err := store.Store.KeyByID(k.ID)
		if err != nil {
			t.Fatal(err)
		}
		row.LimitUSD = nano(3 * usd)
		if err := store.Store.UpdateKey(row); err != nil {
			t.Fatal(err)
		}
	}
	text := "mine"
	info, err := f.Accounts().UpdateKey(k.Account, k.ID, KeyChange{Description: &text})
	if err != nil || info.Description != "mine" || info.LimitUSD == nil || *info.LimitUSD != 3*usd {
		t.Errorf("%+v, %v", info, err)
	}
	store.race = func() {
		if err := store.Store.RevokeKey(k.No, 1); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := f.Accounts().UpdateKey(k.Account, k.ID, KeyChange{Description: &text}); !errors.Is(err, ErrNoKey) {
		t.Errorf("a key that is revoked meanwhile: %v", err)
	}
}

// racingStore runs a function just before one update.
type racingStore struct {
	store.Store
	race func()
}

func (s *racingStore) UpdateKey(row *store.KeyRow) error {
	if race := s.race; race != nil {
		s.race = nil
		race()
	}
	return s.Store.UpdateKey(row)
}

// Expired keys do not count as live ones, neither in the list nor in the bound.
func TestExpiredKeysAreNotActive(t *testing.T) {
	servers.NoRace(t)
	f := openLedger(t)
	f.account("a", usd)
	k, _ := f.key("a")
	for i := range store.MaxActiveKeys - 1 {
		if _, _, err := f.CreateKey(NewKey{Account: "a", Type: store.Inference,
			ExpiresAt: f.clock.now().Add(time.Hour)}); err != nil {
			t.Fatal(i, err)
		}
	}
	if _, _, err := f.CreateKey(NewKey{Account: "a", Type: store.Inference}); !errors.Is(err, store.ErrManyKeys) {
		t.Errorf("one more: %v", err)
	}
	list, err := f.Accounts().Keyring(k.Account, 5, 100)
	if err != nil || len(list) != 100 {
		t.Errorf("the last page has %d, %v", len(list), err)
	}
	f.clock.advance(time.Hour)
	if _, _, err := f.CreateKey(NewKey{Account: "a", Type: store.Inference}); err != nil {
		t.Errorf("expired keys still count: %v", err)
	}
	if list, err := f.Accounts().Keyring(k.Account, 1, 100); err != nil || len(list) != 2 {
		t.Errorf("%d keys are listed, %v", len(list), err)
	}
}

// 20 a minute for owners, over a restart; operators have no such limit.
func TestOwnersMakeABoundedNumberOfKeysAMinute(t *testing.T) {
	f := openLedger(t)
	f.account("a", usd)
	make20 := func(want int) {
		t.Helper()
		n := 0
		for range keysPerMinute + 5 {
			_, _, err := f.Accounts().MakeKey(NewKey{Account: "a", Type: store.Inference})
			var soon *TooSoon
			if errors.As(err, &soon) {
				if soon.After <= 0 || soon.After > time.Minute {
					t.Errorf("it says to wait %s", soon.After)
				}
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
		if n != want {
			t.Errorf("%d keys were made, not %d", n, want)
		}
	}
	make20(keysPerMinute)
	f.reopen()
	make20(0)
	if _, _, err := f.CreateKey(NewKey{Account: "a", Type: store.Inference}); err != nil {
		t.Errorf("an operator: %v", err)
	}
	f.clock.advance(time.Minute + time.Second)
	make20(keysPerMinute)
}

// The last use of a key is known to the second and survives a restart; a store
// that is away loses nothing.
func TestLastUseIsKept(t *testing.T) {
	f := openLedger(t)
	f.account("a", usd)
	k, secret := f.key("a")
	last := func() time.Time {
		t.Helper()
		r, err := f.Accounts().KeyOf(k.Account, k.ID)
		if err != nil {
			t.Fatal(err)
		}
		return r.LastUsedAt
	}
	if at := last(); !at.IsZero() {
		t.Errorf("a key that was never used was used at %s", at)
	}
	k.Touch(f.clock.nano())
	first := f.clock.now()
	if at := last(); !at.Equal(first) {
		t.Errorf("used at %s, shown %s", first, at)
	}
	if err := f.touched.flush(failingStore{f.Ledger.store}); err == nil {
		t.Fatal("the store did not fail")
	}
	f.reopen()
	k, err := f.Lookup([]byte(secret))
	if err != nil {
		t.Fatal(err)
	}
	if at := last(); !at.Equal(first) {
		t.Errorf("after a restart %s, used at %s", at, first)
	}
	f.clock.advance(-time.Hour)
	k.Touch(f.clock.nano())
	if at := last(); !at.Equal(first) {
		t.Errorf("after the clock went back %s", at)
	}
	var wg sync.WaitGroup
	var flushes atomic.Int64
	stop := make(chan struct{})
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				if err := f.touched.flush(f.Ledger.store); err != nil {
					t.Error(err)
				}
				flushes.Add(1)
			}
		}
	})
	f.clock.advance(2 * time.Hour)
	for range 2000 {
		f.clock.advance(time.Second)
		k.Touch(f.clock.nano())
	}
	close(stop)
	wg.Wait()
	if err := f.touched.flush(f.Ledger.store); err != nil {
		t.Fatal(err)
	}
	row, err := f.Ledger.store.KeyByID(k.ID)
	if err != nil || row.LastUsedUs != f.clock.nano()/1e9*1e6 {
		t.Errorf("the store says %s, used at %s", fromMicro(row.LastUsedUs), f.clock.now())
	}
}

// failingStore cannot be written.
type failingStore struct{ store.Store }

func (failingStore) TouchKeys(map[int64]int64) error       { return errors.New("away") }
func (failingStore) AddViolations([]store.Violation) error { return errors.New("away") }

// The log of refusals keeps the last ones of each account in order, through
// flushes, a store that is away, and floods.
func TestViolationsKeepTheLastOfEachAccount(t *testing.T) {
	f := openLedger(t)
	for _, name := range []string{"a", "b"} {
		f.account(name, usd)
	}
	a, _ := f.key("a")
	b, _ := f.key("b")
	n := 0
	note := func(k *Key, times int) {
		for range times {
			f.clock.advance(time.Millisecond)
			f.NoteViolation(k, fmt.Sprint("model-", n), "paid", "RPM", f.clock.nano())
			n++
		}
	}
	check := func(k *Key, want int) {
		t.Helper()
		list, err := f.Accounts().Violations(k.Account)
		if err != nil || len(list) != want {
			t.Fatalf("%d entries, %v; want %d", len(list), err, want)
		}
		for i, v := range list {
			if v.KeyID != k.ID || v.Model != fmt.Sprint("model-", n-1-i) {
				t.Fatalf("entry %d is %+v", i, v)
			}
		}
	}
	note(b, 3)
	check(b, 3)
	note(a, 10)
	check(a, 10)
	if err := f.violations.flush(failingStore{f.Ledger.store}); err == nil {
		t.Fatal("the store did not fail")
	}
	note(a, 10)
	check(a, 20)
	for range 3 {
		if err := f.violations.flush(f.Ledger.store); err != nil {
			t.Fatal(err)
		}
		check(a, 20)
	}
	note(a, 45)
	check(a, store.MaxViolations)
	if err := f.violations.flush(f.Ledger.store); err != nil {
		t.Fatal(err)
	}
	note(a, 1000)
	check(a, store.MaxViolations)
	f.reopen()
	a, _ = f.key("a")
	list, err := f.Accounts().Violations(a.Account)
	if err != nil || len(list) != store.MaxViolations || list[0].Model != fmt.Sprint("model-", n-1) {
		t.Errorf("after a restart: %d entries, %v", len(list), err)
	}
	if list, err := f.Accounts().Violations(b.Account); err != nil || len(list) != 3 {
		t.Errorf("the other account has %d entries, %v", len(list), err)
	}
	stored := 0
	for no := range uint32(3) {
		rows, err := f.Ledger.store.Violations(no)
		if err != nil {
			t.Fatal(err)
		}
		stored += len(rows)
	}
	if stored != store.MaxViolations+3 {
		t.Errorf("%d rows are stored", stored)
	}
}

// The counts for the answer about used windows cost the hot path nothing.
func TestTallyFollowsTheCalendar(t *testing.T) {
	f := openLedger(t)
	f.clock.ns.Store(time.Date(2026, 11, 21, 12, 59, 0, 0, time.UTC).UnixNano())
	f.account("a", 10*usd)
	k, _ := f.key("a")
	use := func() (minute, hour, day int64) {
		t.Helper()
		w, err := f.Accounts().KeyWindows(k, f.clock.at())
		if err != nil {
			t.Fatal(err)
		}
		for i, end := range []time.Duration{time.Minute, time.Hour, 24 * time.Hour, 31 * 24 * time.Hour} {
			if left := w[i].Resets.Sub(f.clock.now()); left <= 0 || left > end || w[i].Limit != -1 {
				t.Errorf("window %d is %+v", i, w[i])
			}
		}
		return w[0].Used, w[1].Used, w[2].Used
	}
	for range 5 {
		f.pay(k, 1)
	}
	if err := f.project.drain(); err != nil {
		t.Fatal(err)
	}
	if m, h, d := use(); m != 5 || h != 5 || d != 5 {
		t.Errorf("used %d %d %d", m, h, d)
	}
	f.clock.advance(30 * time.Second)
	f.pay(k, 1)
	if m, h, _ := use(); m != 6 || h != 6 {
		t.Errorf("used %d %d", m, h)
	}
	f.clock.advance(30 * time.Second) // 13:00
	if m, h, _ := use(); m != 0 || h != 0 {
		t.Errorf("in the next hour %d %d are used", m, h)
	}
	f.pay(k, 1)
	f.clock.advance(time.Minute)
	if m, h, _ := use(); m != 0 || h != 1 {
		t.Errorf("in the next minute %d %d are used", m, h)
	}
}

// "My request of a second ago is not in what the key has used." A busy machine
// may be slow to write, so one of five tries is enough.
func TestKeyShowsTheRequestBeforeIt(t *testing.T) {
	onEngines(t, func(t *testing.T, f *fixture) {
		f.account("a", usd)
		k, _ := f.key("a")
		var shown []string
		for n := int64(1); n <= 5; n++ {
			f.spend(k, 1, 1000)
			record, err := f.Accounts().KeyOf(k.Account, k.ID)
			if err != nil {
				t.Fatal(err)
			}
			w, err := f.Accounts().KeyWindows(k, f.clock.at())
			if err != nil {
				t.Fatal(err)
			}
			if record.Week.USD == Nano(n)*1000 && w[2].Used == n && w[3].Used == n {
				return
			}
			shown = append(shown, fmt.Sprint(n, record.Week, w))
		}
		t.Errorf("after each request the key shows %v", shown)
	})
}
