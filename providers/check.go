package providers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"farebox/config"
	"farebox/providers/credential"
	"farebox/providers/media"
	"farebox/providers/x402/chainclient"
)

// Commands are the commands about upstreams, nodes and enclaves.
func Commands() []*cobra.Command {
	return []*cobra.Command{checkCommand(), configCommand(), x402Command(), teeCommand()}
}

// checkCommand is `farebox check`.
func checkCommand() *cobra.Command {
	var file string
	var online, strict bool
	cmd := &cobra.Command{
		Use: "check -c FILE", Short: "Check a config file and list all errors and warnings in it", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := config.Load(file)
			var problems *config.Problems
			if errors.As(err, &problems) {
				printWarnings(cmd.OutOrStdout(), problems.Warnings)
			}
			if err != nil {
				return err
			}
			for i := range cfg.Upstreams {
				if err := credential.Check(credential.Of(&cfg.Upstreams[i])); err != nil {
					return err
				}
			}
			fmt.Fprintln(cmd.OutOrStdout(), config.Summary(cfg))
			printWarnings(cmd.OutOrStdout(), cfg.Warnings)
			if n := len(cfg.Warnings); n > 0 && strict {
				return fmt.Errorf("%s has warnings (%d), and --strict accepts none", file, n)
			}
			checkMedia(cmd.OutOrStdout(), cfg)
			if err := checkCharacters(cmd.OutOrStdout(), cfg.Characters); err != nil {
				return err
			}
			if online {
				return errors.Join(tryMedia(cmd.OutOrStdout(), cfg), tryExports(cmd.Context(), cmd.OutOrStdout(), cfg),
					askUpstreams(cmd.OutOrStdout(), cfg), askTokens(cmd.Context(), cmd.OutOrStdout(), cfg))
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&online, "online", false,
		"also send each upstream one free request, test the buckets for results and exports, and compare the x402 tokens with their chains")
	cmd.Flags().BoolVar(&strict, "strict", false, "fail if there are warnings")
	cmd.Flags().StringVarP(&file, "config", "c", "", "config file (YAML)")
	_ = cmd.MarkFlagRequired("config")
	return cmd
}

// printWarnings prints each with its line, as mistakes are printed.
func printWarnings(out io.Writer, list []config.Problem) {
	for _, one := range list {
		fmt.Fprintf(out, "\n%s\n", one)
	}
	if len(list) > 0 {
		fmt.Fprintln(out)
	}
}

// askUpstreams prints every upstream's answer to a free probe.
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

// askTokens prints whether the tokens that wallets pay with are as the config says.
func askTokens(ctx context.Context, out io.Writer, cfg *config.Config) error {
	if cfg.X402 == nil {
		return nil
	}
	d, done, err := chainclient.Alone(cfg)
	if err != nil {
		return err
	}
	defer done()
	bad, found := 0, d.CheckTokens(ctx)
	for _, network := range slices.Sorted(maps.Keys(found)) {
		if err := found[network]; err != nil {
			bad++
			fmt.Fprintf(out, "  x402 %s: %v\n", network, err)
			continue
		}
		fmt.Fprintf(out, "  x402 %s: the token is as the config says\n", network)
	}
	if bad > 0 {
		return fmt.Errorf("%d of %d networks of x402 cannot take payments as they are configured", bad, len(found))
	}
	return nil
}

// tryMedia stores an object in the media store, and reports the fault.
func tryMedia(out io.Writer, cfg *config.Config) error {
	if !cfg.MakesJobs() && cfg.Media.S3 == nil {
		return nil
	}
	good, err := media.Check(context.Background(), cfg)
	if err != nil {
		fmt.Fprintf(out, "  media: %v\n", err)
		return errors.New("results of models cannot be stored with this config")
	}
	fmt.Fprintf(out, "  media: %s\n", good)
	return nil
}

// tryExports writes to the bucket of exports, and reports the fault.
func tryExports(ctx context.Context, out io.Writer, cfg *config.Config) error {
	if cfg.Usage.ExportS3 == nil {
		return nil
	}
	good, err := media.CheckFiles(ctx, "usage.export_s3", cfg.Usage.ExportS3)
	if err != nil {
		fmt.Fprintf(out, "  usage.export_s3: %v\n", err)
		return errors.New("usage cannot be exported with this config")
	}
	fmt.Fprintf(out, "  usage.export_s3: %s\n", good)
	return nil
}

// checkMedia warns of nodes that cannot serve each other's results.
func checkMedia(out io.Writer, cfg *config.Config) {
	if cfg.MediaApart() && cfg.MakesJobs() {
		fmt.Fprintln(out, "  media: every node stores its own results only; for several nodes, set media.s3 or a "+
			"media.dir that all nodes share")
	}
}

// checkCharacters says which files of the folder of characters are wrong.
func checkCharacters(out io.Writer, c *config.Characters) error {
	if c == nil {
		return nil
	}
	set, err := c.Read()
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(set.Wrong)) {
		fmt.Fprintf(out, "  characters, file %q: %v\n", name, set.Wrong[name])
	}
	if n := len(set.Wrong); n > 0 {
		return fmt.Errorf("%d files in %s have errors and would be left out", n, c.Directory)
	}
	fmt.Fprintf(out, "  characters: %d in %s\n", len(set.List), c.Directory)
	return nil
}
