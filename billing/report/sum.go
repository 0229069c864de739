package report

import (
	"cmp"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"

	"farebox/billing/calendar"
	"farebox/billing/money"
	"farebox/billing/store"
	"farebox/config/fair"
)

// SumQuery selects the usage that an operator wants to see.
type SumQuery struct {
	Account string    `json:"account,omitempty"` // id or name; empty: all
	From    time.Time `json:"from,omitzero"`     // UTC days, both included
	To      time.Time `json:"to,omitzero"`       // default: today
	By      string    `json:"by"`                // account, model, upstream, key or day
}

// Sum is one row of a report: charges less refunds, and payments of debt.
type Sum struct {
	ID       string `json:"id"`   // of the account, key, model or upstream, or the day
	Name     string `json:"name"` // of the account, model or upstream, or the purpose of the key
	Account  string `json:"account,omitempty"`
	Requests int64  `json:"requests"`
	Input    int64  `json:"input_tokens"`
	Output   int64  `json:"output_tokens"`
	Units    int64  `json:"units"` // of products sold by the piece: pictures, credits
	money.Amounts
}

// groups are, by the grouping of a report, the columns of id, name and account, and those of daily usage
// that have numbers for them.
var groups = map[string]struct{ names, numbers string }{
	"account":  {"a.id, a.name, a.name", "account"},
	"model":    {"coalesce(m.id, ''), coalesce(m.id, ''), ''", "model"},
	"upstream": {"coalesce(p.id, ''), coalesce(p.id, ''), ''", "upstream"},
	"key":      {"coalesce(k.id, ''), coalesce(k.description, ''), a.name", "account, api_key"},
	"day":      {"CAST(u.day AS TEXT), CAST(u.day AS TEXT), ''", "day"},
}

// text is the statement of a report. Numbers are grouped before names are looked up.
func (q *SumQuery) text() string {
	g := groups[q.By]
	of := "day BETWEEN $1 AND $2"
	if q.Account != "" {
		of += " AND account = $3"
	}
	var parts, joins []string
	for _, table := range []string{"usage_day", "usage_moved"} {
		parts = append(parts, "SELECT "+g.numbers+`, kind, currency, sum(requests) AS requests, sum(units) AS units, sum(amount) AS amount
			FROM `+table+" WHERE "+of+" GROUP BY "+g.numbers+", kind, currency")
	}
	for _, join := range []string{"JOIN account a ON a.no = u.account", "LEFT JOIN api_key k ON k.no = u.api_key",
		"LEFT JOIN model m ON m.no = u.model", "LEFT JOIN upstream p ON p.no = u.upstream"} {
		if _, column, _ := strings.Cut(join, "u."); slices.Contains(strings.Split(g.numbers, ", "), column) {
			joins = append(joins, join)
		}
	}
	return "SELECT " + g.names + `, u.kind, u.currency, CAST(u.requests AS {I64}), CAST(u.units AS {I64}), CAST(u.amount AS {I64})
		FROM (` + strings.Join(parts, " UNION ALL ") + ") AS u " + strings.Join(joins, " ")
}

// Check returns the error in the question.
func (q *SumQuery) Check() error {
	if groups[q.By].names == "" {
		return fmt.Errorf("cannot report usage by %q: expected account, model, upstream, key or day", q.By)
	}
	if q.To.Before(q.From) {
		return fmt.Errorf("cannot report usage from %s to %s: it ends before it begins",
			q.From.Format(time.DateOnly), q.To.Format(time.DateOnly))
	}
	return nil
}

// Sum adds up the store's usage, across accounts or of one, the dearest first;
// days in their order.
func (r *Reports) Sum(q SumQuery, account uint32) ([]Sum, error) {
	args := []any{calendar.Date(calendar.DayAt(q.From)), calendar.Date(calendar.DayAt(q.To))}
	if q.Account != "" {
		args = append(args, int64(account))
	}
	sums := map[[3]string]*Sum{}
	err := r.readFor(fair.Operator, func(tx *store.Query) error {
		clear(sums)
		return tx.Each(func(rows *sql.Rows) error {
			var id [3]string
			var kind money.Kind
			var c money.Currency
			var requests, units int64
			var n money.Nano
			if err := rows.Scan(&id[0], &id[1], &id[2], &kind, &c, &requests, &units, &n); err != nil {
				return err
			}
			s := sums[id]
			if s == nil {
				s = &Sum{ID: id[0], Name: id[1], Account: id[2]}
				sums[id] = s
			}
			s.Requests += requests
			switch {
			case kind == money.OutputTokens:
				s.Output += units
			case kind.OfTokens():
				s.Input += units
			case !kind.Beside():
				s.Units += units
			}
			*s.At(money.PlaceOf(c)) += n
			return nil
		}, q.text(), args...)
	})
	if err != nil {
		return nil, fmt.Errorf("cannot report usage: %w", err)
	}
	list := make([]Sum, 0, len(sums))
	for _, s := range sums {
		if q.By == "day" {
			s.ID = fmt.Sprintf("%.4s-%.2s-%.2s", s.ID, s.ID[4:], s.ID[6:])
			s.Name = s.ID
		}
		list = append(list, *s)
	}
	slices.SortFunc(list, func(a, b Sum) int {
		if q.By == "day" {
			return cmp.Compare(a.ID, b.ID)
		}
		return cmp.Or(cmp.Compare(b.Total(), a.Total()), cmp.Compare(a.Account, b.Account), cmp.Compare(a.ID, b.ID))
	})
	return list, nil
}
