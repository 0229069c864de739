package chainclient

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"farebox/config"
	"farebox/config/onchain"
	"farebox/providers/wallet"
	"farebox/providers/x402"
	"farebox/providers/x402/evm"
	"farebox/providers/x402/payer"
	"farebox/providers/x402/svm"
)

const (
	// tryLife is how long the payment of a try holds.
	tryLife = 10 * time.Minute
	// tryFind is the time for the chain to show it, and tryEvery the interval of questions.
	tryFind  = time.Minute
	tryEvery = 2 * time.Second
)

// Step is one of a try.
type Step struct {
	Name string
	Did  string // its result
	Err  error  // why it failed, which ends the try
}

// Try makes a real payment of so many units on a network with the text of a wallet's
// private key, in the steps of a top-up, and reports each step. The money goes to pay_to
// and is not credited. Try says whether all steps succeeded.
func (c *Client) Try(ctx context.Context, network, key string, units int64, report func(Step)) bool {
	t := &try{Client: c, ctx: ctx, key: key, units: units}
	for _, step := range []struct {
		name string
		do   func() (string, error)
	}{
		{"facilitators list their networks", func() (string, error) { return t.supported(network) }},
		{"a payment is signed and read", func() (string, error) { return t.sign(network) }},
		{"the chain would take it", t.prepare},
		{"the facilitator verifies it", t.verify},
		{"the facilitator settles it", t.settle},
		{"the chain has it", t.find},
	} {
		did, err := step.do()
		report(Step{step.name, did, err})
		if err != nil {
			return false
		}
	}
	return true
}

type try struct {
	*Client
	ctx         context.Context
	key         string
	units       int64
	payment     *onchain.Payment
	transaction string
}

func (t *try) supported(network string) (string, error) {
	n, err := t.network(network)
	if err != nil {
		return "", err
	}
	var good, bad []string
	for name, err := range t.Facilitators.Ask(t.ctx, n.Name) {
		if err != nil {
			bad = append(bad, name+": "+err.Error())
		} else {
			good = append(good, name)
		}
	}
	if len(good) == 0 {
		return "", errors.New(strings.Join(bad, "; "))
	}
	return strings.Join(append(good, bad...), "; "), nil
}

func (t *try) sign(network string) (string, error) {
	low := *t.config // a try may pay less than a top-up
	low.MinTopUp = min(low.MinTopUp, config.Nano(t.units)*x402.NanoPerUnit)
	terms, err := x402.NewTerms(&low, t.Facilitators)
	if err != nil {
		return "", err
	}
	n := terms.Network(network)
	pay := t.onEVM
	if !n.EVM() {
		pay = t.onSolana
	}
	from, payload, err := pay(n)
	if err != nil {
		return "", err
	}
	header, err := payer.Header(n.Requirement(t.units), payload)
	if err != nil {
		return "", err
	}
	if t.payment, err = terms.Read(header, time.Now()); err != nil {
		return "", err
	}
	return fmt.Sprintf("%s pays %s USD to %s", from.Checksummed(), t.payment.Amount, n.PayTo.Checksummed()), nil
}

func (t *try) onEVM(n *x402.Network) (from wallet.Address, p payer.Payload, err error) {
	key, err := payer.ParseEVM(t.key)
	if err != nil {
		return from, p, fmt.Errorf("the wallet's key %w", err)
	}
	a := &evm.Authorization{From: key.Address(), To: n.PayTo, Value: evm.NumberOf(t.units),
		ValidBefore: evm.NumberOf(time.Now().Add(tryLife).Unix())}
	rand.Read(a.Nonce[:]) // never fails
	return a.From, key.Pay(n.Separator(), a), nil
}

func (t *try) onSolana(n *x402.Network) (from wallet.Address, p payer.Payload, err error) {
	key, err := payer.ParseSolana(t.key)
	if err != nil {
		return from, p, fmt.Errorf("the wallet's key %w", err)
	}
	feePayer, err := wallet.ParseAddress(t.Facilitators.Offer(n.Name))
	if err != nil {
		return from, p, errors.New("no facilitator names the fee payer")
	}
	hash, err := t.chains[n.Name].Blockhash(t.ctx)
	if err != nil {
		return from, p, err
	}
	draft := &svm.Draft{FeePayer: feePayer, Payer: key.Address(), PayTo: n.PayTo, Mint: n.Asset, Units: uint64(t.units),
		Blockhash: hash, Memo: rand.Text()}
	return key.Address(), key.Pay(draft.Transaction()), nil
}

func (t *try) prepare() (string, error) {
	order, refused, err := t.Prepare(t.ctx, t.payment)
	if err != nil {
		return "", err
	}
	if refused != nil {
		return "", fmt.Errorf("it would not: %s", refused.Reason)
	}
	t.payment.Order = order
	return "its nonce is unused and the wallet has the money", nil
}

func (t *try) verify() (string, error) {
	r, err := t.Verify(t.ctx, t.payment)
	if err == nil && !r.OK {
		err = fmt.Errorf("it does not: %s", r.Reason)
	}
	return "it would settle it", err
}

// settle goes on after a failure that may be a success: the chain decides.
func (t *try) settle() (string, error) {
	r, err := t.Settle(t.ctx, t.payment)
	t.transaction = r.Transaction
	switch {
	case err != nil && r.Unclear:
		return "it is not clear whether it did: " + err.Error(), nil
	case err != nil:
		return "", err
	case !r.OK:
		return "it says that it did not, which the chain decides: " + r.Reason, nil
	}
	return "transaction " + r.Transaction, nil
}

func (t *try) find() (string, error) {
	ctx, cancel := context.WithTimeout(t.ctx, tryFind)
	defer cancel()
	for {
		f, err := t.Find(ctx, t.payment, t.transaction)
		switch {
		case err == nil && f.State == onchain.Paid && f.Settled:
			return "transaction " + f.Transaction, nil
		case err == nil && (f.State == onchain.Spent || f.State == onchain.Over):
			return "", fmt.Errorf("it never will: %s", f.Reason)
		case err == nil:
			err = errors.New("the nodes agree that it is not on the chain")
		}
		select {
		case <-ctx.Done():
			return "", fmt.Errorf("it is not found within %s: %w", tryFind, err)
		case <-time.After(tryEvery):
		}
	}
}
