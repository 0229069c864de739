//go:build !race

package billing

import (
	"net/netip"
	"testing"
	"time"

	"farebox/billing/money"
	"farebox/billing/window"
	"farebox/config"
)

// gate fails when a hot path allocates.
func gate(t *testing.T, name string, do func()) {
	t.Helper()
	if n := testing.AllocsPerRun(500, do); n != 0 {
		t.Errorf("%s allocates %v times", name, n)
	}
}

func TestHotPathsDoNotAllocate(t *testing.T) {
	f := openLedger(t, func(o *Options) { o.segmentSize = 4 << 20 })
	f.Configure(&config.Config{
		Billing: config.Billing{MinimumBalance: 1},
		Limits: config.Limits{
			Key:            config.Rate{RPM: 1 << 40, RPH: 1 << 40, RPD: 1 << 40, RPMon: 1 << 40, TPM: 1 << 50},
			FailedRequests: config.Budget{Count: 1 << 20, Window: time.Hour, Block: time.Second},
		},
	})
	f.account("a", 1_000_000*usd)
	f.credit("a", DIEM, usd)
	k, secret := f.key("a", func(n *NewKey) { n.LimitUSD, n.LimitDIEM = nano(1_000_000*usd), nano(1_000_000*usd) })
	text := []byte(secret)
	rate := &config.Rate{RPM: 1 << 40, RPH: 1 << 40, RPD: 1 << 40, RPMon: 1 << 40, TPM: 1 << 50}
	price := &config.Price{Input: 1_540_000, Output: 4_840_000}
	u := money.Usage{Prompt: 900, Cached: 100, Completion: 100}
	var h Hold
	ask := f.ask(k, usd/1000)
	ask.Rate, ask.Tokens = rate, 1000

	gate(t, "Lookup", func() {
		if _, err := f.Lookup(text); err != nil {
			t.Fatal(err)
		}
	})
	gate(t, "Admit and Settle", func() {
		if d := f.Admit(&h, ask); d.Code != Admitted {
			t.Fatal(d)
		}
		sold := money.Text(price, u)
		h.From(300)
		h.Settle(Settlement{Cost: sold.Cost(), Lines: sold, Model: "model", Status: 200, Now: f.clock.at(),
			Tokens: 1000})
		h.Reset()
	})
	ask.Credits, ask.DailyCredits = 20, 1<<40
	gate(t, "Admit and Settle under a cap of credits", func() {
		if d := f.Admit(&h, ask); d.Code != Admitted {
			t.Fatal(d)
		}
		h.Settle(Settlement{Cost: 20, Credits: 20, Now: f.clock.at()})
		h.Reset()
	})
	ask.DailyCredits = 0
	gate(t, "Admit, Extend, Progress and Void", func() {
		f.Admit(&h, ask)
		h.Extend(usd / 1000)
		sold := money.Text(price, u)
		h.Progress(&sold)
		h.Void(f.clock.at())
		h.Reset()
	})
	var q window.Quota
	gate(t, "Quota and Balance", func() {
		k.Quota(ask.Slot, rate, f.clock.at(), &q)
		k.Balance()
	})
	f.NoteFailure(netip.Addr{}, k, 1, 1, false, f.clock.at())
	gate(t, "NoteFailure and FailureBlock", func() {
		f.NoteFailure(netip.Addr{}, k, 1, 1, false, f.clock.at())
		f.FailureBlock(netip.Addr{}, k, 1, 1, f.clock.at())
	})
	gate(t, "Worst and Affords", func() {
		if money.Worst(price, 1000, 1000) == 0 || money.Affords(price, usd) == 0 {
			t.Fatal("nothing")
		}
	})
	denied := f.ask(k, money.MaxCredit)
	gate(t, "a denial", func() {
		if d := f.Admit(&h, denied); d.Code != InsufficientBalance {
			t.Fatal(d)
		}
	})
}
