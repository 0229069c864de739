package clients

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"farebox/bench/upstream"
	"farebox/tests/rig"
)

// ownAddresses are lines of a written config that a test has values of its own for.
var ownAddresses = regexp.MustCompile(`(?m)^(listen|store):.*\n`)

// Agents work with the config that `farebox init` writes from two keys, and with the one that `farebox import litellm`
// writes from a file.
func TestLongAgentsWorkWithAFirstConfig(t *testing.T) {
	openAI := rig.StartUpstream(t, upstream.Options{Models: []string{"gpt-5.4-mini", "gpt-5.4-nano"}})
	anthropic := rig.StartUpstream(t, upstream.Options{Models: []string{"claude-sonnet-5"}})
	root := strings.TrimSuffix(anthropic.URL, "/v1")
	var table []string
	for _, way := range []struct {
		name string
		file string
		args []string
	}{
		{"init", "", []string{"init"}},
		{"import litellm", `
model_list:
  - { model_name: gpt-5.4-mini, litellm_params: { model: openai/gpt-5.4-mini, api_base: "` + openAI.URL + `", api_key: os.environ/OPENAI_API_KEY } }
  - { model_name: claude-sonnet-5, litellm_params: { model: anthropic/claude-sonnet-5, api_base: "` + root + `", api_key: os.environ/ANTHROPIC_API_KEY } }
general_settings: { master_key: sk-1234 }
`, []string{"import", "litellm", "config.yaml"}},
	} {
		dir, began := t.TempDir(), time.Now()
		if err := os.WriteFile(filepath.Join(dir, "config.yaml"), []byte(way.file), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(rig.Binary(t), way.args...)
		cmd.Dir = dir
		cmd.Env = append(rig.Env(t), "OPENAI_API_KEY=sk-a", "OPENAI_BASE_URL="+openAI.URL, "ANTHROPIC_API_KEY=sk-b", "ANTHROPIC_BASE_URL="+root)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", way.name, err, out)
		}
		text, err := os.ReadFile(filepath.Join(dir, "farebox.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		served := strings.NewReplacer("${OPENAI_API_KEY}", "sk-a", "${ANTHROPIC_API_KEY}", "sk-b").Replace(string(text))
		g := rig.StartGateway(t, ownAddresses.ReplaceAllString(served, ""))
		key := g.Key(g.NewAccount("a", "1000"))
		for _, a := range agents {
			for _, model := range []string{"gpt-5.4-mini", "claude-sonnet-5"} {
				row := a.tried(t, g, nil, key, model, &a.models["openai"][1])
				if len(table) == 0 {
					t.Logf("%s: %s from nothing to a served agent", way.name, time.Since(began).Round(time.Millisecond))
				}
				table = append(table, strings.Replace(row, "| "+a.name+" |", "| "+a.name+", "+way.name+" |", 1))
			}
		}
		g.Settled()
		g.CLI("verify")
		if way.name != "init" {
			shown(t, g, table)
		}
	}
}
