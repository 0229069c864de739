package job

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"time"

	"farebox/billing/store"
	"farebox/config/asyncjob"
)

// Saturated is that no more jobs are taken for now.
type Saturated struct{ Why string }

func (s *Saturated) Error() string { return s.Why }

// Reservation is the room for one more job, until it is in the store or will not be.
type Reservation struct {
	m       *Machine
	account uint32
	given   bool
}

// Give gives the room back, once.
func (r *Reservation) Give() {
	r.m.mu.Lock()
	defer r.m.mu.Unlock()
	r.give()
}

// give is Give. The caller has mu.
func (r *Reservation) give() {
	if r == nil || r.given {
		return
	}
	r.given = true
	r.m.sales--
	if r.m.selling[r.account]--; r.m.selling[r.account] == 0 {
		delete(r.m.selling, r.account)
	}
}

// Reserve takes room for one more job of an account, or says that it is full with a
// *Saturated.
func (m *Machine) Reserve(account uint32) (*Reservation, error) {
	t := m.terms.Load()
	m.mu.Lock()
	if m.closed || !m.begun {
		m.mu.Unlock()
		return nil, &Saturated{"The service is restarting."}
	}
	m.mu.Unlock()
	counts, err := m.counts(account)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	// The results of other sales are seen here, all at the same moment.
	waiting := m.tally.mine[account] + m.tally.theirs[account] + int64(m.selling[account])
	switch {
	case waiting >= int64(t.PerAccount):
		return nil, &Saturated{fmt.Sprintf("This account has %d jobs waiting, which is as many as it may have.", waiting)}
	case m.tally.allMine+m.tally.allTheirs+int64(m.sales) >= int64(t.Total):
		return nil, &Saturated{"The queue is saturated."}
	case counts.Bytes >= t.AccountBytes:
		return nil, &Saturated{"This account has reached its limit of stored media; release jobs that you no longer need."}
	case counts.AllBytes >= t.TotalBytes:
		return nil, &Saturated{"The queue is saturated: there is no space for results."}
	}
	m.selling[account]++
	m.sales++
	return &Reservation{m: m, account: account}, nil
}

// maxKeptOrder is the longest order that is written down with its job, so that it can be
// handed over again. Longer ones carry pictures or films of their clients, up to all of a
// request's 35 MB, which would go through the ledger's database twice a job.
const maxKeptOrder = 256 << 10

// Sell adds the row of a job whose charge is prepared: from then on it is sold. Where
// the same request has sold one since a time already, that one is given.
func (m *Machine) Sell(row *store.JobRow, sinceUs int64) (existing *store.JobRow, err error) {
	order := row.Order
	defer func() { row.Order = order }()
	row.Tries = 1
	switch {
	case len(order) > maxKeptOrder: // only this process can hand it over, and at once
		row.Order = nil
	case m.atOnce(row):
		row.Tries = 0
	}
	return m.o.Store.AddJob(row, sinceUs)
}

// atOnce says that the upstreams of a job answer with the media.
func (m *Machine) atOnce(row *store.JobRow) bool {
	return m.o.Maker.AtOnce(row.Kind, row.Model)
}

// Outcome is the outcome of a sold job.
type Outcome struct {
	// Dropped says that it was not sold after all: its upstream refused it.
	Dropped bool
	// Upstream has it; empty: not known yet.
	Upstream string
	// Refused is why; also of a job that stays, and is given back.
	Refused *asyncjob.Refused
	// Undecided says that its upstream refused it, and that it is unknown whether its
	// row is there still: it is neither to be charged nor to be forgotten; the next start
	// does the one or the other.
	Undecided bool
	// Unknown says that its upstream may have it, but it was given up and is given back.
	Unknown error
}

// Submit has an upstream asked for a job that was sold with Sell, and gives its room back.
// Without a refusal, it is the machine's from here on.
func (m *Machine) Submit(row *store.JobRow, room *Reservation) Outcome {
	e := m.adopt(row, room)
	if e == nil { // the scheduler has it submitted, or the next process does
		return Outcome{}
	}
	f := &initialSubmit{done: make(chan Outcome, 1)}
	go m.submitFirst(e, row, f)
	limit := time.NewTimer(patience)
	defer limit.Stop()
	select {
	case o := <-f.done:
		return o
	case <-limit.C:
	}
	if f.answered.CompareAndSwap(false, true) {
		return Outcome{}
	}
	return <-f.done
}

// initialSubmit is a submission that a client waits for.
type initialSubmit struct {
	done chan Outcome
	// answered is set by the client that waits no longer, for which the job is sold now,
	// or by the one that drops the job, for which it is not.
	answered atomic.Bool
}

// adopt makes the entry of a job that was sold here. nil: its client need not wait.
func (m *Machine) adopt(row *store.JobRow, room *Reservation) *entry {
	key, ok := parseID(row.ID)
	m.mu.Lock()
	defer m.mu.Unlock()
	room.give() // it counts as one that waits from here on
	if m.closed || !ok {
		return nil
	}
	e := m.newEntry(key, row)
	m.addEntry(e)
	if row.Tries == 0 {
		e.due = now()
		m.due.add(e)
		m.rearm(e)
		return nil
	}
	e.next, e.busy = ask, true
	m.steps.Add(1) // for the one that submits it
	return e
}

// submitFirst asks an upstream while a client waits.
func (m *Machine) submitFirst(e *entry, row *store.JobRow, f *initialSubmit) {
	defer m.steps.Done()
	next, out := retire, Outcome{}
	defer func() {
		m.mu.Lock()
		m.after(e, next)
		m.mu.Unlock()
		f.done <- out
	}()
	t := e.task()
	t.Order, t.Asking = row.Order, m.asking(e)
	sub, err := m.submit(t)
	if vague := new(asyncjob.Unknown); len(t.Order) > maxKeptOrder && errors.As(err, &vague) {
		vague.Again = false // the order is not kept
	}
	refusal := refusedWith(err)
	if refusal != nil && f.answered.CompareAndSwap(false, true) {
		gone, err := m.o.Store.DropJob(row)
		switch {
		case err != nil:
			// The ledger closes: the next start finds the job, or does not.
			m.note(err)
			out = Outcome{Refused: refusal, Undecided: true}
			return
		case gone:
			out = Outcome{Dropped: true, Refused: refusal}
			return
		default:
			m.dropForeign(e)
		}
		out = Outcome{Refused: refusal}
		return
	}
	next, out = m.submitted(e, sub, err)
}

// asking is the function that the Maker calls before it hands an order over: the row names the
// upstream then, if that takes it once, so that the next owner of the job hands it
// over again. Else it names none, and an order under way is of unknown outcome.
func (m *Machine) asking(e *entry) func(upstream, target string, again bool) bool {
	return func(upstream, target string, again bool) bool {
		if !again {
			upstream, target = "", ""
		}
		if upstream == e.place.upstream && target == e.place.target {
			return true
		}
		row, ok := m.change(e, store.JobSubmitting, func(r *store.JobRow) {
			r.Upstream, r.Target = upstream, target
		}, store.JobSubmitting)
		if ok {
			m.mu.Lock()
			e.place = m.placeOf(row)
			m.mu.Unlock()
		}
		return ok
	}
}

// submit asks the Maker, whose panics count as unreadable answers.
func (m *Machine) submit(t asyncjob.Task) (sub *asyncjob.Submitted, err error) {
	defer func() {
		if v := recover(); v != nil {
			m.stats.panics.Add(1)
			m.o.Log.Error().Interface("panic", v).Bytes("stack", debug.Stack()).Str("queue_id", t.ID).
				Msg("jobs: a submission panicked")
			sub, err = nil, &asyncjob.Unknown{Err: errors.New("it panicked")}
		}
	}()
	ctx, done := context.WithTimeout(m.ctx, FetchLimit)
	// A body that comes with the answer is read in this context, whose end is then that
	// of the process.
	defer func() {
		if sub == nil || sub.Done == nil || sub.Done.Body == nil {
			done()
		} else {
			sub.Done.Body = &ending{sub.Done.Body, done}
		}
	}()
	m.stats.submits.Add(1)
	return m.o.Maker.Submit(ctx, t)
}

// resubmit hands over an order that waited for its turn, or whose outcome is not known
// and whose upstream takes it once, however often it comes.
func (m *Machine) resubmit(e *entry) time.Duration {
	row, err := m.o.Store.Job(e.id.String())
	switch {
	case errors.Is(err, store.ErrNoRow):
		m.dropForeign(e)
		return retire
	case !m.note(err):
		return backoff(1)
	case row.Owner != m.o.Node || row.Epoch != e.epoch:
		m.dropForeign(e)
		return retire
	case row.State != store.JobSubmitting:
		return m.schedule(e, ask, 0)
	case row.Tries > 0 && row.Upstream == "":
		return m.fail(e, unknown(errors.New("the process ended while its upstream was asked")))
	case len(row.Order) == 0:
		return m.fail(e, unknown(errors.New("its order is not kept: it was too large, or another process handed it over")))
	case row.Tries >= maxSubmits || now().Sub(e.created) > m.terms.Load().Timeout:
		return m.fail(e, unknown(errors.New("its upstream does not answer")))
	case row.Tries == 0 && row.ReleasedUs != 0:
		return m.fail(e, failure{why: "released", code: "CANCELLED", message: messageReleased})
	}
	order := row.Order
	if _, ok := m.change(e, store.JobSubmitting, func(r *store.JobRow) { r.Tries++ }, store.JobSubmitting); !ok {
		return retire
	}
	t := e.task()
	t.Order, t.Asking = order, m.asking(e)
	sub, err := m.submit(t)
	next, _ := m.submitted(e, sub, err)
	return next
}

// unknown is the end of an order whose arrival at its upstream is uncertain.
func unknown(err error) failure {
	return failure{why: "unknown", alarm: true, err: err, message: messageUnknown}
}

// submitted acts on the result of an order.
func (m *Machine) submitted(e *entry, sub *asyncjob.Submitted, err error) (time.Duration, Outcome) {
	var vague *asyncjob.Unknown
	rejection := refusedWith(err)
	switch {
	case err == nil && sub != nil:
		return m.accepted(e, sub), Outcome{Upstream: sub.Upstream}
	case rejection != nil:
		return m.fail(e, refusal(rejection)), Outcome{Refused: rejection}
	case errors.As(err, &vague) && vague.Again:
		row, ok := m.change(e, store.JobSubmitting, func(r *store.JobRow) {
			r.Upstream, r.Target = vague.Upstream, vague.Target
		}, store.JobSubmitting)
		if !ok {
			return retire, Outcome{}
		}
		m.stats.again.Add(1)
		m.o.Log.Warn().Err(vague.Err).Str("queue_id", row.ID).Str("upstream", row.Upstream).
			Msg("jobs: it is unknown whether an upstream has a job; it is submitted again with the same key")
		m.settle(e, row)
		return m.schedule(e, submit, backoff(uint16(max(row.Tries-1, 0)))), Outcome{}
	}
	if err == nil {
		err = errors.New("the upstream gives no answer")
	}
	if vague != nil {
		m.mu.Lock()
		e.place = m.placeOf(&store.JobRow{Kind: e.place.kind, Model: e.place.model, Upstream: vague.Upstream,
			Target: vague.Target})
		m.mu.Unlock()
	}
	return m.fail(e, unknown(err)), Outcome{Unknown: err}
}

// accepted writes down that an upstream has a job, before its client gets an answer.
func (m *Machine) accepted(e *entry, sub *asyncjob.Submitted) time.Duration {
	to := store.JobRunning
	if sub.Done != nil && sub.Done.Done && sub.Done.Body != nil {
		to = store.JobStoring
	}
	row, ok := m.change(e, to, func(r *store.JobRow) {
		r.Upstream, r.Target, r.Handle = sub.Upstream, sub.Target, sub.Handle
		r.SubmittedUs, r.Order = now().UnixMicro(), []byte{}
		if to == store.JobStoring {
			r.SubmittedUs = r.CreatedUs // making the media took until now
		}
	}, store.JobSubmitting)
	if !ok {
		if sub.Done != nil {
			closeBody(sub.Done)
		}
		if row != nil {
			m.abandon(e, sub)
		}
		return retire
	}
	m.settle(e, row)
	m.schedule(e, ask, 0)
	t := m.terms.Load()
	if sub.Done != nil {
		if m.isReleased(e) && sub.Done.Body == nil {
			return m.schedule(e, cancel, 0)
		}
		if sub.Done.Body != nil && sub.Done.Done {
			return m.keep(e, sub.Done.Body, sub.Done.Type)
		}
		return m.applyStatus(e, sub.Done, t)
	}
	if m.isReleased(e) {
		return m.schedule(e, cancel, 0)
	}
	return m.interval(e, t, 0)
}

// settle takes over where a row says that its job is made.
func (m *Machine) settle(e *entry, row *store.JobRow) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e.place, e.handle, e.begun = m.placeOf(row), row.Handle, now()
}

// abandon stops a job at an upstream whose row went elsewhere meanwhile: no node will ask
// after it. It is tried a few times.
func (m *Machine) abandon(e *entry, sub *asyncjob.Submitted) {
	t := e.task()
	t.Upstream, t.Target, t.Handle = sub.Upstream, sub.Target, sub.Handle
	for n := range uint16(3) {
		ctx, done := context.WithTimeout(m.ctx, askLimit)
		_, err := m.o.Maker.Cancel(ctx, t)
		done()
		if err == nil || m.ctx.Err() != nil {
			return
		}
		select {
		case <-time.After(backoff(n)):
		case <-m.ctx.Done():
			return
		}
	}
}

// refusedWith is the refusal that an error is; nil if it is not one. A refusal within an Unknown
// says nothing of the order as a whole.
func refusedWith(err error) *asyncjob.Refused {
	var refusal *asyncjob.Refused
	if errors.As(err, new(*asyncjob.Unknown)) || !errors.As(err, &refusal) {
		return nil
	}
	return refusal
}
