package limits

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"farebox/billing/calendar"
	"farebox/billing/window"
	"farebox/config"
	"farebox/config/background"
)

// Limits make the throughput limits hold over all nodes, through Redis.
//
// Every request that has limits passes three places: the node's own windows (in
// the ledger), which refuse requests without a call when this node alone has used up a limit;
// these here; and then the money. Large limits are taken in slices of 100 ms
// and spent in memory, small ones cost one call a request, in which all limits
// of the request are checked and taken together. Without Redis a request never
// fails for that reason: the policy `away` decides, see part.
type Limits struct {
	log     *zerolog.Logger
	clock   func() window.Instant
	skewed  func(time.Duration)
	client  *redisClient
	code    *scriptCode
	breaker breaker
	away    string
	prefix  string
	nodes   atomic.Int64
	lostNs  atomic.Int64 // when the breaker opened, Instant.Mono
	skewNs  atomic.Int64 // of this machine's clock to Redis's, as last seen

	buckets int
	shards  [windowShards]windowShard

	flush struct {
		sync.Mutex
		list []*Window // that owe something, or have permits left of slices
	}

	stats counters

	work background.Work
}

type windowShard struct {
	mu sync.RWMutex
	m  map[windowID]*Window
}

type counters struct {
	calls, errors, refused, slices, alone, away atomic.Int64
}

// Stats are figures of the limits of all nodes together.
type Stats struct {
	Calls    int64 // to Redis
	Errors   int64 // calls without an answer
	Refused  int64 // requests
	Slices   int64 // calls that took more than one permit
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
	// windows lie in one slot, so that one call reads all those of a request.
	clusterBuckets = 256
	// sliceWaits is how often a request waits for a slice before it asks for
	// itself.
	sliceWaits = 3
	greetings  = 3 // further tries to reach Redis at the start
)

// Options are the settings of limits over Redis.
type Options struct {
	Redis  config.Redis
	Prefix string // of all names in Redis: those of one store
	Log    *zerolog.Logger
	Clock  func() window.Instant // of this machine
	// Skewed gets how far that clock is ahead of Redis's, at each
	// comparison; nil: no callback.
	Skewed func(time.Duration)
}

// Open connects. A Redis that is not there is no reason not to start: it is away
// until it is there.
func Open(o *Options) (*Limits, error) {
	c := &o.Redis
	client, err := newRedisClient(c)
	if err != nil {
		return nil, fmt.Errorf("cannot use the Redis of the config: %w", err)
	}
	s := &Limits{
		log: o.Log, clock: o.Clock, skewed: o.Skewed, client: client, code: productionCode, away: c.Away,
		prefix: o.Prefix, buckets: 1,
	}
	s.nodes.Store(1)
	s.breaker.slowAfter = c.Timeout * slowShareNum / slowShareDen
	s.breaker.opened = s.breakerOpened
	if c.Cluster {
		s.buckets = clusterBuckets
	}
	for i := range s.shards {
		s.shards[i].m = map[windowID]*Window{}
	}
	for try := 0; ; try++ {
		// The first connection may take longer than a request would wait.
		if err = s.greet(); err == nil || try == greetings {
			break
		}
	}
	if err != nil {
		s.breaker.trip(err)
	}
	s.work.Go(s.run)
	return s, nil
}

// SetNodes sets the number of live nodes: while Redis is away, each may pass the
// limit divided by this number.
func (s *Limits) SetNodes(n int) { s.nodes.Store(int64(max(1, n))) }

// Skew is how far this machine's clock is ahead of Redis's, as last seen.
func (s *Limits) Skew() time.Duration { return time.Duration(s.skewNs.Load()) }

// Stats reads the figures; all are 0 for nil, which is no Redis.
func (s *Limits) Stats() Stats {
	if s == nil {
		return Stats{}
	}
	c := &s.stats
	return Stats{
		Calls: c.calls.Load(), Errors: c.errors.Load(), Refused: c.refused.Load(), Slices: c.slices.Load(),
		Alone: c.alone.Load(), Away: c.away.Load(), Degraded: s.breaker.open.Load(),
	}
}

// Request is the demand of a request on the windows over all nodes: that of its
// account and model, and that of its key.
type Request struct {
	Account        uint32
	Slot           int // of the model; below 0: none
	Key            int64
	Model, KeyRate *config.Rate // the limits; nil: none
	Requests       int64        // how many it counts as
	Tokens         int64
	Now            window.Instant
}

func (q *Request) model() windowID { return windowID{account: q.Account, slot: int32(q.Slot)} }

func (q *Request) key() windowID { return windowID{account: q.Account, slot: -1, key: q.Key} }

// Quota narrows left to the rest of the limits of q over all nodes.
func (s *Limits) Quota(q *Request, left *window.Quota) {
	now := q.Now
	narrow := func(id windowID, r *config.Rate) {
		w := s.find(id)
		if r == nil || w == nil {
			return
		}
		w.mu.Lock()
		if w.seenU != 0 {
			day := w.day(now)
			all := w.state(r, now.Mono, day)
			all.Quota(r, now, day, left)
		}
		w.mu.Unlock()
	}
	narrow(q.model(), q.Model)
	narrow(q.key(), q.KeyRate)
}

func (s *Limits) find(id windowID) *Window {
	shard := &s.shards[id.account%windowShards]
	shard.mu.RLock()
	defer shard.mu.RUnlock()
	return shard.m[id]
}

// window finds or makes a window. Like the windows of accounts they stay: they
// are small.
func (s *Limits) window(id windowID) *Window {
	if w := s.find(id); w != nil {
		return w
	}
	shard := &s.shards[id.account%windowShards]
	shard.mu.Lock()
	defer shard.mu.Unlock()
	if w := shard.m[id]; w != nil {
		return w
	}
	n := int(id.account) % s.buckets
	w := &Window{id: id}
	if id.slot >= 0 {
		w.key = fmt.Sprintf("%s{%d}:a%d:m%d", s.prefix, n, id.account, id.slot+1)
	} else {
		w.key = fmt.Sprintf("%s{%d}:a%d:k%d", s.prefix, n, id.account, id.key)
	}
	shard.m[id] = w
	return w
}

// Key gives the window of a key over all nodes: Redis's present state, with the use that
// this node has yet to tell it, in Instant.Mono. ok is false when nothing of it is known here,
// because Redis is away; then only the node's own window is left.
func (s *Limits) Key(q *Request) (state window.Window, ok bool) {
	w, r, now := s.window(q.key()), q.KeyRate, q.Now
	if !s.breaker.open.Load() {
		reads := askFor(r, 0, 0, 0)
		var a answer
		if err := s.send([]any{w.key}, reads.append(nil), &a); err == nil {
			w.mu.Lock()
			w.saw(&a, 0, now.Mono)
			w.mu.Unlock()
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.seenU == 0 {
		return state, false
	}
	return w.state(r, now.Mono, calendar.DayOf(now.Wall)), true
}
