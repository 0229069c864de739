package routes

import (
	"fmt"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/rs/zerolog"
)

// rpcMeters are the series of one network.
type rpcMeters struct {
	calls, credits *metrics.Counter
	chargedUSD     *metrics.FloatCounter
	duration       *metrics.PrometheusHistogram // seconds, of answered requests
}

func (m *meters) network(name string) *rpcMeters {
	label := fmt.Sprintf("{network=%q}", name)
	return &rpcMeters{
		calls:      m.set.GetOrCreateCounter("farebox_rpc_calls_total" + label),
		credits:    m.set.GetOrCreateCounter("farebox_rpc_credits_total" + label),
		chargedUSD: m.set.GetOrCreateFloatCounter("farebox_rpc_charged_usd_total" + label),
		duration:   m.set.GetOrCreatePrometheusHistogramExt("farebox_rpc_request_duration_seconds"+label, durationBounds),
	}
}

// Observe counts a request; what was charged counts when it is booked.
func (c *rpcCall) Observe(took time.Duration) {
	if !c.Settled {
		return
	}
	m := c.snap.rpc.meters[c.network.Name]
	m.calls.Add(len(c.job.Calls))
	m.credits.AddInt64(c.credits)
	m.chargedUSD.Add(float64(c.Charged) / 1e9)
	m.duration.Update(took.Seconds())
}

// Log says what was asked and charged: no params and no hashes.
func (c *rpcCall) Log(e *zerolog.Event) *zerolog.Event {
	e = e.Str("network", c.network.Name).Int("calls", len(c.job.Calls)).Int64("credits", c.credits)
	if c.job.Cached {
		e = e.Bool("cached", true)
	}
	if c.job.Node != "" {
		e = e.Str("upstream", c.job.Node).Int("attempts", c.job.Attempts)
	}
	return e
}
