package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"farebox/billing"
	"farebox/config"
)

// DefaultStore is where the ledger is without a config that says so.
const DefaultStore = "./farebox-data"

// operatorFlags find the store that a command works on.
type operatorFlags struct {
	file, store string
	json        bool
}

func (f *operatorFlags) register(cmd *cobra.Command) *cobra.Command {
	cmd.PersistentFlags().StringVarP(&f.file, "config", "c", "", "config file that names the store")
	cmd.PersistentFlags().StringVar(
		&f.store, "store", "", "ledger directory or postgres://…; default: from the config, or ./farebox-data")
	cmd.PersistentFlags().BoolVar(&f.json, "json", false, "print JSON")
	return cmd
}

// open reaches the running server's ledger, or opens the store itself. Only who
// makes something, and says where, makes a ledger that was not there: an operator who
// forgot -c would otherwise work on an empty one without noticing.
func (f *operatorFlags) open(makes bool) (billing.Operator, error) {
	cfg, err := f.config()
	if err != nil {
		return nil, err
	}
	if cfg.SharedStore() {
		return openShared(cfg)
	}
	if named := f.file != "" || f.store != ""; !(makes && named) && !billing.HasLedger(cfg.Store) {
		hint := "name the config with -c FILE, or the store with --store"
		if named {
			hint = "farebox serve and farebox account create make one"
		}
		return nil, fmt.Errorf("there is no ledger in %s: %s", cfg.StoreName(), hint)
	}
	op, _, err := billing.Operate(cfg.Store, cfg.Brand)
	if err != nil {
		return nil, fmt.Errorf("cannot open the ledger in %s: %w", cfg.StoreName(), err)
	}
	return op, nil
}

// config is the operator's file, or the defaults without a file.
func (f *operatorFlags) config() (*config.Config, error) {
	cfg := &config.Config{Store: DefaultStore, Brand: "svc"}
	if f.file != "" {
		var err error
		if cfg, err = config.LoadStore(f.file); err != nil {
			return nil, err
		}
	}
	if f.store != "" {
		cfg.Store = f.store
	}
	return cfg, nil
}

// options name the store as billing wants it.
func (f *operatorFlags) options() (billing.Options, error) {
	cfg, err := f.config()
	if err != nil {
		return billing.Options{}, err
	}
	return billing.Options{Dir: cfg.LedgerDir(), Shared: cfg.SharedAddress(), Brand: cfg.Brand, Redis: cfg.Redis,
		Idempotency: cfg.Idempotency}, nil
}

// openShared opens a shared store while nodes run on it.
func openShared(cfg *config.Config) (*billing.Ledger, error) {
	l, err := billing.OperateShared(cfg.Store, cfg.Brand)
	if err != nil {
		return nil, fmt.Errorf("cannot open the ledger in %s: %w", cfg.StoreName(), err)
	}
	return l, nil
}

// given are the flags that name the store, as they were given, for commands to
// go on with; an address with a password in it is not repeated.
func (f *operatorFlags) given() (flags string) {
	if f.file != "" {
		flags += " -c " + f.file
	}
	if f.store != "" && !strings.Contains(f.store, "://") {
		flags += " --store " + f.store
	}
	return flags
}

// on makes a command's function from its work on the store.
func (f *operatorFlags) on(do func(*cobra.Command, billing.Operator, []string) error,
) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		return f.with(func(op billing.Operator) error { return do(cmd, op, args) })
	}
}

// with runs do on the store and closes it.
func (f *operatorFlags) with(do func(billing.Operator) error) error { return f.run(false, do) }

// making is with for commands that may make the ledger.
func (f *operatorFlags) making(do func(billing.Operator) error) error { return f.run(true, do) }

func (f *operatorFlags) run(makes bool, do func(billing.Operator) error) (err error) {
	op, err := f.open(makes)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, op.Close()) }()
	return do(op)
}

// print writes v as JSON, or the columns as an aligned table.
func (f *operatorFlags) print(cmd *cobra.Command, v any, head string, rows [][]string) error {
	if f.json {
		enc := json.NewEncoder(cmd.OutOrStdout())
		enc.SetIndent("", "  ")
		return enc.Encode(listed(v))
	}
	w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 8, 2, ' ', 0)
	if head != "" {
		fmt.Fprintln(w, strings.ReplaceAll(head, " ", "\t"))
	}
	for _, row := range rows {
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	return w.Flush()
}

// printList prints a list as JSON or as a table with a row for each entry.
func printList[T any](f *operatorFlags, cmd *cobra.Command, list []T, head string, row func(*T) []string) error {
	rows := make([][]string, len(list))
	for i := range list {
		rows[i] = row(&list[i])
	}
	return f.print(cmd, list, head, rows)
}

// Program is the command that the operator typed, so that commands to be
// typed next works, too: `make run` leaves ./farebox outside of the PATH.
func Program() string { return filepath.ToSlash(os.Args[0]) }

// quoted is a name as a shell reads it.
func quoted(name string) string {
	if strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-@") == "" {
		return name
	}
	return "'" + strings.ReplaceAll(name, "'", `'\''`) + "'"
}

// listed makes [] of a list without entries, for which Go writes null.
func listed(v any) any {
	if list := reflect.ValueOf(v); list.Kind() == reflect.Slice && list.IsNil() && list.Type() != reflect.TypeFor[json.RawMessage]() {
		return []any{}
	}
	if members, ok := v.(map[string]any); ok {
		for name, one := range members {
			members[name] = listed(one)
		}
	}
	return v
}
