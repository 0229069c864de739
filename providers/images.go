package providers

import (
	"time"

	"farebox/providers/image"
	imageopenai "farebox/providers/image/openai"
)

// imageDialects are what upstreams of pictures speak, by the name of their
// dialect in the config.
var imageDialects = map[string]image.Dialect{
	"openai": imageopenai.Dialect{},
}

// ImagePlans makes the plans of one job for m, one for each of its runs. They
// share the health of the targets with every other request.
func (c *Catalog) ImagePlans(m *Model) func() image.Plan {
	return func() image.Plan {
		p := &imagePlan{}
		p.Begin(m)
		return p
	}
}

// imagePlan is a Plan in the words of package image.
type imagePlan struct{ Plan }

func (p *imagePlan) Next() *image.Target {
	for {
		t := p.Plan.Next(time.Now().UnixNano())
		if t == nil {
			return nil
		}
		if to, ok := t.Pictures.(*image.Target); ok {
			return to
		}
		p.Plan.Release(t)
	}
}

func (p *imagePlan) Succeeded(t *image.Target) { p.Plan.Succeeded(t.Place.(*Target)) }

func (p *imagePlan) Failed(t *image.Target, rest time.Duration) {
	p.Plan.Failed(t.Place.(*Target), time.Now().UnixNano(), rest)
}

func (p *imagePlan) Release(t *image.Target) { p.Plan.Release(t.Place.(*Target)) }

// pictures gives a target of an image model its dialect.
func pictures(t *Target, options map[string]string) {
	t.Pictures = &image.Target{
		Upstream: t.Upstream.Name, Model: t.Name, Dialect: imageDialects[t.Upstream.Config.Dialect], Proxy: t.Upstream.Proxy, Options: options, Place: t,
	}
}
