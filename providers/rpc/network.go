package rpc

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"maps"
	"net/url"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"farebox/config"
	"farebox/providers/health"
	"farebox/proxy"
)

// Network is one chain with the nodes that serve it. Immutable but for the notes about the
// nodes.
type Network struct {
	Name   string
	Family *Family
	Base   int64 // credits of a standard call
	Config *config.RPCNetwork
	Nodes  []*Node

	pinFor      time.Duration
	batchMemory int   // bytes of a batch's answer
	batchMost   int64 // of all of it
	room        *room
	pins        *pins
	heads       *heads
	chains      *chains // nil: there is nothing to compare
	cache       *cache  // nil: off
}

// Node is one upstream of a network.
type Node struct {
	Name   string
	Config *config.RPCUpstream
	Proxy  *proxy.Endpoint
	of     *Network

	Breaker *health.Breaker
	pace    *health.Pace
	path    []byte // of the URL, with its query
	denied  []bool // by method
	*notes

	options proxy.EndpointOptions
	ca      [sha256.Size]byte
}

// notes are the learned facts about a node. They outlive a change of the config that leaves
// the node as it is.
type notes struct {
	lacks   []learnedRefusal // by method: the node does not serve it
	single  learnedRefusal   // it takes no batches
	head    atomic.Int64     // number of its newest block; 0: not known
	headNs  atomic.Int64     // when that was
	busy    atomic.Int64     // answers that hid a refusal
	answers atomic.Int64
	chain   atomic.Pointer[config.ChainID] // which it is on; nil: not known
	unsure  atomic.Bool                    // it is to be asked again for it
	odd     atomic.Bool                    // it is on another one than its network: it gets no requests
}

// Networks are all networks of a config.
type Networks struct {
	Sorted []*Network
	byName map[string]*Network
	room   *room
}

// NewNetworks builds the networks of a checked config. Connections, healths and notes are
// taken over from prev (nil if absent) where a node's settings did not change.
func NewNetworks(cfg *config.Config, prev *Networks) (*Networks, error) {
	all := &Networks{byName: map[string]*Network{}, room: newRoom(int64(cfg.RPC.BatchMemory),
		int64(cfg.RPC.BatchAnswer), spoolDir(cfg))}
	if prev != nil {
		all.room.failures = prev.room.failures
	}
	for i := range cfg.RPC.Networks {
		c := &cfg.RPC.Networks[i]
		n := &Network{Name: c.Name, Family: FamilyOf(c.Family), Base: c.Credits, Config: c, pinFor: cfg.RPC.Pin,
			batchMemory: int(cfg.RPC.BatchMemory), batchMost: int64(cfg.RPC.BatchAnswer), room: all.room}
		if n.Family == nil {
			all.Close(prev)
			return nil, fmt.Errorf("cannot serve network %s: there is no family %q", c.Name, c.Family)
		}
		old := prev.Find(c.Name)
		if old != nil {
			n.pins = old.pins
		} else {
			n.pins = newPins()
		}
		for j := range c.Upstreams {
			u, err := newNode(n, &c.Upstreams[j], old)
			if err != nil {
				all.Close(prev)
				return nil, err
			}
			n.Nodes = append(n.Nodes, u)
		}
		n.heads = newHeads(n)
		n.chains = newChains(n, old)
		if n.Config.Cache.Size > 0 {
			if n.cache = old.sameCache(n); n.cache == nil {
				var err error
				if n.cache, err = newCache(n); err != nil {
					all.Close(prev)
					return nil, err
				}
			}
		}
		all.Sorted = append(all.Sorted, n)
		all.byName[n.Name] = n
	}
	slices.SortFunc(all.Sorted, func(a, b *Network) int { return cmp.Compare(a.Name, b.Name) })
	return all, nil
}

// Find is the network of that name, nil if absent.
func (n *Networks) Find(name string) *Network {
	if n == nil {
		return nil
	}
	return n.byName[name]
}

// WatchSpool calls f with the error when a large answer of a batch cannot be held, at most
// every few seconds. Call it before the first request. f must not block.
func (n *Networks) WatchSpool(f func(error)) { n.room.tell = f }

// WatchChains calls f for nodes that are on another chain than their network. Call it
// before the first request. f must not block.
func (ne *Networks) WatchChains(f func(ChainChange)) {
	for _, n := range ne.Sorted {
		if n.chains != nil {
			n.chains.tell = f
		}
	}
}

// CheckChains asks nodes in the background on which chain they are.
func (ne *Networks) CheckChains(p *proxy.Proxy) {
	for _, n := range ne.Sorted {
		n.chains.touch(p, time.Now().UnixNano())
	}
}

// Watch calls f for every change of a node's health from here on, in place of an earlier f.
// f must not block.
func (ne *Networks) Watch(f func(network, node string, change health.Change)) {
	for _, n := range ne.Sorted {
		for _, u := range n.Nodes {
			u.Breaker.Watch(func(change health.Change) {
				if change.To == health.Closed {
					n.chains.returned(u)
				}
				f(n.Name, u.Name, change)
			})
		}
	}
}

// Close closes the connections of nodes, and the caches, that next (may be nil) does not
// use any more.
func (ne *Networks) Close(next *Networks) {
	kept, caches := map[*proxy.Endpoint]bool{}, map[*cache]bool{}
	if next != nil {
		for _, n := range next.byName {
			caches[n.cache] = true
			for _, u := range n.Nodes {
				kept[u.Proxy] = true
			}
		}
	}
	for _, n := range ne.byName {
		if n.cache != nil && !caches[n.cache] {
			n.cache.free()
		}
		for _, u := range n.Nodes {
			if !kept[u.Proxy] {
				u.Proxy.Close()
			}
		}
	}
}

func newNode(n *Network, c *config.RPCUpstream, old *Network) (*Node, error) {
	u := &Node{Name: c.Name, Config: c, of: n, pace: &health.Pace{}}
	base, path, err := splitURL(c.URL.Reveal())
	if err != nil {
		return nil, fmt.Errorf("cannot use the url of upstream %s of network %s: %w", c.Name, n.Name, err)
	}
	u.path = []byte(path)
	t := n.Config.Timeouts
	u.options = proxy.EndpointOptions{
		Name: n.Name + "/" + c.Name, BaseURL: base, CAFile: c.CAFile, FirstByte: t.Read, Idle: t.Idle,
		MaxConns: c.MaxConnections, MaxIdle: c.MaxIdle, RetrySafe: true,
	}
	for _, name := range slices.Sorted(maps.Keys(c.Headers)) {
		u.options.Headers = append(u.options.Headers, [2]string{name, c.Headers[name].Reveal()})
	}
	if c.CAFile != "" {
		pem, err := os.ReadFile(c.CAFile)
		if err != nil {
			return nil, fmt.Errorf("cannot read the ca_file of upstream %s of network %s: %w", c.Name, n.Name, err)
		}
		u.ca = sha256.Sum256(pem)
	}
	u.denied = make([]bool, len(n.Family.Methods))
	for _, pattern := range c.Without {
		for _, m := range n.Family.Match(pattern) {
			u.denied[m.Index] = true
		}
	}
	u.Breaker = health.NewBreaker(c.Breaker.Failures, c.Breaker.OpenFor)
	if was := old.node(c.Name); was != nil && old.Family == n.Family && was.ca == u.ca &&
		reflect.DeepEqual(was.options, u.options) {
		u.Proxy, u.pace, u.notes = was.Proxy, was.pace, was.notes
		if was.Breaker.Like(c.Breaker.Failures, c.Breaker.OpenFor) {
			u.Breaker = was.Breaker
		}
		return u, nil
	}
	u.notes = &notes{lacks: make([]learnedRefusal, len(n.Family.Methods))}
	u.Proxy, err = proxy.NewEndpoint(u.options)
	return u, err
}

func (n *Network) node(name string) *Node {
	if n == nil {
		return nil
	}
	for _, u := range n.Nodes {
		if u.Name == name {
			return u
		}
	}
	return nil
}

// splitURL separates the server from the path and query, in which services have their keys.
func splitURL(text string) (base, path string, err error) {
	if strings.HasPrefix(text, "unix:") {
		return text, "/", nil
	}
	u, err := url.Parse(text)
	if err != nil {
		return "", "", fmt.Errorf("it is not a URL") // whose text may be a secret
	}
	if path = u.EscapedPath(); path == "" {
		path = "/"
	}
	if u.RawQuery != "" {
		path += "?" + u.RawQuery
	}
	return u.Scheme + "://" + u.Host, path, nil
}

// serves says whether a node may be asked for a method by an account.
func (n *Node) serves(m *Method, account uint64, nowNs int64) bool {
	return !n.denied[m.Index] && !n.lacks[m.Index].holds(account, nowNs)
}

// servesAll is serves for every call of a request.
func (n *Node) servesAll(r *Request, account uint64, nowNs int64) bool {
	for i := range r.Calls {
		if !n.serves(r.Calls[i].Method, account, nowNs) {
			return false
		}
	}
	return true
}

// batches says whether a node is given so many calls of an account at once.
func (n *Node) batches(calls int, account uint64, nowNs int64) bool {
	if n.Config.Batch == "split" || n.Config.Batch == "auto" && n.single.holds(account, nowNs) {
		return false
	}
	return calls <= n.Config.MaxBatch
}

// limit is how long a request may take in all, retries and answers included.
func (n *Network) limit() time.Duration { return n.Config.Timeouts.Total }

// timeout is how long a node may take to begin its answer.
func (n *Network) timeout(c Class) time.Duration {
	switch c {
	case Heavy:
		return n.Config.Timeouts.Heavy
	case Write:
		return n.Config.Timeouts.Write
	}
	return n.Config.Timeouts.Read
}
