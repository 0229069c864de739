package wallet

import (
	"context"
	"sync"
	"time"

	"farebox/billing/payment"
	"farebox/config/fair"
	"farebox/config/onchain"
	"farebox/proxy"
	"farebox/routes"
)

// pay submits a payment, and waits for its outcome while the client does. The payment
// continues without the client.
func (cp *Capability) pay(c *routes.Call, p *onchain.Payment) (out payment.Outcome) {
	cause, _ := c.Await(0, func(ctx context.Context) error {
		share := fair.Of(ctx)
		// A wallet that paid before has the share of its account, wherever it pays from.
		if a, err := c.Accounts().WalletState(p.Wallet); err == nil && a.Paid() {
			share = fair.Paid(a.Number())
		}
		out = cp.payments.Submit(ctx, p, share)
		return nil
	})
	if cause != proxy.None {
		c.Cause = cause.String()
	}
	return out
}

// meterPayments makes the series of the machine. One look at it serves all of a scrape.
func meterPayments(g *routes.Gateway) {
	m, set := g.Payments(), g.Metrics()
	var mu sync.Mutex
	var last payment.Stats
	var at time.Time
	stats := func() *payment.Stats {
		mu.Lock()
		defer mu.Unlock()
		if time.Since(at) > time.Second/2 {
			last, at = m.Stats(), time.Now()
		}
		s := last
		return &s
	}
	gauge := func(name string, f func(*payment.Stats) float64) {
		set.NewGauge(name, func() float64 { return f(stats()) })
	}
	count := func(name string, f func(*payment.Stats) int64) {
		gauge(name, func(s *payment.Stats) float64 { return float64(f(s)) })
	}
	for state := range stats().Pending {
		count(`farebox_payments{state="`+state+`"}`, func(s *payment.Stats) int64 { return s.Pending[state] })
	}
	for ending := range stats().Submissions {
		count(`farebox_payment_submissions_total{outcome="`+ending+`"}`,
			func(s *payment.Stats) int64 { return s.Submissions[ending] })
	}
	gauge("farebox_payment_oldest_seconds", func(s *payment.Stats) float64 { return s.OldestAge.Seconds() })
	gauge("farebox_payment_alarm_seconds", func(*payment.Stats) float64 {
		if x := g.Config().X402; x != nil {
			return x.PendingAlarm.Seconds()
		}
		return 0
	})
	gauge("farebox_payments_credited_usd_total", func(s *payment.Stats) float64 { return float64(s.CreditedAmount) / 1e9 })
	count("farebox_payments_under_way", func(s *payment.Stats) int64 { return int64(s.UnderWay) })
	count("farebox_payments_credited_total", func(s *payment.Stats) int64 { return s.Credited })
	count("farebox_payments_reversed_total", func(s *payment.Stats) int64 { return s.Reversed })
	count("farebox_payments_refused_total", func(s *payment.Stats) int64 { return s.Refused })
	count("farebox_payments_dead_total", func(s *payment.Stats) int64 { return s.Dead })
	count("farebox_payment_settles_total", func(s *payment.Stats) int64 { return s.Settles })
	count("farebox_payment_looks_total", func(s *payment.Stats) int64 { return s.Polls })
	count("farebox_payment_disagreements_total", func(s *payment.Stats) int64 { return s.Disagreements })
	count("farebox_payment_contradictions_total", func(s *payment.Stats) int64 { return s.Contradictions })
	count("farebox_payment_desk_errors_total", func(s *payment.Stats) int64 { return s.ClientErrors })
	count("farebox_payment_store_errors_total", func(s *payment.Stats) int64 { return s.StoreErrors })
	count("farebox_payment_panics_total", func(s *payment.Stats) int64 { return s.Panics })
}
