package billing

import (
	"context"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"github.com/rs/zerolog"

	"farebox/config"
)

// keyedRedis keeps keyed requests in Redis, for all nodes of a store together.
// Time is Redis's own: how old a record is follows from what is left of its
// life.
//
// While Redis does not answer no keyed request is begun, so that none is
// carried out twice. One that was under way then is answered but not charged;
// its end is sent until Redis takes it, and meanwhile nobody else may lead it:
// other nodes wait for the leader's patience, and after Redis was away for
// keyedGrace more.
type keyedRedis struct {
	client   redis.UniversalClient
	prefix   string
	windowMs int64
	node     uint32
	boot     uint64
	log      zerolog.Logger

	mu     sync.Mutex
	away   bool
	backAt time.Time // when it answered again
	late   []keyedEnd
	bytes  int // of the records in late
	wake   chan struct{}

	stop    chan struct{}
	stopped sync.WaitGroup
}

// keyedEnd is the end of a request that Redis has not taken yet.
type keyedEnd struct {
	p, done *keyedRecord
	ended   func()
}

const (
	keyedRedisPool  = 32
	keyedRedisCall  = 2 * time.Second // an answer may have megabytes
	keyedRedisAgain = 100 * time.Millisecond
	// keyedFinishFor is how long a request waits for its answer to be kept.
	keyedFinishFor = time.Second
	// keyedGrace is how long after it was away no leader is taken for dead: the
	// nodes that live send their ends first.
	keyedGrace = 5 * time.Second
	// Ends that wait for Redis; beyond the bytes they lose their bodies, beyond
	// the number the keys stay in use until they expire.
	keyedMostLate      = 10_000
	keyedMostLateBytes = 64 << 20
)

var (
	keyedBegin = redis.NewScript(`
local v = redis.call('GET', KEYS[1])
if not v then
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
  return false
end
return {v, redis.call('PTTL', KEYS[1])}`)
	keyedTake = redis.NewScript(`
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
return 1`)
	// What is gone was lost by Redis: the answer is kept again.
	keyedFinish = redis.NewScript(`
local v = redis.call('GET', KEYS[1])
if v and v ~= ARGV[1] and v ~= ARGV[2] then return 0 end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
return 1`)
	keyedForget = redis.NewScript(`
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])`)
)

// openKeyedRedis does not wait for Redis.
func openKeyedRedis(l *Ledger, o *Options, i *config.Idempotency, boot uint64, node uint32) (*keyedRedis, error) {
	quietRedis()
	c := &o.Redis
	options := &redis.UniversalOptions{
		Addrs: c.Addresses, MasterName: c.SentinelMaster, IsClusterMode: c.Cluster,
		Username: c.Username, Password: c.Password.Reveal(), SentinelPassword: c.SentinelPassword.Reveal(), DB: c.DB,
		MaxRetries: -1, DialTimeout: redisDial, DialerRetries: 1,
		ReadTimeout: keyedRedisCall, WriteTimeout: keyedRedisCall, PoolTimeout: keyedRedisCall, ContextTimeoutEnabled: true,
		PoolSize: keyedRedisPool, ClientName: "farebox",
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
	if c.TLS {
		options.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	// All nodes of a store have its pepper, and no other store has.
	name := l.hasher.digest([]byte("idempotency"))
	r := &keyedRedis{
		client: redis.NewUniversalClient(options), prefix: fmt.Sprintf("%s:keys:%x:", o.Brand, name[:6]),
		windowMs: i.Window.Milliseconds(), node: node, boot: boot, log: l.log,
		backAt: time.Now(), wake: make(chan struct{}, 1), stop: make(chan struct{}),
	}
	r.stopped.Add(1)
	go r.run()
	return r, nil
}

func (r *keyedRedis) name(id keyedID) []string { return []string{r.prefix + hex.EncodeToString(id[:])} }

// note keeps whether Redis answers.
func (r *keyedRedis) note(err error) {
	var refused redis.Error
	away := err != nil && !errors.Is(err, redis.Nil) && !errors.As(err, &refused)
	r.mu.Lock()
	if r.away && !away {
		r.backAt = time.Now()
	}
	r.away = away
	r.mu.Unlock()
}

func (r *keyedRedis) begin(p *keyedRecord, _ bool) (*keyedRecord, error) {
	ctx, cancel := context.WithTimeout(context.Background(), keyedRedisCall)
	defer cancel()
	mine := p.bytes()
	for {
		v, err := keyedBegin.Run(ctx, r.client, r.name(p.id), mine, r.windowMs).Slice()
		r.note(err)
		if errors.Is(err, redis.Nil) {
			return nil, nil
		}
		if err != nil {
			// It may have been written down all the same.
			r.later(keyedEnd{p: p})
			return nil, err
		}
		found := &keyedRecord{}
		text, _ := v[0].(string)
		leftMs, _ := v[1].(int64)
		if !found.read([]byte(text)) {
			return nil, errKeptAnswer
		}
		if found.kind == keyedDone || found.fingerprint != p.fingerprint || !r.dead(found, r.windowMs-leftMs) {
			return found, nil
		}
		taken, err := keyedTake.Run(ctx, r.client, r.name(p.id), text, mine, r.windowMs).Int()
		r.note(err)
		if err != nil {
			r.later(keyedEnd{p: p})
			return nil, err
		}
		if taken == 1 {
			return nil, nil
		}
	}
}

// dead says whether the leader of a pending request that is ageMs old is gone.
func (r *keyedRedis) dead(p *keyedRecord, ageMs int64) bool {
	if p.node == r.node && p.boot != r.boot {
		return true // an earlier process of this node
	}
	r.mu.Lock()
	settled := !r.away && time.Since(r.backAt) > keyedGrace
	r.mu.Unlock()
	return settled && ageMs > int64(p.patienceMs)
}

func (r *keyedRedis) look(id keyedID) (*keyedRecord, error) {
	ctx, cancel := context.WithTimeout(context.Background(), keyedRedisCall)
	defer cancel()
	b, err := r.client.Get(ctx, r.name(id)[0]).Bytes()
	if errors.Is(err, redis.Nil) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	found := &keyedRecord{}
	if !found.read(b) {
		return nil, errKeptAnswer
	}
	return found, nil
}

func (r *keyedRedis) finish(p, done *keyedRecord, ended func()) error {
	ctx, cancel := context.WithTimeout(context.Background(), keyedFinishFor)
	defer cancel()
	for {
		err := r.end(ctx, p, done)
		if err == nil || errors.Is(err, errTaken) {
			return err
		}
		select {
		case <-ctx.Done():
			r.later(keyedEnd{p, done, ended})
			return errLater
		case <-time.After(keyedRedisAgain):
		}
	}
}

func (r *keyedRedis) end(ctx context.Context, p, done *keyedRecord) (err error) {
	var ok int
	if done == nil {
		ok, err = keyedForget.Run(ctx, r.client, r.name(p.id), p.bytes()).Int()
	} else {
		ok, err = keyedFinish.Run(ctx, r.client, r.name(p.id), p.bytes(), done.bytes(), r.windowMs).Int()
	}
	r.note(err)
	if err == nil && ok == 0 {
		return errTaken
	}
	return err
}

// later sends an end as soon as Redis takes it.
func (r *keyedRedis) later(e keyedEnd) {
	r.mu.Lock()
	if len(r.late) >= keyedMostLate {
		r.mu.Unlock()
		if e.ended != nil {
			e.ended()
		}
		return
	}
	if e.done != nil && r.bytes+len(e.done.rest) > keyedMostLateBytes {
		small := *e.done
		small.flags, small.rest, small.size, small.sum = keyedTooLarge, nil, 0, 0
		e.done = &small
	}
	if e.done != nil {
		r.bytes += len(e.done.rest)
	}
	r.late = append(r.late, e)
	r.mu.Unlock()
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// run sends what is late.
func (r *keyedRedis) run() {
	defer r.stopped.Done()
	for {
		select {
		case <-r.stop:
			return
		case <-r.wake:
		}
		for !r.catchUp() {
			select {
			case <-r.stop:
				return
			case <-time.After(keyedRedisAgain):
			}
		}
	}
}

// catchUp says whether nothing is late any more.
func (r *keyedRedis) catchUp() bool {
	for {
		r.mu.Lock()
		if len(r.late) == 0 {
			r.late = nil
			r.mu.Unlock()
			return true
		}
		e := r.late[0]
		r.mu.Unlock()
		ctx, cancel := context.WithTimeout(context.Background(), keyedRedisCall)
		err := r.end(ctx, e.p, e.done)
		cancel()
		if err != nil && !errors.Is(err, errTaken) {
			return false
		}
		r.mu.Lock()
		r.late = r.late[1:]
		if e.done != nil {
			r.bytes -= len(e.done.rest)
		}
		r.mu.Unlock()
		if e.ended != nil {
			e.ended()
		}
	}
}

func (r *keyedRedis) close() error {
	close(r.stop)
	r.stopped.Wait()
	if n := len(r.late); n > 0 {
		r.log.Warn().Int("requests", n).Msg("Redis has not heard of the end of some keyed requests; they can be led again once they are out of patience")
	}
	return r.client.Close()
}
