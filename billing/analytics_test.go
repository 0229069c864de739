package billing

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"farebox/bench/servers"
	"farebox/billing/money"
	"farebox/billing/report"
	"farebox/config"
)

// charge settles a request of a model.
func (f *fixture) charge(k *Key, model string, sold money.Lines) {
	f.t.Helper()
	var h Hold
	cost := sold.Cost()
	if d := f.Admit(&h, &Admission{Key: k, Slot: f.ModelNumber(model), Hold: cost, Now: f.clock.at()}); d.Code != Admitted {
		f.t.Fatalf("denied with %d", d.Code)
	}
	h.Settle(Settlement{Cost: cost, Lines: sold, Now: f.clock.at()})
}

// Each line of a model has its own prices, the most expensive model and key come first,
// and payments in DIEM are not counted as USD.
func TestAnalyticsTellLinesModelsAndKeysApart(t *testing.T) {
	f := openLedger(t)
	f.account("a", 100*usd)
	k1, _ := f.key("a", func(n *NewKey) { n.Description = "one" })
	k2, _ := f.key("a", func(n *NewKey) { n.Description = "two" })
	read := config.Pico(100_000)
	price := &config.Price{Input: 1_000_000, Output: 2_000_000, CacheRead: &read}
	f.charge(k1, "small", money.Text(price, money.Usage{Prompt: 1000, Cached: 400, Completion: 100}))
	f.clock.advance(24 * time.Hour)
	f.charge(k2, "large", money.Embedding(price, money.Usage{Prompt: 10_002}))
	f.credit("a", DIEM, usd)
	f.charge(k2, "small", money.Text(price, money.Usage{Prompt: 500}))

	sum, err := f.Reports(k1.Account).Analytics(f.Today()-6, f.Today())
	if err != nil {
		t.Fatal(err)
	}
	if len(sum.Models) != 2 || sum.Models[0].Name != "large" || sum.Models[0].What != "embedding" ||
		sum.Models[1].What != "llm" {
		t.Fatalf("the models are %+v", sum.Models)
	}
	small := sum.Models[1]
	want := map[money.Kind]report.Spend{
		money.InputTokens: {USD: 600_000, DIEM: 500_000, Units: 1100}, money.CacheReadTokens: {USD: 40_000, Units: 400},
		money.OutputTokens: {USD: 200_000, Units: 100},
	}
	if !maps.Equal(small.Kinds, want) {
		t.Errorf("the kinds are %+v, want %+v", small.Kinds, want)
	}
	if len(sum.Keys) != 2 || sum.Keys[0].ID != k2.ID || sum.Keys[1].Description != "one" {
		t.Errorf("the keys are %+v", sum.Keys)
	}
	if sum.Days[5].USD != 840_000 || sum.Days[6].USD != 10_002_000 || sum.Days[6].DIEM != 500_000 ||
		sum.Days[4] != (report.Spend{}) {
		t.Errorf("the days are %+v", sum.Days)
	}
	if sum.Models[1].Daily[5].Units != 1100 || sum.Keys[0].Daily[6].Units != 10_502 {
		t.Errorf("the daily figures are %+v and %+v", sum.Models[1].Daily, sum.Keys[0].Daily)
	}
}

// Only the top models and keys have daily figures, however many there are.
func TestAnalyticsHaveDailyFiguresOfTheTop(t *testing.T) {
	servers.NoRace(t)
	f := openLedger(t)
	f.account("a", 100*usd)
	price := &config.Price{Input: 1_000_000}
	var k *Key
	for i := range 2 * report.TopSeries {
		k, _ = f.key("a")
		f.charge(k, fmt.Sprintf("m%02d", i), money.Text(price, money.Usage{Prompt: int64(1000 + i)}))
	}
	sum, err := f.Reports(k.Account).Analytics(f.Today(), f.Today())
	if err != nil || len(sum.Models) != 2*report.TopSeries || len(sum.Keys) != 2*report.TopSeries {
		t.Fatalf("%d models, %d keys, %v", len(sum.Models), len(sum.Keys), err)
	}
	for i := range sum.Models {
		if (sum.Models[i].Daily != nil) != (i < report.TopSeries) ||
			(sum.Keys[i].Daily != nil) != (i < report.TopSeries) {
			t.Errorf("number %d has daily figures %v and %v", i, sum.Models[i].Daily, sum.Keys[i].Daily)
		}
		if want := fmt.Sprintf("m%02d", 2*report.TopSeries-1-i); sum.Models[i].Name != want {
			t.Errorf("number %d is %s, want %s", i, sum.Models[i].Name, want)
		}
	}
}
