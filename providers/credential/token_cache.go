package credential

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"farebox/config/background"
	"farebox/proxy"
)

const (
	// firstWait is how long a request waits for the first token of all.
	firstWait = 5 * time.Second
	// renewLimit bounds one renewal with its request to a token endpoint.
	renewLimit = 10 * time.Second
	// refusedPause is the least time between renewals that refusals caused: an
	// upstream that refuses everything must not make us ask for tokens all day.
	refusedPause = 2 * time.Second
	// firstRetry and mostRetry are the waits after failed renewals.
	firstRetry = 500 * time.Millisecond
	mostRetry  = 30 * time.Second
	// maxToken is beyond every token; a head has no room for more.
	maxToken = 8 << 10
)

// fetchedToken is a token as its source gives it.
type fetchedToken struct {
	value   string
	expires time.Time // zero: unknown
}

// source fetches tokens. One goroutine at a time uses it.
type source interface {
	// get gives the token that holds now. An error names no secret.
	get(ctx context.Context) (fetchedToken, error)
	// next is the wait before get is called again, after it gave t.
	next(t fetchedToken, now time.Time) time.Duration
}

// token is the current token.
type token struct {
	fetchedToken
	got    time.Time
	fields []byte // the header line
	mark   uint64
}

// tokenCache holds the token of a source, which it asks ahead of time. The holder of
// flying owns everything but shown.
type tokenCache struct {
	spec   Spec
	source source
	log    zerolog.Logger

	shown  atomic.Pointer[token]
	first  chan struct{} // closed when the first attempt is over
	failed atomic.Pointer[error]

	flying    chan struct{} // holds one while a renewal is under way
	marks     uint64
	failures  int       // in a row
	refusedAt time.Time // of the last renewal that a refusal caused

	work background.Work
}

func newTokenCache(s Spec, from source, log zerolog.Logger) *tokenCache {
	k := &tokenCache{spec: s, source: from, log: log, first: make(chan struct{}),
		flying: make(chan struct{}, 1)}
	k.work.Go(k.keep)
	return k
}

// keep renews until Close.
func (k *tokenCache) keep() {
	for first, wait := true, time.Duration(0); k.work.Sleep(wait); first = false {
		k.flying <- struct{}{}
		wait = k.renew(k.work.Context())
		<-k.flying
		if first {
			close(k.first)
		}
	}
}

// renew asks the source once and says when to ask it again. The caller holds
// flying.
func (k *tokenCache) renew(ctx context.Context) time.Duration {
	ctx, cancel := context.WithTimeout(ctx, renewLimit)
	defer cancel()
	t, err := k.source.get(ctx)
	now := time.Now()
	old := k.shown.Load()
	switch {
	case err == nil && !plainToken(t.value):
		err = errors.New("the token is invalid: it is empty, too long, or has characters that do not fit into a header")
	case err == nil && t.over(now):
		err = errors.New("the token that was got has expired already")
	}
	if err != nil {
		if ctx.Err() != nil && errors.Is(err, context.Canceled) {
			return mostRetry // closing
		}
		k.failures++
		k.failed.Store(&err)
		k.complain(err, old, now)
		return backoff(k.failures)
	}
	if k.failures > 0 {
		k.log.Info().Int("after_failures", k.failures).Msg("the token of the upstream was renewed")
	}
	k.failures = 0
	k.failed.Store(nil)
	if old == nil || old.value != t.value || !old.expires.Equal(t.expires) {
		k.marks++
		mark := k.marks
		if old != nil && old.value == t.value {
			mark = old.mark // the same one, which lives longer
		}
		k.shown.Store(&token{fetchedToken: t, got: now, mark: mark,
			fields: []byte(k.spec.Header + ": " + k.spec.Prefix + t.value + "\r\n")})
	}
	return k.source.next(t, now)
}

func (k *tokenCache) complain(err error, old *token, now time.Time) {
	event, left := k.log.Error(), "no token is left, so that the upstream is not asked"
	if old != nil && !old.over(now) {
		event, left = k.log.Warn(), "the last one is still shown"
		if !old.expires.IsZero() {
			event = event.Dur("valid_for_ms", old.expires.Sub(now))
		}
	}
	event.Err(err).Int("failures", k.failures).Msg("cannot renew the token of the upstream; " + left)
}

// AppendFields is proxy.Credential.
func (k *tokenCache) AppendFields(dst []byte, q *proxy.Unproven) ([]byte, error) {
	t := k.shown.Load()
	if t == nil {
		select {
		case <-k.first:
		case <-k.work.Closing():
		case <-time.After(firstWait):
		}
		t = k.shown.Load()
	}
	if t == nil || t.over(time.Now()) {
		return dst, k.nothing(t)
	}
	q.Mark = t.mark
	return append(dst, t.fields...), nil
}

// nothing is the error if there is no token.
func (k *tokenCache) nothing(t *token) error {
	what := "there is no token yet"
	if t != nil {
		what = "the token has expired"
	}
	if err := k.failed.Load(); err != nil {
		return fmt.Errorf("%s: %w", what, *err)
	}
	return errors.New(what)
}

// Refused is proxy.Credential: requests that met the refusal of one token wait
// for one renewal.
func (k *tokenCache) Refused(q *proxy.Unproven, status int, _ []byte) bool {
	if status != 401 {
		return false // the caller is known, and lacks a right
	}
	newer := func() bool {
		t := k.shown.Load()
		return t != nil && t.mark != q.Mark
	}
	if newer() {
		return true
	}
	k.flying <- struct{}{}
	defer func() { <-k.flying }()
	if newer() {
		return true
	}
	if now := time.Now(); now.Sub(k.refusedAt) >= refusedPause {
		k.refusedAt = now
		k.renew(context.Background())
	}
	return newer()
}

// Age is Aged.
func (k *tokenCache) Age() (got, expires time.Time) {
	if t := k.shown.Load(); t != nil {
		return t.got, t.expires
	}
	return got, expires
}

// Close is Credential.
func (k *tokenCache) Close() { k.work.Close() }

// over says that a token is not worth sending any more.
func (f *fetchedToken) over(now time.Time) bool { return !f.expires.IsZero() && !now.Before(f.expires) }

// ahead is how long a token that was got now is shown before the next one is
// asked for: three quarters of its life, give or take a little, so that many
// nodes do not ask at once and a token endpoint may fail for a while.
func ahead(t fetchedToken, now time.Time) time.Duration {
	life := t.expires.Sub(now)
	return max(life*7/10+rand.N(max(life/10, 1)), 20*time.Millisecond)
}

// backoff is the wait after so many failures in a row.
func backoff(failures int) time.Duration {
	wait := min(firstRetry<<min(failures-1, 10), mostRetry)
	return wait/2 + rand.N(wait)
}

// plainToken says that a token can be in a header.
func plainToken(s string) bool {
	if s == "" || len(s) > maxToken {
		return false
	}
	for _, c := range []byte(s) {
		if c <= ' ' || c > '~' {
			return false
		}
	}
	return true
}
