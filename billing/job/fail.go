package job

import (
	"cmp"
	"sync"
	"time"

	"farebox/billing/store"
	"farebox/config/asyncjob"
)

// Customers' messages for failures that no upstream explains.
const (
	codeFailed = "INFERENCE_FAILED"

	messageUnknown  = "It is not known whether the model has taken the job, so it was given up."
	messageTimeout  = "The model did not make it in time."
	messageUnfit    = "The result is too large, or has another type than the order."
	messageFull     = "There is no space left for the result."
	messageFetch    = "The result could not be fetched."
	messageReleased = "The job was released before it was completed."
)

// failure is the cause of a job's failure.
type failure struct {
	why     string // for operators: the reason in metrics
	alarm   bool   // the upstream may charge for it: an operator should know
	stop    bool   // the upstream is to be notified
	err     error  // for the log
	code    string // for the customer; empty: codeFailed
	message string
	// A prompt that would be taken, and a model that would take it.
	suggestion, recommend string
}

// refusal is an upstream's last word.
func refusal(rejection *asyncjob.Refused) failure {
	return failure{why: "upstream", code: rejection.Code, message: rejection.Message, suggestion: rejection.Suggestion,
		recommend: rejection.Recommend}
}

// fail ends a job that is to be given back.
func (m *Machine) fail(e *entry, f failure) time.Duration {
	stop := f.stop && len(e.handle) > 0
	stored := e.epoch > 1
	warn := sync.OnceFunc(func() { m.warn(e, &f) })
	_, ok := m.change(e, store.JobFailed, func(r *store.JobRow) {
		// Before it is written down: no process says so that finds it written.
		if f.alarm {
			warn()
		}
		stored = stored || r.State == store.JobStoring
		m.end(r)
		r.Owed, r.Cancel = true, stop
		r.Code, r.Error = cmp.Or(f.code, codeFailed), f.message
		r.Suggestion, r.Recommend = f.suggestion, f.recommend
	}, store.JobSubmitting, store.JobRunning, store.JobStoring)
	if !ok {
		return retire
	}
	m.stats.failed.Add(1)
	if f.alarm {
		m.stats.alarm(f.why)
	} else {
		m.o.Log.Info().Str("queue_id", e.id.String()).Str("model", e.place.model).
			Str("upstream", e.place.upstream).Str("code", f.code).Msg("jobs: a job failed; its price is refunded")
	}
	if stored {
		_ = m.o.Keeper.Delete(m.ctx, e.id.String()) // it, or an earlier owner, may have kept something
	}
	if stop {
		return m.schedule(e, cancel, 0)
	}
	return retire
}

// warn tells operators of a job that costs them something.
func (m *Machine) warn(e *entry, f *failure) {
	m.o.Log.Error().Err(f.err).Str("queue_id", e.id.String()).Str("model", e.place.model).
		Str("upstream", e.place.upstream).Str("reason", f.why).
		Msg("jobs: a job failed that its upstream may charge for; its customer gets the price back")
}
