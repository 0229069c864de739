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
		Made: [][2]string{
			{"command", c.Command}, {"date", c.Started.Format("2006-01-02 15:04 MST")},
			{"version", m.Farebox}, {"commit", m.Commit}, {"programs", m.Nginx + ", " + m.Go},
			{"machine", fmt.Sprintf("%s, %d processors, kernel %s", m.Model, m.CPUs, m.Kernel)},
		},
	}
	for _, r := range c.Rivals {
		p.Title += ", " + r.Name
	}
	p.Sections = append(p.Sections, goalSection(c))
	if len(c.Rivals) > 0 {
		p.Sections = append(p.Sections, rivalSection(c))
	}
	p.Sections = append(p.Sections, overviewSection(c), rateSection(c), memorySection(c))
	for _, s := range c.Scenarios {
		p.Sections = append(p.Sections, scenarioSection(c, s))
	}
	p.Sections = append(p.Sections, abortSection(c), largeSection(c), startSection(c), peerSection(c),
		Section{Title: "Notes", Text: c.Notes})
	return p
}

// rivalSection describes the set-up of the other gateways.
func rivalSection(c *compare.Comparison) Section {
	s := Section{Title: "Rivals", Text: []string{"They have the same processor, upstream and load as the others. Gateways " +
		"differ in the work that they do for a request."}}
	for _, r := range c.Rivals {
		s.Text = append(s.Text, r.Name+" "+r.Version+": "+r.Settings)
	}
	return s
}

// rateSection is latency over the rate of arrivals.
func rateSection(c *compare.Comparison) Section {
	charts := []Chart{{Title: "p50", Y: "µs", LogY: true}, {Title: "p99", Y: "µs", LogY: true},
		{Title: "Answers", Y: "answers a second"}, {Title: "Processor time", Y: "% of a core"},
		{Title: "Processor time a request", Y: "µs", LogY: true}}
	for k := range charts {
		chart := &charts[k]
		chart.Title, chart.X, chart.LogX = chart.Title+" over the rate", "arrivals a second", true
		for i, name := range c.Contenders() {
			l := Line{Name: name, Color: colorOf(name, i)}
			for _, r := range c.Rates[name] {
				v := [...]float64{r.P50Us, r.P99Us, r.PerSecond, 100 * r.CPUShare, r.CPUUs}[k]
				if chart.LogY && v == 0 {
					continue // direct has no gateway whose time counts
				}
				l.Points = append(l.Points, [2]float64{r.Wanted, v})
			}
			if len(l.Points) > 0 {
				chart.Lines = append(chart.Lines, l)
			}
		}
	}
	return Section{Title: "Latency over the rate", Text: []string{
		"Chat requests of 1 KB arrive at a constant rate. Latency counts from the time at which a request was due. A line " +
			"ends at the highest rate that was measured, or at the first one with less than 95 % of the arrivals answered. " +
			"Direct shows the limit of load generator and simulated upstream.",
	}, Charts: charts}
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
	chart := Chart{Title: "CPU per request or event, nginx = 1 (dashed: farebox's goal)", Y: "x nginx", LogY: len(c.Rivals) > 0}
	for _, s := range c.Scenarios {
		base := s.Figures["nginx"].CPUUs
		limit, wanted := limits[s.Name]
		if base == 0 || !wanted {
			continue
		}
		g := Group{Name: s.Name}
		for i, name := range c.Contenders() {
			if f := s.Figures[name]; f.CPUUs > 0 {
				bar := Bar{Name: name, Color: colorOf(name, i), Value: f.CPUUs / base}
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

func scenarioSection(c *compare.Comparison, s compare.Outcome) Section {
	t := &Table{Head: []string{"", "requests/s", "events/s", "CPU µs/" + s.Unit, "x nginx", "core %", "p50 µs",
		"p99 µs", "first p50 µs", "first p99 µs", "delay p50 µs", "delay p99 µs", "peak MB", "failed"}}
	base := s.Figures["nginx"].CPUUs
	var middle, all []*load.Result
	for _, name := range c.Contenders() {
		f, ok := s.Figures[name]
		if !ok {
			middle = append(middle, nil)
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
	return Section{Title: s.Name + ": " + s.Title, Table: t, Charts: append(charts, rounds(c, s))}
}

// middleRun is the run with the median of the medians.
func middleRun(runs []*load.Result) *load.Result {
	sorted := slices.SortedFunc(slices.Values(runs), func(a, b *load.Result) int {
		return int(a.Latency.P50Us - b.Latency.P50Us)
	})
	return sorted[len(sorted)/2]
}

// rounds shows how steady the rounds were.
func rounds(of *compare.Comparison, s compare.Outcome) Chart {
	c := Chart{Title: "Throughput of every round", X: "round", Y: "requests/s"}
	if s.Unit == "event" {
		c.Y = "events/s"
	}
	for i, name := range of.Contenders() {
		l := Line{Name: name, Color: colorOf(name, i)}
		for round, r := range s.Runs[name] {
			v := r.PerSecond
			if s.Unit == "event" {
				v = r.EventsPerSecond
			}
			l.Points = append(l.Points, [2]float64{float64(round + 1), v})
		}
		if len(l.Points) > 1 {
			c.Lines = append(c.Lines, l)
		}
	}
	return c
}

func memorySection(c *compare.Comparison) Section {
	t := &Table{Head: []string{"", "streams", "open", "idle MB", "idle core, %", "open MB", "KB a stream", "CPU µs/event",
		"failed"}}
	chart := Chart{Title: "KB of memory an open stream (dashed: farebox's goal)", Y: "KB"}
	rss := Chart{Title: "RSS over open streams", X: "open streams", Y: "MB"}
	pss := rss
	pss.Title = "PSS over open streams"
	for i, name := range c.Contenders() {
		m, ok := c.Memory[name]
		if !ok {
			continue
		}
		color := colorOf(name, i)
		t.Rows = append(t.Rows, cells(name, fmt.Sprint(m.Streams), fmt.Sprint(m.Open), number(float64(m.IdleBytes)/(1<<20)),
			number(100*m.IdleCPU), number(float64(m.OpenBytes)/(1<<20)), number(m.KBPerStream), number(m.CPUUs), fmt.Sprint(m.Failed)))
		chart.Groups = append(chart.Groups, Group{Name: name, Bars: []Bar{{Name: name, Color: color, Value: m.KBPerStream}}})
		chart.Goal = 31
		over := func(of *Chart, bytes func(compare.MemoryLevel) int64) {
			l := Line{Name: name, Color: color}
			for _, at := range m.Levels {
				l.Points = append(l.Points, [2]float64{float64(at.Open), float64(bytes(at)) / (1 << 20)})
			}
			of.Lines = append(of.Lines, l)
		}
		over(&rss, func(at compare.MemoryLevel) int64 { return at.RSSBytes })
		over(&pss, func(at compare.MemoryLevel) int64 { return at.PSSBytes })
	}
	return Section{Title: "Memory over open streams", Table: t, Charts: []Chart{rss, pss, chart}, Text: []string{
		"Ever more streams are open at once, each with an event in 500 ms. RSS counts a page in every process that has " +
			"it, PSS shares it among them. Open streams are those that reached the simulated upstream.",
	}}
}

func startSection(c *compare.Comparison) Section {
	t := &Table{Head: []string{"keys", "ms", "CPU ms", "MB"}}
	for _, s := range c.Starts {
		t.Rows = append(t.Rows, cells(fmt.Sprint(s.Keys), number(s.AnswerMs), number(s.CPUMs), number(float64(s.IdleBytes)/(1<<20))))
	}
	return Section{Title: "Start of farebox, to the answer of its first request", Table: t}
}

func abortSection(c *compare.Comparison) Section {
	t := &Table{Head: []string{"", "streaming: seen", "median ms", "max ms", "first byte awaited: seen", "median ms",
		"max ms"}}
	for _, name := range c.Contenders() {
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
	for i, name := range c.Contenders() {
		m, ok := c.Large[name]
		if !ok {
			continue
		}
		t.Rows = append(t.Rows, cells(name, fmt.Sprint(m.Answers), number(m.FirstByteMs), number(m.TookMs),
			number(m.CPUMs), number(float64(m.FromFreshRSS)/(1<<20)),
			number(float64(m.GrowthBytes)/(1<<20)), number(float64(m.SideGrowth)/(1<<20)), number(m.SideByteMs),
			fmt.Sprint(m.Failed)))
		first.Groups = append(first.Groups, Group{Name: name,
			Bars: []Bar{{Name: name, Color: colorOf(name, i), Value: m.FirstByteMs}}})
		if name != "direct" {
			growth.Groups = append(growth.Groups, Group{Name: name,
				Bars: []Bar{{Name: name, Color: colorOf(name, i), Value: float64(m.GrowthBytes) / (1 << 20)}}})
		}
	}
	return Section{Title: "rpc_100mb: JSON-RPC, answers of 100 MB", Table: t, Charts: []Chart{growth, first}}
}

// peerSection compares other gateways for JSON-RPC with this run.
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
