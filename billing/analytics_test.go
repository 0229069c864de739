package billing

import (
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"farebox/billing/money"
	"farebox/config"
)

// charge settles a request of a model.
func (f *fixture) charge(k *Key, model string, sold money.Lines) {
	f.t.Helper()
	var h Hold
	cost := sold.Cost()
	if d := f.Admit(&h, &Admission{Key: k, Slot: f.Slot(model), Hold: cost, NowNs: f.clock.nano()}); d.Code != Admitted {
		f.t.Fatalf("denied with %d", d.Code)
	}
	h.Settle(Settlement{Cost: cost, Lines: sold, NowNs: f.clock.nano()})
}

// The lines of a model are told apart, with the prices of each; the dearest
// model and key come first; what was paid in DIEM is not USD.
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

	sum, err := f.Analytics(k1, f.Today()-6, f.Today())
	if err != nil {
		t.Fatal(err)
	}
	if len(sum.Models) != 2 || sum.Models[0].Name != "large" || sum.Models[0].What != "embedding" || sum.Models[1].What != "llm" {
		t.Fatalf("the models are %+v", sum.Models)
	}
	small := sum.Models[1]
	want := map[money.Kind]Spend{
		money.InputTokens: {USD: 600_000, DIEM: 500_000, Units: 1100}, money.CacheReadTokens: {USD: 40_000, Units: 400}, money.OutputTokens: {USD: 200_000, Units: 100},
	}
	if !maps.Equal(small.Kinds, want) {
		t.Errorf("the kinds are %+v, want %+v", small.Kinds, want)
	}
	if len(sum.Keys) != 2 || sum.Keys[0].ID != k2.ID || sum.Keys[1].Description != "one" {
		t.Errorf("the keys are %+v", sum.Keys)
	}
	if sum.Days[5].USD != 840_000 || sum.Days[6].USD != 10_002_000 || sum.Days[6].DIEM != 500_000 || sum.Days[4] != (Spend{}) {
		t.Errorf("the days are %+v", sum.Days)
	}
	if sum.Models[1].Daily[5].Units != 1100 || sum.Keys[0].Daily[6].Units != 10_502 {
		t.Errorf("the daily figures are %+v and %+v", sum.Models[1].Daily, sum.Keys[0].Daily)
	}
}

// Only the top models and keys have daily figures, however many there are.
func TestAnalyticsHaveDailyFiguresOfTheTop(t *testing.T) {
	f := openLedger(t)
	f.account("a", 100*usd)
	price := &config.Price{Input: 1_000_000}
	var k *Key
	for i := range 2 * TopSeries {
		k, _ = f.key("a")
		f.charge(k, fmt.Sprintf("m%02d", i), money.Text(price, money.Usage{Prompt: int64(1000 + i)}))
	}
	sum, err := f.Analytics(k, f.Today(), f.Today())
	if err != nil || len(sum.Models) != 2*TopSeries || len(sum.Keys) != 2*TopSeries {
		t.Fatalf("%d models, %d keys, %v", len(sum.Models), len(sum.Keys), err)
	}
	for i := range sum.Models {
		if (sum.Models[i].Daily != nil) != (i < TopSeries) || (sum.Keys[i].Daily != nil) != (i < TopSeries) {
			t.Errorf("number %d has daily figures %v and %v", i, sum.Models[i].Daily, sum.Keys[i].Daily)
		}
		if want := fmt.Sprintf("m%02d", 2*TopSeries-1-i); sum.Models[i].Name != want {
			t.Errorf("number %d is %s, want %s", i, sum.Models[i].Name, want)
		}
	}
}

// "The dashboard, open in ten tabs, brought the database down."
func TestAnalyticsAreAskedForOnce(t *testing.T) {
	var c analyticsCache
	var asked atomic.Int64
	ask := func() (*Analytics, bool, error) {
		asked.Add(1)
		time.Sleep(50 * time.Millisecond)
		return &Analytics{First: 1}, true, nil
	}
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if sum, err := c.get(analyticsKey{1, 1, 7}, ask); err != nil || sum.First != 1 {
				t.Errorf("%+v, %v", sum, err)
			}
		})
	}
	all.Wait()
	if n := asked.Load(); n != 1 {
		t.Errorf("20 at once asked the store %d times", n)
	}
	for _, other := range []analyticsKey{{2, 1, 7}, {1, 2, 7}, {1, 1, 8}} {
		before := asked.Load()
		if _, err := c.get(other, ask); err != nil || asked.Load() != before+1 {
			t.Errorf("%+v was answered with another's figures", other)
		}
	}
	c.m[analyticsKey{1, 1, 7}].at = time.Now().Add(-analyticsFor)
	before := asked.Load()
	if _, err := c.get(analyticsKey{1, 1, 7}, ask); err != nil || asked.Load() != before+1 {
		t.Error("an answer is kept for longer than 10 minutes")
	}
}

// An error is not kept, and what is kept is bounded.
func TestAnalyticsCacheForgets(t *testing.T) {
	var c analyticsCache
	k := analyticsKey{1, 1, 1}
	if _, err := c.get(k, func() (*Analytics, bool, error) { return nil, false, errFault }); !errors.Is(err, errFault) {
		t.Errorf("the first answer is %v", err)
	}
	if _, err := c.get(k, func() (*Analytics, bool, error) { return &Analytics{}, true, nil }); err != nil {
		t.Errorf("an error is kept: %v", err)
	}
	k = analyticsKey{2, 1, 1}
	for _, first := range []int32{1, 2} {
		sum, err := c.get(k, func() (*Analytics, bool, error) { return &Analytics{First: first}, first > 1, nil })
		if err != nil || sum.First != first {
			t.Errorf("what was not complete is kept: %+v, %v", sum, err)
		}
	}
	for i := range int32(3 * analyticsMost) {
		_, _ = c.get(analyticsKey{1, i, i}, func() (*Analytics, bool, error) { return &Analytics{}, true, nil })
	}
	if len(c.m) > analyticsMost {
		t.Errorf("%d answers are kept", len(c.m))
	}
	var s usageAnchors
	for i := range int64(3 * anchorsMost) {
		s.put(anchorKey{limit: i}, map[uint32]uint64{})
	}
	if len(s.m) > anchorsMost || s.get(anchorKey{limit: 3*anchorsMost - 1}) == nil {
		t.Errorf("%d ends of lists are kept", len(s.m))
	}
}
