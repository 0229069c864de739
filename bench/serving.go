package bench

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"farebox/bench/relay"
	"farebox/bench/upstream"
	"farebox/bench/upstream/enclave"
)

// upstreamCommand is the simulated upstream as its own process.
func upstreamCommand() *cobra.Command {
	var o upstream.Options
	var listen, scenario string
	var faults []string
	cmd := &cobra.Command{
		Use:   "upstream",
		Short: "Run the simulated upstream: OpenAI and Anthropic wire formats, with faults on demand",
		Long: `Serves POST /v1/chat/completions, /v1/embeddings and /v1/messages and GET
/v1/models, and image upstreams of five kinds: OpenAI's /v1/images, this
gateway's own /api/v1/image, AUTOMATIC1111's /sdapi/v1, Stability's
/v2beta/stable-image and fal's queue below /fal. GET /_sim/stats shows its real
output, GET /_sim/last the last requests byte for byte, and GET /_sim/made/ID
the cost of requests with an id=, in total and up to their cap. POST /_sim/reset
starts over.

A request selects a behaviour by a model suffix (sim-chat@slow,
sim-chat@delay_ms=50,tokens=9), by the header X-Sim: gap_ms=20 split=utf8, or,
through a gateway, inside its last user message: [[sim cut=rst cut_after=5]].
An unknown option gets an error that lists all options. Presets: slow, down,
limited, broken, cut, reset, hang, nousage, split, unicode, reasoning, tool.

It can also misreport costs: hidden=10000 think_ms=500 produces hidden reasoning
tokens and reports them where hidden_in= says (inside, beside, total, nowhere);
usage= none, zero, negative, less, totalonly, early, late, afterdone, twice,
contradict, over, huge; said_in= array, function_call, audio, refusal, unknown
moves the text to another member; thought_as= reasoning, thinking, redacted;
ignore_cap=1, endless=1 and run_on=1 continue beyond the end.`,
		Example: `  farebox bench upstream --listen 127.0.0.1:9000
  farebox bench upstream --scenario "delay_ms=200 gap_ms=15" --fault "0.02:status=500" --fault "0.01:cut=rst"`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if o.Scenario, err = upstream.ParseScenario(scenario); err != nil {
				return err
			}
			if o.Faults, err = parseFaults(faults); err != nil {
				return err
			}
			return serveUntilInterrupt(cmd, listen, "simulated upstream",
				func(ln net.Listener) (func(net.Listener) error, func()) {
					s := upstream.New(o)
					return s.Serve, s.Close
				})
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&listen, "listen", "127.0.0.1:9000", "address to listen on")
	fl.StringVar(&o.Key, "key", "", "demand this key; default: none is needed")
	fl.StringSliceVar(&o.Models, "models", nil, "names listed by GET /v1/models")
	fl.IntVar(&o.Tokens, "tokens", 32, "length of an answer without a cap, in tokens")
	fl.StringVar(&scenario, "scenario", "", "behaviour for every request, as key=value words")
	fl.StringArrayVar(&faults, "fault", nil, "SHARE:key=value words, a behaviour for that share of the requests; may be repeated")
	fl.Uint64Var(&o.Seed, "seed", 0, "the same seed hits the same requests with faults")
	fl.Int64Var(&o.Price.Prompt, "price-input", 0, "price of a prompt token in /_sim/made, in 1e-9 USD")
	fl.Int64Var(&o.Price.Completion, "price-output", 0, "price of a completion token in /_sim/made, in 1e-9 USD")
	fl.IntVar(&o.Keep, "keep", 16, "number of requests in /_sim/last")
	return cmd
}

// enclaveCommand is the simulated enclave as its own process.
func enclaveCommand() *cobra.Command {
	var o enclave.Options
	var listen, roots string
	cmd := &cobra.Command{
		Use:   "enclave",
		Short: "Run a simulated enclave under a test root, honest or lying",
		Long: `Serves a chat model like dstack's proxy in front of an enclave: GET
/v1/attestation/report, POST /v1/chat/completions, sealed and in the clear, GET
/v1/signature/ID. Intel's collateral is below /pcs, NVIDIA's verifier below
/nras. Each start creates certificates under roots that say TEST ONLY. A gateway
accepts them with tee.allow_test_root only, and says so in every attestation.

Lies: ` + strings.Join(enclave.Lies[1:], ", ") + `.`,
		Example: `  farebox bench enclave --listen 127.0.0.1:9010 --roots ./roots
  farebox bench enclave --listen 127.0.0.1:9010 --roots ./roots --lie debug`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !slices.Contains(enclave.Lies, o.Lie) {
				return fmt.Errorf("%q is not a lie; choose one of %s", o.Lie, strings.Join(enclave.Lies[1:], ", "))
			}
			if o.Version != 4 && o.Version != 5 {
				return fmt.Errorf("--quotes %d: TDX quotes have version 4 or 5", o.Version)
			}
			e, err := enclave.New(o)
			if err != nil {
				return err
			}
			if err := os.MkdirAll(roots, 0o700); err != nil {
				return fmt.Errorf("cannot make the folder of roots: %w", err)
			}
			for name, pem := range map[string][]byte{"intel.pem": e.Root(), "nvidia.pem": e.DeviceRoot()} {
				if err := os.WriteFile(filepath.Join(roots, name), pem, 0o600); err != nil {
					return fmt.Errorf("cannot write a root: %w", err)
				}
			}
			return serveUntilInterrupt(cmd, listen, "simulated enclave, with roots in "+roots,
				func(net.Listener) (func(net.Listener) error, func()) { return e.Serve, e.Close })
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&listen, "listen", "127.0.0.1:9010", "address to listen on")
	fl.StringVar(&roots, "roots", "farebox-test-roots", "folder for intel.pem and nvidia.pem")
	fl.StringVar(&o.Lie, "lie", enclave.Honest, "lie to tell; default: none")
	fl.StringVar(&o.Key, "key", "", "demand this key; default: none is needed")
	fl.IntVar(&o.Version, "quotes", 4, "version of quotes: 4 or 5")
	fl.IntVar(&o.Devices, "gpus", 1, "graphics processors with evidence; below 0: none")
	return cmd
}

func parseFaults(list []string) ([]upstream.Fault, error) {
	var faults []upstream.Fault
	for _, text := range list {
		share, words, ok := strings.Cut(text, ":")
		f, err := strconv.ParseFloat(share, 64)
		if !ok || err != nil || f < 0 || f > 1 {
			return nil, fmt.Errorf("cannot read --fault %q: write it like 0.02:status=500", text)
		}
		if _, err := upstream.ParseScenario(words); err != nil {
			return nil, err
		}
		faults = append(faults, upstream.Fault{Share: f, Scenario: words})
	}
	return faults, nil
}

func relayCommand() *cobra.Command {
	var listen, to string
	var stream bool
	cmd := &cobra.Command{
		Use: "relay", Short: "Run a bare fasthttp relay, the floor of the comparison", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := relay.New(to, stream)
			if err != nil {
				return err
			}
			return serveUntilInterrupt(cmd, listen, "relay to "+to,
				func(net.Listener) (func(net.Listener) error, func()) {
					return s.Serve, func() { _ = s.Shutdown() }
				})
		},
	}
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:9001", "address to listen on")
	cmd.Flags().StringVar(&to, "upstream", "http://127.0.0.1:9000", "address to relay to")
	cmd.Flags().BoolVar(&stream, "stream", false, "forward answers while they arrive")
	return cmd
}

// serveUntilInterrupt listens, says where, and serves until Ctrl-C.
func serveUntilInterrupt(cmd *cobra.Command, listen, what string,
	prepare func(net.Listener) (serve func(net.Listener) error, end func())) error {
	ln, err := net.Listen("tcp", listen)
	if err != nil {
		return fmt.Errorf("cannot listen on %s: %w; choose another address with --listen", listen, err)
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "%s on http://%s/v1\n", what, ln.Addr())
	serve, end := prepare(ln)
	ctx, stop := interruptible(cmd)
	defer stop()
	failed := make(chan error, 1)
	go func() { failed <- serve(ln) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
		_ = ln.Close()
		end()
		if err := <-failed; err != nil && !errors.Is(err, net.ErrClosed) {
			return err
		}
		return nil
	}
}

func encodeJSON(out io.Writer, v any) error {
	enc := json.NewEncoder(out)
	enc.SetIndent("", " ")
	return enc.Encode(v)
}
