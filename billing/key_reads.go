package billing

import (
	"context"
	"encoding/binary"
	"errors"
	"net/netip"
	"sync"
	"time"

	"farebox/billing/store"
	"farebox/config/fair"
)

// TooManyWrong is an address that has tried too many secrets of no key.
type TooManyWrong struct{ After time.Duration }

func (t *TooManyWrong) Error() string {
	return "too many secrets of no key were tried from this address"
}

// mustWait is how long an address may not try secrets that are not in memory.
func (l *Ledger) mustWait(from netip.Addr) time.Duration {
	if !from.IsValid() || l.limits.Load().WrongKeys.Count <= 0 {
		return 0
	}
	now := l.at().Mono
	return time.Duration(max(0, l.addressBudgets.blocked(addressKey(from), now)-now))
}

// noteWrong counts a secret that belongs to no live key.
func (l *Ledger) noteWrong(from netip.Addr, err error) {
	if from.IsValid() && errors.Is(err, ErrUnknownKey) {
		l.addressBudgets.note(addressKey(from), &l.limits.Load().WrongKeys, l.at().Mono)
	}
}

// SignInWait is how long an address may not try to sign in: signatures that wallets did
// not make count like secrets of no key.
func (l *Ledger) SignInWait(from netip.Addr) time.Duration { return l.mustWait(from) }

// NoteWrongSignIn counts a signature that the wallet did not make.
func (l *Ledger) NoteWrongSignIn(from netip.Addr) { l.noteWrong(from, ErrUnknownKey) }

// addressKey has an address in the place of a key and its user.
func addressKey(from netip.Addr) budgetKey {
	b := from.As16()
	return budgetKey{kind: wrongSecrets, key: int64(binary.LittleEndian.Uint64(b[:8])),
		user: binary.LittleEndian.Uint64(b[8:])}
}

// ErrManyUnknownKeys is a secret that is not in memory while more of them are
// waiting to be looked up than the store should be asked for.
var ErrManyUnknownKeys = errors.New("too many unknown keys are being tried")

// keyReads bounds how many reads of the store secrets can cause that are not in
// memory: few at once, few that wait, by client address, and all others are refused
// without a read. Keys that were made here recently do not count: their first
// use does not wait.
type keyReads struct {
	turns *fair.Turns

	mu        sync.Mutex
	announced map[store.Digest]struct{}
	order     []store.Digest // of announced; a ring
	next      int
}

const (
	// keyReadsAtOnce leaves connections of the store's readers to others.
	keyReadsAtOnce = 2
	// keyReadsWaiting is how many may wait; a read takes about 0.1 ms embedded and
	// 1 ms on a shared store, so that no request waits for longer than 0.2 s.
	keyReadsWaiting = 256
	// announcedMost is how many keys made recently are remembered.
	announcedMost = 4096
)

func newKeyReads() *keyReads {
	return &keyReads{turns: fair.NewTurns(keyReadsAtOnce, keyReadsWaiting-keyReadsAtOnce), announced: map[store.Digest]struct{}{}}
}

// announce says that a digest will be one of a key.
func (s *keyReads) announce(d store.Digest) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.order) < announcedMost {
		s.order = append(s.order, d)
	} else {
		delete(s.announced, s.order[s.next])
		s.order[s.next] = d
		s.next = (s.next + 1) % announcedMost
	}
	s.announced[d] = struct{}{}
}

// expected says that d was announced.
func (s *keyReads) expected(d *store.Digest) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.announced[*d]
	return ok
}

// acquire waits for a turn of a client. leave ends it; it may be called twice.
func (s *keyReads) acquire(from netip.Addr, d *store.Digest) (leave func(), err error) {
	if s.expected(d) {
		return func() {}, nil
	}
	place, err := s.turns.Take(context.Background(), fair.Unpaid(from))
	if err != nil {
		return nil, ErrManyUnknownKeys
	}
	return sync.OnceFunc(place.Done), nil
}
