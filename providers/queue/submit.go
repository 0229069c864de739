package queue

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"farebox/config/asyncjob"
	"farebox/providers/attempt"
	"farebox/providers/chat/dialect"
	"farebox/proxy"
)

// Codes of the service, and messages to customers.
const (
	codeRequest = "INVALID_REQUEST"
	codeFailed  = "INFERENCE_FAILED"
	codePolicy  = "CONTENT_POLICY_VIOLATION"

	textOffline = "The model is not available right now; please retry later."
	textBroken  = "The job cannot be read."
	textFailed  = "The model failed to make it."
	textPolicy  = "The request was refused by the model's content policy."
	textGone    = "The model has lost the job."
	textWrong   = "The model's answer holds nothing of the kind that was ordered."
)

func offline() *asyncjob.Refused {
	return &asyncjob.Refused{Status: 503, Code: "MODEL_OFFLINE", Message: textOffline}
}

// Failure is a job that failed at its upstream for no known fault of its customer.
func Failure() *asyncjob.Refused {
	return &asyncjob.Refused{Status: 500, Code: codeFailed, Message: textFailed}
}

// Lost is a job that its upstream no longer knows.
func Lost() *asyncjob.Refused {
	return &asyncjob.Refused{Status: 500, Code: codeFailed, Message: textGone}
}

// Wrong is the refusal of a finished job whose result is not the ordered one.
func Wrong() *asyncjob.Refused {
	return &asyncjob.Refused{Status: 500, Code: codeFailed, Message: textWrong}
}

// Policy is a job whose content the upstream refuses.
func Policy() *asyncjob.Refused {
	return &asyncjob.Refused{Status: 422, Code: codePolicy, Message: textPolicy}
}

// RefusedBy reads the refusal of an order from an answer of 300 and above, by its status
// and its text. It is certain that nothing was taken where the request itself was refused
// or led elsewhere. Not so after a conflict, after a wait that ended, and after an error of
// the server: its queue, or a proxy before it, may have passed the job on. Only a server
// that says with 503, in JSON and so in its own words, that it has no capacity has not.
func RefusedBy(r *Reply) (refusal *asyncjob.Refused, certain bool) {
	f := dialect.FailureOf(r.Status, r.RetryAfter, r.Body)
	refusal = &asyncjob.Refused{Status: f.Status, Code: f.Code, Message: f.Message, RetryAfter: max(r.RetryAfter, f.RetryAfter)}
	switch {
	case r.Status == 408 || r.Status == 409 || r.Status == 499:
		return refusal, false
	case r.Status == 501 || r.Status == 505:
		return refusal, true
	case r.Status == 503 || r.Status == 529:
		return refusal, len(Members(r.Body)) > 0
	}
	return refusal, r.Status >= 300 && r.Status < 500
}

// Submit hands an order to the target that the task names, or else to the one that it
// chooses. Another target is tried only while it is certain that no target has the order.
// The error is a *Refused or an *Unknown.
func (e *Engine) Submit(ctx context.Context, t asyncjob.Task) (*asyncjob.Submitted, error) {
	w := &work{e: e, ctx: ctx, id: Ident{Key: t.ID, Hook: e.o.Hook(t.ID)}, asking: t.Asking,
		again: t.Upstream != ""}
	if err := json.Unmarshal(t.Order, &w.order); err != nil {
		w.no = &asyncjob.Refused{Status: 400, Code: codeRequest, Message: textBroken}
		return w.outcome(&t)
	}
	targets := e.o.Targets(t.Model)
	if w.again {
		to, err := e.target(&t)
		if err != nil {
			return nil, &asyncjob.Unknown{Upstream: t.Upstream, Target: t.Target, Err: err}
		}
		if !to.Dialect.Terms(to).Idempotent {
			// It took keys at the first attempt; now it would make another job.
			return nil, &asyncjob.Unknown{Upstream: t.Upstream, Target: t.Target, Err: errNoKeys}
		}
		targets, w.to = []*Target{to}, to
	}
	w.picker.Begin(targets, t.Account)
	defer w.picker.End()
	w.picker.Run(w, w.picker.Fitting(w, time.Now().UnixNano()))
	return w.outcome(&t)
}

// errNoKeys is the error of an order whose outcome is not known and whose target is
// no longer one that takes it once.
var errNoKeys = errors.New("the job's upstream is not configured as one that takes idempotency keys any more")

// work is the submission of one order.
type work struct {
	e      *Engine
	ctx    context.Context
	id     Ident
	order  Order
	asking func(upstream, target string, again bool) bool
	again  bool // its target may have it already
	picker picker

	to    *Target // the last one asked
	taken *Taken
	no    *asyncjob.Refused
	final bool // no concerns the order itself
	vague error
}

// outcome is the result of Submit.
func (w *work) outcome(t *asyncjob.Task) (*asyncjob.Submitted, error) {
	switch {
	case w.taken != nil:
		terms := w.to.Dialect.Terms(w.to)
		w.taken.Handle.Since = time.Now().Unix()
		handle := marshalBounded(&w.taken.Handle)
		if handle == nil {
			return nil, w.unknown(errors.New("the upstream's handle is too long"))
		}
		return &asyncjob.Submitted{Upstream: w.to.Upstream, Target: w.to.Model, Handle: handle, Again: terms.Idempotent,
			Done: w.taken.Done}, nil
	case w.vague != nil:
		return nil, w.unknown(w.vague)
	case w.no == nil:
		w.no = offline()
	}
	if w.again && !w.final {
		// The reason against asking again does not show the result of the first time.
		return nil, &asyncjob.Unknown{Upstream: t.Upstream, Target: t.Target, Again: w.idempotent(), Err: w.no}
	}
	if w.to != nil {
		w.e.ours(w.to, w.no)
	}
	return nil, w.no
}

func (w *work) idempotent() bool { return w.to != nil && w.to.Dialect.Terms(w.to).Idempotent }

func (w *work) unknown(err error) *asyncjob.Unknown {
	return &asyncjob.Unknown{Upstream: w.to.Upstream, Target: w.to.Model, Again: w.idempotent(), Err: err}
}

// Fits is attempt.Work.
func (w *work) Fits(t *Target, _ int64) bool {
	cannot := t.unsupported(&w.order)
	if cannot != nil && w.no == nil {
		w.no = &asyncjob.Refused{Status: 400, Code: codeRequest, Message: cannot.Text}
	}
	return cannot == nil
}

// Try is attempt.Work: it ends as soon as a target may have the order.
func (w *work) Try(t *Target) attempt.Verdict {
	w.to, w.no, w.final = t, nil, false
	terms := t.Dialect.Terms(t)
	if w.asking != nil && !w.asking(t.Upstream, t.Model, terms.Idempotent) {
		w.no = offline()
		return attempt.Verdict{Do: attempt.Fail}
	}
	s := Step{Media: terms.Synchronous}
	t.Dialect.Submit(&s, &w.order, t, w.id)
	// An upstream that has begun would make a repeated order twice, and charge twice.
	s.Request.Once = !terms.Idempotent
	if s.Media {
		s.Request.FirstByte = w.e.o.Make
	}
	r, sent, err := w.e.request(w.ctx, t, &s, w.id.Key)
	if err != nil {
		return w.failed(t, sent, err)
	}
	if r.Status/100 == 2 {
		return w.accepted(t, r)
	}
	refusal, certain := t.Dialect.Refused(r, t)
	v := attempt.Judge(r.Status, r.RetryAfter)
	w.e.o.Tried(w.id.Key, attempt.Tried{Upstream: t.Upstream, Status: r.Status,
		Words: dialect.FirstWords(r.Body, []byte(w.order.Prompt), nil)})
	if !certain {
		w.vague = statusError(r.Status)
		v.Do = attempt.Fail
		return v
	}
	switch r.Status {
	case 400, 413, 415, 422:
		w.final = true
	}
	w.no = refusal
	return v
}

// accepted reads an answer of 2xx. An unreadable one ends the submission: the target most
// likely has the order.
func (w *work) accepted(t *Target, r *Reply) attempt.Verdict {
	taken, ok := t.Dialect.Submitted(r, t)
	if ok && taken.Done != nil && taken.Done.Failed != nil {
		w.e.status(t, taken.Done)
	}
	if !ok || taken.Done == nil || taken.Done.Body == nil {
		r.close()
	}
	if !ok {
		w.vague = errors.New("the upstream's answer cannot be read")
		w.e.o.Tried(w.id.Key, attempt.Tried{Upstream: t.Upstream, Status: r.Status, Words: w.vague.Error()})
		return attempt.Verdict{Do: attempt.Fail, Health: attempt.Bad}
	}
	w.taken = taken
	return attempt.Judge(200, 0)
}

// failed is an exchange without an answer.
func (w *work) failed(t *Target, sent bool, err error) attempt.Verdict {
	var l *lost
	if !errors.As(err, &l) { // the context ended before anything was sent
		w.no = offline()
		return attempt.Verdict{Do: attempt.Fail}
	}
	w.e.o.Tried(w.id.Key, attempt.Tried{Upstream: t.Upstream, Status: l.status, Cause: l.cause, Words: err.Error()})
	v := attempt.Lost(l.cause)
	if sent {
		w.vague = err
		v.Do = attempt.Fail
		return v
	}
	w.no = offline()
	if l.cause == proxy.TotalTimeout || w.ctx.Err() != nil {
		v.Do = attempt.Fail
	}
	return v
}
