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

// observe counts a request; what was charged counts when it is booked.
func (r *rpcCall) observe(c *Call, took time.Duration) {
	if !c.settled {
		return
	}
	m := c.snap.rpc.meters[r.network.Name]
	m.calls.Add(len(r.job.Calls))
	m.credits.AddInt64(r.credits)
	m.chargedUSD.Add(float64(c.charged) / 1e9)
	m.duration.Update(took.Seconds())
}

// log adds what a log line says of blockchain calls: no params and no hashes.
func (r *rpcCall) log(e *zerolog.Event) *zerolog.Event {
	e = e.Str("network", r.network.Name).Int("calls", len(r.job.Calls)).Int64("credits", r.credits)
	if r.job.Cached {
		e = e.Bool("cached", true)
	}
	if r.job.Node != "" {
		e = e.Str("upstream", r.job.Node).Int("attempts", r.job.Attempts)
	}
	return e
}
