package payer

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"github.com/decred/dcrd/dcrec/secp256k1/v4/ecdsa"
	"github.com/mr-tron/base58"

	"farebox/providers/wallet"
	"farebox/providers/x402/evm"
	"farebox/providers/x402/svm"
)

// EVM is a wallet of EVM chains with its key.
type EVM struct{ key *secp256k1.PrivateKey }

// ErrKey describes a valid key. It holds nothing of the key.
var ErrKey = errors.New("is not the private key of a wallet: expected 64 hexadecimal digits, with or without 0x")

// ParseEVM reads a private key.
func ParseEVM(text string) (*EVM, error) {
	b, err := hex.DecodeString(strings.TrimPrefix(strings.TrimSpace(text), "0x"))
	if err != nil || len(b) != 32 {
		return nil, ErrKey
	}
	var n secp256k1.ModNScalar
	if n.SetByteSlice(b) || n.IsZero() {
		return nil, ErrKey
	}
	return &EVM{secp256k1.NewPrivateKey(&n)}, nil
}

// Address of the wallet.
func (e *EVM) Address() wallet.Address {
	sum := wallet.Keccak(e.key.PubKey().SerializeUncompressed()[1:])
	return wallet.EVMAddress([20]byte(sum[12:]))
}

// Sign signs a hash: r, s, v.
func (e *EVM) Sign(hash [32]byte) []byte {
	compact := ecdsa.SignCompact(e.key, hash[:], false)
	return append(compact[1:], compact[0])
}

// Pay is the payload of an authorization that the wallet signs.
func (e *EVM) Pay(separator evm.Word, a *evm.Authorization) Payload {
	signature := evm.Hex(e.Sign(a.Digest(separator)))
	return Payload{Signature: signature, Authorization: &Authorization{From: a.From.Checksummed(), To: a.To.Checksummed(),
		Value: a.Value.String(), ValidAfter: a.ValidAfter.String(), ValidBefore: a.ValidBefore.String(),
		Nonce: evm.Hex(a.Nonce[:])}}
}

// Solana is a wallet of Solana with its key.
type Solana struct{ key ed25519.PrivateKey }

// ErrSolanaKey describes a valid key of Solana. It holds nothing of the key.
var ErrSolanaKey = errors.New("is not the private key of a Solana wallet: expected the 64 numbers of a keypair file, " +
	"or 64 bytes in base58")

// ParseSolana reads a private key: the file that solana-keygen writes, or base58 as
// wallets show it. Its second half must be the public key of the first.
func ParseSolana(text string) (*Solana, error) {
	var numbers []uint8
	b, err := base58.Decode(text)
	if strings.HasPrefix(text, "[") {
		var list []int
		if err = json.Unmarshal([]byte(text), &list); err == nil {
			for _, n := range list {
				if n < 0 || n > 255 {
					return nil, ErrSolanaKey
				}
				numbers = append(numbers, uint8(n))
			}
		}
		b = numbers
	}
	if err != nil || len(b) != ed25519.PrivateKeySize {
		return nil, ErrSolanaKey
	}
	key := ed25519.NewKeyFromSeed(b[:ed25519.SeedSize])
	if !key.Equal(ed25519.PrivateKey(b)) {
		return nil, ErrSolanaKey
	}
	return &Solana{key}, nil
}

// NewSolana is the wallet of a seed.
func NewSolana(seed [32]byte) *Solana { return &Solana{ed25519.NewKeyFromSeed(seed[:])} }

// Address of the wallet.
func (s *Solana) Address() wallet.Address {
	return wallet.SolanaAddress([32]byte(s.key.Public().(ed25519.PublicKey)))
}

// Sign signs a message.
func (s *Solana) Sign(message []byte) [64]byte { return [64]byte(ed25519.Sign(s.key, message)) }

// Pay is the payload of a transaction that the wallet signs as its second signer.
func (s *Solana) Pay(t *svm.Transaction) Payload {
	t.Signatures[1] = s.Sign(t.Message)
	return Payload{Transaction: base64.StdEncoding.EncodeToString(t.AppendWire(nil))}
}

// Payload is the payload that a wallet hands over.
type Payload struct {
	Signature     string         `json:"signature,omitempty"`
	Authorization *Authorization `json:"authorization,omitempty"`
	Transaction   string         `json:"transaction,omitempty"`
}

// Authorization is one of EIP-3009 as payloads have it.
type Authorization struct {
	From        string `json:"from"`
	To          string `json:"to"`
	Value       string `json:"value"`
	ValidAfter  string `json:"validAfter"`
	ValidBefore string `json:"validBefore"`
	Nonce       string `json:"nonce"`
}

// Header is a payment as version 2 of the protocol sends it: accepted is the entry
// that was chosen.
func Header(accepted any, p Payload) (string, error) {
	text, err := json.Marshal(struct {
		X402Version int     `json:"x402Version"`
		Accepted    any     `json:"accepted"`
		Payload     Payload `json:"payload"`
	}{2, accepted, p})
	if err != nil {
		return "", fmt.Errorf("cannot write the payment down: %w", err)
	}
	return base64.StdEncoding.EncodeToString(text), nil
}
