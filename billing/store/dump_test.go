package store

import (
	"slices"
	"testing"
)

// A table or column that is added to the schema must be in the backup, or be named here
// as one that belongs to processes.
func TestBackupHasEveryTableAndColumn(t *testing.T) {
	t.Parallel()
	s := engines[0].open(t).Store.(*sqliteStore)
	defer func() { _ = s.Close() }()
	left := []string{"node", "lease", "quota", "change", "counter", "setting", "question", "question_answer",
		"balance_day"} // loading sums the entries anew
	err := s.read(func(q *Query) error {
		rows, err := q.rows("SELECT m.name, c.name FROM sqlite_master m, pragma_table_info(m.name) c WHERE m.type = " +
			"'table' AND m.name NOT LIKE 'sqlite_%'")
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var table, column string
			if err := rows.Scan(&table, &column); err != nil {
				return err
			}
			known := slices.Contains(left, table)
			for _, d := range dumped {
				known = known || d.Table == table && slices.Contains(d.Columns, column)
			}
			if !known {
				t.Errorf("%s.%s is in no backup", table, column)
			}
		}
		return rows.Err()
	})
	if err != nil {
		t.Fatal(err)
	}
}
