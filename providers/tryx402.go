package providers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"farebox/config"
	"farebox/providers/x402"
	"farebox/providers/x402/chainclient"
)

// maxKeyFile is far more than a private key has.
const maxKeyFile = 4 << 10

// x402Command is `farebox x402`.
func x402Command() *cobra.Command {
	cmd := &cobra.Command{Use: "x402", Short: "Test wallet payments", Args: cobra.NoArgs}
	cmd.AddCommand(x402TestCommand())
	return cmd
}

func x402TestCommand() *cobra.Command {
	var file, network, keyFile, amount string
	cmd := &cobra.Command{
		Use:   "test -c FILE --network base [--key-file FILE]",
		Short: "Ask facilitators for their networks; with a wallet's key, pay a small real amount to pay_to",
		Long: "Asks the facilitators of a config for their networks. With --key-file it makes a real payment with each step " +
			"of a top-up: it signs, verifies and settles it, and finds it on the chain through the nodes of the config. " +
			"The money goes to pay_to, and no account is credited.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := config.Load(file)
			if err != nil {
				return err
			}
			if cfg.X402 == nil {
				return fmt.Errorf("cannot test payments: %s has no x402 section; config/examples/wallets.yaml shows one",
					file)
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			return tryX402(ctx, cmd.OutOrStdout(), cfg, network, keyFile, amount)
		},
	}
	cmd.Flags().StringVarP(&file, "config", "c", "", "config file (YAML)")
	cmd.Flags().StringVar(&network, "network", "base", "of x402.networks")
	cmd.Flags().StringVar(&keyFile, "key-file", "",
		"file with the private key of a wallet that has the amount: hexadecimal for EVM, a keypair for Solana; "+
			"default: pay nothing")
	cmd.Flags().StringVar(&amount, "amount", "0.01", "USD to pay")
	_ = cmd.MarkFlagRequired("config")
	return cmd
}

func tryX402(ctx context.Context, out io.Writer, cfg *config.Config, network, keyFile, amount string) error {
	d, done, err := chainclient.Alone(cfg)
	if err != nil {
		return fmt.Errorf("cannot test payments: %w", err)
	}
	defer done()
	if keyFile == "" {
		return askFacilitators(ctx, out, d, network)
	}
	key, err := readWalletKey(keyFile)
	if err != nil {
		return err
	}
	usd, err := config.ParseNano(amount)
	if err != nil || usd <= 0 || usd%x402.NanoPerUnit != 0 {
		return fmt.Errorf("cannot pay %q: expected an amount in USD with at most 6 decimals, such as 0.01", amount)
	}
	good := d.Try(ctx, network, key, int64(usd/x402.NanoPerUnit), func(s chainclient.Step) {
		if s.Err != nil {
			fmt.Fprintf(out, "  failed  %s: %v\n", s.Name, s.Err)
			return
		}
		fmt.Fprintf(out, "  ok      %s: %s\n", s.Name, s.Did)
	})
	if !good {
		return errors.New("the payment failed: see the failed step above")
	}
	fmt.Fprintln(out, "  payments work on "+network)
	return nil
}

func askFacilitators(ctx context.Context, out io.Writer, d *chainclient.Client, network string) error {
	n := d.Terms.Network(network)
	if n == nil {
		return fmt.Errorf("cannot ask about %q: it is not in x402.networks", network)
	}
	bad, all := 0, 0
	for name, err := range d.Facilitators.Ask(ctx, n.Name) {
		if all++; err != nil {
			bad++
			fmt.Fprintf(out, "  failed  %s: %v\n", name, err)
			continue
		}
		fmt.Fprintf(out, "  ok      %s takes payments on %s\n", name, n.Name)
	}
	if bad > 0 {
		return fmt.Errorf("%d of %d facilitators cannot be used on %s", bad, all, n.Name)
	}
	return nil
}

// readWalletKey reads a private key from a file, which nothing else shows: arguments
// are in lists of processes.
func readWalletKey(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", fmt.Errorf("cannot read the wallet's key: %w", err)
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, maxKeyFile))
	if err != nil {
		return "", fmt.Errorf("cannot read the wallet's key: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}
