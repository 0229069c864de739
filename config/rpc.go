package config

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
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

func defaultRPC() RPC {
	return RPC{
		CreditPrice: 700_000, ErrorCredits: 5, Rate: Rate{RPM: 100}, MaxBody: 10 << 20,
		BatchMemory: 32 << 20, BatchAnswer: 1 << 30, Pin: 30 * time.Second, TurnWait: 500 * time.Millisecond,
	}
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
	// Private networks are not sold: they are only asked by the gateway itself, for
	// what became of payments (x402.go).
	Private bool `yaml:"private"`
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

func (n *RPCNetwork) defaults() {
	n.Credits, n.MaxLag, n.HeadEvery = unwritten, 5, 2*time.Second
	n.PreferFast = true
	n.Cache = RPCCache{MaxItem: 64 << 10, MaxAge: time.Hour, FinalEvery: 10 * time.Second}
	n.Timeouts = RPCTimeouts{Read: 10 * time.Second, Heavy: 30 * time.Second, Write: 15 * time.Second,
		Idle: 30 * time.Second}
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

func (u *RPCUpstream) defaults() {
	u.Weight, u.Batch, u.MaxBatch, u.MaxParallel = 1, "auto", 100, 16
	u.MaxConnections, u.MaxIdle = 1024, 4*time.Second
	u.Breaker = Breaker{Failures: 5, OpenFor: 10 * time.Second}
}

// knownNetworks are the networks of the specification with their base credits
// (crypto.yaml, networks).
var knownNetworks = func() map[string]RPCNetwork {
	m := map[string]RPCNetwork{}
	for family, list := range map[string]string{
		"evm 20": "arbitrum-mainnet arbitrum-sepolia avalanche-fuji avalanche-mainnet base-mainnet base-sepolia " +
			"blast-mainnet " +
			"blast-sepolia bsc-mainnet bsc-testnet ethereum-holesky ethereum-mainnet ethereum-sepolia linea-mainnet " +
			"linea-sepolia " +
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

// Sold says that customers may ask some network.
func (r *RPC) Sold() bool {
	return slices.ContainsFunc(r.Networks, func(n RPCNetwork) bool { return !n.Private })
}

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

const (
	maxNetworks     = 1000
	maxNodes        = 64 // of a network
	maxCredits      = 1_000_000
	maxWithout      = 1000
	rpcURLExpected  = "expected http://host[:port]/path, https://host[:port]/path or unix:/path/to.sock"
	networkExpected = "expected lower-case words and digits joined by -, such as ethereum-mainnet"
)

var (
	networkSlug   = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)
	genesisHash   = regexp.MustCompile(`^[1-9A-HJ-NP-Za-km-z]{32,44}$`)
	methodPattern = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.-]{0,63}\*?$`)
)

func (v *validator) rpc() {
	r := &v.c.RPC
	if r.CreditPrice > maxPrice || r.CreditPrice < 0 {
		v.wrong("rpc.credit_price", "%s is out of range; expected 0 to %s USD per 1,000,000 credits",
			v.shown("rpc.credit_price"), maxPrice.PerMillion())
	}
	if r.CreditPrice == 0 && !v.bad["rpc.credit_price"] && v.at["rpc.credit_price"].node.text != freeRate {
		v.wrong("rpc.credit_price",
			"all blockchain calls would be given away; expected their price, or credit_price: free if that is meant")
	}
	whole(v, "rpc.error_credits", r.ErrorCredits, 0, maxCredits)
	v.rate("rpc.rate", r.Rate)
	whole(v, "rpc.daily_credits", r.DailyCredits, 0, 1_000_000_000_000)
	whole(v, "rpc.max_in_flight", int64(r.MaxInFlight), 0, 1_000_000)
	size(v, "rpc.max_body", r.MaxBody, 1<<10, 512<<20)
	size(v, "rpc.batch_memory", r.BatchMemory, 64<<10, 1<<30)
	size(v, "rpc.batch_answer", r.BatchAnswer, 1<<20, 64<<30)
	v.duration("rpc.pin", r.Pin, 0, time.Hour)
	v.duration("rpc.turn_wait", r.TurnWait, 0, time.Minute)
	if n := len(r.Networks); n > maxNetworks {
		v.wrong("rpc.networks", "%d networks are listed; expected at most %d", n, maxNetworks)
		return
	}
	names := map[string]int{}
	for i := range r.Networks {
		n := &r.Networks[i]
		path := fmt.Sprintf("rpc.networks[%d]", i)
		switch first, taken := names[n.Name]; {
		case n.Name == "":
			v.wrong(path+".name", "the network has no name; "+networkExpected)
		case len(n.Name) > 64 || !networkSlug.MatchString(n.Name):
			v.wrong(path+".name", "%s cannot be the name of a network; "+networkExpected, v.shown(path+".name"))
		case taken:
			v.wrong(path+".name", "%s is the name of rpc.networks[%d] too; expected every name once",
				v.shown(path+".name"), first)
		default:
			names[n.Name] = i
		}
		v.network(path, n)
	}
}

func (v *validator) network(path string, n *RPCNetwork) {
	if n.Family == "" {
		v.wrong(path+".family", "the family of %s is not known; expected evm, solana or starknet", quote(n.Name))
	} else {
		v.oneOf(path+".family", n.Family, "evm", "solana", "starknet")
	}
	if n.Credits == unwritten {
		v.wrong(path+".credits", "the base price of %s is not known; expected credits a call, such as 20",
			quote(n.Name))
	} else {
		whole(v, path+".credits", n.Credits, 1, maxCredits)
	}
	v.chainID(path+".chain_id", n)
	whole(v, path+".max_lag", n.MaxLag, 0, 1_000_000)
	if n.HeadEvery != 0 {
		v.duration(path+".head_every", n.HeadEvery, 100*time.Millisecond, time.Hour)
	}
	if n.HedgeAfter != 0 {
		v.duration(path+".hedge_after", n.HedgeAfter, time.Millisecond, time.Minute)
	}
	if n.Cache.Size != 0 {
		size(v, path+".cache.size", n.Cache.Size, 1<<20, 64<<30)
	}
	size(v, path+".cache.max_item", n.Cache.MaxItem, 1<<10, 64<<10)
	v.duration(path+".cache.max_age", n.Cache.MaxAge, time.Second, 24*time.Hour)
	v.duration(path+".cache.final_every", n.Cache.FinalEvery, 100*time.Millisecond, time.Hour)
	t := path + ".timeouts"
	v.duration(t+".read", n.Timeouts.Read, time.Millisecond, time.Hour)
	v.duration(t+".heavy", n.Timeouts.Heavy, time.Millisecond, time.Hour)
	v.duration(t+".write", n.Timeouts.Write, time.Millisecond, time.Hour)
	v.duration(t+".idle", n.Timeouts.Idle, time.Millisecond, time.Hour)
	v.duration(t+".total", n.Timeouts.Total, time.Millisecond, time.Hour)
	switch k := len(n.Upstreams); {
	case k == 0:
		v.wrong(path+".upstreams", "the network has no upstream; expected name and url of each node")
	case k > maxNodes:
		v.wrong(path+".upstreams", "%d upstreams are listed; expected at most %d", k, maxNodes)
		return
	}
	names := map[string]int{}
	for i := range n.Upstreams {
		u := &n.Upstreams[i]
		at := fmt.Sprintf("%s.upstreams[%d]", path, i)
		v.upstreamName(at, u.Name, i, names, "for logs and metrics", "of this network too")
		v.node(at, u)
	}
}

func (v *validator) chainID(path string, n *RPCNetwork) {
	switch {
	case n.ChainID == "":
	case n.Family == "solana":
		if !genesisHash.MatchString(string(n.ChainID)) {
			v.wrong(path, "%s is not the hash of a first block; expected what getGenesisHash answers, 32 to 44 "+
				"characters", v.shown(path))
		}
	case !n.ChainID.Number():
		v.wrong(path, "%s is not the id of a chain; expected a number above 0, in decimal or as 0x and hexadecimal "+
			"digits, such as 1 or 0x1", v.shown(path))
	}
}

func (v *validator) node(path string, u *RPCUpstream) {
	v.nodeURL(path+".url", u.URL.Reveal())
	v.headers(path, u.Headers, "")
	v.authority(path+".ca_file", u.CAFile)
	whole(v, path+".weight", u.Weight, 1, 1000)
	v.oneOf(path+".batch", u.Batch, "auto", "forward", "split")
	whole(v, path+".max_batch", u.MaxBatch, 1, 100)
	whole(v, path+".max_parallel", u.MaxParallel, 1, 100)
	v.connections(path, u.MaxConnections, u.MaxIdle, u.Breaker)
	if n := len(u.Without); n > maxWithout {
		v.wrong(path+".without", "%d methods are listed; expected at most %d", n, maxWithout)
		return
	}
	for i, m := range u.Without {
		at := fmt.Sprintf("%s.without[%d]", path, i)
		if !methodPattern.MatchString(m) {
			v.wrong(at, "%s is no method; expected a name such as eth_getLogs, or a namespace such as debug_*",
				v.shown(at))
		} else if slices.Contains(u.Without[:i], m) {
			v.wrong(at, "%s is listed already; expected every method once", quote(m))
		}
	}
}

// nodeURL never shows what is written: it may hold the key.
func (v *validator) nodeURL(path, text string) {
	if text == "" {
		v.wrong(path, "the upstream has no address; "+rpcURLExpected)
		return
	}
	if file, ok := strings.CutPrefix(text, "unix:"); ok {
		if !strings.HasPrefix(file, "/") || len(file) > 100 {
			v.wrong(path, "the address is not a usable socket path; expected unix: and an absolute path of at most "+
				"100 characters")
		}
		return
	}
	u, err := url.Parse(text)
	switch {
	case err != nil:
		v.wrong(path, "the address is not a URL; "+rpcURLExpected)
	case u.Scheme != "http" && u.Scheme != "https":
		v.wrong(path, "the address does not start with http://, https:// or unix:/; "+rpcURLExpected+
			"; WebSocket addresses are not used")
	case badHost(u):
		v.wrong(path, "the address has no usable host and port; "+rpcURLExpected)
	case u.User != nil:
		v.wrong(path, "credentials stand before the host; expected them in headers: as Authorization")
	case u.Fragment != "":
		v.wrong(path, "the address has a fragment, which is never sent; "+rpcURLExpected)
	}
	for _, c := range []byte(text) {
		if c <= ' ' || c > '~' {
			v.wrong(path, "the address has white space or other characters that no URL has; "+rpcURLExpected)
			return
		}
	}
}
