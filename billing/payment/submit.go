package payment

import (
	"context"
	"errors"
	"runtime/debug"
	"time"

	"farebox/billing/money"
	"farebox/billing/store"
	"farebox/config/fair"
	"farebox/config/onchain"
)

// Ending is how a submission ended, for its payer.
type Ending uint8

// The endings of a submission.
const (
	Credited   Ending = 1 + iota // 200, also where an earlier submission was
	InProgress                   // 409: another submission of it is under way
	Refused                      // 402: it is not accepted, for Refusal
	Unknown                      // 504: it may be credited later
	NotSent                      // 503: no facilitator was asked to settle it
	Full                         // 503: too many payments are without an outcome
)

// Outcome is the answer to a submission.
type Outcome struct {
	Ending      Ending
	Amount      money.Nano // of Credited
	Balance     money.Nano // of Credited: USD of the account right after the credit
	Transaction string     // of Credited; otherwise a hint
	Again       bool       // of Credited: it was credited by an earlier submission
	Refusal     onchain.Refusal
}

func refused(code, reason string) Outcome {
	return Outcome{Ending: Refused, Refusal: onchain.Refusal{Code: code, Reason: reason}}
}

// Submit drives a payment that x402.Terms.Read accepted to its outcome. It counts against
// the owner of the request (fair.Of) on this node while it is under way, and against share,
// the owner of the wallet, in the store while it has no outcome. Submit returns Unknown
// when ctx ends first; the payment continues.
func (m *Machine) Submit(ctx context.Context, p *onchain.Payment, share fair.Owner) Outcome {
	from := fair.Of(ctx)
	switch ok, full := m.acquire(p.ID, from); {
	case full:
		return m.stats.count(Outcome{Ending: Full})
	case !ok:
		return m.stats.count(Outcome{Ending: InProgress})
	}
	answer := make(chan Outcome, 1)
	m.work.Go(func() {
		out := m.guard(func() Outcome { return m.submit(p, share) })
		m.finish(p.ID, from) // before its client can repeat it
		answer <- out
	})
	select {
	case out := <-answer:
		return m.stats.count(out)
	case <-ctx.Done():
		return m.stats.count(Outcome{Ending: Unknown})
	}
}

// guard turns a panic into an unknown outcome; the row has the last step.
func (m *Machine) guard(do func() Outcome) (out Outcome) {
	defer func() {
		if r := recover(); r != nil {
			m.stats.panics.Add(1)
			m.o.Log.Error().Interface("panic", r).Bytes("stack", debug.Stack()).Msg("payments: a step failed")
			out = Outcome{Ending: Unknown}
		}
	}()
	return do()
}

func (m *Machine) submit(p *onchain.Payment, share fair.Owner) Outcome {
	row, err := m.o.Store.Payment(p.ID)
	switch {
	case errors.Is(err, store.ErrNoRow):
		return m.begin(p, share)
	case !m.note(err):
		return Outcome{Ending: NotSent}
	}
	return m.resubmitted(p, row)
}

// begin handles a new payment: it asks the chain, stores the payment, and only then sends
// it to a facilitator.
func (m *Machine) begin(p *onchain.Payment, share fair.Owner) Outcome {
	t := &m.settings.Load().Terms
	fits, err := m.o.Store.PaymentFits(p.Wallet, share, t.MaxPending, t.MaxPendingPerWallet)
	switch {
	case !m.note(err):
		return Outcome{Ending: NotSent}
	case !fits:
		return Outcome{Ending: Full}
	}
	ctx, done := context.WithTimeout(m.ctx, m.t.ask)
	order, refusal, err := m.client().Prepare(ctx, p)
	done()
	switch {
	case err != nil:
		m.noteClient("prepare", p.ID, err)
		return Outcome{Ending: NotSent}
	case refusal != nil && order == nil:
		return m.refuseUnlessKnown(p, refusal)
	}
	row := m.rowOf(p, order)
	row.Share = share
	existing, err := m.o.Store.AddPayment(row, t.MaxPending, t.MaxPendingPerWallet)
	switch {
	case errors.Is(err, store.ErrManyPayments):
		return Outcome{Ending: Full}
	case !m.note(err):
		return Outcome{Ending: NotSent} // if it was stored all the same, it is polled
	case existing != nil:
		return m.resubmitted(p, existing) // another node was faster
	}
	if refusal != nil {
		// Another service brought it onto the chain, or its row was lost.
		return m.resume(row, Outcome{Ending: Unknown})
	}
	return m.verify(row)
}

// refuseUnlessKnown refuses a payment that the chain rejects, unless another node has
// settled it meanwhile.
func (m *Machine) refuseUnlessKnown(p *onchain.Payment, refusal *onchain.Refusal) Outcome {
	row, err := m.o.Store.Payment(p.ID)
	switch {
	case errors.Is(err, store.ErrNoRow):
		return Outcome{Ending: Refused, Refusal: *refusal}
	case !m.note(err):
		return Outcome{Ending: NotSent}
	}
	return m.resubmitted(p, row)
}

// rowOf is the row of a new payment, leased by this node.
func (m *Machine) rowOf(p *onchain.Payment, order []byte) *store.PaymentRow {
	row := &store.PaymentRow{ID: p.ID, Network: p.Network, Asset: p.Asset, Wallet: p.Wallet, Units: p.Units,
		Amount: p.Amount, Same: p.Same, Order: order, State: store.PaymentSubmitted, Owner: m.o.Node,
		LeaseUs: m.after(m.lease()), NextUs: m.o.Store.NowUs(), CreatedUs: m.o.Store.NowUs()}
	if !p.Expires.IsZero() {
		row.PayUntilUs = p.Expires.UnixMicro()
	}
	return row
}

// paymentOf is the payment of a row, for the client.
func paymentOf(row *store.PaymentRow) *onchain.Payment {
	p := &onchain.Payment{ID: row.ID, Same: row.Same, Network: row.Network, Asset: row.Asset, Wallet: row.Wallet,
		Units: row.Units, Amount: row.Amount, Order: row.Order}
	if row.PayUntilUs != 0 {
		p.Expires = time.UnixMicro(row.PayUntilUs)
	}
	return p
}

// resubmitted handles a payment that was submitted before.
func (m *Machine) resubmitted(p *onchain.Payment, row *store.PaymentRow) Outcome {
	same := row.Same == p.Same
	switch {
	case row.State.Paid():
		if same && m.o.Store.NowUs()-row.CreditedUs < m.t.repeatFor.Microseconds() {
			return creditedBefore(row)
		}
		return refused(onchain.CodeVerification, onchain.ReasonNonceUsed)
	case row.State == store.PaymentDead:
		return refusedBefore(row)
	case !same || row.LeaseUs > m.o.Store.NowUs():
		// The chain takes only one of two payments with the same nonce. The payer should
		// not sign a third before the outcome of the first is known.
		return Outcome{Ending: InProgress, Transaction: row.Transaction}
	}
	ok, err := m.o.Store.TakePayment(row, m.o.Node, m.after(m.lease()), m.o.Store.NowUs())
	switch {
	case !m.note(err):
		return m.unsent(row)
	case !ok:
		return Outcome{Ending: InProgress, Transaction: row.Transaction}
	}
	return m.resume(row, m.unsent(row))
}

// resume asks the chain about a payment that it may already have. unknown is the outcome
// if the chain does not answer.
func (m *Machine) resume(row *store.PaymentRow, unknown Outcome) Outcome {
	f, err := m.find(row)
	if err != nil {
		m.release(row, m.t.pollMin)
		return unknown
	}
	if out, decided := m.decide(row, f); decided {
		return out
	}
	if f.State == onchain.Paid { // not deep enough
		return m.await(row, onchain.Reply{Unclear: true}, false)
	}
	return m.verify(row)
}

// unsent is the outcome of a payment that this submission did not send.
func (m *Machine) unsent(row *store.PaymentRow) Outcome {
	if row.Tries == 0 {
		return Outcome{Ending: NotSent}
	}
	return Outcome{Ending: Unknown, Transaction: row.Transaction}
}

func creditedBefore(row *store.PaymentRow) Outcome {
	return Outcome{Ending: Credited, Amount: row.Amount, Balance: row.Balance, Transaction: row.Transaction,
		Again: true}
}

func refusedBefore(row *store.PaymentRow) Outcome {
	if row.Code == "" {
		return refused(onchain.CodeVerification, row.Reason)
	}
	return refused(row.Code, row.Reason)
}
