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
	Refused                      // 402: it is not taken, by Refusal
	Unknown                      // 504: it may be credited later; nobody knows yet
	NotSent                      // 503: no facilitator was asked to settle it
	Full                         // 503: too many payments are without an outcome
)

// Outcome is the answer to a submission.
type Outcome struct {
	Ending      Ending
	Amount      money.Nano // of Credited
	Balance     money.Nano // of Credited: USD of the account right after the credit
	Transaction string     // of Credited; else what is known of it
	Again       bool       // of Credited: it was credited by an earlier submission
	Refusal     onchain.Refusal
}

func refused(code, reason string) Outcome {
	return Outcome{Ending: Refused, Refusal: onchain.Refusal{Code: code, Reason: reason}}
}

// Submit takes a payment that passed every check for which nobody is asked, and gives
// what became of it. While it is under way it takes a place of this node from the owner of
// the request, whom ctx names (fair.Of); without an outcome, one of the store's from share,
// the owner of the wallet. Where ctx ends first Submit says Unknown, and the work goes on.
func (m *Machine) Submit(ctx context.Context, p *onchain.Payment, share fair.Owner) Outcome {
	from := fair.Of(ctx)
	switch ok, full := m.enter(p.ID, from); {
	case full:
		return m.stats.count(Outcome{Ending: Full})
	case !ok:
		return m.stats.count(Outcome{Ending: InProgress})
	}
	answer := make(chan Outcome, 1)
	m.work.Go(func() {
		out := m.guard(func() Outcome { return m.submit(p, share) })
		m.leave(p.ID, from) // before its client can come again
		answer <- out
	})
	select {
	case out := <-answer:
		return m.stats.count(out)
	case <-ctx.Done():
		return m.stats.count(Outcome{Ending: Unknown})
	}
}

// guard makes a panic an unknown outcome: the row says how far it came.
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
	return m.again(p, row)
}

// begin is for a payment that nobody knows: the chain is asked, then it is written down,
// and only then a facilitator hears of it.
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
	order, no, err := m.client().Prepare(ctx, p)
	done()
	switch {
	case err != nil:
		m.noteClient("prepare", p.ID, err)
		return Outcome{Ending: NotSent}
	case no != nil && order == nil:
		return m.unlessKnown(p, no)
	}
	row := m.rowOf(p, order)
	row.Share = share
	existing, err := m.o.Store.AddPayment(row, t.MaxPending, t.MaxPendingPerWallet)
	switch {
	case errors.Is(err, store.ErrManyPayments):
		return Outcome{Ending: Full}
	case !m.note(err):
		return Outcome{Ending: NotSent} // it may be there; then it is watched
	case existing != nil:
		return m.again(p, existing) // another node was faster
	}
	if no != nil {
		// Somebody else brought it onto the chain, or its row is lost.
		return m.goOn(row, Outcome{Ending: Unknown})
	}
	return m.verify(row)
}

// unlessKnown refuses what the chain does not take, unless that is since another node has
// settled it meanwhile.
func (m *Machine) unlessKnown(p *onchain.Payment, no *onchain.Refusal) Outcome {
	row, err := m.o.Store.Payment(p.ID)
	switch {
	case errors.Is(err, store.ErrNoRow):
		return Outcome{Ending: Refused, Refusal: *no}
	case !m.note(err):
		return Outcome{Ending: NotSent}
	}
	return m.again(p, row)
}

// rowOf is a payment as it is written down, with this node at it.
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

// again is for a payment that was submitted before.
func (m *Machine) again(p *onchain.Payment, row *store.PaymentRow) Outcome {
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
		// Of two payments with one nonce, the chain takes one: until it is known which
		// became of the first, nobody should sign a third.
		return Outcome{Ending: InProgress, Transaction: row.Transaction}
	}
	ok, err := m.o.Store.TakePayment(row, m.o.Node, m.after(m.lease()), m.o.Store.NowUs())
	switch {
	case !m.note(err):
		return m.unsent(row)
	case !ok:
		return Outcome{Ending: InProgress, Transaction: row.Transaction}
	}
	return m.goOn(row, m.unsent(row))
}

// goOn asks the chain about a payment that it may have already. unknown is the outcome
// where the chain does not tell.
func (m *Machine) goOn(row *store.PaymentRow, unknown Outcome) Outcome {
	f, err := m.find(row)
	if err != nil {
		m.put(row, m.t.lookMin)
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

// unsent is the outcome of a payment with which this submission did nothing.
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
