package cli

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"farebox/billing"
	"farebox/billing/money"
	"farebox/config"
)

func (f *operatorFlags) show() *cobra.Command {
	return &cobra.Command{
		Use: "show ACCOUNT", Short: "Show an account's balances, holds, spending, debt and status",
		Args: cobra.ExactArgs(1),
		RunE: f.on(func(cmd *cobra.Command, op billing.Operator, args []string) error {
			list, err := billing.All(op, billing.ListAccounts{})
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
		Short: "Remove money from an account, as a correction; a --ref applies once", Args: cobra.ExactArgs(2),
		Long: `Removes money from an account to correct the books. A debit does not count as usage or against a key's limit.
The balance never goes below zero. A debit above the free balance is refused. With --allow-debt it takes the free
balance, and the rest becomes debt: the next credit pays it first, and until then the account cannot buy anything.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			n, unit, err := amount(args[1], currency)
			if err != nil {
				return err
			}
			return f.with(func(op billing.Operator) error {
				debited, err := billing.Do(op, billing.DebitAccount{MayOwe: mayOwe, CreditAccount: billing.CreditAccount{
					Account: args[0], Currency: unit, Amount: n, Ref: ref, Memo: reason}})
				if err != nil {
					return err
				}
				a, applied := debited.Info, debited.Applied
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
	cmd.Flags().StringVar(&ref, "ref", "", "reference of the case; a second debit with it changes nothing")
	cmd.Flags().StringVar(&reason, "reason", "", "reason, stored with the entry")
	cmd.Flags().BoolVar(&mayOwe, "allow-debt", false, "turn the uncovered part into debt")
	_ = cmd.MarkFlagRequired("ref")
	_ = cmd.MarkFlagRequired("reason")
	return positiveAmounts(cmd)
}

func (f *operatorFlags) status(verb, short string, change func(account string) accountOperation, long string) *cobra.Command {
	return &cobra.Command{
		Use: verb + " ACCOUNT", Short: short, Long: long, Args: cobra.ExactArgs(1),
		RunE: f.on(func(cmd *cobra.Command, op billing.Operator, args []string) error {
			a, err := billing.Do(op, change(args[0]))
			if err != nil {
				return err
			}
			return f.print(cmd, a, "", accountRows(&a))
		}),
	}
}

type accountOperation = billing.Operation[billing.AccountInfo]

func suspendAccount(account string) accountOperation { return billing.SuspendAccount{Account: account} }

func resumeAccount(account string) accountOperation { return billing.ResumeAccount{Account: account} }

func closeAccount(account string) accountOperation {
	return billing.CloseAccount{Account: account, WithBalance: true}
}

func accountCommand() *cobra.Command {
	var f operatorFlags
	cmd := &cobra.Command{Use: "account",
		Short: "Create, list, credit, debit, suspend and close accounts; the server may be running"}
	f.register(cmd)

	var name string
	create := &cobra.Command{
		Use: "create --name NAME", Short: "Create an account", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.making(func(op billing.Operator) error {
				a, err := billing.Do(op, billing.CreateAccount{Name: name})
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
		Long: `Lists accounts with their spendable balances, the holds of open requests (HELD), their spending and their debt.
DEBT is the cost of requests beyond what could be charged: the next credit pays it first, and until then the account
cannot buy anything.
On a shared store, LEASED is the money that nodes have leased, including their holds, over all currencies.
The columns before it show the rest. --json lists leases by currency.`,
		RunE: f.on(func(cmd *cobra.Command, op billing.Operator, _ []string) error {
			accounts, err := billing.All(op, billing.ListAccounts{})
			if err != nil {
				return err
			}
			const head = "NAME ID USD DIEM DAILY BUNDLED LEASED HELD SPENT DEBT STATUS"
			return printList(&f, cmd, accounts, head, func(a *billing.AccountInfo) []string {
				return []string{a.Name, a.ID, a.USD.String(), a.DIEM.String(), a.Allowance.String(),
					a.Bundled.String(), a.Leased.Total().String(), a.Held.String(), a.Spent.String(),
					a.Debt.String(), a.Status.String()}
			})
		}),
	}

	refund := f.credit("refund", func(op billing.Operator, q billing.CreditAccount) (billing.Credited, error) {
		return billing.Do(op, billing.RefundAccount(q))
	}, &cobra.Command{
		Use:   "refund ACCOUNT AMOUNT --ref REF",
		Short: "Refund a request in the currency of its charge; a --ref applies once",
	}, "currency of the charge: "+money.Expected+"; refunded DIEM count for today",
		"reference of the request or case; a second refund with it changes nothing")
	_ = refund.MarkFlagRequired("ref")
	cmd.AddCommand(create, list, f.credit("credit", func(op billing.Operator, q billing.CreditAccount) (billing.Credited, error) {
		return billing.Do(op, q)
	}, &cobra.Command{
		Use: "credit ACCOUNT AMOUNT", Short: "Add money to an account; a --ref applies once",
	}, money.Expected, "reference of the payment; a second credit with it changes nothing"),
		refund, diemCommand(&f), f.show(), f.debit(),
		f.status("suspend", "Refuse an account's keys until you resume it", suspendAccount,
			"Its keys get 403 from the next request on. Running requests finish. Money and keys stay unchanged."),
		f.status("resume", "Accept a suspended account's keys again", resumeAccount, ""),
		f.status("close", "Close an account for good", closeAccount,
			"Its keys get 403 from the next request on, on all nodes within a second. Running requests finish.\n"+
				"Its balance and debt stay in the books and in `farebox account show`. A closed account accepts no "+
				"credit and cannot be reopened."))
	return cmd
}

// credit makes a command of credit or refund, which give an account money.
func (f *operatorFlags) credit(verb string, give func(billing.Operator, billing.CreditAccount) (billing.Credited, error),
	cmd *cobra.Command, ofCurrency, ofRef string) *cobra.Command {
	var currency, ref, memo string
	cmd.Args = cobra.ExactArgs(2)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		n, unit, err := amount(args[1], currency)
		if err != nil {
			return err
		}
		return f.with(func(op billing.Operator) error {
			credited, err := give(op, billing.CreditAccount{Account: args[0], Currency: unit, Amount: n, Ref: ref, Memo: memo})
			if err != nil {
				return err
			}
			state := verb + "ed"
			if !credited.Applied {
				state = "already " + state + " under this --ref; nothing changed"
			}
			return f.print(cmd, map[string]any{"account": args[0], "currency": unit.String(), "amount": n.String(),
				"balance": credited.Balance.String(), "applied": credited.Applied}, "", [][]string{
				{state, n.String() + " " + unit.String()}, {"balance", credited.Balance.String() + " " + unit.String()}})
		})
	}
	cmd.Flags().StringVar(&currency, "currency", "USD", ofCurrency)
	cmd.Flags().StringVar(&ref, "ref", "", ofRef)
	cmd.Flags().StringVar(&memo, "memo", "", "note, stored with the entry")
	return positiveAmounts(cmd)
}

func diemCommand(f *operatorFlags) *cobra.Command {
	var daily string
	diem := &cobra.Command{
		Use: "diem ACCOUNT --daily AMOUNT", Short: "Grant an account DIEM for each UTC day; unused DIEM expire with the day",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			amount, err := config.ParseNano(daily)
			if err != nil {
				return fmt.Errorf("cannot read --daily %q: it %w; write it as 10 or 0.5, or 0 for none", daily, err)
			}
			return f.with(func(op billing.Operator) error {
				a, err := billing.Do(op, billing.SetAllowance{Account: args[0], Daily: amount})
				if err != nil {
					return err
				}
				return f.print(cmd, map[string]any{"account": a.Name, "id": a.ID, "diem_daily": amount.String()}, "",
					[][]string{{"account", a.Name}, {"allowance", amount.String() + " DIEM a day, from 00:00 UTC"},
						{"", "a first allowance takes effect at once, a change on the next day"}})
			})
		},
	}
	diem.Flags().StringVar(&daily, "daily", "", "DIEM of each day: 0 for none, or at least 0.1")
	_ = diem.MarkFlagRequired("daily")
	return diem
}
