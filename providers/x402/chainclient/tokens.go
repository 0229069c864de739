package chainclient

import (
	"context"
	"errors"
	"iter"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"farebox/config/background"
	"farebox/providers/x402/chain"
)

const (
	// tokensEvery is how often tokens are compared with their chains, and tokensAgain when
	// nodes did not answer.
	tokensEvery = time.Hour
	tokensAgain = 30 * time.Second
)

// tokenWatch reports a token whose domain differs from the config before customers use it:
// each payment with it would be answered 503.
type tokenWatch struct {
	log   zerolog.Logger
	begin sync.Once
	work  background.Work

	mu    sync.Mutex
	wrong map[string]error // by network; nil: the token is right. A missing network is unknown
}

// CheckTokens compares the token of every EVM network with its chain: a *chain.TokenError
// names the fault, any other error says that its nodes did not answer.
func (c *Client) CheckTokens(ctx context.Context) map[string]error {
	found := map[string]error{}
	for _, n := range c.Terms.Networks {
		if n.EVM() {
			found[n.Name] = c.chains[n.Name].CheckToken(ctx)
		}
	}
	return found
}

// WrongTokens says of each EVM network whether its token is known to be wrong.
func (c *Client) WrongTokens() iter.Seq2[string, bool] {
	return func(yield func(string, bool) bool) {
		c.tokens.mu.Lock()
		defer c.tokens.mu.Unlock()
		for _, n := range c.Terms.Networks {
			if n.EVM() && !yield(n.Name, c.tokens.wrong[n.Name] != nil) {
				return
			}
		}
	}
}

// start compares tokens in the background, until close.
func (t *tokenWatch) start(check func(context.Context) map[string]error) {
	t.begin.Do(func() { t.work.Go(func() { t.watch(check) }) })
}

func (t *tokenWatch) close() {
	t.begin.Do(func() {})
	t.work.Close()
}

func (t *tokenWatch) watch(check func(context.Context) map[string]error) {
	ctx := t.work.Context()
	for wait := time.Duration(0); t.work.Sleep(wait); {
		wait = tokensEvery
		for network, err := range check(ctx) {
			if ctx.Err() != nil {
				return
			}
			if !t.note(network, err) {
				wait = tokensAgain
			}
		}
	}
}

// note keeps a result, and logs a token that is wrong or is right again. It says whether
// the nodes answered.
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
