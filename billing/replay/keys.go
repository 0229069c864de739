package replay

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"farebox/config"
	"farebox/config/fair"
)

// Keys remembers requests that carry an Idempotency-Key (addendum 13): a
// repetition under the same key within the window gets the first answer again,
// is not carried out, and not charged.
type Keys struct {
	store     store
	node      uint32
	boot      uint64 // tells this process from an earlier one of its node
	maxAnswer int
	log       zerolog.Logger
	now       func() int64 // Unix ns

	mu      sync.Mutex
	flights map[requestID]*flight

	recording atomic.Int64 // bytes of answers that are being recorded

	stats counters
}

// store keeps the records of keys, for one window each.
type store interface {
	// find returns the record in the way of p, nil for none, and writes nothing. A
	// pending request whose process is dead does not block its own
	// repetition, unless it writes.
	find(p *record) (*record, error)
	// begin writes p down, unless find gives something: then it gives that. errFull
	// says that the owner of p has its share of the store.
	begin(p *record, durable bool) (found *record, err error)
	// finish replaces p by done, or by nothing when done is nil. errTaken says
	// that another process has taken the request over. With errLater the store
	// cannot say now, and calls ended once it has an answer.
	finish(p, done *record, ended func()) error
	// load returns the records of ids, each nil for none.
	load(ids ...requestID) ([]*record, error)
	// drop removes a kept record; r is a forgotten record in its place.
	drop(r *record) error
	// keep writes down a record that no request waits for. errFull says that its owner has its share.
	keep(r *record) error
	// erase removes all that was kept for an account.
	erase(account uint32) (int64, error)
	close() error
}

// The ways in which a keyed request cannot go on.
var (
	ErrReused   = errors.New("the idempotency key was used with another request")
	ErrBusy     = errors.New("the first request with this idempotency key is still under way")
	ErrTooLarge = errors.New("the first answer under this idempotency key was too large to keep")
	ErrAway     = errors.New("idempotency keys cannot be looked up now")
	// ErrUnknown says that the first request may have made its changes outside: its
	// process died, or its answer was lost.
	ErrUnknown = errors.New("whether the first request with this idempotency key was carried out is not known")
	ErrFull    = errors.New("the owner of the request has its share of all idempotency keys")
	// ErrLost says that another node claimed the key first.
	ErrLost = errors.New("another node carries the keyed request out")

	errFull  = errors.New("a share of the store of idempotency keys is used up")
	errTaken = errors.New("somebody else has taken the keyed request over")
	errLater = errors.New("the keyed request ends when its store is back")
)

// flight is a keyed request that this process leads or looks up. Others with
// the same key wait until it is over.
type flight struct {
	fingerprint [32]byte
	over        chan struct{}
}

const (
	// pollEvery is how often a request that another node leads is looked at.
	pollEvery = 50 * time.Millisecond
	// patienceSlack is added to a leader's patience before others count it as dead.
	patienceSlack = 2 * time.Second
	// recordingMost bounds the answers that are recorded on their way, all
	// together: beyond it an answer counts as too large to be kept.
	recordingMost = 256 << 20
	// MaxKeyLength is the longest idempotency key (interface.md, Limits).
	MaxKeyLength = 255
)

type counters struct {
	led, replayed, reused, busy, away, full, free atomic.Int64
}

// Stats are figures of requests with an idempotency key.
type Stats struct {
	Led      int64 // carried out
	Replayed int64
	Reused   int64 // refused: another request under the same key
	Busy     int64 // refused: the first one took too long
	Away     int64 // refused: the store did not answer
	Full     int64 // refused: the owner has its share of the store
	Free     int64 // carried out but not charged, since the answer could not be kept
}

// Options are the settings of Keys.
type Options struct {
	Config config.Idempotency // zero: the defaults
	Dir    string             // of the node's data
	Folder string             // of the files, in Dir; empty: that of the answers
	Power  bool               // kept records survive a power cut, too
	Idle   bool               // for an operator's command: no request will come

	// Redis, where it is used, keeps the answers of all nodes of a store
	// together, under names that begin with Prefix.
	Redis  config.Redis
	Prefix string

	Node uint32 // number of this node
	Log  zerolog.Logger
	Now  func() int64 // Unix ns
}

// Open opens the config's store: files in the node's directory, or Redis.
func Open(o Options) (*Keys, error) {
	if o.Config == (config.Idempotency{}) {
		o.Config = config.Default[config.Idempotency]()
	}
	k := &Keys{
		node: o.Node, boot: newBoot(rand.Uint64()), maxAnswer: int(o.Config.MaxAnswer), log: o.Log, now: o.Now,
		flights: map[requestID]*flight{},
	}
	var err error
	if k.store, err = openStore(&o, k.boot); err != nil {
		return nil, err
	}
	return k, nil
}

func openStore(o *Options, boot uint64) (store, error) {
	if o.Redis.Used() {
		return openRedis(o, boot), nil
	}
	files, err := openFiles(o)
	if err != nil {
		return nil, err
	}
	return files, nil
}

// ValidKey says whether a client may use text as an idempotency key: 1 to 255
// of A-Z, a-z, 0-9, _ and - (interface.md, Limits).
func ValidKey(text []byte) bool {
	if len(text) == 0 || len(text) > MaxKeyLength {
		return false
	}
	for _, c := range text {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '_' && c != '-' {
			return false
		}
	}
	return true
}

// requestID identifies an account and its key.
type requestID = [16]byte

// Claim is a request with a key.
type Claim struct {
	Account uint32     // its number
	Caller  int64      // number of the account's API key: another one has keys of its own
	Owner   fair.Owner // whose share of the store the key and its answer use
	Key     []byte     // valid by ValidKey
	// Fingerprint is a hash of the request's path and body.
	Fingerprint [32]byte
	// Patience is how long carrying it out can take at most; a leader on
	// another node that takes longer counts as dead.
	Patience time.Duration
	// Wait is how long to wait for a leader.
	Wait time.Duration
	// Write says that the request changes something outside, and must not be carried
	// out twice: it is on disk as begun before Lead.Claim returns, and its record
	// then outlives its process.
	Write bool
}

// RequestID is the id under which the request is charged. It is made of the
// account, its API key and the idempotency key, so that all tries of a request have
// the same, and no API key gets the answer to another.
func (c *Claim) RequestID() [16]byte {
	b := make([]byte, 0, 32+MaxKeyLength)
	b = append(b, "farebox idempotency\x00"...)
	b = binary.LittleEndian.AppendUint32(b, c.Account)
	b = binary.LittleEndian.AppendUint64(b, uint64(c.Caller))
	b = append(b, c.Key...)
	sum := sha256.Sum256(b)
	return requestID(sum[:16])
}

// Begin looks a key up, and writes nothing. It gives one of three: the answer of the
// first request with this key; an error; or the lead of a request of which nothing is
// known. Others of this process with the same key wait until that ends.
func (k *Keys) Begin(c *Claim) (*Lead, *Answer, error) {
	id := c.RequestID()
	deadline := time.NewTimer(max(c.Wait, 0))
	defer deadline.Stop()
	for {
		f, other := k.join(id, c.Fingerprint)
		if f == nil {
			if other.fingerprint != c.Fingerprint {
				k.stats.reused.Add(1)
				return nil, nil, ErrReused
			}
			select {
			case <-other.over:
				continue
			case <-deadline.C:
				k.stats.busy.Add(1)
				return nil, nil, ErrBusy
			}
		}
		l := k.newLead(id, f, c)
		answer, err := l.find(deadline.C)
		if answer != nil || err != nil {
			l.abandon()
			return nil, answer, err
		}
		return l, nil, nil
	}
}

// join makes the caller the only one of this process that is busy with id, or
// returns the flight that is.
func (k *Keys) join(id requestID, fingerprint [32]byte) (mine, other *flight) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if other = k.flights[id]; other != nil {
		return nil, other
	}
	mine = &flight{fingerprint: fingerprint, over: make(chan struct{})}
	k.flights[id] = mine
	return mine, nil
}

func (k *Keys) endFlight(id requestID, f *flight) {
	k.mu.Lock()
	delete(k.flights, id)
	k.mu.Unlock()
	close(f.over)
}

// Kept says whether the request of a hold whose process died ended with an
// answer that was kept.
func (k *Keys) Kept(id [16]byte, hold uint64) bool {
	list, err := k.store.load(id)
	if err != nil {
		k.log.Error().Err(err).Hex("request_id", id[:]).
			Msg("cannot find out whether a keyed request was answered when the last process died; it is not charged")
		return false
	}
	found := list[0]
	return found != nil && found.kind == kindDone && found.node == k.node && found.token == hold
}

// Stats reads the figures.
func (k *Keys) Stats() Stats {
	s := &k.stats
	return Stats{
		Led: s.led.Load(), Replayed: s.replayed.Load(), Reused: s.reused.Load(),
		Busy: s.busy.Load(), Away: s.away.Load(), Full: s.full.Load(), Free: s.free.Load(),
	}
}

// Close writes the remaining records.
func (k *Keys) Close() error { return k.store.close() }
