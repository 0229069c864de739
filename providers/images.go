package providers

import (
	"farebox/config"
	"farebox/providers/fetch"
	"farebox/providers/image"
	"farebox/providers/image/picture"
)

// PictureTargets are the targets of a model that makes pictures. They share their
// health with every other request.
func PictureTargets(m *Model) []*image.Target {
	list := make([]*image.Target, len(m.Targets))
	for i, t := range m.Targets {
		list[i] = t.Pictures.(*image.Target)
	}
	return list
}

// usual are requests for the default format, by type of models with a choice.
var usual = map[string]image.Job{
	"image":   {Kind: image.Generate, Count: 1, Format: picture.WebP},
	"inpaint": {Kind: image.Edit, Count: 1, Format: picture.WebP, Inputs: make([]image.Input, 1)},
}

// MakesWebP says that pictures of some model must be turned into WebP here: it
// is the default of /image/generate, and one of its upstreams cannot make it.
func (c *Catalog) MakesWebP() bool {
	for _, m := range c.Models() {
		job, asked := usual[m.Config.Type]
		if !asked {
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

// pictures gives a target of an image model its dialect.
func pictures(t *Target, options map[string]string) {
	t.Pictures = &image.Target{
		Upstream: t.Upstream.Name, Model: t.Name, Dialect: dialects[t.Upstream.Config.Dialect].picture,
		Proxy: t.Upstream.Proxy, Base: t.Upstream.Config.EndpointURL(), Options: options,
		Breaker: t.Breaker, Weight: t.Weight, Priority: t.Priority,
	}
}

// NewFetcher follows links to pictures, and to nothing else.
func NewFetcher(c config.Fetch) *fetch.Client {
	return fetch.New(fetch.Options{
		Allow: config.Prefixes(c.Allow), Deny: config.Prefixes(c.Deny), Limit: c.Limit,
		Accept: func(first []byte) bool { return picture.Sniff(first) != picture.Unknown },
	})
}
