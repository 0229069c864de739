package compare

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"farebox/bench/load"
	"farebox/bench/upstream"
)

// Large is the cost of answers of 100 MB to blockchain calls at a gateway.
type Large struct {
	Answers      int     `json:"answers"` // one after the other; medians of them
	FirstByteMs  float64 `json:"first_byte_ms"`
	TookMs       float64 `json:"took_ms"`
	CPUMs        float64 `json:"cpu_ms"`     // an answer; 0 for direct
	IdleBytes    int64   `json:"idle_bytes"` // after one such answer
	GrowthBytes  int64   `json:"growth_bytes"`
	SideBySide   int     `json:"side_by_side"`
	SideGrowth   int64   `json:"side_by_side_growth_bytes"`
	SideByteMs   float64 `json:"side_by_side_first_byte_ms"`
	Failed       int64   `json:"failed"`
	FromFreshRSS int64   `json:"fresh_bytes"` // before the first answer
}

// rpcPath is the measured node's below the address of the upstream.
var rpcPath = strings.TrimPrefix(upstream.BenchRPCPath, "/v1")

const (
	largeSide   = 8
	largeBuffer = 256 << 10
	// sampleEvery is how often memory is looked at: far more often than an
	// answer takes, so that its peak is seen.
	sampleEvery = 2 * time.Millisecond
	// largeLongest is how long a busy machine may take for the answers wanted.
	largeLongest = time.Minute
)

// measureLarge reads 100 MB answers through an unused gateway, one at a time and
// then several side by side, and watches its memory. Growth is counted from the
// state after one small call: all that the large answers made it take.
func (l *lab) measureLarge(ctx context.Context, name string, answers int) (Large, error) {
	m := Large{Answers: answers, SideBySide: largeSide}
	g, err := l.start(name)
	defer func() { g.stop() }()
	if err != nil {
		return m, err
	}
	o := g.traffic(load.Options{
		Mates: []int{l.upstream.pid()}, Path: g.path(rpcPath, fareboxRPC),
		Timeout: time.Minute, Connections: 1, FirstByte: true, ReadBuffer: largeBuffer,
		Least: 1, Longest: largeLongest,
	}, true)
	o.Body, o.Duration = upstream.BenchRPCCall, 200*time.Millisecond
	if _, err := load.Run(ctx, o); err != nil {
		return m, err
	}
	time.Sleep(settleTime)
	m.FromFreshRSS = load.RSS(o.PIDs...)

	o.Body = upstream.BenchRPCLogs
	run := func(connections int, d time.Duration) (*load.Result, int64, error) {
		o.Connections, o.Duration = connections, d
		peak := watchPeak(o.PIDs)
		r, err := load.Run(ctx, o)
		grown := peak() - m.FromFreshRSS
		if err == nil && r.Latency.Count == 0 {
			err = fmt.Errorf("no answer of %d MB came whole within %.0f s; %d are still under way, the oldest for "+
				"%.1f s; errors: %v", upstream.BenchRPCLarge>>20, r.Seconds, r.Unfinished, r.OldestUs/1e6, r.Errors)
		}
		if err == nil {
			m.Failed += r.Failed
		}
		return r, max(0, grown), err
	}
	one, _, err := run(1, time.Second)
	if err != nil {
		return m, err
	}
	time.Sleep(settleTime)
	m.IdleBytes = load.RSS(o.PIDs...)
	each := time.Duration(one.Latency.P50Us * 1e3)
	r, grown, err := run(1, max(time.Second, time.Duration(answers)*each*3/2))
	if err != nil {
		return m, err
	}
	m.Answers, m.GrowthBytes = int(r.Requests), grown
	m.FirstByteMs, m.TookMs = r.First.P50Us/1e3, r.Latency.P50Us/1e3
	if r.Process != nil && r.BytesIn > 0 {
		m.CPUMs = r.Process.CPUSeconds * 1e3 / float64(r.Requests)
	}
	r, grown, err = run(largeSide, max(time.Second, 2*largeSide*each))
	if err != nil {
		return m, err
	}
	m.SideGrowth, m.SideByteMs = grown, r.First.P50Us/1e3
	return m, nil
}

// watchPeak samples the memory of processes until its result is called.
func watchPeak(pids []int) func() int64 {
	if len(pids) == 0 {
		return func() int64 { return 0 }
	}
	var most int64
	var done sync.WaitGroup
	stop := make(chan struct{})
	done.Go(func() {
		for {
			most = max(most, load.RSS(pids...))
			select {
			case <-stop:
				return
			case <-time.After(sampleEvery):
			}
		}
	})
	return func() int64 {
		close(stop)
		done.Wait()
		return most
	}
}

// Peer is another gateway for blockchain calls with figures that were read at
// another time, with the load, simulated node and kind of machine of this
// comparison. They are fixed: a bar to compare with, not a race.
type Peer struct {
	Name      string  `json:"name"`
	SingleUs  float64 `json:"cpu_us_single"`
	BatchUs   float64 `json:"cpu_us_batch_of_100"`
	FirstMs   float64 `json:"first_byte_ms_100mb"`
	LargeMs   float64 `json:"cpu_ms_100mb"`
	GrowthMB  float64 `json:"growth_mb_100mb"`
	PerSecond float64 `json:"singles_per_second"`
}

// Peers are gateways for blockchain calls that were measured before, best first.
var Peers = []Peer{
	{Name: "nodecore", SingleUs: 117, BatchUs: 8500, FirstMs: 500, LargeMs: 410, GrowthMB: 220, PerSecond: 6900},
	{Name: "proxyd", SingleUs: 134, BatchUs: 715, FirstMs: 1620, LargeMs: 1460, GrowthMB: 540, PerSecond: 6000},
	{Name: "erpc", SingleUs: 144, BatchUs: 12500, FirstMs: 630, LargeMs: 540, GrowthMB: 520, PerSecond: 6200},
}

// The best of the peers, which the goals are shares of.
const (
	peerSingleUs = 117
	peerBatchUs  = 715
)

func (c *Comparison) rpcGoals(add func(name string, limit float64, unit string, got reading)) {
	cpu := func(scenario, of string) (float64, bool) {
		f, ok := c.figures(scenario, of)
		return f.CPUUs, ok && f.CPUUs > 0
	}
	ours, ok := cpu("rpc_single", contender)
	floor, ok2 := cpu("rpc_single", "relay")
	add("CPU a JSON-RPC call", 1.5, "x bare relay", over(ours, floor, ok && ok2))
	add("CPU a JSON-RPC call, of the best peer's 117 µs", 1.0/3, "x", over(ours, peerSingleUs, ok))
	ours, ok = cpu("rpc_batch", contender)
	add("CPU a batch of 100, of the best peer's 715 µs", 0.25, "x", over(ours, peerBatchUs, ok))
	m, ok := c.Large[contender]
	add("100 MB answer, first byte", 3, "ms", reading{m.FirstByteMs, ok})
	add("100 MB answer, memory growth", 2, "MB", reading{float64(m.GrowthBytes) / (1 << 20), ok})
	add("100 MB answers, 8 side by side, memory growth", 8, "MB", reading{float64(m.SideGrowth) / (1 << 20), ok})
}

func (c *Comparison) printLarge(out io.Writer) {
	c.printTable(out, "rpc_100mb", fmt.Sprintf("rpc_100mb: JSON-RPC, answers of 100 MB, one at a time and %d side by side", largeSide),
		"answers\tfirst byte ms\twhole ms\tCPU ms\tidle MB\tgrowth MB\tside by side: growth MB\tfirst byte ms\tfailed",
		func(name string) string {
			m, ok := c.Large[name]
			if !ok {
				return ""
			}
			return fmt.Sprintf("%d\t%.2f\t%.0f\t%s\t%s\t%s\t%s\t%.1f\t%d", m.Answers, m.FirstByteMs, m.TookMs,
				micro(m.CPUMs), megabytes(float64(m.FromFreshRSS)), megabytes(float64(m.GrowthBytes)),
				megabytes(float64(m.SideGrowth)), m.SideByteMs, m.Failed)
		})
	if c.measuredRPC() {
		fmt.Fprintf(out, "\nother gateways for JSON-RPC, as read before (fixed figures)\n")
		w := tabwriter.NewWriter(out, 0, 8, 2, ' ', tabwriter.AlignRight)
		fmt.Fprintf(w, "\tCPU µs/call\tcalls/s\tCPU µs/batch of 100\t100 MB: first byte ms\tCPU ms\tgrowth MB\t\n")
		for _, p := range Peers {
			fmt.Fprintf(w, "%s\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t\n", p.Name, p.SingleUs, p.PerSecond, p.BatchUs,
				p.FirstMs, p.LargeMs, p.GrowthMB)
		}
		_ = w.Flush()
	}
}

// measuredRPC says whether blockchain calls were measured.
func (c *Comparison) measuredRPC() bool {
	_, single := c.figures("rpc_single", contender)
	_, batch := c.figures("rpc_batch", contender)
	return single || batch || len(c.Large) > 0
}
