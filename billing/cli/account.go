package cli

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"farebox/billing"
	"farebox/billing/store"
	"farebox/config"
)

func (f *operatorFlags) show() *cobra.Command {
	return &cobra.Command{
		Use: "show ACCOUNT", Short: "Show what an account has, holds, has spent and owes, and whether it is open",
		Args: cobra.ExactArgs(1),
		RunE: f.on(func(cmd *cobra.Command, op billing.Operator, args []string) error {
			list, err := op.Accounts()
			if err != nil {
				return err
			}
			for i := range list {
				if a := &list[i]; a.ID == args[0] || a.Name == args[0] {
					return f.print(cmd, a, "", accountRows(a))
				}
			}
			return fmt.Errorf("cannot find the account %q: %w", args[0], billing.ErrNoAccount)
		}),
	}
}

func accountRows(a *billing.AccountInfo) [][]string {
	status := a.Status.String()
	if !a.StatusAt.IsZero() {
		status += " since " + a.StatusAt.Format(time.RFC3339)
	}
	return [][]string{
		{"account", a.Name}, {"id", a.ID}, {"status", status}, {"created", a.CreatedAt.Format(time.RFC3339)},
		{"USD", a.USD.String()}, {"DIEM", a.DIEM.String() + " today, " + a.Allowance.String() + " a day"},
		{"bundled", a.Bundled.String()},
		{"leased to nodes", a.Leased.Total().String()}, {"held", a.Held.String()}, {"spent", a.Spent.String()},
		{"owed", a.Debt.String() + " USD"},
	}
}

func (f *operatorFlags) debit() *cobra.Command {
	var currency, ref, reason string
	var mayOwe bool
	cmd := &cobra.Command{
		Use:   "debit ACCOUNT AMOUNT --ref REF --reason WHY",
		Short: "Take money out of an account, as a correction; the same --ref once", Args: cobra.ExactArgs(2),
		Long: `Takes money out of an account: a correction of the books, in no usage and no key's limit.
The balance never goes below zero: a debit of more than is free is refused, or, with --allow-debt,
takes what there is, and the account owes the rest: the next credit pays it first, and until then nothing is sold to it.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			n, unit, err := amount(args[1], currency)
			if err != nil {
				return err
			}
			return f.with(func(op billing.Operator) error {
				a, applied, err := op.Debit(args[0], unit, n, ref, reason, mayOwe)
				if err != nil {
					return err
				}
				state := "debited"
				if !applied {
					state = "already debited under this --ref; nothing changed"
				}
				return f.print(cmd, map[string]any{"account": a.Name, "currency": unit.String(), "amount": n.String(),
					"applied": applied, "state": a}, "",
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
	return positiveAmounts(cmd)
}

func (f *operatorFlags) status(verb, short string, status store.AccountStatus, long string) *cobra.Command {
	return &cobra.Command{
		Use: verb + " ACCOUNT", Short: short, Long: long, Args: cobra.ExactArgs(1),
		RunE: f.on(func(cmd *cobra.Command, op billing.Operator, args []string) error {
			a, err := op.SetStatus(args[0], status)
			if err != nil {
				return err
			}
			return f.print(cmd, a, "", accountRows(&a))
		}),
	}
}

func accountCommand() *cobra.Command {
	var f operatorFlags
	cmd := &cobra.Command{Use: "account",
		Short: "Create, list, credit, debit, suspend and close accounts, also beside a running server"}
	f.register(cmd)

	var name string
	create := &cobra.Command{
		Use: "create --name NAME", Short: "Create an account", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.making(func(op billing.Operator) error {
				a, err := op.CreateAccount(name)
				if err != nil {
					return err
				}
				return f.print(cmd, a, "", [][]string{{"account", a.Name}, {"id", a.ID},
					{"next:", Program() + " account credit " + quoted(a.Name) + " 100" + f.given()}})
			})
		},
	}
	create.Flags().StringVar(&name, "name", "", "name of the account, unique")
	_ = create.MarkFlagRequired("name")

	list := &cobra.Command{
		Use: "list", Short: "List accounts with their balances", Args: cobra.NoArgs,
		Long: `Lists accounts with what they can spend, what open requests have set aside (HELD), what they have spent,
and what they owe for requests that cost more than could be charged (DEBT): the next credit pays it first, and until then nothing is sold.
On a shared store LEASED is what nodes have taken to spend from, what they set aside included, in all currencies together;
the columns before it are what is left beside that. --json has it by currency.`,
		RunE: f.on(func(cmd *cobra.Command, op billing.Operator, _ []string) error {
			accounts, err := op.Accounts()
			if err != nil {
				return err
			}
			rows := make([][]string, len(accounts))
			for i, a := range accounts {
				rows[i] = []string{a.Name, a.ID, a.USD.String(), a.DIEM.String(), a.Allowance.String(),
					a.Bundled.String(), a.Leased.Total().String(), a.Held.String(), a.Spent.String(),
					a.Debt.String(), a.Status.String()}
			}
			return f.print(cmd, accounts, "NAME ID USD DIEM DAILY BUNDLED LEASED HELD SPENT DEBT STATUS", rows)
		}),
	}

	refund := f.credit("refund", (billing.Operator).Refund, &cobra.Command{
		Use:   "refund ACCOUNT AMOUNT --ref REF",
		Short: "Give back what a request cost, in the currency that it was charged in; the same --ref once",
	}, "what was charged: USD, DIEM or BUNDLED_CREDITS; DIEM come back as today's",
		"the request or case; a second refund with it changes nothing")
	_ = refund.MarkFlagRequired("ref")
	cmd.AddCommand(create, list, f.credit("credit", (billing.Operator).Credit, &cobra.Command{
		Use: "credit ACCOUNT AMOUNT", Short: "Add money to an account; the same --ref is applied once",
	}, "USD, DIEM or BUNDLED_CREDITS", "reference of the payment; a second credit with it changes nothing"),
		refund, diemCommand(&f), f.show(), f.debit(),
		f.status("suspend", "Refuse an account's keys until it is resumed", store.AccountSuspended,
			"Its keys are answered with 403 from the next request on; requests that are under way run on. Money and "+
				"keys stay as they are."),
		f.status("resume", "Let a suspended account's keys in again", store.AccountOpen, ""),
		f.status("close", "Close an account for good", store.AccountClosed,
			"Its keys are answered with 403 from the next request on, on all nodes within a second; requests that "+
				"are under way run on.\n"+
				"What it has and owes stays in the books and in `farebox account show`. A closed account takes no "+
				"credit and cannot be opened again."))
	return cmd
}

// credit makes a command of credit or refund, which give an account money.
func (f *operatorFlags) credit(verb string, give func(op billing.Operator, account string, currency billing.Currency,
	amount billing.Nano, ref, memo string) (billing.Nano, bool, error), cmd *cobra.Command, ofCurrency, ofRef string,
) *cobra.Command {
	var currency, ref, memo string
	cmd.Args = cobra.ExactArgs(2)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		n, unit, err := amount(args[1], currency)
		if err != nil {
			return err
		}
		return f.with(func(op billing.Operator) error {
			balance, applied, err := give(op, args[0], unit, n, ref, memo)
			if err != nil {
				return err
			}
			state := verb + "ed"
			if !applied {
				state = "already " + state + " under this --ref; nothing changed"
			}
			return f.print(cmd, map[string]any{"account": args[0], "currency": unit.String(), "amount": n.String(),
				"balance": balance.String(), "applied": applied}, "", [][]string{
				{state, n.String() + " " + unit.String()}, {"balance", balance.String() + " " + unit.String()}})
		})
	}
	cmd.Flags().StringVar(&currency, "currency", "USD", ofCurrency)
	cmd.Flags().StringVar(&ref, "ref", "", ofRef)
	cmd.Flags().StringVar(&memo, "memo", "", "note kept with the entry")
	return positiveAmounts(cmd)
}

func diemCommand(f *operatorFlags) *cobra.Command {
	var daily string
	diem := &cobra.Command{
		Use: "diem ACCOUNT --daily AMOUNT", Short: "Give an account DIEM for each UTC day; what a day leaves is lost",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			amount, err := config.ParseNano(daily)
			if err != nil {
				return fmt.Errorf("cannot read --daily %q: it %w; write it as 10 or 0.5, or 0 for none", daily, err)
			}
			return f.with(func(op billing.Operator) error {
				a, err := op.SetAllowance(args[0], amount)
				if err != nil {
					return err
				}
				return f.print(cmd, map[string]any{"account": a.Name, "id": a.ID, "diemDaily": amount.String()}, "",
					[][]string{{"account", a.Name}, {"allowance", amount.String() + " DIEM a day, from 00:00 UTC"},
						{"", "a first allowance counts at once, a change from the next day on"}})
			})
		},
	}
	diem.Flags().StringVar(&daily, "daily", "", "DIEM of each day: 0 for none, or at least 0.1")
	_ = diem.MarkFlagRequired("daily")
	return diem
}
