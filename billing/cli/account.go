package cli

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"farebox/billing"
)

// Account gives the commands that go below `farebox account`.
func (e *Env) Account() []*cobra.Command {
	return []*cobra.Command{
		e.show(), e.debit(),
		e.status("suspend", "Refuse an account's keys until it is resumed", billing.AccountSuspended,
			"Its keys are answered with 403 from the next request on; requests that are under way run on. Money and keys stay as they are."),
		e.status("resume", "Let a suspended account's keys in again", billing.AccountOpen, ""),
		e.status("close", "Close an account for good", billing.AccountClosed,
			"Its keys are answered with 403 from the next request on, on all nodes within a second; requests that are under way run on.\n"+
				"What it has and owes stays in the books and in `farebox account show`. A closed account takes no credit and cannot be opened again."),
	}
}

func (e *Env) show() *cobra.Command {
	return &cobra.Command{
		Use: "show ACCOUNT", Short: "Show what an account has, holds, has spent and owes, and whether it is open", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return e.With(func(op billing.Operator) error {
				list, err := op.Accounts()
				if err != nil {
					return err
				}
				for i := range list {
					if a := &list[i]; a.ID == args[0] || a.Name == args[0] {
						return e.Print(cmd, a, "", accountRows(a))
					}
				}
				return fmt.Errorf("cannot find the account %q: %w", args[0], billing.ErrNoAccount)
			})
		},
	}
}

func accountRows(a *billing.AccountInfo) [][]string {
	status := a.Status.String()
	if !a.StatusAt.IsZero() {
		status += " since " + a.StatusAt.Format(time.RFC3339)
	}
	return [][]string{
		{"account", a.Name}, {"id", a.ID}, {"status", status}, {"created", a.CreatedAt.Format(time.RFC3339)},
		{"USD", a.USD.String()}, {"DIEM", a.DIEM.String() + " today, " + a.Allowance.String() + " a day"}, {"bundled", a.Bundled.String()},
		{"leased to nodes", a.Leased.Total().String()}, {"held", a.Held.String()}, {"spent", a.Spent.String()},
		{"owed", a.Debt.String() + " USD"},
	}
}

func (e *Env) debit() *cobra.Command {
	var currency, ref, reason string
	var mayOwe bool
	cmd := &cobra.Command{
		Use: "debit ACCOUNT AMOUNT --ref REF --reason WHY", Short: "Take money out of an account, as a correction; the same --ref once", Args: cobra.ExactArgs(2),
		Long: `Takes money out of an account: a correction of the books, in no usage and no key's limit.
The balance never goes below zero: a debit of more than is free is refused, or, with --allow-debt,
takes what there is, and the account owes the rest: the next credit pays it first, and until then nothing is sold to it.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			n, unit, err := amount(args[1], currency)
			if err != nil {
				return err
			}
			return e.With(func(op billing.Operator) error {
				a, applied, err := op.Debit(args[0], unit, n, ref, reason, mayOwe)
				if err != nil {
					return err
				}
				state := "debited"
				if !applied {
					state = "already debited under this --ref; nothing changed"
				}
				return e.Print(cmd, map[string]any{"account": a.Name, "currency": unit.String(), "amount": n.String(), "applied": applied, "state": a}, "",
					append([][]string{{state, n.String() + " " + unit.String()}}, accountRows(&a)...))
			})
		},
	}
	cmd.Flags().StringVar(&currency, "currency", "USD", "USD, DIEM (of today) or BUNDLED_CREDITS")
	cmd.Flags().StringVar(&ref, "ref", "", "the case; a second debit with it changes nothing")
	cmd.Flags().StringVar(&reason, "reason", "", "why, kept with the entry")
	cmd.Flags().BoolVar(&mayOwe, "allow-debt", false, "let what the balance does not cover become debt")
	_ = cmd.MarkFlagRequired("ref")
	_ = cmd.MarkFlagRequired("reason")
	return PositiveAmounts(cmd)
}

func (e *Env) status(verb, short string, status billing.AccountStatus, long string) *cobra.Command {
	return &cobra.Command{
		Use: verb + " ACCOUNT", Short: short, Long: long, Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return e.With(func(op billing.Operator) error {
				a, err := op.SetStatus(args[0], status)
				if err != nil {
					return err
				}
				return e.Print(cmd, a, "", accountRows(&a))
			})
		},
	}
}
