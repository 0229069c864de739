package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"farebox/billing"
)

// nodeCommand is what an operator does about the nodes of a shared store.
func nodeCommand() *cobra.Command {
	var f operatorFlags
	cmd := &cobra.Command{Use: "node",
		Short: "List the nodes of a shared store, and release a dead node's leases"}
	f.register(cmd)
	with := func(do func(*billing.Ledger) error) (err error) {
		cfg, err := f.config()
		if err != nil {
			return err
		}
		if !cfg.SharedStore() {
			return billing.ErrNotShared
		}
		l, err := openShared(cfg)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, l.Close()) }()
		return do(l)
	}
	list := &cobra.Command{
		Use: "list", Short: "List nodes with their states and leases", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return with(func(l *billing.Ledger) error {
				nodes, err := l.Nodes()
				if err != nil {
					return err
				}
				rows := make([][]string, len(nodes))
				for i, n := range nodes {
					rows[i] = []string{fmt.Sprint(n.Number), n.Name, n.ID, n.State, n.USD.String(), n.DIEM.String(),
						n.Bundled.String()}
				}
				return f.print(cmd, nodes, "NUMBER NAME ID STATE USD DIEM BUNDLED", rows)
			})
		},
	}
	release := &cobra.Command{
		Use: "release NODE", Short: "Return the leases of a node that is gone for good; refuses a live node",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return with(func(l *billing.Ledger) error {
				if err := l.ReleaseNode(args[0]); err != nil {
					return err
				}
				return f.print(cmd, map[string]any{"node": args[0], "released": true}, "",
					[][]string{{"released", args[0]}})
			})
		},
	}
	cmd.AddCommand(list, release)
	return cmd
}
