package billing

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
)

// Idempotency remembers requests that carry an Idempotency-Key (addendum 13):
// what is asked again under the same key within the window gets the first
// answer again, is not carried out, and not charged.
//
// A request is begun (Begin), and whoever leads it ends it in Lead.Settle or
// Lead.Forget. That a keyed request is charged exactly when its answer is kept,
// also across kill -9, is a commit in two steps with the kept answer as its
// decision: the charge is prepared in the journal, then the answer is kept, then
// the charge is made. A process that dies in between finds the prepared charge
// at its next start and asks here whether the answer was kept (recoverHolds).
//
// Answers are kept in files beside the journal, or in Redis when the nodes
// share one. It knows nothing of what is asked, so that any endpoint can use it.
type Idempotency struct {
	store     keyedStore
	node      uint32
	boot      uint64 // tells this process from an earlier one of its node
	maxAnswer int
	log       zerolog.Logger
	now       func() int64 // Unix ns

	mu      sync.Mutex
	flights map[keyedID]*flight

	recording atomic.Int64 // bytes of answers that are being recorded

	stats keyedCounters
}

// keyedStore keeps what is known of keys, for one window each.
type keyedStore interface {
	// begin writes p down, unless something is known of its id already that
	// stands in the way; then it gives that. A pending request whose process is
	// dead does not stand in the way of its own repetition.
	begin(p *keyedRecord, durable bool) (found *keyedRecord, err error)
	// finish replaces p by done, or by nothing when done is nil. errTaken says
	// that somebody else has taken the request over. With errLater the store
	// cannot say now, and calls ended once it has an answer.
	finish(p, done *keyedRecord, ended func()) error
	// look gives what is known of an id, nil for nothing.
	look(id keyedID) (*keyedRecord, error)
	close() error
}

// The ways in which a keyed request cannot go on.
var (
	ErrKeyReused   = errors.New("the idempotency key was used with another request")
	ErrKeyBusy     = errors.New("the first request with this idempotency key is still under way")
	ErrKeyTooLarge = errors.New("the first answer under this idempotency key was too large to keep")
	ErrKeysAway    = errors.New("idempotency keys cannot be looked up now")

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
	// keyedPoll is how often a request that another node leads is looked at.
	keyedPoll = 50 * time.Millisecond
	// keyedSlack is added to a leader's patience before others take it for dead.
	keyedSlack = 2 * time.Second
	// recordingMost bounds the answers that are recorded on their way, all
	// together: beyond it an answer counts as too large to be kept.
	recordingMost = 256 << 20
	// MaxKeyLength is the longest idempotency key (interface.md, Limits).
	MaxKeyLength = 255
)

type keyedCounters struct {
	led, replayed, reused, busy, away, free atomic.Int64
}

// KeyedStats are figures of requests with an idempotency key.
type KeyedStats struct {
	Led      int64 // carried out
	Replayed int64
	Reused   int64 // refused: another request under the same key
	Busy     int64 // refused: the first one took too long
	Away     int64 // refused: the store did not answer or is full
	Free     int64 // carried out but not charged, since the answer could not be kept
}

// openIdempotency opens what the config says: files in the ledger's directory,
// or Redis.
func openIdempotency(l *Ledger, o *Options) (*Idempotency, error) {
	c := o.Idempotency
	if c == (config.Idempotency{}) {
		c = config.DefaultIdempotency()
	}
	i := &Idempotency{
		node: 1, boot: rand.Uint64(), maxAnswer: int(c.MaxAnswer), log: l.log, now: l.now, flights: map[keyedID]*flight{},
	}
	if l.node != nil {
		i.node = l.node.no
	}
	var err error
	if o.Redis.Used() {
		i.store, err = openKeyedRedis(l, o, &c, i.boot, i.node)
	} else {
		i.store, err = openKeyedFiles(l, &c, o.Durability == "power", !o.idle)
	}
	if err != nil {
		return nil, err
	}
	return i, nil
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

// keyedID stands for an account and its key, and is the request id under which
// the request is charged.
type keyedID [16]byte

func newKeyedID(account uint32, key []byte) keyedID {
	b := make([]byte, 0, 32+MaxKeyLength)
	b = append(b, "farebox idempotency\x00"...)
	b = binary.LittleEndian.AppendUint32(b, account)
	b = append(b, key...)
	sum := sha256.Sum256(b)
	return keyedID(sum[:16])
}

// Claim is a request with a key.
type Claim struct {
	Account *AccountState
	Key     []byte // valid by ValidKey
	// Fingerprint is a hash of all that makes the request what it is: its path
	// and its body.
	Fingerprint [32]byte
	// Patience is how long carrying it out can take at most; a leader on
	// another node that takes longer is taken for dead.
	Patience time.Duration
	// Wait is how long to wait for a leader.
	Wait time.Duration
	// Write says that the request changes something outside: it is on disk as
	// begun before Begin returns.
	Write bool
}

// Begin gives one of three: the lead, when the request is to be carried out;
// the answer of the first request with this key; or an error, one of ErrKey….
func (i *Idempotency) Begin(c *Claim) (*Lead, *Answer, error) {
	id := newKeyedID(c.Account.no, c.Key)
	deadline := time.NewTimer(max(c.Wait, 0))
	defer deadline.Stop()
	for {
		f, other := i.join(id, c.Fingerprint)
		if f == nil {
			if other.fingerprint != c.Fingerprint {
				i.stats.reused.Add(1)
				return nil, nil, ErrKeyReused
			}
			select {
			case <-other.over:
				continue
			case <-deadline.C:
				i.stats.busy.Add(1)
				return nil, nil, ErrKeyBusy
			}
		}
		lead, answer, err := i.begin(id, f, c, deadline)
		if lead == nil {
			i.leave(id, f)
		}
		return lead, answer, err
	}
}

// join makes the caller the only one of this process that is busy with id, or
// gives who is.
func (i *Idempotency) join(id keyedID, fingerprint [32]byte) (mine, other *flight) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if other = i.flights[id]; other != nil {
		return nil, other
	}
	mine = &flight{fingerprint: fingerprint, over: make(chan struct{})}
	i.flights[id] = mine
	return mine, nil
}

func (i *Idempotency) leave(id keyedID, f *flight) {
	i.mu.Lock()
	delete(i.flights, id)
	i.mu.Unlock()
	close(f.over)
}

// begin asks the store, until the request can be led or answered.
func (i *Idempotency) begin(id keyedID, f *flight, c *Claim, deadline *time.Timer) (*Lead, *Answer, error) {
	pause := keyedPoll
	for {
		p := &keyedRecord{
			kind: keyedPending, id: id, fingerprint: c.Fingerprint, atMs: i.now() / 1e6, token: rand.Uint64(),
			node: i.node, boot: i.boot, patienceMs: uint32(min((c.Patience+keyedSlack)/time.Millisecond, 1<<31)),
		}
		found, err := i.store.begin(p, c.Write)
		switch {
		case err != nil:
			i.stats.away.Add(1)
			i.log.Warn().Err(err).Msg("a request with an idempotency key was refused: it cannot be written down")
			return nil, nil, ErrKeysAway
		case found == nil:
			i.stats.led.Add(1)
			return &Lead{i: i, pending: p, flight: f}, nil, nil
		case found.fingerprint != c.Fingerprint:
			i.stats.reused.Add(1)
			return nil, nil, ErrKeyReused
		case found.kind == keyedDone:
			a, err := found.answer(i.maxAnswer)
			if err != nil {
				return nil, nil, err
			}
			i.stats.replayed.Add(1)
			return nil, a, nil
		}
		select {
		case <-time.After(pause):
			pause = min(2*pause, 5*keyedPoll)
		case <-deadline.C:
			i.stats.busy.Add(1)
			return nil, nil, ErrKeyBusy
		}
	}
}

// Lead is the right and the duty to carry a keyed request out. It ends in
// exactly one Settle or Forget; a second end changes nothing. One goroutine
// has it.
type Lead struct {
	i       *Idempotency
	pending *keyedRecord
	flight  *flight
	body    []byte
	size    int64 // counted in Idempotency.recording
	over    bool  // the body cannot be kept
	ended   bool
	kept    bool
}

// RequestID is the id under which the request must be admitted: it is made of
// the account and the key, so that all tries of a request have the same.
func (l *Lead) RequestID() [16]byte { return l.pending.id }

// Record takes a piece of an answer's body that is sent as it arrives. Beyond
// the limit nothing is kept.
func (l *Lead) Record(piece []byte) {
	if l.over || len(l.body)+len(piece) > l.i.maxAnswer || l.i.recording.Load() > recordingMost {
		l.Cut()
		return
	}
	l.size += int64(len(piece))
	l.i.recording.Add(int64(len(piece)))
	l.body = append(l.body, piece...)
}

// Cut says that the client did not take the answer to its end: what is known
// of it is not an answer that can be given again.
func (l *Lead) Cut() {
	l.drop()
	l.over = true
}

// Lost says that the answer is not one that can be given again.
func (l *Lead) Lost() bool { return l.over }

// drop gives back the memory of what was recorded.
func (l *Lead) drop() {
	l.i.recording.Add(-l.size)
	l.body, l.size = nil, 0
}

// Kept says whether the request has ended with an answer that was kept and charged.
func (l *Lead) Kept() bool { return l.kept }

// Settle keeps a as the answer of the request and charges h, both or neither.
// With a nil body what was recorded is the body. It gives what was charged:
// nothing when the answer could not be kept, since the next try will be charged.
func (l *Lead) Settle(h *Hold, s Settlement, a *Answer) (charged, shortfall Nano) {
	if l.ended {
		return 0, 0
	}
	done := l.done(h, a)
	s.Flags |= FlagKeyed
	h.prepare(&s)
	err := l.finish(done)
	if err != nil {
		l.i.stats.free.Add(1)
		l.i.log.Warn().Err(err).Hex("request_id", l.pending.id[:]).Msg("the answer of a keyed request could not be kept; it is not charged")
		h.Void(s.NowNs)
		return 0, 0
	}
	l.kept = true
	return h.Settle(s)
}

// Forget ends the request as if it had not been: the next one with its key is
// carried out. Its hold is the caller's to void.
func (l *Lead) Forget() {
	if l.ended {
		return
	}
	if err := l.finish(nil); err != nil && !errors.Is(err, errTaken) && !errors.Is(err, errLater) {
		l.i.log.Warn().Err(err).Hex("request_id", l.pending.id[:]).Msg("a keyed request could not be taken back; its key is in use until it expires")
	}
}

func (l *Lead) finish(done *keyedRecord) error {
	l.ended = true
	l.drop()
	leave := func() { l.i.leave(l.pending.id, l.flight) }
	err := l.i.store.finish(l.pending, done, leave)
	if !errors.Is(err, errLater) {
		leave()
	}
	return err
}

func (l *Lead) done(h *Hold, a *Answer) *keyedRecord {
	r := *l.pending
	r.kind, r.token = keyedDone, h.id
	body := a.Body
	if body == nil {
		body = l.body
	}
	if l.over || len(body) > l.i.maxAnswer {
		r.flags |= keyedTooLarge
		return &r
	}
	r.keep(a, body)
	return &r
}

// settled says whether the request of a charge that was only prepared has an
// answer that was kept with it.
func (i *Idempotency) settled(r *record) bool {
	found, err := i.store.look(r.requestID)
	if err != nil {
		i.log.Error().Err(err).Hex("request_id", r.requestID[:]).Msg("cannot find out whether a keyed request was answered when the last process died; it is not charged")
		return false
	}
	return found != nil && found.kind == keyedDone && found.node == i.node && found.token == r.hold
}

// Stats reads the figures.
func (i *Idempotency) Stats() KeyedStats {
	s := &i.stats
	return KeyedStats{
		Led: s.led.Load(), Replayed: s.replayed.Load(), Reused: s.reused.Load(), Busy: s.busy.Load(), Away: s.away.Load(), Free: s.free.Load(),
	}
}

func (i *Idempotency) close() error { return i.store.close() }
