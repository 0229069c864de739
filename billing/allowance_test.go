package billing

import (
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"farebox/bench/servers"
	"farebox/billing/calendar"
	"farebox/billing/money"
)

func (f *fixture) diem(name string) Nano {
	f.t.Helper()
	list, err := f.ListAccounts()
	if err != nil {
		f.t.Fatal(err)
	}
	for _, a := range list {
		if a.Name == name {
			return a.DIEM
		}
	}
	f.t.Fatalf("there is no account %s", name)
	return 0
}

func (f *fixture) allow(name string, daily Nano) {
	f.t.Helper()
	if _, err := f.SetAllowance(name, daily); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) pay(k *Key, n Nano) DenialCode {
	f.t.Helper()
	var h Hold
	d := f.Admit(&h, f.ask(k, n))
	if d.Code == Admitted {
		f.settle(&h, n)
	}
	return d.Code
}

// The allowance arrives once, at 00:00 UTC, and the rest of the previous day's expires.
func TestAllowanceComesAtMidnightAndTheRestIsLost(t *testing.T) {
	operators(t, func(t *testing.T, f *fixture, op Operator) {
		f.account("a", usd)
		k, _ := f.key("a")
		if _, err := Do(op, SetAllowance{Account: "a", Daily: 10 * usd}); err != nil {
			t.Fatal(err)
		}
		if got := f.diem("a"); got != 10*usd {
			t.Fatalf("a first allowance gives %s at once", got)
		}
		f.pay(k, 4*usd)
		f.recount()
		f.clock.ns.Store(time.Date(2026, 11, 21, 23, 59, 59, 999_999_999, time.UTC).UnixNano())
		if got := f.diem("a"); got != 6*usd {
			t.Errorf("%s are left before midnight", got)
		}
		f.clock.advance(time.Nanosecond)
		if got := f.diem("a"); got != 10*usd {
			t.Errorf("%s are there at midnight", got)
		}
		if code := f.pay(k, 11*usd); code != Admitted {
			t.Errorf("11 of 10 DIEM and 1 USD: code %d", code)
		}
		if u, d, _ := k.Balance(); u != 0 || d != 0 {
			t.Errorf("%s USD and %s DIEM are left", u, d)
		}
		f.recount()
		f.clock.advance(3 * 24 * time.Hour)
		f.recount()
		if _, d, _ := k.Balance(); f.diem("a") != 10*usd || d != 10*usd {
			t.Errorf("days without a request: %s, the key sees %s", f.diem("a"), d)
		}
	})
}

// "After a restart my customers had their DIEM twice."
func TestAllowanceComesOnceADayWhateverHappens(t *testing.T) {
	f := openLedger(t)
	f.account("a", 0)
	_, secret := f.key("a")
	key := func() *Key {
		k, err := f.Lookup([]byte(secret))
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	f.allow("a", 10*usd)
	if code := f.pay(key(), 7*usd); code != Admitted {
		t.Fatal(code)
	}
	for range 3 {
		f.reopen()
		if _, d, _ := key().Balance(); d != 3*usd {
			t.Fatalf("after a restart %s are left of 3", d)
		}
	}
	// The clock is set forward two days and back again.
	f.clock.advance(48 * time.Hour)
	if code := f.pay(key(), 8*usd); code != Admitted {
		t.Fatal(code)
	}
	f.clock.advance(-48 * time.Hour)
	if _, d, _ := key().Balance(); d != 2*usd {
		t.Errorf("after the clock went back %s are left of 2", d)
	}
	f.reopen()
	if _, d, _ := key().Balance(); d > 3*usd {
		t.Errorf("a day that is over gave %s again", d)
	}
	f.clock.advance(48 * time.Hour)
	if _, d, _ := key().Balance(); d != 2*usd {
		t.Errorf("the later day has %s left of 2", d)
	}
	f.reopen()
	if _, d, _ := key().Balance(); d != 2*usd {
		t.Errorf("the later day has %s left of 2 after a restart", d)
	}
	f.recount()
	// Changes count from the next day, whatever is set in between.
	for _, n := range []Nano{0, 20 * usd, 0, 5 * usd} {
		f.allow("a", n)
		if got := f.diem("a"); got != 2*usd {
			t.Errorf("%s a day, set today, makes today's %s", n, got)
		}
	}
	f.clock.advance(24 * time.Hour)
	if got := f.diem("a"); got != 5*usd {
		t.Errorf("the next day has %s", got)
	}
	f.allow("a", 0)
	f.clock.advance(24 * time.Hour)
	if got := f.diem("a"); got != 0 {
		t.Errorf("without an allowance there are %s", got)
	}
	f.recount()
}

// Midnight under load: no account gets more than its allowance of each day, and
// the books agree.
func TestAllowanceAtMidnightUnderLoad(t *testing.T) {
	f := openLedger(t)
	f.account("a", 0)
	f.allow("a", 5*usd)
	k, _ := f.key("a")
	f.clock.ns.Store(time.Date(2026, 11, 21, 23, 59, 59, 0, time.UTC).UnixNano())
	var mu sync.Mutex
	spent := map[int32]Nano{}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 400 {
				var h Hold
				a := f.ask(k, usd/100)
				if d := f.Admit(&h, a); d.Code == Admitted {
					day := h.day
					charged, _ := f.settle(&h, usd/100)
					mu.Lock()
					spent[day] += charged
					mu.Unlock()
				}
				f.clock.advance(time.Millisecond)
			}
		})
	}
	wg.Wait()
	f.clock.advance(24 * time.Hour)
	for range 600 {
		f.pay(k, usd/100)
	}
	f.recount()
	if len(spent) != 2 {
		t.Fatalf("the load did not cross midnight: %v", spent)
	}
	for day, n := range spent {
		if n > 5*usd {
			t.Errorf("day %d gave %s", day, n)
		}
	}
	if got := f.diem("a"); got != 0 {
		t.Errorf("%s of 5 are left after 6 were asked for", got)
	}
}

func TestAllowanceHasARange(t *testing.T) {
	f := openLedger(t)
	f.account("a", 0)
	for _, n := range []Nano{-1, 1, leastAllowance - 1, money.MaxCredit} {
		if _, err := f.SetAllowance("a", n); err == nil {
			t.Errorf("%s a day were taken", n)
		}
	}
	if _, err := f.SetAllowance("nobody", usd); err == nil {
		t.Error("an unknown account got an allowance")
	}
}

// "We changed the allowance just after midnight and the ledger could not book
// what was spent just before."
func TestAllowanceChangeLeavesEarlierDaysAlone(t *testing.T) {
	servers.NoRace(t)
	f := openLedger(t)
	f.account("a", 0)
	k, _ := f.key("a")
	f.allow("a", 10*usd)
	f.clock.advance(24 * time.Hour)
	var over Hold // begins before midnight, ends after it
	if d := f.Admit(&over, f.ask(k, 4*usd)); d.Code != Admitted {
		t.Fatal(d.Code)
	}
	f.pay(k, 3*usd)
	f.clock.advance(24 * time.Hour)
	f.allow("a", 0)
	f.allow("a", usd)
	f.settle(&over, 4*usd)
	f.recount()
	if got := f.diem("a"); got != 10*usd {
		t.Errorf("today, which began with 10, has %s", got)
	}
	f.clock.advance(24 * time.Hour)
	if got := f.diem("a"); got != usd {
		t.Errorf("the day after the change has %s", got)
	}
	f.reopen()
	f.recount()
}

// An independent model of DIEM days: after any order of operator calls, requests,
// restarts and clock changes the balance is the model's.
func TestAllowanceAgainstAModel(t *testing.T) {
	servers.NoRace(t)
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		f := openLedger(t)
		f.account("a", 0)
		_, secret := f.key("a")
		daily, left, day := Nano(0), map[int32]Nano{}, calendar.DayOf(f.clock.nano())
		granted := map[int32]bool{}
		today := func() Nano {
			if !granted[day] && daily > 0 {
				granted[day] = true
				left[day] += daily
			}
			return left[day]
		}
		today()
		key := func() *Key {
			k, err := f.Lookup([]byte(secret))
			if err != nil {
				rt.Fatal(err)
			}
			return k
		}
		for range rapid.IntRange(1, 25).Draw(rt, "steps") {
			switch rapid.IntRange(0, 5).Draw(rt, "step") {
			case 0:
				n := rapid.SampledFrom([]Nano{0, usd, 5 * usd}).Draw(rt, "daily")
				f.allow("a", n)
				today()
				daily = n
			case 1:
				n := rapid.SampledFrom([]Nano{usd / 2, usd, 3 * usd}).Draw(rt, "cost")
				want := today() >= n
				if got := f.pay(key(), n) == Admitted; got != want {
					rt.Fatalf("%s of %s: admitted %v", n, today(), got)
				}
				if want {
					left[day] -= n
				}
			case 2:
				f.clock.advance(time.Duration(rapid.IntRange(1, 60).Draw(rt, "hours")) * time.Hour)
				day = calendar.DayOf(f.clock.nano())
			case 3:
				f.reopen()
			case 4:
				f.credit("a", DIEM, usd)
				today()
				left[day] += usd
			case 5:
				if err := f.project.drain(); err != nil {
					rt.Fatal(err)
				}
			}
			if _, d, _ := key().Balance(); d != today() {
				// A key's balance rolls with the next request.
				if got := f.diem("a"); got != today() {
					rt.Fatalf("the balance is %s, the model says %s", got, today())
				}
			}
		}
		if r, err := f.Audit(); err != nil || len(r.Faults) > 0 {
			rt.Fatalf("recount: %v, %v", err, r.Faults)
		}
		f.reopen()
		if got := f.diem("a"); got != today() {
			rt.Fatalf("after a restart %s, the model says %s", got, today())
		}
		if err := f.Close(); err != nil {
			rt.Fatal(err)
		}
	})
}

// A refund is in the currency of its charge, and given once for each reference.
func TestRefundIsGivenOnce(t *testing.T) {
	servers.NoRace(t)
	operators(t, func(t *testing.T, f *fixture, op Operator) {
		f.account("a", 5*usd)
		f.credit("a", DIEM, 2*usd)
		k, _ := f.key("a")
		f.pay(k, 3*usd) // 2 DIEM and 1 USD
		for range 3 {
			if _, err := Do(op, RefundAccount{Account: "a", Currency: USD, Amount: usd, Ref: "case-1", Memo: "broken answer"}); err != nil {
				t.Fatal(err)
			}
			if _, err := Do(op, RefundAccount{Account: "a", Currency: DIEM, Amount: 2 * usd, Ref: "case-1-diem"}); err != nil {
				t.Fatal(err)
			}
		}
		if u, d, _ := k.Balance(); u != 5*usd || d != 2*usd {
			t.Errorf("after the refunds there are %s USD and %s DIEM", u, d)
		}
		for name, c := range map[string]struct {
			currency Currency
			amount   Nano
			ref      string
		}{"without a reference": {USD, usd, ""}, "another amount": {USD, 2 * usd, "case-1"},
			"another currency": {DIEM, usd, "case-1"}, "nothing": {USD, 0, "case-2"}} {
			if done, err := Do(op, RefundAccount{Account: "a", Currency: c.currency, Amount: c.amount, Ref: c.ref}); err == nil || done.Applied {
				t.Errorf("%s: applied %v, %v", name, done.Applied, err)
			}
		}
		if _, err := Do(op, CreditAccount{Account: "a", Currency: USD, Amount: usd, Ref: "case-1"}); err == nil {
			t.Error("the reference of a refund was taken for a credit")
		}
		f.recount()
	})
}
