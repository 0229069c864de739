package svm

import (
	"bytes"
	"errors"
	"fmt"

	"farebox/providers/wallet"
)

const (
	// MaxTransaction is the size of a packet of the network.
	MaxTransaction = 1232
	signatureSize  = 64
	keySize        = 32
	// maxItems is more than a packet holds of anything, and fits the two bytes that
	// shortvec may take here.
	maxItems  = MaxTransaction
	versioned = 0x80
)

// Transaction is a transaction in the wire format. It keeps no reference to the parsed
// bytes.
type Transaction struct {
	Signatures [][signatureSize]byte
	Message    []byte // the signed bytes
	// Of the header: how many of Keys sign, and of these and the others may not be
	// written.
	Signers, ReadonlySigners, ReadonlyOthers int
	Keys                                     [][keySize]byte
	Blockhash                                [32]byte
	Instructions                             []Instruction
}

// Instruction is a call of a program. Indexes are of Transaction.Keys.
type Instruction struct {
	Program  int
	Accounts []int
	Data     []byte
}

// Outline is the signed message of any transaction of the chain, its own keys and how many
// of them sign: also of one that Parse refuses.
func Outline(wire []byte) (message []byte, keys [][keySize]byte, signers int, err error) {
	r := &reader{rest: wire}
	r.take(r.count() * signatureSize)
	message = bytes.Clone(r.rest)
	if signers = r.byte(); signers >= versioned {
		signers = r.byte()
	}
	r.take(2)
	for n := r.count(); n > 0 && r.err == nil; n-- {
		keys = append(keys, [keySize]byte(r.take(keySize)))
	}
	if r.err == nil && (signers < 1 || signers > len(keys)) {
		r.fail("it has fewer keys than signers")
	}
	return message, keys, signers, r.err
}

// ErrTransaction begins every error of Parse.
var ErrTransaction = errors.New("is not a transaction that can be taken")

func refuse(why string) error { return fmt.Errorf("%w: %s", ErrTransaction, why) }

// reader goes over bytes once; after the first failure it gives zeros.
type reader struct {
	rest []byte
	err  error
}

func (r *reader) fail(why string) {
	if r.err == nil {
		r.err = refuse(why)
	}
	r.rest = nil
}

func (r *reader) take(n int) []byte {
	if n > len(r.rest) {
		r.fail("it is cut short")
		return make([]byte, min(n, maxItems))
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

func (r *reader) byte() int { return int(r.take(1)[0]) }

// count reads a shortvec: seven bits a byte, in its shortest form.
func (r *reader) count() int {
	n := 0
	for shift := 0; shift < 21; shift += 7 {
		c := r.byte()
		if shift > 0 && c == 0 {
			r.fail("a length is not in its shortest form")
			return 0
		}
		n |= (c & 0x7f) << shift
		if c < 0x80 {
			if n > maxItems {
				r.fail("a length is out of range")
				return 0
			}
			return n
		}
	}
	r.fail("a length is out of range")
	return 0
}

// Parse reads a transaction, legacy or version 0, without lookup tables.
func Parse(wire []byte) (*Transaction, error) {
	if len(wire) > MaxTransaction {
		return nil, refuse(fmt.Sprintf("it has %d bytes; expected at most %d", len(wire), MaxTransaction))
	}
	r := &reader{rest: wire}
	t := new(Transaction)
	for range r.count() {
		if r.err != nil {
			break
		}
		t.Signatures = append(t.Signatures, [signatureSize]byte(r.take(signatureSize)))
	}
	t.Message = bytes.Clone(r.rest)
	t.message(r)
	if r.err != nil {
		return nil, r.err
	}
	return t, t.sound()
}

func (t *Transaction) message(r *reader) {
	first := r.byte()
	withTables := first&versioned != 0
	if withTables {
		if first != versioned {
			r.fail("it is of another version; expected 0")
		}
		first = r.byte()
	}
	t.Signers, t.ReadonlySigners, t.ReadonlyOthers = first, r.byte(), r.byte()
	for range r.count() {
		if r.err != nil {
			return
		}
		t.Keys = append(t.Keys, [keySize]byte(r.take(keySize)))
	}
	t.Blockhash = [32]byte(r.take(32))
	for range r.count() {
		if r.err != nil {
			return
		}
		t.Instructions = append(t.Instructions, r.instruction())
	}
	if withTables && r.count() != 0 {
		r.fail("it uses lookup tables; expected all accounts in it")
	}
	if len(r.rest) != 0 {
		r.fail("bytes follow it")
	}
}

func (r *reader) instruction() (i Instruction) {
	i.Program = r.byte()
	for _, index := range r.take(r.count()) {
		i.Accounts = append(i.Accounts, int(index))
	}
	i.Data = bytes.Clone(r.take(r.count()))
	return i
}

// sound makes the checks that every node makes before it runs a transaction.
func (t *Transaction) sound() error {
	n := len(t.Keys)
	switch {
	case t.Signers == 0 || t.Signers+t.ReadonlyOthers > n || t.ReadonlySigners >= t.Signers:
		return refuse("its header does not fit its accounts")
	case len(t.Signatures) != t.Signers:
		return refuse("it has another number of signatures than of signers")
	}
	seen := make(map[[keySize]byte]bool, n)
	for _, key := range t.Keys {
		if seen[key] {
			return refuse("it lists an account twice")
		}
		seen[key] = true
	}
	for _, i := range t.Instructions {
		if i.Program == 0 || i.Program >= n {
			return refuse("an instruction is for a program that is not there")
		}
		for _, at := range i.Accounts {
			if at >= n {
				return refuse("an instruction has an account that is not there")
			}
		}
	}
	return nil
}

// writable says that an account may be changed.
func (t *Transaction) writable(at int) bool {
	if at < t.Signers {
		return at < t.Signers-t.ReadonlySigners
	}
	return at < len(t.Keys)-t.ReadonlyOthers
}

// key is the account at an index.
func (t *Transaction) key(at int) wallet.Address { return wallet.SolanaAddress(t.Keys[at]) }
