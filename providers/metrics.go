package providers

import (
	"fmt"
	"io"

	"farebox/providers/health"
)

// Watch calls f for every change of a target's health from here on, in place of an earlier
// f. f must not block.
func (c *Catalog) Watch(f func(t *Target, change health.Change)) {
	for _, m := range c.models {
		for _, t := range m.Targets {
			t.Breaker.Watch(func(change health.Change) { f(t, change) })
		}
	}
}

// WriteMetrics writes the health of every target in the Prometheus text format.
func (c *Catalog) WriteMetrics(w io.Writer) {
	now := c.clock().UnixNano()
	each := func(f func(labels string, t *Target)) {
		for _, m := range c.models {
			for _, t := range m.Targets {
				f(fmt.Sprintf("{gen_ai_request_model=%q,upstream=%q,upstream_model=%q}", m.ID, t.Upstream.Name, t.Name),
					t)
			}
		}
	}
	fmt.Fprint(w, "# TYPE farebox_target_state gauge\n")
	each(func(labels string, t *Target) {
		fmt.Fprintf(w, "farebox_target_state%s %d\n", labels, t.Breaker.State(now))
	})
	fmt.Fprint(w, "# TYPE farebox_target_failures_total counter\n")
	each(func(labels string, t *Target) {
		failures, _ := t.Breaker.Counts()
		fmt.Fprintf(w, "farebox_target_failures_total%s %d\n", labels, failures)
	})
	fmt.Fprint(w, "# TYPE farebox_target_rests_total counter\n")
	each(func(labels string, t *Target) {
		_, rests := t.Breaker.Counts()
		fmt.Fprintf(w, "farebox_target_rests_total%s %d\n", labels, rests)
	})
	fmt.Fprint(w, "# TYPE farebox_target_changes_total counter\n")
	for _, to := range []health.State{health.Open, health.HalfOpen, health.Closed} {
		each(func(labels string, t *Target) {
			fmt.Fprintf(w, "farebox_target_changes_total{%s,to=%q} %d\n", labels[1:len(labels)-1], to,
				t.Breaker.Became(to))
		})
	}
	for name, pick := range map[string]func(first, whole *health.Times) *health.Times{
		"farebox_upstream_first_byte_seconds": func(first, _ *health.Times) *health.Times { return first },
		"farebox_upstream_duration_seconds":   func(_, whole *health.Times) *health.Times { return whole },
	} {
		fmt.Fprintf(w, "# TYPE %s histogram\n", name)
		each(func(labels string, t *Target) {
			t.Meter.Each(func(status string, streamed bool, first, whole *health.Times) {
				if times := pick(first, whole); times.Count() > 0 {
					times.Write(w, name, fmt.Sprintf("%s,status=%q,streamed=\"%t\"", labels[1:len(labels)-1], status, streamed))
				}
			})
		})
	}
	fmt.Fprint(w, "# TYPE farebox_upstream_connections gauge\n")
	for name, u := range c.upstreams {
		open, idle := u.Proxy.Conns()
		fmt.Fprintf(w, "farebox_upstream_connections{upstream=%q,state=\"idle\"} %d\n", name, idle)
		fmt.Fprintf(w, "farebox_upstream_connections{upstream=%q,state=\"used\"} %d\n", name, open-idle)
	}
}
