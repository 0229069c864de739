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

// Store is where payments are (billing.Payments).
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

// Terms are what an operator may change while payments are under way.
type Terms struct {
	MaxPending          int // payments without an outcome, of all wallets; an owner has a fair share
	MaxPendingPerWallet int
	// VerifyTimeout and SettleTimeout are the longest of all facilitators. The client may
	// ask one after the other.
	VerifyTimeout, SettleTimeout time.Duration
}

// Options are what a Machine works with.
type Options struct {
	Store Store
	Node  uint32 // that drives the payments
	Log   zerolog.Logger
}

// Bounds of a machine.
const (
	// maxSubmits is how many payments may be under way at a node at a time. Whoever
	// submits them has a fair share of it.
	maxSubmits = 64
	// looksPerSecond and looksAtOnce bound what the recoverer asks chains.
	looksPerSecond = 50
	looksAtOnce    = 8
	// tellEvery is how often it is logged that nobody answers.
	tellEvery = 10 * time.Second
	// closeLimit is how long Close waits for payments that are under way, cutLimit how
	// long for those that it cut off.
	closeLimit = 10 * time.Second
	cutLimit   = 3 * time.Second
)

// timing is how long things take; tests have less time.
type timing struct {
	ask                          time.Duration // one question to a chain
	margin                       time.Duration // of a lease, for the store and for clocks that differ
	findFor, findEvery, findMost time.Duration // after a settlement
	doubtFor                     time.Duration // that the chain is asked after a refusal before it is believed
	watchEvery, tallyEvery       time.Duration
	lookMin, lookMost            time.Duration // between two looks at a payment
	finalEvery                   time.Duration // between two looks at a credited one
	goneFor                      time.Duration // that the chain must not have it to be gone
	repeatFor                    time.Duration // that a credited payment is answered as at first
}

var usual = timing{
	ask: 20 * time.Second, margin: 30 * time.Second,
	findFor: 20 * time.Second, findEvery: 300 * time.Millisecond, findMost: 3 * time.Second,
	doubtFor:   5 * time.Second,
	watchEvery: time.Second, tallyEvery: 10 * time.Second,
	lookMin: 2 * time.Second, lookMost: 5 * time.Minute,
	finalEvery: 20 * time.Second, goneFor: time.Minute, repeatFor: 24 * time.Hour,
}

// Machine brings the payments of one node to their end, and looks after those that
// other processes left. Whatever it decides stands in the store before anybody hears of
// it, so that a process may die between any two steps.
type Machine struct {
	o        Options
	t        timing
	settings atomic.Pointer[settings] // nil before the first Configure
	ctx      context.Context
	stop     context.CancelFunc

	mu      sync.Mutex
	ready   bool            // Begin was called
	begun   bool            // the watch is running
	flights map[string]bool // payments that clients of this process submitted
	submits *fair.Room      // places of flights
	closed  bool

	work  sync.WaitGroup // what is under way
	looks chan struct{}
	told  atomic.Int64 // when it was last logged that nobody answers, Unix ns
	tally atomic.Pointer[store.PaymentTally]
	stats counters
}

// New makes a Machine that does nothing until Begin.
func New(o Options) *Machine {
	m := &Machine{o: o, t: usual, flights: map[string]bool{}, submits: fair.NewRoom(maxSubmits),
		looks: make(chan struct{}, looksAtOnce)}
	m.ctx, m.stop = context.WithCancel(fair.With(context.Background(), fair.Operator))
	m.tally.Store(&store.PaymentTally{})
	return m
}

// settings are what a reload replaces as a whole.
type settings struct {
	Terms
	client ChainClient
}

func (m *Machine) client() ChainClient { return m.settings.Load().client }

// Client is that of the last Configure; nil before the first.
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
	m.work.Go(m.watch)
	return nil
}

// Close takes no more payments, and waits until those that are under way have an
// outcome, for a bounded time. The next process goes on with what is left.
func (m *Machine) Close() {
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	done := make(chan struct{})
	go func() { m.work.Wait(); close(done) }()
	limit := time.NewTimer(closeLimit)
	defer limit.Stop()
	for m.under() > 0 {
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

// under is how many payments of clients are under way.
func (m *Machine) under() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.flights)
}

// lease is how long nobody else may be at a payment that is being settled: longer than
// all steps together.
func (m *Machine) lease() time.Duration {
	t := m.settings.Load()
	return t.VerifyTimeout + t.SettleTimeout + m.t.findFor + 3*m.t.ask + m.t.margin
}

// enter says that a client's submission is under way here, unless one is already.
func (m *Machine) enter(id string, from fair.Owner) (ok, full bool) {
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

func (m *Machine) leave(id string, from fair.Owner) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.flights, id)
	m.submits.Give(from, 1)
}

// after is a time that much from now, as rows have it.
func (m *Machine) after(d time.Duration) int64 { return m.o.Store.NowUs() + d.Microseconds() }

// note counts and logs a store that does not answer.
func (m *Machine) note(err error) bool {
	if err == nil {
		return true
	}
	m.stats.storeErrors.Add(1)
	m.o.Log.Warn().Err(err).Msg("payments: the store does not answer; it is asked again")
	return false
}
