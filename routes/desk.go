package routes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"farebox/billing/payment"
	"farebox/config"
	"farebox/providers"
	"farebox/providers/wallet"
	"farebox/providers/x402"
	"farebox/providers/x402/desk"
)

// WalletDesk asks the facilitators and chains of a config.
type WalletDesk interface {
	payment.Desk
	x402.FeePayers
	// ContractSigned asks a chain whether a wallet that is a contract signed (EIP-1271).
	ContractSigned(ctx context.Context, network string, who wallet.Address, hash [32]byte,
		signature []byte) (bool, error)
	// Start begins what only a config needs that is being served.
	Start()
	WriteMetrics(w io.Writer)
	// Close ends what next, nil for none, does not go on with.
	Close(next WalletDesk)
}

// realDesk is a WalletDesk that counts what facilitators are asked.
type realDesk struct {
	*desk.Desk
	meters *facilitatorMeters
	tokens tokenWatch
}

func (g *Gateway) newRealDesk(cfg *config.Config, catalog *providers.Catalog, before WalletDesk) (WalletDesk, error) {
	var old *desk.Desk
	if b, ok := before.(*realDesk); ok {
		old = b.Desk
	}
	d, err := desk.New(cfg.X402, catalog.Networks, g.proxy, old)
	if err != nil {
		return nil, err
	}
	r := &realDesk{Desk: d, meters: g.facilitators}
	r.tokens.log = g.log
	return r, nil
}

// Offer is x402.FeePayers.
func (d *realDesk) Offer(network string) string { return d.Facilitators.Offer(network) }

// Prepare is payment.Desk.
func (d *realDesk) Prepare(ctx context.Context, p *payment.Payment) ([]byte, *payment.Refusal, error) {
	order, no, err := d.Desk.Prepare(ctx, (*x402.Payment)(p))
	if no != nil {
		return order, &payment.Refusal{Code: no.Code, Reason: no.Reason}, nil
	}
	return order, nil, disagreement(err)
}

// Verify is payment.Desk.
func (d *realDesk) Verify(ctx context.Context, p *payment.Payment) (payment.Reply, error) {
	return d.meters.verify.ask(ctx, d.Desk.Verify, p)
}

// Settle is payment.Desk.
func (d *realDesk) Settle(ctx context.Context, p *payment.Payment) (payment.Reply, error) {
	return d.meters.settle.ask(ctx, d.Desk.Settle, p)
}

// Find is payment.Desk.
func (d *realDesk) Find(ctx context.Context, p *payment.Payment, transaction string) (payment.Finding, error) {
	f, err := d.Desk.Find(ctx, (*x402.Payment)(p), transaction)
	return payment.Finding{Fate: payment.Fate(f.Fate), Transaction: f.Transaction, Settled: f.Settled, Final: f.Final,
		Reason: f.Reason}, disagreement(err)
}

// disagreement tells the machine of payments which errors are of witnesses that do not
// say the same.
func disagreement(err error) error {
	if errors.Is(err, x402.ErrDisagree) {
		return fmt.Errorf("%w: %w", payment.ErrDisagree, err)
	}
	return err
}

// The fates of both rooms are the same numbers; these do not compile where they are not.
const (
	_ = uint(x402.Open-x402.Fate(payment.Open)) + uint(x402.Fate(payment.Open)-x402.Open)
	_ = uint(x402.Paid-x402.Fate(payment.Paid)) + uint(x402.Fate(payment.Paid)-x402.Paid)
	_ = uint(x402.Spent-x402.Fate(payment.Spent)) + uint(x402.Fate(payment.Spent)-x402.Spent)
	_ = uint(x402.Over-x402.Fate(payment.Over)) + uint(x402.Fate(payment.Over)-x402.Over)
)

// Start is WalletDesk.
func (d *realDesk) Start() {
	d.Desk.Start()
	d.tokens.start(d.CheckTokens)
}

// Close is WalletDesk.
func (d *realDesk) Close(next WalletDesk) {
	d.tokens.close()
	if n, ok := next.(*realDesk); ok {
		d.Desk.Close(n.Desk)
		return
	}
	d.Desk.Close(nil)
}

// WriteMetrics tells which facilitators can be used: they come and go with the config.
func (d *realDesk) WriteMetrics(w io.Writer) {
	for _, one := range d.Facilitators.States() {
		metrics.WriteGaugeFloat64(w, `farebox_facilitator_up{facilitator="`+one.Name+`"}`,
			oneIf(one.Known && one.Err == ""))
	}
	d.tokens.writeMetrics(w, d.Terms.Networks)
}

// facilitatorMeters are what facilitators did with what they were asked.
type facilitatorMeters struct{ verify, settle callMeters }

type callMeters struct {
	said  [3]*metrics.Counter // ok, refused, failed
	times *metrics.PrometheusHistogram
}

func newFacilitatorMeters(set *metrics.Set) *facilitatorMeters {
	of := func(call string) (m callMeters) {
		for i, result := range []string{"ok", "refused", "failed"} {
			m.said[i] = set.NewCounter(`farebox_facilitator_calls_total{call="` + call + `",result="` + result + `"}`)
		}
		m.times = set.NewPrometheusHistogramExt(`farebox_facilitator_duration_seconds{call="`+call+`"}`, DurationBounds)
		return m
	}
	return &facilitatorMeters{of("verify"), of("settle")}
}

// ask has a facilitator asked, and counts what it says.
func (m *callMeters) ask(ctx context.Context, question func(context.Context, *x402.Payment) (x402.Reply, error),
	p *payment.Payment) (payment.Reply, error) {
	began := time.Now()
	r, err := question(ctx, (*x402.Payment)(p))
	m.times.Update(time.Since(began).Seconds())
	switch {
	case err != nil || r.Unclear:
		m.said[2].Inc()
	case !r.OK:
		m.said[1].Inc()
	default:
		m.said[0].Inc()
	}
	return payment.Reply(r), err
}
