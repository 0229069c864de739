package cli

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"farebox/billing"
	"farebox/providers/wallet"
)

func walletCommand() *cobra.Command {
	f := &operatorFlags{}
	cmd := &cobra.Command{Use: "wallet",
		Short: "List wallets and their payments, link wallets to accounts; the server may be running"}
	cmd.AddCommand(f.listWallets(), f.showWallet(), f.listPayments(), f.showPayment(), f.resolvePayment(),
		f.listTransfers(), f.assignTransfer(), f.linkWallet(), f.unlinkWallet())
	return f.register(cmd)
}

// addressOf reads a wallet's address as accounts are named.
func addressOf(text string) (string, error) {
	a, err := wallet.ParseAddress(text)
	if err != nil {
		return "", fmt.Errorf("cannot use the wallet %q: it %w", text, err)
	}
	return a.String(), nil
}

func (f *operatorFlags) listWallets() *cobra.Command {
	var most int
	cmd := &cobra.Command{
		Use: "list", Short: "List wallets with the accounts that they spend from", Args: cobra.NoArgs,
		RunE: f.on(func(cmd *cobra.Command, op billing.Operator, _ []string) error {
			list, err := billing.All(op, billing.ListWallets{Page: billing.Page{Limit: most}})
			if err != nil {
				return err
			}
			const head = "WALLET ACCOUNT STATUS USD DEBT PENDING"
			return printList(f, cmd, list, head, func(w *billing.WalletInfo) []string {
				account := "its own"
				if w.Linked {
					account = w.Account.Name
				}
				return []string{w.Address, account, w.Account.Status.String(),
					(w.Account.USD + w.Account.Leased.USD + w.Account.Held).String(), w.Account.Debt.String(),
					fmt.Sprint(w.Pending)}
			})
		}),
	}
	cmd.Flags().IntVar(&most, "limit", 100, "how many, at most 10000")
	return cmd
}

func (f *operatorFlags) showWallet() *cobra.Command {
	return &cobra.Command{
		Use: "show WALLET", Short: "Show a wallet and the account that it spends from", Args: cobra.ExactArgs(1),
		RunE: f.on(func(cmd *cobra.Command, op billing.Operator, args []string) error {
			address, err := addressOf(args[0])
			if err != nil {
				return err
			}
			w, err := billing.Do(op, billing.GetWallet{Address: address})
			if errors.Is(err, billing.ErrNoAccount) {
				err = fmt.Errorf("%w; it was never credited or linked", err)
			}
			if err != nil {
				return err
			}
			rows := [][]string{{"wallet", w.Address}, {"account", w.Account.Name}, {"status", w.Account.Status.String()}}
			if w.Linked {
				rows = append(rows, []string{"linked", w.Since.Format(time.RFC3339) + " by " + w.By})
			}
			rows = append(rows, []string{"USD", w.Account.USD.String()}, []string{"leased", w.Account.Leased.USD.String()},
				[]string{"held", w.Account.Held.String()}, []string{"spent", w.Account.Spent.String()},
				[]string{"debt", w.Account.Debt.String()}, []string{"pending payments", fmt.Sprint(w.Pending)})
			return f.print(cmd, w, "", rows)
		}),
	}
}

func (f *operatorFlags) listPayments() *cobra.Command {
	var of string
	var open bool
	var most int
	cmd := &cobra.Command{
		Use: "payments", Short: "List payments of wallets, newest first", Args: cobra.NoArgs,
		Long: `Lists payments by state:
submitted: a facilitator may have it, and the chain has no result yet
refused: the payer got a refusal; farebox watches it until the chain can no longer accept it
credited: the chain has it; farebox checks it again at the final depth
final: the check at the final depth succeeded
dead: the chain will never accept it`,
		RunE: f.on(func(cmd *cobra.Command, op billing.Operator, _ []string) error {
			if of != "" {
				address, err := addressOf(of)
				if err != nil {
					return err
				}
				of = address
			}
			list, err := billing.All(op, billing.ListPayments{Wallet: of, Open: open, Page: billing.Page{Limit: most}})
			if err != nil {
				return err
			}
			const head = "ID WALLET NETWORK USD STATE CREATED TRANSACTION REASON"
			return printList(f, cmd, list, head, func(p *billing.PaymentInfo) []string {
				return []string{p.ID, p.Wallet, p.Network, p.Amount.String(), p.State, p.CreatedAt.Format(time.RFC3339),
					cmp.Or(p.Transaction, "-"), cmp.Or(p.Reason, "-")}
			})
		}),
	}
	cmd.Flags().StringVar(&of, "wallet", "", "only payments of this wallet")
	cmd.Flags().BoolVar(&open, "pending", false, "only payments without an outcome")
	cmd.Flags().IntVar(&most, "limit", 100, "how many, at most 10000")
	return cmd
}

func (f *operatorFlags) showPayment() *cobra.Command {
	return &cobra.Command{
		Use: "payment ID", Short: "Show a payment", Args: cobra.ExactArgs(1),
		RunE: f.on(func(cmd *cobra.Command, op billing.Operator, args []string) error {
			p, err := billing.Do(op, billing.GetPayment{ID: args[0]})
			if err != nil {
				return advisePayment(err)
			}
			return f.printPayment(cmd, p)
		}),
	}
}

func (f *operatorFlags) resolvePayment() *cobra.Command {
	var reason, by string
	cmd := &cobra.Command{
		Use:   "resolve ID credit|drop --reason WHY",
		Short: "Resolve a payment with an unknown outcome", Args: cobra.ExactArgs(2),
		Long: `Resolves a submitted or refused payment that has no result on the chain. Without this command farebox waits for the
chain. "credit" credits the payment once and ends the checks. "drop" ends it without a credit, whatever the chain says
later: check the chain first. The payment stores the operator and the reason.`,
		RunE: f.on(func(cmd *cobra.Command, op billing.Operator, args []string) error {
			if args[1] != "credit" && args[1] != "drop" {
				return fmt.Errorf("cannot resolve a payment by %q: expected credit or drop", args[1])
			}
			p, err := billing.Do(op, billing.ResolvePayment{ID: args[0], Credit: args[1] == "credit", By: by, Reason: reason})
			if err != nil {
				return advisePayment(err)
			}
			return f.printPayment(cmd, p)
		}),
	}
	cmd.Flags().StringVar(&reason, "reason", "", "reason, stored with the payment")
	cmd.Flags().StringVar(&by, "by", whoami(), "name of the operator, stored with the payment")
	_ = cmd.MarkFlagRequired("reason")
	return cmd
}

// whoami is the operator's name on this machine.
func whoami() string { return cmp.Or(os.Getenv("SUDO_USER"), os.Getenv("USER"), "operator") }

func (f *operatorFlags) linkWallet() *cobra.Command {
	var by string
	cmd := &cobra.Command{
		Use: "link WALLET ACCOUNT", Short: "Link a wallet to an account: it pays for the account and spends from it", Args: cobra.ExactArgs(2),
		Long: `From now on payments of the wallet credit the account, and the wallet spends from the account after it signs in.
A wallet with its own money or debt is refused: it must spend or pay that first. A balance below 0.1 USD stays in
the wallet's own account until the link ends.`,
		RunE: f.on(func(cmd *cobra.Command, op billing.Operator, args []string) error {
			address, err := addressOf(args[0])
			if err != nil {
				return err
			}
			w, err := billing.Do(op, billing.LinkWallet{Address: address, Account: args[1], By: by})
			if errors.Is(err, billing.ErrLinked) {
				err = fmt.Errorf("%w; farebox wallet unlink ends the link", err)
			}
			if err != nil {
				return err
			}
			return f.print(cmd, w, "", [][]string{{"wallet", w.Address}, {"account", w.Account}, {"by", w.By}})
		}),
	}
	cmd.Flags().StringVar(&by, "by", whoami(), "name of the operator")
	return cmd
}

func (f *operatorFlags) unlinkWallet() *cobra.Command {
	return &cobra.Command{
		Use: "unlink WALLET", Short: "End a wallet's link to an account", Args: cobra.ExactArgs(1),
		Long: `Ends the link of a wallet. Past payments stay in the account that they credited.`,
		RunE: f.on(func(cmd *cobra.Command, op billing.Operator, args []string) error {
			address, err := addressOf(args[0])
			if err != nil {
				return err
			}
			if _, err := billing.Do(op, billing.UnlinkWallet{Address: address}); err != nil {
				return err
			}
			return f.print(cmd, map[string]string{"wallet": address}, "",
				[][]string{{"wallet", address}, {"account", "its own"}})
		}),
	}
}

func advisePayment(err error) error {
	if errors.Is(err, billing.ErrNoPayment) {
		return fmt.Errorf("%w; farebox wallet payments shows their ids", err)
	}
	return err
}

func (f *operatorFlags) printPayment(cmd *cobra.Command, p billing.PaymentInfo) error {
	rows := [][]string{{"id", p.ID}, {"wallet", p.Wallet}, {"network", p.Network}, {"asset", p.Asset},
		{"USD", p.Amount.String()}, {"state", p.State}, {"settle attempts", fmt.Sprint(p.Attempts)},
		{"node", fmt.Sprint(p.Node)}}
	add := func(name, value string) {
		if value != "" {
			rows = append(rows, []string{name, value})
		}
	}
	at := func(name string, t time.Time) {
		if !t.IsZero() {
			add(name, t.Format(time.RFC3339))
		}
	}
	add("account", p.AccountName)
	add("transaction", p.Transaction)
	add("reason", strings.TrimSpace(p.Code+" "+p.Reason))
	add("resolved", p.Resolved)
	if p.Epoch > 1 {
		add("taken back", fmt.Sprintf("%d times", p.Epoch-1))
	}
	at("created", p.CreatedAt)
	at("credited", p.CreditedAt)
	at("ended", p.EndedAt)
	at("next look", p.NextAt)
	at("busy until", p.BusyUntil)
	at("can be paid until", p.PayUntil)
	return f.print(cmd, p, "", rows)
}
