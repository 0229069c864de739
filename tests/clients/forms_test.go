package clients

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"farebox/bench/servers"
	"farebox/tests/rig"
)

// The packages that speak POST /responses and POST /messages, as the registries have
// them. Each suite tries every way that a form is served: the models below differ in the
// dialects of their upstreams.

var (
	responsesModels = []string{"sim-chat", "sim-claude", "sim-responses"}
	messagesModels  = []string{"sim-chat", "sim-claude"}
)

// form runs a suite of one form and recounts the money.
func form(t *testing.T, dir, needs, count string, command ...string) {
	t.Helper()
	t.Parallel()
	formWithin(t, 32, dir, needs, count, command...)
}

// formWithin is form with so many tokens of room for each broken answer.
func formWithin(t *testing.T, room rig.Money, dir, needs, count string, command ...string) {
	t.Helper()
	dir = filepath.Join("bench", "clients", dir)
	if _, err := os.Stat(filepath.Join(dir, needs)); err != nil {
		servers.Missing(t, needs+" of "+dir)
	}
	c := startClients(t)
	c.room = room
	out := c.RunSuite(t, c.environment(), dir, command...)
	rig.Counted(t, out, count)
	c.recount(t)
}

const (
	nodeCount   = `(?m)^\S* ?tests (\d+)$`
	pythonCount = `(?m)^Ran (\d+) tests?`
)

var node = []string{"node", "--test", "--test-reporter=spec"}

// The openai package of npm works on /responses as with OpenAI.
func TestOpenAINodeOnResponses(t *testing.T) {
	form(t, "node", "node_modules/openai", nodeCount, append(node, "responses.suite.mjs")...)
}

// The package of Anthropic on npm works on /messages as with Anthropic.
func TestAnthropicNode(t *testing.T) {
	form(t, "node", "node_modules/@anthropic-ai/sdk", nodeCount, append(node, "messages.suite.mjs")...)
}

// python is the interpreter of an environment in a folder of clients.
func python(t *testing.T, dir, environment string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("bench", "clients", dir, environment, "bin", "python"))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// The openai package of PyPI works on /responses as with OpenAI.
func TestOpenAIPythonOnResponses(t *testing.T) {
	form(t, "python", ".venv", pythonCount, python(t, "python", ".venv"), "-m", "unittest", "-v", "responses_suite")
}

// The package of Anthropic on PyPI works on /messages as with Anthropic.
func TestAnthropicPython(t *testing.T) {
	form(t, "python", ".venv", pythonCount, python(t, "python", ".venv"), "-m", "unittest", "-v", "messages_suite")
}

// Each event of random conversations has a type and members of the packages' own models,
// whatever the upstreams' format.
func TestEventsAreThoseOfThePackages(t *testing.T) { conversations(t, 40) }

// The same in hundreds, of other seeds each time.
func TestLongEventsAreThoseOfThePackages(t *testing.T) { conversations(t, servers.Campaign(400)) }

// conversations has so many of each form.
func conversations(t *testing.T, count int) {
	const room = 300 // broken answers are counted here, with their tools and pictures
	t.Parallel()
	formWithin(t, room, "python", ".venv", pythonCount, "env", "FAREBOX_CONVERSATIONS="+strconv.Itoa(count),
		python(t, "python", ".venv"), "-m", "unittest", "-v", "events_suite.Conversations")
}

// openai-agents works as it comes, on /responses.
func TestLongPackagesOnResponsesNode(t *testing.T) {
	form(t, "public/node", "node_modules/@openai/agents", nodeCount, append(node, "responses.suite.mjs")...)
}

// openai-agents of PyPI works as it comes, on /responses.
func TestLongPackagesOnResponsesPython(t *testing.T) {
	form(t, "public/python", ".venv", pythonCount, python(t, "public/python", ".venv"), "-m", "unittest", "-v",
		"responses_suite")
}
