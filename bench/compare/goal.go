package compare

import (
	"fmt"
	"slices"
)

// Goal is one of the design's figures beside what this run gave.
type Goal struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Limit float64 `json:"limit"`
	Least bool    `json:"least"` // the value must be at least the limit
	Unit  string  `json:"unit"`  // "x nginx", "KB", "ms"
	Known bool    `json:"known"` // false: not measured in this run
	Met   bool    `json:"met"`
}

func (g Goal) String() string {
	sign := "<="
	if g.Least {
		sign = ">="
	}
	return fmt.Sprintf("%s %.4g %s", sign, g.Limit, g.Unit)
}

const (
	anchor    = "nginx"
	contender = "farebox"
)

// reading is a figure that may be missing in this run.
type reading struct {
	value float64
	known bool
}

func over(a, b float64, known bool) reading {
	if !known || b <= 0 || a == 0 {
		return reading{}
	}
	return reading{a / b, true}
}

// goals compares farebox with nginx as the design demands.
func (c *Comparison) goals() (list []Goal) {
	ratio := func(scenario string, f func(Figures) float64) reading {
		ours, ok := c.figures(scenario, contender)
		theirs, ok2 := c.figures(scenario, anchor)
		return over(f(ours), f(theirs), ok && ok2)
	}
	added := func(scenario string, f func(Figures) float64) reading {
		base, ok := c.figures(scenario, "direct")
		ours, ok2 := c.figures(scenario, contender)
		theirs, ok3 := c.figures(scenario, anchor)
		return over(f(ours)-f(base), f(theirs)-f(base), ok && ok2 && ok3)
	}
	cpu := func(f Figures) float64 { return f.CPUUs }
	add := func(name string, limit float64, unit string, got reading) {
		list = append(list, Goal{Name: name, Value: got.value, Limit: limit, Unit: unit, Known: got.known,
			Met: got.known && got.value <= limit})
	}
	add("CPU a request, 1 KB", 1.15, "x nginx", ratio("json_1k", cpu))
	rate := ratio("json_1k", func(f Figures) float64 { return f.PerSecond })
	list = append(list, Goal{Name: "requests a second, 1 KB", Value: rate.value, Limit: 0.85, Least: true, Unit: "x nginx",
		Known: rate.known, Met: rate.known && rate.value >= 0.85})
	add("CPU a request, 32 KB", 1.5, "x nginx", ratio("json_32k", cpu))
	add("CPU a request, 256 KB", 0.85, "x nginx", ratio("json_256k", cpu))
	add("CPU a request, 1 MB", 0.85, "x nginx", ratio("json_1m", cpu))
	add("CPU an event, paced streams", 1.35, "x nginx", ratio("sse_paced", cpu))
	add("CPU an event, bursts", 1.25, "x nginx", ratio("sse_burst", cpu))
	first50 := func(f Figures) float64 { return f.FirstP50Us }
	add("added latency, p50", 1.1, "x nginx's", added("json_1k_open", func(f Figures) float64 { return f.P50Us }))
	add("added latency, p99", 1.4, "x nginx's", added("json_1k_open", func(f Figures) float64 { return f.P99Us }))
	add("added time to first event, p50", 1.1, "x nginx's", added("sse_first", first50))
	add("added time to first event, p99", 1.4, "x nginx's", added("sse_first", func(f Figures) float64 { return f.FirstP99Us }))
	add("added time to the first sound, p50", 1.1, "x nginx's", added("speech_first", first50))
	sound, ok := c.figures("speech_1m", contender)
	bare, ok2 := c.figures("speech_1m", "relay")
	add("CPU a MB of sound", 1.2, "x bare relay", over(sound.CPUUs, bare.CPUUs, ok && ok2))
	c.rpcGoals(add)
	m, ok := c.Memory[contender]
	add("memory an open stream", 31, "KB", reading{m.KBPerStream, ok})
	a, ok := c.Aborts[contender]
	add("client gone to upstream closed, streaming", 500, "ms", reading{a.StreamMaxMs, ok && a.StreamSeen == a.Tries})
	add("client gone to upstream closed, first byte awaited", 500, "ms", reading{a.WaitMaxMs, ok && a.WaitSeen == a.Tries})
	return list
}

func median(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	v = slices.Sorted(slices.Values(v))
	if mid := len(v) / 2; len(v)%2 == 1 {
		return v[mid]
	} else {
		return (v[mid-1] + v[mid]) / 2
	}
}

// Missed is the number of goals that were measured and not met.
func (c *Comparison) Missed() (n int) {
	for _, g := range c.Goals {
		if g.Known && !g.Met {
			n++
		}
	}
	return n
}
