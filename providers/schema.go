package providers

import (
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
	return cmd
}
