package payment

import (
	"math/rand/v2"
	"time"

	"farebox/billing/store"
	"farebox/config/onchain"
)

// pollAll polls payments without an outcome whose lease has ended, on any node, payments
// that were refused, and credited payments that are not final. The list is in the store,
// so memory does not grow with the number of payments.
func (m *Machine) pollAll() {
	var counted time.Time
	for m.ctx.Err() == nil {
		if time.Since(counted) >= m.t.tallyEvery {
			counted = time.Now()
			if t, err := m.o.Store.TallyPayments(); m.note(err) {
				m.tally.Store(&t)
			}
		}
		m.round()
		if !m.pause(m.t.watchEvery/2 + rand.N(m.t.watchEvery)) {
			return
		}
	}
}

// round polls payments that are due, at most pollsPerSecond of them.
func (m *Machine) round() {
	rows, err := m.o.Store.DuePayments(m.o.Store.NowUs(), pollsPerSecond)
	if !m.note(err) {
		return
	}
	for _, row := range rows {
		select {
		case m.polls <- struct{}{}:
		case <-m.ctx.Done():
			return
		}
		m.work.Go(func() {
			defer func() { <-m.polls }()
			m.guard(func() Outcome { m.poll(row); return Outcome{} })
		})
	}
}

// poll asks the chain once about a payment.
func (m *Machine) poll(row *store.PaymentRow) {
	ok, err := m.o.Store.TakePayment(row, m.o.Node, m.after(m.t.ask+m.t.margin), m.o.Store.NowUs())
	if !m.note(err) || !ok {
		return
	}
	f, err := m.find(row)
	row.Looks++
	switch {
	case err != nil:
		m.release(row, m.interval(row))
	case row.State == store.PaymentCredited:
		m.pollCredited(row, f)
	default:
		if _, decided := m.decide(row, f); !decided {
			m.release(row, m.interval(row))
		}
	}
}

// interval is the time until the next poll: an eighth of the payment's age, within bounds.
func (m *Machine) interval(row *store.PaymentRow) time.Duration {
	age := time.Duration(m.o.Store.NowUs()-row.CreatedUs) * time.Microsecond
	d := min(max(age/8, m.t.pollMin), m.t.pollMax)
	return d + rand.N(d/4+1)
}

// pollCredited checks a credited payment until it is final. A credit is reversed when the
// chain has lost its payment for a while.
func (m *Machine) pollCredited(row *store.PaymentRow, f onchain.Result) {
	now := m.o.Store.NowUs()
	switch {
	case f.State == onchain.Paid:
		row.GoneUs = 0
		if f.Transaction != "" {
			row.Transaction = f.Transaction
		}
		if f.Final {
			row.State, row.EndedUs = store.PaymentFinal, now
		}
	case row.GoneUs == 0:
		row.GoneUs = now
		m.o.Log.Warn().Str("payment", row.ID).Str("transaction", row.Transaction).
			Msg("payments: a credited payment is no longer on the chain; it is checked again")
	case now-row.GoneUs >= m.t.goneFor.Microseconds():
		m.reverse(row)
		return
	}
	m.release(row, m.t.finalEvery)
}

// reverse reverses the credit of a payment.
func (m *Machine) reverse(row *store.PaymentRow) {
	after, applied, err := m.o.Store.ReversePayment(&store.PaymentReversal{ID: row.ID, Epoch: row.Epoch,
		NextUs: m.after(m.t.pollMin)})
	if !m.note(err) {
		m.release(row, m.t.pollMin)
		return
	}
	if applied {
		m.stats.reversed.Add(1)
		m.o.Log.Error().Str("payment", row.ID).Str("wallet", row.Wallet).Str("amount", after.Amount.String()).
			Str("transaction", row.Transaction).Msg("payments: the chain has lost a payment; its credit is reversed")
	}
}
