package replay

import (
	"context"
	"encoding/hex"
	"errors"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"farebox/billing/dial"
	"farebox/config/background"
)

// redisStore keeps keyed requests in Redis, for all nodes of a store together.
// Time is Redis's own: how old a record is follows from the rest of its
// life.
//
// While Redis does not answer no keyed request is begun, so that none is
// carried out twice. One that was under way then is answered but not charged;
// its end is sent until Redis takes it, and meanwhile no other node may lead it:
// other nodes wait for the leader's patience, and after Redis was away for
// awayGrace more.
type redisStore struct {
	client   redis.UniversalClient
	prefix   string
	windowMs int64
	maxKeys  int
	maxBytes int64
	node     uint32
	boot     uint64
	log      zerolog.Logger
	now      func() int64

	mu     sync.Mutex
	away   bool
	backAt time.Time // when it answered again
	late   []ending
	bytes  int // of the records in late
	wake   chan struct{}

	work background.Work
}

// ending is the end of a request that Redis has not taken yet.
type ending struct {
	p, done *record
	ended   func()
}

const (
	redisPool  = 32
	redisCall  = 2 * time.Second // an answer may have megabytes
	redisAgain = 100 * time.Millisecond
	// redisKeep bounds keep and drop, which an answer waits for.
	redisKeep = 200 * time.Millisecond
	// finishFor is how long a request waits for its answer to be kept.
	finishFor = time.Second
	// awayGrace is how long after it was away no leader counts as dead: the
	// live nodes send their ends first.
	awayGrace = 5 * time.Second
	// Ends that wait for Redis; beyond the bytes they lose their bodies, beyond
	// the number the keys stay in use until they expire.
	mostLate      = 10_000
	mostLateBytes = 64 << 20
)

var (
	findScript = redis.NewScript(`
local v = redis.call('GET', KEYS[1])
return v and {v, redis.call('PTTL', KEYS[1])}`)
	beginScript = redis.NewScript(`
local v = redis.call('GET', KEYS[1])
if not v then
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
  return false
end
return {v, redis.call('PTTL', KEYS[1])}`)
	takeScript = redis.NewScript(`
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
return 1`)
	// A missing record was lost by Redis: the answer is kept again.
	finishScript = redis.NewScript(`
local v = redis.call('GET', KEYS[1])
if v and v ~= ARGV[1] and v ~= ARGV[2] then return 0 end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
return 1`)
	forgetScript = redis.NewScript(`
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])`)
)

// openRedis does not wait for Redis.
func openRedis(o *Options, boot uint64) *redisStore {
	client := dial.Redis(&o.Redis, redisCall, func(o *redis.UniversalOptions) {
		o.PoolSize, o.ContextTimeoutEnabled = redisPool, true
	})
	r := &redisStore{
		client: client, prefix: o.Prefix,
		windowMs: o.Config.Window.Milliseconds(), maxKeys: o.Config.MaxKeys, maxBytes: int64(o.Config.MaxStored),
		node: o.Node, boot: boot, log: o.Log, now: o.Now,
		backAt: time.Now(), wake: make(chan struct{}, 1),
	}
	r.work.Go(r.run)
	return r
}

func (r *redisStore) name(id requestID) []string {
	return []string{r.prefix + hex.EncodeToString(id[:])}
}

// note keeps whether Redis answers.
func (r *redisStore) note(err error) {
	var refused redis.Error
	away := err != nil && !errors.Is(err, redis.Nil) && !errors.As(err, &refused)
	r.mu.Lock()
	if r.away && !away {
		r.backAt = time.Now()
	}
	r.away = away
	r.mu.Unlock()
}

func (r *redisStore) find(p *record) (*record, error) {
	ctx, cancel := context.WithTimeout(context.Background(), redisCall)
	defer cancel()
	found, _, err := r.parseFound(findScript.Run(ctx, r.client, r.name(p.id)))
	if found != nil && r.stale(found, p) {
		return nil, nil
	}
	return found, err
}

// parseFound is the answer of a script that found a record, with its text.
func (r *redisStore) parseFound(answer *redis.Cmd) (found *record, text string, err error) {
	v, err := answer.Slice()
	r.note(err)
	if errors.Is(err, redis.Nil) {
		return nil, "", nil
	}
	if err != nil {
		return nil, "", err
	}
	found = &record{}
	text, _ = v[0].(string)
	leftMs, _ := v[1].(int64)
	if !found.parse([]byte(text)) {
		return nil, "", errUnreadable
	}
	found.ageMs = r.windowMs - leftMs
	return found, text, nil
}

// stale says that a record does not block p: its leader is dead, and it
// does not write.
func (r *redisStore) stale(found, p *record) bool {
	return found.kind == kindPending && r.dead(found) && found.yields(p)
}

func (r *redisStore) begin(p *record, _ bool) (*record, error) {
	ctx, cancel := context.WithTimeout(context.Background(), redisCall)
	defer cancel()
	switch fits, err := r.take(ctx, p.owner, r.bucket(p.atMs), share{1, headSize}); {
	case err != nil:
		return nil, err
	case !fits:
		return nil, errFull
	}
	mine := p.bytes()
	for {
		found, text, err := r.parseFound(beginScript.Run(ctx, r.client, r.name(p.id), mine, r.windowMs))
		switch {
		case errors.Is(err, errUnreadable):
			r.give(ctx, p)
			return nil, err
		case err != nil:
			// It may have been written down all the same.
			r.later(ending{p: p})
			return nil, err
		case found == nil:
			return nil, nil
		case !r.stale(found, p):
			r.give(ctx, p)
			return found, nil
		}
		taken, err := takeScript.Run(ctx, r.client, r.name(p.id), text, mine, r.windowMs).Int()
		r.note(err)
		if err != nil {
			r.later(ending{p: p})
			return nil, err
		}
		if taken == 1 {
			return nil, nil
		}
	}
}

// dead says whether the leader of a pending request is dead.
func (r *redisStore) dead(p *record) bool {
	if p.node == r.node && p.boot != r.boot {
		return true // an earlier process of this node
	}
	r.mu.Lock()
	settled := !r.away && time.Since(r.backAt) > awayGrace
	r.mu.Unlock()
	return settled && p.ageMs > int64(p.patienceMs)
}

func (r *redisStore) load(ids ...requestID) ([]*record, error) {
	ctx, cancel := context.WithTimeout(context.Background(), redisCall)
	defer cancel()
	answers, err := r.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, id := range ids {
			p.Get(ctx, r.name(id)[0])
		}
		return nil
	})
	if err != nil && !errors.Is(err, redis.Nil) {
		return nil, err
	}
	list := make([]*record, len(ids))
	for i, answer := range answers {
		b, err := answer.(*redis.StringCmd).Bytes()
		if errors.Is(err, redis.Nil) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if list[i] = (&record{}); !list[i].parse(b) {
			return nil, errUnreadable
		}
	}
	return list, nil
}

func (r *redisStore) keep(p *record) error {
	ctx, cancel := context.WithTimeout(context.Background(), redisKeep)
	defer cancel()
	fits, err := r.take(ctx, p.owner, r.bucket(p.atMs), share{1, p.stored()})
	switch {
	case err != nil:
		return err
	case !fits:
		return errFull
	}
	err = r.client.Set(ctx, r.name(p.id)[0], p.bytes(), time.Duration(r.windowMs)*time.Millisecond).Err()
	r.note(err)
	return err
}

func (r *redisStore) drop(p *record) error {
	ctx, cancel := context.WithTimeout(context.Background(), redisKeep)
	defer cancel()
	err := r.client.Del(ctx, r.name(p.id)[0]).Err()
	r.note(err)
	return err
}

func (r *redisStore) finish(p, done *record, ended func()) error {
	ctx, cancel := context.WithTimeout(context.Background(), finishFor)
	defer cancel()
	if done != nil && done.size > 0 {
		// Without Redis the answer waits among the late ones, which are few.
		fits, err := r.take(ctx, p.owner, r.bucket(r.now()/1e6), share{bytes: int64(done.size)})
		if err == nil && !fits {
			done = done.tooLarge()
		}
	}
	for {
		err := r.end(ctx, p, done)
		if err == nil || errors.Is(err, errTaken) {
			return err
		}
		select {
		case <-ctx.Done():
			r.later(ending{p, done, ended})
			return errLater
		case <-time.After(redisAgain):
		}
	}
}

func (r *redisStore) end(ctx context.Context, p, done *record) (err error) {
	var ok int
	if done == nil {
		if ok, err = forgetScript.Run(ctx, r.client, r.name(p.id), p.bytes()).Int(); ok == 1 {
			r.give(ctx, p)
		}
	} else {
		ok, err = finishScript.Run(ctx, r.client, r.name(p.id), p.bytes(), done.bytes(), r.windowMs).Int()
	}
	r.note(err)
	if err == nil && ok == 0 {
		return errTaken
	}
	return err
}

// later sends an end as soon as Redis takes it.
func (r *redisStore) later(e ending) {
	r.mu.Lock()
	if len(r.late) >= mostLate {
		r.mu.Unlock()
		if e.ended != nil {
			e.ended()
		}
		return
	}
	if e.done != nil && r.bytes+len(e.done.rest) > mostLateBytes {
		e.done = e.done.tooLarge()
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

// run sends late records.
func (r *redisStore) run() {
	for {
		select {
		case <-r.work.Closing():
			return
		case <-r.wake:
		}
		for !r.catchUp() {
			if !r.work.Sleep(redisAgain) {
				return
			}
		}
	}
}

// catchUp says whether nothing is late any more.
func (r *redisStore) catchUp() bool {
	for {
		r.mu.Lock()
		if len(r.late) == 0 {
			r.late = nil
			r.mu.Unlock()
			return true
		}
		e := r.late[0]
		r.mu.Unlock()
		ctx, cancel := context.WithTimeout(context.Background(), redisCall)
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

func (r *redisStore) close() error {
	r.work.Close()
	if n := len(r.late); n > 0 {
		r.log.Warn().Int("requests", n).
			Msg("Redis has not heard of the end of some keyed requests; they can be led again once they are out of " +
				"patience")
	}
	return r.client.Close()
}
