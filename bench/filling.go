package bench

import (
	"errors"

	"github.com/spf13/cobra"

	"farebox/bench/rows"
)

// rowsCommand is `farebox bench rows`.
func rowsCommand() *cobra.Command {
	var o rows.Options
	var json string
	var quiet bool
	cmd := &cobra.Command{
		Use:   "rows --count N --store STORE",
		Short: "Fill a ledger with made-up usage and measure the billing reports on it",
		Long: `Makes an account with --count entries of usage, spread over --days up to now,
and asks each billing report ten times. The books stay consistent: a recount
adds up. The store must not be in use by a server.`,
		Example: `  farebox bench rows --count 10000000 --store /tmp/rows
  farebox bench rows --count 1000000 --store postgres://farebox@127.0.0.1:5432/rows`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.Store == "" {
				return errors.New("cannot fill a ledger without --store: give a directory of its own, or postgres://…")
			}
			ctx, stop := interruptible(cmd)
			defer stop()
			bar := newBar(cmd.ErrOrStderr(), quiet)
			o.Progress = bar.show
			res, err := rows.Run(ctx, o)
			bar.done()
			if err != nil {
				return err
			}
			if json != "-" {
				if err := res.Print(cmd.OutOrStdout()); err != nil {
					return err
				}
			}
			return writeJSON(cmd.OutOrStdout(), json, res)
		},
	}
	fl := cmd.Flags()
	fl.Int64Var(&o.Fill.Entries, "count", 1_000_000, "entries to write, about two and a half a request")
	fl.StringVar(&o.Store, "store", "", "directory of an embedded ledger, or postgres://…")
	fl.IntVar(&o.Fill.Keys, "keys", 20, "keys of the account, 1 to 500")
	fl.IntVar(&o.Fill.Models, "models", 20, "models, 1 to 1000")
	fl.IntVar(&o.Fill.Days, "days", 90, "days up to now over which the requests are spread, 1 to 3650")
	fl.Uint64Var(&o.Fill.Seed, "seed", 1, "the same seed makes up the same requests")
	fl.StringVar(&json, "json", "", "file for the result as JSON; - for standard output")
	fl.BoolVar(&quiet, "quiet", false, "no progress bar")
	return cmd
}
