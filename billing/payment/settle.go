package payment

import (
	"context"
	"errors"
	"time"

	"github.com/rs/zerolog"

	"farebox/billing/store"
	"farebox/config/fair"
	"farebox/config/onchain"
)

// The steps of a payment while this node holds its lease.

// verify asks the facilitator whether it would settle a payment. The answer says nothing
// after an earlier request to settle it, so verify skips the question then.
func (m *Machine) verify(row *store.PaymentRow) Outcome {
	if row.Tries > 0 {
		return m.settle(row)
	}
	ctx, done := context.WithTimeout(fair.With(m.ctx, row.Share), m.settings.Load().VerifyTimeout)
	defer done()
	reply, err := m.client().Verify(ctx, paymentOf(row))
	switch {
	case err != nil:
		m.noteClient("verify", row.ID, err)
		m.release(row, m.t.pollMin)
		return Outcome{Ending: NotSent}
	case reply.OK:
		return m.settle(row)
	case reply.Unclear:
		m.release(row, m.t.pollMin)
		return Outcome{Ending: NotSent}
	}
	// The facilitator refuses it. The chain may have it all the same.
	f, err := m.find(row)
	if err != nil {
		m.release(row, m.t.pollMin)
		return Outcome{Ending: NotSent}
	}
	if out, decided := m.decide(row, f); decided {
		return out
	}
	if f.State == onchain.Paid {
		return m.await(row, reply, false)
	}
	return m.refuse(row, onchain.CodeVerification, reply.Reason)
}

// settle asks the facilitator to bring a payment onto the chain. The row counts the try
// first: a refusal is final only on the first try.
func (m *Machine) settle(row *store.PaymentRow) Outcome {
	before := m.unsent(row)
	first := row.Tries == 0
	row.Tries++
	row.State = store.PaymentSubmitted
	ok, err := m.o.Store.UpdatePayment(row)
	switch {
	case !m.note(err):
		return before
	case !ok:
		return m.changedMeanwhile(row) // an operator was faster, or the lease has ended
	}
	ctx, done := context.WithTimeout(fair.With(m.ctx, row.Share), m.settings.Load().SettleTimeout)
	defer done()
	m.stats.settles.Add(1)
	reply, err := m.client().Settle(ctx, paymentOf(row))
	if err != nil {
		m.noteClient("settle", row.ID, err)
		reply = onchain.Reply{Unclear: true}
	}
	if reply.Transaction != "" {
		row.Transaction = reply.Transaction
	}
	return m.await(row, reply, first)
}

// await polls the chain for a while until the payment is decided. A refusal is returned
// only on the first try, when the chain after doubtFor still does not have the payment:
// the payer may then sign another one. The refused payment is polled all the same.
func (m *Machine) await(row *store.PaymentRow, reply onchain.Reply, first bool) Outcome {
	refused := !reply.OK && !reply.Unclear
	began := time.Now()
	end, doubtful := began.Add(m.t.findFor), began.Add(m.t.doubtFor)
	for wait := m.t.findEvery; ; wait = min(2*wait, m.t.findMost) {
		f, err := m.find(row)
		if err == nil {
			if out, decided := m.decide(row, f); decided {
				if refused && out.Ending == Credited {
					m.contradicted(row, "a facilitator refused a payment that the chain has")
				}
				return out
			}
			if refused && f.State == onchain.Open && !time.Now().Before(doubtful) {
				if first {
					return m.refuse(row, onchain.CodeSettlement, reply.Reason)
				}
				break
			}
		}
		if !time.Now().Add(wait).Before(end) || !m.pause(wait) {
			break
		}
	}
	if reply.OK {
		m.contradicted(row, "a facilitator says that it has settled a payment that the chain does not have")
	}
	m.release(row, m.t.pollMin)
	return Outcome{Ending: Unknown, Transaction: row.Transaction}
}

// pause waits for d; false: the process ends.
func (m *Machine) pause(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-m.ctx.Done():
		return false
	}
}

// find asks the chain for the state of a payment.
func (m *Machine) find(row *store.PaymentRow) (onchain.Result, error) {
	ctx, done := context.WithTimeout(m.ctx, m.t.ask)
	defer done()
	m.stats.polls.Add(1)
	f, err := m.client().Find(ctx, paymentOf(row), row.Transaction)
	if err == nil && (f.State < onchain.Open || f.State > onchain.Over) {
		err = errors.New("the chain's answer cannot be read")
	}
	if err != nil {
		m.noteClient("find", row.ID, err)
	}
	return f, err
}

// decide ends a payment if its state on the chain is final for us.
func (m *Machine) decide(row *store.PaymentRow, f onchain.Result) (out Outcome, decided bool) {
	switch {
	case f.State == onchain.Paid && f.Settled:
		return m.credit(row, f), true
	case f.State == onchain.Spent || f.State == onchain.Over:
		return m.markDead(row, f), true
	}
	return out, false
}

// credit credits a payment that the chain has.
func (m *Machine) credit(row *store.PaymentRow, f onchain.Result) Outcome {
	after, applied, err := m.o.Store.CreditPayment(&store.PaymentCredit{ID: row.ID, Epoch: row.Epoch,
		Transaction: f.Transaction, Final: f.Final, NextUs: m.after(m.t.finalEvery)})
	if !m.note(err) {
		m.release(row, m.t.pollMin)
		return Outcome{Ending: Unknown, Transaction: f.Transaction}
	}
	if applied {
		m.stats.credited.Add(1)
		m.stats.creditedNano.Add(int64(after.Amount))
		m.o.Log.Info().Str("payment", row.ID).Str("wallet", row.Wallet).Str("network", row.Network).
			Str("amount", after.Amount.String()).Str("transaction", f.Transaction).
			Msg("payments: a payment is credited")
	}
	if !after.State.Paid() {
		return m.ended(after)
	}
	out := creditedBefore(after)
	out.Again = !applied
	return out
}

// markDead ends a payment that can never be paid.
func (m *Machine) markDead(row *store.PaymentRow, f onchain.Result) Outcome {
	reason := f.Reason
	if reason == "" {
		reason = map[onchain.State]string{onchain.Spent: onchain.ReasonNonceUsed, onchain.Over: "payment_expired"}[f.State]
	}
	row.State, row.EndedUs, row.LeaseUs = store.PaymentDead, m.o.Store.NowUs(), 0
	if row.Reason == "" {
		row.Code, row.Reason = onchain.CodeVerification, reason
	}
	ok, err := m.o.Store.UpdatePayment(row)
	switch {
	case !m.note(err):
		return Outcome{Ending: Unknown, Transaction: row.Transaction}
	case !ok:
		return m.changedMeanwhile(row)
	}
	m.stats.dead.Add(1)
	m.o.Log.Info().Str("payment", row.ID).Str("wallet", row.Wallet).Str("reason", reason).
		Msg("payments: a payment will never be made")
	return refusedBefore(row)
}

// refuse refuses a payment, which is polled until it cannot be made any more.
func (m *Machine) refuse(row *store.PaymentRow, code, reason string) Outcome {
	row.State, row.Code, row.Reason = store.PaymentRefused, code, reason
	row.LeaseUs, row.NextUs = 0, m.after(m.t.pollMin)
	ok, err := m.o.Store.UpdatePayment(row)
	switch {
	case !m.note(err):
		return m.unsent(row)
	case !ok:
		return m.changedMeanwhile(row)
	}
	m.stats.refused.Add(1)
	return refused(code, reason)
}

// release gives up the lease of a payment, which is polled again after a time.
func (m *Machine) release(row *store.PaymentRow, in time.Duration) {
	row.LeaseUs, row.NextUs = 0, m.after(in)
	_, err := m.o.Store.UpdatePayment(row)
	m.note(err) // without the update, its lease expires
}

// changedMeanwhile is the outcome of a payment that another node or an operator has changed.
func (m *Machine) changedMeanwhile(row *store.PaymentRow) Outcome {
	now, err := m.o.Store.Payment(row.ID)
	if !m.note(err) {
		return Outcome{Ending: Unknown, Transaction: row.Transaction}
	}
	return m.ended(now)
}

func (m *Machine) ended(row *store.PaymentRow) Outcome {
	switch {
	case row.State.Paid():
		return creditedBefore(row)
	case row.State == store.PaymentDead:
		return refusedBefore(row)
	}
	return Outcome{Ending: InProgress, Transaction: row.Transaction}
}

// noteClient counts a question without an answer, and logs it at most once in logEvery: a
// node that is down fails for each payment.
func (m *Machine) noteClient(question, id string, err error) {
	count, text := &m.stats.clientErrors, "payments: no facilitator answers"
	if errors.Is(err, onchain.ErrDisagree) {
		count, text = &m.stats.disagreements, "payments: witnesses disagree; nothing is decided before they agree"
	}
	count.Add(1)
	level := zerolog.WarnLevel
	if now := time.Now().UnixNano(); now-m.loggedNs.Load() < logEvery.Nanoseconds() {
		level = zerolog.DebugLevel
	} else {
		m.loggedNs.Store(now)
	}
	m.o.Log.WithLevel(level).Err(err).Str("payment", id).Str("question", question).Msg(text)
}

// contradicted counts and logs a facilitator that contradicts the chain.
func (m *Machine) contradicted(row *store.PaymentRow, text string) {
	m.stats.contradictions.Add(1)
	m.o.Log.Warn().Str("payment", row.ID).Str("network", row.Network).Str("transaction", row.Transaction).
		Msg("payments: " + text)
}
