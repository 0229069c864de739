package clients

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"farebox/bench/servers"
	"farebox/bench/upstream"
	"farebox/tests/rig"
)

// Customers' own packages are the strictest judge of the interface: the openai packages of npm and
// PyPI run here as they are, beside openai-go (openai_go_test.go), and then the money is recounted.

// nanoPerToken are the prices of rig.ClientsConfig.
type nanoPerToken struct{ input, output, cached rig.Money }

var (
	firstPrice  = nanoPerToken{input: 1000, output: 2000, cached: 500}
	secondPrice = nanoPerToken{input: 3000, output: 15000, cached: 300}
)

// clients is a gateway with two upstreams that know the truth, and customers.
type clients struct {
	*rig.Gateway
	first, second     *rig.Simulated
	room              rig.Money // tokens that a broken request may be charged for beyond the upstream's count
	rich, poor, tight string    // keys; tight belongs to an account of its own, for sim-scarce
}

const (
	richCredit  = rig.Money(100_000_000_000)
	tightCredit = rig.Money(10_000_000_000)
)

func startClients(t *testing.T) *clients {
	t.Helper()
	c := &clients{room: 32}
	c.first = rig.StartUpstream(t, upstream.Options{Key: "upstream-key"})
	c.second = rig.StartUpstream(t, upstream.Options{Key: "upstream-key"})
	c.Gateway = rig.StartGateway(t, fmt.Sprintf(rig.ClientsConfig, c.first.URL, c.second.URL))
	c.NewAccount("rich", richCredit.String())
	c.NewAccount("poor", "")
	c.NewAccount("tight", tightCredit.String())
	c.rich, c.poor, c.tight = c.Key("rich"), c.Key("poor"), c.Key("tight")
	return c
}

// environment gives the client suites their addresses and keys.
func (c *clients) environment() []string {
	return []string{
		"FAREBOX_KEY=" + c.rich,
		"FAREBOX_POOR_KEY=" + c.poor,
		"FAREBOX_LIMITED_KEY=" + c.tight,
		"FAREBOX_MODEL=sim-chat",
		"FAREBOX_ANTHROPIC_MODEL=sim-claude",
		"FAREBOX_EMBEDDING_MODEL=sim-embedding",
		"FAREBOX_LIMITED_MODEL=sim-scarce",
		"FAREBOX_PLAIN_MODEL=sim-plain",
		"FAREBOX_ALIAS=gpt-4o",
		"FAREBOX_LOOSE_MODEL=sim-loose",
		"FAREBOX_RESPONSES_MODELS=" + strings.Join(responsesModels, " "),
		"FAREBOX_MESSAGES_MODELS=" + strings.Join(messagesModels, " "),
	}
}

// recount compares the accounts with the upstreams' own counts. Answers that went out whole
// are charged to the token; an answer that broke off or whose client left costs something
// between nothing and all of it. The log is read too: it must have neither keys nor prompts.
func (c *clients) recount(t *testing.T) {
	t.Helper()
	for _, s := range []*rig.Simulated{c.first, c.second} {
		if !s.WaitIdle(10 * time.Second) {
			t.Errorf("an upstream is still answering %d requests after all clients left", s.Stats().Open)
		}
	}
	all := c.Settled()
	for name, credit := range map[string]rig.Money{"rich": richCredit, "poor": 0, "tight": tightCredit} {
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

	exact, open := bill(c.first.Stats(), firstPrice, c.room)
	moreExact, moreOpen := bill(c.second.Stats(), secondPrice, c.room)
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
			t.Errorf("the log has %q: keys and prompts must not be in it", secret)
		}
	}
	t.Logf("charged %s USD: %s for whole answers, %s of at most %s for broken ones", spent, exact, spent-exact, open)
}

// bill is the price of an upstream's true counts: exact for whole answers, an upper bound
// for those that ended early. The gateway counts the prompt of the latter itself when
// usage never came, so they get a little room.
func bill(s upstream.Stats, p nanoPerToken, room rig.Money) (exact, open rig.Money) {
	cost := func(tally upstream.Tally) rig.Money {
		return rig.Money(tally.PromptTokens-tally.CachedTokens)*p.input + rig.Money(tally.CachedTokens)*p.cached +
			rig.Money(tally.CompletionTokens)*p.output
	}
	aborted, broken := s.Outcomes[upstream.Aborted], s.Outcomes[upstream.Broken]
	return cost(s.Outcomes[upstream.Complete]),
		cost(aborted) + cost(broken) + rig.Money(aborted.Requests+broken.Requests)*room*(p.input+p.output)
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
	out := c.RunSuite(t, c.environment(), dir, "node", "--test", "--test-reporter=spec")
	rig.Counted(t, out, `(?m)^\S* ?tests (\d+)$`)
	if regexp.MustCompile(`(?m)^\S* ?skipped [1-9]`).Match(out) {
		t.Errorf("tests were skipped\n%s", out)
	}
	c.recount(t)
}

// The openai package of PyPI works with the gateway as with OpenAI.
func TestLongOpenAIPython(t *testing.T) {
	dir := filepath.Join("bench", "clients", "python")
	python, err := filepath.Abs(filepath.Join(dir, ".venv", "bin", "python"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(python); errors.Is(err, os.ErrNotExist) {
		servers.Missing(t, "the .venv of "+dir)
	}
	c := startClients(t)
	out := c.RunSuite(t, c.environment(), dir, python, "-m", "unittest", "-v")
	rig.Counted(t, out, `(?m)^Ran (\d+) tests?`)
	if regexp.MustCompile(`skipped=[1-9]`).Match(out) {
		t.Errorf("tests were skipped\n%s", out)
	}
	c.recount(t)
}
