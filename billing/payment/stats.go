package payment

import (
	"sync/atomic"
	"time"

	"farebox/billing/money"
	"farebox/billing/store"
)

// counters count the steps of a machine since its start.
type counters struct {
	settles, polls, credited, creditedNano, reversed, refused, dead atomic.Int64
	disagreements, contradictions, clientErrors, storeErrors        atomic.Int64
	panics                                                          atomic.Int64
	endings                                                         [Full + 1]atomic.Int64
}

// count counts the outcome of a submission, and returns it.
func (c *counters) count(out Outcome) Outcome {
	c.endings[out.Ending].Add(1)
	return out
}

// EndingNames are the names of endings in metrics.
var EndingNames = [...]string{Credited: "credited", InProgress: "in_progress", Refused: "refused", Unknown: "unknown",
	NotSent: "not_sent", Full: "full"}

// Stats are the figures of a machine for metrics.
type Stats struct {
	// Pending counts the payments of all nodes that have not ended, by state (submitted,
	// refused, credited). It is some seconds old.
	Pending map[string]int64
	// OldestAge is the age of the oldest payment without an outcome; 0: all have one.
	OldestAge time.Duration
	Oldest    string // its id
	UnderWay  int    // submissions on this node

	Submissions map[string]int64 // by how they ended

	Settles, Polls                    int64 // questions to facilitators, and to chains
	Credited, Reversed, Refused, Dead int64
	CreditedAmount                    money.Nano
	Disagreements                     int64 // of witnesses
	Contradictions                    int64 // of facilitators by the chain
	ClientErrors, StoreErrors, Panics int64
}

// Stats returns the present figures.
func (m *Machine) Stats() Stats {
	c, t := &m.stats, m.tally.Load()
	s := Stats{Pending: map[string]int64{}, Submissions: map[string]int64{}, UnderWay: m.underWay(),
		Settles: c.settles.Load(), Polls: c.polls.Load(), Credited: c.credited.Load(), Reversed: c.reversed.Load(),
		Refused: c.refused.Load(), Dead: c.dead.Load(), CreditedAmount: money.Nano(c.creditedNano.Load()),
		Disagreements: c.disagreements.Load(), Contradictions: c.contradictions.Load(), ClientErrors: c.clientErrors.Load(),
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
