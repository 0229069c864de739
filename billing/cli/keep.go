package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"farebox/billing"
)

func verifyCommand() *cobra.Command {
	f := &operatorFlags{}
	cmd := &cobra.Command{
		Use: "verify", Short: "Recount the whole ledger and report everything that does not add up", Args: cobra.NoArgs,
		Long: `Adds up balances, double entry, daily usage, single requests and wallet payments independently, and compares the
sums. The server may be running. If it is stopped, the command also compares the journal and the state in memory.
Exits with status 1 on any difference.`,
		RunE: f.on(func(cmd *cobra.Command, op billing.Operator, _ []string) error {
			stop := showVerifying(cmd, op)
			r, err := billing.Do(op, billing.Verify{})
			stop()
			if err != nil {
				return fmt.Errorf("cannot recount the ledger: %w", err)
			}
			rows := [][]string{
				{"accounts", fmt.Sprint(r.Accounts)}, {"requests", fmt.Sprint(r.Requests)},
				{"jobs", fmt.Sprint(r.Jobs)}, {"payments", fmt.Sprint(r.Payments)},
				{"credited for them", r.Credited.String()},
				{"charged", r.Charged.String()}, {"shortfall", r.Shortfall.String()}, {"debt", r.Debt.String()},
				{"faults", fmt.Sprint(len(r.Faults))},
			}
			if err := f.print(cmd, r, "", rows); err != nil {
				return err
			}
			for _, fault := range r.Faults {
				fmt.Fprintln(cmd.ErrOrStderr(), "fault: "+fault)
			}
			if len(r.Faults) > 0 {
				return fmt.Errorf("the ledger does not add up: %d faults; stop the traffic, keep a copy, and "+
					"restore a backup or correct them", len(r.Faults))
			}
			return nil
		}),
	}
	return f.register(cmd)
}

// showVerifying shows on a terminal how far the recount is, until stop is called.
func showVerifying(cmd *cobra.Command, op billing.Operator) (stop func()) {
	out, ok := cmd.ErrOrStderr().(*os.File)
	if !ok || !term.IsTerminal(int(out.Fd())) {
		return func() {}
	}
	beside, end, err := billing.Beside(op)
	if err != nil {
		return func() {} // the recount itself reports the error
	}
	ended, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			select {
			case <-ended:
				_ = end()
				return
			case <-tick.C:
			}
			if v, err := billing.Do(beside, billing.GetVerification{}); err == nil && v.Requests > 0 {
				fmt.Fprintf(out, "\r%d of %d requests counted", v.Counted, v.Requests)
			}
		}
	}()
	return func() {
		close(ended)
		<-done
		fmt.Fprint(out, "\r\x1b[K")
	}
}

func backupCommand() *cobra.Command {
	f := &operatorFlags{}
	cmd := &cobra.Command{
		Use: "backup FILE", Short: "Write the store to a file that any engine can restore", Args: cobra.ExactArgs(1),
		Long: `Writes the current accounts, keys, money and usage to a new file. The server may be running.
Keep the file as secret as the store: it contains the hashes of all keys.`,
		RunE: f.on(func(cmd *cobra.Command, op billing.Operator, args []string) error {
			path, err := filepath.Abs(args[0])
			if err != nil {
				return err
			}
			b, err := billing.Do(op, billing.BackUp{Path: path})
			if err != nil {
				return err
			}
			return f.print(cmd, b, "", backupRows(b))
		}),
	}
	return f.register(cmd)
}

func backupRows(b billing.BackupInfo) [][]string {
	rows := [][]string{{"file", b.Path}, {"of", b.CreatedAt.Format(time.RFC3339)}, {"engine", b.Engine},
		{"schema", fmt.Sprint(b.Schema)}, {"bytes", fmt.Sprint(b.Bytes)}}
	if b.Rows > 0 {
		rows = append(rows, []string{"rows", fmt.Sprint(b.Rows)})
	}
	return rows
}

func restoreCommand() *cobra.Command {
	f := &operatorFlags{}
	cmd := &cobra.Command{
		Use: "restore FILE", Short: "Fill an empty store from a backup and recount it", Args: cobra.ExactArgs(1),
		Long: `The store must be an empty directory or an empty PostgreSQL database. The backup may come from either engine,
so this command also moves a ledger between engines.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			o, err := f.options()
			if err != nil {
				return err
			}
			b, err := billing.Restore(args[0], o)
			if err != nil {
				return err
			}
			return f.print(cmd, b, "", backupRows(b))
		},
	}
	return f.register(cmd)
}

func migrateCommand() *cobra.Command {
	f := &operatorFlags{}
	cmd := &cobra.Command{
		Use: "migrate", Short: "Update the store's schema; serve also does this at start",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.making(func(billing.Operator) error {
				return f.print(cmd, map[string]int{"schema": billing.Schema}, "",
					[][]string{{"schema", fmt.Sprint(billing.Schema)}})
			})
		},
	}
	return f.register(cmd)
}
