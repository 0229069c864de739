package x402

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"

	"farebox/providers/wallet"
	"farebox/providers/x402/evm"
	"farebox/providers/x402/svm"
)

// Order is a signed payment with all data to send and to find it, also after
// the config has changed. It is stored as onchain.Payment.Order.
type Order struct {
	Network     string       `json:"network"`
	Asset       string       `json:"asset"`
	PayTo       string       `json:"pay_to"`
	Payer       string       `json:"payer"`
	Units       int64        `json:"units"`
	Requirement Requirement  `json:"requirement"`
	EVM         *EVMOrder    `json:"evm,omitempty"`
	Solana      *SolanaOrder `json:"solana,omitempty"`
	Moved       *MovedOrder  `json:"moved,omitempty"`
	// Since is the height of the chain before the payment was sent to any facilitator: a
	// block, or a slot. 0: it was not asked yet.
	Since int64 `json:"since,omitempty"`
	// Past says that the chain had it before we did: Since is the earliest height that it
	// can have.
	Past bool `json:"past,omitempty"`
}

// EVMOrder is a signed authorization.
type EVMOrder struct {
	From        string `json:"from"`
	To          string `json:"to"`
	Value       string `json:"value"`
	ValidAfter  string `json:"validAfter"`
	ValidBefore string `json:"validBefore"`
	Nonce       string `json:"nonce"`
	Signature   string `json:"signature"`
	Digest      string `json:"digest"`
	// Contract says that only the payer's contract knows whether it signed.
	Contract bool `json:"contract,omitempty"`
}

// SolanaOrder is a transaction that lacks the signature of its fee payer.
type SolanaOrder struct {
	Transaction string `json:"transaction"`
	Source      string `json:"source"`
	FeePayer    string `json:"fee_payer"`
}

// MovedOrder is money that is on the chain already, without a signature for us.
type MovedOrder struct {
	Transaction string `json:"transaction"`
	Index       int    `json:"index"` // on EVM: of the log among those of the transaction
}

func newEVMOrder(a *evm.Authorization, digest evm.Word, signature []byte, contract bool) *EVMOrder {
	return &EVMOrder{From: a.From.Checksummed(), To: a.To.Checksummed(), Value: a.Value.String(),
		ValidAfter: a.ValidAfter.String(), ValidBefore: a.ValidBefore.String(), Nonce: evm.Hex(a.Nonce[:]),
		Signature: evm.Hex(signature), Digest: evm.Hex(digest[:]), Contract: contract}
}

// encode is the stored form of the order.
func (o *Order) encode() ([]byte, error) { return json.Marshal(o) }

// At is the order with the height of the chain.
func (o *Order) At(since int64) ([]byte, error) {
	at := *o
	at.Since = since
	return at.encode()
}

// ParseOrder reads the Order of a payment.
func ParseOrder(text []byte) (*Order, error) {
	o := new(Order)
	if err := json.Unmarshal(text, o); err != nil {
		return nil, fmt.Errorf("cannot read the order of a payment: %w", err)
	}
	kinds := 0
	for _, is := range [...]bool{o.EVM != nil, o.Solana != nil, o.Moved != nil} {
		if is {
			kinds++
		}
	}
	if kinds != 1 || o.Network == "" || o.Units <= 0 {
		return nil, errors.New("cannot read the order of a payment: it has another version")
	}
	return o, nil
}

// Authorization is the authorization that the payer of an EVM order signed.
func (o *Order) Authorization() (a evm.Authorization, digest evm.Word, signature []byte, err error) {
	var ok [3]bool
	e := o.EVM
	var failed [5]error
	a.From, failed[0] = wallet.ParseAddress(e.From)
	a.To, failed[1] = wallet.ParseAddress(e.To)
	a.Value, failed[2] = evm.ParseNumber(e.Value)
	a.ValidAfter, failed[3] = evm.ParseNumber(e.ValidAfter)
	a.ValidBefore, failed[4] = evm.ParseNumber(e.ValidBefore)
	a.Nonce, ok[0] = evm.ParseWord(e.Nonce)
	digest, ok[1] = evm.ParseWord(e.Digest)
	signature, ok[2] = evm.ParseHex(e.Signature, maxSignature)
	if err = errors.Join(failed[:]...); err != nil || ok != [3]bool{true, true, true} {
		return a, digest, nil, errors.New("cannot read the order of a payment: its authorization is damaged")
	}
	return a, digest, signature, nil
}

// Transaction is the transaction that the payer of a Solana order signed.
func (o *Order) Transaction() (*svm.Transaction, error) {
	wire, err := base64.StdEncoding.DecodeString(o.Solana.Transaction)
	if err != nil {
		return nil, fmt.Errorf("cannot read the order of a payment: %w", err)
	}
	return svm.Parse(wire)
}

// Body is the request to a facilitator to verify and to settle, in the form of version 2
// and in our own words.
func (o *Order) Body() ([]byte, error) {
	type authorization struct {
		From        string `json:"from"`
		To          string `json:"to"`
		Value       string `json:"value"`
		ValidAfter  string `json:"validAfter"`
		ValidBefore string `json:"validBefore"`
		Nonce       string `json:"nonce"`
	}
	type payload struct {
		Signature     string         `json:"signature,omitempty"`
		Authorization *authorization `json:"authorization,omitempty"`
		Transaction   string         `json:"transaction,omitempty"`
	}
	type paymentPayload struct {
		X402Version int         `json:"x402Version"`
		Accepted    Requirement `json:"accepted"`
		Payload     payload     `json:"payload"`
	}
	var p payload
	if o.Moved != nil {
		return nil, errors.New("cannot send an unsigned payment: it is already on the chain")
	}
	if e := o.EVM; e != nil {
		p.Signature = e.Signature
		p.Authorization = &authorization{e.From, e.To, e.Value, e.ValidAfter, e.ValidBefore, e.Nonce}
	} else {
		p.Transaction = o.Solana.Transaction
	}
	return json.Marshal(struct {
		X402Version         int            `json:"x402Version"`
		PaymentPayload      paymentPayload `json:"paymentPayload"`
		PaymentRequirements Requirement    `json:"paymentRequirements"`
	}{Version, paymentPayload{Version, o.Requirement, p}, o.Requirement})
}
