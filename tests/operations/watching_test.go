package operations

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"farebox/bench/upstream"
	"farebox/bench/upstream/enclave"
	"farebox/tests/rig"
)

// "The alert had never fired: its metric had another name." Gateways export all metrics of the
// rules and the dashboard, and those of pages, searches and documents are on the dashboard.
func TestRulesAndPanelsNameMetricsThatExist(t *testing.T) {
	t.Parallel()
	name := regexp.MustCompile(`\b(?:farebox|gen_ai)_[a-z0-9_]*[a-z0-9]\b`)
	told, types := map[string]bool{}, map[string]int{}
	tell := func(g *rig.Gateway) {
		g.Post("/chat/completions", "", "{}") // statuses have series once they were answered
		help := ""
		for line := range strings.Lines(g.Metrics()) {
			if found := name.FindString(line); found != "" && strings.HasPrefix(line, found) {
				told[found] = true
			}
			if rest, ok := strings.CutPrefix(line, "# HELP "); ok {
				help = rest
			} else if rest, ok := strings.CutPrefix(line, "# TYPE "); ok && !strings.HasPrefix(rest, "go_") && !strings.HasPrefix(rest, "process_") {
				if of, text, _ := strings.Cut(strings.TrimSpace(help), " "); !strings.HasPrefix(rest, of+" ") || len(text) < 10 {
					t.Errorf("%s has no help text", strings.TrimSpace(rest))
				}
				types[strings.Fields(rest)[0]]++
			}
		}
		for of := range told {
			base := regexp.MustCompile(`_(bucket|sum|count)$`).ReplaceAllString(of, "")
			if n := types[of] + types[base]; n == 0 {
				t.Errorf("%s has no type", of)
			}
		}
	}
	tell(rig.StartCluster(t, 1).Nodes[0])
	sim := rig.StartUpstream(t, upstream.Options{})
	lone := rig.StartGateway(t, fmt.Sprintf(rig.LoneConfig, sim.URL, "")+fmt.Sprintf("augment: { scrape: {}, text_parser: {}, "+
		"search: { brave: [{ name: s, format: brave, base_url: %q, key: k }] } }\n", sim.URL)+paidByWallets)
	lone.NewAccount("a", "1")
	lone.Must(200, "POST", "/chat/completions", lone.Key("a"), rig.Ask("m", "Hello", ""), nil) // this adds the times of upstreams
	tell(lone)
	tell(beforeAnEnclave(t))

	dir := filepath.Join("config", "deploy")
	rules, err := os.ReadFile(filepath.Join(dir, "alerts.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(dir, "grafana.json"))
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(raw, &board); err != nil {
		t.Fatal(err)
	}
	asked := map[string]bool{}
	check := func(where, expr string) {
		names := name.FindAllString(regexp.MustCompile(`"[^"]*"|by \([^)]*\)`).ReplaceAllString(expr, ""), -1)
		n := 0
		for _, m := range names {
			if strings.HasPrefix(m, "gen_ai_request_model") {
				continue // a label
			}
			n++
			asked[m] = true
			if !told[m] {
				t.Errorf("%s asks for %s, which no gateway exports", where, m)
			}
		}
		if n == 0 {
			t.Errorf("%s asks for nothing: %s", where, expr)
		}
	}
	for _, p := range board.Panels {
		for _, target := range p.Targets {
			check("the panel "+p.Title, target.Expr)
		}
	}
	alerts := regexp.MustCompile(`(?m)- alert: (\w+)\n +expr: (.*)$`).FindAllStringSubmatch(string(rules), -1)
	if len(alerts) < 10 || len(alerts) != strings.Count(string(rules), "expr:") || len(asked) < 20 {
		t.Errorf("%d rules and %d metrics are found", len(alerts), len(asked))
	}
	for m := range told {
		own := strings.HasPrefix(m, "farebox_augment") || strings.HasPrefix(m, "farebox_search") ||
			strings.HasPrefix(m, "farebox_jail") || strings.HasPrefix(m, "farebox_tee")
		if own && !asked[m] && !strings.HasSuffix(m, "_sum") && !strings.HasSuffix(m, "_count") {
			t.Errorf("no panel shows %s", m)
		}
	}
	for _, a := range alerts {
		check("the alert "+a[1], a[2])
	}
}

// beforeAnEnclave is a gateway that has attested an enclave.
func beforeAnEnclave(t *testing.T) *rig.Gateway {
	t.Helper()
	e, err := enclave.New(enclave.Options{})
	if err != nil {
		t.Fatal(err)
	}
	base, err := e.Start("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	root := filepath.Join(t.TempDir(), "root.pem")
	if err := os.WriteFile(root, e.Root(), 0o600); err != nil {
		t.Fatal(err)
	}
	g := rig.StartGateway(t, fmt.Sprintf(`
tee: { allow_test_root: true, intel_root_file: %q, gpu: "off", collateral: { url: "%s/pcs" } }
upstreams: [{ name: enclave, base_url: "%s/v1" }]
models:
  - { id: e2ee-m, context_tokens: 8192, price: free, tee: { kind: dstack }, targets: [{ upstream: enclave }] }
`, root, base, base))
	g.MetricIs("farebox_tee_collateral_ends_timestamp_seconds", func(v float64) bool { return v > 0 })
	return g
}

// paidByWallets is a network of x402 whose node is away.
const paidByWallets = `
rpc: { networks: [{ name: base-mainnet, upstreams: [{ name: away, url: "http://127.0.0.1:1" }] }] }
x402:
  sign_in: { domains: [shop.test] }
  networks: [{ network: base, rpc: base-mainnet, pay_to: "0x2670B922ef37C7Df47158725C0CC407b5382293F" }]
  facilitators: [{ name: away, url: "http://127.0.0.1:1" }]
`
