package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"farebox/billing"
	"farebox/config"
	"farebox/providers/wallet"
	"farebox/providers/x402/chain"
	"farebox/providers/x402/desk"
)

// maxScan is how far back a list of transfers may begin.
const maxScan = 90 * 24 * time.Hour

// transferInfo is money that reached pay_to, as it is listed.
type transferInfo struct {
	Transaction string       `json:"transaction"`
	Index       int          `json:"index"`
	Network     string       `json:"network"`
	At          time.Time    `json:"at"`
	Payer       string       `json:"payer"`
	Units       int64        `json:"units"`
	Amount      billing.Nano `json:"amount"`
	Signed      bool         `json:"authorization"` // a signed authorization moved it
	PaymentID   string       `json:"paymentId"`
	State       string       `json:"state,omitempty"` // of its payment; empty: there is none
}

func (f *operatorFlags) listTransfers() *cobra.Command {
	var network string
	var since, until time.Duration
	var all bool
	cmd := &cobra.Command{
		Use: "transfers -c FILE", Short: "List money that reached pay_to and is nobody's yet", Args: cobra.NoArgs,
		Long: `Asks the nodes of the config which transfers of the token reached pay_to, and lists those that no payment is
of: plain transfers, payments that others settled, and what a restored backup has forgotten. farebox wallet assign
credits one. What is listed is the word of one node; assign asks all witnesses.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if since <= until || until < 0 || since > maxScan {
				return fmt.Errorf("cannot list transfers since %s until %s ago: expected since at most %s, and longer ago "+
					"than until", since, until, maxScan)
			}
			return f.beforeChain(cmd, func(ctx context.Context, d *desk.Desk) error {
				now := time.Now()
				list, err := d.Transfers(ctx, network, now.Add(-since), now.Add(-until), progress(cmd.ErrOrStderr()))
				if err != nil {
					return fmt.Errorf("cannot list transfers: %w", err)
				}
				return f.printTransfers(cmd, list, all)
			})
		},
	}
	cmd.Flags().StringVar(&network, "network", "base", "of x402.networks")
	cmd.Flags().DurationVar(&since, "since", 24*time.Hour, "how long ago to begin")
	cmd.Flags().DurationVar(&until, "until", 0, "how long ago to end")
	cmd.Flags().BoolVar(&all, "all", false, "also those that are payments already")
	return cmd
}

// progress tells how far a list has come, once a second.
func progress(out io.Writer) func(chain.Scan) {
	last := time.Now()
	return func(s chain.Scan) {
		if time.Since(last) < time.Second {
			return
		}
		last = time.Now()
		if s.All > 0 {
			fmt.Fprintf(out, "%d of %d blocks, %d transfers\n", s.Done, s.All, s.Found)
		} else {
			fmt.Fprintf(out, "%d signatures, %d transfers\n", s.Done, s.Found)
		}
	}
}

func (f *operatorFlags) printTransfers(cmd *cobra.Command, list []desk.Transfer, all bool) error {
	infos, rows := []transferInfo{}, [][]string{}
	err := f.with(func(op billing.Operator) error {
		for i := range list {
			t := &list[i]
			info := transferInfo{Transaction: t.Transaction, Index: t.Index, Network: t.Payment.Network, At: t.Time,
				Payer: t.From, Units: t.Units, Amount: t.Payment.Amount, Signed: t.Nonce != "", PaymentID: t.Payment.ID}
			switch p, err := op.PaymentOf(info.PaymentID); {
			case err == nil:
				info.State = p.State
			case !errors.Is(err, billing.ErrNoPayment):
				return err
			}
			if info.State != "" && !all {
				continue
			}
			infos = append(infos, info)
			state := "nobody's"
			if info.State != "" {
				state = info.PaymentID + " " + info.State
			}
			rows = append(rows, []string{info.Transaction, fmt.Sprint(info.Index), info.At.Format(time.RFC3339),
				info.Payer, info.Amount.String(), state})
		}
		return nil
	})
	if err != nil {
		return err
	}
	return f.print(cmd, infos, "TRANSACTION INDEX AT PAYER USD PAYMENT", rows)
}

func (f *operatorFlags) assignTransfer() *cobra.Command {
	var network, reason, by string
	var index int
	cmd := &cobra.Command{
		Use:   "assign TRANSACTION WALLET|ACCOUNT -c FILE --reason WHY",
		Short: "Credit money that reached pay_to to a wallet or an account", Args: cobra.ExactArgs(2),
		Long: `Credits a transfer that farebox wallet transfers lists, once all witnesses of the config have it and it is as
deep in the chain as any payment that is credited. It becomes a payment: whoever sends or assigns it again is credited
nothing, and it is taken back when the chain loses it. Who assigned it, and why, stands in the payment.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			to := args[1]
			if a, err := wallet.ParseAddress(to); err == nil {
				to = a.String()
			}
			return f.beforeChain(cmd, func(ctx context.Context, d *desk.Desk) error {
				p, found, err := d.Proven(ctx, network, args[0], index)
				if err != nil {
					return fmt.Errorf("cannot assign the transaction: %w", err)
				}
				return f.with(func(op billing.Operator) error {
					info, err := op.AssignPayment(billing.ProvenPayment{ID: p.ID, Network: p.Network, Asset: p.Asset,
						Payer: p.Wallet, Units: p.Units, Amount: p.Amount, Order: p.Order,
						Transaction: found.Transaction, Final: found.Final}, to, by, reason)
					if err != nil {
						return err
					}
					return f.printPayment(cmd, info)
				})
			})
		},
	}
	cmd.Flags().StringVar(&network, "network", "base", "of x402.networks")
	cmd.Flags().IntVar(&index, "index", -1, "which transfer, where the transaction has several to pay_to")
	cmd.Flags().StringVar(&reason, "reason", "", "why; the payment keeps it")
	cmd.Flags().StringVar(&by, "by", whoami(), "who assigns it")
	_ = cmd.MarkFlagRequired("reason")
	return cmd
}

// beforeChain gives a command the chains of the config that it names.
func (f *operatorFlags) beforeChain(cmd *cobra.Command, do func(context.Context, *desk.Desk) error) error {
	if f.file == "" {
		return errors.New("the nodes to ask are not known: name the config with -c FILE")
	}
	cfg, err := config.Load(f.file)
	if err != nil {
		return err
	}
	if cfg.X402 == nil {
		return fmt.Errorf("there is no x402 in %s, so that nothing is paid to it", f.file)
	}
	d, done, err := desk.Alone(cfg)
	if err != nil {
		return err
	}
	defer done()
	ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	return do(ctx, d)
}
