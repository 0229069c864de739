package rpc

import (
	"fmt"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/rs/zerolog"

	"farebox/routes"
)

// meters are the series of one network.
type meters struct {
	calls, credits *metrics.Counter
	chargedUSD     *metrics.FloatCounter
	duration       *metrics.PrometheusHistogram // seconds, of answered requests
}

func newMeters(set *metrics.Set, network string) *meters {
	label := fmt.Sprintf("{network=%q}", network)
	return &meters{
		calls:      set.GetOrCreateCounter("farebox_rpc_calls_total" + label),
		credits:    set.GetOrCreateCounter("farebox_rpc_credits_total" + label),
		chargedUSD: set.GetOrCreateFloatCounter("farebox_rpc_charged_usd_total" + label),
		duration: set.GetOrCreatePrometheusHistogramExt("farebox_rpc_request_duration_seconds"+label,
			routes.DurationBounds),
	}
}

// Observe counts a request; the charge counts when it is booked.
func (r *request) Observe(took time.Duration) {
	if !r.call.Settled {
		return
	}
	m := r.view.meters[r.network.Name]
	m.calls.Add(len(r.job.Calls))
	m.credits.AddInt64(r.credits)
	m.chargedUSD.Add(float64(r.call.Charged) / 1e9)
	m.duration.Update(took.Seconds())
}

// Log adds the network, calls and credits: no params and no hashes.
func (r *request) Log(e *zerolog.Event) *zerolog.Event {
	e = e.Str("network", r.network.Name).Int("calls", len(r.job.Calls)).Int64("credits", r.credits)
	if r.job.Cached {
		e = e.Bool("cached", true)
	}
	return e
}
