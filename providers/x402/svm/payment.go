package svm

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"slices"

	"github.com/mr-tron/base58"

	"farebox/providers/wallet"
)

// Programs that a payment may call.
var (
	computeBudget = program("ComputeBudget111111111111111111111111111111")
	token         = program("TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA")
	token2022     = program("TokenzQdBNbLqP5VEhdkAS6EPFLC1PHnBqCXEpPxuEb")
	memo          = program("MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr")
	lighthouse    = program("L2TExMFKdjpN9kozasaurPirfHy9P8sbXoAN1qA3S95")
	associated    = program("ATokenGPvbdGVxr1b2hvZbsiqW5xWH25efTNsLJA8knL")
)

const (
	fewest, most = 3, 7 // instructions of a payment
	setLimit     = 2    // tags of instructions
	setPrice     = 3
	transfer     = 12
	decimals     = 6
	// maxPrice of a unit in a millionth of a lamport: the limit of those who pay the fee.
	maxPrice = 5_000_000
)

func program(name string) [keySize]byte {
	b, err := base58.Decode(name)
	if err != nil || len(b) != keySize {
		panic("svm: " + name + " is not an address")
	}
	return [keySize]byte(b)
}

// Associated is the account in which an owner has a token, by the token's program.
func Associated(owner, tokenProgram, mint wallet.Address) wallet.Address {
	o, p, m := owner.Key(), tokenProgram.Key(), mint.Key()
	for bump := 255; bump >= 0; bump-- {
		h := sha256.New()
		for _, part := range [][]byte{o[:], p[:], m[:], {byte(bump)}, associated[:], []byte("ProgramDerivedAddress")} {
			h.Write(part)
		}
		if sum := [keySize]byte(h.Sum(nil)); !wallet.OnCurve(sum) {
			return wallet.SolanaAddress(sum)
		}
	}
	return wallet.Address{} // of one in 2^256
}

// Accounts are those in which an owner may have a token, whichever program it is of.
func Accounts(owner, mint wallet.Address) []wallet.Address {
	return []wallet.Address{Associated(owner, wallet.SolanaAddress(token), mint),
		Associated(owner, wallet.SolanaAddress(token2022), mint)}
}

// Payment is the payment of a transaction.
type Payment struct {
	FeePayer, Payer, Mint, Source, Destination, TokenProgram wallet.Address
	Units                                                    uint64
}

// The faults of a payment; each has its own message for the payer.
var (
	ErrRules     = errors.New("is not the transaction of a payment")
	ErrToken     = errors.New("pays with another token")
	ErrRecipient = errors.New("pays somebody else")
	ErrFeePayer  = errors.New("uses its fee payer for more than the fee")
	ErrSignature = errors.New("is not signed by the payer")
)

// rule is an error of a kind that states the rule.
type rule struct {
	kind error
	text string
}

func (r *rule) Error() string { return r.text }
func (r *rule) Unwrap() error { return r.kind }

// Payment is the transaction's payment to an owner of a token, by the rules of the
// scheme exact. Whether its fee payer agrees is not known here.
func (t *Transaction) Payment(mint, payTo wallet.Address) (*Payment, error) {
	if n := len(t.Instructions); n < fewest || n > most {
		return nil, &rule{ErrRules, "expected 3 to 7 instructions: compute limit, compute price, transfer, then memo"}
	}
	if t.Signers != 2 {
		return nil, &rule{ErrRules, "expected two signers, the fee payer and the payer"}
	}
	if t.uses(0) {
		return nil, ErrFeePayer
	}
	if err := t.extras(); err != nil {
		return nil, err
	}
	p, err := t.transfer(mint, payTo)
	if err != nil {
		return nil, err
	}
	switch {
	case t.Signatures[0] != [signatureSize]byte{}:
		return nil, &rule{ErrSignature, "expected an empty signature of the fee payer, which signs last"}
	case !wallet.VerifyEd25519(p.Payer, t.Message, t.Signatures[1][:]):
		return nil, ErrSignature
	}
	return p, nil
}

// uses says that an instruction has the account.
func (t *Transaction) uses(at int) bool {
	return slices.ContainsFunc(t.Instructions, func(i Instruction) bool { return slices.Contains(i.Accounts, at) })
}

// extras are the instructions around the transfer.
func (t *Transaction) extras() error {
	limit, price := t.Instructions[0], t.Instructions[1]
	if t.Keys[limit.Program] != computeBudget || len(limit.Accounts) != 0 || len(limit.Data) != 5 ||
		limit.Data[0] != setLimit {
		return &rule{ErrRules, "expected the compute limit as the first instruction"}
	}
	if t.Keys[price.Program] != computeBudget || len(price.Accounts) != 0 || len(price.Data) != 9 ||
		price.Data[0] != setPrice {
		return &rule{ErrRules, "expected the compute price as the second instruction"}
	}
	if binary.LittleEndian.Uint64(price.Data[1:]) > maxPrice {
		return &rule{ErrRules, "expected a compute price of at most 5000000 microlamports"}
	}
	for _, i := range t.Instructions[fewest:] {
		if p := t.Keys[i.Program]; p != memo && p != lighthouse {
			return &rule{ErrRules, "expected nothing but memos and Lighthouse's assertions behind the transfer"}
		}
	}
	return nil
}

func (t *Transaction) transfer(mint, payTo wallet.Address) (*Payment, error) {
	i := t.Instructions[2]
	if p := t.Keys[i.Program]; p != token && p != token2022 {
		return nil, &rule{ErrRules, "expected the transfer of a token as the third instruction"}
	}
	if len(i.Data) != 10 || i.Data[0] != transfer || len(i.Accounts) != 4 {
		return nil, &rule{ErrRules, "expected TransferChecked with source, mint, destination and one authority"}
	}
	source, destination := i.Accounts[0], i.Accounts[2]
	p := &Payment{FeePayer: t.key(0), Payer: t.key(i.Accounts[3]), Mint: t.key(i.Accounts[1]), Source: t.key(source),
		Destination: t.key(destination), TokenProgram: t.key(i.Program), Units: binary.LittleEndian.Uint64(i.Data[1:])}
	switch {
	case p.Mint != mint:
		return nil, ErrToken
	case i.Data[9] != decimals:
		return nil, &rule{ErrToken, "expected a token with 6 decimals"}
	case i.Accounts[3] != 1:
		return nil, &rule{ErrRules, "expected the second signer to own the paid tokens"}
	case p.Destination != Associated(payTo, p.TokenProgram, mint):
		return nil, ErrRecipient
	case p.Source != Associated(p.Payer, p.TokenProgram, mint):
		return nil, &rule{ErrRules, "expected the payer's associated token account as the source"}
	case !t.writable(source) || !t.writable(destination):
		return nil, &rule{ErrRules, "expected source and destination to be writable"}
	}
	return p, nil
}
