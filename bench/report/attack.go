package report

import (
	"fmt"

	"farebox/bench/attack"
)

// OfAttack is the report of the results of ordinary customers beside attacks.
func OfAttack(r *attack.Result) Page {
	p := Page{
		Title: "Ordinary customers under attack",
		Subtitle: fmt.Sprintf("%s · %d customers, %g requests a second each · %s", r.URL, r.Customers, r.Rate,
			r.Started.Format("2006-01-02 15:04:05 MST")),
	}
	phases := &Table{Head: attack.Head}
	latency := Chart{Title: "p99 of ordinary requests (dashed: three times the quiet one)", Y: "ms",
		Goal: 3 * r.Phases[0].Customers.P99Ms}
	for i, texts := range r.Texts() {
		row, c := cells(texts...), r.Phases[i].Customers
		if c.Share < 0.999 {
			row[2].Mood = "bad"
		}
		if c.Astray > 0 {
			row[3].Mood = "bad"
		}
		phases.Rows = append(phases.Rows, row)
		latency.Groups = append(latency.Groups, Group{Name: r.Phases[i].Name,
			Bars: []Bar{{Name: "p99", Color: 3, Value: c.P99Ms}}})
	}
	kinds := &Table{Head: attack.KindHead}
	for _, texts := range r.KindTexts() {
		kinds.Rows = append(kinds.Rows, cells(texts...))
	}
	attacks := &Table{Head: attack.AssaultHead}
	for _, texts := range r.AssaultTexts() {
		attacks.Rows = append(attacks.Rows, cells(texts...))
	}
	var what []string
	for _, round := range attack.AllRounds {
		what = append(what, round.Name+": "+round.What+".")
	}
	p.Sections = append(p.Sections,
		Section{Title: "Ordinary customers", Table: phases, Charts: []Chart{latency}},
		Section{Title: "Ordinary customers, by kind of request", Table: kinds},
		Section{Title: "Attacks", Table: attacks, Text: what})
	return p
}
