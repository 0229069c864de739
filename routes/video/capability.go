package video

import (
	"slices"

	"farebox/config"
	"farebox/providers/video"
	"farebox/routes"
)

// Capability is what main registers.
type Capability struct {
	prober  *video.Prober
	gateway *routes.Gateway
}

// New makes the capability. Links of clients are looked into by from.
func New(from video.Fetcher) *Capability { return &Capability{prober: video.NewProber(from)} }

// videoType is the type of models of videos.
const videoType = "video"

// The limits of an account for what costs nothing (addendum 3.6). Queueing counts in
// those of the model. What has us follow links counts in probes as well.
var (
	byRetrievals  = class("video-retrieve", &config.Rate{RPM: 120})
	byCompletions = class("video-complete", &config.Rate{RPM: 120})
	byQuotes      = class("video-quote", &config.Rate{RPM: 120})
	byProbes      = class("video-probe", &config.Rate{RPM: 40})
)

func class(name string, rate *config.Rate) *routes.RateClass {
	return &routes.RateClass{Name: name, Rate: func(cfg *config.Config) (*config.Rate, bool) {
		return rate, slices.ContainsFunc(cfg.Models, func(m config.Model) bool { return m.Type == videoType })
	}}
}

// Open is routes.Capability.
func (c *Capability) Open(g *routes.Gateway) []routes.Row {
	c.gateway = g
	return []routes.Row{
		{
			Method: "POST", Path: "/video/quote", Access: routes.Catalog, Wallet: true, Form: routes.JSONBody, Rate: byQuotes,
			Counts: []*routes.RateClass{byProbes}, Rules: routes.Always(quoteBook), Serve: c.quote,
		},
		{
			Method: "POST", Path: "/video/queue", Access: routes.Bearer, Wallet: true,
			Form: routes.JSONBody, Rate: routes.ByModel,
			Counts: []*routes.RateClass{byProbes}, Operation: "video_generation", Rules: routes.Always(queueBook),
			Serve: c.queue,
		},
		{
			Method: "POST", Path: "/video/retrieve", Access: routes.Bearer, Wallet: true, Form: routes.JSONBody,
			Limit: routes.SmallBody, Rate: byRetrievals, Rules: routes.Always(retrieveBook), Serve: c.retrieve,
		},
		{
			Method: "POST", Path: "/video/complete", Access: routes.Bearer, Wallet: true, Form: routes.JSONBody,
			Limit: routes.SmallBody, Rate: byCompletions, Rules: routes.Always(completeBook), Serve: c.complete,
		},
	}
}
