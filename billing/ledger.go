package billing

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"farebox/billing/disk"
	"farebox/billing/journal"
	"farebox/billing/limits"
	"farebox/billing/replay"
	"farebox/billing/report"
	"farebox/billing/store"
	"farebox/config"
)

// Ledger is the whole of billing in one process: the data directory is its
// alone while it is open.
type Ledger struct {
	dir      string
	buckets  func(key string, c *config.S3) (Bucket, error)
	brand    string
	log      zerolog.Logger
	clock    func() time.Time
	lock     *os.File
	hasher   *hasher
	wallets  *hasher // of wallets' addresses, for the digests of their keys
	store    store.Store
	registry *registry
	journal  *journal.Journal
	project  *projector
	control  *controlServer
	keyed    *replay.Keys
	items    *replay.Values // nil: no items of answers are kept

	responses *replay.Values   // nil: no answers are kept
	unopened  []replay.Options // of an operator's command: stores that it opens to erase only
	redis     *limits.Limits   // the limits of all nodes; nil: limits are this node's own
	node      *node            // on a shared store
	asked     atomic.Pointer[asked]
	steering  steering

	detailNow bool // write detail at once instead of off peak
	idle      bool // opened for an operator's command

	// Of the config; swapped by Configure.
	floor atomic.Int64
	// keyFallthrough: a key's DIEM limit sends requests on to its other money.
	keyFallthrough atomic.Bool
	keyRate        atomic.Pointer[config.Rate]
	limits         atomic.Pointer[config.Limits]
	usage          atomic.Pointer[config.Usage]
	verifying      atomic.Bool
	verification   atomic.Pointer[Verification]

	models struct {
		sync.Mutex
		byID map[string]int
	}
	upstreams struct {
		sync.Mutex
		byID map[string]uint32
	}
	touched    touched
	violations violations
	requests   requestLog
	characters Characters
	keeper     *keeper
	retention  *retention

	reports *report.Reports
	fresh   freshener // for them

	farOff         error        // of an operator's command: why it must not book anything
	ahead          atomic.Int64 // ns that the clock of a shared store is ahead of this process's, see written
	budgets        budgets      // of keys by model and user
	keyBudgets     budgets      // of keys
	addressBudgets budgets      // of clients that try secrets
	tokens         *tokenRoom
	failures       atomic.Bool  // some failure has been noted; until then no budget needs a look
	shortfall      atomic.Int64 // Nano that became debt, since the ledger exists
	debt           atomic.Int64 // Nano that all accounts owe, on an embedded store
	twice          atomic.Int64 // holds that were resolved a second time
	leaked         atomic.Int64 // holds that were forgotten and voided
	lost           atomic.Int64 // settlements that could not be written
	inFlight       inFlight
	operating      sync.Mutex // one change by an operator at a time
	closing        atomic.Bool
	looking        atomic.Bool // Condition waits for the store
}

// Options are the settings and parts of a Ledger.
type Options struct {
	Dir        string // of this process alone; made if missing
	Shared     string // postgres://… of a store that several nodes share; empty: the store is in Dir
	Brand      string // first word of secrets
	Durability string // process (default) or power
	Log        zerolog.Logger
	Clock      func() time.Time // nil: time.Now
	Redis      config.Redis     // shares limits among the nodes of a store; no addresses: limits are per node
	NodeName   string           // on a shared store; empty: the host's name
	Leases     config.Leases    // on a shared store
	// Idempotency; zero: the defaults of the config.
	Idempotency config.Idempotency
	// Responses is how long answers and their items are kept.
	Responses config.Responses

	// Buckets opens the bucket of a key of the config, which exports go to; nil if absent.
	Buckets func(key string, c *config.S3) (Bucket, error)

	// Wait is for the lock of the directory, when another process is about to end.
	Wait time.Duration

	segmentSize int  // of the journal; 0: defaultSegment
	compares    bool // Clock is a machine's, not a test's: it is compared with those of servers
	idle        bool // only for an operator's command: prepare nothing for traffic
	detailNow   bool
	wrapStore   func(store.Store) store.Store
	limits      func(*limits.Options)
	openShared  func() (store.Store, error) // instead of Shared
	storeAhead  time.Duration               // that Shared adds to its server's clock, besides Clock
	times       nodeTimes
}

// ErrInUse is a data directory that another process has open.
var ErrInUse = errors.New("another farebox has this ledger open")

const (
	lockName   = "lock"
	journalSub = "journal"
	lockTries  = 40 // x operatePause
)

// Open takes the directory for this process, brings it to the state of the
// last recorded charge, and starts writing. The order matters: the lock before
// anything is read, the schema before the cursors, the journal's tail cut
// before anything is applied, everything applied before a balance is believed,
// and holds of the dead process resolved before new ones (notes: 2.6).
func Open(o Options) (*Ledger, error) {
	if o.Clock == nil {
		o.Clock, o.compares = time.Now, true
	}
	if o.segmentSize == 0 {
		o.segmentSize = journal.DefaultSize
	}
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return nil, err
	}
	l := &Ledger{
		dir: dir, buckets: o.Buckets, brand: o.Brand, log: o.Log, clock: o.Clock, detailNow: o.detailNow, idle: o.idle,
		fresh: freshener{turn: make(chan struct{}, 1)}, tokens: newTokenRoom(mostTokens),
	}
	l.reports = report.New(reportSource{l})
	l.characters.l = l
	l.characters.stats.Store(&CharacterStats{})
	l.Configure(&config.Config{})
	if o.idle && (o.Shared != "" || o.openShared != nil) {
		return l.openOperator(&o)
	}
	if err := l.open(&o); err != nil {
		return nil, disk.Advise(dir, errors.Join(err, l.abandon()))
	}
	l.journal.Start()
	err = errors.Join(l.recoverHolds(), l.readSteering())
	l.fresh.recovered = l.project.ledgerSeq.Load()
	if err == nil && l.node != nil {
		err = l.node.adopt()
	}
	if err = errors.Join(err, l.project.expire()); err != nil {
		_ = l.journal.Close(false)
		return nil, disk.Advise(dir, errors.Join(err, l.abandon()))
	}
	if !o.idle {
		l.journal.Ready()
	}
	if !o.times.manual {
		l.project.start()
	}
	l.keeper = startKeeper(l)
	l.retention = startRetention(l)
	if o.Redis.Used() && !o.idle {
		if err = l.openLimits(&o); err != nil {
			return nil, errors.Join(err, l.Close())
		}
	}
	if l.node != nil {
		if l.redis != nil {
			l.redis.SetNodes(int(l.node.live.Load()))
		}
		l.node.start()
	}
	return l, nil
}

// openLimits connects to the Redis of the config.
func (l *Ledger) openLimits(o *Options) (err error) {
	// All nodes of a store have its pepper, and no other store has.
	name := l.hasher.digest([]byte("limits"))
	c := limits.Options{
		Redis: o.Redis, Prefix: fmt.Sprintf("%s:limits:%x:", o.Brand, name[:6]), Log: &l.log, Clock: l.at,
	}
	if o.compares {
		var skews skewLog
		c.Skewed = func(skew time.Duration) {
			skews.report(&l.log, "Redis", skew, "limits of days and months begin at Redis's midnight")
		}
	}
	if o.limits != nil {
		o.limits(&c)
	}
	if l.redis, err = limits.Open(&c); err != nil || !o.compares {
		return err
	}
	if err := farApart("Redis", l.redis.Skew()); err != nil {
		return fmt.Errorf("cannot use the Redis of the config: %w", err)
	}
	return nil
}

// Limits are those of all nodes together, in Redis; nil: limits are this node's
// own.
func (l *Ledger) Limits() *limits.Limits { return l.redis }

func (l *Ledger) open(o *Options) error {
	if err := os.MkdirAll(l.journalDir(), 0o700); err != nil {
		return err
	}
	tries := lockTries + int(o.Wait/operatePause)
	if o.idle {
		tries = 0
	}
	if err := l.takeLock(tries); err != nil {
		return err
	}
	if err := l.openStore(o); err != nil {
		return err
	}
	if shared, ok := l.store.(store.Shared); ok {
		var err error
		if l.node, err = newNode(l, shared, o); err != nil {
			return err
		}
	}
	if o.wrapStore != nil {
		l.store = o.wrapStore(l.store)
	}
	var err error
	if l.registry, err = newRegistry(); err != nil {
		return err
	}
	if err := l.loadModels(); err != nil {
		return err
	}
	if err = l.openReplay(o); err != nil {
		return err
	}
	return l.openJournal(o)
}

// openStore opens the store and the secret that keys are hashed with.
func (l *Ledger) openStore(o *Options) (err error) {
	var pepper []byte
	if o.openShared == nil && o.Shared == "" {
		if pepper, err = loadPepper(l.dir); err != nil {
			return err
		}
		l.setPepper(pepper)
		db, err := store.OpenSQLite(l.dir)
		if err == nil {
			l.store = db
		}
		return err
	}
	open := o.openShared
	if open == nil {
		open = func() (store.Store, error) { return store.OpenPostgres(o.Shared, o.storeAhead) }
	}
	db, err := open()
	if err != nil {
		return err
	}
	l.store = db
	if pepper, err = l.store.Pepper(newPepper()); err != nil {
		return fmt.Errorf("cannot read the secret for hashes of keys: %w", err)
	}
	l.setPepper(pepper)
	return nil
}

func (l *Ledger) setPepper(pepper []byte) {
	l.hasher = newHasher(pepper)
	l.wallets = newHasher(l.DeriveSecret("wallet keys"))
}

// takeLock waits a little for an operator's command that has the directory.
func (l *Ledger) takeLock(tries int) (err error) {
	if l.lock, err = os.OpenFile(filepath.Join(l.dir, lockName), os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return err
	}
	for try := 0; ; try++ {
		taken, err := disk.Lock(l.lock)
		if err != nil {
			return fmt.Errorf("cannot lock %s: %w", l.lock.Name(), err)
		}
		if taken {
			return nil
		}
		if try >= tries {
			return ErrInUse
		}
		time.Sleep(operatePause)
	}
}

// abandon closes everything that open has opened.
func (l *Ledger) abandon() (err error) {
	if l.project != nil {
		l.project.closeReaders()
	}
	if l.keyed != nil {
		err = l.keyed.Close()
	}
	for _, kept := range []*replay.Values{l.items, l.responses} {
		if kept != nil {
			err = errors.Join(err, kept.Close())
		}
	}
	if l.registry != nil {
		l.registry.unknown.Close()
	}
	if l.store != nil {
		err = errors.Join(err, l.store.Close())
	}
	if l.lock != nil {
		err = errors.Join(err, l.lock.Close())
	}
	return err
}

// Close writes and projects everything and unlocks the directory. Requests
// must have ended; a hold that is still open is settled at its last progress
// by the next Open.
func (l *Ledger) Close() error {
	if l.closing.Swap(true) {
		return nil
	}
	if l.journal == nil {
		return l.abandon() // an operator's
	}
	if l.control != nil {
		l.control.closeSocket()
	}
	l.retention.work.Close()
	l.keeper.close()
	if l.redis != nil {
		l.redis.Close()
	}
	if l.node != nil {
		l.node.work.Close()
	}
	// Sealed before the last projection: a settlement that came between that
	// and the removal of the segments would be lost without a trace.
	l.journal.Seal()
	l.project.work.Close()
	err := l.project.drain()
	applied := err == nil
	switch {
	case err != nil:
		err = fmt.Errorf("cannot update the store; the journal keeps the missing records: %w", err)
	case l.node != nil:
		err = l.node.shutdown()
	}
	return disk.Advise(l.dir, errors.Join(err, l.journal.Close(applied), l.abandon()))
}

func (l *Ledger) journalDir() string { return filepath.Join(l.dir, journalSub) }

// nodes is how many processes spend from the accounts.
func (l *Ledger) nodes() int64 {
	if l.node == nil {
		return 1
	}
	return max(1, l.node.live.Load())
}

// Configure takes over limits; holds that are open keep theirs.
func (l *Ledger) Configure(c *config.Config) {
	l.floor.Store(int64(c.Billing.MinimumBalance))
	l.keyFallthrough.Store(c.Billing.KeyLimitFallthrough)
	l.requests.configure(&c.Requests)
	limits, usage := c.Limits, c.Usage
	l.limits.Store(&limits)
	l.usage.Store(&usage)
	var keyRate *config.Rate
	if limits.Key != (config.Rate{}) {
		keyRate = &limits.Key
	}
	l.keyRate.Store(keyRate)
}

// Idempotency remembers requests that carry a key.
func (l *Ledger) Idempotency() *replay.Keys { return l.keyed }

// Items are those of answers that requests may refer to; nil: none are kept.
func (l *Ledger) Items() *replay.Values { return l.items }

// Responses are answers that requests may go on from; nil: none are kept.
func (l *Ledger) Responses() *replay.Values { return l.responses }

// leak voids a hold that its owner forgot.
func (l *Ledger) leak(h *Hold) {
	l.leaked.Add(1)
	l.log.Error().Uint64("hold", h.id).Str("key", h.key.ID).
		Msg("a hold was neither settled nor voided; it is voided now")
	h.Void(l.at())
}

// unrecorded is a resolve that the journal did not take: only after Close.
func (l *Ledger) unrecorded(err error) {
	l.lost.Add(1)
	l.log.Error().Err(err).Msg("a charge could not be recorded")
}

// pastDay says whether no charge to a day's DIEM can come any more beyond the
// records up to seq.
func (l *Ledger) pastDay(account uint32, day int32, seq uint64) bool {
	if l.node != nil {
		return true // the rest in a shared store has no holder
	}
	a := l.loaded(account)
	if a == nil {
		return true
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.roll(l.Today())
	if a.day <= day {
		return false
	}
	for h, n := a.open, a.opened; n > 0; h, n = h.next, n-1 {
		if h.day <= day {
			return false
		}
	}
	return a.lastSeq <= seq
}
