package providers

import (
	"fmt"

	"github.com/spf13/cobra"

	"farebox/config"
)

// configCommand is `farebox config`.
func configCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "config", Short: "Tools for config files"}
	cmd.AddCommand(&cobra.Command{
		Use: "schema", Short: "Print the JSON Schema of a config file, for editors", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			text, err := config.Schema()
			if err != nil {
				return err
			}
			_, err = cmd.OutOrStdout().Write(text)
			return err
		},
	})
	cmd.AddCommand(&cobra.Command{
		Use: "diff OLD NEW", Short: "Print what changes from one config file to another, the prices first", Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			old, err := config.Load(args[0])
			if err != nil {
				return err
			}
			next, err := config.Load(args[1])
			if err == nil {
				_, err = fmt.Fprint(cmd.OutOrStdout(), config.Differences(old, next))
			}
			return err
		},
	})
	return cmd
}
