package config

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// habit is a key as other gateways have it, in the groups of a path ("" is the top).
type habit struct {
	groups, keys string                   // words; "/" stands for the top
	means        string                   // key of the same group that it stands for, and that is not missing then
	hint         string                   // the key to write instead
	of           func(text string) string // the hint, by the value
}

const (
	byTier = "limits of requests and tokens are limits.tiers: { NAME: { rpm: 60, tpm: 100000 } }, and tier: NAME at the " +
		"models"
	byTargets = "a failed request goes to the next target: expected several targets: at the model, and breaker: at the " +
		"upstream"
	byPriority = "the order of upstreams is the priority: of a model's targets:, and their shares are weight:"
	byCommand  = "keys of clients are not in the config: expected farebox key create"
	byTarget   = "expected targets: [{ upstream: NAME }]"
	byList     = "expected upstreams:, a list with name, base_url and key of each"
	ofUpstream = "it is of the upstream: expected key: and base_url: there, and the upstream in targets:"
	byAWS      = "expected dialect: bedrock and aws: { region: …, access_key: …, secret_key: … }"
	byVertex   = "expected dialect: vertex and google: { project: …, location: … }"
	atTop      = "models stand at the top, and each names its upstreams in targets:; expected it to be left out here"
	byOffline  = "expected offline: true for a model that is listed and not served"
)

// habits are keys of LiteLLM, Portkey, OpenRouter, one-api, Envoy and others, and keys that farebox had.
var habits = []habit{
	{groups: "/ upstreams models", keys: "rpm tpm rate_limit rate_limits ratelimit max_parallel_requests", hint: byTier},
	{groups: "/ upstreams models models.targets", keys: "num_retries max_retries retries retry allowed_fails cooldown_time " +
		"on_status_codes", hint: byTargets},
	{groups: "/ models", keys: "fallbacks fallback default_fallbacks context_window_fallbacks strategy routing_strategy " +
		"load_balance load-balance routing", hint: byPriority},
	{groups: "upstreams models", keys: "weight priority", hint: byPriority},
	{groups: "/ upstreams models models.targets", keys: "timeout request_timeout read_timeout", of: timeoutHint},

	{groups: "/", keys: "general_settings", hint: "this is a group of LiteLLM: keys of clients come from farebox key create, " +
		"and the ledger is in store:"},
	{groups: "/", keys: "router_settings", hint: "this is a group of LiteLLM: " + byPriority},
	{groups: "/", keys: "litellm_settings", hint: "this is a group of LiteLLM: expected it to be left out"},
	{groups: "/", keys: "model_list", means: "models", hint: "this is a list of LiteLLM: farebox import litellm FILE writes " +
		"upstreams: and models: from it"},
	{groups: "/", keys: "environment_variables env", hint: "expected ${NAME} in the values, and the variables in the " +
		"environment"},
	{groups: "/", keys: "master_key admin_key api_keys keys virtual_keys auth users", hint: byCommand},
	{groups: "/", keys: "database_url", means: "store", hint: "expected store: postgres://user:${POSTGRES_PASSWORD}@host/database"},
	{groups: "/", keys: "port host addr", means: "listen", of: listenHint},
	{groups: "/", keys: "max_budget", hint: "money is limited by balances: expected farebox account credit"},
	{groups: "/", keys: "model_group_alias", hint: "other names of a model are its aliases: [NAME]"},
	{groups: "/", keys: "providers channels", means: "upstreams", hint: byList},
	{groups: "/", keys: "metrics", hint: "expected server: { metrics_listen: 127.0.0.1:9464 }"},
	{groups: "/", keys: "logging log_level", hint: "expected log: { level: info }"},
	{groups: "/", keys: "cache", hint: "answers are not cached: expected it to be left out"},
	{groups: "/", keys: "plugins callbacks", hint: "there are none here: expected it to be left out; /metrics and the log " +
		"report requests"},

	{groups: "upstreams", keys: "models model", hint: atTop},
	{groups: "upstreams", keys: "connect_timeout", hint: "expected timeouts: { connect: 5s }"},
	{groups: "upstreams", keys: "api_version", hint: "expected dialect: azure and azure: { api_version: … }"},
	{groups: "upstreams", keys: "api_type", means: "dialect", of: func(text string) string {
		return "expected dialect: " + clip(strings.ToLower(text))
	}},
	{groups: "upstreams", keys: "organization", hint: "expected headers: { OpenAI-Organization: … }"},
	{groups: "upstreams", keys: "project", hint: "expected google: { project: … } of dialect vertex, or headers: { " +
		"OpenAI-Project: … }"},
	{groups: "upstreams", keys: "region aws_region_name aws_access_key_id aws_secret_access_key", hint: byAWS},
	{groups: "upstreams", keys: "vertex_project vertex_location", hint: byVertex},
	{groups: "upstreams", keys: "deployment", hint: "a deployment is the model: of a target"},
	{groups: "upstreams", keys: "verify_ssl ssl_verify", hint: "certificates are always checked: expected ca_file: for " +
		"authorities of your own"},
	{groups: "upstreams", keys: "enabled", hint: "an upstream without targets rests: expected # before its lines"},

	{groups: "models", keys: "litellm_params", means: "targets", hint: "this is a group of LiteLLM: expected targets: [{ " +
		"upstream: NAME, model: … }]"},
	{groups: "models", keys: "model_info", hint: "this is a group of LiteLLM: expected capabilities:, context_tokens: and " +
		"price: here"},
	{groups: "models", keys: "upstream upstreams backendRefs", means: "targets", hint: byTarget},
	{groups: "models", keys: "provider providers", means: "targets", hint: "the providers of a model are its targets: [{ " +
		"upstream: NAME, priority: 0 }]"},
	{groups: "models", keys: "model", hint: "the upstream's name of a model is model: of a target"},
	{groups: "models", keys: "api_key api_base", hint: ofUpstream},
	{groups: "models", keys: "enabled disabled", hint: byOffline},
	{groups: "models", keys: "mode", means: "type", hint: "expected type: text, embedding, image, …"},
	{groups: "models", keys: "supports_function_calling supports_tools tools", hint: can("tools")},
	{groups: "models", keys: "supports_vision vision", hint: can("vision")},
	{groups: "models", keys: "supports_reasoning reasoning", hint: can("reasoning")},
	{groups: "models", keys: "supports_response_schema", hint: can("response_schema")},
	{groups: "models", keys: "supports_audio_input", hint: can("audio")},
	{groups: "models", keys: "supports_pdf_input", hint: can("files")},
	{groups: "models", keys: "input_cost_per_token", means: "price", of: perToken("price: { input: %s, output: … }")},
	{groups: "models", keys: "output_cost_per_token", means: "price", of: perToken("price: { input: …, output: %s }")},
	{groups: "models.price", keys: "input_cost_per_token", means: "input", of: perToken("input: %s")},
	{groups: "models.price", keys: "output_cost_per_token", means: "output", of: perToken("output: %s")},
	{groups: "models.price", keys: "cache_read_input_token_cost", of: perToken("cache_read: %s")},
	{groups: "models.price", keys: "cache_creation_input_token_cost", of: perToken("cache_write: %s")},

	{groups: "models.targets", keys: "provider", means: "upstream", hint: "did you mean upstream?"},
	{groups: "models.targets", keys: "virtual_key", means: "upstream", hint: "a target names its upstream, which has the key: " +
		"expected upstream: NAME"},
	{groups: "models.targets", keys: "api_key api_base", hint: ofUpstream},
	{groups: "models.targets", keys: "override_params", hint: "parameters come from clients: expected model: for the " +
		"upstream's name of the model"},
	{groups: "models.targets", keys: "deployment", means: "model", hint: "a deployment is the model: of a target"},

	{groups: "augment.scrape", keys: "extractor", hint: "readability is the only extractor: expected it to be left out"},
	{groups: "augment.text_parser", keys: "url", hint: "no server reads documents: expected engine: builtin or pdftotext, " +
		"without it"},

	{groups: "server", keys: "port host listen", hint: "it stands at the top: expected listen: 127.0.0.1:8080"},
	{groups: "server", keys: "timeout", hint: "expected read_timeout: for bodies of clients, or timeouts: at an upstream"},
}

// can is the hint for a capability of a text model.
func can(name string) string { return "expected capabilities: { " + name + ": true }" }

func timeoutHint(text string) string {
	if regexpDigits.MatchString(text) {
		return fmt.Sprintf("expected timeouts: { total: %ss } at the upstream, or first_byte: for the wait before an answer", text)
	}
	return "expected timeouts: { first_byte: 120s } at the upstream, or total: for the whole answer"
}

func listenHint(text string) string {
	if regexpDigits.MatchString(text) {
		return fmt.Sprintf("expected listen: 127.0.0.1:%s, or \":%s\" for every address of this machine", text, text)
	}
	return fmt.Sprintf("expected listen: %s:8080", clip(text))
}

// perToken is the hint for a price of one token.
func perToken(form string) func(text string) string {
	return func(text string) string {
		price, ok := ofOne(text)
		if !ok {
			price = "0.15"
		}
		return "prices are USD per 1,000,000 tokens: expected " + fmt.Sprintf(form, price)
	}
}

// ofOne is the price of one token, such as 0.0000025 or 2.5e-06, as a price of 1,000,000.
func ofOne(text string) (string, bool) {
	const most = 1_000_000_000 // 0.001 USD for one
	if digits, power, ok := strings.Cut(strings.ToLower(text), "e-"); ok {
		whole, part, _ := strings.Cut(digits, ".")
		n, err := strconv.Atoi(power)
		if err != nil || n < len(whole) || n > 12 || !jsonNumber.MatchString(digits) {
			return "", false
		}
		text = "0." + strings.Repeat("0", n-len(whole)) + whole + part
	}
	p, err := parseDecimal(text, 12)
	if err != nil || p == 0 || p >= most {
		return "", false
	}
	return Pico(p).PerMillion(), true
}

var entryNumber = regexp.MustCompile(`\[\d+\]`)

// habitOf is the meaning of a key of another gateway in the group of a path.
func habitOf(path string, k pair) (h habit, hint string) {
	group := entryNumber.ReplaceAllString(path, "")
	if group == "" {
		group = "/"
	}
	for _, h := range habits {
		if hasWord(h.groups, group) && hasWord(h.keys, k.name) {
			if h.of == nil {
				return h, h.hint
			}
			text := ""
			if k.value.kind == scalarNode && !strings.Contains(k.value.text, "${") {
				text = k.value.text
			}
			return h, h.of(text)
		}
	}
	return habit{}, ""
}

func hasWord(words, word string) bool {
	return strings.Contains(" "+words+" ", " "+word+" ") && !strings.Contains(word, " ")
}
