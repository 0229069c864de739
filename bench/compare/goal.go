package compare

import (
	"fmt"
	"slices"
	"strconv"
)

// Goal is one of the design's figures beside the one of this run.
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

// Measured is the value, with enough digits to differ from a limit that it missed.
func (g Goal) Measured() string {
	for digits := 3; ; digits++ {
		value := strconv.FormatFloat(g.Value, 'g', digits, 64)
		if g.Met || digits == 6 || value != strconv.FormatFloat(g.Limit, 'g', digits, 64) {
			return value
		}
	}
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

// beside are the goals relative to nginx in a scenario.
var beside = []struct {
	name     string
	limit    float64
	unit     string // "x nginx's": of the time added to direct
	scenario string
	of       func(*Figures) float64
}{
	{"CPU a request, 1 KB", 1.15, "x nginx", "json_1k", cpuOf},
	{perSecond, 0.85, "x nginx", "json_1k", func(f *Figures) float64 { return f.PerSecond }},
	{"CPU a request, 32 KB", 1.5, "x nginx", "json_32k", cpuOf},
	{"CPU a request, 256 KB", 0.85, "x nginx", "json_256k", cpuOf},
	{"CPU a request, 1 MB", 0.85, "x nginx", "json_1m", cpuOf},
	{"CPU an event, paced streams", 1.35, "x nginx", "sse_paced", cpuOf},
	{"CPU an event, bursts", 1.25, "x nginx", "sse_burst", cpuOf},
	{"added latency, p50", 1.1, added, "json_1k_open", func(f *Figures) float64 { return f.P50Us }},
	{"added latency, p99", 1.4, added, "json_1k_open", func(f *Figures) float64 { return f.P99Us }},
	{"added time to first event, p50", 1.1, added, "sse_first", firstOf},
	{"added time to first event, p99", 1.4, added, "sse_first", func(f *Figures) float64 { return f.FirstP99Us }},
	{"added time to the first sound, p50", 1.1, added, "speech_first", firstOf},
}

const (
	perSecond = "requests a second, 1 KB" // more is better
	added     = "x nginx's"
)

func cpuOf(f *Figures) float64   { return f.CPUUs }
func firstOf(f *Figures) float64 { return f.FirstP50Us }

// goals compares farebox with nginx as the design demands.
func (c *Comparison) goals() (list []Goal) {
	add := func(name string, limit float64, unit string, got reading) {
		g := Goal{Name: name, Value: got.value, Limit: limit, Least: name == perSecond, Unit: unit, Known: got.known}
		g.Met = g.Known && g.Value <= limit
		if g.Least {
			g.Met = g.Known && g.Value >= limit
		}
		list = append(list, g)
	}
	for _, g := range beside {
		ours, ok := c.figures(g.scenario, contender)
		theirs, ok2 := c.figures(g.scenario, anchor)
		base, ok3 := Figures{}, true
		if g.unit == added {
			base, ok3 = c.figures(g.scenario, "direct")
		}
		from := g.of(&base)
		add(g.name, g.limit, g.unit, over(g.of(&ours)-from, g.of(&theirs)-from, ok && ok2 && ok3))
	}
	sound, ok := c.figures("speech_1m", contender)
	bare, ok2 := c.figures("speech_1m", "relay")
	add("CPU a MB of sound", 1.2, "x bare relay", over(sound.CPUUs, bare.CPUUs, ok && ok2))
	c.rpcGoals(add)
	ours, ok := c.at(contender, 1000)
	theirs, ok2 := c.at(anchor, 1000)
	add("CPU a request, 1 KB, 1,000 a second", 1.5, "x nginx", over(ours.CPUUs, theirs.CPUUs, ok && ok2))
	m, ok := c.Memory[contender]
	add("memory without streams", 35, "MB", reading{float64(m.IdleBytes) / (1 << 20), ok})
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
