package providers

import (
	"farebox/config"
	"farebox/providers/fetch"
	"farebox/providers/queue"
	"farebox/proxy"
)

// takesJobs is the capability of models of one kind of jobs: each target gets its queue
// adapter.
func takesJobs(kind *config.JobKind) capability {
	target := func(t *Target, options map[string]string) {
		u := t.Upstream
		t.Jobs = &queue.Target{
			Upstream: u.Name, Model: t.Name, Kind: kind, Dialect: dialects[u.Config.Spoken()].jobs,
			Proxy: u.Proxy, Base: u.Config.EndpointURL(), Options: options,
			NoLinks: u.Config.Links == "none", Breaker: t.Breaker, Weight: t.Weight, Priority: t.Priority,
		}
	}
	return capability{target: target, record: func(w *writer, m *config.Model, _ *config.ImagePrice) {
		w.members(m.Spec.(config.JobSpec).Record())
	}}
}

// members writes the members of a record, without switches that the config does not set.
func (w *writer) members(list []config.Member) {
	for _, m := range list {
		switch v := m.Value.(type) {
		case bool:
			w.flag(m.Name, v)
		case *bool:
			if v != nil {
				w.flag(m.Name, *v)
			}
		case int64:
			w.number(m.Name, v)
		case string:
			w.text(m.Name, v)
		case config.Decimal:
			w.raw(m.Name, string(v))
		case config.Each:
			w.each(m.Name, v)
		case []string:
			w.texts(m.Name, v)
		case []int64:
			w.key(m.Name)
			w.b = append(w.b, '[')
			for _, n := range v {
				w.number("", n)
			}
			w.b = append(w.b, ']')
		case []config.Member:
			w.open(m.Name)
			w.members(v)
			w.close()
		}
	}
}

// JobTargets are the targets of a model that takes jobs. They share their health with every
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
// hook gives the URL at which an upstream may report a change of a job, may be nil; most
// bounds a result, in bytes.
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
