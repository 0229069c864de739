package wallet

import (
	"farebox/billing/payment"
	"farebox/config"
	"farebox/proxy/scan"
	"farebox/routes"
)

// Capability serves wallets.
type Capability struct {
	payments     *payment.Machine
	topUps       routes.PerAddress
	balances     routes.PerMinute[string] // by wallet
	transactions routes.PerMinute[string]
}

// New makes the capability.
func New() *Capability { return &Capability{} }

// noMembers are the rules of requests whose body has no members.
var noMembers = routes.Always(routes.NewRulebook(scan.NewShape(), nil))

// Open is routes.Capability.
func (cp *Capability) Open(g *routes.Gateway) []routes.Row {
	cp.payments = g.Payments()
	meterPayments(g)
	return []routes.Row{
		{Method: "POST", Path: "/x402/top-up", Access: routes.Public, Payment: true, Form: routes.JSONOrNone,
			Limit: routes.SmallBody, Rules: noMembers, Serve: cp.topUp},
		{Method: "GET", Path: "/x402/balance/{wallet}", Access: routes.Public, Form: routes.NoBody,
			Limit: routes.SmallBody, Serve: cp.balance},
		{Method: "GET", Path: "/x402/transactions/{wallet}", Access: routes.Public, Form: routes.NoBody,
			Limit: routes.SmallBody, Params: listParams, Serve: cp.list},
		{Method: "POST", Path: "/x402/link", Access: routes.Admin, Form: routes.JSONOrNone, Limit: routes.SmallBody,
			Rules: noMembers, Offered: linksByKey, Serve: link},
	}
}

// linksByKey says that an ADMIN key may link a wallet.
func linksByKey(cfg *config.Config) bool { return cfg.X402 != nil && cfg.X402.Link == "admin" }

// offered refuses requests while the config has no x402.
func offered(c *routes.Call) *routes.Error {
	if c.Config().X402 == nil {
		return problem(503, "X402_NOT_CONFIGURED", "Payments by wallets are not set up here.")
	}
	return nil
}
