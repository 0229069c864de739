package queue

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"sync"
	"time"

	"farebox/config"
	"farebox/config/asyncjob"
	"farebox/providers/attempt"
	"farebox/proxy"
)

const (
	// defaultAsk is the time limit of requests to take a job, for its status, and to cancel
	// it.
	defaultAsk = time.Minute
	// defaultMake bounds the time of a synchronous upstream for a job with its answer, and
	// that of the download of a result.
	defaultMake = 20 * time.Minute
	// defaultMost bounds a result, in bytes.
	defaultMost = 512 << 20
	// maxParts bounds the steps of one question.
	maxParts = 3
)

// Fetcher opens a link through a guard.
type Fetcher interface {
	// Open asks for at most most bytes; a longer body ends with an error. Its errors
	// name no hosts.
	Open(ctx context.Context, url string, most int64) (body io.ReadCloser, contentType string, err error)
}

// Options of an Engine.
type Options struct {
	Proxy *proxy.Proxy
	Fetch Fetcher
	// Targets are those of a model, by its id; empty: there is no such model any more.
	Targets func(model string) []*Target
	// Hook is the URL at which an upstream may report a change of a job; may be nil.
	Hook func(id string) string
	// Ours maps an upstream's model to a model of ours, for recommendations;
	// empty: there is no such model. nil: no recommendation is passed on.
	Ours func(upstream, model string, kind *config.JobKind) string
	// Tried is called with each failure of a target to take a job; it may be nil.
	Tried func(id string, t attempt.Tried)
	// Ask bounds one exchange with a queue; 0: a minute.
	Ask time.Duration
	// Make bounds the time of a synchronous upstream for a job, and that of the download of
	// a result; 0: 20 minutes.
	Make time.Duration
	// Most bounds a result, in bytes; 0: 512 MiB.
	Most int64
}

// Engine runs jobs at their upstreams. Its methods are those of job.Maker in
// package billing/job. Safe for concurrent use.
type Engine struct {
	o         Options
	exchanges sync.Pool
}

// New makes an Engine; there is nothing to close.
func New(o Options) *Engine {
	if o.Ask <= 0 {
		o.Ask = defaultAsk
	}
	if o.Make <= 0 {
		o.Make = defaultMake
	}
	if o.Most <= 0 {
		o.Most = defaultMost
	}
	if o.Hook == nil {
		o.Hook = func(string) string { return "" }
	}
	if o.Ours == nil {
		o.Ours = func(string, string, *config.JobKind) string { return "" }
	}
	if o.Tried == nil {
		o.Tried = func(string, attempt.Tried) {}
	}
	e := &Engine{o: o}
	e.exchanges.New = func() any { return new(proxy.Exchange) }
	return e
}

// Reach is the reason that no target can take o, for a client that has not paid yet; nil:
// one can.
func (e *Engine) Reach(model string, o *Order) *asyncjob.Refused {
	refusal := offline()
	for _, t := range e.o.Targets(model) {
		cannot := t.unsupported(o)
		if cannot == nil {
			return nil
		}
		refusal = &asyncjob.Refused{Status: 400, Code: codeRequest, Message: cannot.Text}
	}
	return refusal
}

// AtOnce says that some target of a model answers an order with its result.
func (e *Engine) AtOnce(_, model string) bool {
	for _, t := range e.o.Targets(model) {
		if t.Dialect.Terms(t).Synchronous {
			return true
		}
	}
	return false
}

// errNoTarget is the error of a job whose target is no longer configured.
var errNoTarget = errors.New("the job's upstream is no longer configured for its model")

// target finds the target that took a job.
func (e *Engine) target(t *asyncjob.Task) (*Target, error) {
	for _, to := range e.o.Targets(t.Model) {
		if to.Upstream == t.Upstream && to.Model == t.Target {
			return to, nil
		}
	}
	return nil, errNoTarget
}

// handle finds the target that took a job, and the job's handle there.
func (e *Engine) handle(t *asyncjob.Task) (*Target, *Handle, error) {
	to, err := e.target(t)
	if err != nil {
		return nil, nil, err
	}
	h := new(Handle)
	if err := json.Unmarshal(t.Handle, h); err != nil {
		return nil, nil, errors.New("the job's handle cannot be read")
	}
	return to, h, nil
}

// Poll asks for the status of a job. An error means that it is not known.
func (e *Engine) Poll(ctx context.Context, t asyncjob.Task) (*asyncjob.Status, error) {
	to, h, err := e.handle(&t)
	if err != nil {
		return nil, err
	}
	s := new(Step)
	to.Dialect.Poll(s, h, to)
	for range maxParts {
		r, _, err := e.request(ctx, to, s, t.ID)
		if err != nil {
			return nil, err
		}
		s = new(Step)
		at, err := to.Dialect.Polled(s, r, h, to)
		if at != nil && at.Body == nil || err != nil {
			r.close()
		}
		switch {
		case err != nil:
			return nil, err
		case at != nil:
			return e.status(to, at), nil
		}
		r.close()
	}
	return nil, errors.New("the upstream leads from one question to the next")
}

// status keeps only our models in the recommendation of a refusal.
func (e *Engine) status(to *Target, at *asyncjob.Status) *asyncjob.Status {
	if refusal := at.Failed; refusal != nil {
		e.ours(to, refusal)
	}
	return at
}

// ours drops recommendations of models that are not ours.
func (e *Engine) ours(to *Target, refusal *asyncjob.Refused) {
	if refusal.Recommend != "" {
		refusal.Recommend = e.o.Ours(to.Upstream, refusal.Recommend, to.Kind)
	}
}

// Cancel asks the upstream to stop, and says whether it confirms that it charges nothing.
// An error means that it is to be asked again.
func (e *Engine) Cancel(ctx context.Context, t asyncjob.Task) (free bool, err error) {
	to, h, err := e.handle(&t)
	if err != nil {
		return false, err
	}
	s := new(Step)
	if !to.Dialect.Cancel(s, h, to) {
		return false, nil
	}
	for range maxParts {
		r, _, err := e.request(ctx, to, s, t.ID)
		if err != nil {
			return false, err
		}
		s = new(Step)
		stop, err := to.Dialect.Cancelled(s, r, h, to)
		r.close()
		if err != nil || stop != Asking {
			return stop == Free && err == nil, err
		}
	}
	return false, errors.New("the upstream leads from one question to the next")
}

// Own is a Dialect whose results may lie at the target itself.
type Own interface {
	// Fetch fills s with the request for the result.
	Fetch(s *Step, h *Handle, t *Target)
}

// Fetch opens the result, and gives its media type.
func (e *Engine) Fetch(ctx context.Context, t asyncjob.Task, result []byte) (io.ReadCloser, string, error) {
	var r Result
	if err := json.Unmarshal(result, &r); err != nil {
		return nil, "", errors.New("where the result is cannot be read")
	}
	if r.Own {
		return e.fetchOwn(ctx, &t, &r)
	}
	ctx, cancel := context.WithTimeout(ctx, e.o.Make)
	body, kind, err := e.o.Fetch.Open(ctx, r.URL, e.o.Most)
	if err != nil {
		cancel()
		return nil, "", err
	}
	return typed(&closing{ReadCloser: body, then: cancel}, kind, r.Type)
}

func (e *Engine) fetchOwn(ctx context.Context, t *asyncjob.Task, r *Result) (io.ReadCloser, string, error) {
	to, h, err := e.handle(t)
	if err != nil {
		return nil, "", err
	}
	own, ok := to.Dialect.(Own)
	if !ok {
		return nil, "", errors.New("the upstream keeps no results itself")
	}
	s := new(Step)
	own.Fetch(s, h, to)
	reply, _, err := e.request(ctx, to, s, t.ID)
	if err != nil {
		return nil, "", err
	}
	if reply.Media == nil {
		return nil, "", errors.New("the upstream does not hand out the result")
	}
	return typed(reply.Media, reply.ContentType, r.Type)
}
