package routes

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"sync/atomic"

	"farebox/providers/attempt"
	"farebox/proxy"
)

// upstreamErrors counts the attempts at an upstream that failed, by kind.
type upstreamErrors [attempt.Kinds]atomic.Int64

// numberUpstreams gives the upstreams of a snapshot their numbers, and the errors counted before.
func (g *Gateway) numberUpstreams(next, old *snapshot) {
	next.upstreams, next.errors = map[string]uint32{}, map[string]*upstreamErrors{}
	for _, w := range next.watched() {
		next.upstreams[w.Upstream] = g.ledger.UpstreamNumber(w.Upstream)
		if old != nil {
			next.errors[w.Upstream] = old.errors[w.Upstream]
		}
		if next.errors[w.Upstream] == nil {
			next.errors[w.Upstream] = new(upstreamErrors)
		}
	}
}

// byKind are those that there were.
func (u *upstreamErrors) byKind() map[string]int64 {
	list := map[string]int64{}
	for k := range u {
		if n := u[k].Load(); n > 0 && attempt.Kind(k) != attempt.NoError {
			list[attempt.Kind(k).String()] = n
		}
	}
	return list
}

// countErrors counts the attempts of a request that failed. The last one is not among those
// that were tried where it gave the answer.
func (c *Call) countErrors() {
	for i := range c.Tried {
		c.countError(c.Tried[i].Upstream, c.Tried[i].Kind())
	}
	if c.Upstream == "" || c.Attempts <= len(c.Tried) || c.Left() {
		return
	}
	if cause, named := proxy.CauseNamed(c.Cause); named && cause != proxy.None {
		c.countError(c.Upstream, attempt.KindOfCause(cause))
	} else if c.Cause == upstreamStatus {
		c.countError(c.Upstream, attempt.KindOfStatus(c.Status))
	}
}

// upstreamStatus is the Cause of a request whose upstream refused it.
const upstreamStatus = "upstream_status"

func (c *Call) countError(upstream string, k attempt.Kind) {
	if u := c.snap.errors[upstream]; u != nil {
		u[k].Add(1)
	}
}

// writeErrors writes the metric of these errors.
func (s *snapshot) writeErrors(w io.Writer) {
	fmt.Fprint(w, "# TYPE farebox_upstream_errors_total counter\n")
	for _, name := range slices.Sorted(maps.Keys(s.errors)) {
		for k := attempt.NoError + 1; k < attempt.Kinds; k++ {
			fmt.Fprintf(w, "farebox_upstream_errors_total{upstream=%q,kind=%q} %d\n", name, k, s.errors[name][k].Load())
		}
	}
}
