package compare

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// Print writes the tables of a comparison.
func (c *Comparison) Print(out io.Writer) {
	m := c.Machine
	fmt.Fprintf(out, "%s, %d processors, kernel %s; %s, %s, %s\n", m.Model, m.CPUs, m.Kernel, m.Nginx, m.Farebox, m.Go)
	for _, r := range c.Rivals {
		fmt.Fprintf(out, "%s %s: %s\n", r.Name, r.Version, r.Settings)
	}
	if m.Pinned {
		fmt.Fprintln(out, "each gateway alone on one processor, load and simulated upstream on another; medians of "+
			"interleaved rounds")
	}
	for _, s := range c.Scenarios {
		base := s.Figures[anchor]
		head := "req/s\tx nginx\tCPU µs/request\tx nginx\tcore\tp50 / p99 µs\tfirst p50 / p99 µs\tpeak MB"
		if s.Unit == "event" {
			head = "events/s\tCPU µs/event\tx nginx\tcore\tfirst p50 µs\tevent delay p50 / p99 µs\tpeak MB"
		}
		c.printTable(out, s.Name, s.Name+": "+s.Title, head, func(name string) string {
			f, ok := s.Figures[name]
			if !ok {
				return ""
			}
			if s.Unit == "event" {
				return fmt.Sprintf("%.0f\t%s\t%s\t%.0f %%\t%.0f\t%.0f / %.0f\t%s", f.Events, micro(f.CPUUs),
					ratio(f.CPUUs, base.CPUUs), 100*f.CPUShare, f.FirstP50Us, f.DelayP50Us, f.DelayP99Us,
					megabytes(f.PeakBytes))
			}
			first := "-"
			if f.FirstP50Us > 0 {
				first = fmt.Sprintf("%.0f / %.0f", f.FirstP50Us, f.FirstP99Us)
			}
			return fmt.Sprintf("%.0f\t%s\t%s\t%s\t%.0f %%\t%.0f / %.0f\t%s\t%s", f.PerSecond,
				ratio(f.PerSecond, base.PerSecond), micro(f.CPUUs), ratio(f.CPUUs, base.CPUUs), 100*f.CPUShare, f.P50Us,
				f.P99Us, first, megabytes(f.PeakBytes))
		})
	}
	c.printRates(out)
	c.printMemory(out)
	c.printAborts(out)
	c.printLarge(out)
	c.printStarts(out)
	c.printGoals(out)
	for _, n := range c.Notes {
		fmt.Fprintln(out, "note:", n)
	}
}

// printTable writes a table with a row of every contender that was measured, or failed; row gives "" for others.
func (c *Comparison) printTable(out io.Writer, scenario, title, head string, row func(name string) string) {
	var rows strings.Builder
	for _, name := range c.Contenders() {
		text := row(name)
		if text == "" && c.hasFailed(scenario, name) {
			text = "FAILED\t" + strings.Repeat("\t", strings.Count(head, "\t")-1)
		}
		if text != "" {
			fmt.Fprintf(&rows, "%s\t%s\t\n", name, text)
		}
	}
	if rows.Len() == 0 {
		return
	}
	fmt.Fprintf(out, "\n%s\n", title)
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "\t%s\t\n%s", head, rows.String())
	_ = w.Flush()
}

func (c *Comparison) printMemory(out io.Writer) {
	c.printTable(out, "memory", "memory of open streams, one event in 500 ms",
		"streams\topen\tidle MB\tidle core\topen MB\tKB a stream, fewest / most\tx nginx\tCPU µs/event\tfailed", func(name string) string {
			m, ok := c.Memory[name]
			if !ok {
				return ""
			}
			return fmt.Sprintf("%d\t%d\t%s\t%.2f %%\t%s\t%.1f / %.1f\t%s\t%s\t%d", m.Streams, m.Open,
				megabytes(float64(m.IdleBytes)), 100*m.IdleCPU, megabytes(float64(m.OpenBytes)), m.KB(1), m.KBPerStream,
				ratio(m.KBPerStream, c.Memory[anchor].KBPerStream), micro(m.CPUUs), m.Failed)
		})
}

func (c *Comparison) printAborts(out io.Writer) {
	c.printTable(out, "abort", "client gone to upstream told, ms",
		"streaming: seen\tmedian\tmax\tfirst byte awaited: seen\tmedian\tmax", func(name string) string {
			a, ok := c.Aborts[name]
			if !ok {
				return ""
			}
			return fmt.Sprintf("%d of %d\t%.1f\t%.1f\t%d of %d\t%.1f\t%.1f", a.StreamSeen, a.Tries, a.StreamMedianMs,
				a.StreamMaxMs, a.WaitSeen, a.Tries, a.WaitMedianMs, a.WaitMaxMs)
		})
}

func (c *Comparison) printStarts(out io.Writer) {
	if len(c.Starts) == 0 {
		return
	}
	fmt.Fprintf(out, "\nstart of farebox, to the answer of its first request\n")
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "keys\tms\tCPU ms\tMB\t")
	for _, s := range c.Starts {
		fmt.Fprintf(w, "%d\t%.0f\t%.0f\t%s\t\n", s.Keys, s.AnswerMs, s.CPUMs, megabytes(float64(s.IdleBytes)))
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
		fmt.Fprintf(w, "  %s\t%s\t%s\t%s\n", g.Name, g, g.Measured(), verdict)
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
