package chain

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"strings"
	"time"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"github.com/mr-tron/base58"
)

// Payer is a wallet of either chain, as a client holds it: it signs payments, and in.
type Payer struct {
	Address string // lower case, or base58

	evm    *secp256k1.PrivateKey
	solana ed25519.PrivateKey
}

// NewPayer makes a wallet of an EVM.
func NewPayer() *Payer {
	key, err := secp256k1.GeneratePrivateKey()
	if err != nil {
		panic("chain: there are no random numbers: " + err.Error())
	}
	return &Payer{Address: AddressOf(key.PubKey()), evm: key}
}

// NewSolanaPayer makes a wallet of Solana.
func NewSolanaPayer() *Payer {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		panic("chain: there are no random numbers: " + err.Error())
	}
	return &Payer{Address: nameOf(key), solana: key}
}

// As is the wallet with the address of a contract for which it signs.
func (p *Payer) As(contract string) *Payer {
	return &Payer{Address: strings.ToLower(contract), evm: p.evm}
}

// Secret is the key, as 0x and digits; of an EVM alone.
func (p *Payer) Secret() string { return hexOf(p.evm.Serialize()) }

// IsSolana says which chain the wallet is of.
func (p *Payer) IsSolana() bool { return p.solana != nil }

// RandomNonce is 32 bytes as 0x and digits.
func RandomNonce() string {
	b := make([]byte, wordBytes)
	_, _ = rand.Read(b) // never fails
	return hexOf(b)
}

// Authorization pays so many units to an address, until then.
func (p *Payer) Authorization(to string, units int64, until time.Time) Authorization {
	return Authorization{From: p.Address, To: strings.ToLower(to), Value: units, ValidBefore: until.Unix(),
		Nonce: RandomNonce()}
}

// SignAuthorization signs for the token of an EVM.
func (p *Payer) SignAuthorization(e *EVM, a Authorization) []byte { return Sign(p.evm, e.Digest(a)) }

// SignDigest signs 32 bytes with the key of an EVM.
func (p *Payer) SignDigest(digest []byte) []byte { return Sign(p.evm, digest) }

// EVMPayload is a client's payload for an authorization.
func EVMPayload(a Authorization, signature []byte) map[string]any {
	return map[string]any{
		"signature": hexOf(signature),
		"authorization": map[string]any{
			"from": a.From, "to": a.To, "value": fmt.Sprint(a.Value), "validAfter": fmt.Sprint(a.ValidAfter),
			"validBefore": fmt.Sprint(a.ValidBefore), "nonce": a.Nonce,
		},
	}
}

// Order is a payment on Solana.
type Order struct {
	FeePayer  string
	PayTo     string // the owner of the account
	Mint      string
	Units     int64
	Blockhash string
	Memo      string // empty: a random one, so that no two are alike
	Decimals  byte   // default 6
}

const (
	computeProgram = "ComputeBudget111111111111111111111111111111"
	memoProgram    = "MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr"
)

// Transaction is a payment on Solana with the wallet's signature, for whose fee payer
// there is room.
func (p *Payer) Transaction(o Order) []byte {
	if o.Memo == "" {
		o.Memo = RandomNonce()[2:34]
	}
	if o.Decimals == 0 {
		o.Decimals = 6
	}
	keys := []string{o.FeePayer, p.Address, TokenAccount(p.Address, o.Mint), TokenAccount(o.PayTo, o.Mint), o.Mint,
		TokenProgram, computeProgram, memoProgram}
	body := []byte{versionZero, 2, 1, 4, byte(len(keys))}
	for _, key := range append(keys, o.Blockhash) {
		b, err := base58.Decode(key)
		if err != nil || len(b) != keyBytes {
			panic("chain: " + key + " is no key")
		}
		body = append(body, b...)
	}
	amount := append(binary.LittleEndian.AppendUint64([]byte{transferChecked}, uint64(o.Units)), o.Decimals)
	body = append(body, 4)
	body = append(body, 6, 0, 5, 2, 0x20, 0x4e, 0, 0)            // 20,000 units of work
	body = append(body, 6, 0, 9, 3, 1, 0, 0, 0, 0, 0, 0, 0)      // at 1 micro-lamport
	body = append(append(body, 5, 4, 2, 4, 3, 1, 10), amount...) // source, mint, to, authority
	body = append(append(body, 7, 0, byte(len(o.Memo))), o.Memo...)
	body = append(body, 0)
	return bytes.Join([][]byte{{2}, make([]byte, signatureOnCurve), ed25519.Sign(p.solana, body), body}, nil)
}

// Bring lands a transaction whose fee this wallet pays.
func (p *Payer) Bring(s *Solana, wire []byte) (signature string, err error) {
	return s.Pay(wire, p.solana)
}

// SolanaPayload is a client's payload for a transaction.
func SolanaPayload(wire []byte) map[string]any {
	return map[string]any{"transaction": base64.StdEncoding.EncodeToString(wire)}
}

// SignIn is a message that a wallet signs (EIP-4361, and the like of Solana).
type SignIn struct {
	Domain, URI string
	ChainID     string // default 8453, or Solana's mainnet
	Version     string // default 1
	Nonce       string // default random
	Statement   string
	IssuedAt    time.Time // default now
	Expires     time.Time // zero: it does not say
	NotBefore   time.Time
}

// Message is its text, for a wallet.
func (s SignIn) Message(p *Payer) string {
	family, address := "Ethereum", Checksummed(p.Address)
	if p.IsSolana() {
		family, address = "Solana", p.Address
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s wants you to sign in with your %s account:\n%s\n\n", s.Domain, family, address)
	if s.Statement != "" {
		fmt.Fprintf(&b, "%s\n\n", s.Statement)
	} else if !p.IsSolana() {
		b.WriteString("\n")
	}
	fmt.Fprintf(&b, "URI: %s\nVersion: %s\nChain ID: %s\nNonce: %s\nIssued At: %s", s.URI, s.Version, s.ChainID, s.Nonce,
		timeText(s.IssuedAt))
	if !s.Expires.IsZero() {
		fmt.Fprintf(&b, "\nExpiration Time: %s", timeText(s.Expires))
	}
	if !s.NotBefore.IsZero() {
		fmt.Fprintf(&b, "\nNot Before: %s", timeText(s.NotBefore))
	}
	return b.String()
}

func timeText(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// Complete fills in the missing fields.
func (s SignIn) Complete(p *Payer) SignIn {
	if s.ChainID == "" {
		s.ChainID = "8453"
		if p.IsSolana() {
			s.ChainID = solanaNetwork
		}
	}
	if s.Version == "" {
		s.Version = "1"
	}
	if s.Nonce == "" {
		s.Nonce = RandomNonce()[2:34]
	}
	if s.IssuedAt.IsZero() {
		s.IssuedAt = time.Now()
	}
	return s
}

// SignInMembers are those of the header that a wallet signs in with.
func (p *Payer) SignInMembers(s SignIn) map[string]any {
	s = s.Complete(p)
	text := s.Message(p)
	if p.IsSolana() {
		return map[string]any{"address": p.Address, "message": text, "type": "ed25519", "chainId": s.ChainID,
			"signature": base58.Encode(ed25519.Sign(p.solana, []byte(text)))}
	}
	return map[string]any{"address": Checksummed(p.Address), "message": text, "chainId": "eip155:" + s.ChainID,
		"signature": hexOf(p.SignDigest(PersonalDigest(text)))}
}

// Header is members as a header carries them.
func Header(members map[string]any) string {
	return base64.StdEncoding.EncodeToString(answered(members).Result)
}

// Checksummed is an EVM address as EIP-55 writes it.
func Checksummed(address string) string {
	text := []byte(strings.TrimPrefix(address, "0x"))
	sum := keccak(text)
	for i, c := range text {
		if c >= 'a' && sum[i/2]>>(4*(1-i%2))&15 >= 8 {
			text[i] = c - 'a' + 'A'
		}
	}
	return "0x" + string(text)
}
