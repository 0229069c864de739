package rpc

import (
	"io"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"farebox/billing/money"
	"farebox/config"
	"farebox/config/fair"
	"farebox/providers"
	"farebox/providers/health"
	"farebox/providers/rpc"
	"farebox/proxy/jsontext"
	"farebox/routes"
)

// maxCarried bounds blockchain requests that are carried to their end though their
// client leaves: writes, which a node may have taken already, and those with an
// idempotency key, whose repetition is to find an answer. A node that hangs holds each
// for rpc.networks[].timeouts.total. Those beyond are cut when their client leaves, and
// charged all the same. Customers share the slots.
const maxCarried = 4096

// Capability is the type that main registers.
type Capability struct {
	gateway  *routes.Gateway
	requests sync.Pool   // of request
	alone    *fair.Space // requests that do not end with their client
}

// New makes the capability.
func New() *Capability {
	ca := &Capability{alone: fair.NewRoom(maxCarried)}
	ca.requests.New = func() any { return &request{owner: ca} }
	return ca
}

// Open is routes.Capability.
func (c *Capability) Open(g *routes.Gateway) []routes.Row {
	c.gateway = g
	g.Metrics().NewGauge("farebox_rpc_carried_requests", func() float64 { return float64(c.alone.Used()) })
	return []routes.Row{
		{Method: "GET", Path: "/crypto/rpc/networks", Access: routes.Public, Form: routes.NoBody,
			Limit: routes.SmallBody, Serve: c.list},
		{Method: "POST", Path: "/crypto/rpc/{network}", Access: routes.Bearer, Wallet: true,
			Form: routes.RawJSON, Limit: mostBody,
			Rate: byCredits, Serve: c.serve, Each: func(own any) []string { return own.(*view).names }},
	}
}

// view is the part of a config for blockchain calls.
type view struct {
	networks *rpc.Networks
	listing  []byte         // body of GET /crypto/rpc/networks
	slots    map[string]int // of each network's usage
	names    []string       // sorted
	price    money.Pico     // of a credit
	error    int64          // credits of a call that a node answered with an error
	meters   map[string]*meters
	daily    int64 // credits of an account in 24 hours; 0: any number
	inFlight int   // requests of an account at the same time; 0: any number
	slotWait time.Duration

	creditsHeader, costHeader, cacheHeader []byte
}

// byCredits are the limits of blockchain requests, common to all networks.
var byCredits = &routes.RateClass{Name: "crypto-rpc", Rate: func(cfg *config.Config) (*config.Rate, bool) {
	rate := &cfg.RPC.Rate
	if *rate == (config.Rate{}) {
		rate = nil
	}
	return rate, cfg.RPC.Sold()
}}

// mostBody is the limit of a call or batch.
func mostBody(cfg *config.Config) int { return int(cfg.RPC.MaxBody) }

// Load is routes.Loader.
func (c *Capability) Load(cfg *config.Config, catalog *providers.Catalog, _ any) (routes.View, error) {
	v := c.newView(cfg, catalog.Networks)
	c.watch(v.networks)
	return routes.View{
		Own: v, Headers: [][]byte{v.creditsHeader, v.costHeader},
		Serve:   func() { v.networks.CheckChains(c.gateway.Proxy()) },
		Metrics: func(w io.Writer) { v.networks.WriteMetrics(w, time.Now().UnixNano()) },
		Upstreams: func() (list []routes.Watched) {
			for _, n := range v.networks.Sorted {
				for _, u := range n.Nodes {
					list = append(list, routes.Watched{Kind: "network", Model: n.Name, Upstream: u.Name, Name: n.Name, Weight: u.Config.Weight,
						Breaker: u.Breaker, Conns: u.Proxy.Conns})
				}
			}
			return list
		},
	}, nil
}

func (c *Capability) newView(cfg *config.Config, networks *rpc.Networks) *view {
	v := &view{
		networks: networks, slots: map[string]int{}, meters: map[string]*meters{}, error: cfg.RPC.ErrorCredits,
		price: cfg.RPC.CreditPrice,
		daily: cfg.RPC.DailyCredits, inFlight: cfg.RPC.MaxInFlight, slotWait: cfg.RPC.TurnWait,
		creditsHeader: routes.BrandHeader(cfg.Brand, "rpc-credits"),
		costHeader:    routes.BrandHeader(cfg.Brand, "rpc-cost-usd"),
		cacheHeader:   routes.BrandHeader(cfg.Brand, "rpc-cache"),
	}
	list := []byte{'['}
	for _, n := range networks.Sorted {
		if n.Config.Private {
			continue
		}
		list = jsontext.AppendString(jsontext.Comma(list), n.Name)
		v.slots[n.Name] = c.gateway.Slot(byCredits.Name + "-" + n.Name)
		v.names = append(v.names, n.Name)
		v.meters[n.Name] = newMeters(c.gateway.Metrics(), n.Name)
	}
	list = append(list, ']')
	if cfg.Compat.RPCNetworks == "object" {
		list = append(append([]byte(`{"networks":`), list...), '}')
	}
	v.listing = list
	return v
}

// sold are the lines of a request that took n credits.
func (v *view) sold(n int64) (l money.Lines) {
	l.Add(money.RPCCredits, n, v.price)
	return l
}

// list answers GET /crypto/rpc/networks (interface.md, Crypto proxy).
func (ca *Capability) list(c *routes.Call) *routes.Error {
	return c.WriteJSON(c.Own(ca).(*view).listing)
}

// watch logs the changes of nodes from here on.
func (ca *Capability) watch(networks *rpc.Networks) {
	log := ca.gateway.Logger()
	networks.WatchSpool(func(err error) {
		log.Error().Err(err).Msg(
			"a large answer to a blockchain batch could not be buffered; its client got a capacity error")
	})
	networks.WatchChains(ca.noteChain)
	networks.Watch(func(network, node string, c health.Change) {
		ca.gateway.NoteRest(c, func(e *zerolog.Event) *zerolog.Event {
			return e.Str("network", network).Str("node", node)
		})
	})
}

// noteChain logs a node that is on another chain than its network, or is not
// any more.
func (ca *Capability) noteChain(c rpc.ChainChange) {
	e, text := ca.gateway.Logger().Info(), "a node is on the chain of its network again and gets requests"
	switch {
	case c.Odd && c.Unsure:
		e, text = ca.gateway.Logger().Error(),
			"the nodes of a network are on different chains and there is no majority; this one gets no "+
				"requests: correct the url of the wrong one and list the right one first"
	case c.Odd:
		e, text = ca.gateway.Logger().Error(),
			"a node is on another chain than its network and gets no requests: correct its url, or chain_id if that "+
				"is wrong"
	}
	e.Str("network", c.Network).Str("node", c.Node).Str("chain", string(c.Chain)).Str("expected", string(c.Expected)).
		Msg(text)
}
