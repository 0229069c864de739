package operations

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"farebox/bench/servers"
	"farebox/bench/upstream"
	"farebox/tests/rig"
)

// prometheus is one with the rules of config/deploy.
type prometheus struct {
	t   *testing.T
	url string
}

// startPrometheus scrapes gateways every second until the test ends.
func startPrometheus(t *testing.T, gateways ...*rig.Gateway) *prometheus {
	t.Helper()
	program := servers.Tool(t, "prometheus")
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("config", "deploy"))); err != nil {
		t.Fatal(err)
	}
	var targets []string
	for _, g := range gateways {
		u, err := url.Parse(g.MetricsURL())
		if err != nil {
			t.Fatal(err)
		}
		targets = append(targets, fmt.Sprintf("%q", u.Host))
	}
	text, err := os.ReadFile(filepath.Join(dir, "compose", "prometheus.yml"))
	if err != nil {
		t.Fatal(err)
	}
	config := strings.NewReplacer(`"node-1:9464", "node-2:9464"`, strings.Join(targets, ", "),
		"scrape_interval: 15s, evaluation_interval: 15s", "scrape_interval: 1s, evaluation_interval: 1s").Replace(string(text))
	file := filepath.Join(dir, "prometheus.yml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	addr := rig.FreeAddr(t)
	out := &rig.Output{}
	cmd := exec.Command(program, "--config.file="+file, "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+addr)
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("prometheus:\n%s", rig.Last(out.String(), 2000))
		}
	})
	p := &prometheus{t: t, url: "http://" + addr}
	for end := time.Now().Add(rig.StartLimit); ; time.Sleep(50 * time.Millisecond) {
		if res, err := http.Get(p.url + "/-/ready"); err == nil {
			_ = res.Body.Close()
			if res.StatusCode == 200 {
				return p
			}
		}
		if time.Now().After(end) {
			t.Fatalf("Prometheus does not start:\n%s", out)
		}
	}
}

// get reads a path of its API into the data of the answer, and gives its error.
func (p *prometheus) get(path string, into any) error {
	p.t.Helper()
	res, err := http.Get(p.url + "/api/v1/" + path)
	if err != nil {
		p.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	var answer struct {
		Status, Error string
		Data          json.RawMessage
	}
	if err := json.Unmarshal(raw, &answer); err != nil || answer.Status != "success" {
		return fmt.Errorf("%s: %s%v", path, raw, err)
	}
	return json.Unmarshal(answer.Data, into)
}

// series is how many series a query gives.
func (p *prometheus) series(query string) (int, error) {
	var data struct{ Result []json.RawMessage }
	err := p.get("query?query="+url.QueryEscape(query), &data)
	return len(data.Result), err
}

// "The dashboard was full of errors, and the alert that mattered could not be evaluated." A
// Prometheus that scrapes gateways of each kind evaluates each rule and each query of the
// dashboard.
func TestLongRulesAndPanelsRunInPrometheus(t *testing.T) {
	t.Parallel()
	dir := filepath.Join("config", "deploy")
	promtool := servers.Tool(t, "promtool")
	if out, err := exec.Command(promtool, "check", "rules", filepath.Join(dir, "alerts.yaml")).CombinedOutput(); err != nil {
		t.Errorf("promtool check rules: %v\n%s", err, out)
	}

	node := rig.StartCluster(t, 1)
	sim := rig.StartUpstream(t, upstream.Options{})
	lone := rig.StartGateway(t, fmt.Sprintf(rig.LoneConfig, sim.URL, "")+fmt.Sprintf("augment: { scrape: {}, text_parser: {}, "+
		"search: { brave: [{ name: s, format: brave, base_url: %q, key: k }] } }\n", sim.URL)+paidByWallets)
	sealed := beforeAnEnclave(t)
	p := startPrometheus(t, node.Nodes[0], lone, sealed)
	n := node.Nodes[0]
	n.NewAccount("a", "10")
	lone.NewAccount("a", "10")
	key, other := n.Key("a"), lone.Key("a")
	for end := time.Now().Add(rig.CallLimit); ; time.Sleep(100 * time.Millisecond) { // it begins some seconds after its start
		if up, err := p.series("up == 1"); err != nil || up == 3 {
			break
		} else if time.Now().After(end) {
			t.Fatalf("Prometheus reaches %d gateways of 3", up)
		}
	}
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		n.Post("/chat/completions", key, rig.Ask("sim-chat", "[[sim tokens=3]] Go", ""))
		n.Post("/chat/completions", key, rig.Ask("sim-chat", "[[sim tokens=3]] Go", `,"stream":true`))
		n.Post("/chat/completions", key, "{}")
		n.Post("/crypto/rpc/ethereum-sepolia", key, `{"jsonrpc":"2.0","id":1,"method":"eth_blockNumber","params":[]}`)
		lone.Post("/augment/search", other, `{"query":"Go"}`)
		lone.Post("/augment/scrape", other, `{"url":"http://127.0.0.1/"}`)
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
		Templating struct {
			List []struct{ Type, Query string }
		}
	}
	if err := json.Unmarshal(raw, &board); err != nil {
		t.Fatal(err)
	}
	name := regexp.MustCompile(`\b(?:farebox|gen_ai)_[a-z0-9_]*[a-z0-9]\b`)
	labels := regexp.MustCompile(`"[^"]*"|by \([^)]*\)|\{[^}]*\}`)
	check := func(where, query string) (series int) {
		series, err := p.series(query)
		if err != nil {
			t.Errorf("%s: %v", where, err)
		}
		for _, m := range name.FindAllString(labels.ReplaceAllString(query, ""), -1) {
			if has, err := p.series(m); err != nil || has == 0 {
				t.Errorf("%s: Prometheus has no %s (%v)", where, m, err)
			}
		}
		return series
	}
	asked := 0
	grafana := strings.NewReplacer("$__rate_interval", "1m", "$instance", ".*")
	for _, panel := range board.Panels {
		for _, target := range panel.Targets {
			asked++
			if check("the panel "+panel.Title, grafana.Replace(target.Expr)) == 0 {
				t.Errorf("the panel %s is empty: %s", panel.Title, target.Expr)
			}
		}
	}
	for _, v := range board.Templating.List {
		if v.Type != "query" {
			continue
		}
		var values []string
		m := regexp.MustCompile(`^label_values\((\w+), (\w+)\)$`).FindStringSubmatch(v.Query)
		if m == nil {
			t.Errorf("the variable %s cannot be read", v.Query)
		} else if err := p.get("label/"+m[2]+"/values?match[]="+m[1], &values); err != nil || len(values) != 3 {
			t.Errorf("the variable %s has %v, %v", v.Query, values, err)
		}
	}

	type rule struct{ Name, Query, Health, LastError string }
	var rules struct{ Groups []struct{ Rules []rule } }
	var list []rule
	unknown := func(r rule) bool { return r.Health == "unknown" }
	for end := time.Now().Add(rig.CallLimit); len(list) == 0 || slices.ContainsFunc(list, unknown) && time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		if err := p.get("rules", &rules); err != nil {
			t.Fatal(err)
		}
		list = nil
		for _, group := range rules.Groups {
			list = append(list, group.Rules...)
		}
	}
	for _, r := range list {
		if r.Health != "ok" || r.LastError != "" {
			t.Errorf("the rule %s: %s %s", r.Name, r.Health, r.LastError)
		}
		check("the alert "+r.Name, r.Query)
	}
	text, err := os.ReadFile(filepath.Join(dir, "alerts.yaml"))
	if err != nil || len(list) != strings.Count(string(text), "- alert:") || len(list) < 10 || asked < 40 {
		t.Errorf("%d rules and %d queries are found (%v)", len(list), asked, err)
	}
	t.Logf("%d rules and %d queries were evaluated; no panel is empty", len(list), asked)
}
