package clients

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"farebox/bench/servers"
	"farebox/bench/upstream"
	"farebox/tests/rig"
)

// agentsConfig has a model for each dialect; the agents think more of some names.
const agentsConfig = `
log: { level: warn, format: json }
limits: { failed_requests: { count: 0 }, unsupported_features: { count: 0 } }
upstreams:
  - { name: responses, base_url: "%[1]s/v1", responses: true, breaker: { failures: 0 } }
  - { name: openai, base_url: "%[1]s/v1", breaker: { failures: 0 } }
  - { name: anthropic, dialect: anthropic, base_url: "%[1]s/v1", breaker: { failures: 0 } }
  - { name: gemini, dialect: gemini, base_url: "%[1]s/v1beta", breaker: { failures: 0 } }
models:
  - &model
    id: openai
    tier: unlimited
    context_tokens: 200000
    max_completion_tokens: 16384
    capabilities: { reasoning: true, reasoning_effort: [low, medium, high], tools: true, response_schema: true, vision: true }
    price: { input: 1, output: 2 }
    targets: [{ upstream: openai, model: gpt-5 }]
  - { <<: *model, id: responses, targets: [{ upstream: responses, model: gpt-5 }] }
  - { <<: *model, id: anthropic, targets: [{ upstream: anthropic, model: claude-opus-4-5 }] }
  - { <<: *model, id: gemini, targets: [{ upstream: gemini, model: gemini-3-flash-preview }] }
  - { <<: *model, id: gpt-5.5 }      # Codex sends custom tools and tool_search
  - { <<: *model, id: gpt-6-luna }   # Codex sends its lite form
`

// agent is a command line that people use unmodified, with the settings that routes/clients.md names.
type agent struct {
	name       string
	executable string // below bench/clients, or in PATH when it has no slash
	models     map[string][]situation
	arguments  []string // $HOME, $PROMPT and sim-chat-small are replaced
	resumes    []string // …with its last conversation
	// settings gives the agent its settings, in its home or as variables.
	settings func(t *testing.T, home string, set *strings.Replacer) (variables []string)
}

// prompted are arguments that end with a model and a prompt.
func prompted(arguments ...string) []string {
	return append(arguments, "--model", "sim-chat-small", "--", "$PROMPT")
}

var agents = []agent{
	{
		name: "Codex", executable: "agents/node_modules/.bin/codex",
		models: map[string][]situation{
			"openai": codexPlain, "anthropic": codexPlain, "gemini": codexPlain, "responses": codexPlain,
			"gpt-5.5":    {{name: "patches with a custom tool", call: `apply_patch {"input":"*** Begin Patch\n*** Add File: made.txt\n+farebox\n*** End Patch"}`, does: wrote(1)}},
			"gpt-6-luna": {{name: "runs its lite form", call: `exec {"input":"text(\"farebox\")"}`}},
		},
		arguments: prompted("exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"),
		resumes:   prompted("exec", "resume", "--last", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"),
		settings: func(t *testing.T, home string, set *strings.Replacer) []string {
			text := set.Replace(pageBlock(t, "Codex", "toml"))
			if err := os.WriteFile(filepath.Join(home, "config.toml"), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			return []string{"CODEX_HOME=" + home}
		},
	},
	{
		name: "Claude Code", executable: "agents/node_modules/.bin/claude",
		models:    map[string][]situation{"openai": claudePlain, "anthropic": claudePlain, "gemini": claudePlain},
		arguments: prompted("-p", "--allowedTools=Bash"),
		resumes:   prompted("-p", "--allowedTools=Bash", "--continue"),
		settings: func(t *testing.T, _ string, set *strings.Replacer) []string {
			return append(exported(t, "Claude Code", set), "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1")
		},
	},
}

// pageBlock is the first block of a language in a client's section of routes/clients.md.
func pageBlock(t *testing.T, client, language string) string {
	t.Helper()
	page := filepath.Join("routes", "clients.md")
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	_, section, ok := strings.Cut(string(text), "\n## Use with "+client+"\n")
	section, _, _ = strings.Cut(section, "\n## ")
	_, block, begins := strings.Cut(section, "```"+language+"\n")
	block, _, ends := strings.Cut(block, "```")
	if !ok || !begins || !ends {
		t.Fatalf("%s has no block of %s for %s", page, language, client)
	}
	return block
}

// exported are the variables that a client's section of routes/clients.md exports.
func exported(t *testing.T, client string, set *strings.Replacer) (variables []string) {
	t.Helper()
	for line := range strings.Lines(set.Replace(pageBlock(t, client, "sh"))) {
		if variable, ok := strings.CutPrefix(strings.TrimSpace(line), "export "); ok {
			variables = append(variables, variable)
		}
	}
	return variables
}

// Codex, Claude Code and Vercel's AI SDK, as the registry has them, talk to a model of each dialect and
// call tools. Their settings are those of routes/clients.md. They continue after a kill, and report
// refusals in their own words.
func TestLongAgentsWorkAtTheFirstTry(t *testing.T) {
	sim := rig.StartUpstream(t, upstream.Options{})
	g := rig.StartGateway(t, fmt.Sprintf(agentsConfig, strings.TrimSuffix(sim.URL, "/v1")))
	g.NewAccount("a", "1000")
	key := g.Key("a")
	g.NewAccount("poor", "")
	table := tryAISDK(t, g, key, g.Key("poor"))
	for _, a := range agents {
		for model, situations := range a.models {
			for _, s := range situations {
				table = append(table, a.tried(t, g, sim, key, model, &s))
			}
		}
	}
	shown(t, g, table)
}

// The demonstration serves them, too: each of its models that takes tools.
func TestLongAgentsWorkWithTheDemonstration(t *testing.T) {
	g := startDemonstration(t).Gateway
	key := g.Key("rich")
	_, _, catalog := g.Get("/models?type=text", key)
	var table []string
	for _, a := range agents {
		works := &a.models["openai"][1]
		for _, model := range gjson.GetBytes(catalog, "data.#(model_spec.capabilities.supportsFunctionCalling==true)#.id").Array() {
			table = append(table, a.tried(t, g, nil, key, model.Str, works))
		}
	}
	if len(table) < 2*len(agents) {
		t.Errorf("%d models take tools: %s", len(table)/len(agents), catalog)
	}
	shown(t, g, table)
}

// shown compares the results with the table in agents.md, and recounts the ledger.
func shown(t *testing.T, g *rig.Gateway, table []string) {
	t.Helper()
	slices.Sort(table)
	text := "| Agent | Model | Situation | Result |\n|---|---|---|---|\n" + strings.Join(table, "\n") + "\n"
	t.Logf("\n%s", text)
	known, err := os.ReadFile(filepath.Join("tests", "clients", "agents.md"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(known), text) {
		t.Errorf("tests/clients/agents.md has another table")
	}
	g.Settled()
	g.CLI("verify")
}

// tried is a row of the table.
func (a *agent) tried(t *testing.T, g *rig.Gateway, sim *rig.Simulated, key, model string, s *situation) string {
	t.Helper()
	result, began := "worked", time.Now()
	if out, err := a.run(t, g, sim, key, model, s); err != nil {
		result = "failed"
		t.Errorf("%s on %s: %s: %v\n%s", a.name, model, s.name, err, out)
	}
	t.Logf("%s on %s: %s: %s in %.1f s", a.name, model, s.name, result, time.Since(began).Seconds())
	return fmt.Sprintf("| %s | %s | %s | %s |", a.name, model, s.name, result)
}

// run has an agent do one thing in a folder of its own.
func (a *agent) run(t *testing.T, g *rig.Gateway, sim *rig.Simulated, key, model string, s *situation) (string, error) {
	t.Helper()
	executable := a.executable
	if strings.Contains(executable, "/") {
		executable = absolute(t, "bench", "clients", executable)
	}
	home, folder := t.TempDir(), t.TempDir()
	picture, err := base64.StdEncoding.DecodeString(pictureFile)
	if err != nil || os.WriteFile(filepath.Join(folder, "picture.png"), picture, 0o600) != nil {
		t.Fatal("the picture cannot be written", err)
	}
	set := strings.NewReplacer("http://127.0.0.1:8080", g.Origin, "SVC_INFERENCE_KEY_…", key, "sim-chat-small", model, "$HOME", home)
	variables := append(a.settings(t, home, set), "HOME="+home, "PATH="+os.Getenv("PATH"), "FAREBOX_KEY="+key, "NO_COLOR=1", "CI=1")
	variables = append(variables, s.variables...)
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
	defer cancel()
	command := func(templates []string, prompt string) (cmd *exec.Cmd, said *bytes.Buffer) {
		arguments := make([]string, len(templates))
		for i, template := range templates {
			arguments[i] = strings.ReplaceAll(set.Replace(template), "$PROMPT", prompt)
		}
		cmd = exec.CommandContext(ctx, executable, arguments...)
		cmd.Dir, cmd.WaitDelay, cmd.Env, said = folder, 5*time.Second, variables, &bytes.Buffer{}
		cmd.Stdout, cmd.Stderr = said, said
		return cmd, said
	}
	arguments, prompt := a.arguments, s.prompt()
	if s.arguments != nil {
		arguments = s.arguments
	}
	before, _ := g.Metric(`farebox_left_out_total{name="` + s.leaves + `"}`)
	if s.stops != nil {
		cmd, said := command(arguments, prompt)
		if err := interrupted(cmd, func() bool { return s.stops(g, folder) }); err != nil {
			return said.String(), err
		}
		arguments, prompt = a.resumes, goesOn
	}
	cmd, said := command(arguments, prompt)
	err = cmd.Run()
	out := strings.ReplaceAll(said.String(), prompt, "") // Codex repeats its prompt
	after, _ := g.Metric(`farebox_left_out_total{name="` + s.leaves + `"}`)
	switch {
	case (err != nil) != s.fails:
		return out, fmt.Errorf("it ends with %v", err)
	case s.does != nil && !s.does(folder):
		return out, fmt.Errorf("the tool did nothing")
	case s.does == nil && len(strings.TrimSpace(out)) == 0, !regexp.MustCompile(s.wants).MatchString(out):
		return out, fmt.Errorf("it says nothing")
	case s.leaves != "" && after == before:
		return out, fmt.Errorf("%s was not left out", s.leaves)
	case s.sends != "" && !slices.ContainsFunc(sim.Last(), func(r upstream.Received) bool {
		return bytes.Contains(r.Body, []byte(folder)) && bytes.Contains(r.Body, []byte(s.sends)) // agents say where they are
	}):
		return out, fmt.Errorf("no model was sent %q", s.sends)
	}
	return out, nil
}

// interrupted starts an agent and kills it and its children once is reports true.
func interrupted(cmd *exec.Cmd, is func() bool) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	for until := time.Now().Add(30 * time.Second); !is() && time.Now().Before(until); {
		time.Sleep(50 * time.Millisecond)
	}
	reached := is()
	time.Sleep(300 * time.Millisecond)
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	if err := cmd.Wait(); err == nil || !reached {
		return fmt.Errorf("it was not interrupted: %v", err)
	}
	return nil
}

// absolute is the path of something that .ci/setup installs.
func absolute(t *testing.T, path ...string) string {
	t.Helper()
	full, err := filepath.Abs(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(full); err != nil {
		servers.Missing(t, full)
	}
	return full
}
