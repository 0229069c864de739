package rpc

import (
	"fmt"
	"io"

	"farebox/providers/health"
)

// WriteMetrics writes the state of every node in the Prometheus text format.
// Labels are the operator's own names. Package routes adds the help text of each series.
func (ne *Networks) WriteMetrics(w io.Writer, nowNs int64) {
	if len(ne.Sorted) == 0 {
		return
	}
	each := func(name, kind string, value func(u *Node) int64) {
		fmt.Fprintf(w, "# TYPE %s %s\n", name, kind)
		for _, n := range ne.Sorted {
			for _, u := range n.Nodes {
				fmt.Fprintf(w, "%s{network=%q,upstream=%q} %d\n", name, n.Name, u.Name, value(u))
			}
		}
	}
	each("farebox_rpc_node_state", "gauge", func(u *Node) int64 { return int64(u.Breaker.State(nowNs)) })
	each("farebox_rpc_node_failures_total", "counter", func(u *Node) int64 {
		failures, _ := u.Breaker.Counts()
		return failures
	})
	each("farebox_rpc_node_rests_total", "counter", func(u *Node) int64 { return u.Breaker.Became(health.Open) })
	each("farebox_rpc_node_answers_total", "counter", func(u *Node) int64 { return u.answers.Load() })
	each("farebox_rpc_node_busy_total", "counter", func(u *Node) int64 { return u.busy.Load() })
	fmt.Fprintf(w, "# TYPE farebox_rpc_spool_failures_total counter\nfarebox_rpc_spool_failures_total %d\n",
		ne.room.failures.Load())
	fmt.Fprintf(w, "# TYPE farebox_rpc_spool_bytes gauge\nfarebox_rpc_spool_bytes %d\n",
		ne.room.memory.Used()+ne.room.disk.Used())
	each("farebox_rpc_node_odd_chain", "gauge", func(u *Node) int64 {
		if u.odd.Load() {
			return 1
		}
		return 0
	})
	each("farebox_rpc_node_head", "gauge", func(u *Node) int64 { return u.head.Load() })
	cached := func(name, kind string, value func(c *cache) int64) {
		for i, n := range ne.cached() {
			if i == 0 {
				fmt.Fprintf(w, "# TYPE %s %s\n", name, kind)
			}
			fmt.Fprintf(w, "%s{network=%q} %d\n", name, n.Name, value(n.cache))
		}
	}
	cached("farebox_rpc_cache_hits_total", "counter", func(c *cache) int64 { return c.hits.Load() })
	cached("farebox_rpc_final_block", "gauge", func(c *cache) int64 { return c.finals.top(nowNs) })
	each("farebox_rpc_node_connections", "gauge", func(u *Node) int64 {
		open, _ := u.Proxy.Conns()
		return int64(open)
	})
}

// cached are the networks that keep answers.
func (ne *Networks) cached() (list []*Network) {
	for _, n := range ne.Sorted {
		if n.cache != nil {
			list = append(list, n)
		}
	}
	return list
}
