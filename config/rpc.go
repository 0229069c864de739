package config

import (
	"fmt"
	"strings"
	"time"
)

// RPC serves blockchain JSON-RPC (interface.md, Crypto proxy; addendum 13).
type RPC struct {
	// CreditPrice in USD per 1,000,000 credits; default 0.70. `free`, as with models:
	// a 0 is refused, which is more often a forgotten price.
	CreditPrice Pico `yaml:"credit_price"`
	// ErrorCredits is what a call costs that a node answered with an error; default 5.
	ErrorCredits int64 `yaml:"error_credits"`
	// Rate limits an account over all networks; a batch counts as one request.
	// Default rpm: 100.
	Rate Rate `yaml:"rate"`
	// DailyCredits is how many credits an account may use in 24 hours on a node;
	// default 0: any number (addendum D47). A request that may cost more than is
	// left gets 429. Nodes of a shared store have an equal part each, and a
	// restart begins with nothing counted (billing/credits.go).
	DailyCredits int64 `yaml:"daily_credits"`
	// MaxInFlight is how many requests of an account may be under way at the same
	// time on a node; default 0: any number. What comes beyond waits for up to
	// TurnWait, then gets 429; default 500ms.
	MaxInFlight int           `yaml:"max_in_flight"`
	TurnWait    time.Duration `yaml:"turn_wait"`
	// MaxBody of a request; default 10MB.
	MaxBody Size `yaml:"max_body"`
	// BatchMemory is how much of a batch's answer is held in memory, the rest
	// goes to a file beside the store; default 32MB. BatchAnswer bounds all of it; default 1GB.
	BatchMemory Size `yaml:"batch_memory"`
	BatchAnswer Size `yaml:"batch_answer"`
	// Pin is how long an account reads from the node that took its last
	// transaction, so that it sees it; default 30s, 0 off.
	Pin      time.Duration `yaml:"pin"`
	Networks []RPCNetwork  `yaml:"networks"`
}

// RPCNetwork is one chain and the nodes that serve it.
type RPCNetwork struct {
	Name string `yaml:"name"` // the slug in the path
	// Family is evm, solana or starknet, Credits the base price of a call. Both
	// have defaults for the networks of the specification.
	Family  string `yaml:"family"`
	Credits int64  `yaml:"credits"`
	// ChainID is what the nodes must call their chain: the answer to eth_chainId
	// or starknet_chainId, in decimal or 0x, and to getGenesisHash on Solana. A
	// node that says otherwise gets no requests. Default: that of most nodes, so
	// that a node which is alone is taken at its word.
	ChainID ChainID `yaml:"chain_id"`
	// MaxLag is how many blocks a node may be behind the others before it is
	// passed over; default 5, 0: any number. HeadEvery is how often the nodes are
	// asked while there is traffic; default 2s, 0: never.
	MaxLag    int64         `yaml:"max_lag"`
	HeadEvery time.Duration `yaml:"head_every"`
	// PreferFast lets a node that answers much slower than another, or fails more,
	// lose turns to it; default true. false: by weight alone.
	PreferFast bool `yaml:"prefer_fast"`
	// HedgeAfter sends a read to a second node when the first has not answered
	// by then; default 0: never.
	HedgeAfter time.Duration `yaml:"hedge_after"`
	Timeouts   RPCTimeouts   `yaml:"timeouts"`
	Cache      RPCCache      `yaml:"cache"`
	Upstreams  []RPCUpstream `yaml:"upstreams"`
}

// RPCCache keeps answers to single calls that cannot change any more: those
// about blocks that all nodes tell are finalized, and constants of the chain.
// They cost what any answer costs.
type RPCCache struct {
	Size Size `yaml:"size"` // memory of all answers; default 0: off
	// MaxItem is the largest answer with its params that is kept; default 64KB,
	// which is also the most: larger ones stream.
	MaxItem Size          `yaml:"max_item"`
	MaxAge  time.Duration `yaml:"max_age"` // of an answer; default 1h
	// FinalEvery is how often nodes are asked for their finalized block while
	// there is traffic that it matters to; default 10s.
	FinalEvery time.Duration `yaml:"final_every"`
}

// RPCTimeouts are how long a node may take to begin its answer, by what is asked.
type RPCTimeouts struct {
	Read  time.Duration `yaml:"read"`  // default 10s
	Heavy time.Duration `yaml:"heavy"` // logs and traces; default 30s
	Write time.Duration `yaml:"write"` // transactions; default 15s
	Idle  time.Duration `yaml:"idle"`  // between bytes of an answer; default 30s
	// Total is for all of a request: every node that is asked, and the answer
	// however it trickles, until a large one goes out. Default 30s (addendum 13),
	// or the longest of read, heavy and write where that is more.
	Total time.Duration `yaml:"total"`
}

// RPCUpstream is one node, or a service in front of many.
type RPCUpstream struct {
	Name string `yaml:"name"` // for logs and metrics
	// URL is a secret, since most services have their key in its path or query.
	URL     Secret            `yaml:"url"`
	Headers map[string]Secret `yaml:"headers"`
	CAFile  string            `yaml:"ca_file"`
	Weight  int               `yaml:"weight"` // share of the requests; default 1, 1 to 1000
	// Without are methods that this node does not serve: names, or a namespace
	// as in debug_*.
	Without []string `yaml:"without"`
	// Batch is auto (default: as a batch until the node refuses one), forward
	// (always as a batch) or split (always one by one).
	Batch       string `yaml:"batch"`
	MaxBatch    int    `yaml:"max_batch"`    // calls in a batch; default 100
	MaxParallel int    `yaml:"max_parallel"` // of one batch that is split; default 16

	MaxConnections int           `yaml:"max_connections"` // default 1024
	MaxIdle        time.Duration `yaml:"max_idle"`        // default 4s
	Breaker        Breaker       `yaml:"breaker"`
}

// knownNetworks are the networks of the specification with their base credits
// (crypto.yaml, networks).
var knownNetworks = func() map[string]RPCNetwork {
	m := map[string]RPCNetwork{}
	for family, list := range map[string]string{
		"evm 20": "arbitrum-mainnet arbitrum-sepolia avalanche-fuji avalanche-mainnet base-mainnet base-sepolia blast-mainnet " +
			"blast-sepolia bsc-mainnet bsc-testnet ethereum-holesky ethereum-mainnet ethereum-sepolia linea-mainnet linea-sepolia " +
			"optimism-mainnet optimism-sepolia polygon-amoy polygon-mainnet robinhood-mainnet robinhood-testnet",
		"evm 30":      "zksync-mainnet zksync-sepolia",
		"solana 30":   "solana-devnet solana-mainnet",
		"starknet 20": "starknet-mainnet starknet-sepolia",
	} {
		n := RPCNetwork{}
		if _, err := fmt.Sscan(family, &n.Family, &n.Credits); err != nil {
			panic("config: knownNetworks: " + err.Error())
		}
		for _, n.Name = range strings.Fields(list) {
			m[n.Name] = n
		}
	}
	return m
}()

// rpcTotal is how long a request may take in all (addendum 13, Upstream).
const rpcTotal = 30 * time.Second

// unwritten credits take the network's own.
const unwritten = -1

// completeRPC fills in what is known of the networks.
func (c *Config) completeRPC() {
	for i := range c.RPC.Networks {
		n := &c.RPC.Networks[i]
		if t := &n.Timeouts; t.Total == 0 {
			t.Total = min(max(rpcTotal, t.Read, t.Heavy, t.Write), time.Hour)
		}
		if known, ok := knownNetworks[n.Name]; ok {
			if n.Family == "" {
				n.Family = known.Family
			}
			if n.Credits == unwritten {
				n.Credits = known.Credits
			}
		}
	}
}
