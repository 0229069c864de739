package routes

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"farebox/billing/payment"
	"farebox/config"
	"farebox/config/fair"
	"farebox/providers"
	"farebox/providers/x402"
	"farebox/proxy"
)

// payments are those of wallets: the machine that brings them to their end, and the
// facilitators and chains of the config that is served.
type payments struct {
	machine *payment.Machine

	mu    sync.Mutex
	desk  WalletDesk // nil: nobody can be asked
	begun bool       // the machine is at work
	ready bool       // it may be
}

// errNoDesk is for payments that are left when x402 was taken out of the config.
var errNoDesk = errors.New("open payments cannot be checked: the config no longer has x402; restore it until " +
	"farebox wallet payments --pending lists none")

// openPayments makes the machine of payments. It does nothing until it is begun.
func (g *Gateway) openPayments(o *Options) {
	p := &payments{}
	p.machine = payment.New(payment.Options{Store: g.ledger.Payments(), Desk: p, Node: g.ledger.NodeNo(), Log: g.log})
	g.payments, g.contracts.turns = p, fair.NewTurns(contractAsks, contractQueue)
	g.facilitators, g.newDesk = newFacilitatorMeters(g.metrics.set), g.newRealDesk
	if o.Desk != nil {
		g.newDesk = func(*config.Config, *providers.Catalog, WalletDesk) (WalletDesk, error) { return o.Desk, nil }
	}
	g.meterPayments()
}

// serve brings a config into force. Payments that are under way go on with its
// facilitators and nodes; without any, with those before.
func (p *payments) serve(w *wallets) error {
	if w == nil {
		return nil
	}
	p.machine.Configure(paymentTerms(w.cfg))
	p.mu.Lock()
	defer p.mu.Unlock()
	p.desk = w.desk
	return p.begin()
}

// begin goes on with the payments that earlier processes left, as soon as there is
// somebody to ask. The caller holds mu.
func (p *payments) begin() error {
	if p.begun || !p.ready || p.desk == nil {
		return nil
	}
	if err := p.machine.Begin(); err != nil {
		return fmt.Errorf("cannot go on with the payments of the ledger: %w", err)
	}
	p.begun = true
	return nil
}

// open lets the machine begin.
func (p *payments) open() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ready = true
	return p.begin()
}

// close ends what is under way, before the ledger is closed. The next process goes on
// with it.
func (p *payments) close() {
	p.mu.Lock()
	begun, desk := p.begun, p.desk
	p.begun, p.ready = false, false
	p.mu.Unlock()
	if begun {
		p.machine.Close()
	}
	if desk != nil {
		desk.Close(nil)
	}
}

// asked is who is asked now, whom a reload may change between two questions.
func (p *payments) asked() (payment.Desk, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.desk == nil {
		return nil, errNoDesk
	}
	return p.desk, nil
}

func paymentTerms(x *config.X402) payment.Terms {
	t := payment.Terms{MaxPending: x.MaxPending, MaxPendingPerWallet: x.MaxPendingPerWallet}
	for i := range x.Facilitators {
		f := &x.Facilitators[i]
		t.VerifyTimeout, t.SettleTimeout = max(t.VerifyTimeout, f.VerifyTimeout), max(t.SettleTimeout, f.SettleTimeout)
	}
	return t
}

// Prepare is payment.Desk.
func (p *payments) Prepare(ctx context.Context, of *payment.Payment) ([]byte, *payment.Refusal, error) {
	d, err := p.asked()
	if err != nil {
		return nil, nil, err
	}
	return d.Prepare(ctx, of)
}

// Verify is payment.Desk.
func (p *payments) Verify(ctx context.Context, of *payment.Payment) (payment.Reply, error) {
	d, err := p.asked()
	if err != nil {
		return payment.Reply{}, err
	}
	return d.Verify(ctx, of)
}

// Settle is payment.Desk.
func (p *payments) Settle(ctx context.Context, of *payment.Payment) (payment.Reply, error) {
	d, err := p.asked()
	if err != nil {
		return payment.Reply{}, err
	}
	return d.Settle(ctx, of)
}

// Find is payment.Desk.
func (p *payments) Find(ctx context.Context, of *payment.Payment, transaction string) (payment.Finding, error) {
	d, err := p.asked()
	if err != nil {
		return payment.Finding{}, err
	}
	return d.Find(ctx, of, transaction)
}

// Pay submits a payment, and waits for its outcome while the client does; the payment
// goes on without it.
func (c *Call) Pay(p *x402.Payment) (out payment.Outcome) {
	cause, _ := c.Await(0, func(ctx context.Context) error {
		share := fair.Of(ctx)
		// A wallet that paid before has the share of its account, wherever it pays from.
		if a, err := c.g.ledger.Wallets().State(p.Wallet); err == nil && a.Paid() {
			share = fair.Paid(a.Number())
		}
		out = c.g.payments.machine.Submit(ctx, (*payment.Payment)(p), share)
		return nil
	})
	if cause != proxy.None {
		c.Cause = cause.String()
	}
	return out
}

// meterPayments makes the series of the machine. One look at it serves all of a scrape.
func (g *Gateway) meterPayments() {
	var mu sync.Mutex
	var last payment.Stats
	var at time.Time
	stats := func() *payment.Stats {
		mu.Lock()
		defer mu.Unlock()
		if time.Since(at) > time.Second/2 {
			last, at = g.payments.machine.Stats(), time.Now()
		}
		s := last
		return &s
	}
	gauge := func(name string, f func(*payment.Stats) float64) {
		g.metrics.set.NewGauge(name, func() float64 { return f(stats()) })
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
	count("farebox_payment_looks_total", func(s *payment.Stats) int64 { return s.Looks })
	count("farebox_payment_disagreements_total", func(s *payment.Stats) int64 { return s.Disagreements })
	count("farebox_payment_contradictions_total", func(s *payment.Stats) int64 { return s.Contradictions })
	count("farebox_payment_desk_errors_total", func(s *payment.Stats) int64 { return s.DeskErrors })
	count("farebox_payment_store_errors_total", func(s *payment.Stats) int64 { return s.StoreErrors })
	count("farebox_payment_panics_total", func(s *payment.Stats) int64 { return s.Panics })
}
