package desk

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"farebox/billing/money"
	"farebox/providers/x402"
	"farebox/providers/x402/evm"
	"farebox/providers/x402/payer"
)

const (
	// tryLife is how long the payment of a try holds.
	tryLife = 10 * time.Minute
	// tryFind is how long its evidence is waited for, and tryEvery between two looks.
	tryFind  = time.Minute
	tryEvery = 2 * time.Second
)

// Step is one of a try.
type Step struct {
	Name string
	Did  string // what it came to
	Err  error  // why it failed, which ends the try
}

// Try makes a real payment of so many units on a network of EVM with a wallet's key,
// and tells each step to told: the same ones that a top-up takes. The money goes to
// pay_to and is credited to nobody. It says whether all went well.
func (d *Desk) Try(ctx context.Context, network string, key *payer.EVM, units int64, told func(Step)) bool {
	t := &try{Desk: d, ctx: ctx, key: key, units: units}
	for _, step := range []struct {
		name string
		do   func() (string, error)
	}{
		{"facilitators say what they support", func() (string, error) { return t.supported(network) }},
		{"a payment is signed and read", func() (string, error) { return t.sign(network) }},
		{"the chain would take it", t.prepare},
		{"the facilitator verifies it", t.verify},
		{"the facilitator settles it", t.settle},
		{"the chain has it", t.find},
	} {
		did, err := step.do()
		told(Step{step.name, did, err})
		if err != nil {
			return false
		}
	}
	return true
}

type try struct {
	*Desk
	ctx         context.Context
	key         *payer.EVM
	units       int64
	payment     *x402.Payment
	transaction string
}

func (t *try) supported(network string) (string, error) {
	n := t.Terms.Network(network)
	if n == nil || !n.EVM() {
		return "", fmt.Errorf("%q is no network of EVM in x402.networks; expected one", network)
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
	low.MinTopUp = min(low.MinTopUp, money.Nano(t.units)*x402.NanoPerUnit)
	terms, err := x402.NewTerms(&low, t.Facilitators)
	if err != nil {
		return "", err
	}
	n := terms.Network(network)
	a := &evm.Authorization{From: t.key.Address(), To: n.PayTo, Value: evm.NumberOf(t.units),
		ValidBefore: evm.NumberOf(time.Now().Add(tryLife).Unix())}
	if _, err := rand.Read(a.Nonce[:]); err != nil {
		return "", err
	}
	header, err := payer.Header(n.Requirement(t.units), t.key.Pay(n.Separator(), a))
	if err != nil {
		return "", err
	}
	if t.payment, err = terms.Read(header, time.Now()); err != nil {
		return "", err
	}
	return fmt.Sprintf("%s pays %s USD to %s", a.From.Checksummed(), t.payment.Amount, a.To.Checksummed()), nil
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

// settle goes on after a failure that may be none: the chain decides.
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
		case err == nil && f.Fate == x402.Paid && f.Settled:
			return "transaction " + f.Transaction, nil
		case err == nil && (f.Fate == x402.Spent || f.Fate == x402.Over):
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
