package routes

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/rs/zerolog"

	"farebox/providers/x402"
	"farebox/providers/x402/chain"
)

const (
	// tokensEvery is how often tokens are compared with their chains, and tokensAgain when
	// nodes did not tell.
	tokensEvery = time.Hour
	tokensAgain = 30 * time.Second
)

// tokenWatch tells the operator of a token whose domain is not as the config says, before
// customers meet it: every payment of it would be answered 503.
type tokenWatch struct {
	log   zerolog.Logger
	begin sync.Once
	stop  context.CancelFunc
	done  sync.WaitGroup

	mu    sync.Mutex
	wrong map[string]error // by network; nil: it is right. One that is not in it is not known
}

// start compares tokens in the background, until close.
func (t *tokenWatch) start(check func(context.Context) map[string]error) {
	t.begin.Do(func() {
		ctx, stop := context.WithCancel(context.Background())
		t.stop = stop
		t.done.Go(func() { t.watch(ctx, check) })
	})
}

func (t *tokenWatch) close() {
	t.begin.Do(func() {})
	if t.stop != nil {
		t.stop()
	}
	t.done.Wait()
}

func (t *tokenWatch) watch(ctx context.Context, check func(context.Context) map[string]error) {
	for {
		wait := tokensEvery
		for network, err := range check(ctx) {
			if ctx.Err() != nil {
				return
			}
			if !t.note(network, err) {
				wait = tokensAgain
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// note keeps what is found, and logs what is wrong or is not any more. It says whether
// anything is known.
func (t *tokenWatch) note(network string, err error) (known bool) {
	var wrong *chain.TokenError
	if known = err == nil || errors.As(err, &wrong); !known {
		t.log.Warn().Err(err).Str("network", network).Msg("x402: the token could not be compared with the config")
		return false
	}
	t.mu.Lock()
	before := t.wrong[network]
	if t.wrong == nil {
		t.wrong = map[string]error{}
	}
	t.wrong[network] = err
	t.mu.Unlock()
	switch {
	case err != nil && before == nil:
		t.log.Error().Err(err).Str("network", network).Msg("x402: no payment can be taken on this network")
	case err == nil && before != nil:
		t.log.Info().Str("network", network).Msg("x402: the token is as the config says")
	}
	return true
}

// writeMetrics tells which tokens are known to be wrong.
func (t *tokenWatch) writeMetrics(w io.Writer, networks []*x402.Network) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, n := range networks {
		if n.EVM() {
			metrics.WriteGaugeFloat64(w, `farebox_x402_token_wrong{network="`+n.Name+`"}`, oneIf(t.wrong[n.Name] != nil))
		}
	}
}
