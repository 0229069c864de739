package rpc

import (
	"sync/atomic"
	"time"

	"github.com/tidwall/gjson"

	"farebox/config"
	"farebox/proxy"
)

const (
	// chainPause is the pause before nodes that did not report their chain, or another one,
	// are asked again.
	chainPause = 30 * time.Second
)

var chainMethods = map[string]string{"evm": "eth_chainId", "solana": "getGenesisHash", "starknet": "starknet_chainId"}

// ChainMethod is the method that reports the chain of a node of a family.
func ChainMethod(family string) string { return chainMethods[family] }

// ChainOf reads the chain that a node names: a text or a number, which nodes write in different
// ways.
func ChainOf(result gjson.Result) (config.ChainID, bool) {
	if result.Type != gjson.String && result.Type != gjson.Number {
		return "", false
	}
	return config.ParseChainID(result.String())
}

// chains compares the chains of a network's nodes with each other and with the configured
// chain, so that a wrong URL does not answer for another chain. Nodes are asked in the
// background: at the start, and once they are back after failures. A node that did not
// answer is trusted.
type chains struct {
	network *Network
	due     atomic.Bool
	asking  atomic.Bool
	askedNs atomic.Int64
	is      atomic.Pointer[config.ChainID] // the network's; nil: not known yet
	tell    func(ChainChange)              // may be nil
}

// ChainChange is a node that is found on another chain than its network, or on
// the right one again.
type ChainChange struct {
	Network, Node   string
	Chain, Expected config.ChainID

	Odd    bool // it gets no requests any more
	Unsure bool // no majority decides which chain is right
}

// newChains is for networks with several nodes, or whose chain is set; nil:
// there is nothing to compare.
func newChains(n, old *Network) *chains {
	if len(n.Nodes) < 2 && n.Config.ChainID == "" || n.Family.Find([]byte(chainMethods[n.Family.Name])) == nil {
		for _, u := range n.Nodes {
			u.odd.Store(false)
		}
		return nil
	}
	c := &chains{network: n}
	c.due.Store(true)
	if old != nil && old.chains != nil && old.Family == n.Family {
		c.is.Store(old.chains.is.Load())
	}
	return c
}

// touch asks the nodes that are to be asked, when it is time. It never waits.
func (c *chains) touch(p *proxy.Proxy, nowNs int64) {
	if c == nil || !c.due.Load() || nowNs-c.askedNs.Load() < int64(chainPause) ||
		!c.asking.CompareAndSwap(false, true) {
		return
	}
	c.askedNs.Store(nowNs)
	c.due.Store(false)
	go func() {
		defer c.asking.Store(false)
		c.poll(p)
	}()
}

// returned marks a node that is back after failures to be asked again: it may be another.
func (c *chains) returned(u *Node) {
	if c == nil {
		return
	}
	u.unsure.Store(true)
	c.askedNs.Store(0)
	c.due.Store(true)
}

func (c *chains) poll(p *proxy.Proxy) {
	c.network.each(func(_ int, u *Node) {
		if u.chain.Load() != nil && !u.odd.Load() && !u.unsure.Swap(false) {
			return
		}
		id, ok := u.askChain(p, c.network.Family)
		if !ok {
			u.unsure.Store(true)
			return
		}
		u.chain.Store(&id)
	})
	c.decide()
	for _, u := range c.network.Nodes {
		if u.chain.Load() == nil || u.odd.Load() || u.unsure.Load() {
			c.due.Store(true)
		}
	}
}

// decide takes the chain of most nodes for the network's, unless the operator set it. In a
// tie, the earlier chain counts, or that of the node that is listed first.
func (c *chains) decide() {
	count, known, best := map[config.ChainID]int{}, 0, config.ChainID("")
	for _, u := range c.network.Nodes {
		if id := u.chain.Load(); id != nil {
			count[*id]++
			known++
		}
	}
	if is := c.is.Load(); is != nil {
		best = *is
	}
	for _, u := range c.network.Nodes {
		if id := u.chain.Load(); id != nil && count[*id] > count[best] {
			best = *id
		}
	}
	if known == 0 {
		return
	}
	set := c.network.Config.ChainID
	if set != "" {
		best = set
	}
	c.is.Store(&best)
	for _, u := range c.network.Nodes {
		id := u.chain.Load()
		if id == nil {
			continue
		}
		odd := *id != best
		if u.odd.Swap(odd) != odd && c.tell != nil {
			c.tell(ChainChange{Network: c.network.Name, Node: u.Name, Chain: *id, Expected: best, Odd: odd,
				Unsure: set == "" && 2*count[best] <= known})
		}
	}
}

// askChain asks one node for its chain.
func (n *Node) askChain(p *proxy.Proxy, f *Family) (config.ChainID, bool) {
	m := f.Find([]byte(chainMethods[f.Name]))
	a := attempts.Get().(*attempt)
	defer a.release()
	q := ownQuestion(m, m.Name, "")
	q.wait, q.within = headWait, headWait
	if r := a.call(&ClientContext{Proxy: p, Alone: true}, n, q); r.kind != answered || a.large || a.judge.Answers[0].Failed() {
		return "", false
	}
	return ChainOf(gjson.ParseBytes(a.result()))
}
