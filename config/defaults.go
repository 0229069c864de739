package config

import (
	"maps"
	"slices"
	"time"
)

// What holds when a key is not written. The comments of the types and
// examples/full.yaml name the same values; a test compares them.

const (
	// Unlimited is the tier without limits.
	Unlimited = "unlimited"
	// Unix, among server.trusted_proxies, are those on a Unix socket.
	Unix = "unix"
)

// builtinTiers are the paid limits of addendum 3.6 (rate-limits.yaml): those of
// text models, and those that the kinds of models bring along.
func builtinTiers() map[string]Rate {
	tiers := map[string]Rate{
		"XS":      {RPM: 500, TPM: 1_000_000},
		"S":       {RPM: 75, TPM: 750_000},
		"M":       {RPM: 50, TPM: 750_000},
		"L":       {RPM: 20, TPM: 500_000},
		Unlimited: {},
	}
	for _, k := range kinds {
		if _, ok := tiers[k.tier]; !ok {
			tiers[k.tier] = k.rate
		}
	}
	return tiers
}

// newConfig is a Config in which nothing has been written yet.
func newConfig() *Config {
	halfCloseGone, messages, alias := true, true, true
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
		CORS: CORS{MaxAge: 10 * time.Minute},
		Compat: Compat{ErrorShape: "auto", APIKeyList: "array", RPCNetworks: "object", ResponsesEvents: "sdk",
			Messages: &messages, V1Alias: &alias, JobStatus: "lower", JobFailure: "status"},
		Log: Log{Level: "info", Format: "auto", SampleAbove: 100},
		Billing: Billing{
			MinimumBalance: 100_000_000, // 0.10 USD
			DefaultCap:     16384,
			SliceTokens:    1024,
			OnClientGone:   "abort",
			Drain:          Drain{Streams: 100, Bytes: 8 << 20, Time: 2 * time.Minute},
			Leases:         Leases{Reclaim: "strict", Grace: 15 * time.Minute},
			ImageTokens:    1600,
		},
		Web3Keys:    Web3Keys{Require: "ledger", PerIP: 30},
		Images:      defaultImages(),
		RPC:         defaultRPC(),
		TEE:         defaultTEE(),
		Redis:       Redis{Timeout: 30 * time.Millisecond, Away: "local_share"},
		Idempotency: DefaultIdempotency(),
		Responses:   Responses{ItemReferences: time.Hour},
		Jobs:        DefaultJobs(),
		Fetch:       Fetch{Limit: 20 * time.Second},
		Media:       DefaultMedia(),
		Limits: Limits{
			Tiers:               builtinTiers(),
			FailedRequests:      Budget{Count: 20, Window: 30 * time.Second, Block: 30 * time.Second},
			UnsupportedFeatures: Budget{Count: 200, Window: 30 * time.Second, Block: 30 * time.Second},
			AbortedRequests:     Budget{Window: 30 * time.Second, Block: 30 * time.Second},
			WrongKeys:           Budget{Count: 100, Window: time.Minute, Block: time.Minute},
			UnpaidWork:          20 * time.Second,
		},
	}
}

// entry is one of a list, filled with its defaults before it is read.
type entry interface{ defaults() }

// complete fills what depends on other values.
func (c *Config) complete() {
	c.completeRPC()
	c.completeTEE()
	c.completeX402()
	c.completeSearch()
	c.Images.complete()
	c.Characters.complete(c.Source)
	for i := range c.Upstreams {
		c.Upstreams[i].completeCloud()
		c.Upstreams[i].completeDrops(c.Characters != nil)
	}
	for i := range c.Models {
		c.Models[i].complete()
	}
}

// TierNames are the tiers in alphabetical order.
func (c *Config) TierNames() []string { return slices.Sorted(maps.Keys(c.Limits.Tiers)) }
