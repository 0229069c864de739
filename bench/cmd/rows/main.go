// Command rows fills a ledger of its own with made-up usage and times the
// billing reports on it. It is for developers and not part of farebox: pointed
// at a live ledger, its revenue would be in the books for good. It therefore
// takes only stores that have nothing but accounts of its own.
//
//	go run ./bench/cmd/rows --count 10000000 --store /tmp/rows
//	go run ./bench/cmd/rows --count 1000000 --store postgres://farebox@127.0.0.1:5432/rows
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"farebox/bench/cmd/rows/fill"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := command().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "rows: "+err.Error())
		os.Exit(1)
	}
}

func command() *cobra.Command {
	var o fill.Options
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "rows --count N --store STORE",
		Short: "Fill a ledger of its own with made-up usage and time the billing reports on it",
		Args:  cobra.NoArgs, SilenceUsage: true, SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.Store == "" {
				return errors.New("cannot fill a ledger without --store: give a directory of its own, or postgres://…")
			}
			last := -1
			o.Progress = func(done float64, line string) {
				if percent := int(done * 100); percent/10 > last/10 {
					last = percent
					fmt.Fprintln(cmd.ErrOrStderr(), line)
				}
			}
			res, err := fill.Run(cmd.Context(), o)
			switch {
			case err != nil:
				return err
			case asJSON:
				return json.NewEncoder(cmd.OutOrStdout()).Encode(res)
			}
			return res.Print(cmd.OutOrStdout())
		},
	}
	fl := cmd.Flags()
	fl.Int64Var(&o.Fill.Entries, "count", 1_000_000, "entries to write, about two and a half a request")
	fl.StringVar(&o.Store, "store", "",
		"directory of an embedded ledger, or postgres://…; new, or made by this command")
	fl.IntVar(&o.Fill.Keys, "keys", 20, "keys of the account, 1 to 500")
	fl.IntVar(&o.Fill.Models, "models", 20, "models, 1 to 1000")
	fl.IntVar(&o.Fill.Days, "days", 90, "days up to now over which the requests are spread, 1 to 3650")
	fl.Uint64Var(&o.Fill.Seed, "seed", 1, "the same seed makes up the same requests")
	fl.BoolVar(&asJSON, "json", false, "print the result as JSON")
	return cmd
}
