package audio

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/VictoriaMetrics/metrics"

	"farebox/config"
	"farebox/config/fair"
	"farebox/providers"
	"farebox/providers/video"
	"farebox/routes"
)

// Capability is the type that main registers.
type Capability struct {
	gateway  *routes.Gateway
	speeches sync.Pool    // of *speech
	catalog  atomic.Value // *providers.Catalog that is being served
	sweeper  sweeper
	videos   videoTranscription
}

// New makes the capability. Videos on the web are fetched by links.
func New(links video.Fetcher) *Capability {
	ca := &Capability{videos: videoTranscription{from: links, turns: fair.NewTurns(videosAtOnce, videosWaiting)}}
	ca.speeches.New = func() any { return newSpeech(ca) }
	return ca
}

// Open is routes.Capability.
func (c *Capability) Open(g *routes.Gateway) []routes.Row {
	c.gateway = g
	return slices.Concat(speechRows(c), transcriptionRows(c), videoRows(c))
}

// view is the audio part of one config.
type view struct {
	speech []speechMeters // by catalog index of the model
}

// speechMeters are the series of a model that speaks.
type speechMeters struct {
	characters *metrics.Counter
	firstSound *metrics.PrometheusHistogram // seconds
}

// Load is routes.Loader.
func (c *Capability) Load(_ *config.Config, catalog *providers.Catalog, _ any) (routes.View, error) {
	v := &view{}
	for _, m := range catalog.Models() {
		var meters speechMeters
		if m.Config.Type == "tts" {
			label := fmt.Sprintf("{gen_ai_request_model=%q}", m.ID)
			meters.characters = c.gateway.Metrics().GetOrCreateCounter("farebox_speech_characters_total" + label)
			meters.firstSound = c.gateway.Metrics().GetOrCreatePrometheusHistogramExt(
				"farebox_speech_first_byte_seconds"+label, routes.DurationBounds)
		}
		v.speech = append(v.speech, meters)
	}
	return routes.View{Own: v, Serve: func() {
		c.catalog.Store(catalog)
		c.beginSweeps()
	}}, nil
}
