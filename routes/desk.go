package routes

import (
	"context"
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
	return &realDesk{d, g.facilitators}, nil
}

// Offer is x402.FeePayers.
func (d *realDesk) Offer(network string) string { return d.Facilitators.Offer(network) }

// Takes is x402.FeePayers.
func (d *realDesk) Takes(network, account string) bool { return d.Facilitators.Takes(network, account) }

// Verify is payment.Desk.
func (d *realDesk) Verify(ctx context.Context, p *payment.Payment) (payment.Reply, error) {
	began := time.Now()
	r, err := d.Desk.Verify(ctx, p)
	d.meters.verify.note(&r, err, began)
	return r, err
}

// Settle is payment.Desk.
func (d *realDesk) Settle(ctx context.Context, p *payment.Payment) (payment.Reply, error) {
	began := time.Now()
	r, err := d.Desk.Settle(ctx, p)
	d.meters.settle.note(&r, err, began)
	return r, err
}

// Close is WalletDesk.
func (d *realDesk) Close(next WalletDesk) {
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

func (m *callMeters) note(r *payment.Reply, err error, began time.Time) {
	m.times.Update(time.Since(began).Seconds())
	switch {
	case err != nil || r.Unclear:
		m.said[2].Inc()
	case !r.OK:
		m.said[1].Inc()
	default:
		m.said[0].Inc()
	}
}
