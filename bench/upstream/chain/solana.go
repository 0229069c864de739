package chain

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"sync"
	"time"

	"github.com/mr-tron/base58"
)

// The default token of a Solana chain, and the identity of the chain.
const (
	SolanaUSDC    = "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v"
	SolanaGenesis = "5eykt4UsFv8P8NJdTREpY1vzqKqZKvdpKuc147dw2N9d"
	// HashSlots is for how many slots a blockhash holds.
	HashSlots = 150
	// rootDepth is how far behind the finalized slot is.
	rootDepth = 32
)

// SolanaOptions of a Solana; the zero value is mainnet with USDC.
type SolanaOptions struct {
	Mint     string        // default SolanaUSDC
	SlotTime time.Duration // default 400ms
}

// Solana is a chain whose one token moves by TransferChecked.
type Solana struct {
	o    SolanaOptions
	born time.Time

	mu      sync.Mutex
	skipped int64
	landed  map[string]*Landed // by signature
	order   []*Landed
	bodies  map[string]*Landed // by the signed message
	seen    map[string]*Landed // that facilitators were shown, by the same
	balance map[string]int64   // by token account
}

// Landed is a transfer on the chain.
type Landed struct {
	Signature       string
	Slot            int64
	Units           int64
	Payer           string // whose tokens they were
	Source, To      string // token accounts
	Gone            bool
	wire            []byte
	keys            []string
	mint, blockhash string
}

// NewSolana begins a chain.
func NewSolana(o SolanaOptions) *Solana {
	if o.Mint == "" {
		o.Mint = SolanaUSDC
	}
	if o.SlotTime == 0 {
		o.SlotTime = 400 * time.Millisecond
	}
	return &Solana{o: o, born: time.Now(), landed: map[string]*Landed{}, bodies: map[string]*Landed{},
		seen: map[string]*Landed{}, balance: map[string]int64{}}
}

const firstSlot = 300_000_000

// slot is the newest one; under mu.
func (s *Solana) slot() int64 { return firstSlot + s.skipped + int64(time.Since(s.born)/s.o.SlotTime) }

// Skip lets so many slots pass.
func (s *Solana) Skip(slots int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.skipped += slots
}

// Fund sets the balance of a token account.
func (s *Solana) Fund(account string, units int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.balance[account] = units
}

func (s *Solana) has(account string) int64 {
	if units, ok := s.balance[account]; ok {
		return units
	}
	return Funds
}

// blockhash of a slot has the slot in it, so that nothing need be kept.
func blockhash(slot int64) string {
	b := binary.BigEndian.AppendUint64([]byte{1}, uint64(slot))
	sum := sha256.Sum256(append([]byte("simulated "), b...))
	return base58.Encode(append(b, sum[:keyBytes-len(b)]...))
}

// Blockhash is the newest one.
func (s *Solana) Blockhash() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return blockhash(s.slot())
}

// hashSlot is the slot of a blockhash; false: the chain never had it.
func hashSlot(hash string) (int64, bool) {
	b, err := base58.Decode(hash)
	if err != nil || len(b) != keyBytes {
		return 0, false
	}
	slot := int64(binary.BigEndian.Uint64(b[1:9]))
	return slot, blockhash(slot) == hash
}

func hashHolds(hash string, at int64) bool {
	slot, known := hashSlot(hash)
	return known && slot <= at && at-slot <= HashSlots
}

// The errors of the chain and its facilitators when nothing lands.
var (
	errOldHash   = errors.New("invalid_exact_svm_payload_transaction_simulation_failed_blockhash_not_found")
	errTwice     = errors.New("duplicate_settlement")
	errNoFunds   = errors.New("insufficient_funds")
	errNotSigned = errors.New("invalid_exact_svm_payload_transaction_signature")
)

// read parses a transaction and makes the chain's checks; under mu.
func (s *Solana) read(wire []byte, unsigned int) (*Landed, *message, error) {
	m, err := readMessage(wire)
	if err != nil {
		return nil, nil, err
	}
	l := &Landed{wire: wire, keys: m.keys, blockhash: m.blockhash}
	if l.Source, l.mint, l.To, l.Payer, l.Units, err = m.transfer(); err != nil {
		return nil, nil, err
	}
	for i := unsigned; i < m.signers; i++ {
		if !m.signedBy(i) {
			return nil, nil, errNotSigned
		}
	}
	switch other := s.bodies[string(m.body)]; {
	case other != nil && !other.Gone:
		return l, m, errTwice
	case l.mint != s.o.Mint:
		return nil, nil, errMessage
	case !hashHolds(m.blockhash, s.slot()):
		return l, m, errOldHash
	case s.has(l.Source) < l.Units:
		return l, m, errNoFunds
	}
	return l, m, nil
}

// Check says why a transaction without its fee payer's signature would not land.
func (s *Solana) Check(wire []byte) (*Landed, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l, m, err := s.read(wire, 1)
	if l != nil {
		s.seen[string(m.body)] = l
	}
	return l, err
}

// Pay signs a transaction as its fee payer and lands it in the next slot.
func (s *Solana) Pay(wire []byte, feePayer ed25519.PrivateKey) (signature string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l, m, err := s.read(wire, 1)
	if err != nil {
		return "", err
	}
	if m.keys[0] != base58.Encode(feePayer.Public().(ed25519.PublicKey)) {
		return "", errNotSigned
	}
	m.signatures[0] = ed25519.Sign(feePayer, m.body)
	return s.land(l, m), nil
}

// land puts a transfer into the next slot; under mu.
func (s *Solana) land(l *Landed, m *message) string {
	l.Signature, l.wire, l.Slot = base58.Encode(m.signatures[0]), m.wire(), s.slot()+1
	s.balance[l.Source], s.balance[l.To] = s.has(l.Source)-l.Units, s.has(l.To)+l.Units
	s.landed[l.Signature], s.bodies[string(m.body)] = l, l
	s.order = append(s.order, l)
	return l.Signature
}

// Reorganise takes a transaction off the chain: its fork was given up.
func (s *Solana) Reorganise(signature string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.landed[signature]
	if l == nil || l.Gone {
		return false
	}
	l.Gone = true
	s.balance[l.Source], s.balance[l.To] = s.has(l.Source)+l.Units, s.has(l.To)-l.Units
	return true
}

// Restore lands it again, if its blockhash still holds.
func (s *Solana) Restore(signature string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.landed[signature]
	if l == nil || !l.Gone || !hashHolds(l.blockhash, s.slot()) {
		return false
	}
	l.Gone, l.Slot = false, s.slot()+1
	s.balance[l.Source], s.balance[l.To] = s.has(l.Source)-l.Units, s.has(l.To)+l.Units
	return true
}

// Wait returns when the landed transactions are confirmed.
func (s *Solana) Wait() { time.Sleep(3*s.o.SlotTime + time.Millisecond) }

// Transfers are those on the current chain, oldest first.
func (s *Solana) Transfers() []Landed {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []Landed
	for _, l := range s.order {
		if !l.Gone {
			all = append(all, *l)
		}
	}
	return all
}
