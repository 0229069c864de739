package providers

import (
	"context"
	"errors"
	"fmt"
	"time"

	"farebox/config"
)

// askNowLimit is how long an operator waits for an upstream.
const askNowLimit = 8 * time.Second

// AskNow asks an upstream of a config something free, and of a search service only a connection. model selects one
// network or provider of those with the same name; empty: all.
func AskNow(ctx context.Context, cfg *config.Config, upstream, model string) []Asked {
	questions := questionsOf(cfg, func(name, network string) bool {
		return name == upstream && (model == "" || network == "" || model == network)
	})
	if cfg.Augment.Search != nil {
		for provider, list := range cfg.Augment.Search.Providers() {
			for i := range list {
				if u := &list[i]; u.Name == upstream && (model == "" || model == provider) {
					questions = append(questions, question{provider + "/" + u.Name, func(*int) (string, error) { return connects(u) }})
				}
			}
		}
	}
	for i := range questions {
		ask := questions[i].ask
		questions[i].ask = func(status *int) (string, error) { return inTime(ctx, ask, status) }
	}
	return askAll(questions)
}

// inTime gives up waiting for a slow upstream.
func inTime(ctx context.Context, ask func(*int) (string, error), status *int) (string, error) {
	type result struct {
		good   string
		status int
		err    error
	}
	done := make(chan result, 1)
	go func() {
		var r result
		r.good, r.err = ask(&r.status)
		done <- r
	}()
	select {
	case r := <-done:
		*status = r.status
		return r.good, r.err
	case <-time.After(askNowLimit):
		return "", fmt.Errorf("it does not answer within %s", askNowLimit)
	case <-ctx.Done():
		return "", errors.New("the check was cut off")
	}
}

// connects opens a connection to a service, with TLS if its URL says so. A search would cost
// money.
func connects(u *config.SearchUpstream) (string, error) {
	a, err := newAsker(u.BaseURL, u.CAFile, askLimit, nil)
	if err != nil {
		return "", err
	}
	if err := a.connect(); err != nil {
		return "", err
	}
	return "takes connections; its key was not checked", nil
}
