package rpc

import (
	"fmt"
	"hash/maphash"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/dgraph-io/ristretto/v2"

	"farebox/config"
)

// cache keeps answers to single calls that cannot change any more (cache_rule.go,
// final.go), byte for byte but for the id. It belongs to one configuration of a network:
// other nodes begin with an empty one. Batches neither read nor fill it.
type cache struct {
	config config.RPCCache
	seed   maphash.Seed
	m      *ristretto.Cache[uint64, *cachedAnswer]
	finals *finals
	hits   atomic.Int64
	// compares says that constants, too, are only taken from nodes that agree on
	// the chain's blocks: one of them may be on another chain.
	compares bool

	mu     sync.RWMutex // m must not be used while and after it is closed
	closed bool
}

// cachedAnswer is an answer. It does not change.
type cachedAnswer struct {
	key        []byte // compared, so that equal hashes are not confused
	body       []byte // the answer's object
	idFrom, to int64  // of the id in it; to is 0 without one
	block      int64  // final block that it depends on; 0: it does not
	generation int64
	untilNs    int64
}

const (
	// keptOverhead is the memory that an answer takes beside its bytes.
	keptOverhead = 200
	// keptTypical is the typical size of an answer, for the number of counters.
	keptTypical = 512
)

func newCache(n *Network) (*cache, error) {
	c := n.Config.Cache
	m, err := ristretto.NewCache(&ristretto.Config[uint64, *cachedAnswer]{
		NumCounters: min(max(10*int64(c.Size)/keptTypical, 1000), 10_000_000), MaxCost: int64(c.Size), BufferItems: 64,
		IgnoreInternalCost: true,
	})
	if err != nil {
		return nil, fmt.Errorf("cannot make the cache of network %s: %w", n.Name, err)
	}
	return &cache{config: c, seed: maphash.MakeSeed(), m: m, finals: newFinals(n), compares: n.Family.Name == "evm" &&
		len(n.Nodes) > 1}, nil
}

// lookup is one call on its way through the cache.
type lookup struct {
	rule       *cacheRule // nil: its answer is not cached
	key        []byte     // pooled
	hash       uint64
	asked      int64 // block
	generation int64 // at the time of the call
	top        int64 // final block then: a stored answer was final before its call
}

// find gives the answer to call 0, if it is cached, under the client's id. It fills lookup
// for store.
func (c *cache) find(j *Job, nowNs int64, read bool) []byte {
	l, m := &j.lookup, j.Calls[0].Method
	l.rule = nil
	params := j.Params(0)
	if m.keep.class == keepNever || len(m.Name)+len(params) >= int(c.config.MaxItem) {
		return nil
	}
	asked, ok := m.keep.blockAsked(params)
	if !ok {
		return nil
	}
	if m.keep.class != keepConst || c.compares {
		c.finals.touch(j.from.Proxy, nowNs)
	}
	l.rule, l.asked, l.generation = &m.keep, asked, c.finals.generation.Load()
	l.top = c.finals.top(nowNs)
	l.key = append(append(append(l.key[:0], m.Name...), 0), params...)
	l.hash = maphash.Bytes(c.seed, l.key)
	if !read {
		return nil
	}
	k := c.get(l.hash)
	if k == nil || k.generation != l.generation || nowNs >= k.untilNs || string(k.key) != string(l.key) {
		return nil
	}
	if m.keep.class != keepConst && k.block > l.top {
		return nil
	}
	c.hits.Add(1)
	a := Answer{To: int64(len(k.body)), IDFrom: k.idFrom, IDTo: k.to}
	j.out = appendAnswer(j.out[:0], k.body, &a, j.ID(0))
	return j.out
}

// store keeps the answer that a node gave to call 0, if it cannot change any more.
func (c *cache) store(j *Job, a *attempt, nowNs int64) {
	l := &j.lookup
	if l.rule == nil || a.large || j.Verdicts[0] != Succeeded || a.node == nil {
		return
	}
	answer := &a.judge.Answers[0]
	size := len(l.key) + int(answer.To-answer.From)
	if size > int(c.config.MaxItem) {
		return
	}
	block, ok := l.rule.blockOf(l.asked, a.result())
	if !ok {
		return
	}
	if l.rule.class == keepConst {
		block = 0
		if c.compares && (l.top == 0 || !c.finals.agreed(a.node, nowNs)) {
			return
		}
	} else if block > min(l.top, c.finals.top(nowNs)) || !c.finals.agreed(a.node, nowNs) {
		return
	}
	bytes := append(append(make([]byte, 0, size), l.key...), a.buf[answer.From:answer.To]...)
	k := &cachedAnswer{
		key: bytes[:len(l.key):len(l.key)], body: bytes[len(l.key):], block: block, generation: l.generation,
		untilNs: nowNs + int64(c.config.MaxAge),
	}
	if answer.IDTo != 0 {
		k.idFrom, k.to = answer.IDFrom-answer.From, answer.IDTo-answer.From
	}
	c.set(l.hash, k, int64(size+keptOverhead))
}

func (c *cache) get(hash uint64) *cachedAnswer {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.closed {
		return nil
	}
	k, _ := c.m.Get(hash)
	return k
}

func (c *cache) set(hash uint64, k *cachedAnswer, cost int64) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if !c.closed {
		c.m.SetWithTTL(hash, k, cost, c.config.MaxAge)
	}
}

// free frees the memory; later answers are not stored.
func (c *cache) free() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.m.Close()
	c.closed = true
}

// sameCache is the cache of the earlier network, nil if its nodes or their settings
// changed: the answers may be wrong then.
func (n *Network) sameCache(now *Network) *cache {
	if n == nil || n.cache == nil || n.Family != now.Family || n.cache.config != now.Config.Cache ||
		!slices.EqualFunc(n.Nodes, now.Nodes, func(a, b *Node) bool {
			return a.Proxy == b.Proxy && a.Name == b.Name && string(a.path) == string(b.path)
		}) {
		return nil
	}
	return n.cache
}
