package providers

import (
	"time"

	"farebox/providers/attempt"
	"farebox/providers/health"
)

// Picker chooses the targets of one request: those of the lowest priority number
// come first.
type Picker = attempt.Picker[*Target, byPriority]

type byPriority struct{}

func (byPriority) Target(t *Target) (*health.Breaker, int) { return t.Breaker, t.Weight }
func (byPriority) Rank(t *Target, _ int64) int             { return t.Priority }
func (byPriority) Yields(_, _ *Target, _ int64) bool       { return false }

// RestsFor is how long until the first of a model's targets may be tried again;
// 0 when one may be now.
func RestsFor(m *Model, nowNs int64) time.Duration {
	return attempt.RestsFor(m.Targets, byPriority{}, nowNs)
}
