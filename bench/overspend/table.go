package overspend

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
)

// Row is the sum of all leavers of one liar at one endpoint, or of all rows.
type Row struct {
	Name   string `json:"name"`
	Sum    Cell   `json:"sum"`
	Leaver string `json:"worst_leaver,omitempty"` // where most was lost of a request
}

// Rows group the cells by endpoint and liar; the last row is the sum of all.
func (r *Result) Rows() []Row {
	var rows []Row
	for i, c := range r.Cells {
		if i > 0 && r.Cells[i-1].Endpoint == c.Endpoint && r.Cells[i-1].Liar == c.Liar {
			continue
		}
		row := Row{Name: c.Endpoint + " " + c.Liar, Sum: r.Sum(func(o *Cell) bool {
			return o.Endpoint == c.Endpoint &&
				o.Liar == c.Liar
		})}
		for _, o := range r.Cells {
			if o.Endpoint == c.Endpoint && o.Liar == c.Liar && o.Each > 0 && o.Each == row.Sum.Each {
				row.Leaver = o.Leaver
				break
			}
		}
		rows = append(rows, row)
	}
	return append(rows, Row{Name: "all", Sum: r.Sum(func(*Cell) bool { return true })})
}

// Head names the columns of Texts.
var Head = []string{"", "sent", "let through", "402", "failed", "made", "within caps", "charged", "owed", "above",
	"lost", "most a request", "by", "overdrawn"}

// Texts are a row's columns; money in USD.
func (r *Row) Texts() []string {
	s := &r.Sum
	charged, owed, above := USD(s.Charged), USD(s.Debt), USD(s.Above)
	lost, each, over := USD(s.Lost), USD(s.Each), USD(s.Overdraw)
	if !s.Known {
		charged, owed, above, lost, each, over = "unknown", "unknown", "unknown", "unknown", "unknown", "unknown"
	}
	n := func(v int64) string { return strconv.FormatInt(v, 10) }
	return []string{r.Name, n(s.Sent), n(s.Let), n(s.Refused), n(s.Failed), USD(s.Real), USD(s.Capped), charged, owed,
		above, lost, each, r.Leaver, over}
}

// USD is 1e-9 USD as text, with as many digits as it has.
func USD(nano int64) string {
	sign := ""
	if nano < 0 {
		sign, nano = "-", -nano
	}
	text := fmt.Sprintf("%s%d.%09d", sign, nano/1e9, nano%1e9)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}

// Print writes the rows for a terminal.
func (r *Result) Print(out io.Writer) {
	fmt.Fprintf(out, "%s: %d cells in %.1f s, %d requests at once, %s USD each", r.URL, len(r.Cells), r.Seconds,
		r.Concurrency, USD(r.Balance))
	if r.Limit > 0 {
		fmt.Fprintf(out, ", key limit %s USD", USD(r.Limit))
	}
	fmt.Fprintln(out)
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, strings.Join(Head, "\t"))
	for _, row := range r.Rows() {
		fmt.Fprintln(w, strings.Join(row.Texts(), "\t"))
	}
	_ = w.Flush()
}
