package job

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"farebox/billing/store"
	"farebox/config/fair"
)

// Store is where jobs are (store.JobStore, by billing.Jobs).
type Store interface {
	AddJob(r *store.JobRow, sinceUs int64) (existing *store.JobRow, err error)
	DropJob(r *store.JobRow) (gone bool, err error)
	Job(id string) (*store.JobRow, error)
	Jobs(account uint32, behind store.JobPlace, most int) ([]*store.JobRow, error)
	JobsOf(owner uint32) ([]*store.JobRow, error)
	UpdateJob(r *store.JobRow, from ...store.JobState) (ok bool, err error)
	ReleaseJob(id string, nowUs int64) (ok bool, err error)
	PokeJob(id string, nowUs int64) error
	PokedJobs(owner uint32) ([]*store.JobRow, error)
	TakeJobs(owner uint32, own bool) (n int, err error)
	JobTally(owner uint32) ([]store.JobTally, error)
	FinishedTimes(model string, n int) ([]time.Duration, error)
	ExpiredJobs(owner uint32, nowUs int64, most int) ([]*store.JobRow, error)
	PurgeJobs(beforeUs int64, most int) (n int, err error)
}

// Terms are the settings that an operator may change while jobs run.
type Terms struct {
	PollMin, PollMax time.Duration
	Timeout          time.Duration // of a job, from its sale
	PerAccount       int           // jobs of an account that may wait
	Total            int           // jobs of all accounts
	Keep             time.Duration // of media that are not fetched
	AccountBytes     int64         // media of an account, above which it queues nothing more
	TotalBytes       int64         // and of all
	MaxBytes         int64         // of one result
}

// Options are the parts and settings of a Machine.
type Options struct {
	Store  Store
	Maker  Maker
	Keeper Keeper
	Node   uint32 // which owns the jobs that this machine drives
	Shared bool   // other nodes have jobs in the store, too
	Terms  Terms
	Log    zerolog.Logger
}

// FetchLimit bounds the time to fetch media and to keep them.
const FetchLimit = 30 * time.Minute

// Bounds of a machine.
const (
	// maxWorking bounds the steps that are taken at the same time, placeWorking those at
	// one upstream, and makeWorking and fetchWorking those that move media.
	maxWorking   = 128
	placeWorking = 16
	makeWorking  = 32
	fetchWorking = 8
	// askLimit is how long one question to an upstream may take.
	askLimit = 2 * time.Minute
	// patience is how long a client waits for an upstream to take its job. Then the client
	// gets the job anyway: it is sold, and may still fail.
	patience = 30 * time.Second
	// maxSubmits limits the submissions of a job, maxFetches the downloads of its media,
	// and maxCancels the cancellations sent to its upstream.
	maxSubmits = 6
	maxFetches = 6
	maxCancels = 10
	// closeLimit is how long Close waits for steps that are being written down.
	closeLimit = 10 * time.Second
)

// Machine drives the jobs of one node. One goroutine, the scheduler, knows the steps due
// next; steps are taken by others, at most one at a time for a job.
type Machine struct {
	o     Options
	terms atomic.Pointer[Terms]
	ctx   context.Context
	stop  context.CancelFunc

	mu       sync.Mutex
	due      timerHeap
	entries  map[id]*entry
	dropping map[id]bool // whose media is being written off
	places   map[targetKey]*targetKey
	lanes    map[string]*stepLimiter
	queued   []*stepLimiter // with steps that wait for room
	working  int
	selling  map[uint32]int // submissions that are not in the store yet, by account
	sales    int            // all of them
	tally    tally
	timing   map[string]*timing
	closed   bool

	counting sync.Mutex // held while the store counts
	intake   intake

	wake  chan struct{}
	steps sync.WaitGroup
	begun bool
	stats counters
}

// New makes a Machine that does nothing until Begin.
func New(o Options) *Machine {
	m := &Machine{o: o, entries: map[id]*entry{}, dropping: map[id]bool{}, places: map[targetKey]*targetKey{}, lanes: map[string]*stepLimiter{},
		selling: map[uint32]int{}, timing: map[string]*timing{}, wake: make(chan struct{}, 1),
		tally: tally{mine: map[uint32]int64{}, theirs: map[uint32]int64{}, bytes: map[uint32]int64{}}}
	m.ctx, m.stop = context.WithCancel(fair.With(context.Background(), fair.Operator))
	m.Configure(o.Terms)
	return m
}

// Configure changes the terms.
func (m *Machine) Configure(t Terms) { m.terms.Store(&t) }

// Begin takes over the jobs that the process before this one left, those of nodes that
// died, and goes on with them. It must be called before anything is submitted.
func (m *Machine) Begin() error {
	if _, err := m.o.Store.TakeJobs(m.o.Node, true); err != nil {
		return err
	}
	if err := m.load(); err != nil {
		return err
	}
	if err := m.count(0); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.begun = true
	m.chores()
	m.steps.Add(1)
	go m.turn()
	return nil
}

// Close ends the steps under way and waits until their progress is written down;
// the next machine goes on there. An order whose upstream has not answered is treated
// as one of unknown outcome.
func (m *Machine) Close() {
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	m.stop()
	done := make(chan struct{})
	go func() { m.steps.Wait(); close(done) }()
	limit := time.NewTimer(closeLimit)
	defer limit.Stop()
	select {
	case <-done:
	case <-limit.C:
		m.o.Log.Warn().Msg("jobs: some steps do not end and are abandoned; the next start continues their jobs")
	}
}

// chores are the machine's work for no single job. The caller has mu.
func (m *Machine) chores() {
	chore := func(every time.Duration, do func()) {
		e := &entry{chore: do, every: every, due: now().Add(every)}
		m.due.add(e)
	}
	if m.o.Shared {
		chore(takeEvery, m.take)
		chore(reloadEvery, func() { m.note(m.load()) })
		chore(lookEvery, m.readRequests)
	}
	chore(m.tallyEvery(), m.recount)
	chore(expireEvery, m.expire)
	chore(purgeEvery, m.purge)
}

// now is the clock of everything in memory; times in the store are in its microseconds.
func now() time.Time { return time.Now() }

// jitter spreads entries due at the same time over a fifth of d.
func jitter(d time.Duration) time.Duration {
	return d - d/10 + rand.N(max(d/5, 1))
}

// note counts and logs a store that does not answer to a step that is tried again.
func (m *Machine) note(err error) bool {
	if err == nil {
		return true
	}
	m.stats.storeErrors.Add(1)
	m.o.Log.Warn().Err(err).Msg("jobs: the store does not answer; it is asked again")
	return false
}
