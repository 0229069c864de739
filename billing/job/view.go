package job

import (
	"context"
	"errors"
	"time"

	"farebox/billing/money"
	"farebox/billing/store"
)

// View is a job as its customer may see it.
type View struct {
	ID, Kind, Model string
	// State is one of the store's; its customer knows three: a job that is not terminal
	// is processing.
	State store.JobState
	// Progress is in percent, 0 to 99 until the job is completed: its upstream's word, or
	// an estimate from the time.
	Progress int
	Began    time.Time
	Took     time.Duration // until it ended, or until now
	Average  time.Duration // four of five jobs of its model stay below it

	// Of a failed one. Code is machine-readable, Message for people; Suggestion is a
	// prompt that would be taken, Recommend another model. Refunded says that its price
	// is, or will be, given back.
	Code, Message         string
	Suggestion, Recommend string
	Refunded              bool

	// Price is its cost, once that is in the books.
	Price  money.Nano
	Priced bool

	// Of a completed one.
	MediaType  string
	MediaBytes int64
	URL        string // where media.links is on: where it is fetched, without a key
	ExpiresAt  time.Time
	Revoked    bool // links to it are good no more

	Detail []byte // notes of its kind's endpoints from when it was queued
}

// Failed says that nothing was made.
func (v *View) Failed() bool { return v.State == store.JobFailed }

// Completed says that the media can be fetched.
func (v *View) Completed() bool { return v.State == store.JobCompleted }

// View is an account's view of a job of a kind and a model, which may have the name by
// which it was queued: nil if the account has no job of that id, let it go, or where it
// has expired. Its upstream is asked soon.
func (m *Machine) View(account uint32, kind, model, queueID string) (*View, error) {
	key, ok := parseID(queueID)
	if !ok {
		return nil, nil
	}
	r, err := m.o.Store.Job(queueID)
	if errors.Is(err, store.ErrNoRow) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if r.Account != account || r.Kind != kind || r.Model != model && (r.Named == "" || r.Named != model) || !known(r) {
		return nil, nil
	}
	v := m.view(key, r)
	if !r.State.Terminal() && !m.notify(key) && m.o.Shared && r.PokedUs == 0 {
		m.note(m.o.Store.PokeJob(queueID, now().UnixMicro()))
	}
	return v, nil
}

// known says that the customer of a job still has it: it was not released, and is not over.
func known(r *store.JobRow) bool {
	over := r.State == store.JobCompleted && r.MediaType == "" ||
		r.State.Terminal() && r.ExpiresUs != 0 && r.ExpiresUs <= now().UnixMicro()
	return r.ReleasedUs == 0 && !over
}

// view is the customer's view of a row.
func (m *Machine) view(key id, r *store.JobRow) *View {
	v := &View{ID: r.ID, Kind: r.Kind, Model: r.Model, State: r.State, Began: time.UnixMicro(r.CreatedUs),
		Code: r.Code, Message: r.Error, Suggestion: r.Suggestion, Recommend: r.Recommend, Refunded: refunded(r),
		MediaType: r.MediaType, MediaBytes: r.MediaBytes, Detail: r.Detail, ExpiresAt: time.UnixMicro(r.ExpiresUs),
		Revoked: r.LinksUs != 0, Average: m.Average(r.Model), Price: r.Paid.Total(), Priced: r.PaidUs != 0}
	if r.State.Terminal() {
		v.Took = time.UnixMicro(r.EndedUs).Sub(v.Began)
		if r.State == store.JobCompleted {
			v.Progress = 100
		}
		return v
	}
	v.Took = max(now().Sub(v.Began), 0)
	v.Progress = m.progress(key, v)
	return v
}

const (
	// maxLooked is how many jobs of an account are looked at for one page of its list, and
	// lookedAtOnce how many are read at a time.
	maxLooked    = 2000
	lookedAtOnce = 200
)

// List gives jobs of an account that are wanted, newest first, at most most of them, from
// behind a place on. It looks at maxLooked jobs at most, so that a page may have fewer, or
// none. next is where the next page begins; the zero place if this was the last.
func (m *Machine) List(account uint32, behind store.JobPlace, most int, wanted func(*store.JobRow) bool) (
	list []*View, next store.JobPlace, err error) {
	for looked := 0; looked < maxLooked; {
		rows, err := m.o.Store.Jobs(account, behind, lookedAtOnce)
		if err != nil {
			return nil, next, err
		}
		for _, r := range rows {
			behind = r.Place()
			key, ok := parseID(r.ID)
			if !ok || !known(r) || !wanted(r) {
				continue
			}
			if list = append(list, m.view(key, r)); len(list) == most {
				return list, behind, nil
			}
		}
		if len(rows) < lookedAtOnce {
			return list, store.JobPlace{}, nil
		}
		looked += len(rows)
	}
	return list, behind, nil
}

// progress is an upstream's word about a job, or an estimate from the time.
func (m *Machine) progress(key id, v *View) int {
	m.mu.Lock()
	e := m.entries[key]
	said := -1
	if e != nil {
		said = int(e.progress)
	}
	m.mu.Unlock()
	if said >= 0 {
		return min(said, 99)
	}
	return int(min(99, 100*v.Took/max(v.Average, 1)))
}

// Release drops a job for its customer. ok is false where its media cannot be deleted now: then it is
// as before. found is false where it was gone already.
func (m *Machine) Release(ctx context.Context, v *View) (ok, found bool, err error) {
	if v.Completed() {
		if err := m.o.Keeper.Delete(ctx, v.ID); err != nil {
			m.stats.keepErrors.Add(1)
			m.o.Log.Warn().Err(err).Str("queue_id", v.ID).Msg("jobs: media cannot be deleted")
			return false, true, nil
		}
		m.vacate(v.ID)
	}
	found, err = m.Forget(v.ID)
	return err == nil && found, found, err
}

// vacate gives an account its room for the deleted media back, before its next order
// asks for it. Jobs of other nodes they count themselves; where the store does not answer,
// the chores that follow do it.
func (m *Machine) vacate(queueID string) {
	key, ok := parseID(queueID)
	r, err := m.o.Store.Job(queueID)
	if !ok || err != nil || r.Owner != m.o.Node || r.State != store.JobCompleted {
		return
	}
	m.dropOnce(key, r.Account, func() (size int64, done bool) {
		size, r.Order, r.Detail = r.MediaBytes, nil, nil
		r.MediaType, r.MediaBytes = "", 0
		done, err = m.o.Store.UpdateJob(r, store.JobCompleted)
		return size, done && err == nil
	})
}

// Forget drops a job for its customer, and has its media deleted soon.
func (m *Machine) Forget(queueID string) (found bool, err error) {
	found, err = m.o.Store.ReleaseJob(queueID, now().UnixMicro())
	if err != nil || !found {
		return found, err
	}
	key, ok := parseID(queueID)
	if !ok {
		return true, nil
	}
	m.mu.Lock()
	if e := m.entries[key]; e != nil {
		m.markReleased(e, true)
		m.mu.Unlock()
		return true, nil
	}
	m.mu.Unlock()
	r, err := m.o.Store.Job(queueID)
	if err != nil {
		return true, nil // its owner finds it
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.discardReleased(key, r)
	return true, nil
}

// refunded says that a job's cost is, or will be, given back. DIEM of a day that is
// over are not.
func refunded(r *store.JobRow) bool {
	return r.Owed && (r.BackUs == 0 || r.Back.Total() > 0 || r.Paid.Total() == 0)
}
