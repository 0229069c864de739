package payment

import (
	"math/rand/v2"
	"time"

	"farebox/billing/store"
	"farebox/config/onchain"
)

// watch looks after payments that nobody is at: those of unknown outcome, of this node
// and of others whose lease has ended, those that were refused, and those that are
// credited and not deep in the chain yet. The store is its list, so that its memory does
// not grow with their number.
func (m *Machine) watch() {
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

// round starts looks at what is due, as many as a second has room for.
func (m *Machine) round() {
	rows, err := m.o.Store.DuePayments(m.o.Store.NowUs(), looksPerSecond)
	if !m.note(err) {
		return
	}
	for _, row := range rows {
		select {
		case m.looks <- struct{}{}:
		case <-m.ctx.Done():
			return
		}
		m.work.Go(func() {
			defer func() { <-m.looks }()
			m.guard(func() Outcome { m.look(row); return Outcome{} })
		})
	}
}

// look asks the chain once about a payment.
func (m *Machine) look(row *store.PaymentRow) {
	ok, err := m.o.Store.TakePayment(row, m.o.Node, m.after(m.t.ask+m.t.margin), m.o.Store.NowUs())
	if !m.note(err) || !ok {
		return
	}
	f, err := m.find(row)
	row.Looks++
	switch {
	case err != nil:
		m.put(row, m.interval(row))
	case row.State == store.PaymentCredited:
		m.lookAgain(row, f)
	default:
		if _, decided := m.decide(row, f); !decided {
			m.put(row, m.interval(row))
		}
	}
}

// interval is when to look again: after an eighth of a payment's age, within bounds.
func (m *Machine) interval(row *store.PaymentRow) time.Duration {
	age := time.Duration(m.o.Store.NowUs()-row.CreatedUs) * time.Microsecond
	d := min(max(age/8, m.t.lookMin), m.t.lookMost)
	return d + rand.N(d/4+1)
}

// lookAgain is the last look at a credited payment. What the chain has lost, and does
// not have for a while, is taken back.
func (m *Machine) lookAgain(row *store.PaymentRow, f onchain.Result) {
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
	m.put(row, m.t.finalEvery)
}

// reverse takes a credit back.
func (m *Machine) reverse(row *store.PaymentRow) {
	after, applied, err := m.o.Store.ReversePayment(&store.PaymentReversal{ID: row.ID, Epoch: row.Epoch,
		NextUs: m.after(m.t.lookMin)})
	if !m.note(err) {
		m.put(row, m.t.lookMin)
		return
	}
	if applied {
		m.stats.reversed.Add(1)
		m.o.Log.Error().Str("payment", row.ID).Str("wallet", row.Wallet).Str("amount", after.Amount.String()).
			Str("transaction", row.Transaction).Msg("payments: the chain has lost a payment; its credit is reversed")
	}
}
