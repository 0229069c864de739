package routes

import (
	"farebox/billing/job"
	"farebox/providers/chat/dialect"
	"farebox/proxy"
)

// Fields and methods that tests of routes with its capabilities read and change.

func (g *Gateway) SetProxy(p *proxy.Proxy) { g.proxy = p }

func (g *Gateway) Active() int64 { return g.metrics.active.Load() }

func (g *Gateway) FirstUpstream() *dialect.Upstream {
	return g.live.Load().catalog.Models()[0].Targets[0].Upstream
}

// HookOf is the URL at which upstreams report on a job.
func (g *Gateway) HookOf(queueID string) string { return g.hookOf(queueID) }

// JobStats are those of the machine of jobs.
func (g *Gateway) JobStats() job.Stats { return g.jobs.Stats() }
