package chain

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"

	"github.com/mr-tron/base58"
)

// This file reads the requests to a facilitator, strictly.

// requirements are the requirements of a seller.
type requirements struct {
	Scheme, Network, Amount, Asset, PayTo string
	MaxTimeoutSeconds                     int64
	Extra                                 map[string]string
}

// Payment is one that a facilitator was sent.
type Payment struct {
	Network string
	Payer   string
	need    requirements
	// Of an EVM:
	authorization Authorization
	signature     []byte
	// Of Solana:
	wire []byte
}

// Read takes a request apart.
func (f *Facilitator) Read(body []byte) (*Payment, error) {
	top, err := members(body, "the request", "x402Version", "paymentPayload", "paymentRequirements")
	if err != nil {
		return nil, err
	}
	if string(top["x402Version"]) != "2" {
		return nil, errors.New("x402Version is not 2")
	}
	payload, err := members(top["paymentPayload"], "paymentPayload", "x402Version", "accepted", "payload", "resource?",
		"extensions?")
	if err != nil {
		return nil, err
	}
	if string(payload["x402Version"]) != "2" {
		return nil, errors.New("paymentPayload.x402Version is not 2")
	}
	need, err := readRequirements(top["paymentRequirements"], "paymentRequirements")
	if err != nil {
		return nil, err
	}
	accepted, err := readRequirements(payload["accepted"], "paymentPayload.accepted")
	if err != nil {
		return nil, err
	}
	if fmt.Sprint(*accepted) != fmt.Sprint(*need) {
		return nil, errors.New("paymentPayload.accepted differs from paymentRequirements")
	}
	p := &Payment{Network: need.Network, need: *need}
	switch {
	case f.EVM != nil && need.Network == f.EVM.network():
		return p, p.readEVM(payload["payload"])
	case f.Solana != nil && need.Network == solanaNetwork:
		return p, p.readSolana(payload["payload"])
	}
	return nil, fmt.Errorf("no facilitator registered for network %s", need.Network)
}

func readRequirements(raw json.RawMessage, what string) (*requirements, error) {
	if _, err := members(raw, what, "scheme", "network", "amount", "asset", "payTo", "maxTimeoutSeconds",
		"extra"); err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	var need requirements
	if err := d.Decode(&need); err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	if need.Scheme != "exact" || !decimal.MatchString(need.Amount) || need.MaxTimeoutSeconds <= 0 {
		return nil, fmt.Errorf("%s is not of scheme exact with an amount and a time", what)
	}
	return &need, nil
}

var (
	decimal = regexp.MustCompile(`^(0|[1-9][0-9]{0,18})$`)
	address = regexp.MustCompile(`^0x[0-9a-fA-F]{40}$`)
	nonce   = regexp.MustCompile(`^0x[0-9a-fA-F]{64}$`)
)

func (p *Payment) readEVM(raw json.RawMessage) error {
	m, err := members(raw, "payload", "signature", "authorization")
	if err != nil {
		return err
	}
	if _, err := members(m["authorization"], "authorization", "from", "to", "value", "validAfter", "validBefore",
		"nonce"); err != nil {
		return err
	}
	var a struct{ From, To, Value, ValidAfter, ValidBefore, Nonce string }
	if err := json.Unmarshal(m["authorization"], &a); err != nil {
		return fmt.Errorf("authorization: %w", err)
	}
	if !address.MatchString(a.From) || !address.MatchString(a.To) || !nonce.MatchString(a.Nonce) {
		return errors.New("authorization has no addresses or no nonce")
	}
	var signature string
	if json.Unmarshal(m["signature"], &signature) != nil || len(signature) < 4 {
		return errors.New("signature is not text")
	}
	p.signature = unhex(signature)
	p.authorization = Authorization{From: lower(a.From), To: lower(a.To), Nonce: lower(a.Nonce)}
	for _, n := range []struct {
		text string
		into *int64
	}{{a.Value, &p.authorization.Value}, {a.ValidAfter, &p.authorization.ValidAfter},
		{a.ValidBefore, &p.authorization.ValidBefore}} {
		if *n.into, err = strconv.ParseInt(n.text, 10, 64); err != nil || !decimal.MatchString(n.text) {
			return fmt.Errorf("authorization has %q where a number as text stands", n.text)
		}
	}
	p.Payer = a.From
	return nil
}

func lower(hex string) string { return string(bytes.ToLower([]byte(hex))) }

func (p *Payment) readSolana(raw json.RawMessage) error {
	m, err := members(raw, "payload", "transaction")
	if err != nil {
		return err
	}
	var text string
	if json.Unmarshal(m["transaction"], &text) != nil {
		return errors.New("transaction is not text")
	}
	if p.wire, err = decode64(text); err != nil {
		return fmt.Errorf("transaction: %w", err)
	}
	if msg, err := readMessage(p.wire); err == nil {
		_, _, _, p.Payer, _, _ = msg.transfer() // check reports the fault
	}
	return nil
}

// Facilitators take no other amount or receiver than was asked for.
var (
	errValue     = errors.New("invalid_exact_evm_payload_authorization_value_mismatch")
	errRecipient = errors.New("invalid_exact_evm_payload_recipient_mismatch")
	errFeePayer  = errors.New("fee_payer_not_managed_by_facilitator")
)

// Check makes the checks of verify.
func (p *Payment) Check(f *Facilitator) error {
	if p.wire != nil {
		return p.checkSolana(f)
	}
	a := p.authorization
	switch {
	case lower(p.need.Asset) != f.EVM.o.Asset || p.need.Extra["name"] != f.EVM.o.Name ||
		p.need.Extra["version"] != f.EVM.o.Version:
		return errUnsigned
	case strconv.FormatInt(a.Value, 10) != p.need.Amount:
		return errValue
	case a.To != lower(p.need.PayTo):
		return errRecipient
	}
	return f.EVM.Check(a, p.signature)
}

func (p *Payment) checkSolana(f *Facilitator) error {
	l, err := f.Solana.Check(p.wire)
	switch {
	case err != nil:
		return err
	case strconv.FormatInt(l.Units, 10) != p.need.Amount:
		return errors.New("invalid_exact_svm_payload_amount_mismatch")
	case l.To != TokenAccount(p.need.PayTo, p.need.Asset):
		return errors.New("invalid_exact_svm_payload_recipient_mismatch")
	case l.keys[0] != p.need.Extra["feePayer"]:
		return errFeePayer
	}
	return nil
}

// Pay is settle: the same checks, and then onto the chain.
func (p *Payment) Pay(f *Facilitator) (transaction string, err error) {
	if err := p.Check(f); err != nil {
		return "", err
	}
	if p.wire == nil {
		transaction, err = f.EVM.Pay(p.authorization, p.signature)
		if err == nil {
			f.EVM.Wait()
		}
		return transaction, err
	}
	for _, key := range f.feePayers() {
		if nameOf(key) == p.need.Extra["feePayer"] {
			transaction, err = f.Solana.Pay(p.wire, key)
			f.Solana.Wait()
			return transaction, err
		}
	}
	return "", errFeePayer
}

// Invented is a transaction that was never sent.
func (p *Payment) Invented() string {
	sum := keccak(p.wire, p.signature)
	if p.wire == nil {
		return hexOf(sum)
	}
	return base58.Encode(append(sum, sum...))
}
