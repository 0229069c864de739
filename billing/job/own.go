package job

import (
	"io"
	"math/rand/v2"
	"time"

	"farebox/billing/store"
)

const (
	takeEvery   = 5 * time.Second // jobs of nodes that died are looked for
	reloadEvery = time.Minute     // what other nodes did to our jobs
	expireEvery = 30 * time.Second
	purgeEvery  = 10 * time.Minute
	purgeAfter  = 7 * 24 * time.Hour // rows of jobs that ended
	batch       = 200                // rows that a chore takes at a time
	// spread is how far apart the first questions after a start are.
	spread = 5 * time.Millisecond
)

// ending is a body that ends something besides.
type ending struct {
	io.ReadCloser
	then func()
}

func (b *ending) Close() error {
	defer b.then()
	return b.ReadCloser.Close()
}

// newEntry is what is remembered of a row. The caller has mu.
func (m *Machine) newEntry(key id, r *store.JobRow) *entry {
	e := &entry{id: key, place: m.placeOf(r), handle: r.Handle, epoch: r.Epoch, account: r.Account, progress: -1,
		created: time.UnixMicro(r.CreatedUs), released: r.ReleasedUs != 0, slot: -1}
	if r.SubmittedUs != 0 {
		e.begun = time.UnixMicro(r.SubmittedUs)
	}
	switch {
	case r.State == store.JobSubmitting:
		e.errand = submit
	case r.State == store.JobCompleted:
		e.errand = discard
	case r.State == store.JobFailed, e.released:
		e.errand = cancel
	}
	return e
}

// load makes the entries of all jobs that this node owns, and forgets those that it does
// not own any more.
func (m *Machine) load() error {
	began := now()
	rows, err := m.o.Store.JobsOf(m.o.Node)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil
	}
	seen := make(map[id]bool, len(rows))
	wide := min(time.Duration(len(rows))*spread, m.terms.Load().PollMax) + time.Millisecond
	for _, r := range rows {
		key, ok := parseID(r.ID)
		if !ok {
			continue
		}
		seen[key] = true
		if e := m.entries[key]; e != nil {
			if e.epoch == r.Epoch {
				m.letGo(e, r.ReleasedUs != 0)
				continue
			}
			m.forget(e)
		}
		e := m.newEntry(key, r)
		e.due = now().Add(rand.N(wide))
		m.entries[key] = e
		m.wheel.add(e)
		m.rouse(e)
	}
	for key, e := range m.entries {
		if !seen[key] && !e.busy && e.created.Before(began) {
			m.forget(e)
		}
	}
	return nil
}

// forget drops an entry; one that is busy ends by what its step finds. The caller has mu.
func (m *Machine) forget(e *entry) {
	m.wheel.remove(e)
	if m.entries[e.id] == e {
		delete(m.entries, e.id)
	}
}

// letGo notes that the customer of a job let it go. The caller has mu.
func (m *Machine) letGo(e *entry, released bool) {
	if !released || e.released {
		return
	}
	e.released = true
	if !e.busy && (e.errand == ask || e.errand == fetch) {
		e.errand = cancel
	}
	m.hasten(e, now())
}

// take looks for jobs of nodes that died.
func (m *Machine) take() {
	n, err := m.o.Store.TakeJobs(m.o.Node, false)
	if !m.note(err) || n == 0 {
		return
	}
	m.stats.taken.Add(int64(n))
	m.o.Log.Warn().Int("jobs", n).Msg("jobs: those of a node that ended are taken over")
	m.note(m.load())
}

// expire deletes what nobody has fetched in time.
func (m *Machine) expire() {
	for {
		rows, err := m.o.Store.ExpiredJobs(m.o.Node, now().UnixMicro(), batch)
		if !m.note(err) {
			return
		}
		done := 0
		for _, r := range rows {
			if m.ctx.Err() != nil {
				return
			}
			key, ok := parseID(r.ID)
			if !ok {
				continue
			}
			if err := m.o.Keeper.Delete(m.ctx, r.ID); err != nil {
				m.stats.keepErrors.Add(1)
				m.o.Log.Warn().Err(err).Str("queue_id", r.ID).Msg("jobs: expired media cannot be deleted")
				continue
			}
			e := &entry{id: key, epoch: r.Epoch}
			if _, ok := m.change(e, r.State, func(r *store.JobRow) { r.MediaType, r.MediaBytes = "", 0 }, r.State); ok {
				done++
			}
		}
		m.stats.expired.Add(int64(done))
		if len(rows) < batch || done == 0 {
			return
		}
	}
}

// purge removes rows that nobody asks after any more.
func (m *Machine) purge() {
	for m.ctx.Err() == nil {
		n, err := m.o.Store.PurgeJobs(now().Add(-purgeAfter).UnixMicro(), batch)
		if !m.note(err) || n < batch {
			return
		}
	}
}
