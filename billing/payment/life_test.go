package payment

import (
	"context"
	"errors"
	"sync/atomic"

	"farebox/billing/store"
	"farebox/config/fair"
	"farebox/config/onchain"
)

// life is the life of a process, which ends between any two steps. After that it changes
// neither the store nor the chain, and gets no answers.
type life struct{ left atomic.Int64 }

var errDead = errors.New("this process is dead")

// step reports whether the process is still alive.
func (l *life) step() bool { return l.left.Add(-1) >= 0 }

func (l *life) dead() bool { return l.left.Load() < 0 }

// lived runs a call whose effect may be the last of its process.
func lived(l *life, do func() error) error {
	if !l.step() {
		return errDead
	}
	err := do()
	if !l.step() {
		return errDead
	}
	return err
}

// mortal is the store of a process that may die. A failed call may or may not have been
// executed.
type mortal struct {
	Store
	*life
	fails func() (before, after bool) // nil: never
}

func (m *mortal) do(f func() error) error {
	return lived(m.life, func() error {
		before, after := false, false
		if m.fails != nil {
			before, after = m.fails()
		}
		if before {
			return errLost
		}
		err := f()
		if err == nil && after {
			err = errLost
		}
		return err
	})
}

func (m *mortal) AddPayment(r *store.PaymentRow, most, own int) (existing *store.PaymentRow, err error) {
	err = m.do(func() (err error) { existing, err = m.Store.AddPayment(r, most, own); return err })
	return existing, err
}

func (m *mortal) Payment(id string) (row *store.PaymentRow, err error) {
	err = m.do(func() (err error) { row, err = m.Store.Payment(id); return err })
	return row, err
}

func (m *mortal) PaymentFits(wallet string, share fair.Owner, most, own int) (fits bool, err error) {
	err = m.do(func() (err error) { fits, err = m.Store.PaymentFits(wallet, share, most, own); return err })
	return fits, err
}

func (m *mortal) TakePayment(r *store.PaymentRow, owner uint32, untilUs, nowUs int64) (ok bool, err error) {
	err = m.do(func() (err error) { ok, err = m.Store.TakePayment(r, owner, untilUs, nowUs); return err })
	return ok && err == nil, err
}

func (m *mortal) UpdatePayment(r *store.PaymentRow) (ok bool, err error) {
	err = m.do(func() (err error) { ok, err = m.Store.UpdatePayment(r); return err })
	return ok && err == nil, err
}

func (m *mortal) DuePayments(nowUs int64, most int) (list []*store.PaymentRow, err error) {
	if m.dead() {
		return nil, errDead
	}
	return m.Store.DuePayments(nowUs, most)
}

func (m *mortal) FreePayments(owner uint32, nowUs int64) error {
	return m.do(func() error { return m.Store.FreePayments(owner, nowUs) })
}

func (m *mortal) CreditPayment(c *store.PaymentCredit) (row *store.PaymentRow, applied bool, err error) {
	err = m.do(func() (err error) { row, applied, err = m.Store.CreditPayment(c); return err })
	return row, applied && err == nil, err
}

func (m *mortal) ReversePayment(c *store.PaymentReversal) (row *store.PaymentRow, applied bool, err error) {
	err = m.do(func() (err error) { row, applied, err = m.Store.ReversePayment(c); return err })
	return row, applied && err == nil, err
}

// mortalClient is the ChainClient of such a process.
type mortalClient struct {
	ChainClient
	*life
}

func (c *mortalClient) Prepare(ctx context.Context, p *onchain.Payment) (order []byte, no *onchain.Refusal, err error) {
	err = lived(c.life, func() (err error) { order, no, err = c.ChainClient.Prepare(ctx, p); return err })
	return order, no, err
}

func (c *mortalClient) Verify(ctx context.Context, p *onchain.Payment) (r onchain.Reply, err error) {
	err = lived(c.life, func() (err error) { r, err = c.ChainClient.Verify(ctx, p); return err })
	return r, err
}

func (c *mortalClient) Settle(ctx context.Context, p *onchain.Payment) (r onchain.Reply, err error) {
	err = lived(c.life, func() (err error) { r, err = c.ChainClient.Settle(ctx, p); return err })
	return r, err
}

func (c *mortalClient) Find(ctx context.Context, p *onchain.Payment, txn string) (f onchain.Result, err error) {
	err = lived(c.life, func() (err error) { f, err = c.ChainClient.Find(ctx, p, txn); return err })
	return f, err
}
