package billing

import (
	"errors"
	"fmt"
	"math"

	"farebox/billing/store"
	"farebox/config"
)

// ProvenPayment is money that the chain has at pay_to, by the word of its witnesses, and
// that no payment is of. Its ID is the one that the same money always has.
type ProvenPayment struct {
	ID          string `json:"id"`
	Network     string `json:"network"`
	Asset       string `json:"asset"`
	Payer       string `json:"payer"`
	Units       int64  `json:"units"`
	Amount      Nano   `json:"amount"`
	Order       []byte `json:"order"` // what it is found by again
	Transaction string `json:"transaction"`
	Final       bool   `json:"final"` // the chain cannot lose it any more
}

// nextLookUs is when the chain is asked again about an assigned payment.
const nextLookUs = int64(20 * 1e6)

// AssignPayment credits money that reached pay_to without a payment to a wallet, or to an
// account by id or name. It becomes a payment like any other: credited once, whoever sends
// or assigns it again, and taken back when the chain loses it.
func (l *Ledger) AssignPayment(p ProvenPayment, to, by, reason string) (PaymentInfo, error) {
	fail := func(err error) (PaymentInfo, error) {
		return PaymentInfo{}, fmt.Errorf("cannot assign the payment %q to %q: %w", p.ID, to, err)
	}
	if err := checkDecision(by, reason); err != nil {
		return fail(err)
	}
	if !config.IsWallet(to) {
		a, err := l.findAccount(to)
		switch {
		case err != nil:
			return fail(err)
		case l.statusOf(a) == store.AccountClosed:
			return fail(ErrClosed)
		}
		to = a.Name
	}
	now := l.Payments().NowUs()
	row := &store.PaymentRow{ID: p.ID, Network: p.Network, Asset: p.Asset, Wallet: to, Units: p.Units, Amount: p.Amount,
		Order: p.Order, State: store.PaymentSubmitted, LeaseUs: now + decisionUs, NextUs: now, CreatedUs: now}
	existing, err := l.store.AddPayment(row, math.MaxInt32, math.MaxInt32)
	switch {
	case err != nil:
		return fail(err)
	case existing != nil && existing.State.Open():
		return fail(fmt.Errorf("a node looks after it already, in state %s for %s: it is credited by itself, or "+
			"farebox wallet resolve decides it", existing.State, existing.Wallet))
	case existing != nil:
		return fail(fmt.Errorf("%w: it is %s, for %s", ErrDecided, existing.State, existing.Wallet))
	}
	resolved := "assigned by " + by + ": " + reason + " (paid by " + p.Payer + ")"
	after, applied, err := l.Payments().CreditPayment(&store.PaymentCredit{ID: p.ID, Epoch: row.Epoch,
		Transaction: p.Transaction, Final: p.Final, Resolved: resolved, NextUs: now + nextLookUs})
	if err == nil && !applied && after.Resolved != resolved {
		err = errors.New("somebody else resolved it meanwhile")
	}
	if err != nil {
		return fail(err)
	}
	return l.PaymentOf(p.ID)
}
