package image

import (
	"fmt"
	"sync"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"farebox/config"
	"farebox/config/fair"
	"farebox/providers"
	"farebox/providers/image"
	"farebox/routes"
)

// Capability is the type that main registers.
type Capability struct {
	fetcher  image.Fetcher
	texts    routes.TextModels
	engine   *image.Engine
	carried  *fair.Space         // requests that go on without their client
	fetched  *fair.Space         // bytes of pictures from links, held until their job is done
	warm     sync.Once           // the engine
	rewrites [2]*metrics.Counter // prompts that were to be rewritten: not applied, applied
	gateway  *routes.Gateway
}

// New makes the capability. fetcher gets pictures that clients and upstreams name
// by their links, and texts rewrite prompts.
func New(fetcher image.Fetcher, texts routes.TextModels) *Capability {
	return &Capability{fetcher: fetcher, texts: texts, carried: fair.NewRoom(0), fetched: fair.NewRoom(0)}
}

// Open is routes.Capability.
func (c *Capability) Open(g *routes.Gateway) []routes.Row {
	c.gateway = g
	set := g.Metrics()
	set.NewGauge("farebox_unattended_images", func() float64 { return float64(c.carried.Used()) })
	for i, applied := range []string{"false", "true"} {
		c.rewrites[i] = set.NewCounter(`farebox_prompt_rewrites_total{applied="` + applied + `"}`)
	}
	return rows(c)
}

// rows are the endpoints.
func rows(ca *Capability) []routes.Row {
	return []routes.Row{
		{Method: "POST", Path: "/image/generate", Access: routes.Bearer, Wallet: true,
			Form: routes.JSONBody, Rate: routes.ByModel,
			Operation: "image_generation", Rules: routes.Always(generateBook), Serve: ca.serveGenerate},
		{Method: "POST", Path: "/image/edit", Access: routes.Bearer, Wallet: true,
			Form: routes.JSONOrForm, Rate: routes.ByModel,
			Operation: "image_edit", Rules: routes.Always(editBook), Serve: ca.serveEdit},
		{Method: "POST", Path: "/image/multi-edit", Access: routes.Bearer, Wallet: true, Form: routes.JSONOrForm,
			FormLimit: severalPictures, Rate: routes.ByModel, Operation: "image_edit",
			Rules: routes.Always(multiEditBook), Serve: ca.serveMultiEdit},
		{Method: "POST", Path: "/image/upscale", Access: routes.Bearer, Wallet: true,
			Form: routes.JSONOrForm, Rate: routes.ByModel,
			Operation: "image_edit", Rules: upscaleBookOf, Serve: ca.serveUpscale},
		{Method: "POST", Path: "/images/upscale", Access: routes.Bearer, Wallet: true, Form: routes.JSONOrForm,
			Rate: routes.ByModel, Operation: "image_edit", Offered: openAIExtras, Rules: upscaleBookOf,
			Serve: ca.serveUpscale},
		{Method: "POST", Path: "/image/background-remove", Access: routes.Bearer, Wallet: true, Form: routes.JSONOrForm,
			Rate: routes.ByModel, Operation: "image_edit", Rules: routes.Always(cutOutBook), Serve: ca.serveCutOut},
		{Method: "GET", Path: "/image/styles", Access: routes.Catalog, Wallet: true,
			Form: routes.NoBody, Serve: ca.serveStyles},
		{Method: "POST", Path: "/images/generations", Access: routes.Bearer, Wallet: true, Form: routes.JSONBody,
			Rate: routes.ByModel, Operation: "image_generation", Rules: simpleBookOf,
			Serve: ca.serveGenerations},
		{Method: "POST", Path: "/images/edits", Access: routes.Bearer, Wallet: true, Form: routes.JSONOrForm,
			FormLimit: severalPictures, Rate: routes.ByModel, Operation: "image_edit",
			Rules: simpleEditBookOf, Serve: ca.serveSimpleEdit},
	}
}

// view is the pictures' part of one config.
type view struct {
	images []*metrics.Counter // delivered and charged, by catalog index of the model
	names  headerNames
}

// headerNames are the headers about delivered and refused pictures.
type headerNames struct{ blurred, violation, adultViolation, minor, enhanced []byte }

// Load is routes.Loader.
func (c *Capability) Load(cfg *config.Config, catalog *providers.Catalog, _ any) (routes.View, error) {
	g := c.gateway
	if c.engine == nil {
		c.engine = image.New(image.Options{
			Proxy: g.Proxy(), Fetch: c.fetcher, Limit: cfg.Images.Timeout, Room: int64(cfg.Images.Memory),
			OnPanic: func(v any) { g.NotePanic("the making of a picture", v) },
		})
	}
	name := func(rest string) []byte { return routes.BrandHeader(cfg.Brand, rest) }
	v := &view{names: headerNames{
		blurred: name("is-blurred"), violation: name("is-content-violation"),
		adultViolation: name("is-adult-model-content-violation"),
		minor:          name("contains-minor"), enhanced: name("enhanced-prompt"),
	}}
	for _, m := range catalog.Models() {
		v.images = append(v.images, g.Metrics().GetOrCreateCounter(
			fmt.Sprintf("farebox_images_total{gen_ai_request_model=%q}", m.ID)))
	}
	view := routes.View{Own: v}
	if catalog.MakesWebP() {
		view.Serve = func() { c.warm.Do(c.warmUp) }
	}
	return view, nil
}

// warmUp prepares the WebP encoder in the background, so that the first picture does not wait.
func (c *Capability) warmUp() {
	c.engine.Warm(func(took time.Duration) {
		c.gateway.Logger().Debug().Dur("took_ms", took).Msg("the WebP encoder is ready")
	})
}
