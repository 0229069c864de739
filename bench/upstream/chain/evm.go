package chain

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// The token that an EVM has if nothing is said: USDC on Base.
const (
	USDC      = "0x833589fcd6edb6e08f4c7c32d4f71b54bda02913"
	baseID    = 8453
	firstHead = 40_000_000
	// Funds is the balance of a wallet that has not paid yet, in units.
	Funds = 1_000_000_000_000
	// Safe and finalized blocks are so far behind the head.
	safeDepth, finalDepth = 16, 32
)

// EVMOptions of an EVM; the zero value is Base with USDC.
type EVMOptions struct {
	ID            int64         // default 8453
	Asset         string        // default USDC
	Name, Version string        // of its EIP-712 domain; default "USD Coin" and "2"
	BlockTime     time.Duration // default 2s
}

// EVM is a chain whose one token moves by signed authorizations (ERC-3009). Its blocks
// follow the clock; a block's timestamp is that of the wall clock, and of Skip.
type EVM struct {
	o    EVMOptions
	born time.Time

	mu        sync.Mutex
	skips     []skip
	forks     []int64 // the first blocks of reorganisations
	moves     map[authKey]*Move
	byHash    map[string]*Move
	order     []*Move
	seen      map[authKey]Authorization // that facilitators were shown
	balance   map[string]int64
	contracts map[string]string // signer of each contract wallet
	sent      uint64
}

type skip struct {
	after int64
	by    time.Duration
}

type authKey struct{ from, nonce string }

// Authorization is the message that a wallet signs: TransferWithAuthorization.
type Authorization struct {
	From, To                string // lower case
	Value                   int64
	ValidAfter, ValidBefore int64
	Nonce                   string // 0x and 64 digits, lower case
}

// Move is an authorization that is used up.
type Move struct {
	Authorization
	Hash      string
	Block     int64
	Gone      bool // a reorganisation took it off the chain
	Cancelled bool // nothing moved: the wallet took the authorization back
	Plain     bool // without a signed authorization: the payer sent it
}

// NewEVM begins a chain.
func NewEVM(o EVMOptions) *EVM {
	if o.ID == 0 {
		o.ID = baseID
	}
	if o.Asset == "" {
		o.Asset = USDC
	}
	if o.Name == "" {
		o.Name, o.Version = "USD Coin", "2"
	}
	if o.BlockTime == 0 {
		o.BlockTime = 2 * time.Second
	}
	o.Asset = strings.ToLower(o.Asset)
	return &EVM{
		o: o, born: time.Now(), moves: map[authKey]*Move{}, byHash: map[string]*Move{},
		seen: map[authKey]Authorization{}, balance: map[string]int64{}, contracts: map[string]string{},
	}
}

// Head is the number of the newest block.
func (e *EVM) Head() int64 { return firstHead + int64(time.Since(e.born)/e.o.BlockTime) }

// timestamp of a block; under mu.
func (e *EVM) timestamp(block int64) int64 {
	at := e.born.Add(time.Duration(block-firstHead) * e.o.BlockTime)
	for _, s := range e.skips {
		if block > s.after {
			at = at.Add(s.by)
		}
	}
	return at.Unix()
}

// Skip lets the clock of the chain jump.
func (e *EVM) Skip(by time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.skips = append(e.skips, skip{e.Head(), by})
}

// hash of a block, which changes where a reorganisation has been; under mu.
func (e *EVM) hash(block int64) string {
	fork := 0
	for _, from := range e.forks {
		if block >= from {
			fork++
		}
	}
	return hexOf(keccak(fmt.Appendf(nil, "block %d %d %d", e.o.ID, block, fork)))
}

// Fund sets the balance of a wallet.
func (e *EVM) Fund(address string, units int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.balance[strings.ToLower(address)] = units
}

// Contract makes an address a contract wallet for which a key signs (EIP-1271).
func (e *EVM) Contract(address, signer string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.contracts[strings.ToLower(address)] = strings.ToLower(signer)
}

// has is the balance of a wallet; under mu.
func (e *EVM) has(address string) int64 {
	if units, ok := e.balance[address]; ok {
		return units
	}
	return Funds
}

// The token's errors, as facilitators name them.
var (
	errUsed     = errors.New("invalid_transaction_state")
	errEarly    = errors.New("invalid_exact_evm_payload_authorization_valid_after")
	errLate     = errors.New("invalid_exact_evm_payload_authorization_valid_before")
	errFunds    = errors.New("insufficient_funds")
	errUnsigned = errors.New("invalid_exact_evm_payload_signature")
)

// check says why the token would not take an authorization; under mu.
func (e *EVM) check(a Authorization, signature []byte) error {
	now := e.timestamp(e.Head() + 1)
	switch m := e.moves[authKey{a.From, a.Nonce}]; {
	case m != nil && !m.Gone:
		return errUsed
	case now <= a.ValidAfter:
		return errEarly
	case now >= a.ValidBefore:
		return errLate
	case !e.signed(a.From, e.digest(a), signature):
		return errUnsigned
	case e.has(a.From) < a.Value:
		return errFunds
	}
	return nil
}

// Check says why the token would not take an authorization, and remembers that it was
// shown.
func (e *EVM) Check(a Authorization, signature []byte) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.seen[authKey{a.From, a.Nonce}] = a
	return e.check(a, signature)
}

// Pay uses an authorization of any sender, and gives the transaction that the next block
// has.
func (e *EVM) Pay(a Authorization, signature []byte) (hash string, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.seen[authKey{a.From, a.Nonce}] = a
	if err := e.check(a, signature); err != nil {
		return "", err
	}
	e.balance[a.From] = e.has(a.From) - a.Value
	e.balance[a.To] = e.has(a.To) + a.Value
	return e.add(&Move{Authorization: a}), nil
}

// Transfer sends units without an authorization, as a wallet does.
func (e *EVM) Transfer(from, to string, units int64) (hash string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	a := Authorization{From: strings.ToLower(from), To: strings.ToLower(to), Value: units, Nonce: RandomNonce()}
	e.balance[a.From], e.balance[a.To] = e.has(a.From)-units, e.has(a.To)+units
	return e.add(&Move{Authorization: a, Plain: true})
}

// Cancel takes an authorization back, which is a wallet's right.
func (e *EVM) Cancel(from, nonce string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if m := e.moves[authKey{from, nonce}]; m == nil || m.Gone {
		e.add(&Move{Authorization: Authorization{From: from, Nonce: nonce}, Cancelled: true})
	}
}

// add puts a transaction into the next block; under mu.
func (e *EVM) add(m *Move) string {
	e.sent++
	m.Hash = hexOf(keccak(binary.BigEndian.AppendUint64([]byte(m.From+m.Nonce), e.sent)))
	m.Block = e.Head() + 1
	e.moves[authKey{m.From, m.Nonce}], e.byHash[m.Hash] = m, m
	e.order = append(e.order, m)
	return m.Hash
}

// Wait returns when the next block is there.
func (e *EVM) Wait() {
	for head := e.Head(); e.Head() == head; {
		time.Sleep(min(e.o.BlockTime/4, 20*time.Millisecond))
	}
}

// Reorganise takes a transaction off the chain, with all blocks from its own on.
func (e *EVM) Reorganise(hash string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	m := e.byHash[hash]
	if m == nil || m.Gone {
		return false
	}
	m.Gone = true
	e.forks = append(e.forks, m.Block)
	e.balance[m.From] = e.has(m.From) + m.Value
	e.balance[m.To] = e.has(m.To) - m.Value
	return true
}

// Restore brings a transaction back into the next block, unless its authorization was
// used meanwhile.
func (e *EVM) Restore(hash string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	m := e.byHash[hash]
	if m == nil || !m.Gone || e.moves[authKey{m.From, m.Nonce}] != m || e.timestamp(e.Head()+1) >= m.ValidBefore {
		return false
	}
	m.Gone, m.Block = false, e.Head()+1
	e.balance[m.From] = e.has(m.From) - m.Value
	e.balance[m.To] = e.has(m.To) + m.Value
	return true
}

// Moves are the authorizations used on the current chain, oldest first.
func (e *EVM) Moves() []Move {
	e.mu.Lock()
	defer e.mu.Unlock()
	var all []Move
	for _, m := range e.order {
		if !m.Gone {
			all = append(all, *m)
		}
	}
	slices.SortStableFunc(all, func(a, b Move) int { return int(a.Block - b.Block) })
	return all
}
