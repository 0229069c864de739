package payment

import (
	"sync/atomic"
	"time"

	"farebox/billing/money"
	"farebox/billing/store"
)

// counters are what a machine did since it began.
type counters struct {
	settles, looks, credited, creditedNano, reversed, refused, dead atomic.Int64
	disagreements, contradictions, deskErrors, storeErrors          atomic.Int64
	panics                                                          atomic.Int64
	endings                                                         [Full + 1]atomic.Int64
}

// count counts the answer to a submission, and gives it on.
func (c *counters) count(out Outcome) Outcome {
	c.endings[out.Ending].Add(1)
	return out
}

// EndingNames are the endings of submissions, for the metrics.
var EndingNames = [...]string{Credited: "credited", InProgress: "in_progress", Refused: "refused", Unknown: "unknown",
	NotSent: "not_sent", Full: "full"}

// Stats is a machine's view of itself, for metrics.
type Stats struct {
	// Pending are the payments in the store that have not ended, of all nodes, by state
	// (submitted, refused, credited), as of some seconds ago.
	Pending map[string]int64
	// OldestAge is how long the oldest is without an outcome; 0 without one.
	OldestAge time.Duration
	Oldest    string // which one that is
	UnderWay  int    // submissions on this node

	Submissions map[string]int64 // by how they ended

	Settles, Looks                    int64 // questions to facilitators, and to chains
	Credited, Reversed, Refused, Dead int64
	CreditedAmount                    money.Nano
	Disagreements                     int64 // of witnesses
	Contradictions                    int64 // of facilitators by the chain
	DeskErrors, StoreErrors, Panics   int64
}

// Stats is how the machine stands.
func (m *Machine) Stats() Stats {
	c, t := &m.stats, m.tally.Load()
	s := Stats{Pending: map[string]int64{}, Submissions: map[string]int64{}, UnderWay: m.under(),
		Settles: c.settles.Load(), Looks: c.looks.Load(), Credited: c.credited.Load(), Reversed: c.reversed.Load(),
		Refused: c.refused.Load(), Dead: c.dead.Load(), CreditedAmount: money.Nano(c.creditedNano.Load()),
		Disagreements: c.disagreements.Load(), Contradictions: c.contradictions.Load(), DeskErrors: c.deskErrors.Load(),
		StoreErrors: c.storeErrors.Load(), Panics: c.panics.Load()}
	for _, state := range []store.PaymentState{store.PaymentSubmitted, store.PaymentRefused, store.PaymentCredited} {
		s.Pending[state.String()] = t.States[state]
	}
	if t.OldestUs != 0 {
		s.OldestAge = max(0, time.Duration(m.o.Store.NowUs()-t.OldestUs)*time.Microsecond)
		s.Oldest = t.OldestFor
	}
	for ending, name := range EndingNames {
		if name != "" {
			s.Submissions[name] = c.endings[ending].Load()
		}
	}
	return s
}
