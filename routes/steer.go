package routes

import (
	"slices"

	"farebox/billing"
	"farebox/providers/health"
)

// Watched is an upstream of a model, network or search, with its health.
type Watched struct {
	Kind     string // model, network or search
	Model    string // id of a model, name of a network, or of a search provider
	Upstream string
	Name     string // of the model there
	Weight   int
	Priority int
	Breaker  *health.Breaker
	Conns    func() (open, idle int)
	Meter    *health.Meter // nil: none
}

// watched are the upstreams of all capabilities.
func (s *snapshot) watched() (list []Watched) {
	for _, m := range s.catalog.Models() {
		for _, t := range m.Targets {
			list = append(list, Watched{Kind: "model", Model: m.ID, Upstream: t.Upstream.Name, Name: t.Name, Weight: t.Weight,
				Priority: t.Priority, Breaker: t.Breaker, Conns: t.Upstream.Proxy.Conns, Meter: t.Meter})
		}
	}
	for i := range s.views {
		if more := s.views[i].Upstreams; more != nil {
			list = append(list, more()...)
		}
	}
	return list
}

// steer applies the word of operators to all upstreams. Models that share the health of an upstream's model share this, too.
func (g *Gateway) steer() {
	g.steering.Lock()
	defer g.steering.Unlock()
	s, list := g.live.Load(), g.ledger.Steering()
	if s == nil {
		return
	}
	held := map[*health.Breaker]health.Held{}
	for _, w := range s.watched() {
		h := health.Free
		switch billing.SteeredOf(list, w.Upstream, w.Model).State {
		case billing.Drained:
			h = health.Drained
		case billing.Offline:
			h = health.Offline
		}
		held[w.Breaker] = max(held[w.Breaker], h)
	}
	for b, h := range held {
		b.Hold(h)
	}
}

// hasUpstream says that the config has an upstream, which serves a model if one is named.
func (g *Gateway) hasUpstream(upstream, model string) bool {
	return slices.ContainsFunc(g.live.Load().watched(), func(w Watched) bool {
		return w.Upstream == upstream && (model == "" || w.Model == model)
	})
}
