package attack

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
)

// Head names the columns of Texts.
var Head = []string{"", "ordinary sent", "answered", "astray", "p50 ms", "p99 ms", "x quiet", "max ms", "peak MB"}

// KindHead names the columns of KindTexts.
var KindHead = []string{"", "ordinary", "sent", "answered", "refused", "p50 ms", "p99 ms", "x quiet"}

// KindTexts are the columns of each kind of ordinary requests in each phase.
func (r *Result) KindTexts() (rows [][]string) {
	for _, p := range r.Phases {
		for i, k := range p.Customers.Kinds {
			quiet := r.Phases[0].Customers.Kinds[i].P99Ms
			rows = append(rows, []string{p.Name, k.Name, fmt.Sprint(k.Sent), fmt.Sprint(k.Answered), fmt.Sprint(k.Refused),
				fmt.Sprintf("%.1f", k.P50Ms), fmt.Sprintf("%.1f", k.P99Ms), fmt.Sprintf("%.2f", k.P99Ms/max(quiet, 0.001))})
		}
	}
	return rows
}

// AssaultHead names the columns of an attack.
var AssaultHead = []string{"", "a second", "sent", "let through", "skipped", "largest answer", "slowest ms", "answers"}

// Texts are the columns of each phase.
func (r *Result) Texts() [][]string {
	var rows [][]string
	quiet := r.Phases[0].Customers.P99Ms
	for _, p := range r.Phases {
		c := p.Customers
		memory := "-"
		if p.PeakBytes > 0 {
			memory = fmt.Sprintf("%.1f", float64(p.PeakBytes)/(1<<20))
		}
		rows = append(rows, []string{
			p.Name, fmt.Sprint(c.Sent), fmt.Sprintf("%.2f %%", 100*c.Share), fmt.Sprint(c.Astray),
			fmt.Sprintf("%.1f", c.P50Ms), fmt.Sprintf("%.1f", c.P99Ms),
			fmt.Sprintf("%.2f", c.P99Ms/max(quiet, 0.001)), fmt.Sprintf("%.0f", c.MaxMs), memory,
		})
	}
	return rows
}

// AssaultTexts are the columns of each attack.
func (r *Result) AssaultTexts() [][]string {
	var rows [][]string
	for _, p := range r.Phases {
		for _, a := range p.Attacks {
			var answers []string
			for _, s := range slices.Sorted(maps.Keys(a.Status)) {
				answers = append(answers, fmt.Sprintf("%s: %d", s, a.Status[s]))
			}
			slow := "-"
			if a.SlowMs > 0 {
				slow = fmt.Sprintf("%.0f", a.SlowMs)
			}
			rows = append(rows, []string{a.Name, fmt.Sprintf("%g", a.Rate), fmt.Sprint(a.Sent), fmt.Sprint(a.Through),
				fmt.Sprint(a.Skipped), fmt.Sprint(a.Largest), slow, strings.Join(answers, ", ")})
		}
	}
	return rows
}

// Print writes the result for a terminal.
func (r *Result) Print(out io.Writer) {
	fmt.Fprintf(out, "%s: %d ordinary customers, %g requests a second each\n", r.URL, r.Customers, r.Rate)
	table := func(head []string, rows [][]string) {
		w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
		fmt.Fprintln(w, strings.Join(head, "\t"))
		for _, row := range rows {
			fmt.Fprintln(w, strings.Join(row, "\t"))
		}
		_ = w.Flush()
	}
	table(Head, r.Texts())
	for _, p := range r.Phases {
		for _, kind := range slices.Sorted(maps.Keys(p.Customers.Errors)) {
			fmt.Fprintf(out, "  %s: %d x %s\n", p.Name, p.Customers.Errors[kind], kind)
		}
	}
	fmt.Fprintln(out)
	table(KindHead, r.KindTexts())
	fmt.Fprintln(out)
	table(AssaultHead, r.AssaultTexts())
	if r.QuietBytes > 0 {
		fmt.Fprintf(out, "memory: %.1f MB before, %.1f MB after\n", float64(r.QuietBytes)/(1<<20),
			float64(r.AfterBytes)/(1<<20))
	}
}
