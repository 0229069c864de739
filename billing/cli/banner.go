package cli

import (
	"fmt"
	"io"
	"net"

	"farebox/config"
)

// Banner says where the gateway listens, from what it runs, and how to make the first call.
func Banner(w io.Writer, version string, cfg *config.Config, addr net.Addr, metrics, node string, keys *DemoKeys) {
	base := "http://" + addr.String() + "/api/v1"
	if cfg.TLS.Cert != "" {
		base = "https://" + addr.String() + "/api/v1"
	}
	source := cfg.Source
	if cfg.Simulated {
		source = "none: demonstration with a SIMULATED upstream, no real model answers"
	}
	fmt.Fprintf(w, "farebox %s\n  listening  %s\n  config     %s\n  store      %s\n", version, base, source,
		cfg.StoreName())
	switch metrics {
	case config.MetricsOff:
	case config.MetricsOnListen:
		fmt.Fprintln(w, "  metrics    on the address above, /metrics: they tell revenue, to everybody who can reach it")
	default:
		fmt.Fprintf(w, "  metrics    %s\n", metrics)
	}
	if node != "" {
		fmt.Fprintf(w, "  node       %s, journal in %s\n", node, cfg.LedgerDir())
	}
	secret, more := "<API key>", Program()+" key create --account "+DemoAccount
	if cfg.Store != DefaultStore && !cfg.SharedStore() {
		more += " --store " + cfg.Store
	}
	if keys != nil {
		secret = keys.Inference
		fmt.Fprintf(w, "  account    %s, 100 USD\n  ADMIN key      %s\n  INFERENCE key  %s\n  (shown this once; "+
			"more: %s)\n", DemoAccount, keys.Admin, keys.Inference, more)
	} else if cfg.Simulated {
		fmt.Fprintf(w, "  account    %s (keys were printed at the first start; more: %s)\n", DemoAccount, more)
	}
	if len(cfg.Models) > 0 {
		fmt.Fprintf(w, "first call:\n  curl %s/chat/completions -H 'Authorization: Bearer %s' -H 'Content-Type: "+
			"application/json' -d '{\"model\":\"%s\",\"messages\":[{\"role\":\"user\",\"content\":\"Hello\"}]}'\n",
			base, secret, cfg.Models[0].ID)
	}
	if cfg.Simulated && cfg.Augment.Scrape != nil {
		fmt.Fprintf(w, "a page of the simulation as Markdown:\n  curl %s/augment/scrape -H 'Authorization: Bearer %s' -H "+
			"'Content-Type: application/json' -d '{\"url\":\"%s/site/rivers\"}'\n", base, secret, cfg.SimulatedAt)
	}
	for _, m := range cfg.Models {
		if chat, ok := m.Spec.(*config.Chat); ok && chat.Enclave != nil && cfg.Simulated {
			fmt.Fprintf(w, "what a simulated enclave proves (TEST ROOT, nothing is confidential):\n  curl "+
				"'%s/tee/attestation?model=%s'\n", base, m.ID)
			break
		}
	}
}

// FirstTopUp is a payment that a wallet of the demonstration signed.
type FirstTopUp struct{ Key, Address, Header string }

// ShowTopUp says how a wallet pays before simulated chains.
func ShowTopUp(w io.Writer, addr net.Addr, t *FirstTopUp) {
	fmt.Fprintf(w, "first top-up by a wallet, of 5 USD that nobody loses (SIMULATED facilitator and chains, where every "+
		"wallet has funds):\n  curl -X POST http://%s/api/v1/x402/top-up -H 'PAYMENT-SIGNATURE: %s'\n"+
		"  wallet         %s\n  its key        %s (nobody's secret; @x402/fetch pays and signs in with it)\n",
		addr, t.Header, t.Address, t.Key)
}
