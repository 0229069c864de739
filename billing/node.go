package billing

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"farebox/billing/calendar"
	"farebox/billing/disk"
	"farebox/billing/journal"
	"farebox/billing/money"
	"farebox/billing/store"
	"farebox/config/background"
)

// node is this process as one of several on a shared store. It spends from
// leases (lease.go), which its queue fetches and gives back (lease_queue.go); it keeps
// its session alive, follows the store's clock and the changes by other nodes
// (feed.go), and stops selling when it may not be this node any more.
type node struct {
	l        *Ledger
	store    store.Shared
	id, name string
	no, inc  uint32
	t        nodeTimes
	relaxed  bool
	grace    time.Duration

	state       atomic.Uint32
	until       atomic.Int64 // relaxed: no hold is opened after this time of the monotonic clock
	live        atomic.Int64 // nodes with a session
	day         atomic.Int32 // UTC day by the store's clock; never goes back
	clock       atomic.Pointer[clockReading]
	away        atomic.Bool  // the store did not answer the last time
	debt        atomic.Int64 // Nano: the debt of all accounts, as of the last heartbeat
	compares    bool         // the clock of this process is a machine's, not a test's
	skewNs      atomic.Int64 // of this machine's clock to the store's, at the last heartbeat
	skews       skewLog
	confirmedNs atomic.Int64 // monotonic clock: when the heartbeat was sent that confirmed the session last

	queue leaseQueue
	feed  feed

	work background.Work
}

// States of a node.
const (
	nodeOpen      uint32 = iota
	nodeSuspended        // leases were taken back; they are counted again
	nodeFenced           // another process has become this node
)

// nodeTimes are the paces of a node; tests set their own.
type nodeTimes struct {
	beat   time.Duration // between heartbeats
	ttl    time.Duration // of the session
	poll   time.Duration // between looks at the feed
	keep   time.Duration // between looks at the leases in use
	idle   time.Duration // money unused for so long goes back
	ask    time.Duration // how long a request waits for the store's answer
	recall time.Duration // how long a request waits for the answers of other nodes at most
	rivals time.Duration // how long it asks them again, since their requests may take the same money
	mono   func() int64  // monotonic clock, ns

	// A manual node has no goroutines; pause runs the others while it waits.
	manual bool
	pause  func()
}

var defaultTimes = nodeTimes{
	beat: 5 * time.Second, ttl: 30 * time.Second, poll: 100 * time.Millisecond, keep: 500 * time.Millisecond,
	idle: 5 * time.Second, ask: 3 * time.Second, recall: 5 * time.Second,
	rivals: 350 * time.Millisecond,
}

// relaxedShare of the session's time is how long a relaxed node opens holds
// after its last heartbeat was sent: the rest is for clocks that run apart.
const relaxedShare = 0.9

// clockReading is the store's clock at a point of the monotonic one.
type clockReading struct{ storeNs, monoNs int64 }

// newNode joins the store. Nothing may have been read of it before: the
// changes from here on come through the feed.
func newNode(l *Ledger, store store.Shared, o *Options) (*node, error) {
	n := &node{l: l, store: store, name: o.NodeName, t: o.times, relaxed: o.Leases.Reclaim == "relaxed",
		compares: o.compares, grace: o.Leases.Grace}
	if n.t.ttl == 0 {
		n.t = defaultTimes
	}
	if n.t.mono == nil {
		n.t.mono = monotonic
	}
	if n.grace == 0 {
		n.grace = 15 * time.Minute
	}
	if n.name == "" {
		n.name, _ = os.Hostname()
	}
	n.queue.init(n)
	var err error
	if n.id, err = loadIdentity(l.dir); err != nil {
		return nil, err
	}
	if err := n.owns(l.journalDir()); err != nil {
		return nil, err
	}
	if n.no, n.inc, err = store.Join(n.id, n.name, n.t.ttl); err != nil {
		return nil, fmt.Errorf("cannot join the shared store: %w", err)
	}
	if n.queue.op, err = store.LastOp(); err != nil {
		return nil, fmt.Errorf("cannot join the shared store: %w", err)
	}
	b, err := n.beat()
	if err != nil {
		return nil, fmt.Errorf("cannot join the shared store: %w", err)
	}
	n.feed.last = b.Feed
	if n.compares {
		if err := farApart("PostgreSQL", time.Duration(n.skewNs.Load())); err != nil {
			return nil, fmt.Errorf("cannot join the shared store: %w", err)
		}
	}
	return n, nil
}

// owns refuses a journal that belongs to another store: a store that has never
// known this node was restored from a backup or is a new one, and would make
// all its charges again.
func (n *node) owns(dir string) error {
	segments, err := disk.List(dir, journal.Suffix)
	if err != nil || len(segments) == 0 {
		return err
	}
	known, err := n.store.Nodes()
	if err != nil {
		return fmt.Errorf("cannot join the shared store: %w", err)
	}
	if slices.ContainsFunc(known, func(k store.NodeRow) bool { return k.ID == n.id }) {
		return nil
	}
	return fmt.Errorf("cannot use %s as node.dir: its journal was written for another store, or for this one before "+
		"it was restored; "+
		"start with an empty node.dir, and keep this one until its charges are settled manually", n.l.dir)
}

// adopt takes over the leases of an earlier process of this node, after its
// charges are applied and its holds are resolved. It is all free then, and
// goes back: accounts that are used again fetch it as needed.
func (n *node) adopt() error {
	list, err := n.store.Funds(nil, n.day.Load())
	if err != nil {
		return fmt.Errorf("cannot read the leases of this node: %w", err)
	}
	var rests []store.Want
	for i := range list {
		f := &list[i]
		rests = append(rests, store.Want{Account: f.Account, Key: f.Key, Day: f.Day, Period: f.Period,
			Amounts: f.Lease})
	}
	for len(rests) > 0 {
		some := rests[:min(len(rests), opBatch)]
		rests = rests[len(some):]
		n.queue.op++
		if _, err := n.store.Return(n.queue.op, some); err != nil {
			return fmt.Errorf("cannot return the leases of the last process: %w", err)
		}
	}
	return nil
}

func (n *node) start() {
	n.l.log.Info().Str("node", n.name).Uint32("number", n.no).Uint32("incarnation", n.inc).
		Msg("joined the shared store")
	if n.t.manual {
		return
	}
	n.work.Every(n.t.beat, func() { _, _ = n.beat() })
	n.work.Every(n.t.poll, func() { n.tick(); n.poll() })
	n.work.Every(n.t.keep, n.keep)
	if n.relaxed {
		n.work.Every(n.t.ttl, n.reclaim)
	}
	n.work.Go(n.queue.run)
}

// shutdown ends the node in order. Its leases go back.
func (n *node) shutdown() error {
	if n.state.Load() == nodeFenced {
		return store.ErrFenced
	}
	if err := n.store.Leave(); err != nil {
		return fmt.Errorf("cannot give the leases back; they return with the next start of this node: %w", err)
	}
	return nil
}

// beat renews the session.
func (n *node) beat() (store.Beat, error) {
	sent := n.t.mono()
	b, err := n.store.Beat(n.t.ttl)
	n.heard(err)
	if err != nil {
		return b, err
	}
	if b.Reclaimed && n.state.CompareAndSwap(nodeOpen, nodeSuspended) {
		n.l.log.Warn().Msg("the leases of this node were taken back while it was away; new requests wait until they " +
			"are counted anew")
		n.queue.wake()
	}
	way := (n.t.mono() - sent) / 2
	n.clock.Store(&clockReading{storeNs: b.NowUs * 1000, monoNs: sent + way})
	n.live.Store(int64(max(1, b.Live)))
	if n.l.redis != nil {
		n.l.redis.SetNodes(b.Live)
	}
	n.tick()
	n.confirmedNs.Store(sent)
	n.debt.Store(int64(b.Debt))
	n.until.Store(sent + int64(float64(n.t.ttl)*relaxedShare))
	n.compare(way)
	return b, nil
}

// compare notes how far this machine's clock is from the store's, read with an
// uncertainty of way ns.
func (n *node) compare(way int64) {
	if !n.compares {
		return
	}
	at, now := n.l.at(), n.now()
	skew := at.Wall - now
	// Written times must not step with each reading.
	if off := at.Mono + n.l.ahead.Load() - now; off > way+readingLeast || off < -way-readingLeast {
		n.l.ahead.Store(now - at.Mono)
	}
	n.skewNs.Store(skew)
	n.skews.report(&n.l.log, "PostgreSQL", time.Duration(skew),
		"days, periods and all that is written follow PostgreSQL's clock")
}

// now is the store's time, which the local clock cannot move.
func (n *node) now() int64 {
	c := n.clock.Load()
	return c.storeNs + n.t.mono() - c.monoNs
}

// tick moves on to the day that it is by the store's clock.
func (n *node) tick() {
	if day := calendar.DayOf(n.now()); day > n.day.Load() {
		n.day.Store(day)
	}
}

// heard notes whether the store answered.
func (n *node) heard(err error) {
	switch {
	case errors.Is(err, store.ErrReclaimed):
	case err == nil:
		if n.away.Swap(false) {
			n.l.log.Info().Msg("the shared store answers again")
		}
	case errors.Is(err, store.ErrFenced):
		if n.state.Swap(nodeFenced) != nodeFenced {
			n.l.log.Error().Str("dir", n.l.dir).
				Msg("another farebox has taken over this node: its directory was copied or restored while it ran. " +
					"This process admits nothing any more; stop it")
		}
	default:
		if !n.away.Swap(true) {
			n.l.log.Error().Err(err).Msg(
				"the shared store does not answer; this node serves requests from its leases")
		}
	}
}

// closed says why no hold may be opened now.
func (n *node) closed() DenialCode {
	switch n.state.Load() {
	case nodeFenced:
		return NodeFenced
	case nodeSuspended:
		return StoreAway
	}
	if n.relaxed && n.t.mono() >= n.until.Load() {
		return StoreAway
	}
	return Admitted
}

// mayExtend says whether the leases are still this node's: others take them
// only after the grace time.
func (n *node) mayExtend() bool {
	return n.state.Load() == nodeOpen &&
		(!n.relaxed || n.t.mono() < n.until.Load()+int64(float64(n.grace)*relaxedShare))
}

// healthy says why the node is of no use to new requests.
func (n *node) healthy() error {
	switch n.closed() {
	case NodeFenced:
		return store.ErrFenced
	case StoreAway:
		return errors.New("the shared store does not answer and the session of this node has ended")
	}
	return nil
}

// reclaim takes back the leases of nodes that are gone for long.
func (n *node) reclaim() {
	if n.t.mono() >= n.until.Load() {
		return // its own session may have ended; it would take its own leases back
	}
	list, err := n.store.Reclaim(n.grace)
	if err != nil {
		n.heard(err)
		return
	}
	for _, r := range list {
		n.l.log.Warn().Str("node", r.Name).Uint32("number", r.No).Str("amount", r.Amount.Total().String()).
			Msg("the leases of a node that is gone were taken back")
	}
}

// sleep waits for d, or until the node ends.
func (n *node) sleep(d time.Duration) {
	if n.t.manual {
		n.t.pause()
		return
	}
	n.work.Sleep(d)
}

// applied is up to which record of this node's journal the store has all.
func (n *node) applied() uint64 { return n.l.project.ledgerSeq.Load() }

// lease begins the lease of an account that comes into memory. This node's
// lease of it in the store is free: it was given back or never used since.
func (n *node) lease(a *AccountState) error {
	applied := n.applied()
	list, err := n.store.Funds([]uint32{a.no}, a.day)
	n.heard(err)
	if err != nil {
		return err
	}
	a.avail = money.Parts{}
	a.lease = &lease{node: n, newDay: true}
	for i := range list {
		f := &list[i]
		switch {
		case f.Key == 0 && f.Day == a.day:
			a.avail = f.Lease
			a.lease.know(a, f, applied)
		default:
			a.lease.rest(store.Want{Account: f.Account, Key: f.Key, Day: f.Day, Period: f.Period, Amounts: f.Lease})
		}
	}
	return nil
}

// identityFile holds the identity of a ledger directory's node. The journal beside
// it and the leases in the store belong to this identity.
const identityFile = "node"

var identityForm = regexp.MustCompile(`^[A-Z2-7]{26}$`)

// loadIdentity reads the identity of a node, or makes one at its first start.
func loadIdentity(dir string) (string, error) {
	path := filepath.Join(dir, identityFile)
	b, err := os.ReadFile(path)
	id := strings.TrimSpace(string(b))
	if err == nil && !identityForm.MatchString(id) {
		return "", fmt.Errorf("cannot use %s: it does not hold the identity of a node; restore it from a backup", path)
	}
	if !errors.Is(err, os.ErrNotExist) {
		return id, err
	}
	segments, err := disk.List(filepath.Join(dir, journalSub), journal.Suffix)
	if err != nil {
		return "", err
	}
	if len(segments) > 0 {
		return "", fmt.Errorf("cannot find %s although there is a journal: restore it from a backup, or start with "+
			"an empty node.dir", path)
	}
	if _, err := os.Stat(filepath.Join(dir, store.DatabaseFile)); err == nil {
		return "", fmt.Errorf("cannot use %s as node.dir: it holds an embedded ledger; choose an empty directory", dir)
	}
	id = rand.Text()
	return id, disk.WriteSecret(path, []byte(id+"\n"))
}
