package config

import (
	"crypto/sha256"
	"time"
)

// Config is everything the operator wrote, checked and with defaults filled
// in. It never changes after Load: a reload makes a new one.
type Config struct {
	// Source is the path the file was read from; empty for the built-in
	// demonstration config.
	Source string `yaml:"-"`

	// Brand is the service name inside identifiers (addendum 0): `svc` gives
	// `svc_parameters`, `x-svc-…` headers and `SVC_INFERENCE_KEY_…` secrets.
	// Lower-case letters and digits, 2 to 20, starting with a letter.
	Brand string `yaml:"brand"`
	// BrandAliases are further words under which clients of another brand may
	// send their parameter object (`<alias>_parameters`); at most 4.
	BrandAliases []string `yaml:"brand_aliases"`

	// Listen is host:port, or unix:/path/to.sock. Default 127.0.0.1:8080.
	Listen string `yaml:"listen"`
	TLS    TLS    `yaml:"tls"`
	// Store is a directory for the embedded ledger, or postgres://… for one
	// that several nodes share. Relative paths are resolved against the working
	// directory. Default ./farebox-data.
	Store string `yaml:"store"`
	// Node is this process as one of several on a shared store.
	Node Node `yaml:"node"`
	// Durability of the journal (design.md 5): process (survives kill -9,
	// default) or power (every settlement waits for the disk).
	Durability string `yaml:"durability"`

	Server  Server  `yaml:"server"`
	CORS    CORS    `yaml:"cors"`
	Log     Log     `yaml:"log"`
	Compat  Compat  `yaml:"compat"`
	Billing Billing `yaml:"billing"`
	Limits  Limits  `yaml:"limits"`
	// Redis shares the limits among nodes (redis.go).
	Redis Redis `yaml:"redis"`
	// Idempotency remembers requests with a key (idempotency.go).
	Idempotency Idempotency `yaml:"idempotency"`
	// Web3Keys are the rules for API keys that a wallet makes for itself.
	Web3Keys Web3Keys `yaml:"web3_keys"`
	// RPC are the blockchain networks (rpc.go).
	RPC    RPC    `yaml:"rpc"`
	Images Images `yaml:"images"`
	// Fetch is how links of clients and upstreams are followed (fetch.go).
	Fetch Fetch `yaml:"fetch"`

	// SystemPrompt is put before the messages of every chat request unless the
	// client says include_<brand>_system_prompt: false. Empty: none.
	SystemPrompt string `yaml:"system_prompt"`
	// TopUpURL and DocsURL appear in error texts; empty leaves them out.
	TopUpURL string `yaml:"top_up_url"`
	DocsURL  string `yaml:"docs_url"`

	Upstreams []Upstream `yaml:"upstreams"`
	Models    []Model    `yaml:"models"`

	// Simulated says that this is the built-in demonstration config whose only
	// upstream is the simulated one; the banner says so.
	Simulated bool `yaml:"-"`

	sum [sha256.Size]byte // of the file as read, to know it again
}

// Node names a process on a shared store.
type Node struct {
	Name string `yaml:"name"` // for operators; default: the host's name
	// Dir holds the journal and the identity of the node; one process each.
	// Default ./farebox-data.
	Dir string `yaml:"dir"`
}

// TLS serves HTTPS when both are set.
type TLS struct {
	Cert string `yaml:"cert"`
	Key  string `yaml:"key"`
}

// Server limits what clients can make the process hold. Sizes in YAML take
// KB, MB, GB (1024-based) or plain bytes; durations take Go's units.
type Server struct {
	MaxBody        Size          `yaml:"max_body"`        // of one request; default 35MB, 1KB to 512MB; forms with several pictures may have 101MB
	MaxInFlight    Size          `yaml:"max_in_flight"`   // request bodies of all clients together; default 1GB
	MaxConnections int           `yaml:"max_connections"` // default 100000
	ReadTimeout    time.Duration `yaml:"read_timeout"`    // head and body of a request; default 30s
	IdleTimeout    time.Duration `yaml:"idle_timeout"`    // between requests; default 75s
	ClientStall    time.Duration `yaml:"client_stall"`    // client that stops reading; default 30s
	SendBuffer     Size          `yaml:"send_buffer"`     // what waits in the kernel for a client that does not read; default 64KB
	DrainDelay     time.Duration `yaml:"drain_delay"`     // SIGTERM: how long /readyz says so before the listener closes; default 0s
	DrainTimeout   time.Duration `yaml:"drain_timeout"`   // SIGTERM: how long streams may finish; default 30s
	// MetricsListen is the host:port of /metrics, which tell revenue and want no
	// key: default 127.0.0.1:9464, another port of it when that is taken;
	// MetricsOnListen or MetricsOff.
	MetricsListen string `yaml:"metrics_listen"`
	HalfCloseGone *bool  `yaml:"half_close_gone"` // client that shut its sending side counts as gone; default true
	// TrustedProxies are addresses and prefixes of the proxies in front, and
	// unix for those that come through a Unix socket: their X-Forwarded-For says
	// whose limits by address a request counts in. Default none.
	TrustedProxies []string `yaml:"trusted_proxies"`
	// ProxyProtocol says that their connections begin with a PROXY header
	// (version 2). Default false.
	ProxyProtocol bool `yaml:"proxy_protocol"`
}

// Words for Server.MetricsListen, and what it is when nothing is written.
const (
	MetricsOnListen      = "listen"
	MetricsOff           = "off"
	DefaultMetricsListen = "127.0.0.1:9464"
)

// Log configures the structured log on standard error.
type Log struct {
	Level  string `yaml:"level"`  // debug, info (default), warn, error
	Format string `yaml:"format"` // json, console, auto (default: console on a terminal)
	// SampleAbove is the rate in requests per second above which only a sample
	// of the successful requests is logged; errors are always logged up to the
	// same rate. Default 100; 0 logs every request.
	SampleAbove int `yaml:"sample_above"`
}

// Compat switches behaviour where the specification and the documentation of
// the original service cannot both be met (addendum 2, design.md 7).
type Compat struct {
	AcceptMaxTokens bool `yaml:"accept_max_tokens"` // D1: map max_tokens to max_completion_tokens instead of 400
	// OpenAIExtras accepts what OpenAI's packages send beyond the specification's
	// lists: custom tools, allowed_tools, refusal parts, in_memory retention; and
	// what public packages for pictures do: /images/upscale, and its model.
	OpenAIExtras bool `yaml:"openai_extras"`
	// TokenInput accepts embeddings input as token numbers, for upstreams that
	// take them.
	TokenInput bool `yaml:"token_input"`
	// AnswerExtras adds what it cost, and the <brand>_parameters that held, to
	// chat answers; otherwise their bytes are the upstream's.
	AnswerExtras  bool `yaml:"answer_extras"`
	PublicCatalog bool `yaml:"public_catalog"` // /models* without a credential
	// ErrorShape of error bodies: auto (default) is {"error": text, "code": …}
	// (addendum 3.4), but OpenAI's {"error": {…}} for OpenAI's own packages,
	// which expect that; string and openai fix one for everybody.
	ErrorShape string `yaml:"error_shape"`
	// APIKeyList is the body of GET /api_keys: array (default, D22), or
	// envelope for {"object":"list","data":[…]}.
	APIKeyList string `yaml:"api_key_list"`
	// StrictAPIKeys refuses a POST /api_keys without apiKeyType or description (D55).
	StrictAPIKeys bool `yaml:"strict_api_keys"`
	// RPCNetworks is the body of GET /crypto/rpc/networks: object (default) for
	// {"networks":[…]}, or bare for the array alone (D56).
	RPCNetworks string `yaml:"rpc_networks"`
}

// Billing holds the money rules. Amounts are Nano (1e-9 of the currency).
type Billing struct {
	// MinimumBalance is the admission floor in USD (addendum 19.2): an account
	// below it is refused with 402. Default 0.10.
	MinimumBalance Nano `yaml:"minimum_balance"`
	// DefaultCap is the cap on completion tokens, of each choice, that is sent
	// for a request that names none, where the model's own is not lower.
	// Default 16384, 16 to 100000000.
	DefaultCap int64 `yaml:"default_cap"`
	// SliceTokens is the number of completion tokens a stream of a model with
	// hold: slice holds money for at a time. Default 1024, 16 to 1000000.
	SliceTokens int64 `yaml:"stream_slice_tokens"`
	// OnClientGone is for streams of models with hold: slice: abort (default)
	// closes the upstream at once, drain reads the answer to its end within
	// Drain to learn the exact usage. All other answers are read to their end.
	OnClientGone string `yaml:"on_client_gone"`
	Drain        Drain  `yaml:"drain"`
	Leases       Leases `yaml:"leases"`
	// ImageTokens is what one image part counts as in the prompt estimate. Default 1600.
	ImageTokens int64 `yaml:"image_tokens"`
	// KeyLimitFallthrough lets a key whose DIEM limit is used up go on with
	// bundled credits and USD instead of being refused with 402.
	KeyLimitFallthrough bool `yaml:"key_limit_fallthrough"`
}

// Web3Keys says who may make an API key by signing with a wallet (addendum 16.6).
type Web3Keys struct {
	// Require is what a wallet needs: ledger (default: an account under its
	// address, made by an operator or a top-up), allowlist (a place in Allow),
	// none (any wallet; its account is made at once), deny (nobody).
	Require string `yaml:"require"`
	// Allow are the addresses for allowlist, 0x and 40 hexadecimal digits.
	Allow []string `yaml:"allow"`
	// PerIP is how many tries a minute one client address has; 0: any number.
	// Default 30.
	PerIP int64 `yaml:"per_ip"`
}

// Leases are money that a node took from a shared store to spend by itself.
type Leases struct {
	// Reclaim says who takes the leases of a dead node back: strict (default),
	// only the operator or the node itself, or relaxed, any node after Grace.
	Reclaim string        `yaml:"reclaim"`
	Grace   time.Duration `yaml:"grace"` // default 15m, 1m to 24h
}

// Drain caps answers that are read on after their client left.
type Drain struct {
	Streams int           `yaml:"streams"` // at the same time; default 100
	Bytes   Size          `yaml:"bytes"`   // per answer; default 1MB
	Time    time.Duration `yaml:"time"`    // per answer; default 2m
}

// Limits are the throughput limits by tier (addendum 3.6) and the failed-request budget.
type Limits struct {
	// Tiers by letter or any other name that models refer to. Built-in:
	// XS, S, M, L, embedding, image as in the addendum (paid column); the operator may
	// override them (what is not written keeps its built-in value) or add more.
	// The tier `unlimited` has no limits.
	Tiers map[string]Rate `yaml:"tiers"`
	// Key limits every key over all models together; zero fields: none.
	Key Rate `yaml:"key"`
	// FailedRequests blocks a key (x model x user) after too many 4xx, and the
	// key as a whole after ten times as many.
	FailedRequests Budget `yaml:"failed_requests"`
	// UnsupportedFeatures is the second budget, for capability refusals.
	UnsupportedFeatures Budget `yaml:"unsupported_features"`
	// AbortedRequests blocks a key whose clients leave too often while an
	// upstream works for them.
	AbortedRequests Budget `yaml:"aborted_requests"`
	// WrongKeys refuses an address that tries too many keys that are none; keys
	// that are in use are served from there all the same.
	WrongKeys Budget `yaml:"wrong_keys"`
}

// Rate is a set of throughput limits; 0 means unlimited.
type Rate struct {
	RPM   int64 `yaml:"rpm"`     // requests per minute
	RPH   int64 `yaml:"rph"`     // requests per hour
	RPD   int64 `yaml:"rpd"`     // requests per UTC day
	RPMon int64 `yaml:"rpmonth"` // requests per UTC month
	TPM   int64 `yaml:"tpm"`     // tokens per minute, prompt and completion
	// Burst is how many requests of RPM may come at once; default: all of them.
	// What was used comes back at the rate of RPM, so that RPM + Burst requests
	// pass in the first minute after a pause.
	Burst int64 `yaml:"burst"`
}

// Budget counts failures in a window and then blocks; Count 0 switches it off.
// Defaults: 20 failed requests, 200 refused features and 200 aborted requests in
// 30s, blocked for 30s; 100 wrong keys in 1m, refused for 1m.
type Budget struct {
	Count  int           `yaml:"count"`
	Window time.Duration `yaml:"window"`
	Block  time.Duration `yaml:"block"`
}

// Upstream is one endpoint that serves models.
type Upstream struct {
	Name string `yaml:"name"` // operator's label; never sent to clients
	// Router is what clients are told of who serves them, in the header
	// x-<brand>-model-router; empty: nothing.
	Router  string `yaml:"router"`
	Dialect string `yaml:"dialect"` // openai (default), anthropic; for pictures also native, sdapi, stability, fal
	// BaseURL includes the version prefix, e.g. https://api.openai.com/v1; http, https or unix:/path.
	BaseURL string            `yaml:"base_url"`
	Key     Secret            `yaml:"key"`     // bearer key or x-api-key; may be empty for self-hosted
	Headers map[string]Secret `yaml:"headers"` // further fixed request headers
	CAFile  string            `yaml:"ca_file"`

	Timeouts       Timeouts      `yaml:"timeouts"`
	MaxConnections int           `yaml:"max_connections"` // default 1024
	MaxIdle        time.Duration `yaml:"max_idle"`        // keep-alive of unused connections; default 4s
	// RetrySafe (default true) resends a request once when the kept-alive
	// connection it went out on died before any answer byte. The upstream may
	// have begun on it, and bill the operator twice; the customer never is.
	RetrySafe bool    `yaml:"retry_safe"`
	Breaker   Breaker `yaml:"breaker"`
	Quirks    Quirks  `yaml:"quirks"`

	// Drop are members of chat requests that are taken out before they are sent
	// here (drop.go): those that change what the operator pays. Not written: the
	// built-in list of the dialect and host; `default` in a list stands for it,
	// an empty list lets everything pass.
	Drop []string `yaml:"drop"`
	// Links says which links in chat messages are passed on to this upstream,
	// which may follow them: public (default), any or none.
	Links string `yaml:"links"`
}

// Timeouts of one exchange; 0 in Total means none.
type Timeouts struct {
	Connect   time.Duration `yaml:"connect"`    // default 5s
	FirstByte time.Duration `yaml:"first_byte"` // request sent to first answer byte; default 120s
	Idle      time.Duration `yaml:"idle"`       // between answer bytes; default 120s
	Total     time.Duration `yaml:"total"`      // of all attempts together; default 0: no cap on streams
}

// Breaker opens a target after Failures failures in a row and tries one
// request again after OpenFor; after 5 s, where only one account met them.
type Breaker struct {
	Failures int           `yaml:"failures"` // default 5; 0 after a written 0: never opens
	OpenFor  time.Duration `yaml:"open_for"` // default 10s
}

// Quirks are the ways an OpenAI-compatible server differs (notes: upstreams).
type Quirks struct {
	MaxTokens         bool   `yaml:"max_tokens"`          // takes max_tokens, not max_completion_tokens
	NoStreamOptions   bool   `yaml:"no_stream_options"`   // refuses stream_options
	NoReasoningEffort bool   `yaml:"no_reasoning_effort"` // refuses reasoning_effort
	NoDeveloperRole   bool   `yaml:"no_developer_role"`   // developer messages are sent as system
	APIKeyHeader      string `yaml:"api_key_header"`      // header that carries the key instead of Authorization, e.g. api-key
}

// Model is one catalog record with its price and where it is served.
type Model struct {
	ID          string `yaml:"id"`
	Type        string `yaml:"type"` // text (default), embedding, or one of ImageTypes
	Name        string `yaml:"name"`
	Description string `yaml:"description"`
	Source      string `yaml:"source"`  // modelSource
	Privacy     string `yaml:"privacy"` // private (default), anonymized
	Created     int64  `yaml:"created"` // Unix seconds
	Beta        bool   `yaml:"beta"`
	Uncensored  bool   `yaml:"uncensored"`
	Offline     bool   `yaml:"offline"`
	Tier        string `yaml:"tier"`      // limits tier; default M for text, embedding for embeddings, image for images
	Tokenizer   string `yaml:"tokenizer"` // o200k_base (default), cl100k_base

	ContextTokens       int64 `yaml:"context_tokens"`        // required for text
	MaxCompletionTokens int64 `yaml:"max_completion_tokens"` // default: min(context, 16384)
	EmbeddingDimensions int64 `yaml:"embedding_dimensions"`
	MaxInputTokens      int64 `yaml:"max_input_tokens"`
	CustomDimensions    bool  `yaml:"custom_dimensions"`

	Traits       []string     `yaml:"traits"`
	Aliases      []string     `yaml:"aliases"` // compatibility mapping: foreign names of this model
	Capabilities Capabilities `yaml:"capabilities"`
	// Hold is what is set aside before a text model is asked: full, the whole
	// completion cap (default), or slice, as much as is seen, step by step
	// (default where capabilities.reasoning is written as false). Only a model
	// that produces nothing unseen may have slice.
	Hold        string       `yaml:"hold"`
	Constraints Constraints  `yaml:"constraints"`
	Deprecation *Deprecation `yaml:"deprecation"`

	Price   *Price   `yaml:"price"` // required; `price: free` for free models
	Targets []Target `yaml:"targets"`
}

// Target is one upstream that serves a model.
type Target struct {
	Upstream string `yaml:"upstream"`
	Model    string `yaml:"model"`    // the upstream's name of the model; default: the model id
	Weight   int    `yaml:"weight"`   // share among equal priorities; default 1, 1 to 1000
	Priority int    `yaml:"priority"` // lower first; default 0
	// Options are settings of the upstream's dialect for models of pictures,
	// such as sizes: 1024x1024; each dialect lists its own. For a text model of
	// dialect anthropic, thinking says how it is asked to think: adaptive, budget
	// or none; default: by the generation that its name there tells.
	Options map[string]string `yaml:"options"`
}

// Capabilities as in addendum 7.4 (text).
type Capabilities struct {
	Code            bool     `yaml:"code"`             // optimizedForCode
	Quantization    string   `yaml:"quantization"`     // default not-available
	Tools           bool     `yaml:"tools"`            // supportsFunctionCalling
	Audio           bool     `yaml:"audio"`            // supportsAudioInput
	Reasoning       *bool    `yaml:"reasoning"`        // not written: false, but see Model.Hold
	ReasoningEffort []string `yaml:"reasoning_effort"` // reasoningEffortOptions; empty: supportsReasoningEffort false
	DefaultEffort   string   `yaml:"default_reasoning_effort"`
	ResponseSchema  bool     `yaml:"response_schema"`
	Vision          bool     `yaml:"vision"`
	MaxImages       int      `yaml:"max_images"` // default 1 with vision; >1 means supportsMultipleImages
	Video           bool     `yaml:"video"`
	Files           bool     `yaml:"files"` // takes file parts (PDF and others) as they are
	MaxVideos       int      `yaml:"max_videos"`
	LogProbs        bool     `yaml:"logprobs"`
	// WebSearch (image models): the upstream searches the web for the picture.
	WebSearch bool `yaml:"web_search"`
	// OptimizePromptThinking (image and inpaint models): clients may have
	// prompts rewritten without reasoning (supportsOptimizePromptThinking).
	OptimizePromptThinking bool `yaml:"optimize_prompt_thinking"`
}

// Constraints of a text model are its default sampling values, decimal text
// kept as written; empty leaves a field out of the record. Those of image
// models are in ImageConstraints.
type Constraints struct {
	ImageConstraints `yaml:",inline"`

	Temperature       *Decimal `yaml:"temperature"`
	TopP              *Decimal `yaml:"top_p"`
	FrequencyPenalty  *Decimal `yaml:"frequency_penalty"`
	PresencePenalty   *Decimal `yaml:"presence_penalty"`
	RepetitionPenalty *Decimal `yaml:"repetition_penalty"`
}

// Reasons says whether the model reasons.
func (c *Capabilities) Reasons() bool { return c.Reasoning != nil && *c.Reasoning }

// HoldsFull says that the whole completion cap is held before the model is asked.
func (m *Model) HoldsFull() bool { return m.Hold != "slice" }

// Deprecation as in addendum 7.3 and 20. Dates are RFC 3339 or YYYY-MM-DD.
type Deprecation struct {
	StartsAt    time.Time `yaml:"starts_at"`
	Date        time.Time `yaml:"date"`
	RemovesAt   time.Time `yaml:"removes_at"`
	Replacement string    `yaml:"replacement"`
	AutoRemap   bool      `yaml:"auto_remap"`
}

// Price of a text or embedding model in USD per 1,000,000 tokens as written,
// held as Pico (1e-12 USD) per token. A missing cache price is the input price.
// Models of pictures have an ImagePrice instead.
type Price struct {
	ImagePrice `yaml:",inline"`

	Free       bool           `yaml:"-"`
	Input      Pico           `yaml:"input"`
	Output     Pico           `yaml:"output"`
	CacheRead  *Pico          `yaml:"cache_read"`
	CacheWrite *Pico          `yaml:"cache_write"`
	Extended   *ExtendedPrice `yaml:"extended"`
}

// ExtendedPrice replaces the prices of the whole request when its prompt has
// more than Above tokens (addendum 19.2).
type ExtendedPrice struct {
	Above      int64 `yaml:"above"`
	Input      Pico  `yaml:"input"`
	Output     Pico  `yaml:"output"`
	CacheRead  *Pico `yaml:"cache_read"`
	CacheWrite *Pico `yaml:"cache_write"`
}
