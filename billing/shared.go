package billing

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"farebox/billing/window"
	"farebox/config"
)

// sharedLimits makes the throughput limits hold over all nodes, through Redis.
//
// Every request that has limits passes three places: the node's own windows
// (admit.go), which refuse without a call what this node alone has used up;
// these here; and then the money. Large limits are leased in slices of 100 ms
// and spent in memory, small ones cost one call a request, in which all limits
// of the request are checked and taken together. Without Redis a request never
// fails for that reason: the policy `away` decides, see part.
type sharedLimits struct {
	ledger  *Ledger
	client  *limitsClient
	code    *limitsCode
	breaker breaker
	away    string
	prefix  string
	nodes   atomic.Int64
	lostNs  atomic.Int64 // when the breaker opened, in the ledger's clock
	skewNs  atomic.Int64 // of this machine's clock to Redis's, as last seen
	skews   skewLog
	// lossLogged makes one line of the many buckets that a server loses at once.
	lossLogged atomic.Int64

	buckets []bucket
	shards  [windowShards]windowShard

	flush struct {
		sync.Mutex
		list []*sharedWindow // that owe something, or have leased permits
	}

	stats sharedCounters

	stop chan struct{}
	work sync.WaitGroup
}

type windowShard struct {
	mu sync.RWMutex
	m  map[windowID]*sharedWindow
}

type sharedCounters struct {
	calls, errors, refused, leases, alone, away atomic.Int64
}

// SharedStats are figures of the limits that nodes share.
type SharedStats struct {
	Calls    int64 // to Redis
	Errors   int64 // calls without an answer
	Refused  int64 // requests
	Leases   int64 // calls that took more than one permit
	Alone    int64 // requests that were decided without Redis because it was away
	Away     int64 // how often it was lost
	Degraded bool
}

// The policies of config.Redis.Away.
const (
	awayShare  = "local_share"
	awayOpen   = "open"
	awayClosed = "closed"
)

const (
	windowShards = 64
	// clusterBuckets spread the windows over a cluster's slots. A bucket's
	// windows and its epoch lie in one slot, so that one call reads them all.
	clusterBuckets = 256
	// lossSettles is how long after a loss of Redis's data a node also keeps to
	// its part: until then all nodes have noticed and restored what they know.
	lossSettles = int64(5 * time.Second)
	// leaseWaits is how often a request waits for a lease before it asks for
	// itself.
	leaseWaits = 3
	greetings  = 3 // further tries to reach Redis at the start
)

// newSharedLimits connects. A Redis that is not there is no reason not to
// start: it is away until it is there.
func newSharedLimits(l *Ledger, o *Options) (*sharedLimits, error) {
	c := &o.Redis
	client, err := newLimitsClient(c)
	if err != nil {
		return nil, fmt.Errorf("cannot use the Redis of the config: %w", err)
	}
	// All nodes of a store have its pepper, and no other store has.
	name := l.hasher.digest([]byte("limits"))
	s := &sharedLimits{
		ledger: l, client: client, code: productionCode, away: c.Away,
		prefix: fmt.Sprintf("%s:limits:%x:", o.Brand, name[:6]), stop: make(chan struct{}),
	}
	s.nodes.Store(1)
	s.breaker.slowAfter = c.Timeout * slowShareNum / slowShareDen
	s.breaker.opened = s.lost
	buckets := 1
	if c.Cluster {
		buckets = clusterBuckets
	}
	s.buckets = make([]bucket, buckets)
	if o.limits != nil {
		o.limits(s)
	}
	for i := range s.buckets {
		s.buckets[i].epochKey = fmt.Sprintf("%s{%d}:epoch", s.prefix, i)
	}
	for i := range s.shards {
		s.shards[i].m = map[windowID]*sharedWindow{}
	}
	for try := 0; ; try++ {
		// The first connection may take longer than a request would wait.
		if err = s.greet(); err == nil || try == greetings {
			break
		}
	}
	if err == nil && o.mono != nil {
		if err := farApart("Redis", time.Duration(s.skewNs.Load())); err != nil {
			_ = client.close() // nothing is lost with it
			return nil, fmt.Errorf("cannot use the Redis of the config: %w", err)
		}
	}
	if err != nil {
		s.breaker.trip(err)
	}
	s.work.Add(1)
	go s.run()
	return s, nil
}

// SetNodes says how many nodes live: what each may let through alone while
// Redis is away is the limit divided by it.
func (l *Ledger) SetNodes(n int) {
	if l.shared != nil {
		l.shared.nodes.Store(int64(max(1, n)))
	}
}

// Degraded says whether limits are not shared at the moment although the
// config asks for it.
func (l *Ledger) Degraded() bool { return l.shared != nil && l.shared.breaker.open.Load() }

// SharedStats reads the figures; all are 0 without Redis.
func (l *Ledger) SharedStats() SharedStats {
	if l.shared == nil {
		return SharedStats{}
	}
	c := &l.shared.stats
	return SharedStats{
		Calls: c.calls.Load(), Errors: c.errors.Load(), Refused: c.refused.Load(), Leases: c.leases.Load(),
		Alone: c.alone.Load(), Away: c.away.Load(), Degraded: l.Degraded(),
	}
}

// quota narrows q to what all nodes together have left.
func (s *sharedLimits) quota(k *Key, slot int, model, key *config.Rate, now int64, q *window.Quota) {
	narrow := func(id windowID, r *config.Rate) {
		w := s.find(id)
		if r == nil || w == nil {
			return
		}
		w.mu.Lock()
		if w.seenU != 0 {
			day := w.day(now)
			all := w.state(r, now, day)
			all.Quota(r, now, day, q)
		}
		w.mu.Unlock()
	}
	narrow(windowID{account: k.Account.no, slot: int32(slot)}, model)
	narrow(windowID{account: k.Account.no, slot: -1, key: k.No}, key)
}

func (s *sharedLimits) find(id windowID) *sharedWindow {
	shard := &s.shards[id.account%windowShards]
	shard.mu.RLock()
	defer shard.mu.RUnlock()
	return shard.m[id]
}

// window finds or makes a window. Like the windows of accounts they stay: they
// are small, and what they remember restores a Redis that lost it.
func (s *sharedLimits) window(id windowID) *sharedWindow {
	if w := s.find(id); w != nil {
		return w
	}
	shard := &s.shards[id.account%windowShards]
	shard.mu.Lock()
	defer shard.mu.Unlock()
	if w := shard.m[id]; w != nil {
		return w
	}
	n := int(id.account) % len(s.buckets)
	w := &sharedWindow{id: id, bucket: &s.buckets[n]}
	if id.slot >= 0 {
		w.key = fmt.Sprintf("%s{%d}:a%d:m%d", s.prefix, n, id.account, modelNo(int(id.slot)))
	} else {
		w.key = fmt.Sprintf("%s{%d}:a%d:k%d", s.prefix, n, id.account, id.key)
	}
	shard.m[id] = w
	return w
}
