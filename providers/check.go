package providers

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"farebox/config"
	"farebox/providers/credential"
)

// CheckCommand is `farebox check`.
func CheckCommand() *cobra.Command {
	var file string
	var online bool
	cmd := &cobra.Command{
		Use: "check -c FILE", Short: "Check a config file and say everything that is wrong with it", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := config.Load(file)
			if err != nil {
				return err
			}
			for i := range cfg.Upstreams {
				if err := credential.Check(credential.Of(&cfg.Upstreams[i])); err != nil {
					return err
				}
			}
			fmt.Fprintln(cmd.OutOrStdout(), config.Summary(cfg))
			if online {
				return askUpstreams(cmd.OutOrStdout(), cfg)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&online, "online", false,
		"also ask every upstream once, which costs no tokens, and say what is wrong with its key or address")
	cmd.Flags().StringVarP(&file, "config", "c", "", "config file (YAML)")
	_ = cmd.MarkFlagRequired("config")
	return cmd
}

// askUpstreams prints what every upstream answers to a question that is free.
func askUpstreams(out io.Writer, cfg *config.Config) error {
	bad, all := 0, Ask(cfg)
	for _, a := range all {
		if a.Err != nil {
			bad++
			fmt.Fprintf(out, "  upstream %s: %v\n", a.Name, a.Err)
			continue
		}
		fmt.Fprintf(out, "  upstream %s: %s\n", a.Name, a.Good)
	}
	if bad > 0 {
		return fmt.Errorf("%d of %d upstreams cannot be used as they are configured", bad, len(all))
	}
	return nil
}
