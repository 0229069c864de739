package store

import (
	"database/sql"
	"errors"
)

// Settings are small values that all nodes share. Backups do not have them.
type Settings interface {
	// Setting is the value of a name, or nil.
	Setting(name string) ([]byte, error)
	// ChangeSetting replaces a value by the result of next, and tells the nodes of it as kind, if kind is not 0.
	ChangeSetting(name string, kind ChangeKind, next func(old []byte) ([]byte, error)) error
	// Note changes nothing: a view for an audit entry (As) writes the entry.
	Note() error
}

func (q *Query) setting(name string) (value []byte, err error) {
	err = q.Row("SELECT value FROM setting WHERE name = $1", name).Scan(&value)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return value, err
}

func (s *sqlStore) Setting(name string) ([]byte, error) {
	return ask(s, func(q *Query) ([]byte, error) { return q.setting(name) })
}

func (s *sqlStore) ChangeSetting(name string, kind ChangeKind, next func(old []byte) ([]byte, error)) error {
	return s.write(func(t *tx) error {
		// The row is there and locked before it is read: of two changes the later one sees the first.
		if _, err := t.exec("INSERT INTO setting(name, value) VALUES($1, $2) ON CONFLICT(name) DO NOTHING", name, []byte{}); err != nil {
			return err
		}
		var old []byte
		if err := t.Row("SELECT value FROM setting WHERE name = $1 {LOCK}", name).Scan(&old); err != nil {
			return err
		}
		value, err := next(old)
		if err != nil {
			return err
		}
		if _, err := t.exec("UPDATE setting SET value = $2 WHERE name = $1", name, value); err != nil {
			return err
		}
		if kind != 0 {
			t.change(kind, 0, 0)
		}
		return nil
	})
}

func (s *sqlStore) Note() error { return s.write(func(*tx) error { return nil }) }

// Size is that of the database, in bytes.
func (s *postgresStore) Size() (int64, error) {
	return value[int64](s.sqlStore, "SELECT pg_database_size(current_database())")
}

// Size is that of the database, in bytes.
func (s *sqliteStore) Size() (int64, error) {
	return value[int64](s.sqlStore, "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()")
}
