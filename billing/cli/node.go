package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"farebox/billing"
	"farebox/billing/money"
)

// nodeCommand lists and releases the nodes of a shared store.
func nodeCommand() *cobra.Command {
	f := &operatorFlags{}
	cmd := &cobra.Command{Use: "node",
		Short: "List the nodes of a shared store, and release a dead node's leases"}
	on := func(do func(*cobra.Command, billing.Operator, []string) error) func(*cobra.Command, []string) error {
		return func(cmd *cobra.Command, args []string) error {
			if cfg, err := f.config(); err != nil {
				return err
			} else if !cfg.SharedStore() {
				return billing.ErrNotShared
			}
			return f.on(do)(cmd, args)
		}
	}
	list := &cobra.Command{
		Use: "list", Short: "List nodes with their states and leases", Args: cobra.NoArgs,
		RunE: on(func(cmd *cobra.Command, op billing.Operator, _ []string) error {
			nodes, err := billing.Do(op, billing.ListNodes{})
			if err != nil {
				return err
			}
			head := "NUMBER NAME ID STATE " + strings.ToUpper(strings.Join(money.Shorts, " "))
			return printList(f, cmd, nodes, head, func(n *billing.NodeInfo) []string {
				return append([]string{fmt.Sprint(n.Number), n.Name, n.ID, n.State}, n.Texts()...)
			})
		}),
	}
	release := &cobra.Command{
		Use: "release NODE", Short: "Return the leases of a node that is gone for good; refuses a live node",
		Args: cobra.ExactArgs(1),
		RunE: on(func(cmd *cobra.Command, op billing.Operator, args []string) error {
			if _, err := billing.Do(op, billing.ReleaseNode{Node: args[0]}); err != nil {
				return err
			}
			return f.print(cmd, map[string]any{"node": args[0], "released": true}, "", [][]string{{"released", args[0]}})
		}),
	}
	cmd.AddCommand(list, release)
	return f.register(cmd)
}
