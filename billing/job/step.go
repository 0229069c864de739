package job

import (
	"context"
	"errors"
	"slices"
	"time"

	"farebox/billing/store"
	"farebox/config/asyncjob"
)

// step takes the step that a job needs next and says when it needs another one.
func (m *Machine) step(e *entry) time.Duration {
	switch e.next {
	case submit:
		return m.resubmit(e)
	case fetch:
		return m.fetch(e)
	case cancel:
		return m.cancel(e)
	case discard:
		return m.discard(e)
	}
	return m.pollUpstream(e)
}

// task is the Maker's view of a job.
func (e *entry) task() asyncjob.Task {
	return asyncjob.Task{ID: e.id.String(), Kind: e.place.kind, Model: e.place.model, Upstream: e.place.upstream,
		Target: e.place.target, Handle: e.handle, Account: uint64(e.account)}
}

// pollUpstream polls an upstream.
func (m *Machine) pollUpstream(e *entry) time.Duration {
	t := m.terms.Load()
	switch {
	case m.isReleased(e):
		return m.schedule(e, cancel, 0)
	case now().Sub(e.created) > t.Timeout:
		return m.timeOut(e)
	case len(e.handle) == 0:
		// An upstream that answers with the media was asked, and the process died.
		return m.fail(e, failure{why: "interrupted", alarm: true, message: messageUnknown})
	}
	ctx, done := context.WithTimeout(m.ctx, askLimit)
	defer done()
	m.mu.Lock()
	e.asked, e.poked = now(), false
	m.mu.Unlock()
	m.stats.polls.Add(1)
	at, err := m.o.Maker.Poll(ctx, e.task())
	if err != nil {
		if m.ctx.Err() == nil {
			m.stats.pollErrors.Add(1)
			m.o.Log.Debug().Err(err).Str("queue_id", e.id.String()).Msg("jobs: the status of a job is unknown")
		}
		e.failures = min(e.failures+1, 1000)
		return m.interval(e, t, 0)
	}
	e.failures = 0
	return m.applyStatus(e, at, t)
}

// applyStatus acts on an upstream's status of a job.
func (m *Machine) applyStatus(e *entry, at *asyncjob.Status, t *Terms) time.Duration {
	switch {
	case at.Failed != nil:
		closeBody(at)
		row, err := m.o.Store.Job(e.id.String())
		switch {
		case err == nil && row.ReleasedUs != 0:
			// A process that has lost the job since may have told the upstream to stop.
			return m.schedule(e, cancel, 0)
		case err != nil && !errors.Is(err, store.ErrNoRow):
			m.note(err)
			return m.interval(e, t, 0)
		}
		return m.fail(e, refusal(at.Failed))
	case at.Done && at.Body != nil:
		_, ok := m.change(e, store.JobStoring, func(*store.JobRow) {}, store.JobSubmitting, store.JobRunning,
			store.JobStoring)
		if !ok {
			closeBody(at)
			return retire
		}
		return m.keep(e, at.Body, at.Type)
	case at.Done:
		if _, ok := m.change(e, store.JobStoring, func(*store.JobRow) {}, store.JobRunning, store.JobStoring); !ok {
			return retire
		}
		m.mu.Lock()
		e.result = slices.Clone(at.Result)
		m.mu.Unlock()
		return m.schedule(e, fetch, 0)
	}
	closeBody(at)
	m.mu.Lock()
	e.progress = int8(min(max(at.Progress, -1), 99))
	m.mu.Unlock()
	return m.interval(e, t, at.Retry)
}

func closeBody(at *asyncjob.Status) {
	if at.Body != nil {
		_ = at.Body.Close()
	}
}

// crowdPolls is how often a second upstreams are asked about jobs that have waited for
// long, however many those are.
const crowdPolls = 100

// longest bounds the time between two questions about one of n jobs that wait.
func (t *Terms) longest(n int64) time.Duration {
	return max(t.PollMax, time.Duration(n)*time.Second/crowdPolls)
}

// interval is when a job's upstream is asked again: after a sixth of its age there, or
// when it wants to be, within the operator's bounds; but not behind its timeout.
func (m *Machine) interval(e *entry, t *Terms, wish time.Duration) time.Duration {
	m.mu.Lock()
	longest := t.longest(m.tally.allMine)
	m.mu.Unlock()
	since := e.begun
	if since.IsZero() {
		since = e.created
	}
	d := now().Sub(since) / 6
	if wish > 0 {
		d = wish
	}
	d = jitter(min(max(d, t.PollMin), longest))
	return max(min(d, e.created.Add(t.Timeout).Sub(now())+time.Millisecond), 0)
}

// backoff is how long to wait after n failures in a row.
func backoff(n uint16) time.Duration { return jitter(min(time.Second<<min(n, 6), time.Minute)) }

// schedule has something else done for a job next.
func (m *Machine) schedule(e *entry, what nextStep, in time.Duration) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	e.next, e.failures = what, 0
	if what != fetch {
		e.result = nil
	}
	return in
}

func (m *Machine) isReleased(e *entry) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return e.released
}

const (
	changeEvery = 100 * time.Millisecond // a store is asked again that does not answer
	changeMost  = 5 * time.Second
	changeLast  = 3 * time.Second // for the rows that are written when the process ends
)

// change writes down that a job that is in one of some states goes over to another one,
// as alter says. False: it is not ours any more, or is elsewhere already, and nothing
// was changed; or the process ends, and the next one finds it as it was. A store that
// does not answer is asked until it does.
func (m *Machine) change(e *entry, to store.JobState, alter func(*store.JobRow), from ...store.JobState) (
	*store.JobRow, bool) {
	var last time.Time
	for wait, unsure := changeEvery, false; ; wait = min(2*wait, changeMost) {
		row, err := m.o.Store.Job(e.id.String())
		switch {
		case errors.Is(err, store.ErrNoRow):
			m.dropForeign(e)
			return nil, false
		case err != nil:
		case row.Owner != m.o.Node || row.Epoch != e.epoch:
			m.dropForeign(e)
			return row, false
		case unsure && row.State == to && !slices.Contains(from, to):
			m.noteRow(e, row)
			return row, true // an earlier try came through, and only its answer did not
		case !slices.Contains(from, row.State):
			return row, false
		default:
			row.Order, row.Detail = nil, nil
			alter(row) // which sees the state that it comes from
			row.State = to
			var ok bool
			if ok, err = m.o.Store.UpdateJob(row, from...); err == nil {
				if !ok && !unsure {
					m.dropForeign(e)
					return row, false
				}
				if ok {
					m.noteRow(e, row)
					return row, true
				}
			}
		}
		unsure = unsure || err != nil
		m.note(err)
		if m.ctx.Err() != nil {
			if last.IsZero() {
				last = now().Add(changeLast)
			} else if now().After(last) {
				return nil, false
			}
			time.Sleep(changeEvery)
			continue
		}
		select {
		case <-time.After(wait):
		case <-m.ctx.Done():
		}
	}
}

// noteRow takes from a row that the job has ended, and that its customer let it go, maybe
// at another node.
func (m *Machine) noteRow(e *entry, row *store.JobRow) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e.released = e.released || row.ReleasedUs != 0
	if row.State.Terminal() {
		m.ended(e)
	}
}

// dropForeign notes that another node has taken a job over: this one thought too long of a
// step, or its session had ended.
func (m *Machine) dropForeign(e *entry) {
	m.stats.lost.Add(1)
	m.o.Log.Warn().Str("queue_id", e.id.String()).Msg("jobs: another node has taken a job over; it is left to that one")
}

// cancel tells an upstream to stop: for a customer who let the job go, or for a job that
// took too long. Only a cost that an upstream confirms not to charge is given back to the
// first; the second is given back in any case.
func (m *Machine) cancel(e *entry) time.Duration {
	free := false
	if len(e.handle) > 0 {
		ctx, done := context.WithTimeout(m.ctx, askLimit)
		defer done()
		m.stats.cancels.Add(1)
		var err error
		free, err = m.o.Maker.Cancel(ctx, e.task())
		if err != nil && m.ctx.Err() != nil {
			return retire
		}
		if err != nil && e.failures < maxCancels {
			e.failures++
			return backoff(e.failures)
		}
		if err != nil {
			m.stats.cancelsLost.Add(1)
			m.o.Log.Warn().Err(err).Str("queue_id", e.id.String()).Str("upstream", e.place.upstream).
				Msg("jobs: an upstream does not say that it has stopped; it may go on and charge for it")
			free = false
		}
	}
	row, ok := m.change(e, store.JobFailed, func(r *store.JobRow) {
		if r.State == store.JobFailed {
			r.Cancel = false // it has ended before
			return
		}
		m.end(r)
		r.Owed, r.Code, r.Error = free, "CANCELLED", messageReleased
	}, store.JobRunning, store.JobStoring, store.JobFailed)
	if !ok && row != nil && row.State == store.JobCompleted && row.MediaType != "" && row.ReleasedUs != 0 {
		return m.schedule(e, discard, 0)
	}
	return retire
}

// discard deletes the media of a job that its customer released.
func (m *Machine) discard(e *entry) time.Duration {
	if err := m.o.Keeper.Delete(m.ctx, e.id.String()); err != nil {
		if m.ctx.Err() != nil {
			return retire
		}
		m.stats.keepErrors.Add(1)
		m.o.Log.Warn().Err(err).Str("queue_id", e.id.String()).Msg("jobs: media cannot be deleted; this is tried again")
		e.failures = min(e.failures+1, 1000)
		return backoff(e.failures)
	}
	m.dropMedia(e, store.JobCompleted)
	return retire
}

// timeOut ends a job that its upstream has not: it is given back, and the upstream is
// told to stop.
func (m *Machine) timeOut(e *entry) time.Duration {
	return m.fail(e, failure{why: "timeout", alarm: true, stop: true, code: "REQUEST_TIMEOUT", message: messageTimeout})
}

// end writes into a row that it has ended.
func (m *Machine) end(r *store.JobRow) {
	r.EndedUs = now().UnixMicro()
	r.ExpiresUs = now().Add(m.terms.Load().Keep).UnixMicro()
	r.Order = []byte{} // the order is not needed any more
}
