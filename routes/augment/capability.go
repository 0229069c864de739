package augment

import (
	"errors"

	"github.com/VictoriaMetrics/metrics"
	"github.com/rs/zerolog"

	"farebox/billing/money"
	"farebox/config"
	"farebox/providers"
	"farebox/providers/health"
	"farebox/providers/search"
	"farebox/providers/web"
	"farebox/routes"
)

// Capability is the type that main registers.
type Capability struct {
	gateway *routes.Gateway
	made    [3]*metrics.Counter // charged, by product
	failed  [3]*metrics.Counter // requests that failed here or at the upstream
	took    [3]*metrics.PrometheusHistogram
}

// New makes the capability.
func New() *Capability { return new(Capability) }

// The products, in the order of Capability.made.
const (
	pages = iota
	searches
	documents
)

// products are the kinds of charge, limits and names of each product.
var products = [3]struct {
	kind  money.Kind
	class *routes.RateClass
	name  string // in metrics
	text  string // for clients
}{
	pages:     {money.Scrapes, byScrapes, "scrape", "pages"},
	searches:  {money.Searches, bySearches, "search", "searches"},
	documents: {money.Documents, byDocuments, "text_parser", "documents"},
}

// The limits of an account.
var (
	byScrapes = &routes.RateClass{Name: "scrape", Rate: func(cfg *config.Config) (*config.Rate, bool) {
		if s := cfg.Augment.Scrape; s != nil {
			return limited(&s.Rate), true
		}
		return nil, false
	}}
	bySearches = &routes.RateClass{Name: "search", Rate: func(cfg *config.Config) (*config.Rate, bool) {
		if s := cfg.Augment.Search; s != nil {
			return limited(&s.Rate), true
		}
		return nil, false
	}}
	byDocuments = &routes.RateClass{Name: "text-parser", Rate: func(cfg *config.Config) (*config.Rate, bool) {
		if t := cfg.Augment.TextParser; t != nil {
			return limited(&t.Rate), true
		}
		return nil, false
	}}
)

// limited is a rate, nil for one without limits.
func limited(r *config.Rate) *config.Rate {
	if *r == (config.Rate{}) {
		return nil
	}
	return r
}

// Open is routes.Capability.
func (c *Capability) Open(g *routes.Gateway) []routes.Row {
	c.gateway = g
	for i := range products {
		label := `{of="` + products[i].name + `"}`
		c.made[i] = g.Metrics().NewCounter("farebox_augment_total" + label)
		c.failed[i] = g.Metrics().NewCounter("farebox_augment_failed_total" + label)
		c.took[i] = g.Metrics().NewPrometheusHistogramExt("farebox_augment_duration_seconds"+label, routes.DurationBounds)
	}
	offers := func(class *routes.RateClass) func(*config.Config) bool {
		return func(cfg *config.Config) bool {
			_, offered := class.Rate(cfg)
			return offered
		}
	}
	return []routes.Row{
		{
			Method: "POST", Path: "/augment/scrape", Access: routes.Bearer, Wallet: true,
			Form: routes.JSONBody, Limit: routes.SmallBody,
			Rate: byScrapes, Rules: routes.Always(scrapeBook), Offered: offers(byScrapes), Serve: c.scrape,
		},
		{
			Method: "POST", Path: "/augment/search", Access: routes.Bearer, Wallet: true,
			Form: routes.JSONBody, Limit: routes.SmallBody,
			Rate: bySearches, Rules: routes.Always(searchBook), Offered: offers(bySearches), Serve: c.search,
		},
		{
			Method: "POST", Path: "/augment/text-parser", Access: routes.Bearer, Wallet: true,
			Form: routes.FormBody, Limit: mostForm,
			Rate: byDocuments, Rules: routes.Always(documentBook), Offered: offers(byDocuments), Serve: c.document,
		},
	}
}

// view holds the prices and tools of a config.
type view struct {
	price [3]money.Pico
	tools *web.Tools
	slot  int // of the usage
	// truncated is the name of the header that says that a text ends before its document.
	truncated []byte
}

// Load is routes.Loader.
func (ca *Capability) Load(cfg *config.Config, _ *providers.Catalog, before any) (routes.View, error) {
	var old *web.Tools
	if v, ok := before.(*view); ok {
		old = v.tools
	}
	g := ca.gateway
	tools, err := web.New(cfg, old, *g.Logger())
	if err != nil {
		return routes.View{}, errors.Join(errors.New("pages, searches and documents"), err)
	}
	v := &view{tools: tools, truncated: routes.BrandHeader(cfg.Brand, "truncated")}
	a := &cfg.Augment
	if a.Scrape != nil {
		v.price[pages] = money.Pico(a.Scrape.Price)
	}
	if a.Search != nil {
		v.price[searches] = money.Pico(a.Search.Price)
		tools.Search.Watch(func(u *search.Upstream, c health.Change) {
			g.NoteRest(c, func(e *zerolog.Event) *zerolog.Event {
				return e.Str("search_provider", u.Provider).Str("upstream", u.Name)
			})
		})
	}
	if a.TextParser != nil {
		v.price[documents] = money.Pico(a.TextParser.Price)
	}
	if *a != (config.Augment{}) {
		v.slot = g.Slot("augment")
	}
	return routes.View{Own: v, Metrics: tools.WriteMetrics, Upstreams: v.upstreams, Close: func(other any) {
		var kept *web.Tools
		if o, ok := other.(*view); ok {
			kept = o.tools
		}
		tools.Close(kept)
	}}, nil
}

// upstreams are the services that search.
func (v *view) upstreams() (list []routes.Watched) {
	if v.tools.Search == nil {
		return nil
	}
	for _, u := range v.tools.Search.Upstreams() {
		list = append(list, routes.Watched{Kind: "search", Model: u.Provider, Upstream: u.Name, Name: u.Provider, Weight: u.Weight,
			Priority: u.Priority, Breaker: u.Breaker, Conns: u.Endpoint.Conns})
	}
	return list
}
