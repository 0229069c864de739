package operations

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"farebox/tests/rig"
)

// plainConfig is a good config that gets no warning.
const plainConfig = `listen: 127.0.0.1:8080
store: /var/lib/farebox
compat: { accept_max_tokens: true }
upstreams:
  - name: main
    base_url: https://api.example.com/v1
    key: ${FAREBOX_TEST_KEY}
models:
  - id: chat
    context_tokens: 131072
    max_completion_tokens: 16384
    capabilities: { tools: true }
    price: { input: 1.00, output: 4.00, cache_read: 0.10 }
    targets: [{ upstream: main, model: large }]
`

const mark = "§"

// mistake is an edit of plainConfig, or a whole file where old is empty. § marks the place
// that must be named. words, separated by |, must be in the message.
type mistake struct {
	name, old, new, words string
}

const (
	listenLine  = "listen: 127.0.0.1:8080\n"
	storeLine   = "store: /var/lib/farebox\n"
	compatLine  = "compat: { accept_max_tokens: true }\n"
	baseLine    = "    base_url: https://api.example.com/v1\n"
	keyLine     = "    key: ${FAREBOX_TEST_KEY}\n"
	idLine      = "  - id: chat\n"
	contextLine = "    context_tokens: 131072\n"
	mostLine    = "    max_completion_tokens: 16384\n"
	canLine     = "    capabilities: { tools: true }\n"
	priceLine   = "    price: { input: 1.00, output: 4.00, cache_read: 0.10 }\n"
	targetLine  = "    targets: [{ upstream: main, model: large }]\n"
	upstreams   = "upstreams:\n"
)

// edited is plainConfig with several edits.
func edited(pairs ...string) string { return strings.NewReplacer(pairs...).Replace(plainConfig) }

// speech is a model of speech with a price.
func speech(price string) string {
	return edited(contextLine, "", mostLine, "", canLine, "", priceLine, "    type: tts\n    voices: [a]\n    supported_formats: [mp3]\n"+
		"    price: { "+price+" }\n")
}

// habits are mistakes of people who know another gateway.
var habits = []mistake{
	{"LiteLLM's whole file", "", "§model_list:\n  - model_name: gpt-4o\n    litellm_params:\n      model: openai/gpt-4o\n" +
		"      api_key: os.environ/OPENAI_API_KEY\nlitellm_settings:\n  drop_params: true\ngeneral_settings:\n" +
		"  master_key: sk-1234567890\n", "LiteLLM|farebox import litellm"},
	{"LiteLLM's file without models", "", "§general_settings:\n  database_url: postgres://u:hunter2@db/litellm\n",
		"LiteLLM|farebox import litellm"},
	{"Portkey's JSON", "", "{\n  §\"strategy\": { \"mode\": \"fallback\" },\n  \"targets\": [\n    { \"provider\": \"openai\", " +
		"\"api_key\": \"sk-hunter2-1234567\" }\n  ]\n}\n", "Portkey|upstreams"},
	{"Kong's file", "", "§_format_version: \"3.0\"\nservices:\n  - name: ai\n    url: https://api.openai.com\n    plugins:\n" +
		"      - name: ai-proxy\n", "Kong|upstreams"},
	{"Envoy AI Gateway's resource", "", "§apiVersion: aigateway.envoyproxy.io/v1alpha1\nkind: AIGatewayRoute\nmetadata:\n" +
		"  name: r\nspec:\n  rules: []\n", "Kubernetes|upstreams"},
	{"Envoy's bootstrap", "", "§static_resources:\n  listeners: []\n  clusters: []\n", "Envoy|upstreams"},
	{"Helicone's routers", "", "§routers:\n  main:\n    load-balance:\n      chat:\n        strategy: latency\n",
		"Helicone|upstreams"},
	{"TensorZero's TOML", "", "§[models.gpt]\nrouting = [\"openai\"]\n\n[models.gpt.providers.openai]\ntype = \"openai\"\n",
		"TOML|YAML"},
	{"a file of environment variables", "", "§OPENAI_API_KEY=sk-hunter2-1234567\nPORT=8080\n", "environment variables|YAML"},
	{"Bifrost's JSON", "", "{\n  §\"providers\": {\n    \"openai\": { \"keys\": [{ \"value\": \"env.OPENAI_API_KEY\", \"weight\": 1.0 }] }\n  }\n}\n",
		"upstreams"},
	{"llama-swap's models", "", edited("models:\n"+idLine+contextLine+mostLine+canLine+priceLine+targetLine,
		"models:\n  §\"qwen\":\n    cmd: llama-server --port 9000\n"), "list"},
	{"a template of Helm", listenLine, "listen: §{{ .Values.listen }}\n", "${NAME}"},
	{"$NAME within a URL", baseLine, "    base_url: §https://$API_HOST/v1\n", "${API_HOST}"},
	{"$NAME as a number", contextLine, "    context_tokens: §$CONTEXT\n", "${CONTEXT}"},
	{"models below an upstream", "",
		"upstreams:\n  - name: main\n" + baseLine + "    §models: [{ id: chat, price: free }]\n", "top"},
	{"nginx's file", "", "§upstream llm {\n  server 10.0.0.1:8000;\n}\nserver {\n  listen 8080;\n}\n", "nginx|YAML"},
	{"Caddy's file", "", "§api.example.com {\n  reverse_proxy 127.0.0.1:8000\n}\n", "Caddy|YAML"},
	{"a list of channels, as one-api exports it", "",
		"§[{ \"name\": \"openai\", \"type\": 1, \"key\": \"sk-hunter2-1234567\" }]\n", "upstreams"},
	{"general_settings in a farebox file", upstreams, "§general_settings: { master_key: sk-hunter2-1234567 }\n" + upstreams,
		"LiteLLM|farebox key create"},
	{"router_settings", upstreams, "§router_settings: { routing_strategy: least-busy }\n" + upstreams,
		"LiteLLM|priority|weight"},
	{"litellm_settings", upstreams, "§litellm_settings: { drop_params: true }\n" + upstreams, "LiteLLM"},
	{"master_key", upstreams, "§master_key: sk-hunter2-1234567\n" + upstreams, "farebox key create"},
	{"database_url", storeLine, "§database_url: postgres://u:hunter2@db:5432/farebox\n", "store"},
	{"api_base", baseLine, "    §api_base: https://api.example.com/v1\n", "base_url"},
	{"api_key", keyLine, "    §api_key: ${FAREBOX_TEST_KEY}\n", "key"},
	{"os.environ/NAME", keyLine, "    key: §os.environ/OPENAI_API_KEY\n", "${OPENAI_API_KEY}"},
	{"$NAME of a shell", keyLine, "    key: §$OPENAI_API_KEY\n", "${OPENAI_API_KEY}"},
	{"env.NAME of Bifrost", keyLine, "    key: §env.OPENAI_API_KEY\n", "${OPENAI_API_KEY}"},
	{"$NAME in a URL", baseLine, "    base_url: §$API_BASE\n", "${API_BASE}"},
	{"a provider before the model at OpenAI", "", edited(baseLine, "    base_url: https://api.openai.com/v1\n", targetLine,
		"    targets: [{ upstream: main, model: §openai/gpt-4o }]\n"), "model: gpt-4o"},
	{"a provider before the id of the model", "", edited(baseLine, "    base_url: https://api.openai.com/v1\n", idLine,
		"  - id: openai/gpt-4o\n", targetLine, "    targets: [§{ upstream: main }]\n"), "model: gpt-4o"},
	{"litellm_params in a model", targetLine, "    §litellm_params: { model: openai/large, api_key: os.environ/K }\n",
		"targets"},
	{"model_name", idLine, "  - §model_name: chat\n", "id"},
	{"model_info", targetLine, targetLine + "    §model_info: { mode: chat }\n", "capabilities"},
	{"rpm at a model", targetLine, targetLine + "    §rpm: 100\n", "limits.tiers"},
	{"tpm at an upstream", keyLine, keyLine + "    §tpm: 100000\n", "limits.tiers"},
	{"rate_limit", upstreams, "§rate_limit: { requests_per_minute: 60 }\n" + upstreams, "limits.tiers"},
	{"a cost per token", priceLine, "    §input_cost_per_token: 0.0000025\n", "price: { input: 2.5"},
	{"a cost per token in price", priceLine, "    price: { §input_cost_per_token: 0.0000025, output: 10 }\n", "input: 2.5"},
	{"OpenRouter's price", priceLine, "    price: { §prompt: 1.00, output: 4.00 }\n", "input"},
	{"a price per token", priceLine, "    price: { input: §0.000003, output: 15 }\n", "per 1,000,000|expected 3,"},
	{"a price per token with many decimals", priceLine, "    price: { input: §0.0000025, output: 10 }\n",
		"1,000,000|expected 2.5"},
	{"a price per token with an exponent", priceLine, "    price: { input: §2.5e-06, output: 10 }\n", "1,000,000|expected 2.5"},
	{"context_length", contextLine, "    §context_length: 131072\n", "context_tokens"},
	{"max_tokens of a model", mostLine, "    §max_tokens: 16384\n", "max_completion_tokens"},
	{"supports_vision", canLine, "    §supports_vision: true\n" + canLine, "capabilities: { vision: true }"},
	{"supports_function_calling", canLine, "    §supports_function_calling: true\n" + canLine, "capabilities: { tools: true }"},
	{"max_retries", keyLine, keyLine + "    §max_retries: 3\n", "targets"},
	{"num_retries", upstreams, "§num_retries: 3\n" + upstreams, "targets"},
	{"request_timeout", upstreams, "§request_timeout: 600\n" + upstreams, "timeouts"},
	{"timeout of an upstream", keyLine, keyLine + "    §timeout: 600\n", "timeouts: { total: 600s }"},
	{"fallbacks", upstreams, "§fallbacks: [{ chat: [spare] }]\n" + upstreams, "priority"},
	{"strategy of a model", targetLine, targetLine + "    §strategy: { mode: fallback }\n", "priority"},
	{"virtual_key of Portkey", targetLine, "    targets: [{ §virtual_key: openai-123, model: large }]\n", "upstream"},
	{"override_params of Portkey", targetLine, "    targets: [{ upstream: main, §override_params: { model: large } }]\n",
		"model"},
	{"provider of a target", targetLine, "    targets: [{ §provider: main, model: large }]\n", "upstream"},
	{"provider order of OpenRouter", targetLine, targetLine + "    §provider: { order: [main] }\n", "targets"},
	{"providers", upstreams, "§providers:\n", "upstreams"},
	{"models of an upstream", keyLine, keyLine + "    §models: [large]\n", "models|targets"},
	{"a list of names as models", "models:\n" + idLine, "models:\n  - §openai/gpt-4o\n" + idLine, "id|price|targets"},
	{"api_version at the upstream", keyLine, keyLine + "    §api_version: 2024-10-21\n", "azure: { api_version"},
	{"api_type", keyLine, keyLine + "    §api_type: azure\n", "dialect: azure"},
	{"organization", keyLine, keyLine + "    §organization: org-1\n", "headers: { OpenAI-Organization"},
	{"aws_region_name", keyLine, keyLine + "    §aws_region_name: us-east-1\n", "aws: { region"},
	{"vertex_project", keyLine, keyLine + "    §vertex_project: my-project\n", "google: { project"},
	{"weight of an upstream", keyLine, keyLine + "    §weight: 3\n", "targets"},
	{"a share as weight", targetLine, "    targets: [{ upstream: main, model: large, weight: §0.5 }]\n", "whole number|50"},
	{"backendRefs of Envoy", targetLine, "    §backendRefs: [{ name: main }]\n", "targets"},
	{"port", listenLine, "§port: 8080\n", "listen: 127.0.0.1:8080"},
	{"host", listenLine, "§host: 0.0.0.0\n", "listen"},
	{"a port alone as listen", listenLine, "listen: §8080\n", ":8080"},
	{"a quoted port as listen", listenLine, "listen: §\"8080\"\n", ":8080"},
	{"a host alone as listen", listenLine, "listen: §0.0.0.0\n", "0.0.0.0:8080"},
	{"http:// as listen", listenLine, "listen: §http://127.0.0.1:8080\n", "127.0.0.1:8080"},
	{"the address of an endpoint", baseLine, "    base_url: §https://api.example.com/v1/chat/completions\n",
		"https://api.example.com/v1"},
	{"the address of an endpoint with a slash", baseLine, "    base_url: §https://api.example.com/v1/chat/completions/\n",
		"https://api.example.com/v1"},
	{"Anthropic's address of an endpoint", baseLine, "    base_url: §https://api.example.com/v1/messages\n",
		"https://api.example.com/v1"},
	{"accept_max_tokens at the top", compatLine, "§accept_max_tokens: true\n", "compat"},
}

// ownMistakes are typing errors, traps of YAML, and values that are never intended.
var ownMistakes = []mistake{
	// YAML
	{"a tab", compatLine, "compat:\n§\taccept_max_tokens: true\n", "spaces"},
	{"yes for a switch", compatLine, "compat: { accept_max_tokens: §yes }\n", "true or false"},
	{"on for a switch", compatLine, "compat: { accept_max_tokens: §on }\n", "true or false"},
	{"a key with an underscore in the number", contextLine, "    context_tokens: §131_072\n", "digits only"},
	{"a number with commas", contextLine, "    context_tokens: §131,072\n", "digits only"},
	{"1e6", contextLine, "    context_tokens: §1e6\n", "1000000"},
	{"128k", contextLine, "    context_tokens: §128k\n", "128000"},
	{"a number in quotes", contextLine, "    context_tokens: §\"131072\"\n", "without quotes"},
	{"a price with a comma", priceLine, "    price: { input: §\"1,00\", output: 4 }\n", "decimal point"},
	{"a price with a sign", priceLine, "    price: { input: §$1, output: 4 }\n", "currency sign"},
	{"a key twice", listenLine, listenLine + "§" + listenLine, "twice|line 1"},
	{"a second document", upstreams, "---\n§" + upstreams, "---"},
	{"no space behind the colon", listenLine, "§listen:127.0.0.1:8080\n", "space"},
	{"a bare star", upstreams, "cors: { origins: §* }\n" + upstreams, "\"*\""},
	{"an anchor with a wrong sign", storeLine, "store: §*data\n", "anchor"},
	{"${NAME} without quotes in braces", priceLine, "    price: { input: 1, output: $§{PRICE} }\n", "quotes"},
	{"a variable that is not set", keyLine, "    key: §${FAREBOX_TEST_MISSING}\n", "FAREBOX_TEST_MISSING|set it"},
	{"nothing behind key", keyLine, "    §key:\n", "warning|the key has no value"},
	{"~ behind key", keyLine, "    §key: ~\n", "warning|the key has no value"},
	{"an empty group", storeLine, storeLine + "§characters:\n", "warning|{}"},
	{"typographic quotes", keyLine, "    key: §“sk-hunter2”\n", "plain"},
	{"a path of Windows in quotes", storeLine, "store: §\"C:\\farebox\"\n", "Windows"},
	{"a path of Windows", storeLine, "store: §C:\\farebox\n", "Windows"},
	{"~ in a path", storeLine, "store: §~/farebox\n", "${HOME}"},
	{"a group where a list belongs", "  - name: main\n" + baseLine + keyLine, "    §name: main\n" + baseLine + keyLine,
		"list|- "},
	{"one name where a list belongs", targetLine, "    targets: §main\n", "list"},
	{"a no-break space", canLine, "    §\u00a0capabilities: { tools: true }\n", "plain"},
	{"a size of Kubernetes", upstreams, "server: { max_body: §35Mi }\n" + upstreams, "35MB"},
	{"a duration without unit", keyLine, keyLine + "    timeouts: { first_byte: §30 }\n", "unit"},
	{"a duration in days", upstreams, "media: { keep: §1d }\n" + upstreams, "duration"},
	// Addresses
	{"no /v1 at OpenAI", baseLine, "    base_url: §https://api.openai.com\n", "https://api.openai.com/v1"},
	{"no /v1 anywhere", baseLine, "    base_url: §http://10.0.0.7:11434\n", "warning|http://10.0.0.7:11434/v1"},
	{"Anthropic without a dialect", baseLine, "    base_url: §https://api.anthropic.com/v1\n", "warning|dialect: anthropic"},
	{"Azure without a dialect", baseLine, "    base_url: §https://east.openai.azure.com\n", "dialect: azure"},
	{"Gemini without a dialect", baseLine, "    base_url: §https://generativelanguage.googleapis.com/v1beta\n",
		"/v1beta/openai"},
	{"Vertex without a dialect", baseLine, "    base_url: §https://us-east5-aiplatform.googleapis.com/v1\n", "dialect: vertex"},
	{"Bedrock without a dialect", baseLine, "    base_url: §https://bedrock-runtime.us-east-1.amazonaws.com\n",
		"dialect: bedrock"},
	{"ElevenLabs without a dialect", baseLine, "    base_url: §https://api.elevenlabs.io/v1\n", "dialect: elevenlabs"},
	{"fal without a dialect", baseLine, "    base_url: §https://queue.fal.run\n", "dialect: fal"},
	{"Replicate without a dialect", baseLine, "    base_url: §https://api.replicate.com/v1\n", "dialect: replicate"},
	{"OpenAI in Anthropic's dialect", baseLine, "    dialect: anthropic\n    base_url: §https://api.openai.com/v1\n",
		"dialect: openai"},
	{"a key over plain http", baseLine, "    base_url: §http://api.example.com/v1\n", "warning|https://"},
	{"OpenAI without a key", "  - name: main\n" + baseLine + keyLine,
		"  - §name: main\n    base_url: https://api.openai.com/v1\n", "warning|${OPENAI_API_KEY}"},
	{"a Redis in the internet", upstreams, "redis: { addresses: [§\"redis.example.com:6379\"] }\n" + upstreams,
		"warning|password"},
	{"a Redis by its URL", upstreams, "redis: { addresses: [§\"redis://:hunter2@10.0.0.1:6379\"] }\n" + upstreams, "host:port"},
	{"a database in the internet", storeLine, "store: §postgres://farebox@db.example.com/farebox\n", "warning|password"},
	{"every proxy", upstreams, "server: { trusted_proxies: [§0.0.0.0/0] }\n" + upstreams, "warning|proxies"},
	{"every link", upstreams, "fetch: { allow: [§0.0.0.0/0] }\n" + upstreams, "warning|network"},
	{"Bearer before the key", keyLine, "    key: §Bearer sk-hunter2-1234567\n", "without Bearer"},
	{"the placeholder of an example", keyLine, "    key: §YOUR_API_KEY\n", "warning|placeholder"},
	{"another placeholder", keyLine, "    key: §<your-key>\n", "warning|placeholder"},
	{"https:// twice", baseLine, "    base_url: §https://https://api.example.com/v1\n", "host"},
	{"OpenRouter without /api", baseLine, "    base_url: §https://openrouter.ai/v1\n", "warning|https://openrouter.ai/api/v1"},
	{"the gateway itself", baseLine, "    base_url: §http://localhost:8080/v1\n", "ask itself"},
	{"an address to listen on", baseLine, "    base_url: §http://0.0.0.0:8000/v1\n", "warning|127.0.0.1"},
	{"an endpoint from the environment", baseLine, "    base_url: §${FAREBOX_TEST_URL}\n", "endpoint|FAREBOX_TEST_URL|such as"},
	// Prices
	{"a price of a million", priceLine, "    price: { input: 900, output: §2500, confirmed: false }\n",
		"warning|confirmed: true"},
	{"prices the wrong way round", priceLine, "    price: { input: 15, output: §1 }\n", "warning|other way round"},
	{"a dear cache", priceLine, "    price: { input: 1, output: 4, cache_read: §1.25 }\n", "warning|less"},
	{"a free cache", priceLine, "    price: { input: 1, output: 4, cache_read: §0 }\n", "warning|cache_read: free"},
	{"a cheap cache_write", priceLine, "    price: { input: 1, output: 4, cache_write: §0 }\n", "warning|at least as much"},
	{"a voice by the character", "", speech("input: §0.000015"), "per 1,000,000|expected 15,"},
	{"a dear voice", "", speech("input: §15000"), "warning|less"},
	{"an hour of audio as a second", "", strings.Replace(speech(""), "    type: tts\n    voices: [a]\n    supported_formats: [mp3]\n    price: {  }\n",
		"    type: asr\n    max_seconds: 7200\n    price: { per_audio_second: §0.36 }\n", 1), "warning|price of a second"},
	{"credits one by one", upstreams, "rpc: { credit_price: §0.0000007, networks: [{ name: base-mainnet, upstreams: [{ name: a, url: " +
		"\"http://10.0.0.1\" }] }] }\n" + upstreams, "expected 0.7"},
	{"no price", "", edited(priceLine, "", idLine, "  - §id: chat\n"), "price"},
	// Models
	{"thousands as context", contextLine + mostLine, "    context_tokens: §128\n", "warning|128000"},
	{"an endless context", contextLine, "    context_tokens: §99000000\n", "warning|128000"},
	{"thousands as completion", mostLine, "    max_completion_tokens: §16\n", "warning|16000"},
	{"an answer larger than the context", mostLine, "    max_completion_tokens: §262144\n", "131072"},
	{"audio at Anthropic", "", edited(baseLine, "    dialect: anthropic\n"+baseLine, canLine,
		"    capabilities: { tools: true, audio: §true }\n"), "warning|audio: false"},
	{"a model twice", targetLine, targetLine + "  - id: other\n" + contextLine + mostLine + canLine + priceLine +
		"    targets: §[{ upstream: main, model: large }]\n", "warning|aliases: [other]"},
	{"a copied target", targetLine, targetLine + "  - id: other\n" + contextLine + mostLine + canLine +
		"    price: { input: 2, output: 8 }\n    targets: §[{ upstream: main, model: large }]\n", "warning|another price"},
	{"a target twice", targetLine, "    targets: [{ upstream: main, model: large }, §{ upstream: main, model: large }]\n",
		"weight"},
	{"an unused upstream", "models:\n", "  - name: §spare\n    base_url: https://spare.example.com/v1\nmodels:\n",
		"warning|spare"},
	{"an upstream that is not there", targetLine, "    targets: [{ upstream: §mian }]\n", "main"},
	{"agents without tools", "", edited(canLine, "", idLine, "  - §id: chat\n"), "warning|tools: true"},
	{"a share in per cent", targetLine, "    targets: [{ upstream: main, model: large, weight: §50% }]\n", "whole number"},
	// Times and limits
	{"a first byte in a second", keyLine, keyLine + "    timeouts: { first_byte: §1s }\n", "warning|at least 5s"},
	{"an end before the first byte", keyLine, keyLine + "    timeouts: { first_byte: 60s, total: §30s }\n", "first_byte"},
	{"an end after seconds", keyLine, keyLine + "    timeouts: { total: §5s }\n", "warning|cut"},
	{"a stop at once", upstreams, "server: { drain_timeout: §0s }\n" + upstreams, "warning|30s"},
	{"clients that may not be slow", upstreams, "server: { read_timeout: §100ms }\n" + upstreams, "warning|30s"},
	{"a rest of milliseconds", keyLine, keyLine + "    breaker: { open_for: §5ms }\n", "warning|10s"},
	{"a small body", upstreams, "server: { max_body: §4KB }\n" + upstreams, "warning|35MB"},
	{"thousands as tpm", targetLine, "    tier: own\n" + targetLine + "limits: { tiers: { own: { rpm: 10, tpm: §100 } } }\n",
		"warning|100000"},
	{"a tier without limits", targetLine, "    tier: own\n" + targetLine + "limits: { tiers: { own: §{ rpm: 0 } } }\n",
		"warning|unlimited"},
	{"an unused tier", upstreams, "limits: { tiers: { §own: { rpm: 10 } } }\n" + upstreams, "warning|tier: own"},
	{"a breaker that never closes", keyLine, keyLine + "    breaker: { open_for: §0s }\n", "1ms"},
	// Places
	{"a store in /tmp", storeLine, "store: §/tmp/farebox\n", "warning|/var/lib/farebox"},
	{"results in /tmp", storeLine, storeLine + "media: { dir: §/tmp/media }\n", "warning|results"},
	{"a node's journal in /tmp", storeLine,
		"store: postgres://u:${FAREBOX_TEST_KEY}@10.0.0.1/f\nnode: { dir: §/tmp/node }\n", "warning|charges"},
	{"upstream for upstreams", upstreams, "§upstream:\n", "upstreams"},
	{"everything below a key of one's own", "", "§farebox:\n  upstreams: []\n", "top"},
	{"a typing error", listenLine, "§lisen: 127.0.0.1:8080\n", "listen"},
	{"a group at the wrong place", keyLine, keyLine + "    §compat: { openai_extras: true }\n", "top"},
}

var finding = regexp.MustCompile(`(?m)^farebox\.yaml:(\d+):(\d+): (.*)$`)

// "The config was taken, and the first month was sold at a millionth of the price." Each
// mistake is one finding with its line, its column and its remedy.
func TestLongSixtyMistakesAreReportedWithLineAndRemedy(t *testing.T) {
	t.Parallel()
	if len(habits) < 20 || len(habits)+len(ownMistakes) < 60 {
		t.Fatalf("only %d and %d mistakes", len(habits), len(ownMistakes))
	}
	mistakesAreTold(t, append(habits, ownMistakes...))
}

// One mistake in six.
func TestMistakesAreReportedWithLineAndRemedy(t *testing.T) {
	t.Parallel()
	var some []mistake
	for i, m := range append(habits, ownMistakes...) {
		if i%6 == 0 {
			some = append(some, m)
		}
	}
	mistakesAreTold(t, some)
}

func mistakesAreTold(t *testing.T, mistakes []mistake) {
	if out, err := checkText(t, plainConfig); err != nil || finding.MatchString(out) {
		t.Fatalf("the config without a mistake: %v\n%s", err, out)
	}
	for _, m := range mistakes {
		t.Run(m.name, func(t *testing.T) {
			text := m.new
			if m.old != "" {
				if strings.Count(plainConfig, m.old) != 1 {
					t.Fatalf("%q is not in the config once", m.old)
				}
				text = strings.Replace(plainConfig, m.old, m.new, 1)
			}
			before, after, ok := strings.Cut(text, mark)
			if !ok {
				t.Fatal("no place is marked")
			}
			line := strings.Count(before, "\n") + 1
			column := len([]rune(before[strings.LastIndex(before, "\n")+1:])) + 1
			out, err := checkText(t, before+after)
			found := finding.FindAllStringSubmatch(out, -1)
			if len(found) != 1 || found[0][1] != strconv.Itoa(line) || found[0][2] != strconv.Itoa(column) {
				t.Fatalf("%d findings, expected one at %d:%d\n%s", len(found), line, column, out)
			}
			warning := strings.HasPrefix(m.words, "warning|")
			if strings.HasPrefix(found[0][3], "warning: ") != warning || (err == nil) != warning {
				t.Errorf("%v: %s", err, out)
			}
			for word := range strings.SplitSeq(m.words, "|") {
				if word == "" || !strings.Contains(found[0][3], word) {
					t.Errorf("no %q in %s", word, found[0][3])
				}
			}
			if strings.Contains(out, "hunter2") || strings.Contains(out, "1234567890") {
				t.Errorf("a secret is shown:\n%s", out)
			}
			if !warning {
				return
			}
			if out, err := checkText(t, before+after, "--strict"); rig.ExitCode(err) != 1 || !strings.Contains(out, "--strict") {
				t.Errorf("--strict: %v\n%s", err, out)
			}
		})
	}
}

// checkText runs `farebox check` on a config.
func checkText(t *testing.T, text string, args ...string) (string, error) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "farebox.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(rig.Binary(t), append([]string{"check", "-c", "farebox.yaml"}, args...)...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "FAREBOX_TEST_KEY=sk-hunter2-of-a-test", "PRICE=1",
		"FAREBOX_TEST_URL=https://hunter2.example.com/v1/chat/completions")
	out, err := cmd.CombinedOutput()
	return string(out), err
}
