package routes

import (
	"context"
	"io"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"farebox/billing/payment"
	"farebox/config"
	"farebox/config/fair"
	"farebox/config/onchain"
	"farebox/providers"
	"farebox/providers/wallet"
	"farebox/providers/x402"
	"farebox/providers/x402/chainclient"
)

// PaymentClient asks the facilitators and chains of a config.
type PaymentClient interface {
	payment.ChainClient
	x402.FeePayers
	// ContractSigned asks a chain whether a wallet that is a contract signed (EIP-1271).
	ContractSigned(ctx context.Context, network string, who wallet.Address, hash [32]byte,
		signature []byte) (bool, error)
	// Start begins the work that only a config in service needs.
	Start()
	// Close ends the parts that next, nil for none, does not continue.
	Close(next any)
}

// openPayments makes the machine of payments. It does nothing until it is configured and
// begun.
func (g *Gateway) openPayments(o *Options) {
	g.payments = payment.New(payment.Options{Store: g.ledger.Payments(), Node: g.ledger.NodeNo(), Log: g.log})
	g.contracts.turns = fair.NewTurns(contractAsks, contractQueue)
	asked := newFacilitatorMeters(g.metrics.set)
	g.newPaymentClient = func(cfg *config.Config, catalog *providers.Catalog, before PaymentClient) (PaymentClient, error) {
		old, _ := before.(*chainclient.Client)
		return chainclient.New(cfg.X402, catalog.Networks, g.proxy, g.log, asked, old)
	}
	if o.Payments != nil {
		g.newPaymentClient = func(*config.Config, *providers.Catalog, PaymentClient) (PaymentClient, error) {
			return o.Payments, nil
		}
	}
}

// configurePayments brings a config into force. Payments that are under way continue with
// its client; without x402 in it, with the client before.
func (g *Gateway) configurePayments(w *wallets) error {
	if w == nil {
		return nil
	}
	t := payment.Terms{MaxPending: w.cfg.MaxPending, MaxPendingPerWallet: w.cfg.MaxPendingPerWallet}
	for i := range w.cfg.Facilitators {
		f := &w.cfg.Facilitators[i]
		t.VerifyTimeout, t.SettleTimeout = max(t.VerifyTimeout, f.VerifyTimeout), max(t.SettleTimeout, f.SettleTimeout)
	}
	return g.payments.Configure(t, w.client)
}

// closePayments ends payments that are under way, before the ledger is closed. The next
// process continues them.
func (g *Gateway) closePayments() {
	g.payments.Close()
	if c, ok := g.payments.Client().(PaymentClient); ok {
		c.Close(nil)
	}
}

// Payments is the machine that brings the payments of wallets to their end.
func (g *Gateway) Payments() *payment.Machine { return g.payments }

// writeMetrics reports facilitators and tokens of the config.
func (w *wallets) writeMetrics(out io.Writer) {
	c, ok := w.client.(*chainclient.Client)
	if !ok {
		return
	}
	for _, one := range c.Facilitators.States() {
		metrics.WriteGaugeFloat64(out, `farebox_facilitator_up{facilitator="`+one.Name+`"}`,
			oneIf(one.Known && one.Err == ""))
	}
	for network, wrong := range c.WrongTokens() {
		metrics.WriteGaugeFloat64(out, `farebox_x402_token_wrong{network="`+network+`"}`, oneIf(wrong))
	}
}

// newFacilitatorMeters counts the answers of facilitators.
func newFacilitatorMeters(set *metrics.Set) chainclient.Observer {
	count := func(question, result string) *metrics.Counter {
		return set.GetOrCreateCounter(`farebox_facilitator_calls_total{call="` + question + `",result="` + result + `"}`)
	}
	times := map[string]*metrics.PrometheusHistogram{}
	for _, question := range []string{"verify", "settle"} {
		times[question] = set.NewPrometheusHistogramExt(`farebox_facilitator_duration_seconds{call="`+question+`"}`, DurationBounds)
		for _, result := range []string{"ok", "refused", "failed"} {
			count(question, result)
		}
	}
	return func(question string, took time.Duration, r onchain.Reply, err error) {
		times[question].Update(took.Seconds())
		switch {
		case err != nil || r.Unclear:
			count(question, "failed").Inc()
		case !r.OK:
			count(question, "refused").Inc()
		default:
			count(question, "ok").Inc()
		}
	}
}
