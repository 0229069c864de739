package job

import (
	"io"
	"math/rand/v2"
	"time"

	"farebox/billing/store"
)

const (
	takeEvery   = 5 * time.Second // jobs of nodes that died are looked for
	lookEvery   = time.Second     // and those that clients of other nodes ask after
	reloadEvery = time.Minute     // for changes by other nodes to our jobs
	expireEvery = 30 * time.Second
	purgeEvery  = 10 * time.Minute
	purgeAfter  = 7 * 24 * time.Hour // rows of jobs that ended
	batch       = 200                // rows that a chore takes at a time
	// spread is how far apart the first questions after a start are.
	spread = time.Second / crowdPolls
)

// ending is a body that ends something besides.
type ending struct {
	io.ReadCloser
	then func()
}

func (e *ending) Close() error {
	defer e.then()
	return e.ReadCloser.Close()
}

// newEntry is the entry of a row. The caller has mu.
func (m *Machine) newEntry(key id, r *store.JobRow) *entry {
	e := &entry{id: key, place: m.placeOf(r), handle: r.Handle, epoch: r.Epoch, account: r.Account, progress: -1,
		created: time.UnixMicro(r.CreatedUs), released: r.ReleasedUs != 0, waiting: !r.State.Terminal(), slot: -1}
	if r.SubmittedUs != 0 {
		e.begun = time.UnixMicro(r.SubmittedUs)
	}
	switch {
	case r.State == store.JobSubmitting:
		e.next = submit
	case r.State == store.JobCompleted:
		e.next = discard
	case r.State == store.JobFailed, e.released:
		e.next = cancel
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
	wide := min(time.Duration(len(rows))*spread, m.terms.Load().longest(int64(len(rows)))) + time.Millisecond
	for _, r := range rows {
		key, ok := parseID(r.ID)
		if !ok {
			continue
		}
		seen[key] = true
		if e := m.entries[key]; e != nil {
			if e.epoch == r.Epoch {
				m.markReleased(e, r.ReleasedUs != 0)
				continue
			}
			m.forget(e)
		}
		e := m.newEntry(key, r)
		e.due = now().Add(rand.N(wide))
		m.addEntry(e)
		m.due.add(e)
		m.rearm(e)
	}
	for key, e := range m.entries {
		if !seen[key] && !e.busy && e.created.Before(began) {
			m.forget(e)
		}
	}
	return nil
}

// forget drops an entry; one that is busy ends by the result of its step. The caller has mu.
func (m *Machine) forget(e *entry) {
	m.due.remove(e)
	m.dropEntry(e)
}

// markReleased notes that the customer of a job let it go. The caller has mu.
func (m *Machine) markReleased(e *entry, released bool) {
	if !released || e.released {
		return
	}
	e.released = true
	if !e.busy && (e.next == ask || e.next == fetch) {
		e.next = cancel
	}
	m.advance(e, now())
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
	m.note(m.count(0)) // their jobs are ours
}

// readRequests finds requests by clients of other nodes for jobs of this one: to know
// their state, or to drop them.
func (m *Machine) readRequests() {
	rows, err := m.o.Store.PokedJobs(m.o.Node)
	if !m.note(err) {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range rows {
		key, ok := parseID(r.ID)
		if !ok || m.closed {
			continue
		}
		switch e := m.entries[key]; {
		case e == nil:
			m.discardReleased(key, r)
		case r.ReleasedUs != 0:
			m.markReleased(e, true)
		case e.next == ask:
			m.advance(e, e.asked.Add(pokeEvery))
		}
	}
}

// discardReleased has the media of a job deleted that its customer released. The caller has mu.
func (m *Machine) discardReleased(key id, r *store.JobRow) {
	if r.ReleasedUs == 0 || r.Owner != m.o.Node || r.State != store.JobCompleted || r.MediaType == "" || m.closed ||
		m.entries[key] != nil {
		return
	}
	e := m.newEntry(key, r)
	e.due = now()
	m.addEntry(e)
	m.due.add(e)
	m.rearm(e)
}

// expire deletes media that no client has fetched in time.
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
			e := &entry{id: key, epoch: r.Epoch, account: r.Account}
			if m.dropMedia(e, r.State) {
				done++
			}
		}
		m.stats.expired.Add(int64(done))
		if len(rows) < batch || done == 0 {
			return
		}
	}
}

// dropMedia writes down that a job's media are deleted, and counts them no longer. false:
// it could not, or another step is doing it.
func (m *Machine) dropMedia(e *entry, state store.JobState) (ok bool) {
	m.dropOnce(e.id, e.account, func() (size int64, done bool) {
		_, ok = m.change(e, state, func(r *store.JobRow) {
			size = max(size, r.MediaBytes)
			r.MediaType, r.MediaBytes = "", 0
		}, state)
		return size, ok
	})
	return ok
}

// dropOnce counts media no longer that drop has written down as deleted. Two at once would
// both see its bytes, so that the second does nothing.
func (m *Machine) dropOnce(key id, account uint32, drop func() (size int64, done bool)) {
	m.mu.Lock()
	busy := m.dropping[key]
	m.dropping[key] = true
	m.mu.Unlock()
	if busy {
		return
	}
	size, done := drop()
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.dropping, key)
	if done {
		m.tally.keep(account, -size)
	}
}

// purge removes rows of jobs that ended long ago.
func (m *Machine) purge() {
	for m.ctx.Err() == nil {
		n, err := m.o.Store.PurgeJobs(now().Add(-purgeAfter).UnixMicro(), batch)
		if !m.note(err) || n < batch {
			return
		}
	}
}
