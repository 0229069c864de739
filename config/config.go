package config

import (
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/term"
	"gopkg.in/natefinch/lumberjack.v2"
)

// Config is everything the operator wrote, checked and with defaults filled
// in. It never changes after Load: a reload makes a new one.
type Config struct {
	// Source is the path the file was read from; empty for the built-in
	// demonstration config.
	Source string `yaml:"-"`

	// The service's word in names: <brand>_parameters, x-<brand>-… headers and the prefix of keys. It has 2 to 20
	// lower-case letters and digits, a letter first.
	Brand string `yaml:"brand" default:"svc" restart:"key"`
	// Further words that clients may use for <brand>_parameters.
	BrandAliases []string `yaml:"brand_aliases" default:"" most:"4 aliases" restart:"key"`

	// Where clients connect: host:port, :port or unix:/path/to.sock.
	Listen string `yaml:"listen" default:"127.0.0.1:8080" restart:"key"`
	// HTTPS, when both files are set. Default: plain HTTP.
	TLS TLS `yaml:"tls" restart:"keys"`
	// Directory of the embedded ledger, or postgres://user:password@host:5432/database for a ledger that several
	// nodes share. A relative path begins at the working directory.
	Store string `yaml:"store" default:"./farebox-data" restart:"key"`
	// This process as one of several on a shared store.
	Node Node `yaml:"node" restart:"keys"`

	// What requests hold and cost.
	Billing Billing `yaml:"billing"`
	// With process, settlements survive the end of the process, even kill -9; a power cut may lose the last
	// milliseconds, in the customer's favour. With power, every settlement waits for the disk.
	Durability string `yaml:"durability" default:"process" oneof:"process power" restart:"key"`
	// How long single requests are kept, and where they are exported to before they are pruned.
	Usage Usage `yaml:"usage"`
	// Redis shares the limits among several nodes; it never holds money. Without addresses every node counts for
	// itself. It needs Redis 6.0 or later.
	Redis Redis `yaml:"redis" restart:"key"`
	// Requests with an Idempotency-Key are answered once and charged once. Answers are kept beside the ledger, or in
	// Redis when it is configured.
	Idempotency Idempotency `yaml:"idempotency" restart:"key"`
	// What POST /responses keeps of its answers, sealed and for each account alone.
	Responses Responses `yaml:"responses" restart:"key"`
	// Details of requests that did not simply succeed, for GET /operator/v1/requests and GET /billing/refusals.
	Requests Requests `yaml:"requests"`
	// How links of clients and upstreams are fetched. Only the public internet is asked.
	Fetch Fetch `yaml:"fetch" restart:"key"`

	// The API of operators: accounts, keys, money and reports, with roles.
	Operator Operator `yaml:"operator"`
	// Connections and what clients can make the process hold.
	Server Server `yaml:"server" restart:"keys"`
	// Pages in browsers that may call the API.
	CORS CORS `yaml:"cors"`
	// The log on standard error.
	Log Log `yaml:"log"`
	// Behaviour where clients and the specification disagree.
	Compat Compat `yaml:"compat"`
	// Throughput limits by account, key and address.
	Limits Limits `yaml:"limits"`
	// API keys that a wallet makes for itself: it signs a token of this service.
	Web3Keys Web3Keys `yaml:"web3_keys"`
	// What wallets may do: top up by a signed payment of USDC (x402), sign in and spend their credit. Default:
	// nothing.
	X402 *X402 `yaml:"x402"`
	// How the enclaves of models[].tee are checked. Each verdict publishes these values.
	TEE TEE `yaml:"tee"`
	// Blockchain JSON-RPC: POST /crypto/rpc/{network}. Default: no networks.
	RPC RPC `yaml:"rpc"`
	// The endpoints for pictures.
	Images Images `yaml:"images"`
	// Music and videos, which clients queue, poll and fetch.
	Jobs Jobs `yaml:"jobs"`
	// Pages, searches and documents by the call. A group that is not written is not offered.
	Augment Augment `yaml:"augment"`
	// Where music and videos wait until their customers have fetched them.
	Media Media `yaml:"media"`
	// Characters of chats: GET /characters, and character_slug in a chat. Each has a file <slug>.yaml in a folder and
	// may have a picture of the same name (PNG, JPEG or WebP). The folder is read again when it changes. Write {} for
	// all defaults. Default: no characters.
	Characters *Characters `yaml:"characters"`

	// Text before the messages of every chat request, unless the client says include_<brand>_system_prompt: false.
	// Default: none; at most 64KB.
	SystemPrompt string `yaml:"system_prompt"`
	// Link to your payment page in error texts. Default: none.
	TopUpURL string `yaml:"top_up_url"`
	// Link to your documentation in error texts. Default: none.
	DocsURL string `yaml:"docs_url"`
	// How clients reach this service, for links to itself in answers, such as https://api.example.com. Default:
	// listen, where that names a host.
	PublicURL string `yaml:"public_url"`

	// Prices of models such as openai/*, which stand for all models of a vendor.
	Prices Prices `yaml:"prices"`
	// The servers that run models. At least one, unless only blockchain calls or augment are sold.
	Upstreams []Upstream `yaml:"upstreams" most:"1000 upstreams"`
	// What clients can ask for. At least one, unless only blockchain calls or augment are sold.
	Models []Model `yaml:"models" most:"10000 models"`

	// Simulated says that this is the built-in demonstration config whose only
	// upstream is the simulated one; the banner says so.
	Simulated bool `yaml:"-"`
	// SimulatedAt is its address, http://host:port.
	SimulatedAt string `yaml:"-"`

	// Warnings are about values that somebody might mean and that are more often mistakes.
	Warnings []Problem `yaml:"-"`

	sum  [sha256.Size]byte // of the file as read, to know it again
	text string            // of the file as read, without its secrets
}

// Text is the file as it was read, with its secrets masked. Values that it refers to are not in it.
func (c *Config) Text() string { return c.text }

// Node names a process on a shared store.
type Node struct {
	// Shown by farebox node list: 1 to 64 letters, digits, dots, _ or -. Default: the host's name.
	Name string `yaml:"name"`
	// Journal and identity of the node. Keep it on a disk that survives a restart, one directory for each process.
	Dir string `yaml:"dir" default:"./farebox-data"`
}

// TLS serves HTTPS when both are set.
type TLS struct {
	// PEM file with the certificate chain.
	Cert string `yaml:"cert"`
	// PEM file with the private key.
	Key string `yaml:"key"`
}

// Server limits connections and what clients can make the process hold.
type Server struct {
	// Body of one request. A form of several pictures may have 101MB.
	MaxBody Size `yaml:"max_body" default:"35MB" range:"1KB..512MB"`
	// Request bodies of all clients together, as far as they have arrived; above it 503. One account has a quarter
	// of it, one address half, or one body; above that 429. At least max_body.
	MaxInFlight Size `yaml:"max_in_flight" default:"1GB" range:"1KB..1024GB"`
	// Connections of clients.
	MaxConnections int `yaml:"max_connections" default:"100000" range:"1..10000000"`
	// Head and body of a request. After 5s, 16KB must have arrived for each further second.
	ReadTimeout time.Duration `yaml:"read_timeout" default:"30s" range:"100ms..1h"`
	// Time between two requests of a connection.
	IdleTimeout time.Duration `yaml:"idle_timeout" default:"75s" range:"100ms..1h"`
	// How long a client may stop reading its answer.
	ClientStall time.Duration `yaml:"client_stall" default:"30s" range:"100ms..1h"`
	// Part of an answer that waits in the kernel for a client that does not read, beyond the client's own buffer.
	SendBuffer Size `yaml:"send_buffer" default:"64KB" range:"4KB..64MB"`
	// How long /readyz says 503 after SIGTERM while everything is still served, so that load balancers look away
	// first.
	DrainDelay time.Duration `yaml:"drain_delay" default:"0s" range:"0s..1h"`
	// How long answers may finish after SIGTERM.
	DrainTimeout time.Duration `yaml:"drain_timeout" default:"30s" range:"0s..1h"`
	// host:port of /metrics, which show revenue and need no key. The word listen serves them on the public address,
	// off nowhere. If the default port is taken, another one of 127.0.0.1 is used.
	MetricsListen string `yaml:"metrics_listen" default:"127.0.0.1:9464"`
	// A client that shut its sending side counts as gone.
	HalfCloseGone *bool `yaml:"half_close_gone" default:"true"`
	// Addresses and prefixes of the proxies in front, and unix for those on a Unix socket. Their X-Forwarded-For,
	// read from the right past trusted proxies, says whose limits by address a request counts in. Default: none.
	TrustedProxies []string `yaml:"trusted_proxies" default:"" most:"256 prefixes"`
	// Header in which the trusted proxies tell the country of a client, such as CF-IPCountry, for region_restrictions
	// of models. Default: none.
	CountryHeader string `yaml:"country_header"`
	// Connections of the trusted proxies begin with a PROXY header (version 2).
	ProxyProtocol bool `yaml:"proxy_protocol"`
}

// Words for Server.MetricsListen, and its default.
const (
	MetricsOnListen      = "listen"
	MetricsOff           = "off"
	DefaultMetricsListen = "127.0.0.1:9464"
)

// Log configures the structured log on standard error.
type Log struct {
	// Least level that is logged.
	Level string `yaml:"level" default:"info" oneof:"debug info warn error"`
	// With auto: console on a terminal, else json.
	Format string `yaml:"format" default:"auto" oneof:"auto json console"`
	// Requests a second above which only a sample of the successful ones is logged; 0 logs all requests.
	SampleAbove int `yaml:"sample_above" default:"100" range:"0..1000000"`
	// Failed requests of the same status, code and cause that are logged each second, where sample_above is not 0. One
	// line a second counts the others.
	SameErrors int `yaml:"same_errors" default:"20" range:"1..100000"`
	// File for the log. A relative path begins at the working directory. It is begun anew at max_size; older files have the time in their names. Default: standard error.
	File string `yaml:"file" restart:"key"`
	// Size at which the file is begun anew; whole MB.
	MaxSize Size `yaml:"max_size" default:"100MB" range:"1MB..100GB" restart:"key"`
	// Older files that are kept.
	Keep int `yaml:"keep" default:"10" range:"1..10000" restart:"key"`
	// Socket for the log, one JSON object a line: unix:///PATH, unixgram:///PATH, tcp://HOST:PORT or udp://HOST:PORT. While it
	// cannot be written, lines go to standard error, or to file.
	Socket string `yaml:"socket" restart:"key"`
}

// Open gives the logger that an operator wants.
func (l Log) Open() (zerolog.Logger, error) {
	var out io.Writer = os.Stderr
	if l.File != "" {
		file := &lumberjack.Logger{Filename: l.File, MaxSize: int(l.MaxSize >> 20), MaxBackups: l.Keep}
		if _, err := file.Write(nil); err != nil {
			return zerolog.Nop(), fmt.Errorf("cannot write the log to log.file: %w", err)
		}
		out = file
	}
	if l.Format == "console" && l.File != "" {
		out = zerolog.ConsoleWriter{Out: out, NoColor: true, TimeFormat: "15:04:05.000"}
	} else if l.Format == "console" || (l.Format == "auto" && l.File == "" && term.IsTerminal(int(os.Stderr.Fd()))) {
		out = zerolog.ConsoleWriter{Out: os.Stderr, TimeFormat: "15:04:05.000"}
	}
	if l.Socket != "" {
		network, address, err := parseLogSocket(l.Socket)
		if err != nil {
			return zerolog.Nop(), fmt.Errorf("cannot write the log to log.socket: %w", err)
		}
		socket := &logSocket{network: network, address: address, other: out}
		socket.dial()
		out = socket
	}
	level, err := zerolog.ParseLevel(l.Level)
	if err != nil {
		level = zerolog.InfoLevel
	}
	zerolog.TimeFieldFormat = "2006-01-02T15:04:05.000Z07:00"
	return zerolog.New(out).Level(level).With().Timestamp().Logger(), nil
}

// Compat switches behaviour where the specification and the documentation of
// the original service cannot both be met (addendum 2, design.md 7).
type Compat struct {
	// Take max_tokens for max_completion_tokens instead of 400. Agents and most public clients need it.
	AcceptMaxTokens bool `yaml:"accept_max_tokens"`
	// Take what OpenAI's packages send beyond the specification: custom tools, allowed_tools, refusal parts,
	// in_memory retention, /images/upscale and its model.
	OpenAIExtras bool `yaml:"openai_extras"`
	// POST /images/generations and /images/edits take n up to 4, prompts as long as the model's prompt_characters,
	// and masks where a target takes them.
	OpenAIImages bool `yaml:"openai_images"`
	// Take embeddings input as token numbers, for upstreams that accept them.
	TokenInput bool `yaml:"token_input"`
	// Chat answers also say their cost and the <brand>_parameters in effect; answers above 64KB do not.
	AnswerExtras bool `yaml:"answer_extras"`
	// Serve /models* without a key.
	PublicCatalog bool `yaml:"public_catalog"`
	// Form of error bodies. auto: {"error": text, "code": …}, but OpenAI's object for OpenAI's own packages; string
	// and openai fix one form for everybody.
	ErrorShape string `yaml:"error_shape" default:"auto" oneof:"auto string openai"`
	// Body of GET /api_keys: array, or envelope for {"object":"list","data":[…]}.
	APIKeyList string `yaml:"api_key_list" default:"array" oneof:"array envelope"`
	// POST /api_keys must name apiKeyType and description.
	StrictAPIKeys bool `yaml:"strict_api_keys"`
	// Body of GET /crypto/rpc/networks: object for {"networks":[…]}, or bare for the array alone.
	RPCNetworks string `yaml:"rpc_networks" default:"object" oneof:"object bare"`
	// Answers and events of /responses. auto: as OpenAI's packages parse them for those packages, Codex and the AI
	// SDK, and as the specification has them for other clients; sdk and spec fix one form for everybody.
	ResponsesEvents string `yaml:"responses_events" default:"auto" oneof:"auto sdk spec"`
	// Serve /messages and /messages/count_tokens, which Anthropic's packages call.
	Messages *bool `yaml:"messages" default:"true"`
	// Serve every path below /v1, too, where many clients look for it.
	V1Alias *bool `yaml:"v1_alias" default:"true"`
	// How retrieve writes the status of a job: lower (processing, failed, completed) or upper.
	JobStatus string `yaml:"job_status" default:"lower" oneof:"lower upper"`
	// How retrieve reports a failed job: status, 200 with that status, or http, an answer of 422 or 500.
	JobFailure string `yaml:"job_failure" default:"status" oneof:"status http"`
}

// Billing holds the money rules. Amounts are Nano (1e-9 of the currency).
type Billing struct {
	// USD that an account needs to begin a request; below it 402.
	MinimumBalance Nano `yaml:"minimum_balance" default:"0.10" range:"0..1000000"`
	// Completion tokens of a choice that the upstream is asked for when the client names no cap and the model's own
	// is not lower.
	DefaultCap int64 `yaml:"default_cap" default:"16384" range:"16..100000000"`
	// Completion tokens that a stream of a model with hold: slice holds money for at a time.
	SliceTokens int64 `yaml:"stream_slice_tokens" default:"1024" range:"16..1000000"`
	// Streams of models with hold: slice whose client disconnects. abort: close the upstream at once; drain: read on
	// within the limits of drain to learn the exact usage. All other answers are read on.
	OnClientGone string `yaml:"on_client_gone" default:"abort" oneof:"abort drain"`
	// Limits for answers that are read on without their client. Beyond them the cost is estimated.
	Drain Drain `yaml:"drain"`
	// Money that nodes on a shared store have taken to spend by themselves.
	Leases Leases `yaml:"leases" restart:"key"`
	// Prompt tokens that one image counts in estimates.
	ImageTokens int64 `yaml:"image_tokens" default:"1600" range:"1..1000000"`
	// A key whose DIEM limit is used up goes on with bundled credits and USD. With false it gets 402.
	KeyLimitFallthrough bool `yaml:"key_limit_fallthrough"`
}

// Web3Keys says which wallets may make an API key by signing (addendum 16.6).
type Web3Keys struct {
	// Condition for a wallet. ledger: an account named as its address, made by an operator or a
	// top-up; allowlist: a place in allow; none: nothing, its account is made at once; deny:
	// nobody makes keys.
	Require string `yaml:"require" default:"ledger" oneof:"none ledger allowlist deny"`
	// Addresses for allowlist in quotes: "0x…" with 40 hexadecimal digits.
	Allow []string `yaml:"allow" most:"100000 addresses"`
	// Tries a minute from one client address; 0: any number.
	PerIP int64 `yaml:"per_ip" default:"30" range:"0..1000000"`
}

// Leases are amounts that a node has taken from a shared store to spend by itself.
type Leases struct {
	// Money of a dead node. strict: it comes back with the node, or by farebox node release; relaxed: another node
	// takes it after grace.
	Reclaim string `yaml:"reclaim" default:"strict" oneof:"strict relaxed"`
	// How long a node must be dead before relaxed takes its money.
	Grace time.Duration `yaml:"grace" default:"15m" range:"1m..24h"`
}

// Drain limits answers that are read on without their client.
type Drain struct {
	// Answers that are read on at the same time.
	Streams int `yaml:"streams" default:"100" range:"1..100000"`
	// Of one answer. A drawn picture has 1 to 4MB.
	Bytes Size `yaml:"bytes" default:"8MB" range:"1KB..1GB"`
	// Of one answer.
	Time time.Duration `yaml:"time" default:"2m" range:"100ms..1h"`
}

// Limits are the throughput limits by tier (addendum 3.6) and the failed-request budget.
type Limits struct {
	// Limits by account and model; every model has a tier. The tiers XS, S, M, L, embedding, image, audio, music and
	// video are built in: what you do not write keeps its value. Add your own by any name. The tier unlimited has no
	// limits. 0 or left out: no limit.
	Tiers map[string]Rate `yaml:"tiers"`
	// Limits of a key over all models together. Default: no limits.
	Key Rate `yaml:"key"`
	// A key that fails too often is blocked, by each node for itself; count: 0 switches it off. It counts by user
	// and model of a key; all of them together may fail ten times as often.
	FailedRequests Budget `yaml:"failed_requests" default:"count: 20, window: 30s, block: 30s"`
	// The same for requests that ask for features a model does not have.
	UnsupportedFeatures Budget `yaml:"unsupported_features" default:"count: 200, window: 30s, block: 30s"`
	// Clients of a key that disconnect while an upstream works for them. They pay for their requests, so it is off
	// by default. With a count, a key whose clients disconnect more often is blocked.
	AbortedRequests Budget `yaml:"aborted_requests" default:"window: 30s, block: 30s"`
	// An address that tries too many unknown keys gets 429 for new ones. Keys in use are served from there.
	WrongKeys Budget `yaml:"wrong_keys" default:"count: 100, window: 1m, block: 1m"`
	// Processor time a minute for documents, pages and schemas of requests that are not charged, by account; without
	// a paid account, by address. Beyond it such requests get 429. 0: any.
	UnpaidWork time.Duration `yaml:"unpaid_work" default:"20s" range:"1s..10m|0"`
}

// Rate is a set of throughput limits; 0 means unlimited.
type Rate struct {
	// Requests a minute.
	RPM int64 `yaml:"rpm" range:"0..1000000000000"`
	// Requests an hour.
	RPH int64 `yaml:"rph" range:"0..1000000000000"`
	// Requests a day (UTC).
	RPD int64 `yaml:"rpd" range:"0..1000000000000"`
	// Requests a month (UTC).
	RPMon int64 `yaml:"rpmonth" range:"0..1000000000000"`
	// Tokens a minute, prompt and completion.
	TPM int64 `yaml:"tpm" range:"0..1000000000000"`
	// Requests of rpm that may come at once: 1 to rpm. Limits of a minute and an hour refill steadily, so that at
	// most rpm + burst requests pass in the first minute after a pause, and rpm in every later one. With
	// redis.addresses it holds for all nodes together. Default: rpm.
	Burst int64 `yaml:"burst"`
}

// Budget counts failures in a window and then blocks.
type Budget struct {
	// Failures in a window before the block; 0: off.
	Count int `yaml:"count" range:"0..1000000"`
	// Time in which they are counted.
	Window time.Duration `yaml:"window" range:"1s..1h"`
	// How long the block lasts.
	Block time.Duration `yaml:"block" range:"1s..24h"`
}
