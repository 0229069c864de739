package account

import (
	"farebox/config/fair"
	"farebox/routes"
)

// Capability is the type that main registers.
type Capability struct {
	web3    *web3Keys
	changes *fair.Turns // of keys
}

// New makes the capability.
func New() *Capability { return &Capability{changes: fair.NewTurns(1, changesWaiting)} }

// Open is routes.Capability.
func (c *Capability) Open(g *routes.Gateway) []routes.Row {
	c.web3 = newWeb3Keys(g.Accounts())
	return []routes.Row{
		{Method: "GET", Path: "/api_keys", Access: routes.Admin, Form: routes.NoBody, Params: keysParams,
			Serve: serveKeys},
		{Method: "POST", Path: "/api_keys", Access: routes.Admin, Form: routes.JSONBody, Limit: routes.SmallBody,
			Rules: creationRules, Serve: c.inTurn(createKey)},
		{Method: "PATCH", Path: "/api_keys", Access: routes.Admin, Form: routes.JSONBody, Limit: routes.SmallBody,
			Rules: routes.Always(keyUpdate), Serve: c.inTurn(updateKey)},
		{Method: "DELETE", Path: "/api_keys", Access: routes.Admin, Form: routes.JSONOrNone, Limit: routes.SmallBody,
			Rules: routes.Always(keyDeletion), Params: deletionParams, Serve: c.inTurn(deleteKey)},
		{Method: "GET", Path: "/api_keys/generate_web3_key", Access: routes.Public, Form: routes.NoBody,
			Limit: routes.SmallBody, Rate: byAddress, Serve: c.serveWeb3Token},
		{Method: "POST", Path: "/api_keys/generate_web3_key", Access: routes.Public, Form: routes.JSONBody,
			Limit: routes.SmallBody, Rate: byAddress, Rules: routes.Always(web3Creation), Serve: c.createWeb3Key},
		{Method: "GET", Path: "/api_keys/{id}", Access: routes.Admin, Form: routes.NoBody, Serve: serveKey},
		{Method: "GET", Path: "/api_keys/rate_limits", Access: routes.Bearer, Form: routes.NoBody,
			Serve: serveRateLimits},
		{Method: "GET", Path: "/api_keys/rate_limits/log", Access: routes.Admin, Form: routes.NoBody,
			Serve: serveRateLimitLog},
		{Method: "GET", Path: "/billing/balance", Access: routes.Admin, Form: routes.NoBody, Serve: serveBalance},
		{Method: "GET", Path: "/billing/usage", Access: routes.Admin, Form: routes.NoBody, Params: usageParams,
			Serve: serveUsage},
		{Method: "GET", Path: "/billing/usage-history", Access: routes.Admin, Form: routes.NoBody,
			Params: historyParams, Serve: serveHistory},
		{Method: "GET", Path: "/billing/usage-analytics", Access: routes.Admin, Form: routes.NoBody,
			Params: analyticsParams, Serve: serveAnalytics},
		{Method: "GET", Path: "/billing/statement", Access: routes.Admin, Form: routes.NoBody,
			Params: statementParams, Serve: serveStatement},
		{Method: "GET", Path: "/billing/refusals", Access: routes.Admin, Form: routes.NoBody,
			Params: refusalsParams, Serve: serveRefusals},
	}
}
