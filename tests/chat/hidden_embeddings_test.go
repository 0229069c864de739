package chat

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"farebox/bench/servers"
	"farebox/bench/upstream"
	"farebox/tests/rig"
)

// "You price two words, and the upstream reads a book." An embeddings body goes on as the
// client wrote it, so that each of its members must be there once.
func TestEveryEmbedderReadsThePricedInput(t *testing.T) {
	t.Parallel()
	sim := rig.StartUpstream(t, upstream.Options{})
	g := rig.StartGateway(t, fmt.Sprintf(`
log: { level: error, format: json }
billing: { minimum_balance: 0 }
limits: { failed_requests: { count: 0 }, unsupported_features: { count: 0 } }
compat: { token_input: true }
upstreams:
  - { name: sim, base_url: "%[1]s", breaker: { failures: 0 } }
  - { name: azure, dialect: azure, base_url: "%[2]s/azure", key: upstream-key, azure: { api_version: 2024-10-21 }, breaker: { failures: 0 } }
models:
  - { id: own, type: embedding, tier: unlimited, max_input_tokens: 512, embedding_dimensions: 16, custom_dimensions: true, price: { input: 1 }, targets: [{ upstream: sim, model: sim-embedding }] }
  - { id: azure, type: embedding, tier: unlimited, max_input_tokens: 512, embedding_dimensions: 16, custom_dimensions: true, price: { input: 1 }, targets: [{ upstream: azure, model: sim-embedding }] }
`, sim.URL, strings.TrimSuffix(sim.URL, "/v1")))
	g.NewAccount("a", "1000")
	hider := rig.Hider{Names: strings.Fields(`model input inputs texts dimensions encoding_format user prompt stream truncate n`),
		Values: strings.Fields(`"a" ["a","a"] [1,2] 16 8 "float" "base64" "own" null true {} {"input":"a"} 1e1`),
		Known: strings.Fields(`input="\u0061\u0020b" input=["a","b\n"] input=[1,2,3] input=[[1],[2,3]] input=["\ud83d\ude00"] dimensions=8
			dimensions=8.0 dimensions=1e1 encoding_format="base64" encoding_format="float" user="u" encoding_format="bas\u006564"`)}
	tokens := int64(0)
	h := rig.Hidden{Gateway: g, Sim: sim, Key: g.Key("a", "--type", "ADMIN")}
	h.Body = func(r *rand.Rand, _ string) (path, body, contentType string) {
		tokens = sim.Idle(t).Tokens.PromptTokens
		return "/embeddings", hider.JSON(r, `{"model":"`+[]string{"own", "azure"}[r.IntN(2)]+`","input":"some words"}`), "application/json"
	}
	h.Price = func(_ string, body map[string]any) (int64, error) {
		for name := range body {
			if !slices.Contains([]string{"model", "input", "dimensions", "encoding_format", "user"}, name) {
				return 0, fmt.Errorf("%s is not known", name)
			}
		}
		if said := rig.Said(body, "model"); said != "sim-embedding" && said != "" {
			return 0, fmt.Errorf("%s embeds", said)
		}
		return 1000 * (sim.Idle(t).Tokens.PromptTokens - tokens), nil
	}
	h.Run(t, servers.Campaign(600))
}
