package providers

import (
	"farebox/config"
	"farebox/providers/fetch"
	"farebox/providers/queue"
	"farebox/proxy"
)

// takesJobs gives the targets of models of one kind what takes orders there.
func takesJobs(kind *config.JobKind) func(t *Target, options map[string]string) {
	return func(t *Target, options map[string]string) {
		u := t.Upstream
		t.Jobs = &queue.Target{
			Upstream: u.Name, Model: t.Name, Kind: kind, Dialect: dialects[u.Config.Spoken()].jobs,
			Proxy: u.Proxy, Base: u.Config.EndpointURL(), Options: options,
			NoLinks: u.Config.Links == "none", Breaker: t.Breaker, Weight: t.Weight, Priority: t.Priority,
		}
	}
}

// JobTargets are those of a model that takes jobs. They share their health with every
// other request.
func JobTargets(m *Model) []*queue.Target {
	list := make([]*queue.Target, 0, len(m.Targets))
	for _, t := range m.Targets {
		if to, ok := t.Jobs.(*queue.Target); ok && to.Dialect != nil {
			list = append(list, to)
		}
	}
	return list
}

// JobModel is the model that takes jobs of a kind at an upstream's model, by their names;
// empty if absent. It is asked where an upstream recommends another of its models.
func (c *Catalog) JobModel(upstream, name string, kind *config.JobKind) string {
	for _, m := range c.models {
		for _, t := range m.Targets {
			if to, ok := t.Jobs.(*queue.Target); ok && to.Kind == kind && to.Upstream == upstream && to.Model == name {
				return m.ID
			}
		}
	}
	return ""
}

// NewQueue makes the engine of jobs. catalog is the one that is in use when it is called;
// hook is where an upstream may report a change of a job, nil: nowhere; most bounds what
// was made, in bytes.
func NewQueue(p *proxy.Proxy, c config.Fetch, catalog func() *Catalog, hook func(id string) string,
	most int64) *queue.Engine {
	return queue.New(queue.Options{
		Proxy: p, Hook: hook, Most: most,
		Fetch: fetch.New(fetch.Options{
			Allow: config.Prefixes(c.Allow), Deny: config.Prefixes(c.Deny), Limit: c.Limit,
		}),
		Targets: func(model string) []*queue.Target {
			if m := catalog().names[model]; m != nil {
				return JobTargets(m)
			}
			return nil
		},
		Ours: func(upstream, model string, kind *config.JobKind) string {
			return catalog().JobModel(upstream, model, kind)
		},
	})
}
