package clients

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"farebox/bench/servers"
	"farebox/bench/upstream"
	"farebox/bench/upstream/strict"
	"farebox/tests/rig"
)

// The packages that people use beside OpenAI's own, as the registries have them:
// bench/clients/public. They run against the demonstration, whose defaults are
// the specification's, and against an example config as an operator would use it.

// publicGateway is a gateway that the packages are tried with.
type publicGateway struct {
	*rig.Gateway
	environment []string
}

// startDemonstration starts the gateway of `farebox serve` without a config.
func startDemonstration(t *testing.T) *publicGateway {
	t.Helper()
	s := strict.New(upstream.Options{})
	t.Cleanup(s.Close)
	where, err := s.StartAll()
	if err != nil {
		t.Fatal(err)
	}
	var variables []string
	for name, value := range where {
		variables = append(variables, "${"+name+"}", value)
	}
	return startPublic(t, filepath.Join("config", "demo.yaml"), variables,
		"FAREBOX_MODEL=sim-chat-small", "FAREBOX_EMBEDDING_MODEL=sim-embed", "FAREBOX_STRICT=1")
}

// startExample is the example config with a simulated OpenAI behind it.
func startExample(t *testing.T) *publicGateway {
	t.Helper()
	s := rig.StartUpstream(t, upstream.Options{Key: "upstream-key"})
	return startPublic(t, filepath.Join("config", "examples", "minimal-openai.yaml"),
		[]string{"https://api.openai.com/v1", s.URL, "${OPENAI_API_KEY}", "upstream-key"},
		"FAREBOX_MODEL=gpt-4.1-mini", "FAREBOX_EMBEDDING_MODEL=text-embedding-3-small", "FAREBOX_STRICT=0")
}

func startPublic(t *testing.T, file string, replace []string, environment ...string) *publicGateway {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(replace); i += 2 {
		if !strings.Contains(string(text), replace[i]) {
			t.Fatalf("%s has no %s any more", file, replace[i])
		}
	}
	g := rig.StartGateway(t, strings.NewReplacer(replace...).Replace(string(text)))
	g.NewAccount("rich", "100")
	g.NewAccount("poor", "")
	return &publicGateway{g, append(environment, "FAREBOX_URL="+g.URL, "FAREBOX_KEY="+g.Key("rich"),
		"FAREBOX_POOR_KEY="+g.Key("poor"), "NO_COLOR=1")}
}

// try runs a suite of packages and fails with its output.
func (g *publicGateway) try(t *testing.T, dir, count string, command ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), rig.SuiteLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), g.environment...)
	cmd.WaitDelay = 5 * time.Second
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v failed: %v\n%s", command, err, out)
	}
	rig.Counted(t, out, count)
}

func onPublicGateways(t *testing.T, test func(t *testing.T, g *publicGateway)) {
	t.Run("they work with the demonstration", func(t *testing.T) { test(t, startDemonstration(t)) })
	t.Run("they work with an example config", func(t *testing.T) { test(t, startExample(t)) })
}

// The packages of npm: each has its answer, its stream, its tools and embeddings
// at the first try, with its own option for a cap, and shows every refusal.
func TestLongPublicClientsOfNode(t *testing.T) {
	dir := filepath.Join("bench", "clients", "public", "node")
	if _, err := os.Stat(filepath.Join(dir, "node_modules", "ai")); err != nil {
		t.Fatalf("the packages are not installed in %s: run make setup-long", dir)
	}
	onPublicGateways(t, func(t *testing.T, g *publicGateway) {
		g.try(t, dir, `(?m)^\S* ?tests (\d+)$`, "node", "--test", "--test-reporter=spec")
	})
}

// The packages of PyPI, in two environments: some need the openai package
// before version 3, some one from it on.
func TestLongPublicClientsOfPython(t *testing.T) {
	dir := filepath.Join("bench", "clients", "public", "python")
	for _, environment := range []string{".venv", ".venv-openai2"} {
		python, err := filepath.Abs(filepath.Join(dir, environment, "bin", "python"))
		if err != nil {
			t.Fatal(err)
		}
		t.Run(strings.TrimPrefix(environment, "."), func(t *testing.T) {
			if _, err := os.Stat(python); err != nil {
				servers.Missing(t, "the "+environment+" of "+dir)
			}
			onPublicGateways(t, func(t *testing.T, g *publicGateway) {
				g.try(t, dir, `(?m)^Ran (\d+) tests?`, python, "-m", "unittest", "-v", "public_clients")
			})
		})
	}
}
