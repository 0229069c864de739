package chat

import (
	"fmt"

	"github.com/VictoriaMetrics/metrics"
)

// modelMeters are the series of one model, and its observed averages.
type modelMeters struct {
	firstToken *metrics.PrometheusHistogram // seconds, streams
	input      *metrics.Counter             // tokens
	output     *metrics.Counter             // tokens
	cached     *metrics.Counter             // tokens
	estimated  *metrics.Counter             // requests whose usage we counted ourselves
	claimed    *metrics.Counter             // tokens that upstreams reported beyond the allowed number
	pace       pace
	prompts    tokenizing
	sources    sources
}

var firstTokenBounds = []float64{0.001, 0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 30}

// metersOf finds the series of a model, which outlive the config. Its callers are
// one after the other.
func (c *Capability) metersOf(id string) *modelMeters {
	if m := c.meters[id]; m != nil {
		return m
	}
	set := c.gateway.Metrics()
	label := func(extra string) string { return fmt.Sprintf("{gen_ai_request_model=%q%s}", id, extra) }
	m := &modelMeters{
		firstToken: set.NewPrometheusHistogramExt("gen_ai_server_time_to_first_token_seconds"+label(""),
			firstTokenBounds),
		input:     set.NewCounter("gen_ai_client_token_usage_total" + label(`,gen_ai_token_type="input"`)),
		output:    set.NewCounter("gen_ai_client_token_usage_total" + label(`,gen_ai_token_type="output"`)),
		cached:    set.NewCounter("gen_ai_client_token_usage_total" + label(`,gen_ai_token_type="cache_read"`)),
		estimated: set.NewCounter("farebox_usage_estimated_total" + label("")),
		claimed:   set.NewCounter("farebox_usage_claimed_tokens_total" + label("")),
	}
	c.meters[id] = m
	return m
}
