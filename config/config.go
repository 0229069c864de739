package config

import (
	"crypto/sha256"
	"io"
	"os"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/term"
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
	// Redis shares the limits among nodes (store.go).
	Redis Redis `yaml:"redis"`
	// Idempotency remembers requests with a key (idempotency.go).
	Idempotency Idempotency `yaml:"idempotency"`
	// Responses is what /responses keeps (responses.go).
	Responses Responses `yaml:"responses"`
	// Web3Keys are the rules for API keys that a wallet makes for itself.
	Web3Keys Web3Keys `yaml:"web3_keys"`
	// X402 is what wallets may do (x402.go); nil: nothing.
	X402 *X402 `yaml:"x402"`
	// TEE is what is asked of enclaves (tee.go).
	TEE TEE `yaml:"tee"`
	// RPC are the blockchain networks (rpc.go).
	RPC    RPC    `yaml:"rpc"`
	Images Images `yaml:"images"`
	// Fetch is how links of clients and upstreams are followed (fetch.go).
	Fetch Fetch `yaml:"fetch"`
	// Jobs is how tracks and videos are driven (jobs.go).
	Jobs Jobs `yaml:"jobs"`
	// Augment are pages, searches and documents (augment.go).
	Augment Augment `yaml:"augment"`
	// Media is where what models made waits for its customers (media.go).
	Media Media `yaml:"media"`
	// Characters are those of chats (characters.go); nil: none.
	Characters *Characters `yaml:"characters"`

	// SystemPrompt is put before the messages of every chat request unless the
	// client says include_<brand>_system_prompt: false. Empty: none.
	SystemPrompt string `yaml:"system_prompt"`
	// TopUpURL and DocsURL appear in error texts; empty leaves them out.
	TopUpURL string `yaml:"top_up_url"`
	DocsURL  string `yaml:"docs_url"`
	// PublicURL is how clients reach this service, for links to itself in answers:
	// https://api.example.com. Default: listen, where that names a host.
	PublicURL string `yaml:"public_url"`

	Upstreams []Upstream `yaml:"upstreams"`
	Models    []Model    `yaml:"models"`

	// Simulated says that this is the built-in demonstration config whose only
	// upstream is the simulated one; the banner says so.
	Simulated bool `yaml:"-"`
	// SimulatedAt is its address, http://host:port.
	SimulatedAt string `yaml:"-"`

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
	// of one request; default 35MB, 1KB to 512MB; forms with several pictures may have 101MB
	MaxBody        Size          `yaml:"max_body"`
	MaxInFlight    Size          `yaml:"max_in_flight"`   // request bodies of all clients together; default 1GB
	MaxConnections int           `yaml:"max_connections"` // default 100000
	ReadTimeout    time.Duration `yaml:"read_timeout"`    // head and body of a request; default 30s
	IdleTimeout    time.Duration `yaml:"idle_timeout"`    // between requests; default 75s
	ClientStall    time.Duration `yaml:"client_stall"`    // client that stops reading; default 30s
	// what waits in the kernel for a client that does not read; default 64KB
	SendBuffer Size `yaml:"send_buffer"`
	// SIGTERM: how long /readyz says so before the listener closes; default 0s
	DrainDelay   time.Duration `yaml:"drain_delay"`
	DrainTimeout time.Duration `yaml:"drain_timeout"` // SIGTERM: how long streams may finish; default 30s
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

// Open gives the logger that an operator wants, to standard error.
func (c Log) Open() zerolog.Logger {
	var out io.Writer = os.Stderr
	if c.Format == "console" || (c.Format == "auto" && term.IsTerminal(int(os.Stderr.Fd()))) {
		out = zerolog.ConsoleWriter{Out: os.Stderr, TimeFormat: "15:04:05.000"}
	}
	level, err := zerolog.ParseLevel(c.Level)
	if err != nil {
		level = zerolog.InfoLevel
	}
	zerolog.TimeFieldFormat = "2006-01-02T15:04:05.000Z07:00"
	return zerolog.New(out).Level(level).With().Timestamp().Logger()
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
	// ResponsesEvents is how /responses answers, whole and in events: sdk (default), as
	// OpenAI's packages parse it, or spec, as addendum 6.3 and 6.4 have it.
	ResponsesEvents string `yaml:"responses_events"`
	// Messages serves /messages and /messages/count_tokens, Anthropic's form of asking,
	// which the specification does not have. Default true.
	Messages *bool `yaml:"messages"`
	// V1Alias serves every path of the API below /v1, too, where many clients look for
	// it. Default true.
	V1Alias *bool `yaml:"v1_alias"`
	// JobStatus is how the status of a track or video is written: lower (default) for
	// processing, failed and completed, or upper for PROCESSING, FAILED and COMPLETED.
	JobStatus string `yaml:"job_status"`
	// JobFailure is how retrieve tells that a job failed: status (default) for 200 with
	// that status, or http for an answer of 422 or 500.
	JobFailure string `yaml:"job_failure"`
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
	Bytes   Size          `yaml:"bytes"`   // per answer; default 8MB: a drawn picture has 1 to 4
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
	// upstream works for them. It is off by default: they pay for what they caused.
	AbortedRequests Budget `yaml:"aborted_requests"`
	// WrongKeys refuses an address that tries too many keys that are none; keys
	// that are in use are served from there all the same.
	WrongKeys Budget `yaml:"wrong_keys"`
	// UnpaidWork is the processor time a minute that children may spend on documents,
	// pages and schemas for requests of an account that are not charged. Default 20s,
	// 1s to 10m; 0: any.
	UnpaidWork time.Duration `yaml:"unpaid_work"`
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
// Defaults: 20 failed requests and 200 refused features in 30s, blocked for 30s; 100
// wrong keys in 1m, refused for 1m; any number of aborted requests.
type Budget struct {
	Count  int           `yaml:"count"`
	Window time.Duration `yaml:"window"`
	Block  time.Duration `yaml:"block"`
}
