package providers

import (
	"time"

	"farebox/providers/attempt"
	"farebox/providers/health"
)

// Picker chooses the targets of one request: those of the lowest priority number
// come first.
type Picker = attempt.Picker[*Target, byPriority]

// Pick begins a request of an account with a model's targets, for a streamed answer
// or a whole one.
func Pick(p *Picker, m *Model, targets []*Target, account uint64, streamed bool) {
	p.Begin(targets, account)
	p.Rule.streamed, p.Fast = streamed, m.PreferFast && len(targets) > 1
}

type byPriority struct{ streamed bool }

func (byPriority) Target(t *Target) (*health.Breaker, int) { return t.Breaker, t.Weight }
func (byPriority) Rank(t *Target, _ int64) int             { return t.Priority }
func (r byPriority) Pace(t *Target) *health.Pace           { return t.Pace(r.streamed) }

// RestsFor is how long until the first of a model's targets may be tried again;
// 0 when one may be now.
func RestsFor(m *Model, nowNs int64) time.Duration {
	return attempt.RestsFor(m.Targets, byPriority{}, nowNs)
}
