package report

import (
	"fmt"

	"farebox/bench/overspend"
)

// OfOverspend is the report of the customers' gains beyond their balances.
func OfOverspend(r *overspend.Result) Page {
	p := Page{
		Title: "What the operator lost",
		Subtitle: fmt.Sprintf("%s · %d at once · %s USD an account · %s", r.URL, r.Concurrency,
			overspend.USD(r.Balance),
			r.Started.Format("2006-01-02 15:04:05 MST")),
	}
	sums := &Table{Head: overspend.Head}
	for _, row := range r.Rows() {
		sums.Rows = append(sums.Rows, overspendCells(row))
	}
	all := &Table{Head: overspend.Head}
	for _, c := range r.Cells {
		all.Rows = append(all.Rows, overspendCells(overspend.Row{Name: c.Endpoint + " " + c.Liar + " " + c.Leaver,
			Sum: *c}))
	}
	p.Sections = append(p.Sections,
		Section{Title: "By endpoint and lie", Table: sums, Charts: []Chart{lossChart(r)}, Text: []string{
			"Made is what the simulated upstream really produced, at the gateway's prices; within caps is the part " +
				"up to the cap that each request was sent with. Lost is that part, less what was charged and what " +
				"is owed.",
		}},
		Section{Title: "Every cell", Table: all})
	return p
}

func overspendCells(row overspend.Row) []Cell {
	out := cells(row.Texts()...)
	s := &row.Sum
	if s.Lost > s.Unknowable && s.Known {
		out[9].Mood, out[10].Mood = "bad", "bad"
	}
	if s.Overdraw > 0 {
		out[12].Mood = "bad"
	}
	return out
}

// lossChart is the loss for every USD of output within the caps.
func lossChart(r *overspend.Result) Chart {
	c := Chart{Title: "Lost of 100 USD made within the caps", Y: "USD"}
	for i, e := range overspend.Endpoints {
		sum := r.Sum(func(o *overspend.Cell) bool { return o.Endpoint == e.Name })
		if sum.Known && sum.Capped > 0 {
			c.Groups = append(c.Groups,
				Group{Name: e.Name, Bars: []Bar{{Name: e.Name, Color: i % 6,
					Value: 100 * float64(sum.Lost) / float64(sum.Capped)}}})
		}
	}
	return c
}
