package job

import (
	"context"
	"errors"
	"io"
	"strings"
	"time"

	"farebox/billing/store"
	"farebox/config"
	"farebox/config/asyncjob"
)

// fetch brings a job's media here.
func (m *Machine) fetch(e *entry) time.Duration {
	if m.isReleased(e) {
		return m.schedule(e, cancel, 0)
	}
	ctx, done := context.WithTimeout(m.ctx, FetchLimit)
	defer done()
	body, contentType, err := m.o.Maker.Fetch(ctx, e.task(), e.result)
	if err != nil {
		return m.fetchAgain(e, failure{why: "fetch", alarm: true, err: err, message: messageFetch})
	}
	return m.keep(e, body, contentType)
}

// fetchAgain tries once more to get the media, or gives them up.
func (m *Machine) fetchAgain(e *entry, f failure) time.Duration {
	if m.ctx.Err() != nil {
		return retire // the next process asks again
	}
	m.stats.keepErrors.Add(1)
	m.o.Log.Warn().Err(f.err).Str("queue_id", e.id.String()).Str("upstream", e.place.upstream).
		Msg("jobs: a result could not be stored")
	e.failures++
	if e.failures < maxFetches && now().Sub(e.created) < m.terms.Load().Timeout {
		return backoff(e.failures)
	}
	return m.fail(e, f)
}

// keep brings a body into the media store. The job is completed once that has it, on its
// disk.
func (m *Machine) keep(e *entry, body io.ReadCloser, contentType string) time.Duration {
	defer func() { _ = body.Close() }()
	t := m.terms.Load()
	again := m.fetchAgain
	only := len(e.handle) == 0 // its upstream cannot be asked once more
	if only {
		again = m.fail
	}
	contentType, _, _ = strings.Cut(contentType, ";")
	contentType = strings.ToLower(strings.TrimSpace(contentType))
	if !suits(e.place.kind, contentType) {
		return m.fail(e, failure{why: "unfit", alarm: true, err: errors.New("its type is " + contentType),
			message: messageUnfit})
	}
	in := m.intake.expect(body)
	kept := false
	defer func() { in.done(kept) }() // when its row has it
	if counts, err := m.counts(e.account); err == nil {
		in.room = t.TotalBytes - counts.AllBytes
	}
	if in.room <= 0 {
		return again(e, failure{why: "full", alarm: true, err: asyncjob.ErrFull, message: messageFull})
	}
	ctx, done := context.WithTimeout(m.ctx, FetchLimit)
	defer done()
	closed := make(chan struct{})
	stop := context.AfterFunc(ctx, func() { _ = body.Close(); close(closed) })
	defer func() {
		if !stop() {
			<-closed // a body is not closed twice at the same time
		}
	}()
	size, err := m.o.Keeper.Put(ctx, e.id.String(), in, contentType, t.MaxBytes)
	switch {
	case errors.Is(err, asyncjob.ErrUnfit):
		return m.fail(e, failure{why: "unfit", alarm: true, err: err, message: messageUnfit})
	case errors.Is(err, asyncjob.ErrFull):
		return again(e, failure{why: "full", alarm: true, err: err, message: messageFull})
	case err != nil:
		if only && m.ctx.Err() != nil {
			// The next process cannot get it either, but it is the one that says so.
			return retire
		}
		return again(e, failure{why: "fetch", alarm: true, err: err, message: messageFetch})
	}
	kept = true
	m.stats.mediaBytes.Add(size)
	return m.complete(e, contentType, size)
}

// suits says that a body of a type can be the media of a kind.
func suits(kind, contentType string) bool {
	k := config.JobKindOf(kind)
	return k == nil || strings.HasPrefix(contentType, k.Media)
}

// complete ends a job that can be fetched from now on.
func (m *Machine) complete(e *entry, contentType string, size int64) time.Duration {
	row, ok := m.change(e, store.JobCompleted, func(r *store.JobRow) {
		m.end(r)
		r.MediaType, r.MediaBytes = contentType, size
	}, store.JobStoring)
	switch {
	case ok:
		m.stats.completed.Add(1)
		m.mu.Lock()
		m.tally.keep(e.account, size)
		m.mu.Unlock()
		began := row.CreatedUs
		if row.SubmittedUs > 0 {
			began = row.SubmittedUs
		}
		m.noteTime(row.Model, time.Duration(row.EndedUs-began)*time.Microsecond)
		m.o.Log.Info().Str("queue_id", row.ID).Str("model", row.Model).Str("upstream", row.Upstream).
			Int64("bytes", size).Int64("took_ms", (row.EndedUs-row.CreatedUs)/1000).Msg("jobs: a job is completed")
		if row.ReleasedUs != 0 {
			return m.schedule(e, discard, 0)
		}
	case row != nil && row.State == store.JobFailed,
		row == nil && m.ctx.Err() == nil:
		// Its row says that there is nothing: then nothing is to lie about.
		_ = m.o.Keeper.Delete(m.ctx, e.id.String())
	}
	return retire
}
