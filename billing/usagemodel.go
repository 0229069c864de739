package billing

import (
	"database/sql"
	"fmt"
	"iter"
)

// modelName is what a model's number stands for in reports.
type modelName struct{ id, typ string }

// modelNames gives the models by number, as the store has them now.
func (r *query) modelNames() (map[uint32]modelName, error) {
	m := map[uint32]modelName{}
	err := r.each(func(rows *sql.Rows) error {
		var no uint32
		var n modelName
		err := rows.Scan(&no, &n.id, &n.typ)
		m[no] = n
		return err
	}, "SELECT no, id, type FROM model")
	if err != nil {
		return nil, fmt.Errorf("cannot read the models: %w", err)
	}
	return m, nil
}

// names gives the models by number. Other nodes add models, so all are read
// again when one of the wanted is missing.
func (l *Ledger) names(r *query, wanted iter.Seq[uint32]) (func(no uint32) modelName, error) {
	m := map[uint32]modelName{}
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
	return func(no uint32) modelName {
		if n, ok := m[no]; ok {
			return n
		}
		// A model whose registration failed has only its number.
		return modelName{fmt.Sprintf("model-%d", no), "text"}
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
		n := name(entries[i].model)
		entries[i].Model, entries[i].ModelType = n.id, n.typ
	}
	return nil
}

// SetModelTypes tells of what type models are, by slot. Reports remember it of
// models that are no longer in the config.
func (l *Ledger) SetModelTypes(types map[int]string) {
	err := l.report(func(r *query) error {
		known, err := r.modelNames()
		if err != nil {
			return err
		}
		for slot, typ := range types {
			no := modelNo(slot)
			if n, ok := known[no]; !ok || n.typ == typ {
				continue
			}
			if err := l.store.SetModelType(no, typ); err != nil {
				return err
			}
		}
		l.modelNames.Store(nil)
		return nil
	})
	if err != nil {
		l.log.Error().Err(err).Msg("cannot write the types of models; reports show those that are new as text models")
	}
}
