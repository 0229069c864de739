//go:build agents

package clients

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"farebox/bench/upstream"
	"farebox/tests/rig"
)

// Agents beside Codex and Claude Code, and libraries with a short program around the
// block of routes/clients.md: bench/clients/agents/others. `make test-agents` runs them.

// namedModels are models by whose names agents send other members.
const namedModels = `  - { <<: *model, id: gpt-5 }
  - { <<: *model, id: claude-sonnet-4-5, targets: [{ upstream: anthropic, model: claude-opus-4-5 }] }
`

// othersBin has the programs of npm.
const othersBin = "agents/others/node_modules/.bin/"

var otherAgents = []agent{
	{
		name: "opencode", executable: othersBin + "opencode",
		models:    onEach(runsCommands("bash", `{"command":"%s","description":"Writes a file"}`)),
		arguments: []string{"run", "--auto", "--", "$PROMPT"},
		settings:  fromPage("opencode", "json", ".config/opencode/opencode.json", "OPENCODE_DISABLE_MODELS_FETCH=1"),
	},
	{
		name: "Qwen Code", executable: othersBin + "qwen",
		models:    onEach(runsCommands("run_shell_command", `{"command":"%s","description":"Writes a file","is_background":false}`)),
		arguments: []string{"--yolo", "$PROMPT"},
		settings:  fromPage("Qwen Code", "json", ".qwen/settings.json"),
	},
	{
		name: "Continue", executable: othersBin + "cn",
		models:    onEach(runsCommands("Bash", `{"command":"%s"}`)),
		arguments: []string{"--auto", "-p", "$PROMPT"},
		settings:  fromPage("Continue", "yaml", ".continue/config.yaml"),
	},
	{
		name: "Cline", executable: othersBin + "cline",
		models:    onEach(runsCommands("run_commands", `{"commands":["%s"]}`)),
		arguments: []string{"--", "$PROMPT"},
		settings: func(t *testing.T, home string, set *strings.Replacer) []string {
			command, _, _ := strings.Cut(set.Replace(pageBlock(t, "Cline", "sh")), "\n")
			cmd := exec.Command("sh", "-c", command)
			cmd.Env = []string{"HOME=" + home, "PATH=" + absolute(t, "bench", "clients", othersBin) + ":" + os.Getenv("PATH")}
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%s: %v\n%s", command, err, out)
			}
			return []string{"CLINE_SESSION_BACKEND_MODE=local"} // else a process of its own stays
		},
	},
	{
		name: "aider", executable: "agents/others/.venv/bin/aider",
		models: map[string][]situation{
			"openai": aiderWhole, "responses": aiderWhole, "anthropic": aiderWhole, "gemini": aiderWhole,
			"gpt-5": aiderDiff, "claude-sonnet-4-5": aiderDiff,
		},
		arguments: []string{"--model", "openai/sim-chat-small", "--yes-always", "--no-git", "--no-check-update",
			"--no-show-release-notes", "--analytics-disable", "--no-show-model-warnings", "--message", "$PROMPT"},
		settings: func(t *testing.T, _ string, set *strings.Replacer) []string {
			return append(exported(t, "aider", set), "LITELLM_LOCAL_MODEL_COST_MAP=True")
		},
	},
	library("the Vercel AI SDK", "vercel.mjs"),
	library("LangChain (JavaScript)", "langchain.mjs"),
	library("openai-agents (JavaScript)", "openai_agents.mjs"),
	library("LangChain (Python)", "langchain.py"),
	library("openai-agents (Python)", "openai_agents.py"),
	library("Pydantic AI", "pydantic_ai.py"),
}

// runsCommands has an agent write a file with its tool for commands, once and twice.
func runsCommands(tool, arguments string) []situation {
	const command = "echo farebox >> made.txt"
	return writing(tool + " " + fmt.Sprintf(arguments, command))
}

// writing has an agent answer, and write a file by a call, once and twice.
func writing(call string) []situation {
	return []situation{
		{name: "answers", wants: answers},
		{name: "writes a file", call: call, does: wrote(1)},
		{name: "writes a file twice", rounds: 2, call: call, does: wrote(2)},
	}
}

// aider edits files by the text of an answer; the form of the text depends on the model's name.
var (
	aiderWhole = aiderSays("made.txt\n```\nfarebox\n```\n")
	aiderDiff  = aiderSays("made.txt\n```\n<<<<<<< SEARCH\n=======\nfarebox\n>>>>>>> REPLACE\n```\n")
)

func aiderSays(text string) []situation {
	return []situation{
		{name: "answers", wants: answers},
		{name: "writes a file", says: text, does: wrote(1)},
	}
}

// onEach has the same situations on a model of each dialect, and the last on the named models.
func onEach(situations []situation) map[string][]situation {
	last := situations[len(situations)-1:]
	return map[string][]situation{
		"openai": situations, "responses": situations, "anthropic": situations, "gemini": situations,
		"gpt-5": last, "claude-sonnet-4-5": last,
	}
}

// fromPage puts a client's block of routes/clients.md into a file of its home.
func fromPage(client, language, file string, variables ...string) func(*testing.T, string, *strings.Replacer) []string {
	return func(t *testing.T, home string, set *strings.Replacer) []string {
		place(t, filepath.Join(home, file), set.Replace(pageBlock(t, client, language)))
		return variables
	}
}

// place writes a file and makes its folder.
func place(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// library is an agent made of the page's block and a program that adds a tool and runs it.
// The packages are those of bench/clients/public.
func library(client, program string) agent {
	a := agent{name: strings.TrimPrefix(client, "the "), models: onEach(writing(`write {"text":"farebox\n"}`))}
	a.executable, a.arguments = "node", []string{"$HOME/agent.mjs", "$PROMPT"}
	language, file := "js", "agent.mjs"
	if strings.HasSuffix(program, ".py") {
		a.executable, a.arguments = "public/python/.venv/bin/python", []string{"$HOME/agent.py", "$PROMPT"}
		language, file = "python", "agent.py"
	}
	a.settings = func(t *testing.T, home string, set *strings.Replacer) []string {
		text, err := os.ReadFile(filepath.Join("bench", "clients", "agents", "others", "libraries", program))
		if err != nil {
			t.Fatal(err)
		}
		place(t, filepath.Join(home, file), set.Replace(pageBlock(t, client, language))+"\n"+string(text))
		if language == "js" {
			if err := os.Symlink(absolute(t, "bench", "clients", "public", "node", "node_modules"), filepath.Join(home, "node_modules")); err != nil {
				t.Fatal(err)
			}
		}
		return nil
	}
	return a
}

// tryOthers tries agents beside each other on those models that a gateway has, and compares the table.
func tryOthers(t *testing.T, g *rig.Gateway, key string, models func(a *agent) map[string][]situation) {
	var (
		mu    sync.Mutex
		table []string
	)
	t.Run("agents", func(t *testing.T) {
		for _, a := range otherAgents {
			t.Run(a.name, func(t *testing.T) {
				t.Parallel()
				for model, situations := range models(&a) {
					for _, s := range situations {
						row := a.tried(t, g, nil, key, model, &s)
						mu.Lock()
						table = append(table, row)
						mu.Unlock()
					}
				}
			})
		}
	})
	shown(t, g, table)
}

// They answer and call tools on a model of each dialect, with the settings that
// routes/clients.md names.
func TestOtherAgentsWorkAtTheFirstTry(t *testing.T) {
	sim := rig.StartUpstream(t, upstream.Options{})
	g := rig.StartGateway(t, fmt.Sprintf(agentsConfig+namedModels, strings.TrimSuffix(sim.URL, "/v1")))
	g.NewAccount("a", "1000")
	tryOthers(t, g, g.Key("a"), func(a *agent) map[string][]situation { return a.models })
}

// The demonstration serves them with the page's own model.
func TestOtherAgentsWorkWithTheDemonstration(t *testing.T) {
	g := startDemonstration(t)
	tryOthers(t, g.Gateway, g.Key("rich"), func(a *agent) map[string][]situation {
		return map[string][]situation{"sim-chat-small": a.models["openai"][:2]}
	})
}
