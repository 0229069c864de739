package report

import (
	"fmt"
	"iter"

	"farebox/billing/store"
)

// names gives the models by number. Other nodes add models, so all are read
// again when one of the wanted is missing.
func (r *Reports) names(q *store.Query, wanted iter.Seq[uint32]) (func(number uint32) string, error) {
	m := map[uint32]string{}
	if known := r.models.Load(); known != nil {
		m = *known
	}
	for number := range wanted {
		if _, ok := m[number]; ok || number == 0 {
			continue
		}
		var err error
		if m, err = q.Models(); err != nil {
			return nil, fmt.Errorf("cannot read the models: %w", err)
		}
		r.models.Store(&m)
		break
	}
	return func(number uint32) string {
		if n, ok := m[number]; ok || number == 0 {
			return n
		}
		// A model whose registration failed has only its number.
		return fmt.Sprintf("model-%d", number)
	}, nil
}

// nameModels puts names to the entries' model numbers.
func (r *Reports) nameModels(q *store.Query, entries []Entry) error {
	name, err := r.names(q, func(yield func(uint32) bool) {
		for i := range entries {
			if !yield(entries[i].ModelNo) {
				return
			}
		}
	})
	if err != nil {
		return err
	}
	for i := range entries {
		entries[i].Model = name(entries[i].ModelNo)
	}
	return nil
}
