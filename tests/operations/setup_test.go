package operations

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"farebox/bench/upstream"
	"farebox/tests/rig"
)

// runWith runs a command of farebox with further variables, and none of the providers' that the tests were started with.
func runWith(t *testing.T, dir string, env []string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.Command(rig.Binary(t), args...)
	cmd.Dir = dir
	for _, v := range rig.Env(t) {
		if name, _, _ := strings.Cut(v, "="); !strings.HasSuffix(name, "_API_KEY") && !strings.HasSuffix(name, "_BASE_URL") {
			cmd.Env = append(cmd.Env, v)
		}
	}
	cmd.Env = append(cmd.Env, env...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// From keys in the environment to a served call: no value is typed.
func TestInitWritesAConfigThatServes(t *testing.T) {
	t.Parallel()
	const openAIKey, anthropicKey = "sk-of-openai", "sk-ant-of-anthropic"
	openAI := rig.StartUpstream(t, upstream.Options{Key: openAIKey, Models: []string{"gpt-5.4-mini", "gpt-6-sol", "text-embedding-3-small", "in-no-list"}})
	anthropic := rig.StartUpstream(t, upstream.Options{Key: anthropicKey, Models: []string{"claude-sonnet-5"}})
	root := func(s *rig.Simulated) string { return strings.TrimSuffix(s.URL, "/v1") }
	env := []string{"OPENAI_API_KEY=" + openAIKey, "OPENAI_BASE_URL=" + openAI.URL,
		"ANTHROPIC_API_KEY=" + anthropicKey, "ANTHROPIC_BASE_URL=" + root(anthropic)}
	dir, began := t.TempDir(), time.Now()
	out, err := runWith(t, dir, env, "init")
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("init took %s:\n%s", time.Since(began).Round(time.Millisecond), out)
	text, err := os.ReadFile(filepath.Join(dir, "farebox.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{openAIKey, anthropicKey} {
		if strings.Contains(string(text), secret) || strings.Contains(out, secret) {
			t.Errorf("%s is in the config or in the output of init", secret)
		}
	}
	if strings.Contains(string(text), "in-no-list") || strings.Contains(string(text), "gpt-6-luna") {
		t.Errorf("the config has models that the key cannot use or that have no price:\n%s", text)
	}
	if info, err := os.Stat(filepath.Join(dir, "farebox.yaml")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file has mode %v, %v", info.Mode(), err)
	}
	if out, err := runWith(t, dir, env, "check", "--strict", "--online", "-c", "farebox.yaml"); err != nil {
		t.Errorf("check: %v\n%s", err, out)
	}
	// The commands that it names work.
	_, commands, _ := strings.Cut(out, "  "+rig.Binary(t)+" account")
	next := exec.Command("sh", "-ec", rig.Binary(t)+" account"+commands)
	next.Dir, next.Env = dir, append(rig.Env(t), env...)
	if said, err := next.CombinedOutput(); err != nil || !strings.Contains(string(said), "SVC_INFERENCE_KEY_") {
		t.Errorf("%v\n%s\n%s", err, commands, said)
	}
	// Nothing is replaced unasked.
	if out, err := runWith(t, dir, env, "init"); err == nil || !strings.Contains(out, "--force") {
		t.Errorf("a second init: %v\n%s", err, out)
	}

	served := strings.NewReplacer("${OPENAI_API_KEY}", openAIKey, "${ANTHROPIC_API_KEY}", anthropicKey).Replace(string(text))
	served = withoutLines(served, "listen:", "store:")
	g := rig.StartGateway(t, served)
	key := g.Key(g.NewAccount("alice", "10"))
	tools := `"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}]`
	for _, c := range []struct{ path, model, more string }{
		{"/chat/completions", "gpt-5.4-mini", `,"max_tokens":64,"reasoning_effort":"low",` + tools},
		{"/chat/completions", "claude-sonnet-5", `,"max_tokens":64,` + tools},
		{"/messages", "claude-sonnet-5", `,"max_tokens":64`},
	} {
		body := fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":"Hello"}]%s}`, c.model, c.more)
		if status, _, answer := g.Post(c.path, key, body); status != 200 {
			t.Errorf("%s of %s: %d %s", c.path, c.model, status, answer)
		}
	}
	// The price is the list's and a fifth more.
	_, _, catalog := g.Get("/models?type=text", key)
	price := gjson.GetBytes(catalog, `data.#(id=="gpt-5.4-mini").model_spec.pricing`)
	if price.Get("input.usd").Raw != "0.9" || price.Get("output.usd").Raw != "5.4" {
		t.Errorf("the price of gpt-5.4-mini is %s", price)
	}
	g.Settled()
	g.CLI("verify")
}

// withoutLines takes lines with such a start out of a config; the tests have addresses of their own.
func withoutLines(text string, starts ...string) string {
	var kept []string
	for line := range strings.SplitSeq(text, "\n") {
		drop := false
		for _, s := range starts {
			drop = drop || strings.HasPrefix(line, s)
		}
		if !drop {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "\n")
}

// A server of one's own is asked for its models: vLLM's list has the context, Ollama reports it for each model.
func TestInitAsksOwnServers(t *testing.T) {
	t.Parallel()
	vllm := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/models" {
			w.WriteHeader(404)
			return
		}
		fmt.Fprint(w, `{"object":"list","data":[{"id":"Qwen/Qwen3-32B","object":"model","max_model_len":40960}]}`)
	}))
	t.Cleanup(vllm.Close)
	ollama := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/v1/models":
			fmt.Fprint(w, `{"object":"list","data":[{"id":"llama3.2:3b","object":"model"},{"id":"nomic-embed-text:latest"},{"id":"bad name: {"}]}`)
		case "/api/show":
			var asked struct{ Model string }
			_ = json.NewDecoder(r.Body).Decode(&asked)
			if asked.Model == "llama3.2:3b" {
				fmt.Fprint(w, `{"capabilities":["completion","tools"],"model_info":{"llama.context_length":131072}}`)
			} else {
				fmt.Fprint(w, `{"capabilities":["embedding"],"model_info":{"nomic-bert.context_length":2048}}`)
			}
		default:
			w.WriteHeader(404)
		}
	}))
	t.Cleanup(ollama.Close)
	dir := t.TempDir()
	out, err := runWith(t, dir, nil, "init", "--server", vllm.URL+","+ollama.URL+"/", "--own-price", "0.20/0.80", "--store", filepath.Join(dir, "l"))
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	text, err := os.ReadFile(filepath.Join(dir, "farebox.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{
		"  - id: Qwen/Qwen3-32B\n    context_tokens: 40960\n    price: { input: 0.20, output: 0.80 }\n",
		"  - id: llama3.2:3b\n    traits: [default] # serves requests without a model\n    context_tokens: 131072\n    capabilities: { tools: true }\n",
		"  - id: nomic-embed-text:latest\n    type: embedding\n    max_input_tokens: 2048\n    price: { input: 0.20 }\n",
	} {
		if !strings.Contains(string(text), part) {
			t.Errorf("the config does not have\n%s\n%s", part, text)
		}
	}
	if strings.Contains(string(text), "bad name") {
		t.Errorf("a name of the server's own is in the config:\n%s", text)
	}
	if out, err := runWith(t, dir, nil, "check", "-c", "farebox.yaml"); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// Errors of init say what to do.
func TestInitNamesMissingParts(t *testing.T) {
	t.Parallel()
	refusing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(401) }))
	t.Cleanup(refusing.Close)
	for _, c := range []struct {
		name string
		env  []string
		args []string
		want string
		good bool
	}{
		{"no key", nil, nil, "set OPENAI_API_KEY", false},
		{"an unknown provider", nil, []string{"--provider", "openia"}, `no provider "openia"`, false},
		{"no such server", nil, []string{"--server", "http://127.0.0.1:1"}, "the connection is refused", false},
		{"a key as a margin", []string{"OPENAI_API_KEY=x"}, []string{"--offline", "--margin", "many"}, "not a margin", false},
		{"no model of that name", []string{"OPENAI_API_KEY=x"}, []string{"--offline", "--model", "llama*"}, "no model is left", false},
		{"no such list", nil, []string{"--prices", "none.json"}, "none.json", false},
		{"a wrong key", []string{"OPENAI_API_KEY=x", "OPENAI_BASE_URL=" + refusing.URL}, nil, "the key is wrong or missing", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			out, err := runWith(t, dir, c.env, append([]string{"init"}, c.args...)...)
			if (err == nil) != c.good || !strings.Contains(out, c.want) {
				t.Errorf("%v\n%s", err, out)
			}
			if _, err := os.Stat(filepath.Join(dir, "farebox.yaml")); (err == nil) != c.good {
				t.Errorf("is there a file: %v", err)
			}
		})
	}
}

// The list is shown, and a config is compared with it.
func TestPricesShowsAndCompares(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	out, err := runWith(t, dir, nil, "prices", "openai/gpt-5.4*", "--json")
	if err != nil || gjson.Get(out, `models.#(model=="gpt-5.4-mini").input`).Str != "0.75" || gjson.Get(out, "date").Str == "" {
		t.Errorf("%v\n%.500s", err, out)
	}
	if out, err = runWith(t, dir, nil, "prices", "gpt-5.4-mini"); err != nil || !strings.Contains(out, "openai/gpt-5.4-mini") || strings.Contains(out, "claude") {
		t.Errorf("%v\n%s", err, out)
	}
	own := filepath.Join(dir, "own.json")
	if err := os.WriteFile(own, []byte(`{"gpt-x":{"litellm_provider":"openai","mode":"chat","max_input_tokens":1000,"max_output_tokens":100,
		"input_cost_per_token":1e-06,"output_cost_per_token":4e-06}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "farebox.yaml")
	config := func(input string) {
		text := fmt.Sprintf(`
prices: { list: %q, margin: 1.5 }
upstreams: [{ name: o, base_url: https://api.openai.com/v1, key: k }]
models:
  - { id: mine, context_tokens: 1000, price: { input: %s, output: 5 }, targets: [{ upstream: o, model: gpt-x }] }
  - { id: openai/*, targets: [{ upstream: o }] }
`, own, input)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	config("1.10")
	if out, err = runWith(t, dir, nil, "prices", "-c", file); err != nil || !strings.Contains(out, "10.0%") || !strings.Contains(out, "openai/gpt-x") ||
		!strings.Contains(out, "50.0%") {
		t.Errorf("%v\n%s", err, out)
	}
	config("0.50")
	if out, err = runWith(t, dir, nil, "prices", "-c", file); err == nil || !strings.Contains(out, "BELOW THE LIST") || !strings.Contains(out, "-50.0%") {
		t.Errorf("%v\n%s", err, out)
	}
}

// openai/* has the models of the list, and nothing else.
func TestWildcardsTakeTheList(t *testing.T) {
	t.Parallel()
	sim := rig.StartUpstream(t, upstream.Options{})
	g := rig.StartGateway(t, fmt.Sprintf(`
prices: { margin: 2 }
upstreams: [{ name: o, base_url: %q }]
models:
  - { id: openai/*, targets: [{ upstream: o }] }
  - { id: openai/gpt-6-sol, context_tokens: 1000, price: { input: 99, output: 99 }, targets: [{ upstream: o }] }
`, sim.URL))
	key := g.Key(g.NewAccount("a", "10"))
	ask := func(model string) int {
		status, _, _ := g.Post("/chat/completions", key, fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":"x"}],"max_completion_tokens":16}`, model))
		return status
	}
	if status := ask("openai/gpt-5.4-mini"); status != 200 || gjson.GetBytes(sim.Latest(t).Body, "model").Str != "gpt-5.4-mini" {
		t.Errorf("%d, the upstream was asked for %q", status, gjson.GetBytes(sim.Latest(t).Body, "model").Str)
	}
	for _, model := range []string{"openai/gpt-of-tomorrow", "openai/*", "openai/gpt-image-1", "gpt-5.4-mini"} {
		if status := ask(model); status != 404 {
			t.Errorf("%s: %d", model, status)
		}
	}
	_, _, catalog := g.Get("/models?type=all", key)
	price := func(id string) string {
		return gjson.GetBytes(catalog, fmt.Sprintf(`data.#(id==%q).model_spec.pricing.input.usd`, id)).Raw
	}
	if price("openai/gpt-5.4-mini") != "1.5" || price("openai/gpt-6-sol") != "99" || price("openai/text-embedding-3-small") != "0.04" {
		t.Errorf("prices: %s, %s, %s", price("openai/gpt-5.4-mini"), price("openai/gpt-6-sol"), price("openai/text-embedding-3-small"))
	}
	g.Settled()
	g.CLI("verify")
}
