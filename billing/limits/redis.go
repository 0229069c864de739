package limits

import (
	"context"
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"farebox/billing/dial"
	"farebox/config"
)

// redisClient runs limits.lua on a single server, behind Sentinels or in
// a cluster. It never sends anything twice that may have been executed: an
// error means that this is unknown, and the caller takes it as executed.
type redisClient struct {
	client  redis.UniversalClient
	pipe    *redis.AutoPipeliner
	timeout time.Duration

	how     atomic.Int32
	mu      sync.Mutex
	loading *loading // nil: none under way
}

// loading brings the script to Redis once for all calls that miss it.
type loading struct {
	done chan struct{}
	err  error
}

// How the script is called.
const (
	callUnknown  int32 = iota
	callFunction       // FCALL: replicated, there after a failover (Redis 7)
	callScript         // EVALSHA, and EVAL where it is not known
)

const (
	redisPool      = 4               // connections for commands that are not pipelined
	redisQueue     = 20_000          // commands; the next ones fail at once
	redisLoad      = 2 * time.Second // of the function, into every master
	redisRedirects = 3
	redisRound     = 300 // calls that a timeout is meant for
)

//go:embed limits.lua
var scriptSource string

// scriptCode is the script in the two forms in which Redis takes one. Its name
// has its hash in it, so that nodes of different versions do not replace each
// other's.
type scriptCode struct {
	function, library string // FCALL: name and text
	script, sha       string // EVAL: text and hash
}

func newScriptCode(source string) *scriptCode {
	sum := sha1.Sum([]byte(source))
	name := "farebox_limits_" + hex.EncodeToString(sum[:4])
	script := source + "\nreturn take(KEYS, ARGV)\n"
	sha := sha1.Sum([]byte(script))
	return &scriptCode{
		function: name, library: "#!lua name=" + name + "\n" + source + "\nredis.register_function('" + name +
			"', take)\n",
		script: script, sha: hex.EncodeToString(sha[:]),
	}
}

var productionCode = newScriptCode(scriptSource)

func newRedisClient(c *config.Redis) (*redisClient, error) {
	client := dial.Redis(c, c.Timeout, func(o *redis.UniversalOptions) { o.PoolSize, o.MaxRedirects = redisPool, -1 })
	pipe, err := client.AsyncAutoPipelineWithOptions(&redis.AutoPipelineOptions{
		MaxBatchSize: 300, MaxConcurrentBatches: 1, MaxQueuedCommands: redisQueue,
	})
	if err != nil {
		return nil, errors.Join(err, client.Close())
	}
	return &redisClient{client: client, pipe: pipe, timeout: c.Timeout}, nil
}

func (c *redisClient) close() error { return c.client.Close() }

// errNotSent is wrapped by errors of calls that Redis cannot have executed.
var errNotSent = errors.New("not sent")

// call asks about the windows with these keys.
func (c *redisClient) call(code *scriptCode, keys []any, blob []byte, a *answer) error {
	ctx, cancel := context.WithTimeout(context.Background(), c.timeout)
	defer cancel()
	for try := 0; ; try++ {
		how := c.how.Load()
		if how == callUnknown {
			if err := c.load(ctx, code); err != nil {
				return fmt.Errorf("%w: %w", errNotSent, err)
			}
			continue
		}
		one := c.submit(ctx, code, how, keys, blob)
		text, err := one.wait(ctx)
		if err == nil {
			return readAnswer(text, len(keys), a)
		}
		again, err := c.judge(ctx, code, err)
		if !again || try >= redisRedirects {
			return err
		}
	}
}

// callAll sends many calls at once and waits for all answers.
func (c *redisClient) callAll(code *scriptCode, calls []scriptCall) {
	if len(calls) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), c.timeout*time.Duration(1+len(calls)/redisRound))
	defer cancel()
	if c.how.Load() == callUnknown {
		if err := c.load(ctx, code); err != nil {
			for i := range calls {
				calls[i].err = fmt.Errorf("%w: %w", errNotSent, err)
			}
			return
		}
	}
	how := c.how.Load()
	sent := make([]sentCall, len(calls))
	for i := range calls {
		sent[i] = c.submit(ctx, code, how, []any{calls[i].key}, calls[i].blob)
	}
	for i := range calls {
		one := &calls[i]
		text, err := sent[i].wait(ctx)
		if err == nil {
			one.err = readAnswer(text, 1, &one.answer)
			continue
		}
		var again bool
		if again, one.err = c.judge(ctx, code, err); again {
			one.err = c.call(code, []any{one.key}, one.blob, &one.answer)
		}
	}
}

type sentCall struct {
	future redis.AutoFuture
	cmd    *redis.StringCmd
}

func (s *sentCall) wait(ctx context.Context) (string, error) {
	if err := s.future.WaitContext(ctx); err != nil {
		return "", err
	}
	return s.cmd.Val(), nil
}

func (c *redisClient) submit(ctx context.Context, code *scriptCode, how int32, keys []any, blob []byte) sentCall {
	args := make([]any, 0, 7)
	switch how {
	case callFunction:
		args = append(args, "fcall", code.function)
	default:
		args = append(args, "evalsha", code.sha)
	}
	args = append(append(append(args, len(keys)), keys...), blob)
	cmd := redis.NewStringCmd(ctx, args...)
	cmd.SetFirstKeyPos(3)
	return sentCall{c.pipe.Submit(ctx, cmd), cmd}
}

// judge says whether a refused command may be sent again: only when Redis said
// that it did not execute it.
func (c *redisClient) judge(ctx context.Context, code *scriptCode, err error) (again bool, _ error) {
	text := err.Error()
	var network *net.OpError
	switch {
	case errors.As(err, &network) && network.Op == "dial":
		return false, fmt.Errorf("%w: %w", errNotSent, err)
	case errors.Is(err, redis.ErrAutoPipelineQueueFull):
		return false, fmt.Errorf("%w: %w", errNotSent, err)
	case strings.HasPrefix(text, "ERR Function not found"), strings.HasPrefix(text, "NOSCRIPT"):
		// Redis was restarted without its data.
		if err := c.load(ctx, code); err != nil {
			return false, fmt.Errorf("%w: %w", errNotSent, err)
		}
		return true, err
	case strings.HasPrefix(text, "MOVED "), strings.HasPrefix(text, "ASK "), strings.HasPrefix(text, "TRYAGAIN"):
		// The client learns the new place of the slot meanwhile.
		select {
		case <-ctx.Done():
			return false, fmt.Errorf("%w: %w", errNotSent, err)
		case <-time.After(c.timeout / 10):
			return true, fmt.Errorf("%w: %w", errNotSent, err)
		}
	case redis.HasErrorPrefix(err, "READONLY"), redis.HasErrorPrefix(err, "LOADING"),
		redis.HasErrorPrefix(err, "CLUSTERDOWN"):
		return false, fmt.Errorf("%w: %w", errNotSent, err)
	}
	return false, err
}

// load waits until the script is in Redis, but not beyond ctx: a request has
// no time for a server that is not there.
func (c *redisClient) load(ctx context.Context, code *scriptCode) error {
	c.mu.Lock()
	l := c.loading
	if l == nil {
		l = &loading{done: make(chan struct{})}
		c.loading = l
		go func() {
			l.err = c.loadNow(code)
			c.mu.Lock()
			c.loading = nil
			c.mu.Unlock()
			close(l.done)
		}()
	}
	c.mu.Unlock()
	select {
	case <-l.done:
		return l.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// loadNow brings the script to every master, as a Function where there are some.
func (c *redisClient) loadNow(code *scriptCode) error {
	ctx, cancel := context.WithTimeout(context.Background(), redisLoad)
	defer cancel()
	var refused redis.Error
	err := c.masters(ctx, func(ctx context.Context, one redis.Cmdable) error {
		err := one.FunctionLoad(ctx, code.library).Err()
		if err != nil && strings.Contains(err.Error(), "already exists") {
			return nil
		}
		return err
	})
	switch {
	case err == nil:
		c.how.Store(callFunction)
		return nil
	case !errors.As(err, &refused) || redis.HasErrorPrefix(err, "LOADING") || redis.HasErrorPrefix(err, "READONLY"):
		return err
	}
	// Older than 7, or a service that forbids Functions.
	err = c.masters(ctx, func(ctx context.Context, one redis.Cmdable) error {
		return one.ScriptLoad(ctx, code.script).Err()
	})
	if err == nil {
		c.how.Store(callScript)
	}
	return err
}

// masters runs do on every server that takes writes.
func (c *redisClient) masters(ctx context.Context, do func(context.Context, redis.Cmdable) error) error {
	if cluster, ok := c.client.(*redis.ClusterClient); ok {
		return cluster.ForEachMaster(ctx, func(ctx context.Context, one *redis.Client) error { return do(ctx, one) })
	}
	return do(ctx, c.client)
}
