package config

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
)

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
		v.wrong("rpc.credit_price", "%s is out of range; expected 0 to %s USD per 1,000,000 credits", v.shown("rpc.credit_price"), maxPrice.PerMillion())
	}
	if r.CreditPrice == 0 && !v.bad["rpc.credit_price"] && v.at["rpc.credit_price"].node.text != freeRate {
		v.wrong("rpc.credit_price", "all blockchain calls would be given away; expected their price, or credit_price: free if that is meant")
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
			v.wrong(path+".name", "%s is the name of rpc.networks[%d] too; expected every name once", v.shown(path+".name"), first)
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
		v.wrong(path+".credits", "the base price of %s is not known; expected credits a call, such as 20", quote(n.Name))
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
			v.wrong(path, "%s is not the hash of a first block; expected what getGenesisHash answers, 32 to 44 characters", v.shown(path))
		}
	case !n.ChainID.Number():
		v.wrong(path, "%s is not the id of a chain; expected a number above 0, in decimal or as 0x and hexadecimal digits, such as 1 or 0x1", v.shown(path))
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
			v.wrong(at, "%s is no method; expected a name such as eth_getLogs, or a namespace such as debug_*", v.shown(at))
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
			v.wrong(path, "the address is not a usable socket path; expected unix: and an absolute path of at most 100 characters")
		}
		return
	}
	u, err := url.Parse(text)
	switch {
	case err != nil:
		v.wrong(path, "the address is not a URL; "+rpcURLExpected)
	case u.Scheme != "http" && u.Scheme != "https":
		v.wrong(path, "the address does not start with http://, https:// or unix:/; "+rpcURLExpected+"; WebSocket addresses are not used")
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
