package report

import (
	"database/sql"
	"fmt"
	"iter"
)

// modelNames gives the models by number, as the store has them now.
func modelNames(q Queries) (map[uint32]string, error) {
	m := map[uint32]string{}
	err := q.Each(func(rows *sql.Rows) error {
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
func (r *Reports) names(q Queries, wanted iter.Seq[uint32]) (func(no uint32) string, error) {
	m := map[uint32]string{}
	if known := r.models.Load(); known != nil {
		m = *known
	}
	for no := range wanted {
		if _, ok := m[no]; ok {
			continue
		}
		var err error
		if m, err = modelNames(q); err != nil {
			return nil, err
		}
		r.models.Store(&m)
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
func (r *Reports) nameModels(q Queries, entries []Entry) error {
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
