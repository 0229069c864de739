package bench

import (
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"farebox/bench/overspend"
	"farebox/bench/report"
	"farebox/bench/upstream"
)

// overspendFlags are the options of `bench overspend` on the command line.
type overspendFlags struct {
	o                    overspend.Options
	books                overspend.CommandBooks
	endpoints            []string
	liars, leavers       []string
	amount, limit, truth string
	input, output, unit  float64
	files                outputs
}

// overspendCommand measures how much customers get beyond their balance.
func overspendCommand() *cobra.Command {
	f := &overspendFlags{}
	cmd := &cobra.Command{
		Use:   "overspend",
		Short: "Try to get more than was paid for, with lying upstreams and disconnecting clients",
		Long: `Sends requests through a prepaid gateway whose only upstream is the simulated
one (farebox bench upstream). The upstream hides its output in every known way,
and clients disconnect in every known way. Each combination (cell) has its own
account. The command prints what was let through, produced upstream, charged and
lost. Lost is output within the cap that was neither charged nor owed.

Commands of your gateway create and read the accounts. $CELL is the account's
name, $AMOUNT and $LIMIT are USD, $KEY is the key. Without --account all cells
use --key, one after the other.`,
		Example: `  farebox bench upstream --listen 127.0.0.1:9000 &
  farebox bench overspend --url http://127.0.0.1:8080/api/v1 --truth http://127.0.0.1:9000 \
    --endpoint chat=sim-chat --endpoint chat_stream=sim-chat --price-input 1 --price-output 10 \
    --amount 0.15 --concurrency 64 --requests 64 \
    --account 'farebox account create --name $CELL >/dev/null; farebox account credit $CELL $AMOUNT >/dev/null;
      farebox key create --account $CELL --json | jq -r .apiKey' \
    --balance 'farebox account list --json | jq -r ".[] | select(.name == env.CELL) | .usd"'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	fl := cmd.Flags()
	fl.StringSliceVar(&f.o.URLs, "url", []string{"http://127.0.0.1:8080/api/v1"},
		"base address of the gateway's API; repeat it for several nodes")
	fl.StringVar(&f.books.Key, "key", os.Getenv("FAREBOX_KEY"),
		"API key of all cells; default: the variable FAREBOX_KEY")
	fl.StringVar(&f.books.Account, "account", "", "command that creates an account for a cell and prints its key")
	fl.StringVar(&f.books.Balance, "balance", "",
		"command or address that returns the balance and the debt; default: unknown")
	fl.StringVar(&f.truth, "truth", "http://127.0.0.1:9000", "address of the simulated upstream")
	fl.StringArrayVar(&f.endpoints, "endpoint", nil,
		"NAME=MODEL, may be repeated; names: chat, chat_stream, messages, messages_stream (an Anthropic upstream), "+
			"generate, generate_stream (a Gemini upstream), "+
			"embeddings, images, transcription, speech, speech_stream, music, video, rpc, "+
			"hidden_tools (/responses of an upstream that speaks it; hosted tools hide in functions)")
	fl.StringSliceVar(&f.liars, "liars", nil, "lies to try; default: all")
	fl.StringSliceVar(&f.leavers, "leavers", nil, "ways to disconnect; default: all")
	fl.StringVar(&f.amount, "amount", "1", "USD that an account starts with")
	fl.StringVar(&f.limit, "limit", "", "USD that a key may use; empty: no limit")
	fl.Float64Var(&f.input, "price-input", 0, "the gateway's price of a million prompt tokens in USD")
	fl.Float64Var(&f.output, "price-output", 0, "the gateway's price of a million completion tokens in USD")
	fl.Float64Var(&f.unit, "price-unit", 0, "the gateway's price of a picture or call in USD")
	fl.IntVar(&f.o.Requests, "requests", 16, "number of requests in a cell")
	fl.IntVar(&f.o.Concurrency, "concurrency", 16, "number of requests of a cell at once")
	fl.IntVar(&f.o.Lanes, "lanes", 1, "number of cells at once")
	fl.IntVar(&f.o.Cap, "max-tokens", 2000, "max_completion_tokens of a request; 0: omit it")
	fl.IntVar(&f.o.Crowd, "crowd", 0,
		"answers abandoned before the cells called crowded, to fill the drain places; 0: skip these cells")
	fl.DurationVar(&f.o.Timeout, "timeout", 20*time.Second, "timeout of one request")
	fl.BoolVar(&f.o.Remote, "remote", false, "confirm that the gateway is on another machine and is yours")
	f.files.register(cmd, "file for the report")
	return cmd
}

func (f *overspendFlags) run(cmd *cobra.Command) error {
	var err error
	o := f.o
	if o.Balance, err = overspend.Nano(f.amount); err != nil {
		return fmt.Errorf("cannot use --amount: %w", err)
	}
	if f.limit != "" {
		if o.Limit, err = overspend.Nano(f.limit); err != nil {
			return fmt.Errorf("cannot use --limit: %w", err)
		}
	}
	if o.Liars, err = overspend.LiarsNamed(f.liars); err != nil {
		return err
	}
	if o.Leavers, err = overspend.LeaversNamed(f.leavers); err != nil {
		return err
	}
	if o.Endpoints, err = f.doors(); err != nil {
		return err
	}
	if f.books.Account == "" && f.books.Key == "" {
		return errors.New("cannot send without a key: give --account, a command that makes accounts, or --key")
	}
	f.books.Amount, f.books.Limit = o.Balance, o.Limit
	o.Shared = f.books.Account == ""
	o.Books, o.Truth = &f.books, upstream.Remote{URL: f.truth}
	o.Prefix = fmt.Sprintf("over-%x-", time.Now().UnixMilli())
	ctx, stop := interruptible(cmd)
	defer stop()
	bar := newBar(cmd.ErrOrStderr(), false)
	o.Progress = bar.show
	r, err := overspend.Run(ctx, o)
	bar.done()
	if err != nil {
		return err
	}
	return f.files.write(cmd, r, r.Print, report.OfOverspend(r))
}

// doors are the named endpoints, with their prices.
func (f *overspendFlags) doors() ([]overspend.Endpoint, error) {
	if len(f.endpoints) == 0 {
		return nil, errors.New("cannot send without an endpoint: give --endpoint chat=MODEL")
	}
	nano := func(usd float64) int64 { return int64(math.Round(usd * 1e9)) }
	price := upstream.Price{Prompt: nano(f.input / 1e6), Completion: nano(f.output / 1e6), Unit: nano(f.unit)}
	var list []overspend.Endpoint
	for _, text := range f.endpoints {
		name, model, ok := strings.Cut(text, "=")
		if !ok || model == "" {
			return nil, fmt.Errorf("cannot read --endpoint %q: write chat=MODEL", text)
		}
		e, err := overspend.EndpointNamed(name, model, price)
		if err != nil {
			return nil, err
		}
		list = append(list, e)
	}
	return list, nil
}
