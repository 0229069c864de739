package attempt

import "farebox/providers/health"

// Ranked is a target whose turn its config decides.
type Ranked interface {
	comparable
	// Turn is the target's health, its share of the requests among the targets of its
	// priority, and that priority.
	Turn() (b *health.Breaker, weight, priority int)
}

// ByPriority chooses the targets of one request: those of the lowest priority number come
// first.
type ByPriority[T Ranked] = Picker[T, PriorityRule[T]]

// PriorityRule is the Rule of ByPriority.
type PriorityRule[T Ranked] struct{}

// Target is Rule.
func (PriorityRule[T]) Target(t T) (b *health.Breaker, weight int) {
	b, weight, _ = t.Turn()
	return b, weight
}

// Rank is Rule.
func (PriorityRule[T]) Rank(t T, _ int64) int {
	_, _, priority := t.Turn()
	return priority
}

// Pace is Rule.
func (PriorityRule[T]) Pace(T) *health.Pace { return nil }
