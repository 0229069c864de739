package jobs

import (
	"slices"

	"farebox/config"
	"farebox/providers"
	"farebox/providers/video"
	"farebox/routes"
)

// Capability is the type that main registers.
type Capability struct {
	prober  *video.Prober
	gateway *routes.Gateway
}

// New makes the capability. Links of clients are looked into by from.
func New(from video.Fetcher) *Capability { return &Capability{prober: video.NewProber(from)} }

// Open is routes.Capability.
func (c *Capability) Open(g *routes.Gateway) []routes.Row {
	c.gateway = g
	return slices.Concat(music.rows(c), videos.rows(c))
}

// Load is routes.Loader.
func (c *Capability) Load(cfg *config.Config, _ *providers.Catalog, _ any) (routes.View, error) {
	h := newSoundHeaders(cfg.Brand)
	return routes.View{Own: h, Headers: [][]byte{h.format, h.took, h.length}}, nil
}
