package report

import (
	"fmt"
	"maps"
	"slices"

	"farebox/bench/load"
)

// OfRuns is the report of single runs, one colour each.
func OfRuns(title string, runs []*load.Result) Page {
	p := Page{Title: title}
	if len(runs) > 0 {
		r := runs[0]
		mode := "as fast as the connections allowed"
		if r.Rate > 0 {
			mode = fmt.Sprintf("%g requests a second, latency from the intended start", r.Rate)
		}
		p.Subtitle = fmt.Sprintf("%s · model %s · %s · %d connections · %s", r.URL, r.Model, mode, r.Connections,
			r.Started.Format("2006-01-02 15:04:05 MST"))
	}
	p.Sections = append(p.Sections, Section{Title: "Figures", Table: runTable(runs)})
	if t := errorTable(runs); len(t.Rows) > 0 {
		p.Sections = append(p.Sections, Section{Title: "Errors", Table: t})
	}
	p.Sections = append(p.Sections, Section{Title: "Latency", Charts: []Chart{
		curves("Latency by percentile", runs, func(r *load.Result) load.Distribution { return r.Latency }),
		curves("Time to the first event", runs, func(r *load.Result) load.Distribution { return r.First }),
		curves("Gap between events", runs, func(r *load.Result) load.Distribution { return r.Gap }),
		curves("Event delay from the simulated upstream", runs,
			func(r *load.Result) load.Distribution { return r.Delay }),
	}})
	p.Sections = append(p.Sections, Section{Title: "Over time", Charts: []Chart{
		series("Requests a second", "requests", runs, func(s load.Second) float64 { return float64(s.Requests) }),
		series("Latency by second, mean", "µs", runs, func(s load.Second) float64 { return s.MeanUs }),
		series("Latency by second, highest", "µs", runs, func(s load.Second) float64 { return s.MaxUs }),
	}})
	return p
}

func runName(r *load.Result, i int) string {
	if r.Name != "" {
		return r.Name
	}
	return fmt.Sprintf("run %d", i+1)
}

func runTable(runs []*load.Result) *Table {
	t := &Table{Head: []string{"", "requests", "a second", "failed", "left", "p50 µs", "p99 µs", "p99.9 µs", "max µs",
		"first event p50 µs", "events/s", "CPU s / 1,000", "peak MB"}}
	for i, r := range runs {
		cpu, peak := "-", "-"
		if r.Process != nil {
			cpu, peak = fmt.Sprintf("%.3f", r.Process.PerThousand), number(float64(r.Process.PeakBytes)/(1<<20))
		}
		row := cells(runName(r, i), fmt.Sprint(r.Requests), number(r.PerSecond), fmt.Sprint(r.Failed),
			fmt.Sprint(r.Aborted), number(r.Latency.P50Us), number(r.Latency.P99Us),
			number(r.Latency.P999Us), number(r.Latency.MaxUs), number(r.First.P50Us), number(r.EventsPerSecond), cpu,
			peak)
		if r.Failed > 0 {
			row[3].Mood = "bad"
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

func errorTable(runs []*load.Result) *Table {
	t := &Table{Head: []string{"", "kind", "requests"}}
	for i, r := range runs {
		for _, kind := range slices.Sorted(maps.Keys(r.Errors)) {
			t.Rows = append(t.Rows, cells(runName(r, i), kind, fmt.Sprint(r.Errors[kind])))
		}
	}
	return t
}

// curves draws one distribution of every run over the percentiles; a nil run only takes its colour.
func curves(title string, runs []*load.Result, of func(*load.Result) load.Distribution) Chart {
	c := Chart{Title: title, X: "percentile", Y: "µs", LogY: true, Nines: true}
	for i, r := range runs {
		if r == nil {
			continue
		}
		d := of(r)
		if d.Count == 0 {
			continue
		}
		c.Lines = append(c.Lines, Line{Name: runName(r, i), Color: colorOf(r.Name, i), Points: atLeast(d)})
	}
	return c
}

// atLeast drops percentiles that the number of samples does not support.
func atLeast(d load.Distribution) [][2]float64 {
	var points [][2]float64
	for _, p := range d.Curve {
		if p[0] < 100 && float64(d.Count)*(1-p[0]/100) < 1 {
			continue
		}
		if p[0] == 100 {
			p[0] = min(99.999, 100*(1-1/float64(d.Count+1)))
		}
		points = append(points, p)
	}
	return points
}

func series(title, unit string, runs []*load.Result, of func(load.Second) float64) Chart {
	c := Chart{Title: title, X: "seconds", Y: unit}
	for i, r := range runs {
		l := Line{Name: runName(r, i), Color: colorOf(r.Name, i)}
		for _, s := range r.Series {
			l.Points = append(l.Points, [2]float64{float64(s.At), of(s)})
		}
		if len(l.Points) > 1 {
			c.Lines = append(c.Lines, l)
		}
	}
	return c
}

// colorOf gives contenders of a comparison the same colour everywhere.
func colorOf(name string, i int) int {
	switch name {
	case "direct":
		return 0
	case "relay":
		return 1
	case "nginx":
		return 2
	case "farebox":
		return 3
	case "nginx-2m":
		return 4
	}
	return i + 1
}
