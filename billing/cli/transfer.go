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
	"farebox/providers/x402/chainclient"
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
	State       string       `json:"state,omitempty"` // of its payment; empty if absent
}

func (f *operatorFlags) listTransfers() *cobra.Command {
	var network string
	var since, until time.Duration
	var all bool
	cmd := &cobra.Command{
		Use: "transfers -c FILE", Short: "List transfers to pay_to that no account was credited for", Args: cobra.NoArgs,
		Long: `Asks the nodes of the config for token transfers to pay_to, and lists the transfers without a payment: plain
transfers, payments that somebody else settled, and payments that a restored backup does not contain. farebox wallet
assign credits one. The list is the answer of one node; assign asks all witnesses.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if since <= until || until < 0 || since > maxScan {
				return fmt.Errorf("cannot list transfers since %s until %s ago: expected since at most %s, and longer ago "+
					"than until", since, until, maxScan)
			}
			return f.beforeChain(cmd, func(ctx context.Context, d *chainclient.Client) error {
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
	cmd.Flags().DurationVar(&since, "since", 24*time.Hour, "start of the period, before now")
	cmd.Flags().DurationVar(&until, "until", 0, "end of the period, before now")
	cmd.Flags().BoolVar(&all, "all", false, "also transfers that have a payment")
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

func (f *operatorFlags) printTransfers(cmd *cobra.Command, list []chainclient.Transfer, all bool) error {
	infos, rows := []transferInfo{}, [][]string{}
	err := f.with(func(op billing.Operator) error {
		for i := range list {
			t := &list[i]
			info := transferInfo{Transaction: t.Transaction, Index: t.Index, Network: t.Payment.Network, At: t.Time,
				Payer: t.From, Units: t.Units, Amount: t.Payment.Amount, Signed: t.Nonce != "", PaymentID: t.Payment.ID}
			switch p, err := billing.Do(op, billing.GetPayment{ID: info.PaymentID}); {
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
		Long: `Credits a transfer from the list of farebox wallet transfers. All witnesses of the config must have it, at the
depth that payments need. It becomes a payment: a second attempt to send or assign it credits nothing, and farebox
reverses it if the chain loses it. The payment stores the operator and the reason.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			to := args[1]
			if a, err := wallet.ParseAddress(to); err == nil {
				to = a.String()
			}
			return f.beforeChain(cmd, func(ctx context.Context, d *chainclient.Client) error {
				p, found, err := d.Proven(ctx, network, args[0], index)
				if err != nil {
					return fmt.Errorf("cannot assign the transaction: %w", err)
				}
				return f.with(func(op billing.Operator) error {
					info, err := billing.Do(op, billing.AssignPayment{Payment: billing.ProvenPayment{ID: p.ID, Network: p.Network, Asset: p.Asset,
						Payer: p.Wallet, Units: p.Units, Amount: p.Amount, Order: p.Order,
						Transaction: found.Transaction, Final: found.Final}, To: to, By: by, Reason: reason})
					if err != nil {
						return err
					}
					return f.printPayment(cmd, info)
				})
			})
		},
	}
	cmd.Flags().StringVar(&network, "network", "base", "of x402.networks")
	cmd.Flags().IntVar(&index, "index", -1, "index of the transfer, if the transaction has several to pay_to")
	cmd.Flags().StringVar(&reason, "reason", "", "reason, stored with the payment")
	cmd.Flags().StringVar(&by, "by", whoami(), "name of the operator, stored with the payment")
	_ = cmd.MarkFlagRequired("reason")
	return cmd
}

// beforeChain gives a command the chains of the config that it names.
func (f *operatorFlags) beforeChain(cmd *cobra.Command, do func(context.Context, *chainclient.Client) error) error {
	if f.file == "" {
		return errors.New("no RPC nodes are known: name the config by -c FILE")
	}
	cfg, err := config.Load(f.file)
	if err != nil {
		return err
	}
	if cfg.X402 == nil {
		return fmt.Errorf("%s has no x402 section: it takes no payments", f.file)
	}
	d, done, err := chainclient.Alone(cfg)
	if err != nil {
		return err
	}
	defer done()
	ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	return do(ctx, d)
}
