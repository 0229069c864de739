package billing

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"farebox/billing/calendar"
	"farebox/billing/journal"
	"farebox/billing/money"
	"farebox/config"
)

// "Two of my requests ran at once and both were paid from the last dollar."
func TestConcurrentHoldsNeverExceedTheBalance(t *testing.T) {
	f := openLedger(t)
	f.account("a", 10*usd)
	k, _ := f.key("a")
	holds := make([]Hold, 64)
	admitted := admitAll(t, f, holds, func(int) *Admission { return f.ask(k, usd) }, InsufficientBalance)
	if admitted != 10 {
		t.Fatalf("admitted %d requests of 1 USD on 10 USD", admitted)
	}
	f.recount()
	for i := range holds {
		if holds[i].Open() {
			f.settle(&holds[i], usd)
		}
	}
	f.recount()
	f.reopen()
	if r := f.recount(); r.Charged != 10*usd || r.Requests != 10 {
		t.Errorf("after a restart %s of 10 USD are charged for %d requests", r.Charged, r.Requests)
	}
}

// admitAll admits all holds at once and returns how many were admitted.
func admitAll(t *testing.T, f *fixture, holds []Hold, ask func(i int) *Admission, denial DenialCode) int64 {
	t.Helper()
	var admitted atomic.Int64
	var wg sync.WaitGroup
	for i := range holds {
		wg.Go(func() {
			switch d := f.Admit(&holds[i], ask(i)); d.Code {
			case Admitted:
				admitted.Add(1)
			case denial:
			default:
				t.Errorf("denied with code %d, expected %d", d.Code, denial)
			}
		})
	}
	wg.Wait()
	return admitted.Load()
}

// "The last dollar was spent twice", "a fraction of it vanished": 256
// goroutines spend one account's three currencies down to nothing.
func TestLastDollarRace(t *testing.T) {
	const spenders, fund = 256, usd / 3
	for round := range 5 {
		f := openLedger(t)
		f.account("a", fund)
		f.credit("a", DIEM, fund)
		f.credit("a", Bundled, fund+1)
		k, _ := f.key("a")
		var charged, short atomic.Int64
		var wg sync.WaitGroup
		for g := range spenders {
			rnd := rand.New(rand.NewPCG(uint64(round), uint64(g)))
			wg.Go(func() {
				var h Hold
				for range 40 {
					want := Nano(rnd.Int64N(int64(usd / 50)))
					a := f.ask(k, want+1)
					a.Min = 1
					if f.Admit(&h, a).Code != Admitted {
						return
					}
					if rnd.IntN(3) == 0 {
						h.Extend(Nano(rnd.Int64N(int64(usd / 100))))
					}
					switch rnd.IntN(4) {
					case 0:
						h.Void(f.clock.at())
					default:
						cost := Nano(rnd.Int64N(int64(want) + int64(want)/4 + 2))
						c, s := f.settle(&h, cost)
						if c+s != cost || c < 0 || s < 0 {
							t.Errorf("a cost of %d became a charge of %d and a shortfall of %d", cost, c, s)
						}
						charged.Add(int64(c))
						short.Add(int64(s))
					}
					h.Reset()
				}
			})
		}
		wg.Wait()
		r := f.recount()
		if r.Charged != Nano(charged.Load()) || r.Shortfall != Nano(short.Load()) {
			t.Errorf("charged %s and short of %s, recounted %s and %s", Nano(charged.Load()), Nano(short.Load()),
				r.Charged, r.Shortfall)
		}
		paid := r.Shortfall - r.Debt // debt that was paid in between
		if left := k.Account.balance(); left+r.Charged+paid != 3*fund+1 {
			t.Errorf("%s charged, %s of debt paid and %s left of %s", r.Charged, paid, left, 3*fund+1)
		}
	}
}

// "I was charged twice for one answer."
func TestSecondResolveChangesNothing(t *testing.T) {
	f := openLedger(t)
	f.account("a", 10*usd)
	k, _ := f.key("a")
	for name, again := range map[string]func(*Hold){
		"settle": func(h *Hold) {
			if c, s := f.settle(h, 2*usd); c != 0 || s != 0 {
				t.Errorf("a second settlement charged %s with shortfall %s", c, s)
			}
		},
		"void": func(h *Hold) { h.Void(f.clock.at()) },
		"extend": func(h *Hold) {
			if h.Extend(usd) {
				t.Error("a settled hold was extended")
			}
		},
		"progress": func(h *Hold) { h.Progress(worth(usd)) },
	} {
		var h Hold
		if d := f.Admit(&h, f.ask(k, usd)); d.Code != Admitted {
			t.Fatalf("denied with %d", d.Code)
		}
		before, _, _ := k.Balance()
		if c, _ := f.settle(&h, usd/4); c != usd/4 {
			t.Errorf("charged %s of 0.25", c)
		}
		after, _, _ := k.Balance()
		again(&h)
		if usd, _, _ := k.Balance(); usd != after || after-before != 750_000_000 {
			t.Errorf("%s after settle: balance went %s, %s, %s", name, before, after, usd)
		}
	}
	if s := f.Stats(); s.Twice != 2 || s.OpenHolds != 0 || s.Held != 0 {
		t.Errorf("figures say %+v", s)
	}
	if r := f.recount(); r.Requests != 4 || r.Charged != usd {
		t.Errorf("recounted %d requests of %s", r.Requests, r.Charged)
	}
}

// The same from two goroutines at once.
func TestSettleAndVoidRace(t *testing.T) {
	f := openLedger(t)
	f.account("a", 100*usd)
	k, _ := f.key("a")
	for range 200 {
		var h Hold
		f.Admit(&h, f.ask(k, usd))
		var charged atomic.Int64
		var wg sync.WaitGroup
		for i := range 6 {
			wg.Go(func() {
				if i%2 == 0 {
					c, _ := f.settle(&h, usd/10)
					charged.Add(int64(c))
				} else {
					h.Extend(usd / 10)
					h.Void(f.clock.at())
				}
			})
		}
		wg.Wait()
		if c := Nano(charged.Load()); c != 0 && c != usd/10 {
			t.Fatalf("charged %s by one of three settlements of 0.1", c)
		}
	}
	f.recount()
}

// "An answer came to more than was held, and my balance went below zero."
func TestOverrunTakesTheRestAndOwesTheShortfall(t *testing.T) {
	f := openLedger(t)
	f.account("a", 3*usd)
	k, _ := f.key("a")
	var h, other Hold
	f.Admit(&h, f.ask(k, usd))
	f.Admit(&other, f.ask(k, usd))
	if c, s := f.settle(&h, 5*usd); c != 2*usd || s != 3*usd {
		t.Errorf("a cost of 5 on a hold of 1 and 1 left charged %s with shortfall %s", c, s)
	}
	if c, s := f.settle(&other, usd); c != usd || s != 0 {
		t.Errorf("the other request's hold was used: charged %s with shortfall %s", c, s)
	}
	if left, _, _ := k.Balance(); left != 0 {
		t.Errorf("%s left", left)
	}
	if got := f.Stats().Shortfall; got != 3*usd {
		t.Errorf("figures say a shortfall of %s", got)
	}
	f.recount()
	f.reopen()
	if got := f.Stats().Shortfall; got != 3*usd {
		t.Errorf("after a restart figures say a shortfall of %s", got)
	}
}

func TestCurrenciesAreSpentInOrder(t *testing.T) {
	f := openLedger(t)
	f.account("a", 3*usd)
	f.credit("a", Bundled, 2*usd)
	f.credit("a", DIEM, usd)
	k, _ := f.key("a")
	expect := func(when string, u, d, b Nano) {
		t.Helper()
		gu, gd, gb := k.Balance()
		if gu != u || gd != d || gb != b {
			t.Errorf("%s: %s USD, %s DIEM, %s bundled; expected %s, %s, %s", when, gu, gd, gb, u, d, b)
		}
	}
	var h Hold
	f.Admit(&h, f.ask(k, 5*usd))
	expect("held 5", usd, 0, 0)
	f.settle(&h, 2*usd)
	expect("charged 2", 3*usd, 0, usd)
	h.Reset()
	f.Admit(&h, f.ask(k, usd/2))
	f.settle(&h, 2*usd)
	expect("charged 2 on a hold of 0.5", 2*usd, 0, 0)
	f.recount()
}

// "At midnight my allowance was there twice", "my request of last night spent today's."
func TestDIEMOfAPastDayExpire(t *testing.T) {
	f := openLedger(t)
	f.account("a", 10*usd)
	f.credit("a", DIEM, 5*usd)
	k, _ := f.key("a")
	var night, other Hold
	f.Admit(&night, f.ask(k, 2*usd))
	f.Admit(&other, f.ask(k, usd))
	f.clock.advance(13 * time.Hour)
	f.credit("a", DIEM, 3*usd)
	if _, d, _ := k.Balance(); d != 3*usd {
		t.Errorf("%s DIEM on the new day, 3 were granted", d)
	}
	f.recount()
	if night.Extend(usd) != true {
		t.Error("an extension across midnight was refused although there are USD")
	}
	if u, d, _ := k.Balance(); d != 3*usd || u != 9*usd {
		t.Errorf("an extension across midnight left %s DIEM and %s USD, expected 3 and 9", d, u)
	}
	if c, s := f.settle(&night, usd); c != usd || s != 0 {
		t.Errorf("charged %s, short %s", c, s)
	}
	f.settle(&other, 3*usd)
	u, d, _ := k.Balance()
	if d != 3*usd || u != 8*usd {
		t.Errorf("%s DIEM and %s USD left; last night's requests had 2 of last night's DIEM and 2 USD", d, u)
	}
	f.recount()
	f.reopen()
	f.recount()
	left, err := f.store.StaleDIEM(calendar.DayOf(f.clock.nano()))
	if err != nil || len(left) != 0 {
		t.Errorf("allowances of past days that have not expired: %v, %v", left, err)
	}
}

// The first operation of an account after midnight may be to extend a hold.
func TestExtensionAfterMidnightLeavesLastNightsDIEM(t *testing.T) {
	f := openLedger(t)
	f.account("a", 10*usd)
	f.credit("a", DIEM, 5*usd)
	k, _ := f.key("a")
	var h Hold
	f.Admit(&h, f.ask(k, usd))
	f.clock.advance(13 * time.Hour)
	if !h.Extend(usd) || h.parts != (money.Parts{usd, 0, usd}) {
		t.Errorf("the hold has %v, expected 1 of last night's DIEM and 1 USD", h.parts)
	}
	h.Void(f.clock.at())
	if u, d, _ := k.Balance(); u != 10*usd || d != 0 {
		t.Errorf("%s USD and %s DIEM left", u, d)
	}
	f.recount()
}

// DIEM must not expire in the store while charges to them are on their way.
func TestDIEMExpireAfterTheirLastCharge(t *testing.T) {
	f := openLedger(t)
	f.account("a", usd)
	f.credit("a", DIEM, 5*usd)
	k, _ := f.key("a")
	var h Hold
	f.Admit(&h, f.ask(k, 2*usd))
	yesterday := k.Account.day
	left := func() int {
		t.Helper()
		list, err := f.store.StaleDIEM(yesterday + 1)
		if err != nil {
			t.Fatal(err)
		}
		return len(list)
	}
	f.clock.advance(13 * time.Hour)
	for _, when := range []string{"held", "charged but not projected"} {
		if err := f.project.expire(); err != nil {
			t.Fatal(err)
		}
		if left() != 1 {
			t.Errorf("DIEM expired while some were %s", when)
		}
		if h.Open() {
			f.settle(&h, 2*usd)
		}
	}
	if err := f.project.drain(); err != nil {
		t.Fatal(err)
	}
	if err := f.project.expire(); err != nil {
		t.Fatal(err)
	}
	if left() != 0 {
		t.Error("DIEM of a past day did not expire")
	}
	f.recount()
}

// "A request that was forgotten keeps my money."
func TestForgottenHoldIsVoidedAndCounted(t *testing.T) {
	f := openLedger(t)
	f.account("a", usd)
	k, _ := f.key("a")
	var h Hold
	f.Admit(&h, f.ask(k, usd))
	h.Reset()
	if left, _, _ := k.Balance(); left != usd {
		t.Errorf("%s of 1 USD came back", left)
	}
	f.Admit(&h, f.ask(k, usd))
	if d := f.Admit(&h, f.ask(k, usd)); d.Code != Admitted {
		t.Errorf("a hold in use again was denied with %d", d.Code)
	}
	if s := f.Stats(); s.Leaked != 2 || s.OpenHolds != 1 {
		t.Errorf("figures say %+v", s)
	}
	h.Void(f.clock.at())
	f.recount()
}

func TestPartialHoldTakesTheRest(t *testing.T) {
	f := openLedger(t)
	f.account("a", usd)
	k, _ := f.key("a")
	var h Hold
	a := f.ask(k, 3*usd)
	a.Min = usd + 1
	if d := f.Admit(&h, a); d.Code != InsufficientBalance {
		t.Errorf("1 USD is less than the least of %s, but the code is %d", a.Min, d.Code)
	}
	a.Min = usd
	if d := f.Admit(&h, a); d.Code != Admitted || h.Granted() != usd {
		t.Errorf("code %d, granted %s", d.Code, h.Granted())
	}
	if h.Extend(1) {
		t.Error("extended on an empty balance")
	}
	f.settle(&h, usd/2)
	if h.Granted() != 0 {
		t.Errorf("a settled hold still grants %s", h.Granted())
	}
	f.recount()
}

func TestUsageKeepsTheDetailOfRequests(t *testing.T) {
	f := openLedger(t)
	f.account("a", usd)
	f.credit("a", DIEM, 7)
	k, _ := f.key("a")
	price := &config.Price{Input: 1_540_000, Output: 4_840_000}
	sold := money.Text(price, money.Usage{Prompt: 100, Cached: 40, Completion: 20})
	var h Hold
	a := f.ask(k, usd/10)
	a.RequestID = [16]byte{1, 2, 3}
	f.Admit(&h, a)
	cost := sold.Cost()
	h.Settle(Settlement{Cost: cost, Lines: sold, Reasoning: 5, Status: 200, Took: 1234 * time.Millisecond,
		Now: f.clock.at(), Flags: journal.FlagAborted})
	f.recount()
	var data []byte
	var n int
	var p journal.Page
	if err := database(f.store).QueryRow("SELECT account, seq_first, seq_last, requests, data FROM usage_page").
		Scan(&p.Account, &p.First, &p.Last, &p.Requests, &data); err != nil {
		t.Fatal(err)
	}
	p.Data = data
	err := p.Each(nil, func(r *journal.Record) error {
		n++
		if r.Key != uint32(k.No) || r.Model != modelNo(a.Slot) || r.Lines != sold || r.Reasoning != 5 ||
			r.RequestID != a.RequestID || r.Status != 200 ||
			r.TookMs != 1234 || r.Flags != journal.FlagAborted || r.TimeNs != f.clock.nano() ||
			r.Amounts != (money.Parts{7, 0, cost - 7}) {
			t.Errorf("the request is kept as %+v", r)
		}
		var s journal.Shares
		r.Spread(&s)
		charged := make([]Nano, len(sold.All()))
		for _, x := range s.All() {
			charged[x.Line] += x.Amount
		}
		for i, line := range sold.All() {
			if charged[i] != line.Cost() {
				t.Errorf("the shares of line %d add up to %s of %s", i, charged[i], line.Cost())
			}
		}
		return nil
	})
	if err != nil || n != 1 {
		t.Errorf("%d requests in the page, %v", n, err)
	}
	var days string
	err = database(f.store).QueryRow(
		`SELECT group_concat(currency || ':' || requests || ':' || kind || ':' || units || ':' || amount, ' ')
		FROM (SELECT * FROM usage_day ORDER BY currency, kind)`).Scan(&days)
	if want := "1:0:1:60:92393 1:0:2:40:61600 1:0:4:20:96800 2:0:1:0:7 2:1:4:0:0"; err != nil || days != want {
		t.Errorf("daily usage is %q, expected %q (%v)", days, want, err)
	}
}

// worth returns lines that cost n.
func worth(n Nano) *money.Lines {
	var l money.Lines
	l.Add(money.OutputTokens, int64(n), 1000)
	return &l
}
