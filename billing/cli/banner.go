package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"farebox/config"
)

// Banner says where the gateway listens, from which config it runs, how to make the first call,
// and where to read on: eleven lines at most.
func Banner(w io.Writer, version string, cfg *config.Config, addr net.Addr, metrics, operators, node string, keys *DemoKeys) {
	base := baseURL(cfg, addr)
	source := cfg.Source
	if cfg.Simulated {
		source = "none: demonstration with a SIMULATED upstream, no real model answers"
	}
	fmt.Fprintf(w, "farebox %s\n  listening  %s\n  config     %s\n  store      %s\n", version, base, source,
		cfg.StoreName())
	if n := len(cfg.Warnings); n > 0 && cfg.Source != "" {
		fmt.Fprintf(w, "  warnings   %d in the config: %s check -c %s\n", n, Program(), cfg.Source)
	}
	switch metrics {
	case config.MetricsOff:
	case config.MetricsOnListen:
		fmt.Fprintln(w, "  metrics    /metrics on the same address: everybody who can reach it can read the revenue")
	default:
		taken := ""
		if usual := config.DefaultMetricsListen; cfg.Server.MetricsListen == usual && !strings.Contains(metrics, "//"+usual+"/") {
			taken = " (" + usual + " is taken: set server.metrics_listen)"
		}
		fmt.Fprintf(w, "  metrics    %s%s\n", metrics, taken)
	}
	switch {
	case operators == "":
	case keys != nil:
		fmt.Fprintf(w, "  operators  curl %s/accounts -H 'Authorization: Bearer %s'\n", operators, keys.Operator)
	case cfg.Simulated:
		fmt.Fprintf(w, "  operators  %s; for a token: %s operator token create --name me --role owner\n", operators, Program())
	default:
		fmt.Fprintf(w, "  operators  %s\n", operators)
	}
	if node != "" {
		fmt.Fprintf(w, "  node       %s, journal in %s\n", node, cfg.LedgerDir())
	}
	secret := "<API key>"
	switch {
	case keys != nil:
		secret = keys.Inference
		fmt.Fprintf(w, "  ADMIN key  %s\n  key        %s (shown once; account %s, 100 USD)\n", keys.Admin, keys.Inference, DemoAccount)
	case cfg.Simulated:
		fmt.Fprintf(w, "  key        shown at the first start; create another: %s\n", newKey(cfg))
	}
	if len(cfg.Models) > 0 {
		fmt.Fprintf(w, "first call:\n  curl %s/chat/completions -H 'Authorization: Bearer %s' -H 'Content-Type: "+
			"application/json' -d '{\"model\":\"%s\",\"messages\":[{\"role\":\"user\",\"content\":\"Hello\"}]}'\n",
			base, secret, cfg.Models[0].ID)
	}
	if cfg.Simulated {
		fmt.Fprintf(w, "more: %s demo; routes/README.md shows every endpoint\n", Program())
	}
}

func baseURL(cfg *config.Config, addr net.Addr) string {
	if cfg.TLS.Cert != "" {
		return "https://" + addr.String() + "/api/v1"
	}
	return "http://" + addr.String() + "/api/v1"
}

// newKey is the command that makes a key of the demonstration's account.
func newKey(cfg *config.Config) string {
	command := Program() + " key create --account " + DemoAccount
	if cfg.Store != DefaultStore && !cfg.SharedStore() {
		command += " --store " + cfg.Store
	}
	return command
}

// FirstTopUp is a payment that a wallet of the demonstration signed.
type FirstTopUp struct{ Key, Address, Header string }

// demoFile holds the output of `farebox demo` while the demonstration runs.
const demoFile = "demo.txt"

// WriteDemo writes down calls to try after the first one. done removes it.
func WriteDemo(cfg *config.Config, addr net.Addr, pay *FirstTopUp) (done func(), err error) {
	var b strings.Builder
	base := baseURL(cfg, addr)
	section := func(title, command string, args ...any) {
		fmt.Fprintf(&b, "%s:\n  "+command+"\n\n", append([]any{title}, args...)...)
	}
	section("the key for these calls, from the banner of the first start", "export KEY=SVC_INFERENCE_KEY_…   # create another: %s", newKey(cfg))
	const call = "curl %s/%s -H \"Authorization: Bearer $KEY\" -H 'Content-Type: application/json' -d '%s'"
	section("a stream", call, base, "chat/completions",
		`{"model":"sim-chat-small","stream":true,"messages":[{"role":"user","content":"Hello"}]}`)
	section("a chat that searches the web", call, base, "chat/completions",
		`{"model":"sim-chat-small","messages":[{"role":"user","content":"How do rivers move today?"}],"svc_parameters":{"enable_web_search":"on"}}`)
	section("a page of the simulation as Markdown", call, base, "augment/scrape", `{"url":"`+cfg.SimulatedAt+`/site/rivers"}`)
	section("a music track, as a job", call, base, "audio/queue", `{"model":"sim-music","prompt":"A calm piano piece","duration_seconds":60}`)
	section("the attestation of a simulated enclave (TEST ROOT: nothing is confidential)", "curl '%s/tee/attestation?model=e2ee-sim'", base)
	if pay != nil {
		section("a top-up of 5 USD by a wallet (SIMULATED facilitator and chains: no real money)",
			"curl -X POST %s/x402/top-up -H 'PAYMENT-SIGNATURE: %s'\n  wallet   %s\n  its key  %s (public; @x402/fetch pays and signs in with it)",
			base, pay.Header, pay.Address, pay.Key)
	}
	section("Codex, Claude Code and other clients", "routes/clients.md has their settings; the base URL is %s", base)
	path := filepath.Join(cfg.LedgerDir(), demoFile)
	return func() { _ = os.Remove(path) }, os.WriteFile(path, []byte(b.String()), 0o600)
}

func demoCommand() *cobra.Command {
	var f operatorFlags
	cmd := &cobra.Command{
		Use: "demo", Short: "List more calls to try with the running demonstration", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := f.config()
			if err != nil {
				return err
			}
			text, err := os.ReadFile(filepath.Join(cfg.LedgerDir(), demoFile))
			if errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("no demonstration runs in %s: start one with farebox serve, or name its store with --store", cfg.StoreName())
			}
			if err == nil {
				_, err = cmd.OutOrStdout().Write(text)
			}
			return err
		},
	}
	return f.register(cmd)
}
