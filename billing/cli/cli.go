// Package cli is the operator's commands on a ledger.
// They work through a [billing.Operator]: on the ledger itself, through the
// control socket of the server that has it open, or on a shared store beside its
// nodes. Out of scope: anything that a request needs.
package cli

import (
	"fmt"
	"regexp"

	"github.com/spf13/cobra"

	"farebox/billing"
	"farebox/config"
)

// Commands are the operator's.
func Commands() []*cobra.Command {
	return []*cobra.Command{accountCommand(), keyCommand(), usageCommand(), statementCommand(), nodeCommand(), characterCommand(),
		jobCommand(), walletCommand(), operatorCommand(), verifyCommand(), backupCommand(), restoreCommand(), migrateCommand(),
		demoCommand()}
}

var negative = regexp.MustCompile(`unknown shorthand flag: '[0-9.]' in (-[0-9.]+)`)

// positiveAmounts makes a command that takes an amount say what to do about one
// that is written with a minus, which flags begin with.
func positiveAmounts(cmd *cobra.Command) *cobra.Command {
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if found := negative.FindStringSubmatch(err.Error()); found != nil {
			return fmt.Errorf("cannot use the amount %s: amounts are positive; to take money out of an account use: "+
				"farebox account debit ACCOUNT AMOUNT --ref REF --reason WHY", found[1])
		}
		return err
	})
	return cmd
}

// amount reads an amount and its currency as they are given.
func amount(text, currency string) (n billing.Nano, unit billing.Currency, err error) {
	if n, err = config.ParseNano(text); err != nil {
		return 0, 0, fmt.Errorf("cannot read the amount %q: it %w; write it as 100 or 0.25", text, err)
	}
	unit, err = billing.ParseCurrency(currency)
	return n, unit, err
}

// Explain notes when a command line was understood, so that one that was not is
// answered with the usage; and makes a group such as `farebox key` refuse commands that
// it does not have, which would otherwise end with success.
func Explain(cmd *cobra.Command, begun *bool) {
	if run := cmd.RunE; run != nil {
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			*begun = true
			return run(cmd, args)
		}
	} else if cmd.HasSubCommands() && cmd.HasParent() && cmd.Run == nil {
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return fmt.Errorf("unknown command %q for %q", args[0], cmd.CommandPath())
			}
			return cmd.Help()
		}
	}
	for _, sub := range cmd.Commands() {
		Explain(sub, begun)
	}
}
