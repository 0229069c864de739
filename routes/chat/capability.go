package chat

import (
	"sync"

	"github.com/VictoriaMetrics/metrics"

	"farebox/config"
	"farebox/config/fair"
	"farebox/providers"
	"farebox/providers/chat/dialect"
	"farebox/providers/chat/schema"
	"farebox/routes"
)

// Capability is the type that main registers. It is routes.TextModels, too.
type Capability struct {
	gateway    *routes.Gateway
	web        routes.Web
	characters routes.Characters // nil: there are none
	enclaves   routes.Enclaves   // nil: nobody looks after any
	inferences sync.Pool         // of inference
	scratches  sync.Pool         // of dialect.Scratch
	drains     *fair.Space       // answers being read on after their client left
	meters     map[string]*modelMeters
	lookups    *metrics.Counter // searches and pages that chats had
	unsealed   *metrics.Counter // answers of encrypted chats that were not
}

// New makes the capability. Chats search and read pages with web, and are held with
// the characters; enclaves knows those that models run in.
func New(web routes.Web, characters routes.Characters, enclaves routes.Enclaves) *Capability {
	ca := &Capability{web: web, characters: characters, enclaves: enclaves, drains: fair.NewRoom(0),
		meters: map[string]*modelMeters{}}
	ca.inferences.New = func() any { return newInference(ca) }
	ca.scratches.New = func() any { return new(dialect.Scratch) }
	return ca
}

// Open is routes.Capability.
func (c *Capability) Open(g *routes.Gateway) []routes.Row {
	c.gateway = g
	g.Metrics().NewGauge("farebox_draining_answers", func() float64 { return float64(c.drains.Used()) })
	c.lookups = g.Metrics().NewCounter("farebox_chat_lookups_total")
	c.unsealed = g.Metrics().NewCounter("farebox_chat_unsealed_answers_total")
	return []routes.Row{
		{Method: "POST", Path: "/chat/completions", Access: routes.Bearer, Wallet: true, Form: routes.JSONBody,
			Rate: routes.ByModel, Operation: "chat", Rules: chatBook, Serve: c.serveChat},
		{Method: "POST", Path: "/embeddings", Access: routes.Bearer, Wallet: true,
			Form: routes.JSONBody, Rate: routes.ByModel,
			Operation: "embeddings", Rules: routes.Always(embedBook), Serve: c.serveEmbeddings},
	}
}

// view is the text models' part of one config.
type view struct {
	book       *routes.Rulebook // of chat bodies
	meters     []*modelMeters   // by catalog index of the model
	capHeader  []byte           // which cap on completion tokens was sent
	webHeader  []byte           // the outcome of a lookup
	leftHeader []byte           // the members that the translation of a request left out
	schemas    *schema.Checker  // nil: every upstream sees to schemas itself
	tee        teeNames         // of answers from enclaves
	seals      []sealNames      // of requests that are encrypted, by the brand's words
}

// Load is routes.Loader.
func (c *Capability) Load(cfg *config.Config, catalog *providers.Catalog, before any) (routes.View, error) {
	v := &view{
		book:       chatBook(cfg),
		capHeader:  routes.BrandHeader(cfg.Brand, "max-completion-tokens"),
		webHeader:  routes.BrandHeader(cfg.Brand, "web-search"),
		leftHeader: routes.BrandHeader(cfg.Brand, "left-out"),
		tee:        newTEENames(cfg.Brand),
	}
	for _, word := range append([]string{cfg.Brand}, cfg.BrandAliases...) {
		v.seals = append(v.seals, newSealNames(word))
	}
	for _, m := range catalog.Models() {
		v.meters = append(v.meters, c.metersOf(m.ID))
	}
	headers := [][]byte{v.capHeader, v.leftHeader}
	if cfg.Augment != (config.Augment{}) {
		headers = append(headers, v.webHeader)
	}
	if runsEnclaves(cfg) {
		headers = append(headers, v.tee.list()...)
	}
	if old, _ := before.(*view); checksSchemas(cfg) {
		if old != nil && old.schemas != nil {
			v.schemas = old.schemas
		} else {
			v.schemas = schema.New(*c.gateway.Logger())
		}
	}
	return routes.View{Own: v, Headers: headers, Close: v.close}, nil
}

// close ends the children that other, another view or none, does not go on with.
func (v *view) close(other any) {
	if next, _ := other.(*view); v.schemas != nil && (next == nil || next.schemas != v.schemas) {
		v.schemas.Close()
	}
}
