package report

import (
	"fmt"
	"slices"

	"farebox/bench/compare"
	"farebox/bench/load"
)

// OfComparison is the report of a side-by-side run.
func OfComparison(c *compare.Comparison) Page {
	m := c.Machine
	p := Page{
		Title: "Side by side: direct, bare relay, nginx, farebox",
		Subtitle: fmt.Sprintf("%s · %s, %d processors · kernel %s · %s · %s · %s",
			c.Started.Format("2006-01-02 15:04 MST"), m.Model, m.CPUs, m.Kernel,
			m.Nginx, m.Farebox, m.Go),
	}
	p.Sections = append(p.Sections, goalSection(c), overviewSection(c))
	for _, s := range c.Scenarios {
		p.Sections = append(p.Sections, scenarioSection(s))
	}
	p.Sections = append(p.Sections, memorySection(c), abortSection(c), largeSection(c), peerSection(c),
		Section{Title: "Notes", Text: c.Notes})
	return p
}

func goalSection(c *compare.Comparison) Section {
	t := &Table{Head: []string{"", "goal", "this run", ""}}
	for _, g := range c.Goals {
		row := cells(g.Name, g.String(), "-", "not measured")
		if g.Known {
			row[2].Text = number(g.Value)
			row[3] = Cell{"met", "good"}
			if !g.Met {
				row[3] = Cell{"missed", "bad"}
			}
		}
		t.Rows = append(t.Rows, row)
	}
	return Section{Title: "Goals", Table: t, Text: []string{
		"Medians of interleaved rounds. Each gateway had one processor to itself; load and simulated upstream shared " +
			"another. Farebox ran with everything on: authentication, limits, hold, meter, settlement and journal.",
	}}
}

// overviewSection draws CPU per operation relative to nginx.
func overviewSection(c *compare.Comparison) Section {
	limits := map[string]float64{"json_1k": 1.15, "json_32k": 1.5, "json_256k": 0.85, "json_1m": 0.85,
		"sse_paced": 1.35, "sse_burst": 1.25, "rpc_single": 0, "rpc_batch": 0,
		"speech_1m": 0}
	chart := Chart{Title: "CPU per request or event, nginx = 1 (dashed: farebox's goal)", Y: "x nginx"}
	for _, s := range c.Scenarios {
		base := s.Figures["nginx"].CPUUs
		limit, wanted := limits[s.Name]
		if base == 0 || !wanted {
			continue
		}
		g := Group{Name: s.Name}
		for _, name := range compare.Contenders {
			if f := s.Figures[name]; f.CPUUs > 0 {
				bar := Bar{Name: name, Color: colorOf(name, 0), Value: f.CPUUs / base}
				if name == "farebox" {
					bar.Limit = limit
				}
				g.Bars = append(g.Bars, bar)
			}
		}
		chart.Groups = append(chart.Groups, g)
	}
	return Section{Title: "Processor time", Charts: []Chart{chart}}
}

func scenarioSection(s compare.Outcome) Section {
	t := &Table{Head: []string{"", "requests/s", "events/s", "CPU µs/" + s.Unit, "x nginx", "core %", "p50 µs",
		"p99 µs", "first p50 µs", "first p99 µs", "delay p50 µs", "delay p99 µs", "peak MB", "failed"}}
	base := s.Figures["nginx"].CPUUs
	var middle, all []*load.Result
	for _, name := range compare.Contenders {
		f, ok := s.Figures[name]
		if !ok {
			continue
		}
		over := "-"
		if base > 0 && f.CPUUs > 0 {
			over = number(f.CPUUs / base)
		}
		row := cells(name, number(f.PerSecond), number(f.Events), number(f.CPUUs), over, number(100*f.CPUShare),
			number(f.P50Us), number(f.P99Us),
			number(f.FirstP50Us), number(f.FirstP99Us), number(f.DelayP50Us), number(f.DelayP99Us),
			number(f.PeakBytes/(1<<20)), fmt.Sprint(f.Failed))
		if f.Failed > 0 {
			row[len(row)-1].Mood = "bad"
		}
		t.Rows = append(t.Rows, row)
		middle = append(middle, middleRun(s.Runs[name]))
		all = append(all, s.Runs[name]...)
	}
	charts := []Chart{curves("Latency by percentile (the middle round)", middle,
		func(r *load.Result) load.Distribution { return r.Latency })}
	if len(all) > 0 && all[0].Stream {
		charts = []Chart{
			curves("Time to the first event (the middle round)", middle,
				func(r *load.Result) load.Distribution { return r.First }),
			curves("Event delay (the middle round)", middle, func(r *load.Result) load.Distribution { return r.Delay }),
			curves("Gap between events (the middle round)", middle,
				func(r *load.Result) load.Distribution { return r.Gap }),
		}
	}
	return Section{Title: s.Name + ": " + s.Title, Table: t, Charts: append(charts, rounds(s))}
}

// middleRun is the run with the median of the medians.
func middleRun(runs []*load.Result) *load.Result {
	sorted := slices.SortedFunc(slices.Values(runs), func(a, b *load.Result) int {
		return int(a.Latency.P50Us - b.Latency.P50Us)
	})
	return sorted[len(sorted)/2]
}

// rounds shows how steady the rounds were.
func rounds(s compare.Outcome) Chart {
	c := Chart{Title: "Throughput of every round", X: "round", Y: "requests/s"}
	if s.Unit == "event" {
		c.Y = "events/s"
	}
	for _, name := range compare.Contenders {
		l := Line{Name: name, Color: colorOf(name, 0)}
		for i, r := range s.Runs[name] {
			v := r.PerSecond
			if s.Unit == "event" {
				v = r.EventsPerSecond
			}
			l.Points = append(l.Points, [2]float64{float64(i + 1), v})
		}
		if len(l.Points) > 1 {
			c.Lines = append(c.Lines, l)
		}
	}
	return c
}

func memorySection(c *compare.Comparison) Section {
	t := &Table{Head: []string{"", "streams", "idle MB", "open MB", "KB a stream", "CPU µs/event", "failed"}}
	chart := Chart{Title: "KB of memory an open stream (dashed: farebox's goal)", Y: "KB"}
	for _, name := range compare.Contenders {
		m, ok := c.Memory[name]
		if !ok {
			continue
		}
		t.Rows = append(t.Rows, cells(name, fmt.Sprint(m.Streams), number(float64(m.IdleBytes)/(1<<20)),
			number(float64(m.OpenBytes)/(1<<20)), number(m.KBPerStream), number(m.CPUUs), fmt.Sprint(m.Failed)))
		chart.Groups = append(chart.Groups, Group{Name: name,
			Bars: []Bar{{Name: name, Color: colorOf(name, 0), Value: m.KBPerStream}}})
		chart.Goal = 31
	}
	return Section{Title: "Memory of open streams", Table: t, Charts: []Chart{chart}}
}

func abortSection(c *compare.Comparison) Section {
	t := &Table{Head: []string{"", "streaming: seen", "median ms", "max ms", "first byte awaited: seen", "median ms",
		"max ms"}}
	for _, name := range compare.Contenders {
		a, ok := c.Aborts[name]
		if !ok {
			continue
		}
		t.Rows = append(t.Rows, cells(name, fmt.Sprintf("%d of %d", a.StreamSeen, a.Tries), number(a.StreamMedianMs),
			number(a.StreamMaxMs),
			fmt.Sprintf("%d of %d", a.WaitSeen, a.Tries), number(a.WaitMedianMs), number(a.WaitMaxMs)))
	}
	return Section{Title: "Client gone, upstream told", Table: t}
}

func largeSection(c *compare.Comparison) Section {
	t := &Table{Head: []string{"", "answers", "first byte ms", "whole ms", "CPU ms", "idle MB", "growth MB",
		"side by side: growth MB", "first byte ms", "failed"}}
	growth := Chart{Title: "MB that a gateway grows by, one answer of 100 MB at a time (dashed: farebox's goal)",
		Y: "MB", Goal: 2}
	first := Chart{Title: "ms to the first byte (dashed: farebox's goal)", Y: "ms", Goal: 3}
	for _, name := range compare.Contenders {
		m, ok := c.Large[name]
		if !ok {
			continue
		}
		t.Rows = append(t.Rows, cells(name, fmt.Sprint(m.Answers), number(m.FirstByteMs), number(m.TookMs),
			number(m.CPUMs), number(float64(m.FromFreshRSS)/(1<<20)),
			number(float64(m.GrowthBytes)/(1<<20)), number(float64(m.SideGrowth)/(1<<20)), number(m.SideByteMs),
			fmt.Sprint(m.Failed)))
		first.Groups = append(first.Groups, Group{Name: name,
			Bars: []Bar{{Name: name, Color: colorOf(name, 0), Value: m.FirstByteMs}}})
		if name != "direct" {
			growth.Groups = append(growth.Groups, Group{Name: name,
				Bars: []Bar{{Name: name, Color: colorOf(name, 0), Value: float64(m.GrowthBytes) / (1 << 20)}}})
		}
	}
	return Section{Title: "rpc_100mb: JSON-RPC, answers of 100 MB", Table: t, Charts: []Chart{growth, first}}
}

// peerSection stands other gateways for JSON-RPC beside this run.
func peerSection(c *compare.Comparison) Section {
	t := &Table{Head: []string{"", "CPU µs/call", "CPU µs/batch of 100", "100 MB: first byte ms", "CPU ms",
		"growth MB"}}
	chart := Chart{Title: "CPU µs a single call", Y: "µs"}
	bar := func(name string, color int, v float64) {
		if v > 0 {
			chart.Groups = append(chart.Groups, Group{Name: name, Bars: []Bar{{Name: name, Color: color, Value: v}}})
		}
	}
	figure := func(scenario, name string) float64 {
		for _, s := range c.Scenarios {
			if s.Name == scenario {
				return s.Figures[name].CPUUs
			}
		}
		return 0
	}
	for _, name := range []string{"relay", "nginx", "farebox"} {
		m := c.Large[name]
		t.Rows = append(t.Rows, cells(name, number(figure("rpc_single", name)), number(figure("rpc_batch", name)),
			number(m.FirstByteMs), number(m.CPUMs), number(float64(m.GrowthBytes)/(1<<20))))
		bar(name, colorOf(name, 0), figure("rpc_single", name))
	}
	for _, p := range compare.Peers {
		t.Rows = append(t.Rows, cells(p.Name+" (read before)", number(p.SingleUs), number(p.BatchUs), number(p.FirstMs),
			number(p.LargeMs), number(p.GrowthMB)))
		bar(p.Name, 5, p.SingleUs)
	}
	return Section{Title: "JSON-RPC beside other gateways", Table: t, Charts: []Chart{chart}, Text: []string{
		"The figures of the other gateways are fixed: they were read before, one core each, with the same kind of " +
			"load and node. Peers answer an eth_call of 100 MB.",
	}}
}
