package cli

import (
	"encoding/csv"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"farebox/billing"
	"farebox/billing/money"
	"farebox/billing/report"
)

func usageCommand() *cobra.Command {
	f := &operatorFlags{}
	var account, from, to, by string
	var asCSV bool
	cmd := &cobra.Command{
		Use: "usage", Short: "Report usage across accounts, by account, model, upstream, key or day", Args: cobra.NoArgs,
		Long: `Adds up requests, tokens and costs of the UTC days --from to --to, both included.
UNITS are pictures and blockchain credits. Sums are net. A refund counts on its own day, under the model and key of
its charge, so a day may be negative. A request's debt counts on the day of its payment.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			q, err := usageQuery(account, from, to, by, time.Now().UTC())
			if err != nil {
				return err
			}
			return f.with(func(op billing.Operator) error {
				list, err := billing.Do(op, billing.ReportUsage{SumQuery: q})
				if err != nil {
					return err
				}
				rows := make([][]string, len(list))
				for i := range list {
					rows[i] = usageRow(&list[i], q.By)
				}
				head := usageHead(q.By)
				if !asCSV {
					return f.print(cmd, list, strings.ToUpper(strings.Join(head, " ")), rows)
				}
				w := csv.NewWriter(cmd.OutOrStdout())
				for _, row := range append([][]string{head}, rows...) {
					for i := range row {
						row[i] = harmless(row[i])
					}
					if err := w.Write(row); err != nil {
						return err
					}
				}
				w.Flush()
				return w.Error()
			})
		},
	}
	cmd.Flags().StringVar(&account, "account", "", "only this account (name or id)")
	cmd.Flags().StringVar(&from, "from", "", "first UTC day, YYYY-MM-DD; default: the first of this month")
	cmd.Flags().StringVar(&to, "to", "", "last UTC day, YYYY-MM-DD; default: today")
	cmd.Flags().StringVar(&by, "by", "account", "account, model, upstream, key or day")
	cmd.Flags().BoolVar(&asCSV, "csv", false, "print CSV")
	return f.register(cmd)
}

func usageQuery(account, from, to, by string, now time.Time) (q report.SumQuery, err error) {
	today := now.Truncate(24 * time.Hour)
	q = report.SumQuery{Account: account, From: today.AddDate(0, 0, 1-today.Day()), To: today, By: by}
	for _, d := range []struct {
		flag, text string
		into       *time.Time
	}{{"--from", from, &q.From}, {"--to", to, &q.To}} {
		if d.text == "" {
			continue
		}
		if *d.into, err = day(d.text); err != nil {
			return q, fmt.Errorf("cannot read %s %q: write it as 2026-11-30", d.flag, d.text)
		}
	}
	return q, nil
}

func usageHead(by string) []string {
	head := []string{by}
	if by == "key" {
		head = []string{"key", "account", "description"}
	}
	return append(append(head, "requests", "input", "output", "units"), money.Shorts...)
}

func usageRow(s *report.Sum, by string) []string {
	row := []string{s.Name}
	if by == "key" {
		row = []string{s.ID, s.Account, s.Name}
	}
	row = append(row, fmt.Sprint(s.Requests), fmt.Sprint(s.Input), fmt.Sprint(s.Output), fmt.Sprint(s.Units))
	return append(row, s.Texts()...)
}

// harmless keeps a spreadsheet from running an account's name as a formula.
func harmless(text string) string {
	if text != "" && strings.ContainsRune("=+-@\t\r", rune(text[0])) {
		return "'" + text
	}
	return text
}
