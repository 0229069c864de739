package config

import (
	"maps"
	"slices"
	"time"
)

// What holds when a key is not written. The comments of config.go and
// examples/full.yaml name the same values; a test compares them.

const (
	defaultContextCompletion = 16384 // max_completion_tokens, when the context is larger
	// Unlimited is the tier without limits.
	Unlimited = "unlimited"
	// Unix, among server.trusted_proxies, are those on a Unix socket.
	Unix = "unix"
)

// builtinTiers are the paid limits of addendum 3.6 (rate-limits.yaml).
var builtinTiers = map[string]Rate{
	"XS":        {RPM: 500, TPM: 1_000_000},
	"S":         {RPM: 75, TPM: 750_000},
	"M":         {RPM: 50, TPM: 750_000},
	"L":         {RPM: 20, TPM: 500_000},
	"embedding": {RPM: 500},
	"image":     {RPM: 20},
	Unlimited:   {},
}

// newConfig is a Config in which nothing has been written yet.
func newConfig() *Config {
	halfCloseGone := true
	return &Config{
		Brand:      "svc",
		Listen:     "127.0.0.1:8080",
		Store:      "./farebox-data",
		Node:       Node{Dir: "./farebox-data"},
		Durability: "process",
		Server: Server{
			MaxBody:        35 << 20,
			MaxInFlight:    1 << 30,
			MaxConnections: 100_000,
			ReadTimeout:    30 * time.Second,
			IdleTimeout:    75 * time.Second,
			ClientStall:    30 * time.Second,
			SendBuffer:     64 << 10,
			DrainTimeout:   30 * time.Second,
			HalfCloseGone:  &halfCloseGone,
			MetricsListen:  DefaultMetricsListen,
			TrustedProxies: []string{},
		},
		CORS:   CORS{MaxAge: 10 * time.Minute},
		Compat: Compat{ErrorShape: "auto", APIKeyList: "array", RPCNetworks: "object"},
		Log:    Log{Level: "info", Format: "auto", SampleAbove: 100},
		Billing: Billing{
			MinimumBalance: 100_000_000, // 0.10 USD
			DefaultCap:     16384,
			SliceTokens:    1024,
			OnClientGone:   "abort",
			Drain:          Drain{Streams: 100, Bytes: 1 << 20, Time: 2 * time.Minute},
			Leases:         Leases{Reclaim: "strict", Grace: 15 * time.Minute},
			ImageTokens:    1600,
		},
		Web3Keys: Web3Keys{Require: "ledger", PerIP: 30},
		Images: Images{
			Compress: true, PromptTimeout: maxPromptTimeout, PromptPrice: 40_000_000_000, // 0.04 USD
			Timeout: 5 * time.Minute, Memory: 1 << 30, Unattended: 64,
		},
		RPC: RPC{
			CreditPrice: 700_000, ErrorCredits: 5, Rate: Rate{RPM: 100}, MaxBody: 10 << 20,
			BatchMemory: 32 << 20, BatchAnswer: 1 << 30, Pin: 30 * time.Second, TurnWait: 500 * time.Millisecond,
		},
		Redis:       Redis{Timeout: 30 * time.Millisecond, Away: "local_share"},
		Idempotency: DefaultIdempotency(),
		Fetch:       Fetch{Limit: 20 * time.Second},
		Limits: Limits{
			Tiers:               maps.Clone(builtinTiers),
			FailedRequests:      Budget{Count: 20, Window: 30 * time.Second, Block: 30 * time.Second},
			UnsupportedFeatures: Budget{Count: 200, Window: 30 * time.Second, Block: 30 * time.Second},
			AbortedRequests:     Budget{Count: 200, Window: 30 * time.Second, Block: 30 * time.Second},
			WrongKeys:           Budget{Count: 100, Window: time.Minute, Block: time.Minute},
		},
	}
}

// fillDefaults prepares an entry of a list before it is read.
func fillDefaults(entry any) {
	switch e := entry.(type) {
	case *Upstream:
		e.Dialect = "openai"
		e.Timeouts = Timeouts{Connect: 5 * time.Second, FirstByte: 120 * time.Second, Idle: 120 * time.Second}
		e.MaxConnections = 1024
		e.MaxIdle = 4 * time.Second
		e.Breaker = Breaker{Failures: 5, OpenFor: 10 * time.Second}
		e.RetrySafe = true
		e.Links = "public"
	case *RPCNetwork:
		e.Credits, e.MaxLag, e.HeadEvery = unwritten, 5, 2*time.Second
		e.PreferFast = true
		e.Cache = RPCCache{MaxItem: 64 << 10, MaxAge: time.Hour, FinalEvery: 10 * time.Second}
		e.Timeouts = RPCTimeouts{Read: 10 * time.Second, Heavy: 30 * time.Second, Write: 15 * time.Second, Idle: 30 * time.Second}
	case *RPCUpstream:
		e.Weight, e.Batch, e.MaxBatch, e.MaxParallel = 1, "auto", 100, 16
		e.MaxConnections, e.MaxIdle = 1024, 4*time.Second
		e.Breaker = Breaker{Failures: 5, OpenFor: 10 * time.Second}
	case *Model:
		e.Type = "text"
		e.Privacy = "private"
		e.Tokenizer = "o200k_base"
		e.Capabilities.Quantization = "not-available"
	case *Target:
		e.Weight = 1
	}
}

// complete fills what depends on other values.
func (c *Config) complete() {
	c.completeRPC()
	if c.Images.Styles == nil {
		c.Images.Styles = slices.Clone(builtinStyles)
	}
	if c.Images.BrandedStyles {
		c.Images.Styles = append(c.Images.Styles, brandedStyles...)
	}
	for i := range c.Upstreams {
		c.Upstreams[i].completeDrops()
	}
	for i := range c.Models {
		m := &c.Models[i]
		if m.Tier == "" {
			m.Tier = "M"
			switch {
			case m.Type == "embedding":
				m.Tier = "embedding"
			case m.IsImage():
				m.Tier = "image"
			}
		}
		if m.Name == "" {
			m.Name = m.ID
		}
		if m.MaxCompletionTokens == 0 && m.Type == "text" {
			m.MaxCompletionTokens = min(m.ContextTokens, defaultContextCompletion)
		}
		if m.Hold == "" && m.Type == "text" {
			m.Hold = "full"
			if denied := m.Capabilities.Reasoning; denied != nil && !*denied {
				m.Hold = "slice"
			}
		}
		for j := range m.Targets {
			if m.Targets[j].Model == "" {
				m.Targets[j].Model = m.ID
			}
		}
		if m.IsImage() {
			m.completeImage()
		}
		if caps := &m.Capabilities; caps.Vision && caps.MaxImages == 0 {
			caps.MaxImages = 1
		}
	}
}

// TierNames are the tiers in alphabetical order.
func (c *Config) TierNames() []string { return slices.Sorted(maps.Keys(c.Limits.Tiers)) }
