package rig

import (
	"fmt"
	"testing"

	"farebox/bench/upstream"
)

// ClientsConfig has one model of each kind. Prices are whole nano-USD a token,
// so that a bill can be recounted without rounding. retry_safe, because the
// simulated upstream closes connections after its faults without saying so.
const ClientsConfig = `
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
  - name: native
    base_url: %[1]s
    key: upstream-key
    responses: true
    retry_safe: true
    breaker: { failures: 0 }
  - name: loose
    base_url: %[1]s
    key: upstream-key
    enforces_schema: false
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
  - id: sim-responses # its upstream speaks /responses itself
    tier: unlimited
    context_tokens: 128000
    max_completion_tokens: 16384
    capabilities: *all
    price: *price
    targets: [{ upstream: native }]
  - id: sim-plain
    tier: unlimited
    context_tokens: 8192
    price: *price
    targets: [{ upstream: first }]
  - id: sim-loose
    tier: unlimited
    context_tokens: 8192
    capabilities: { response_schema: true }
    price: *price
    targets: [{ upstream: loose }]
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

// PrepaidConfig has no admission floor, so that balances can be spent to zero.
const PrepaidConfig = `
log: { level: warn, format: json }
billing: { minimum_balance: 0, stream_slice_tokens: 64 }
limits: { failed_requests: { count: 0 } }
upstreams:
  - { name: only, base_url: %s, breaker: { failures: 0 } }
models:
  - id: sim-chat
    tier: unlimited
    context_tokens: 128000
    max_completion_tokens: 1000
    capabilities: { reasoning: false }
    price: { input: 1, output: 2 }
    targets: [{ upstream: only }]
  - id: sim-thinker # held in full, since it may think unseen
    tier: unlimited
    context_tokens: 128000
    max_completion_tokens: 100000
    price: { input: 1, output: 2 }
    targets: [{ upstream: only, model: sim-chat }]
  - id: sim-free
    tier: unlimited
    context_tokens: 8192
    price: free
    targets: [{ upstream: only, model: sim-chat }]
`

// LoneConfig has one upstream and one model, m; text after it is further settings of the upstream.
const LoneConfig = `
log: { level: info, format: json, sample_above: 0 }
upstreams:
  - { name: only, base_url: %q%s }
models:
  - { id: m, tier: unlimited, context_tokens: 8192, price: { input: 1, output: 2 }, targets: [{ upstream: only }] }
`

// StartPrepaid starts farebox with PrepaidConfig before a simulated upstream, and
// gives an account named a so much USD.
func StartPrepaid(t testing.TB, balance string) (*Simulated, *Gateway) {
	t.Helper()
	sim := StartUpstream(t, upstream.Options{})
	g := StartGateway(t, fmt.Sprintf(PrepaidConfig, sim.URL))
	g.NewAccount("a", balance)
	return sim, g
}
