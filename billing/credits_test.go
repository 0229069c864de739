package billing

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// capped asks for a request of so many credits under a cap.
func (f *fixture) capped(k *Key, credits, most int64) *Admission {
	a := f.ask(k, Nano(credits))
	a.Credits, a.DailyCredits = credits, most
	return a
}

// Held credits count and unused credits return, however the request ends. A request
// without credits is never refused.
func TestCreditsThatAreHeldCount(t *testing.T) {
	f := openLedger(t)
	f.account("a", usd)
	k, _ := f.key("a")
	var h, other Hold
	if d := f.Admit(&h, f.capped(k, 80, 100)); d.Code != Admitted {
		t.Fatal(d)
	}
	d := f.Admit(&other, f.capped(k, 21, 100))
	if d.Code != RateCredits || d.Allowed != 100 || d.Remaining != 20 || d.RetryAfter <= 0 || other.Open() {
		t.Fatalf("21 credits beside 80 of 100 that are held: %+v", d)
	}
	if d := f.Admit(&other, f.capped(k, 0, 100)); d.Code != Admitted {
		t.Errorf("a request without credits is refused: %+v", d)
	}
	other.Void(f.clock.at())
	other.Reset()
	h.Settle(Settlement{Cost: 5, Credits: 5, Now: f.clock.at()})
	h.Reset()
	left := func() int64 { return 100 - k.Account.credits.Used() }
	if left() != 95 {
		t.Errorf("after 5 of 80 were charged %d are left, want 95", left())
	}
	for name, end := range map[string]func(){
		"void":   func() { h.Void(f.clock.at()) },
		"forgot": func() {},
	} {
		if d := f.Admit(&h, f.capped(k, 95, 100)); d.Code != Admitted {
			t.Fatalf("before %s: %+v", name, d)
		}
		end()
		h.Reset()
		if left() != 95 {
			t.Errorf("after %s %d are left, want 95", name, left())
		}
	}
	if d := f.Admit(&h, f.capped(k, 96, 100)); d.Code != RateCredits {
		t.Errorf("more than is left: %+v", d)
	}
	poor := f.capped(k, 10, 100)
	if poor.Hold, poor.Min = 2*usd, 2*usd; f.Admit(&h, poor).Code != InsufficientBalance || left() != 95 {
		t.Errorf("a request that cannot be paid took credits: %d are left", left())
	}
	f.reopen()
	k, _ = f.key("a")
	if d := f.Admit(&h, f.capped(k, 100, 100)); d.Code != Admitted {
		t.Errorf("a restart does not begin with nothing counted: %+v", d)
	}
	h.Void(f.clock.at())
	f.recount()
}

// However many ask at the same time, the cap is never passed, and all of it is used.
func TestCreditsUnderConcurrency(t *testing.T) {
	f := openLedger(t)
	f.account("a", usd)
	k, _ := f.key("a")
	const most, each = 1000, 7
	var held, charged atomic.Int64
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			var h Hold
			for i := range 200 {
				if f.Admit(&h, f.capped(k, each, most)).Code != Admitted {
					continue
				}
				if n := held.Add(each); n > most {
					t.Errorf("%d of %d credits are held or charged", n, most)
				}
				if i%2 == 0 {
					charged.Add(each)
					h.Settle(Settlement{Cost: each, Credits: each, Now: f.clock.at()})
				} else {
					held.Add(-each)
					h.Void(f.clock.at())
				}
				h.Reset()
			}
		})
	}
	all.Wait()
	if got := charged.Load(); got > most || got != k.Account.credits.Used() {
		t.Errorf("%d were charged, %d are counted, the cap is %d", got, k.Account.credits.Used(), most)
	}
}

// The nodes of a store have an equal part of the cap each.
func TestNodesShareTheCreditsOfADay(t *testing.T) {
	l := &Ledger{node: &node{}}
	for live, want := range map[int64]int64{0: 90, 1: 90, 3: 30} {
		l.node.live.Store(live)
		if got := l.creditCap(90); got != want {
			t.Errorf("with %d nodes a node has %d of 90 credits, want %d", live, got, want)
		}
	}
}

// "The clock was wrong for a minute, and the account was blocked for a month": credits
// that are counted while the clock is ahead return as usual.
func TestCreditsComeBackAfterTheClockWasAhead(t *testing.T) {
	t.Parallel()
	f := openLedger(t)
	f.account("a", 1000*usd)
	k, _ := f.key("a")
	now := f.clock.at()
	ask := func(n int64) (*Hold, DenialCode) {
		h, a := &Hold{}, f.capped(k, n, 100)
		a.Now = now
		d := f.Admit(h, a)
		return h, d.Code
	}
	const ahead = 40 * 24 * time.Hour
	now.Wall += int64(ahead)
	running, code := ask(60)
	if code != Admitted {
		t.Fatal(code)
	}
	now.Wall -= int64(ahead)
	if _, code := ask(50); code != RateCredits {
		t.Errorf("60 and 50 of 100 credits: %d", code)
	}
	running.Void(now)
	all, code := ask(100)
	if code != Admitted {
		t.Errorf("the 60 were returned, and 100 of 100 credits are refused with %d", code)
	}
	all.Settle(Settlement{Cost: 1, Credits: 0, Now: now})
	if _, code := ask(100); code != Admitted {
		t.Errorf("nothing was used, and 100 of 100 credits are refused with %d", code)
	}
	now = now.Add(25 * time.Hour)
	if h, code := ask(100); code != Admitted {
		t.Errorf("25 hours later: %d", code)
	} else {
		h.Void(now)
	}
}
