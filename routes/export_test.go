package routes

import (
	"farebox/providers/chat/dialect"
	"farebox/proxy"
)

// What tests of the spine with its capabilities look at, and break.

func (g *Gateway) SetProxy(p *proxy.Proxy) { g.proxy = p }

func (g *Gateway) Active() int64 { return g.metrics.active.Load() }

func (g *Gateway) FirstUpstream() *dialect.Upstream {
	return g.live.Load().catalog.Models()[0].Targets[0].Upstream
}
