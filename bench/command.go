package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"farebox/bench/load"
	"farebox/bench/report"
)

// Command is `farebox bench` with its subcommands.
func Command() *cobra.Command {
	f := &loadFlags{}
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Send load and measure: latency, first event, gaps, errors, processor time, memory",
		Long: `Sends chat requests at a constant rate (--rate) or as fast as the connections
allow (--closed), and reports the client's view. With a rate, latency counts
from the time at which a request was due, so a stall shows in all requests that
had to wait.`,
		Example: `  farebox bench --url http://127.0.0.1:8080/api/v1 --key $KEY --model sim-chat-small --rate 500
  farebox bench --url http://127.0.0.1:8080/api/v1 --key $KEY --model sim-chat-small --stream --connections 200 --closed --pid $(pidof farebox)
  farebox bench upstream --listen 127.0.0.1:9000
  farebox bench compare --quick`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	f.register(cmd)
	cmd.AddCommand(upstreamCommand(), enclaveCommand(), relayCommand(), compareCommand(), mixedCommand(), overspendCommand(),
		attackCommand())
	return cmd
}

// loadFlags are the options of one run on the command line.
type loadFlags struct {
	o        load.Options
	closed   bool
	files    outputs
	quiet    bool
	bodyFile string
}

func (f *loadFlags) register(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&f.o.URL, "url", "http://127.0.0.1:8080/api/v1", "base address of the API")
	fl.StringVar(&f.o.Key, "key", os.Getenv("FAREBOX_KEY"), "API key; default: the variable FAREBOX_KEY")
	fl.StringVar(&f.o.Model, "model", "", "model of the requests")
	fl.Float64Var(&f.o.Rate, "rate", 100, "requests a second, independent of the answers")
	fl.BoolVar(&f.closed, "closed", false, "no rate: every connection sends as soon as it is free")
	fl.DurationVar(&f.o.Duration, "duration", 10*time.Second, "duration of the measurement")
	fl.DurationVar(&f.o.Warmup, "warmup", time.Second, "time before the measurement that does not count")
	fl.IntVar(&f.o.Connections, "connections", 64, "number of connections; with a rate, the most requests at once")
	fl.DurationVar(&f.o.Ramp, "ramp", 0, "with --closed: time over which the connections start")
	fl.BoolVar(&f.o.Stream, "stream", false, "ask for server-sent events")
	fl.IntVar(&f.o.BodyBytes, "body-bytes", 1024, "size of the request body")
	fl.StringVar(&f.bodyFile, "body", "", "file with a request body to send instead")
	fl.IntVar(&f.o.MaxTokens, "max-tokens", 0, "max_completion_tokens of a request; 0: omit it")
	fl.DurationVar(&f.o.Timeout, "timeout", 30*time.Second, "timeout of one request; for streams: between two events")
	fl.Float64Var(&f.o.Abort, "abort", 0, "share of the streams that the client aborts, 0 to 1")
	fl.IntVar(&f.o.AbortAfter, "abort-after", 5, "number of events before the client aborts")
	fl.IntSliceVar(&f.o.PIDs, "pid", nil, "process to measure with its children: processor time and memory")
	f.files.register(cmd, "file for the report with plots")
	fl.BoolVar(&f.quiet, "quiet", false, "no progress bar")
}

func (f *loadFlags) run(cmd *cobra.Command) error {
	o := f.o
	switch {
	case f.closed && cmd.Flags().Changed("rate"):
		return errors.New("cannot use --rate with --closed: a closed run has no rate of its own; leave one of them out")
	case o.Rate <= 0 && !f.closed:
		return errors.New("cannot send at a rate of 0: give --rate above 0, or --closed to send as fast as the " +
			"connections allow")
	case o.Abort < 0 || o.Abort > 1:
		return fmt.Errorf("cannot abort a share of %g of the streams: give --abort from 0 to 1", o.Abort)
	}
	if f.closed {
		o.Rate = 0
	}
	if f.bodyFile != "" {
		body, err := os.ReadFile(f.bodyFile)
		if err != nil {
			return fmt.Errorf("cannot read --body: %w", err)
		}
		o.Body, o.BodyBytes = body, len(body)
	}
	if err := load.CheckPIDs(o.PIDs...); err != nil {
		return err
	}
	ctx, stop := interruptible(cmd)
	defer stop()
	bar := newBar(cmd.ErrOrStderr(), f.quiet)
	o.Progress = bar.show
	result, err := load.Run(ctx, o)
	bar.done()
	if result == nil {
		return err
	}
	show := func(out io.Writer) { printResult(out, result) }
	return f.files.write(cmd, result, show, report.OfRuns("farebox bench", []*load.Result{result}))
}

// secrets are flags whose values stay out of reports.
var secrets = []string{"key", "attacker", "unpaid"}

// commandLine is the command, quoted for a shell.
func commandLine(cmd *cobra.Command) string {
	line := cmd.CommandPath()
	cmd.Flags().Visit(func(f *pflag.Flag) {
		value := f.Value.String()
		if list, ok := f.Value.(pflag.SliceValue); ok {
			value = strings.Join(list.GetSlice(), ",")
		}
		switch {
		case slices.Contains(secrets, f.Name):
			value = "…"
		case value == "" || strings.ContainsAny(value, " \t\n'\"\\$`!*?[](){}<>|&;~#"):
			value = "'" + strings.ReplaceAll(value, "'", `'\''`) + "'"
		}
		if line += " --" + f.Name; f.NoOptDefVal == "" {
			line += " " + value
		} else if value != f.NoOptDefVal {
			line += "=" + value
		}
	})
	return line
}

// interruptible ends a run at the first Ctrl-C; the results until then are shown.
func interruptible(cmd *cobra.Command) (context.Context, context.CancelFunc) {
	ctx := cmd.Context()
	if ctx == nil {
		ctx = context.Background()
	}
	return signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
}

// outputs are the files that a result is written to, as the user names them.
type outputs struct{ json, html string }

func (o *outputs) register(cmd *cobra.Command, html string) {
	fl := cmd.Flags()
	fl.StringVar(&o.json, "json", "", "file for the result as JSON; - for standard output")
	fl.StringVar(&o.html, "html", "", html)
}

// write shows a result on the terminal, unless its JSON goes there, and writes the files.
func (o *outputs) write(cmd *cobra.Command, result any, show func(io.Writer), page report.Page) error {
	if o.json != "-" {
		show(cmd.OutOrStdout())
	}
	if err := writeJSON(cmd.OutOrStdout(), o.json, result); err != nil || o.html == "" {
		return err
	}
	page.Made = [][2]string{{"command", commandLine(cmd)}, {"version", cmd.Root().Version}}
	if err := report.Write(o.html, page); err != nil {
		return fmt.Errorf("cannot write the report: %w", err)
	}
	fmt.Fprintln(cmd.ErrOrStderr(), "report:", o.html)
	return nil
}

func writeJSON(out io.Writer, path string, v any) error {
	switch path {
	case "":
		return nil
	case "-":
		return encodeJSON(out, v)
	}
	if err := load.WriteJSON(path, v); err != nil {
		return fmt.Errorf("cannot write the result: %w", err)
	}
	return nil
}

// printResult writes one run as a short table.
func printResult(out io.Writer, r *load.Result) {
	fmt.Fprintf(out, "%.1f s, %d requests well (%.1f/s), %d failed", r.Seconds, r.Requests, r.PerSecond, r.Failed)
	if r.Aborted > 0 {
		fmt.Fprintf(out, ", %d left by us", r.Aborted)
	}
	if r.Unfinished > 0 {
		fmt.Fprintf(out, ", %d without an answer at the end (oldest %.0f ms)", r.Unfinished, r.OldestUs/1e3)
	}
	if r.Unsent > 0 {
		fmt.Fprintf(out, ", %d never sent for want of a free connection (raise --connections)", r.Unsent)
	}
	fmt.Fprintln(out)
	for kind, n := range r.Errors {
		fmt.Fprintf(out, "  error  %-32s %d\n", kind, n)
	}
	row := func(name string, d load.Distribution) {
		if d.Count > 0 {
			fmt.Fprintf(out, "  %-12s p50 %s  p90 %s  p99 %s  p99.9 %s  max %s\n", name, duration(d.P50Us),
				duration(d.P90Us), duration(d.P99Us), duration(d.P999Us), duration(d.MaxUs))
		}
	}
	row("latency", r.Latency)
	row("first event", r.First)
	row("event gap", r.Gap)
	row("event delay", r.Delay)
	if r.Lateness.P99Us > 1000 {
		fmt.Fprintf(out, "  note: the generator itself was up to %s late (p99): this machine is too busy for "+
			"the rate\n", duration(r.Lateness.P99Us))
	}
	if r.Events > 0 {
		fmt.Fprintf(out, "  events       %d (%.0f/s)\n", r.Events, r.EventsPerSecond)
	}
	if p := r.Process; p != nil {
		fmt.Fprintf(out, "  process      %.3f CPU s per 1,000 requests (%.1f µs each), %.0f %% of a core, %.1f MB "+
			"now, %.1f MB at most\n",
			p.PerThousand, p.PerRequestUs, 100*p.CPUShare, float64(p.RSSBytes)/(1<<20), float64(p.PeakBytes)/(1<<20))
	}
}

func duration(us float64) string {
	d := time.Duration(us * float64(time.Microsecond))
	switch {
	case d < time.Millisecond:
		return fmt.Sprintf("%.0fµs", us)
	case d < time.Second:
		return fmt.Sprintf("%.2fms", us/1e3)
	}
	return strings.TrimSuffix(d.Round(time.Millisecond).String(), "0s")
}
