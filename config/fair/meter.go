package fair

import (
	"context"
	"sync"
	"time"
)

// Meter sums up the work of one request until it is known whether the request pays for
// it. A nil Meter counts nothing. Safe for concurrent use.
type Meter struct {
	budget *Budget
	owner  Owner

	mu    sync.Mutex
	used  time.Duration
	ended bool
	paid  bool
}

// Meter makes the meter of one request.
func (b *Budget) Meter(o Owner) *Meter { return &Meter{budget: b, owner: o} }

// Add counts work. Work that ends after its request counts as the request did.
func (m *Meter) Add(work time.Duration) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case !m.ended:
		m.used += work
	case !m.paid:
		m.budget.Spend(m.owner, work, time.Now())
	}
}

// End says whether the request paid. Unpaid work is taken from the owner's budget. Only
// the first call counts.
func (m *Meter) End(paid bool) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ended {
		return
	}
	if m.ended, m.paid = true, paid; !paid {
		m.budget.Spend(m.owner, m.used, time.Now())
	}
}

// Wait is how long the owner has to wait until it may use more work; 0: not at all.
func (m *Meter) Wait() time.Duration {
	if m == nil {
		return 0
	}
	return m.budget.Wait(m.owner, time.Now())
}

type meterKey struct{}

// WithMeter makes a context whose work a meter counts.
func WithMeter(ctx context.Context, m *Meter) context.Context {
	return context.WithValue(ctx, meterKey{}, m)
}

// MeterOf is the meter of WithMeter; nil without one.
func MeterOf(ctx context.Context) *Meter {
	m, _ := ctx.Value(meterKey{}).(*Meter)
	return m
}
