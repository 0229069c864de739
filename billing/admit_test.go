package billing

import (
	"testing"
	"time"

	"farebox/bench/servers"
	"farebox/billing/money"
	"farebox/billing/store"
	"farebox/billing/window"
	"farebox/config"
)

func TestMinimumBalanceCountsHolds(t *testing.T) {
	f := openLedger(t)
	f.Configure(&config.Config{Billing: config.Billing{MinimumBalance: usd / 2}})
	f.account("a", usd)
	k, _ := f.key("a")
	var first, second, third Hold
	if d := f.Admit(&first, f.ask(k, usd*7/10)); d.Code != Admitted {
		t.Fatalf("denied with %d", d.Code)
	}
	if d := f.Admit(&second, f.ask(k, usd/10)); d.Code != Admitted {
		t.Errorf("0.3 USD are free and 1 USD is there, but denied with %d", d.Code)
	}
	f.settle(&first, usd*7/10)
	if d := f.Admit(&third, f.ask(k, usd/10)); d.Code != BelowMinimum {
		t.Errorf("0.3 USD are below the floor of 0.5, but the code is %d", d.Code)
	}
	free := f.ask(k, 0)
	if d := f.Admit(&third, free); d.Code != Admitted {
		t.Errorf("a free model was denied with %d", d.Code)
	}
	third.Void(f.clock.at())
	f.settle(&second, 0)
	f.recount()
}

// "My key's limit of 1 USD let 64 requests of 1 USD through, all at once."
func TestKeyLimitsAreExactUnderConcurrency(t *testing.T) {
	for _, c := range []struct {
		currency Currency
		limit    func(*NewKey)
		denial   DenialCode
	}{
		{USD, func(n *NewKey) { n.LimitUSD = nano(5 * usd) }, KeyLimitUSD},
		{Bundled, func(n *NewKey) { n.LimitUSD = nano(5 * usd) }, KeyLimitUSD},
		{DIEM, func(n *NewKey) { n.LimitDIEM = nano(5 * usd) }, KeyLimitDIEM},
	} {
		t.Run(c.currency.String(), func(t *testing.T) {
			f := openLedger(t)
			f.account("a", 1000*usd)
			if c.currency != USD {
				f.credit("a", c.currency, 1000*usd)
			}
			k, _ := f.key("a", c.limit)
			free, _ := f.key("a")
			holds := make([]Hold, 64)
			if n := admitAll(t, f, holds, func(int) *Admission { return f.ask(k, usd) }, c.denial); n != 5 {
				t.Errorf("admitted %d requests of 1 on a limit of 5", n)
			}
			var h Hold
			if d := f.Admit(&h, f.ask(free, usd)); d.Code != Admitted {
				t.Errorf("another key of the account was denied with %d", d.Code)
			}
			h.Void(f.clock.at())
			f.recount()
			for i := range holds {
				if holds[i].Open() {
					f.settle(&holds[i], usd/2)
				}
			}
			if n := admitAll(t, f, holds, func(int) *Admission { return f.ask(k, usd) }, c.denial); n != 2 {
				t.Errorf("admitted %d requests of 1 on the 2.5 that are left of the limit", n)
			}
			for i := range holds {
				holds[i].Reset()
			}
			f.recount()
		})
	}
}

func TestKeyLimitsBeginAgainWithTheirPeriod(t *testing.T) {
	servers.NoRace(t)
	for period, after := range map[store.Period]time.Duration{store.Epoch: 12 * time.Hour,
		store.Month: (9*24 + 12) * time.Hour, store.Lifetime: 1 << 62} {
		t.Run(period.String(), func(t *testing.T) {
			f := openLedger(t)
			f.account("a", 1000*usd)
			k, secret := f.key("a", func(n *NewKey) { n.LimitUSD, n.Period = nano(usd), period })
			spend := func() DenialCode {
				var h Hold
				d := f.Admit(&h, f.ask(k, usd))
				if d.Code == Admitted {
					f.settle(&h, usd)
				}
				return d.Code
			}
			if got := spend(); got != Admitted {
				t.Fatalf("first: %d", got)
			}
			if got := spend(); got != KeyLimitUSD {
				t.Fatalf("second: %d", got)
			}
			f.reopen()
			k, _ = f.Lookup([]byte(secret))
			if got := spend(); got != KeyLimitUSD {
				t.Fatalf("after a restart: %d", got)
			}
			if period == store.Lifetime {
				f.clock.advance(400 * 24 * time.Hour)
				if got := spend(); got != KeyLimitUSD {
					t.Fatalf("a year later: %d", got)
				}
				return
			}
			f.clock.advance(after - time.Nanosecond)
			if got := spend(); got != KeyLimitUSD {
				t.Fatalf("at the end of the period: %d", got)
			}
			f.clock.advance(time.Nanosecond)
			if got := spend(); got != Admitted {
				t.Fatalf("in the new period: %d", got)
			}
			f.clock.advance(-after)
			if got := spend(); got != KeyLimitUSD {
				t.Fatalf("the clock went back and the old limit was free again: %d", got)
			}
			f.recount()
		})
	}
}

// A limit on DIEM must not turn into a silent charge in USD (design.md 7).
func TestKeyLimitNeverChangesTheCurrency(t *testing.T) {
	f := openLedger(t)
	f.account("a", 100*usd)
	f.credit("a", DIEM, 10*usd)
	k, _ := f.key("a", func(n *NewKey) { n.LimitDIEM = nano(2 * usd) })
	var h Hold
	a := f.ask(k, 5*usd)
	if d := f.Admit(&h, a); d.Code != KeyLimitDIEM {
		t.Fatalf("code %d for 5 on a DIEM limit of 2", d.Code)
	}
	a.Min = usd
	if d := f.Admit(&h, a); d.Code != Admitted || h.Granted() != 2*usd {
		t.Fatalf("code %d, granted %s of a DIEM limit of 2", d.Code, h.Granted())
	}
	if h.Extend(usd) {
		t.Error("extended beyond the DIEM limit")
	}
	f.settle(&h, 2*usd)
	if u, d, _ := k.Balance(); u != 100*usd || d != 8*usd {
		t.Errorf("%s USD and %s DIEM left", u, d)
	}
	f.recount()
}

// A key's USD limit is one for USD and bundled credits together (addendum 16.1).
// Where the operator lets DIEM fall through, a key's DIEM limit bounds DIEM
// and nothing else; its USD limit still ends a request.
func TestKeyLimitFallsThroughWhereTheOperatorSaysSo(t *testing.T) {
	f := openLedger(t)
	f.Configure(&config.Config{Billing: config.Billing{KeyLimitFallthrough: true}})
	f.account("a", 3*usd)
	f.credit("a", DIEM, 10*usd)
	k, _ := f.key("a", func(n *NewKey) { n.LimitDIEM, n.LimitUSD = nano(usd), nano(2*usd) })
	var h Hold
	if d := f.Admit(&h, f.ask(k, 2*usd)); d.Code != Admitted {
		t.Fatalf("2 of DIEM 1 and USD 2 were denied with %d", d.Code)
	}
	f.settle(&h, 2*usd)
	if used, diem, _ := k.Balance(); used != 2*usd || diem != 9*usd {
		t.Errorf("%s USD and %s DIEM are left of 3 and 10", used, diem)
	}
	if d := f.Admit(&h, f.ask(k, 2*usd)); d.Code != KeyLimitUSD {
		t.Errorf("2 with 1 left of the USD limit: code %d", d.Code)
	}
	f.recount()
	empty, _ := f.key("a", func(n *NewKey) { n.LimitDIEM = nano(0) })
	if d := f.Admit(&h, f.ask(empty, 3*usd)); d.Code != InsufficientBalance {
		t.Errorf("3 on a balance of 2 USD: code %d", d.Code)
	}
}

func TestUSDLimitCountsBundledCredits(t *testing.T) {
	servers.NoRace(t)
	f := openLedger(t)
	f.account("a", 100*usd)
	f.credit("a", Bundled, 3*usd)
	k, _ := f.key("a", func(n *NewKey) { n.LimitUSD = nano(5 * usd) })
	var h Hold
	if d := f.Admit(&h, f.ask(k, 5*usd+1)); d.Code != KeyLimitUSD {
		t.Errorf("a hold beyond the limit gives %d", d.Code)
	}
	if d := f.Admit(&h, f.ask(k, 5*usd)); d.Code != Admitted || h.parts != (money.Parts{0, 3 * usd, 2 * usd}) {
		t.Errorf("code %d, held %v", d.Code, h.parts)
	}
	f.settle(&h, 5*usd)
	f.recount()
}

// "All limits of a request are checked together": a denied one has used nothing.
func TestDeniedRequestUsesNoLimit(t *testing.T) {
	f := openLedger(t)
	f.account("a", 5*usd)
	k, _ := f.key("a")
	f.Configure(&config.Config{Limits: config.Limits{Key: config.Rate{RPM: 1}}})
	rate := &config.Rate{RPM: 100, TPM: 1000}
	var h Hold
	ask := f.ask(k, usd)
	ask.Rate, ask.Tokens = rate, 400
	f.Admit(&h, ask)
	f.settle(&h, 0)
	for range 50 {
		h.Reset()
		if d := f.Admit(&h, ask); d.Code != RateRequests || d.Scope != "api_key" || d.Limit != "RPM" || d.Allowed != 1 {
			t.Fatalf("second request: %+v", d)
		}
	}
	f.Configure(&config.Config{})
	ask.Hold, ask.Min = 6*usd, 6*usd
	for range 50 {
		if d := f.Admit(&h, ask); d.Code != InsufficientBalance {
			t.Fatalf("a request for more than there is: %+v", d)
		}
	}
	var q window.Quota
	k.Quota(ask.Slot, rate, f.clock.at(), &q)
	if q.RemainingRequests != 99 || q.RemainingTokens != 1000 {
		t.Errorf("100 denied requests left %d of 100 requests and %d of 1000 tokens", q.RemainingRequests,
			q.RemainingTokens)
	}
	if s := f.Stats(); s.Held != 0 || s.OpenHolds != 0 {
		t.Errorf("100 denied requests left %+v", s)
	}
	f.recount()
}

// "With 64 requests at once the limit of 20 a minute let 23 through."
func TestRateLimitsAreExactUnderConcurrency(t *testing.T) {
	f := openLedger(t)
	f.account("a", 1000*usd)
	rate := &config.Rate{RPM: 20, TPM: 1_000_000}
	keys := make([]*Key, 4)
	for i := range keys {
		keys[i], _ = f.key("a")
	}
	holds := make([]Hold, 64)
	n := admitAll(t, f, holds, func(i int) *Admission {
		a := f.ask(keys[i%len(keys)], usd)
		a.Rate, a.Tokens = rate, 10
		return a
	}, RateRequests)
	if n != 20 {
		t.Errorf("%d requests passed a limit of 20 a minute on the account, over 4 keys", n)
	}
	for i := range holds {
		if !holds[i].Open() {
			continue
		}
		holds[i].Settle(Settlement{Now: f.clock.at(), Tokens: 30})
	}
	var q window.Quota
	keys[0].Quota(f.ModelNumber("model"), rate, f.clock.at(), &q)
	want := window.Quota{
		LimitRequests: 20, ResetRequestsUnix: f.clock.nano()/1e9 + 60,
		LimitTokens: 1_000_000, RemainingTokens: 1_000_000 - 600, ResetTokensSeconds: 1,
	}
	if q != want {
		t.Errorf("quota is %+v, expected %+v", q, want)
	}
	keys[0].Quota(f.ModelNumber("another"), &config.Rate{}, f.clock.at(), &q)
	if q.LimitRequests != -1 || q.LimitTokens != -1 {
		t.Errorf("an unlimited model has the quota %+v", q)
	}
	f.recount()
}
