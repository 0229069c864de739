package billing

import (
	"database/sql"
	"fmt"
	"iter"
)

// modelNames gives the models by number, as the store has them now.
func (r *query) modelNames() (map[uint32]string, error) {
	m := map[uint32]string{}
	err := r.each(func(rows *sql.Rows) error {
		var no uint32
		var id string
		err := rows.Scan(&no, &id)
		m[no] = id
		return err
	}, "SELECT no, id FROM model")
	if err != nil {
		return nil, fmt.Errorf("cannot read the models: %w", err)
	}
	return m, nil
}

// names gives the models by number. Other nodes add models, so all are read
// again when one of the wanted is missing.
func (l *Ledger) names(r *query, wanted iter.Seq[uint32]) (func(no uint32) string, error) {
	m := map[uint32]string{}
	if known := l.modelNames.Load(); known != nil {
		m = *known
	}
	for no := range wanted {
		if _, ok := m[no]; ok {
			continue
		}
		var err error
		if m, err = r.modelNames(); err != nil {
			return nil, err
		}
		l.modelNames.Store(&m)
		break
	}
	return func(no uint32) string {
		if n, ok := m[no]; ok {
			return n
		}
		// A model whose registration failed has only its number.
		return fmt.Sprintf("model-%d", no)
	}, nil
}

// nameModels puts names to the entries' model numbers.
func (l *Ledger) nameModels(r *query, entries []UsageEntry) error {
	name, err := l.names(r, func(yield func(uint32) bool) {
		for i := range entries {
			if !yield(entries[i].model) {
				return
			}
		}
	})
	if err != nil {
		return err
	}
	for i := range entries {
		entries[i].Model = name(entries[i].model)
	}
	return nil
}
