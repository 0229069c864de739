package tests

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"farebox/bench/upstream"
)

// What customers use is the strictest judge of the interface: the openai
// packages of npm and PyPI run here as they are, beside openai-go
// (clientgo_test.go), and then the money is recounted.

// clientsConfig has one model of each kind. Prices are whole nano-USD a token,
// so that a bill can be recounted without rounding. retry_safe, because the
// simulated upstream closes connections after its faults without saying so.
const clientsConfig = `
log: { level: info, format: json, sample_above: 0 }
limits:
  tiers:
    scarce: { rpm: 2 }
upstreams:
  - name: first
    base_url: %s
    key: upstream-key
    retry_safe: true
    breaker: { failures: 0 }
  - name: second
    dialect: anthropic
    base_url: %s
    key: upstream-key
    retry_safe: true
    breaker: { failures: 0 }
models:
  - id: sim-chat
    tier: unlimited
    context_tokens: 128000
    max_completion_tokens: 16384
    aliases: [gpt-4o]
    traits: [default]
    capabilities: &all
      tools: true
      reasoning: true
      reasoning_effort: [none, low, medium, high]
      response_schema: true
      vision: true
      max_images: 4
      logprobs: true
    price: &price { input: 1, output: 2, cache_read: 0.5 }
    targets: [{ upstream: first }]
  - id: sim-claude
    tier: unlimited
    context_tokens: 200000
    max_completion_tokens: 8192
    capabilities: *all
    price: { input: 3, output: 15, cache_read: 0.3 }
    targets: [{ upstream: second }]
  - id: sim-plain
    tier: unlimited
    context_tokens: 8192
    price: *price
    targets: [{ upstream: first }]
  - id: sim-scarce
    tier: scarce
    context_tokens: 8192
    price: *price
    targets: [{ upstream: first }]
  - id: sim-embedding
    type: embedding
    tier: unlimited
    embedding_dimensions: 1536
    max_input_tokens: 8192
    custom_dimensions: true
    price: *price
    targets: [{ upstream: first }]
`

// nanoPerToken are the prices of clientsConfig.
type nanoPerToken struct{ input, output, cached money }

var (
	firstPrice  = nanoPerToken{input: 1000, output: 2000, cached: 500}
	secondPrice = nanoPerToken{input: 3000, output: 15000, cached: 300}
)

// clients is a gateway with two upstreams that know the truth, and customers.
type clients struct {
	*gateway
	first, second     *simulated
	rich, poor, tight string // keys; tight belongs to an account of its own, for sim-scarce
}

const (
	richCredit  = money(100_000_000_000)
	tightCredit = money(10_000_000_000)
)

func startClients(t *testing.T) *clients {
	t.Helper()
	c := &clients{}
	c.first = startUpstream(t, upstream.Options{Key: "upstream-key"})
	c.second = startUpstream(t, upstream.Options{Key: "upstream-key"})
	c.gateway = startGateway(t, fmt.Sprintf(clientsConfig, c.first.URL, c.second.URL))
	c.NewAccount("rich", richCredit.String())
	c.NewAccount("poor", "")
	c.NewAccount("tight", tightCredit.String())
	c.rich, c.poor, c.tight = c.Key("rich"), c.Key("poor"), c.Key("tight")
	return c
}

// environment tells the client suites where everything is.
func (c *clients) environment() []string {
	return []string{
		"FAREBOX_KEY="+c.rich,
		"FAREBOX_POOR_KEY="+c.poor,
		"FAREBOX_LIMITED_KEY="+c.tight,
		"FAREBOX_MODEL=sim-chat",
		"FAREBOX_ANTHROPIC_MODEL=sim-claude",
		"FAREBOX_EMBEDDING_MODEL=sim-embedding",
		"FAREBOX_LIMITED_MODEL=sim-scarce",
		"FAREBOX_PLAIN_MODEL=sim-plain",
		"FAREBOX_ALIAS=gpt-4o",
	}
}

// recount compares the accounts with what the upstreams really produced.
// Answers that went out whole are charged to the token; an answer that broke
// off or whose client left costs something between nothing and all of it. The
// log is read too: it must tell neither keys nor prompts.
func (c *clients) recount(t *testing.T) {
	t.Helper()
	for _, s := range []*simulated{c.first, c.second} {
		if !s.WaitIdle(10 * time.Second) {
			t.Errorf("an upstream is still answering %d requests after all clients left", s.Stats().Open)
		}
	}
	all := c.settled()
	for name, credit := range map[string]money{"rich": richCredit, "poor": 0, "tight": tightCredit} {
		a, ok := all[name]
		if !ok {
			t.Errorf("account %s is not listed", name)
			continue
		}
		if a.USD != credit-a.Spent {
			t.Errorf("account %s: balance %s is not credit %s less spent %s", name, a.USD, credit, a.Spent)
		}
		if a.USD < 0 || a.DIEM < 0 || a.Bundled < 0 {
			t.Errorf("account %s is below zero: %+v", name, a)
		}
	}
	if spent := all["poor"].Spent; spent != 0 {
		t.Errorf("the account without money spent %s", spent)
	}

	exact, open := bill(c.first.Stats(), firstPrice)
	moreExact, moreOpen := bill(c.second.Stats(), secondPrice)
	exact, open = exact+moreExact, open+moreOpen
	spent := all["rich"].Spent + all["tight"].Spent
	if exact == 0 {
		t.Error("the upstreams produced nothing: the clients did not reach them")
	}
	if spent < exact || spent > exact+open {
		t.Errorf("charged %s; the whole answers cost %s, and the broken ones at most %s", spent, exact, open)
	}
	for _, secret := range []string{c.rich, c.poor, c.tight, "upstream-key", "Say something", "org-simsecret0001"} {
		if strings.Contains(c.Log()+c.Banner(), secret) {
			t.Errorf("the log tells %q: keys and prompts must not be in it", secret)
		}
	}
	t.Logf("charged %s USD: %s for whole answers, %s of at most %s for broken ones", spent, exact, spent-exact, open)
}

// bill is what an upstream's truth costs: exactly for whole answers, at most
// for those that ended early. The gateway counts the prompt of the latter
// itself when usage never came, so they get a little room.
func bill(s upstream.Stats, p nanoPerToken) (exact, open money) {
	cost := func(tally upstream.Tally) money {
		return money(tally.PromptTokens-tally.CachedTokens)*p.input + money(tally.CachedTokens)*p.cached + money(tally.CompletionTokens)*p.output
	}
	const room = 32 // tokens a request
	aborted, broken := s.Outcomes[upstream.Aborted], s.Outcomes[upstream.Broken]
	return cost(s.Outcomes[upstream.Complete]),
		cost(aborted) + cost(broken) + money(aborted.Requests+broken.Requests)*room*(p.input+p.output)
}

const suiteLimit = 4 * time.Minute

// runSuite runs a client's own test runner against the gateway, with further
// variables in its environment, and fails with its output.
func (g *gateway) runSuite(t *testing.T, environment []string, dir string, command ...string) []byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), suiteLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Dir = dir
	cmd.Env = append(append(os.Environ(), "FAREBOX_URL="+g.URL, "NO_COLOR=1"), environment...)
	cmd.WaitDelay = 5 * time.Second
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v failed: %v\n%s", command, err, out)
	}
	return out
}

// The openai package of npm works with the gateway as with OpenAI.
func TestLongOpenAINode(t *testing.T) {
	dir := filepath.Join("bench", "clients", "node")
	if _, err := exec.LookPath("node"); err != nil {
		t.Fatal("node is not installed: run make setup")
	}
	if _, err := os.Stat(filepath.Join(dir, "node_modules", "openai")); err != nil {
		t.Fatalf("the openai package is not installed in %s: run make setup", dir)
	}
	c := startClients(t)
	out := c.runSuite(t, c.environment(), dir, "node", "--test", "--test-reporter=spec")
	counted(t, out, `(?m)^\S* ?tests (\d+)$`)
	if regexp.MustCompile(`(?m)^\S* ?skipped [1-9]`).Match(out) {
		t.Errorf("tests were skipped\n%s", out)
	}
	c.recount(t)
}

// The openai package of PyPI works with the gateway as with OpenAI.
func TestLongOpenAIPython(t *testing.T) {
	dir := filepath.Join("bench", "clients", "python")
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("python3 is not on this machine; the Python client is left out")
	}
	python, err := filepath.Abs(filepath.Join(dir, ".venv", "bin", "python"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(python); errors.Is(err, os.ErrNotExist) {
		t.Skipf("%s has no .venv; make setup creates it where python3 has the venv module", dir)
	}
	c := startClients(t)
	out := c.runSuite(t, c.environment(), dir, python, "-m", "unittest", "-v")
	counted(t, out, `(?m)^Ran (\d+) tests?`)
	if regexp.MustCompile(`skipped=[1-9]`).Match(out) {
		t.Errorf("tests were skipped\n%s", out)
	}
	c.recount(t)
}

// counted makes sure that a runner which found nothing does not pass.
func counted(t *testing.T, out []byte, pattern string) {
	t.Helper()
	found := regexp.MustCompile(pattern).FindSubmatch(out)
	if found == nil || string(found[1]) == "0" {
		t.Errorf("the runner found no tests\n%s", out)
		return
	}
	t.Logf("%s tests", found[1])
}
