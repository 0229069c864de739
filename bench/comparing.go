package bench

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"farebox/bench/compare"
	"farebox/bench/load"
	"farebox/bench/report"
)

func compareCommand() *cobra.Command {
	var o compare.Options
	var out string
	var strict bool
	cmd := &cobra.Command{
		Use:   "compare",
		Short: "Measure direct, a bare relay, nginx and farebox side by side and check the goals",
		Long: `Starts the simulated upstream, a bare fasthttp relay, nginx and this program
as gateway, each on its own port of this machine, and gives them the same
traffic in interleaved rounds. The gateway under test has its own processor.
It takes about thirteen minutes, with --quick about two. With --with, other
gateways take part as the files in the folder --rivals tell.`,
		Example: `  farebox bench compare --quick
  bench/rivals/install litellm && farebox bench compare --with litellm --only json_1k,sse_burst,rates,memory`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := interruptible(cmd)
			defer stop()
			bar := newBar(cmd.ErrOrStderr(), false)
			o.Command = commandLine(cmd)
			o.Progress = bar.show
			if bar.bar == nil {
				o.Progress = lines(cmd)
			}
			c, err := compare.Run(ctx, o)
			bar.done()
			if c == nil {
				return err
			}
			c.Print(cmd.OutOrStdout())
			if werr := writeComparison(cmd, out, c); werr != nil {
				return errors.Join(err, werr)
			}
			if err != nil {
				return err
			}
			if n := len(c.Failed); n > 0 {
				return fmt.Errorf("%d measurements failed: see the notes above", n)
			}
			if missed := c.Missed(); strict && missed > 0 {
				return fmt.Errorf("%d goals were missed", missed)
			}
			return nil
		},
	}
	fl := cmd.Flags()
	fl.BoolVar(&o.Quick, "quick", false, "shorter rounds, about two minutes in total")
	fl.StringSliceVar(&o.Only, "only", nil, "scenarios to run: "+fmt.Sprint(compare.Names()))
	fl.StringSliceVar(&o.Without, "without", nil, "contenders to leave out: "+fmt.Sprint(compare.Contenders))
	fl.StringSliceVar(&o.With, "with", nil, "rivals that take part, such as litellm,portkey,tensorzero")
	fl.StringVar(&o.Rivals, "rivals", filepath.Join("bench", "rivals"), "folder with a folder for each rival")
	fl.IntVar(&o.Rounds, "rounds", 0, "rounds of every scenario; default 5, with --quick 3")
	fl.StringVar(&out, "out", filepath.Join("bench", "out"), "folder for compare.json and compare.html")
	fl.BoolVar(&strict, "strict", false, "fail if a goal is missed")
	return cmd
}

// lines prints the progress where there is no terminal: one line a scenario.
func lines(cmd *cobra.Command) func(float64, string) {
	last := ""
	return func(done float64, line string) {
		name := line
		for i, r := range line {
			if r == ',' || r == ':' {
				name = line[:i]
				break
			}
		}
		if name != last {
			last = name
			fmt.Fprintf(cmd.ErrOrStderr(), "%3.0f %%  %s\n", 100*done, name)
		}
	}
}

func writeComparison(cmd *cobra.Command, dir string, c *compare.Comparison) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("cannot write the report: %w", err)
	}
	json, html := filepath.Join(dir, "compare.json"), filepath.Join(dir, "compare.html")
	if err := load.WriteJSON(json, c); err != nil {
		return fmt.Errorf("cannot write the result: %w", err)
	}
	if err := report.Write(html, report.OfComparison(c)); err != nil {
		return fmt.Errorf("cannot write the report: %w", err)
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "result: %s, report: %s\n", json, html)
	return nil
}
