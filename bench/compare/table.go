package compare

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// Print writes the tables of a comparison.
func (c *Comparison) Print(out io.Writer) {
	m := c.Machine
	fmt.Fprintf(out, "%s, %d processors, kernel %s; %s, %s, %s\n", m.Model, m.CPUs, m.Kernel, m.Nginx, m.Farebox, m.Go)
	if m.Pinned {
		fmt.Fprintln(out, "each gateway alone on one processor, load and simulated upstream on another; medians of "+
			"interleaved rounds")
	}
	for _, s := range c.Scenarios {
		fmt.Fprintf(out, "\n%s: %s\n", s.Name, s.Title)
		w := tabwriter.NewWriter(out, 0, 8, 2, ' ', tabwriter.AlignRight)
		stream := s.Unit == "event"
		if stream {
			fmt.Fprintf(w, "\tevents/s\tCPU µs/event\tx nginx\tcore\tfirst p50 µs\tevent delay p50 / p99 "+
				"µs\tpeak MB\t\n")
		} else {
			fmt.Fprintf(w, "\treq/s\tx nginx\tCPU µs/request\tx nginx\tcore\tp50 / p99 µs\tfirst p50 / p99 "+
				"µs\tpeak MB\t\n")
		}
		base := s.Figures[anchor]
		for _, name := range Contenders {
			f, ok := s.Figures[name]
			if !ok {
				continue
			}
			if stream {
				fmt.Fprintf(w, "%s\t%.0f\t%s\t%s\t%.0f %%\t%.0f\t%.0f / %.0f\t%s\t\n", name, f.Events, micro(f.CPUUs),
					ratio(f.CPUUs, base.CPUUs), 100*f.CPUShare, f.FirstP50Us, f.DelayP50Us, f.DelayP99Us,
					megabytes(f.PeakBytes))
				continue
			}
			first := "-"
			if f.FirstP50Us > 0 {
				first = fmt.Sprintf("%.0f / %.0f", f.FirstP50Us, f.FirstP99Us)
			}
			fmt.Fprintf(w, "%s\t%.0f\t%s\t%s\t%s\t%.0f %%\t%.0f / %.0f\t%s\t%s\t\n", name, f.PerSecond,
				ratio(f.PerSecond, base.PerSecond), micro(f.CPUUs), ratio(f.CPUUs, base.CPUUs), 100*f.CPUShare, f.P50Us,
				f.P99Us, first, megabytes(f.PeakBytes))
		}
		_ = w.Flush()
	}
	c.printMemory(out)
	c.printAborts(out)
	c.printLarge(out)
	c.printGoals(out)
	for _, n := range c.Notes {
		fmt.Fprintln(out, "note:", n)
	}
}

func (c *Comparison) printMemory(out io.Writer) {
	if len(c.Memory) == 0 {
		return
	}
	fmt.Fprintf(out, "\nmemory of open streams, one event in 500 ms\n")
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "\tstreams\tidle MB\topen MB\tKB a stream\tx nginx\tCPU µs/event\tfailed\t\n")
	for _, name := range Contenders {
		m, ok := c.Memory[name]
		if !ok {
			continue
		}
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%.1f\t%s\t%s\t%d\t\n", name, m.Streams, megabytes(float64(m.IdleBytes)),
			megabytes(float64(m.OpenBytes)), m.KBPerStream,
			ratio(m.KBPerStream, c.Memory[anchor].KBPerStream), micro(m.CPUUs), m.Failed)
	}
	_ = w.Flush()
}

func (c *Comparison) printAborts(out io.Writer) {
	if len(c.Aborts) == 0 {
		return
	}
	fmt.Fprintf(out, "\nclient gone to upstream told, ms\n")
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "\tstreaming: seen\tmedian\tmax\tfirst byte awaited: seen\tmedian\tmax\t\n")
	for _, name := range Contenders {
		a, ok := c.Aborts[name]
		if !ok {
			continue
		}
		fmt.Fprintf(w, "%s\t%d of %d\t%.1f\t%.1f\t%d of %d\t%.1f\t%.1f\t\n", name, a.StreamSeen, a.Tries,
			a.StreamMedianMs, a.StreamMaxMs, a.WaitSeen, a.Tries, a.WaitMedianMs, a.WaitMaxMs)
	}
	_ = w.Flush()
}

func (c *Comparison) printGoals(out io.Writer) {
	fmt.Fprintf(out, "\ngoals\n")
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	for _, g := range c.Goals {
		if !g.Known {
			fmt.Fprintf(w, "  %s\t%s\tnot measured\n", g.Name, g)
			continue
		}
		verdict := "met"
		if !g.Met {
			verdict = "MISSED"
		}
		fmt.Fprintf(w, "  %s\t%s\t%.3g\t%s\n", g.Name, g, g.Value, verdict)
	}
	_ = w.Flush()
}

func ratio(a, b float64) string {
	if a == 0 || b == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f", a/b)
}

func micro(v float64) string {
	if v == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f", v)
}

func megabytes(v float64) string {
	if v == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f", v/(1<<20))
}
