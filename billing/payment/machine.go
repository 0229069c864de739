package payment

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"farebox/billing/store"
	"farebox/config/fair"
)

// Store keeps payments (billing.Payments).
type Store interface {
	AddPayment(r *store.PaymentRow, most, mostOfWallet int) (existing *store.PaymentRow, err error)
	Payment(id string) (*store.PaymentRow, error)
	PaymentFits(wallet string, share fair.Owner, most, mostOfWallet int) (bool, error)
	TakePayment(r *store.PaymentRow, owner uint32, untilUs, nowUs int64) (ok bool, err error)
	UpdatePayment(r *store.PaymentRow) (ok bool, err error)
	DuePayments(nowUs int64, most int) ([]*store.PaymentRow, error)
	FreePayments(owner uint32, nowUs int64) error
	TallyPayments() (store.PaymentTally, error)
	CreditPayment(c *store.PaymentCredit) (row *store.PaymentRow, applied bool, err error)
	ReversePayment(c *store.PaymentReversal) (row *store.PaymentRow, applied bool, err error)
	NowUs() int64
}

// Terms are the settings that an operator may change while payments are under way.
type Terms struct {
	MaxPending          int // payments without an outcome, of all wallets; an owner has a fair share
	MaxPendingPerWallet int
	// VerifyTimeout and SettleTimeout are the longest of all facilitators. The client may
	// ask one after the other.
	VerifyTimeout, SettleTimeout time.Duration
}

// Options are the parts and settings of a Machine.
type Options struct {
	Store Store
	Node  uint32 // that drives the payments
	Log   zerolog.Logger
}

// Bounds of a machine.
const (
	// maxSubmits bounds the payments that a node submits at the same time. Each owner has
	// a fair share of it.
	maxSubmits = 64
	// pollsPerSecond and pollsAtOnce bound the background questions to chains.
	pollsPerSecond = 50
	pollsAtOnce    = 8
	// logEvery is the interval between log lines about clients that do not answer.
	logEvery = 10 * time.Second
	// Close waits closeLimit for payments that are under way, and then cutLimit for those
	// that it canceled.
	closeLimit = 10 * time.Second
	cutLimit   = 3 * time.Second
)

// timing has all durations; tests use shorter ones.
type timing struct {
	ask                          time.Duration // one question to a chain
	margin                       time.Duration // of a lease, for the store and for clocks that differ
	findFor, findEvery, findMost time.Duration // after a settlement
	doubtFor                     time.Duration // of questions to the chain before a refusal is believed
	watchEvery, tallyEvery       time.Duration
	pollMin, pollMax             time.Duration // between two polls of a payment
	finalEvery                   time.Duration // between two polls of a credited payment
	goneFor                      time.Duration // without the payment on the chain until its credit is reversed
	repeatFor                    time.Duration // in which a repeat of a credited payment gets the first answer
}

var defaults = timing{
	ask: 20 * time.Second, margin: 30 * time.Second,
	findFor: 20 * time.Second, findEvery: 300 * time.Millisecond, findMost: 3 * time.Second,
	doubtFor:   5 * time.Second,
	watchEvery: time.Second, tallyEvery: 10 * time.Second,
	pollMin: 2 * time.Second, pollMax: 5 * time.Minute,
	finalEvery: 20 * time.Second, goneFor: time.Minute, repeatFor: 24 * time.Hour,
}

// Machine drives the payments of one node to their end, and continues those of other
// processes. Each decision is stored before it is reported, so that a process may be
// killed between any two steps.
type Machine struct {
	o        Options
	t        timing
	settings atomic.Pointer[settings] // nil before the first Configure
	ctx      context.Context
	stop     context.CancelFunc

	mu      sync.Mutex
	ready   bool            // Begin was called
	begun   bool            // the poller is running
	flights map[string]bool // payments that clients of this process submitted
	submits *fair.Space     // places of flights
	closed  bool

	work     sync.WaitGroup // of payments that are under way
	polls    chan struct{}
	loggedNs atomic.Int64 // when logEvery began, Unix ns
	tally    atomic.Pointer[store.PaymentTally]
	stats    counters
}

// New makes a Machine that does nothing until Begin.
func New(o Options) *Machine {
	m := &Machine{o: o, t: defaults, flights: map[string]bool{}, submits: fair.NewRoom(maxSubmits),
		polls: make(chan struct{}, pollsAtOnce)}
	m.ctx, m.stop = context.WithCancel(fair.With(context.Background(), fair.Operator))
	m.tally.Store(&store.PaymentTally{})
	return m
}

// settings are replaced as a whole by a reload.
type settings struct {
	Terms
	client ChainClient
}

func (m *Machine) client() ChainClient { return m.settings.Load().client }

// Client returns the client of the last Configure; nil before the first.
func (m *Machine) Client() ChainClient {
	if s := m.settings.Load(); s != nil {
		return s.client
	}
	return nil
}

// Configure replaces the terms and the client, also for payments that are under way. It
// must be called before anything is submitted.
func (m *Machine) Configure(t Terms, c ChainClient) error {
	m.settings.Store(&settings{t, c})
	return m.start()
}

// Begin continues the payments that earlier processes left, as soon as there is a client.
func (m *Machine) Begin() error {
	m.mu.Lock()
	m.ready = true
	m.mu.Unlock()
	return m.start()
}

func (m *Machine) start() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.begun || m.closed || !m.ready || m.settings.Load() == nil {
		return nil
	}
	if err := m.o.Store.FreePayments(m.o.Node, m.o.Store.NowUs()); err != nil {
		return fmt.Errorf("cannot go on with the payments of the ledger: %w", err)
	}
	m.begun = true
	m.work.Go(m.pollAll)
	return nil
}

// Close refuses new payments, and waits a bounded time for the outcome of those that are
// under way. The next process continues the rest.
func (m *Machine) Close() {
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	done := make(chan struct{})
	go func() { m.work.Wait(); close(done) }()
	limit := time.NewTimer(closeLimit)
	defer limit.Stop()
	for m.underWay() > 0 {
		select {
		case <-limit.C:
		case <-time.After(20 * time.Millisecond):
			continue
		}
		m.o.Log.Warn().Msg("payments: some are still running; the next start continues them")
		break
	}
	m.stop()
	select {
	case <-done:
	case <-time.After(cutLimit):
	}
}

// underWay counts the submissions of clients.
func (m *Machine) underWay() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.flights)
}

// lease is the time in which only this node may settle a payment: longer than all steps
// together.
func (m *Machine) lease() time.Duration {
	t := m.settings.Load()
	return t.VerifyTimeout + t.SettleTimeout + m.t.findFor + 3*m.t.ask + m.t.margin
}

// acquire begins the submission of a payment, unless one is already under way.
func (m *Machine) acquire(id string, from fair.Owner) (ok, full bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.closed:
		return false, true
	case m.flights[id]:
		return false, false
	case !m.submits.Take(from, 1):
		return false, true
	}
	m.flights[id] = true
	return true, false
}

func (m *Machine) finish(id string, from fair.Owner) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.flights, id)
	m.submits.Give(from, 1)
}

// after is the time d from now in microseconds, as rows store it.
func (m *Machine) after(d time.Duration) int64 { return m.o.Store.NowUs() + d.Microseconds() }

// note counts and logs an error of the store; true: there was no error.
func (m *Machine) note(err error) bool {
	if err == nil {
		return true
	}
	m.stats.storeErrors.Add(1)
	m.o.Log.Warn().Err(err).Msg("payments: the store does not answer; it is asked again")
	return false
}
