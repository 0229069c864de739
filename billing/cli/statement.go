package cli

import (
	"encoding/csv"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"farebox/billing"
	"farebox/billing/money"
	"farebox/billing/report"
)

// statement has the movements of one balance of an account in a period.
type statement struct {
	Account  string                 `json:"account"`
	Currency string                 `json:"currency"`
	Opening  billing.Nano           `json:"opening"`
	Lines    []report.StatementLine `json:"lines"`
	Closing  billing.Nano           `json:"closing"`
}

func statementCommand() *cobra.Command {
	f := &operatorFlags{}
	var currency, from, to string
	var asCSV bool
	cmd := &cobra.Command{
		Use: "statement ACCOUNT", Short: "List the movements of an account, with the balance after each one",
		Args: cobra.ExactArgs(1),
		Long: `Lists charges, refunds, credits, debits, wallet payments and their reversals, DIEM grants, expired DIEM and paid
debt, by currency and in booking order.
Balances include holds and the leases of nodes. A charge takes at most the balance. The column OWED shows the rest,
and a DEBT line takes it when it is paid.
--from and --to are UTC days, both included. A request counts on the day of its end.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			q, err := statementQuery(args[0], from, to)
			if err != nil {
				return err
			}
			currencies := money.SpendOrder[:]
			if currency != "" {
				unit, err := billing.ParseCurrency(currency)
				if err != nil {
					return err
				}
				currencies = []billing.Currency{unit}
			}
			return f.with(func(op billing.Operator) error {
				var list []statement
				for _, unit := range currencies {
					q.Currency = unit
					s, err := readStatement(op, q)
					if err != nil {
						return err
					}
					if len(s.Lines) > 0 || s.Opening != 0 || currency != "" {
						list = append(list, s)
					}
				}
				if asCSV {
					return statementCSV(cmd, list)
				}
				return f.print(cmd, list, "CURRENCY TIME KIND AMOUNT BALANCE OWED MODEL REQUEST KEY REF REASON",
					statementTable(list))
			})
		},
	}
	cmd.Flags().StringVar(&currency, "currency", "", money.Expected+"; default: every currency that the account has used")
	cmd.Flags().StringVar(&from, "from", "", "first UTC day, YYYY-MM-DD; default: from the beginning")
	cmd.Flags().StringVar(&to, "to", "", "last UTC day, YYYY-MM-DD; default: up to now")
	cmd.Flags().BoolVar(&asCSV, "csv", false, "print CSV")
	return f.register(cmd)
}

func statementQuery(account, from, to string) (q report.StatementQuery, err error) {
	q.Account = account
	if from != "" {
		if q.From, err = day(from); err != nil {
			return q, fmt.Errorf("cannot read --from %q: write it as 2026-11-01", from)
		}
	}
	if to != "" {
		if q.To, err = day(to); err != nil {
			return q, fmt.Errorf("cannot read --to %q: write it as 2026-11-30", to)
		}
		q.To = q.To.AddDate(0, 0, 1)
	}
	if !q.To.IsZero() && !q.From.Before(q.To) {
		return q, fmt.Errorf("cannot list movements from %s to %s: the period ends before it begins", from, to)
	}
	return q, nil
}

// readStatement reads all parts of a statement.
func readStatement(op billing.Operator, q report.StatementQuery) (statement, error) {
	s := statement{Account: q.Account, Currency: q.Currency.String(), Lines: []report.StatementLine{}}
	for first := true; first || q.After > 0; first = false {
		part, err := billing.Do(op, billing.ReadStatement{StatementQuery: q})
		if err != nil {
			return s, err
		}
		if first {
			s.Opening, s.Closing = part.Opening, part.Opening
		}
		for i := range part.Lines {
			s.Closing += part.Lines[i].Amount
		}
		s.Lines, q.After = append(s.Lines, part.Lines...), part.Next
	}
	return s, nil
}

func statementTable(list []statement) (rows [][]string) {
	edge := func(s *statement, what string, n billing.Nano) {
		rows = append(rows, []string{s.Currency, "", what, "", n.String(), "", "", "", "", "", ""})
	}
	for i := range list {
		s := &list[i]
		edge(s, "opening", s.Opening)
		for j := range s.Lines {
			l := &s.Lines[j]
			rows = append(rows, []string{s.Currency, l.At.Format(time.RFC3339), l.Kind, l.Amount.String(), l.Balance.String(),
				owedText(l), l.Model, l.Request, l.Key, l.Ref, l.Reason})
		}
		edge(s, "closing", s.Closing)
	}
	return rows
}

func owedText(l *report.StatementLine) string {
	if l.Owed == 0 {
		return ""
	}
	return l.Owed.String()
}

func statementCSV(cmd *cobra.Command, list []statement) error {
	w := csv.NewWriter(cmd.OutOrStdout())
	rows := [][]string{{"currency", "time", "kind", "amount", "balance", "owed", "model", "request", "key", "ref", "memo", "reason"}}
	for i := range list {
		for j := range list[i].Lines {
			l := &list[i].Lines[j]
			rows = append(rows, []string{list[i].Currency, l.At.Format(time.RFC3339Nano), l.Kind, l.Amount.String(),
				l.Balance.String(), owedText(l), harmless(l.Model), l.Request, l.Key, harmless(l.Ref), harmless(l.Memo),
				harmless(l.Reason)})
		}
	}
	if err := w.WriteAll(rows); err != nil {
		return err
	}
	return w.Error()
}
