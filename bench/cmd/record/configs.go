package main

import (
	"fmt"
	"strings"
)

// plainConfig has everything that is built, with the compatibility switches as
// they are by default. Each price is another prime, so that every line of a
// charge can be told from a sum; nothing rests, so that each request meets the
// same upstreams as the one before.
const plainConfig = `
server: { metrics_listen: off, max_body: 2MB, trusted_proxies: [127.0.0.1] }
log: { level: info, format: json, sample_above: 0 }
cors: { origins: ["https://app.example.com"], expose: [X-More], max_age: 10m }
billing: { minimum_balance: 0.000001, stream_slice_tokens: 64, default_cap: 512 }
web3_keys: { require: none, per_ip: 0 }
images: { prompt_model: chat-openai, prompt_price: 0.000043, prompt_timeout: 10s, timeout: 20s }
fetch: { allow: [127.0.0.1], limit: 5s }
limits:
  failed_requests: { count: 0 }
  unsupported_features: { count: 0 }
  aborted_requests: { count: 0 }
  wrong_keys: { count: 0 }
idempotency: { max_answer: 64KB }
top_up_url: https://example.com/top-up
docs_url: https://example.com/docs
`

// compatConfig is the same house with another brand and every switch turned.
const compatConfig = `
brand: acme
brand_aliases: [svc]
server: { metrics_listen: off, max_body: 2MB }
log: { level: info, format: json, sample_above: 0 }
cors: { origins: ["*"] }
compat:
  accept_max_tokens: true
  openai_extras: true
  token_input: true
  answer_extras: true
  public_catalog: true
  error_shape: openai
  api_key_list: envelope
  strict_api_keys: true
  rpc_networks: bare
billing: { minimum_balance: 0, stream_slice_tokens: 64, default_cap: 512, on_client_gone: drain, key_limit_fallthrough: true }
web3_keys: { require: ledger, per_ip: 0 }
images: { branded_styles: true, compress: false, timeout: 20s }
fetch: { allow: [127.0.0.1], limit: 5s }
limits:
  failed_requests: { count: 0 }
  unsupported_features: { count: 0 }
  aborted_requests: { count: 0 }
  wrong_keys: { count: 0 }
idempotency: { malformed: ignore, max_answer: 64KB }
system_prompt: You are the house's own assistant.
`

// limitsConfig has small limits of all kinds, and targets that rest for an hour.
const limitsConfig = `
server: { metrics_listen: off, max_body: 64KB }
log: { level: info, format: json, sample_above: 0 }
compat: { error_shape: string }
billing: { minimum_balance: 0.10, stream_slice_tokens: 64, default_cap: 512 }
web3_keys: { require: deny, per_ip: 3 }
images: { timeout: 20s }
limits:
  tiers:
    M: { rpm: 3, rph: 5, rpd: 7, tpm: 600000 }
    L: { rpd: 2 }
    tokens: { tpm: 100 }
    embedding: { rpm: 2 }
    image: { rpm: 3 }
  key: { rpd: 400 }
  failed_requests: { count: 3, window: 1h, block: 24h }
  unsupported_features: { count: 2, window: 1h, block: 24h }
  aborted_requests: { count: 2, window: 1h, block: 24h }
  wrong_keys: { count: 5, window: 1h, block: 24h }
`

// models are the upstreams, the models and the networks of a config. tier: of
// text models, empty for none; breaker: of all upstreams.
func (l *lab) house(tier, breaker string) string {
	var b strings.Builder
	b.WriteString("upstreams:\n")
	upstream := func(name, more string) {
		fmt.Fprintf(&b, "  - { name: %s, key: sim-key, breaker: %s, timeouts: { first_byte: 10s, idle: 10s }, %s }\n",
			name, breaker, more)
	}
	base := l.simURL
	upstream("openai", `base_url: "`+base+`/v1", headers: { X-Team: gateway }, router: house`)
	upstream("second", `base_url: "`+base+`/second/v1"`)
	upstream("anthropic", `dialect: anthropic, base_url: "`+base+`/claude/v1", headers: { Anthropic-Beta: files }`)
	upstream("quirky", `base_url: "`+base+
		`/quirky/v1", drop: [default, logit_bias], links: none, quirks: { max_tokens: true, no_stream_options: true, no_reasoning_effort: true, no_developer_role: true, api_key_header: api-key }`)
	upstream("loose", `base_url: "`+base+`/loose/v1", drop: [], links: any`)
	upstream("native", `dialect: native, base_url: "`+base+`/api/v1"`)
	upstream("sdapi", `dialect: sdapi, base_url: "`+base+`"`)
	upstream("stability", `dialect: stability, base_url: "`+base+`/v2beta"`)
	upstream("fal", `dialect: fal, base_url: "`+base+`/fal"`)
	upstream("closed", `base_url: "http://127.0.0.1:9/v1"`)

	primes := []int{1009, 2003, 3001, 4001, 5003, 6007, 7001, 8009, 9001, 10007, 11003, 12007, 13001, 14009, 15013,
		16001, 17011, 18013, 19001, 20011, 21001, 22003, 23003, 24001, 25013, 26003, 27011, 28001, 29009, 30011, 31013,
		32003, 33013, 34019, 35023, 36007, 37003, 38011, 39019, 40009, 41011, 42013, 43003, 44017, 45007, 46021, 47017,
		48017, 49003, 50021, 51001, 52009, 53003, 54001, 55001, 56003, 57037, 58013, 59009, 60013, 61001, 62003, 63029,
		64007, 65003, 66029, 67003, 68023, 69001, 70001, 71011, 72019, 73009, 74017, 75011, 76001, 77003, 78007, 79031,
		80021}
	next := 0
	// price is a price of its own: a prime, in millionths of a dollar.
	price := func() string {
		p := primes[next%len(primes)]
		next++
		return fmt.Sprintf("%d.%06d", p/1000, p%1000*1000)
	}
	picture := func() string {
		p := primes[next%len(primes)]
		next++
		return fmt.Sprintf("0.%08d", p)
	}
	if tier == "" {
		tier = "unlimited"
	}
	tokens := func() string {
		return fmt.Sprintf("{ input: %s, output: %s, cache_read: %s, cache_write: %s, extended: { above: 3000, "+
			"input: %s, output: %s, cache_read: %s, cache_write: %s } }",
			price(), price(), price(), price(), price(), price(), price(), price())
	}
	text := func(id, more, targets string) {
		fmt.Fprintf(&b, "  - { id: %s, tier: %s, context_tokens: 20000, max_completion_tokens: 1000, price: %s, %s, "+
			"targets: [%s] }\n", id, tier, tokens(), more, targets)
	}
	const all = "capabilities: { code: true, tools: true, audio: true, reasoning: true, reasoning_effort: [none, " +
		"low, medium, high], default_reasoning_effort: medium, response_schema: true, vision: true, max_images: 2, " +
		"video: true, max_videos: 1, files: true, logprobs: true }"
	b.WriteString("models:\n")
	text("chat-openai", "name: Chat OpenAI, description: For all, source: https://example.com/chat, created: "+
		"1500000000, traits: [default, fastest], aliases: [gpt-4.1], constraints: { temperature: 0.7, top_p: 0.9 }, "+
		all, "{ upstream: openai, model: sim-chat }")
	text("chat-anthropic", "traits: [default_code], aliases: [claude-x], "+all,
		"{ upstream: anthropic, model: sim-claude, options: { thinking: budget } }")
	text("chat-adaptive", all, "{ upstream: anthropic, model: claude-opus-4-6, options: { thinking: adaptive } }")
	text("chat-plain", "capabilities: { reasoning: false }, privacy: anonymized",
		"{ upstream: openai, model: sim-chat }")
	text("chat-quirky", all, "{ upstream: quirky, model: sim-chat }")
	text("chat-loose", all, "{ upstream: loose, model: sim-chat }")
	text("chat-slice", "hold: slice, capabilities: { reasoning: false }", "{ upstream: openai, model: sim-chat }")
	text("chat-twice", all, "{ upstream: openai, model: sim-chat, priority: 0 }, { upstream: second, model: "+
		"sim-chat-2, priority: 1 }")
	text("chat-mixed", all, "{ upstream: openai, model: sim-chat, priority: 0 }, { upstream: anthropic, model: "+
		"sim-claude, priority: 1 }")
	text("chat-closed", all, "{ upstream: closed, priority: 0 }, { upstream: second, model: sim-chat, priority: 1 }")
	text("chat-nowhere", all, "{ upstream: closed }")
	text("chat-offline", "offline: true, beta: true, uncensored: true", "{ upstream: openai, model: sim-chat }")
	text("chat-gone", "deprecation: { starts_at: 2020-01-01, date: 2020-02-01, removes_at: 2020-03-01, replacement: "+
		"chat-openai }", "{ upstream: openai, model: sim-chat }")
	text("chat-remapped", "deprecation: { starts_at: 2020-01-01, date: 2020-02-01, removes_at: 2020-03-01, "+
		"replacement: chat-free, auto_remap: true }", "{ upstream: openai, model: sim-chat }")
	text("chat-leaving", "deprecation: { starts_at: 2020-01-01, date: 2020-02-01, removes_at: 2090-03-01, "+
		"replacement: chat-openai }", "{ upstream: openai, model: sim-chat }")
	text("chat-later", "deprecation: { starts_at: 2020-01-01, date: 2090-02-01, removes_at: 2090-03-01 }",
		"{ upstream: openai, model: sim-chat }")
	fmt.Fprintf(&b, "  - { id: chat-free, tier: unlimited, context_tokens: 4000, price: free, targets: [{ upstream: "+
		"openai, model: sim-chat }] }\n")
	fmt.Fprintf(&b, "  - { id: chat-daily, tier: L, context_tokens: 4000, price: { input: %s, output: %s }, targets: "+
		"[{ upstream: openai, model: sim-chat }] }\n", price(), price())
	for i, more := range []string{
		"custom_dimensions: true, embedding_dimensions: 8, max_input_tokens: 2000, traits: [default], aliases: " +
			"[text-embedding-3-small]", "max_input_tokens: 100"} {
		embeddingTier := "unlimited"
		if tier != "unlimited" {
			embeddingTier = "embedding"
		}
		fmt.Fprintf(&b, "  - { id: embed-%d, type: embedding, tokenizer: cl100k_base, tier: %s, price: { input: %s "+
			"}, %s, targets: [{ upstream: openai, model: sim-embedding }] }\n", i+1, embeddingTier, price(), more)
	}
	names := map[string]string{"openai": "sim-image", "native": "sim-image", "sdapi": "sim.safetensors",
		"stability": "ultra", "fal": "fal-ai/sim/dev"}
	for _, d := range []string{"openai", "native", "sdapi", "stability", "fal"} {
		pictureTier, options := "unlimited", ""
		if tier != "unlimited" {
			pictureTier = "image"
		}
		if d == "fal" {
			options = ", options: { poll: 5ms }"
		}
		target := fmt.Sprintf("targets: [{ upstream: %s, model: %s%s }]", d, names[d], options)
		fmt.Fprintf(&b, "  - { id: %s-paint, type: image, tier: %s, constraints: { steps: { default: 25, max: 50 }, "+
			"size_divisor: 8 }, price: { generation: %s }, %s }\n", d, pictureTier, picture(), target)
		fmt.Fprintf(&b, "  - { id: %s-edit, type: inpaint, tier: %s, constraints: { prompt_characters: 300, "+
			"max_input_images: 3 }, price: { inpaint: %s, input_images: { included: 1, additional: %s } }, %s }\n", d,
			pictureTier, picture(), picture(), target)
	}
	fmt.Fprintf(&b, `  - id: tiers
    type: image
    tier: unlimited
    traits: [default]
    aliases: [gpt-image-1]
    capabilities: { web_search: true, optimize_prompt_thinking: true }
    constraints: { prompt_characters: 100, aspect_ratios: ["1:1", "16:9", "9:16"], resolutions: [1K, 2K], qualities: [low, high], default_quality: high, max_style_references: 1, style_reference_strength: true }
    price: { quality: { 1K: { low: %s, high: %s }, 2K: { low: %s, high: %s } }, web_search: %s }
    targets: [{ upstream: native, model: sim-image }]
  - { id: ratios, type: inpaint, tier: unlimited, traits: [default], constraints: { prompt_characters: 300, aspect_ratios: [auto, "1:1", "16:9"], resolutions: [1K, 2K], qualities: [low, high], max_input_images: 3 }, price: { inpaint: %s, resolutions: { 2K: %s }, input_images: { included: 1, additional: %s } }, targets: [{ upstream: native, model: sim-image }] }
  - { id: enlarge, type: upscale, tier: unlimited, price: { generation: %s, upscale: { 2x: %s, 4x: %s } }, targets: [{ upstream: native, model: large-1 }] }
  - { id: cut, type: background_removal, tier: unlimited, price: { generation: %s }, targets: [{ upstream: native, model: cut-1 }] }
`, picture(), picture(), picture(), picture(), picture(), picture(), picture(), picture(), picture(), picture(),
		picture(), picture())
	rate := "rpm: 0"
	if tier != "unlimited" {
		rate = "rph: 6"
	}
	fmt.Fprintf(&b, "rpc:\n  credit_price: 0.73\n  error_credits: 7\n  rate: { %s }\n  daily_credits: %s\n  "+
		"networks:\n", rate, map[bool]string{true: "0", false: "300"}[tier == "unlimited"])
	network := func(name, more string, nodes ...int) {
		fmt.Fprintf(&b, "    - { name: %s, prefer_fast: false, head_every: 0s, %s, upstreams: [", name, more)
		for _, n := range nodes {
			fmt.Fprintf(&b, "{ name: node-%d, url: \"%s/v2/secret-path?key=secret-query\", breaker: %s }, ", n,
				l.urls[n], breaker)
		}
		b.WriteString("] }\n")
	}
	network("ethereum-mainnet", "family: evm, credits: 23", 0)
	network("ethereum-sepolia", "family: evm, credits: 29", 0, 1)
	network("base-mainnet", "family: evm, credits: 31, cache: { size: 1MB, final_every: 1h }", 1)
	network("solana-mainnet", "family: solana, credits: 37", 2)
	network("starknet-mainnet", "family: starknet, credits: 41", 1)
	return strings.ReplaceAll(b.String(), ", ] }", "] }")
}
