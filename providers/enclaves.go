package providers

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"
	"github.com/tidwall/gjson"

	"farebox/config"
	"farebox/providers/tee"
	"farebox/providers/tee/tdx"
	"farebox/proxy"
)

// teeCommand is `farebox tee`.
func teeCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "tee", Short: "Check attestations of enclaves, online or from a saved report"}
	cmd.AddCommand(teeCheckCommand(), teeVerifyCommand())
	return cmd
}

// errUnverified ends a command that found an enclave which is not verified.
var errUnverified = errors.New("not verified: see the failed checks above")

func teeCheckCommand() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use: "check MODEL -c FILE", Short: "Attest a model's enclaves once, and show each check",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := config.Load(file)
			if err != nil {
				return err
			}
			return checkEnclaves(cmd.OutOrStdout(), cfg, args[0])
		},
	}
	cmd.Flags().StringVarP(&file, "config", "c", "", "config file (YAML)")
	_ = cmd.MarkFlagRequired("config")
	return cmd
}

func checkEnclaves(out io.Writer, cfg *config.Config, id string) error {
	catalog, err := NewCatalog(cfg, nil, time.Now(), zerolog.Nop())
	if err != nil {
		return err
	}
	defer catalog.Close(nil)
	m := catalog.Find(id, time.Now())
	if m == nil || m.Chat == nil || m.Chat.Enclave == nil {
		return fmt.Errorf("cannot check %q: it is not a model with tee: in the config", id)
	}
	setup, err := tee.NewSetup(&cfg.TEE, zerolog.Nop())
	if err != nil {
		return err
	}
	defer setup.Close()
	policy, err := setup.Policy(m.Chat.Enclave)
	if err != nil {
		return err
	}
	px := proxy.New(proxy.Options{})
	defer px.Close()
	bad := false
	for _, t := range m.Targets {
		fmt.Fprintf(out, "%s at %s\n", m.ID, t.Upstream.Name)
		u := &tee.Upstream{Proxy: px, Endpoint: t.Upstream.Proxy, Kind: m.Chat.Enclave.Kind, Model: t.Name,
			Timeout: cfg.TEE.Timeout}
		bad = !checkEnclave(out, setup, u, policy) || bad
	}
	if bad {
		return errUnverified
	}
	return nil
}

func checkEnclave(out io.Writer, s *tee.Setup, u *tee.Upstream, p *tee.Policy) bool {
	var nonce [32]byte
	rand.Read(nonce[:]) // never fails
	candidates, err := u.Report(nil, nonce)
	if err != nil {
		fmt.Fprintf(out, "  no report: %v\n", err)
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), u.Timeout)
	defer cancel()
	_, v, tried := s.Judge.First(ctx, candidates, nonce, p)
	fmt.Fprintf(out, "  %d of %d reports judged\n", tried, len(candidates))
	return printVerdict(out, v)
}

// printVerdict shows each check, and says whether all that were made hold.
func printVerdict(out io.Writer, v *tee.Verification) bool {
	for _, c := range v.Checks {
		switch {
		case c.Err != nil:
			fmt.Fprintf(out, "  FAILS        %-26s %v\n", c.Name, c.Err)
		case c.Unmade != "":
			fmt.Fprintf(out, "  not checked: %-26s %s\n", c.Name, c.Unmade)
		default:
			fmt.Fprintf(out, "  holds        %s\n", c.Name)
		}
	}
	r := gjson.ParseBytes(v.JSON())
	fmt.Fprintf(out, "  platform %s %s, quote of version %d, judged in %d ms\n", r.Get("tdx.tcbStatus"),
		r.Get("tdx.advisoryIds").Raw, r.Get("tdx.quoteVersion").Int(), v.Took.Milliseconds())
	fmt.Fprintf(out, "  mrtd %s\n  event log replayed: %s, composition bound: %s\n", r.Get("tdx.measurements.mrtd"),
		r.Get("eventLogReplay"), r.Get("composeBinding"))
	if v.TestRoot() {
		fmt.Fprintln(out, "  the root is a test root: this proves nothing")
	}
	left := ""
	if names := v.NotChecked(); len(names) > 0 {
		left = "; not checked: " + strings.Join(names, ", ")
	}
	if !v.Verified() {
		fmt.Fprintln(out, "  verified: false"+left)
		return false
	}
	fmt.Fprintf(out, "  verified: true, until %s%s\n", v.Until.UTC().Format(time.RFC3339), left)
	return true
}

// maxSaved is the largest report that is read from a file.
const maxSaved = 8 << 20

func teeVerifyCommand() *cobra.Command {
	var nonce, at, collateral, policy string
	var of config.Enclave
	cfg := config.TEE{}
	cmd := &cobra.Command{
		Use: "verify FILE", Short: "Verify a saved report without a gateway: the answer of GET /tee/attestation",
		Long: "Verifies a saved report without a gateway: the answer of GET /tee/attestation, or of an enclave itself.\n" +
			"Intel's collateral comes from the file of --collateral, or from Intel by default.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg.GPU = policy
			if cmd.Flags().Changed("gpu") { // it holds whatever devices the report names
				of.GPU = policy
			}
			return verifyFile(cmd.OutOrStdout(), &cfg, &of, &saved{args[0], nonce, at, collateral})
		},
	}
	f := cmd.Flags()
	f.StringVar(&nonce, "nonce", "", "nonce of the request, 64 hexadecimal digits; default: the nonce that the report names")
	f.StringVar(&at, "at", "", "verify as of this time (2026-01-02T15:04:05Z); default: now")
	f.StringVar(&collateral, "collateral", "", "file with Intel's collateral of that time")
	f.StringSliceVar(&cfg.Accept, "tcb-accept", []string{tdx.UpToDate}, "accepted TCB states of the platform")
	f.StringVar(&policy, "gpu", tee.GPULocal, "check of GPU evidence: local, nras, require or off")
	f.StringVar(&cfg.IntelRoot, "intel-root", "", "PEM file of a test root that replaces Intel's")
	f.StringVar(&cfg.NVIDIARoot, "nvidia-root", "", "PEM file of a test root that replaces NVIDIA's")
	return cmd
}

// saved is a stored report, with the parameters of its check.
type saved struct{ file, nonce, at, collateral string }

// oneFile is a collateral that is in a file, for any processor.
type oneFile struct{ c *tdx.Collateral }

// Collateral is tee.Collaterals.
func (o oneFile) Collateral(context.Context, [6]byte, string) (*tdx.Collateral, error) {
	return o.c, nil
}

func verifyFile(out io.Writer, cfg *config.TEE, of *config.Enclave, s *saved) error {
	raw, err := readSaved(s.file)
	if err != nil {
		return err
	}
	if !json.Valid(raw) {
		return fmt.Errorf("cannot verify %s: it is not JSON; expected the answer of GET /tee/attestation", s.file)
	}
	report := gjson.ParseBytes(raw)
	if inner := report.Get("attestation"); !report.Get("intel_quote").Exists() && inner.Get("intel_quote").Exists() {
		report = inner
	}
	text := s.nonce
	if text == "" {
		text = report.Get("nonce").Str
	}
	if text == "" {
		text = report.Get("request_nonce").Str
	}
	nonce, ok := tee.ParseNonce(text)
	if !ok {
		return errors.New("cannot verify without the nonce of the request: give it by --nonce")
	}
	cfg.AllowTestRoot = cfg.IntelRoot != "" || cfg.NVIDIARoot != ""
	setup, err := tee.NewSetup(cfg, zerolog.Nop())
	if err != nil {
		return err
	}
	defer setup.Close()
	if s.at != "" {
		when, err := time.Parse(time.RFC3339, s.at)
		if err != nil {
			return fmt.Errorf("cannot judge as of %q: expected a time such as 2026-01-02T15:04:05Z", s.at)
		}
		setup.Judge.Now = func() time.Time { return when }
	}
	if s.collateral != "" {
		file, err := readSaved(s.collateral)
		if err != nil {
			return err
		}
		c, err := tdx.ParseCollateral(file)
		if err != nil {
			return err
		}
		setup.Judge.Collaterals = oneFile{c}
	}
	policy, err := setup.Policy(of)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, s.file)
	if !printVerdict(out, setup.Judge.Verify(context.Background(), []byte(report.Raw), nonce, policy)) {
		return errUnverified
	}
	return nil
}

func readSaved(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("cannot read the report: %w", err)
	}
	defer func() { _ = f.Close() }()
	raw, err := io.ReadAll(io.LimitReader(f, maxSaved+1))
	if err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", name, err)
	}
	if len(raw) > maxSaved {
		return nil, fmt.Errorf("cannot read %s: it has more than %d bytes", name, maxSaved)
	}
	return raw, nil
}
