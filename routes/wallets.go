package routes

import (
	"fmt"

	"github.com/dgraph-io/ristretto/v2"

	"farebox/config"
	"farebox/providers"
	"farebox/providers/wallet/signin"
	"farebox/providers/x402"
)

// wallets holds the rules and clients for wallets under one config, ready for requests.
type wallets struct {
	cfg    *config.X402
	rules  *signin.Rules
	terms  *x402.Terms
	client PaymentClient
	known  *ristretto.Cache[string, knownWallet] // headers that hold for several requests; nil: none do
}

// maxKnown is how many such headers are remembered.
const maxKnown = 10_000

func (g *Gateway) newWallets(cfg *config.Config, catalog *providers.Catalog, old *snapshot) (*wallets, error) {
	x := cfg.X402
	if x == nil {
		return nil, nil
	}
	var before PaymentClient
	if old != nil && old.wallets != nil {
		before = old.wallets.client
	}
	w := &wallets{cfg: x, rules: signInRules(x)}
	var err error
	if w.client, err = g.newPaymentClient(cfg, catalog, before); err != nil {
		return nil, fmt.Errorf("cannot ask about payments: %w", err)
	}
	if w.terms, err = x402.NewTerms(x, w.client); err == nil && x.SignIn.Nonce == "reusable" {
		w.known, err = ristretto.NewCache(&ristretto.Config[string, knownWallet]{NumCounters: 10 * maxKnown,
			MaxCost: maxKnown, BufferItems: 64, IgnoreInternalCost: true})
	}
	if err != nil {
		w.client.Close(before)
		return nil, fmt.Errorf("cannot take payments: %w", err)
	}
	return w, nil
}

func signInRules(x *config.X402) *signin.Rules {
	r := &signin.Rules{Domains: x.SignIn.Domains, Origins: x.SignIn.Origins, MaxAge: x.SignIn.MaxAge,
		Skew: x.SignIn.Skew}
	for i := range x.Networks {
		n := &x.Networks[i]
		r.Chains = append(r.Chains, signin.Chain{Name: n.Network, Contracts: n.EVM() && *n.ContractWallets})
	}
	return r
}
