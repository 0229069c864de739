package bench

import (
	"context"
	"fmt"
	"io"
	"os"
	"sort"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"farebox/bench/mixed"
	"farebox/bench/upstream"
)

// mixedCommand drives mixed traffic whose bill is known to the token.
func mixedCommand() *cobra.Command {
	var o mixed.Options
	var truthAt, out string
	cmd := &cobra.Command{
		Use:   "mixed",
		Short: "Send mixed requests with an exactly known bill, and compare with the simulated upstream",
		Long: `Sends whole answers, streams, streams without usage, disconnecting clients, cut
streams, upstream errors and embeddings through a gateway whose only upstream
is the simulated one, and prints the tokens that the gateway must have billed.
With --truth it also compares them with the tokens that the upstream produced.
Restart the upstream first, so that it counts this run only.`,
		Example: `  farebox bench mixed --url http://127.0.0.1:8080/api/v1 --key $KEY --model sim-chat \
    --embedding-model sim-embed --requests 100000 --concurrency 256 --truth http://127.0.0.1:9000`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := interruptible(cmd)
			defer stop()
			bar := newBar(cmd.ErrOrStderr(), false)
			o.Progress = bar.show
			truth, err := mixed.Run(ctx, o)
			bar.done()
			if err != nil {
				return err
			}
			if out != "-" {
				printTruth(cmd.OutOrStdout(), truth)
			}
			if err := writeJSON(cmd.OutOrStdout(), out, truth); err != nil {
				return err
			}
			if truth.Wrong > 0 {
				return fmt.Errorf("%d answers were wrong: %s", truth.Wrong, strings.Join(truth.Examples, "; "))
			}
			return checkTruth(ctx, cmd.ErrOrStderr(), truthAt, truth)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&o.URL, "url", "http://127.0.0.1:8080/api/v1", "base address of the gateway's API")
	fl.StringVar(&o.Key, "key", os.Getenv("FAREBOX_KEY"), "API key; default: the variable FAREBOX_KEY")
	fl.StringVar(&o.Model, "model", "", "chat model served by the simulated upstream")
	fl.StringVar(&o.EmbeddingModel, "embedding-model", "", "embedding model; empty: no embeddings")
	fl.IntVar(&o.Requests, "requests", 10000, "number of requests")
	fl.IntVar(&o.Concurrency, "concurrency", 64, "number of requests at once")
	fl.Uint64Var(&o.Seed, "seed", 1, "the same seed sends the same requests")
	fl.StringVar(&truthAt, "truth", "", "address of the simulated upstream, to compare with")
	fl.StringVar(&out, "json", "", "file for the expected bill as JSON; - for standard output")
	return cmd
}

func printTruth(out io.Writer, t *mixed.Truth) {
	fmt.Fprintf(out, "%d requests in %.1f s, %d wrong\n", t.Sent, t.Seconds, t.Wrong)
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "\trequests\tprompt tokens\tcompletion tokens\t\n")
	names := make([]string, 0, len(t.Kinds))
	for name := range t.Kinds {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		k := t.Kinds[name]
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t\n", name, k.Requests, k.PromptTokens, k.CompletionTokens)
	}
	b := t.Billable
	fmt.Fprintf(w, "to be billed\t%d\t%d\t%d\t\n", b.Requests, b.PromptTokens, b.CompletionTokens)
	_ = w.Flush()
}

// checkTruth compares the bills with the upstream's own counts.
func checkTruth(ctx context.Context, out io.Writer, address string, t *mixed.Truth) error {
	if address == "" {
		return nil
	}
	stats, err := upstream.Remote{URL: address}.IdleStats(ctx)
	if err != nil {
		return fmt.Errorf("cannot ask the simulated upstream at --truth %s: %w", address, err)
	}
	if diff := t.Differences(stats); len(diff) > 0 {
		return fmt.Errorf("the books of driver and upstream differ: %s", strings.Join(diff, "; "))
	}
	fmt.Fprintln(out, "driver and upstream agree to the token")
	return nil
}
