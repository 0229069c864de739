package bench

import (
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"farebox/bench/attack"
	"farebox/bench/load"
	"farebox/bench/report"
)

// attackCommand sends ordinary requests beside attacks.
func attackCommand() *cobra.Command {
	var o attack.Options
	var rounds []string
	var files outputs
	var what strings.Builder
	for _, r := range attack.AllRounds {
		what.WriteString("\n  " + r.Name + strings.Repeat(" ", max(1, 19-len(r.Name))) + r.What)
	}
	cmd := &cobra.Command{
		Use:   "attack",
		Short: "Attack your own gateway and measure the effect on ordinary customers",
		Long: `Sends ordinary customers' requests through a gateway whose only upstream is the
simulated one, first alone, then during rounds of attack. It prints the number
of answers, of correct answers, and their latency. Each ordinary request asks
for a unique word, which reveals an answer of another request.

The rounds, each at its own rate (--round NAME=RATE changes it):` + what.String(),
		Example: `  farebox bench upstream --listen 127.0.0.1:9000 &
  farebox bench attack --url http://127.0.0.1:8080/api/v1 --key $KEY --attacker $OTHER_KEY --model sim-chat \
    --rpc ethereum-sepolia --pid $(pidof farebox) --html attack.html
  farebox bench attack --url http://127.0.0.1:4000/v1 --key $KEY --model sim-chat --round announced=10 --round random_keys --together`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if o.Rounds, err = attack.RoundsNamed(rounds, &o); err != nil {
				return err
			}
			if err := load.CheckPIDs(o.PIDs...); err != nil {
				return err
			}
			ctx, stop := interruptible(cmd)
			defer stop()
			bar := newBar(cmd.ErrOrStderr(), false)
			o.Progress = bar.show
			r, err := attack.Run(ctx, o)
			bar.done()
			if r == nil {
				return err
			}
			if werr := files.write(cmd, r, r.Print, report.OfAttack(r)); werr != nil {
				return werr
			}
			return err
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&o.URL, "url", "http://127.0.0.1:8080/api/v1", "base address of the gateway's API")
	fl.StringSliceVar(&o.Keys, "key", keysFrom(os.Getenv("FAREBOX_KEY")),
		"keys of the ordinary customers; default: the variable FAREBOX_KEY")
	fl.StringVar(&o.Attacker, "attacker", "", "key of the attacker; default: the first --key")
	fl.StringVar(&o.Model, "model", "", "chat model served by the simulated upstream")
	fl.StringVar(&o.RPC, "rpc", "", "network for JSON-RPC; default: none")
	fl.StringVar(&o.Voice, "voice", "", "model for speech; empty: none")
	fl.StringVar(&o.Ear, "ear", "", "model for transcriptions; empty: none")
	fl.StringVar(&o.Song, "song", "", "model for music; empty: none")
	fl.StringVar(&o.Strict, "strict", "", "chat model whose upstream has enforces_schema: false; empty: none")
	fl.BoolVar(&o.Documents, "documents", false, "the gateway reads documents (augment.text_parser)")
	fl.BoolVar(&o.Pages, "pages", false, "the gateway reads pages (augment.scrape) of 127.0.0.0/8 (fetch.allow)")
	fl.StringSliceVar(&o.Unpaid, "unpaid", nil, "keys of accounts that were never credited")
	fl.BoolVar(&o.Forwarded, "forwarded", false, "the gateway takes X-Forwarded-For from here (server.trusted_proxies)")
	fl.StringVar(&o.Operator, "operator", "", "operators' API, such as http://127.0.0.1:9465/operator/v1; empty: none")
	fl.StringVar(&o.OperatorToken, "operator-token", os.Getenv("FAREBOX_OPERATOR_TOKEN"),
		"token of an owner; default: the variable FAREBOX_OPERATOR_TOKEN")
	fl.StringVar(&o.OperatorAccount, "operator-account", "", "account that one round credits less than a cent; empty: no such round")
	fl.IntVar(&o.Customers, "customers", 50, "ordinary customers")
	fl.Float64Var(&o.Rate, "rate", 2, "requests a second of each ordinary customer")
	fl.StringArrayVar(&rounds, "round", nil, "NAME or NAME=RATE, may be repeated; default: all")
	fl.BoolVar(&o.Together, "together", false, "all rounds at once; default: one after the other")
	fl.DurationVar(&o.Duration, "duration", 10*time.Second, "duration of each round")
	fl.DurationVar(&o.Quiet, "quiet", 0, "duration of the phase before the rounds; default: as --duration")
	fl.DurationVar(&o.Recovery, "recovery", 0,
		"wait after the last round, before a last check of memory and customers; 0: skip the check")
	fl.DurationVar(&o.Timeout, "timeout", 10*time.Second, "timeout of an ordinary request")
	fl.BoolVar(&o.Remote, "remote", false, "confirm that the gateway is on another machine and is yours")
	fl.IntSliceVar(&o.PIDs, "pid", nil, "process of the gateway, to measure its memory")
	files.register(cmd, "file for the report")
	return cmd
}

func keysFrom(text string) []string {
	if text == "" {
		return nil
	}
	return []string{text}
}
