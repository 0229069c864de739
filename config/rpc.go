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
	// USD per 1,000,000 credits, or free.
	CreditPrice Pico `yaml:"credit_price" default:"0.70"`
	// Credits of a call that a node answered with an error.
	ErrorCredits int64 `yaml:"error_credits" default:"5" range:"0..1000000"`
	// Limit of an account over all networks. A batch counts as one request. rpm: 0 for no limit.
	Rate Rate `yaml:"rate" default:"rpm: 100"`
	// Credits of an account in 24 hours, for all nodes of a shared store together; beyond it 429. 0: any number.
	DailyCredits int64 `yaml:"daily_credits" default:"0" range:"0..1000000000000"`
	// Requests of an account at the same time on a node; 0: any number.
	MaxInFlight int `yaml:"max_in_flight" default:"0" range:"0..1000000"`
	// How long requests beyond max_in_flight wait before they get 429.
	TurnWait time.Duration `yaml:"turn_wait" default:"500ms" range:"0s..1m"`
	// Body of a request. server.max_body limits it, too.
	MaxBody Size `yaml:"max_body" default:"10MB" range:"1KB..512MB"`
	// Answer of a batch that is held in memory. More goes to a file beside the store.
	BatchMemory Size `yaml:"batch_memory" default:"32MB" range:"64KB..1GB"`
	// Whole answer of a batch.
	BatchAnswer Size `yaml:"batch_answer" default:"1GB" range:"1MB..64GB"`
	// How long an account reads from the node that took its last transaction, so that it sees it; 0s: off.
	Pin time.Duration `yaml:"pin" default:"30s" range:"0s..1h"`
	// The chains and the nodes that serve them.
	Networks []RPCNetwork `yaml:"networks" most:"1000 networks"`
}

// RPCNetwork is one chain and the nodes that serve it.
type RPCNetwork struct {
	// Name in the path of requests: lower-case words and digits joined by -. Required.
	Name string `yaml:"name"`
	// Which methods there are: evm, solana or starknet. Default: known for the networks of the specification.
	Family string `yaml:"family" oneof:"|evm solana starknet"`
	// Base price of a call, times 1, 2 or 4 by method: 1 to 1000000. Default: known for the networks of the
	// specification.
	Credits int64 `yaml:"credits"`
	// Chain of the nodes, in decimal or 0x; on Solana the answer of getGenesisHash. A node with another one gets no
	// requests. Default: that of most nodes.
	ChainID ChainID `yaml:"chain_id"`
	// Not sold, only asked for the outcome of payments (x402).
	Private bool `yaml:"private"`
	// Blocks that a node may be behind the others; 0: any number.
	MaxLag int64 `yaml:"max_lag" default:"5" range:"0..1000000"`
	// How often nodes are asked for their head while there is traffic; 0s: never.
	HeadEvery time.Duration `yaml:"head_every" default:"2s" range:"100ms..1h|0"`
	// A node that is much slower than another, or fails more, loses turns to it. With false only weights count.
	PreferFast bool `yaml:"prefer_fast" default:"true"`
	// Send a read to a second node when the first takes longer; 0s: never.
	HedgeAfter time.Duration `yaml:"hedge_after" default:"0s" range:"1ms..1m|0"`
	// How long a node may take.
	Timeouts RPCTimeouts `yaml:"timeouts"`
	// Answers that cannot change any more: of finalized blocks, and constants. Only single calls are kept.
	Cache RPCCache `yaml:"cache"`
	// The nodes, or services in front of many.
	Upstreams []RPCUpstream `yaml:"upstreams" most:"64 upstreams"`
}

func (n *RPCNetwork) defaults() { n.Credits = unwritten }

// RPCCache keeps answers to single calls that cannot change any more: those about
// blocks that all nodes report as finalized, and constants of the chain. The price is
// the usual one.
type RPCCache struct {
	// Memory of all answers, such as 256MB; 0: off.
	Size Size `yaml:"size" default:"0" range:"1MB..64GB|0"`
	// Largest answer that is kept, with its params.
	MaxItem Size `yaml:"max_item" default:"64KB" range:"1KB..64KB"`
	// How long an answer is kept.
	MaxAge time.Duration `yaml:"max_age" default:"1h" range:"1s..24h"`
	// How often nodes are asked for their finalized block while there is traffic.
	FinalEvery time.Duration `yaml:"final_every" default:"10s" range:"100ms..1h"`
}

// RPCTimeouts limit how long a node may take, by the kind of call.
type RPCTimeouts struct {
	// Until the answer to a read begins.
	Read time.Duration `yaml:"read" default:"10s" range:"1ms..1h"`
	// Until the answer to a call for logs or traces begins.
	Heavy time.Duration `yaml:"heavy" default:"30s" range:"1ms..1h"`
	// Until the answer to a transaction begins.
	Write time.Duration `yaml:"write" default:"15s" range:"1ms..1h"`
	// Between two pieces of an answer.
	Idle time.Duration `yaml:"idle" default:"30s" range:"1ms..1h"`
	// Of a request: all nodes that are asked and the answer, until a large one goes out. Default: 30s, or the longest
	// of read, heavy and write.
	Total time.Duration `yaml:"total" range:"1ms..1h"`
}

// RPCUpstream is one node, or a service in front of many.
type RPCUpstream struct {
	// Name for logs and metrics: 1 to 64 letters, digits, . _ or -. Required.
	Name string `yaml:"name"`
	// http://, https:// or unix:/path. It is a secret, since keys are part of paths and queries. Required.
	URL Secret `yaml:"url"`
	// Fixed request headers, such as Authorization. Their values are secrets.
	Headers map[string]Secret `yaml:"headers" most:"32 headers"`
	// PEM file of the only certificates to trust. Default: those of the system.
	CAFile string `yaml:"ca_file"`
	// Share of the requests.
	Weight int `yaml:"weight" default:"1" range:"1..1000"`
	// Methods that the node does not serve: names, or a namespace such as debug_*. Default: none.
	Without []string `yaml:"without" most:"1000 methods"`
	// auto: send batches until the node refuses one; forward: always; split: one call at a time.
	Batch string `yaml:"batch" default:"auto" oneof:"auto forward split"`
	// Calls in a batch.
	MaxBatch int `yaml:"max_batch" default:"100" range:"1..100"`
	// Calls at a time of a batch that is split.
	MaxParallel int `yaml:"max_parallel" default:"16" range:"1..100"`

	// Connections at the same time.
	MaxConnections int `yaml:"max_connections" default:"1024" range:"1..1000000"`
	// How long an unused connection is kept.
	MaxIdle time.Duration `yaml:"max_idle" default:"4s" range:"1ms..1h"`
	// When the node rests after failures.
	Breaker Breaker `yaml:"breaker"`
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

// completeRPC sets the known values of the networks.
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
	maxCredits      = 1_000_000
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
	} else if r.CreditPrice > 0 && r.CreditPrice < leastPrice {
		v.wrong("rpc.credit_price", "%s USD per 1,000,000 credits looks like the price of one credit; expected %s, or "+
			"credit_price: free", r.CreditPrice.PerMillion(), (r.CreditPrice * 1_000_000).PerMillion())
	} else if r.CreditPrice > dearPrice {
		v.doubt("rpc.credit_price", "%s USD per 1,000,000 credits is more than any node costs; expected less", r.CreditPrice.PerMillion())
	}
	if r.CreditPrice == 0 && !v.bad["rpc.credit_price"] && v.at["rpc.credit_price"].node.text != freeRate {
		v.wrong("rpc.credit_price",
			"all blockchain calls would be free; expected their price, or credit_price: free if that is meant")
	}
	v.burst("rpc.rate", r.Rate)
	if v.ruledOut["rpc.networks"] {
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
	}
	if n.Credits == unwritten {
		v.wrong(path+".credits", "the base price of %s is not known; expected credits a call, such as 20",
			quote(n.Name))
	} else {
		whole(v, path+".credits", n.Credits, 1, maxCredits)
	}
	v.chainID(path+".chain_id", n)
	if len(n.Upstreams) == 0 {
		v.wrong(path+".upstreams", "the network has no upstream; expected name and url of each node")
	}
	if v.ruledOut[path+".upstreams"] {
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
	if v.ruledOut[path+".without"] {
		return
	}
	for i, m := range u.Without {
		at := fmt.Sprintf("%s.without[%d]", path, i)
		if !methodPattern.MatchString(m) {
			v.wrong(at, "%s is not a method; expected a name such as eth_getLogs, or a namespace such as debug_*",
				v.shown(at))
		} else if slices.Contains(u.Without[:i], m) {
			v.wrong(at, "%s is listed already; expected every method once", quote(m))
		}
	}
}

// nodeURL never shows the written address: it may hold the key.
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
		v.wrong(path, "the URL has credentials before the host; expected them in headers: as Authorization")
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
