package providers

import (
	"time"

	"farebox/config"
	"farebox/providers/attempt"
	"farebox/providers/fetch"
	"farebox/providers/image"
	"farebox/providers/image/fal"
	"farebox/providers/image/native"
	imageopenai "farebox/providers/image/openai"
	"farebox/providers/image/picture"
	"farebox/providers/image/sdapi"
	"farebox/providers/image/stability"
)

// imageDialects are what upstreams of pictures speak, by the name of their
// dialect in the config.
var imageDialects = map[string]image.Dialect{
	"openai":    imageopenai.Dialect{},
	"native":    native.Dialect{},
	"sdapi":     sdapi.Dialect{},
	"stability": stability.Dialect{},
	"fal":       fal.Dialect{},
}

// ImagePlans makes the plans of one job for m, one for each of its runs. They
// share the health of the targets with every other request.
// account is whose job it is.
func (c *Catalog) ImagePlans(m *Model, account uint64) func() image.Plan {
	return func() image.Plan {
		p := &imagePlan{}
		p.BeginFor(m, account)
		return p
	}
}

// MakesWebP says that pictures of some model must be turned into WebP here: it
// is the default of /image/generate, and one of its upstreams cannot make it.
func (c *Catalog) MakesWebP() bool {
	for _, m := range c.Models() {
		job := image.Job{Kind: image.Generate, Count: 1, Format: picture.WebP}
		switch m.Config.Type {
		case "image":
		case "inpaint":
			job.Kind, job.Inputs = image.Edit, make([]image.Input, 1)
		default:
			continue // always PNG
		}
		for _, t := range m.Targets {
			to, ok := t.Pictures.(*image.Target)
			if !ok {
				continue
			}
			if reach := to.Dialect.Reach(&job, to); reach.No == nil && !reach.Formats {
				return true
			}
		}
	}
	return false
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

func (p *imagePlan) Report(t *image.Target, v attempt.Verdict) {
	p.Plan.Report(t.Place.(*Target), v, time.Now().UnixNano())
}

// pictures gives a target of an image model its dialect.
func pictures(t *Target, options map[string]string) {
	t.Pictures = &image.Target{
		Upstream: t.Upstream.Name, Model: t.Name, Dialect: imageDialects[t.Upstream.Config.Dialect], Proxy: t.Upstream.Proxy, Options: options, Place: t,
	}
}

// NewFetcher follows links to pictures, and to nothing else.
func NewFetcher(c config.Fetch) *fetch.Client {
	return fetch.New(fetch.Options{
		Allow: config.Prefixes(c.Allow), Deny: config.Prefixes(c.Deny), Limit: c.Limit,
		Accept: func(first []byte) bool { return picture.Sniff(first) != picture.Unknown },
	})
}
