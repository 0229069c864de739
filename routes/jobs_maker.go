package routes

import (
	"context"
	"errors"
	"io"

	"farebox/billing/job"
	"farebox/config"
	"farebox/providers"
	"farebox/providers/queue"
)

// newJobMaker drives jobs at the upstreams of the config that is being served.
func (g *Gateway) newJobMaker(cfg *config.Config) job.Maker {
	return jobMaker{providers.NewQueue(g.proxy, cfg.Fetch, func() *providers.Catalog { return g.live.Load().catalog },
		g.hookOf, int64(cfg.Media.MaxBytes))}
}

// jobMaker is an engine of jobs in the words of package job: billing does not import
// providers, nor they it.
type jobMaker struct{ engine *queue.Engine }

func taskOf(t *job.Task) queue.Task {
	return queue.Task{ID: t.ID, Kind: t.Kind, Model: t.Model, Upstream: t.Upstream, Target: t.Target, Handle: t.Handle,
		Order: t.Order, Account: t.Account, Asking: t.Asking}
}

// AtOnce is job.Synchronous.
func (m jobMaker) AtOnce(_, model string) bool { return m.engine.Synchronous(model) }

// Submit is job.Maker.
func (m jobMaker) Submit(ctx context.Context, t job.Task) (*job.Submitted, error) {
	s, err := m.engine.Submit(ctx, taskOf(&t))
	var no *queue.Refused
	var vague *queue.Unknown
	switch {
	case errors.As(err, &vague): // before the refusal that it may wrap
		return nil, &job.Unknown{Upstream: vague.Upstream, Target: vague.Target, Again: vague.Again, Err: vague.Err}
	case errors.As(err, &no):
		return nil, refusedBy(no)
	case err != nil:
		return nil, err
	}
	return &job.Submitted{Upstream: s.Upstream, Target: s.Target, Handle: s.Handle, Again: s.Again,
		Done: standing(s.Done)}, nil
}

// Poll is job.Maker.
func (m jobMaker) Poll(ctx context.Context, t job.Task) (*job.Standing, error) {
	s, err := m.engine.Poll(ctx, taskOf(&t))
	return standing(s), err
}

// Cancel is job.Maker.
func (m jobMaker) Cancel(ctx context.Context, t job.Task) (free bool, err error) {
	return m.engine.Cancel(ctx, taskOf(&t))
}

// Fetch is job.Maker.
func (m jobMaker) Fetch(ctx context.Context, t job.Task, result []byte) (io.ReadCloser, string, error) {
	return m.engine.Fetch(ctx, taskOf(&t), result)
}

func standing(s *queue.Standing) *job.Standing {
	if s == nil {
		return nil
	}
	return &job.Standing{Done: s.Done, Progress: s.Progress, Result: s.Result, Body: s.Body, Type: s.Type,
		Failed: refusedBy(s.Failed), Retry: s.Retry}
}

func refusedBy(no *queue.Refused) *job.Refused {
	if no == nil {
		return nil
	}
	return &job.Refused{Status: no.Status, Code: no.Code, Message: no.Message, Suggestion: no.Suggestion,
		Recommend: no.Recommend, RetryAfter: no.RetryAfter}
}
