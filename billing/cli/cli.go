// Package cli is the operator's commands on a ledger beyond those of main.go.
// They work through a [billing.Operator]: on the ledger itself, through the
// control socket of the server that has it open, or on a shared store beside its
// nodes. What may not enter: anything that a request needs.
package cli

import (
	"fmt"
	"regexp"

	"github.com/spf13/cobra"

	"farebox/billing"
	"farebox/config"
)

// Env is what the commands need of the program: the store that its flags name,
// and how it prints.
type Env struct {
	With  func(do func(billing.Operator) error) error
	Print func(cmd *cobra.Command, v any, head string, rows [][]string) error
}

var negative = regexp.MustCompile(`unknown shorthand flag: '[0-9.]' in (-[0-9.]+)`)

// PositiveAmounts makes a command that takes an amount say what to do about one
// that is written with a minus, which flags begin with.
func PositiveAmounts(cmd *cobra.Command) *cobra.Command {
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
