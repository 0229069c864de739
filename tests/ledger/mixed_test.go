package ledger

import (
	"context"
	"fmt"
	"testing"
	"time"

	"farebox/bench/mixed"
	"farebox/bench/servers"
	"farebox/bench/upstream"
	"farebox/tests/rig"
)

// Many mixed requests: whole, streamed, without usage, left, cut, failed, embeddings. The
// ledger's charge equals the settled sum and the price of the upstream's own count, to
// the nano-dollar; no hold is left.
func TestLedgerIsTheTruthOverMixedRequests(t *testing.T) { mixedRequests(t, 4_000, 64) }

func TestLongLedgerIsTheTruthOverMixedRequests(t *testing.T) {
	mixedRequests(t, servers.Campaign(40_000), 256)
}

func mixedRequests(t *testing.T, requests, concurrency int) {
	const text = `
log: { level: error, format: json }
billing: { minimum_balance: 0, stream_slice_tokens: 16 }
limits: { failed_requests: { count: 0 }, aborted_requests: { count: 0 } }
upstreams:
  - { name: only, base_url: %s, breaker: { failures: 0 }, max_connections: 4096 }
models:
  - id: sim-chat
    tier: unlimited
    context_tokens: 128000
    max_completion_tokens: 1000
    capabilities: { reasoning: false } # held by slices; abandoned streams are closed
    price: { input: 1, output: 2 }
    targets: [{ upstream: only }]
  - id: sim-embed
    type: embedding
    tier: unlimited
    embedding_dimensions: 1536
    custom_dimensions: true
    max_input_tokens: 8192
    price: { input: 3, output: free }
    targets: [{ upstream: only }]
`
	sim := rig.StartUpstream(t, upstream.Options{})
	g := rig.StartGateway(t, fmt.Sprintf(text, sim.URL))
	g.NewAccount("a", "1000")
	key := g.Key("a")

	ctx, cancel := context.WithTimeout(context.Background(), 8*time.Minute)
	defer cancel()
	truth, err := mixed.Run(ctx, mixed.Options{
		URL: g.URL, Key: key, Model: "sim-chat", EmbeddingModel: "sim-embed",
		Requests: requests, Concurrency: concurrency, Seed: uint64(time.Now().UnixNano()),
	})
	if err != nil {
		t.Fatal(err)
	}
	if truth.Wrong > 0 {
		t.Errorf("%d of %d answers were wrong: %v", truth.Wrong, truth.Sent, truth.Examples)
	}
	if !sim.WaitIdle(time.Minute) {
		t.Error("the upstream is still answering")
	}
	if diff := truth.Differences(sim.Stats()); len(diff) > 0 {
		t.Errorf("driver and upstream differ: %v", diff)
	}
	a := g.Settled()["a"]
	want := rig.Money(truth.Chat.PromptTokens*1000 + truth.Chat.CompletionTokens*2000 + truth.Embed.PromptTokens*3000)
	if a.Spent != want {
		t.Errorf("charged %s for tokens worth %s (%d nano apart)", a.Spent, want, int64(a.Spent-want))
	}
	if a.Held != 0 || a.USD < 0 || a.USD+a.Spent != 1_000_000_000_000 {
		t.Errorf("the account does not add up: %+v", a)
	}
	t.Logf("%d requests at %d in %.1f s: charged %s = settled = produced", truth.Sent, concurrency, truth.Seconds,
		a.Spent)

	// The same after a restart: the disk has the state of the memory.
	if err := g.Stop(); err != nil {
		t.Fatal(err)
	}
	if again := g.Accounts()["a"]; again != a {
		t.Errorf("after a restart the account is %+v, before %+v", again, a)
	}
}
