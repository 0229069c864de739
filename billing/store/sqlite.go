package store

import (
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"modernc.org/sqlite" // also registers the driver
	sqlite3 "modernc.org/sqlite/lib"
)

// sqliteStore is the embedded Store. One connection writes; readers have their
// own and never wait for it.
type sqliteStore struct{ *sqlStore }

// sqliteDialect: one writer at a time needs no locks on rows, and a statement a
// row costs no round trip.
var sqliteDialect = &dialect{
	words: strings.NewReplacer("{I64}", "INTEGER", "{BLOB}", "BLOB", "{SERIAL}", "INTEGER PRIMARY KEY AUTOINCREMENT",
		"{ID}", "INTEGER PRIMARY KEY",
		"{TABLE}", "STRICT", "{KEYED}", "STRICT, WITHOUT ROWID", "{LOCK}", ""),
	version: func(t *tx) (version int, err error) {
		return version, t.Row("PRAGMA user_version").Scan(&version)
	},
	setVersion: func(t *tx, version int) error {
		_, err := t.Exec(fmt.Sprintf("PRAGMA user_version = %d", version))
		return err
	},
	unique: func(err error) bool {
		var e *sqlite.Error
		return errors.As(err, &e) && (e.Code() == sqlite3.SQLITE_CONSTRAINT_UNIQUE ||
			e.Code() == sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY)
	},
}

// DatabaseFile is the embedded store's name in the data directory.
const DatabaseFile = "ledger.db"

// An older SQLite than 3.51.3 can corrupt a database when it resets its log:
// farebox does not build with one.
const _ = uint(sqlite3.SQLITE_VERSION_NUMBER - 3_051_003)

// Settings of the connections. The cache is small since the hot path never
// reads here and idle memory counts.
const (
	writerPragmas = "?_txlock=immediate&_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)" +
		"&_pragma=foreign_keys(ON)&_pragma=temp_store(MEMORY)&_pragma=cache_size(-8192)&_pragma=wal_autocheckpoint(4000)" +
		"&_pragma=secure_delete(FAST)" // removed rows are overwritten where that writes no further page
	// Reports jump between rows of one account, ten MB for a large one.
	reportPragmas = "?mode=ro&_pragma=busy_timeout(10000)&_pragma=query_only(ON)&_pragma=temp_store(MEMORY)&_pragma=cache_size(-16384)"
	readerPragmas = "?mode=ro&_pragma=busy_timeout(10000)&_pragma=query_only(ON)&_pragma=temp_store(MEMORY)&_pragma=cache_size(-2048)"
	readers       = 2
	reporters     = 2
	reportsIdle   = time.Minute
)

// OpenSQLite opens the embedded store in a directory, and creates it if needed.
func OpenSQLite(dir string) (*sqliteStore, error) {
	path := filepath.Join(dir, DatabaseFile)
	// SQLite gives its other files the mode of this one.
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := f.Close(); err != nil {
		return nil, err
	}
	uri := "file:" + uriPath(path)
	writer, err := sql.Open("sqlite", uri+writerPragmas)
	if err != nil {
		return nil, err
	}
	writer.SetMaxOpenConns(1)
	s := &sqliteStore{&sqlStore{dialect: sqliteDialect, writer: writer, node: 1, texts: &sync.Map{}, recounted: &recounted{}}}
	if err := s.open(uri); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// open brings the schema up to date, makes the cursors, and keeps ready the
// statements of the projection and the reads of a key's first use, which an
// unknown key costs, too.
func (s *sqliteStore) open(uri string) (err error) {
	if err := s.writer.Ping(); err != nil {
		return fmt.Errorf("cannot open the database: %w", err)
	}
	if err := s.migrate(); err != nil {
		return err
	}
	if s.reader, err = sql.Open("sqlite", uri+readerPragmas); err != nil {
		return err
	}
	s.reader.SetMaxOpenConns(readers)
	// Reports can take seconds; a key's first use must not wait for them.
	if s.reports, err = sql.Open("sqlite", uri+reportPragmas); err != nil {
		return err
	}
	s.reports.SetMaxOpenConns(reporters)
	s.reports.SetConnMaxIdleTime(reportsIdle)
	_, err = s.writer.Exec("INSERT INTO applied(node, sink, inc, seq) VALUES(1, 'ledger', 0, 0), (1, 'usage', 0, 0) " +
		"ON CONFLICT DO NOTHING")
	return errors.Join(err,
		s.prepare(s.writer, sqlCharge, sqlAddSum, sqlPosting, sqlUsageDay, sqlPage, sqlHour, sqlHouse, sqlAddDays),
		s.prepare(s.reader, keys.row+byDigest, sqlAccount))
}

// Pepper is fresh: that of an embedded store lies in a file beside it.
func (s *sqliteStore) Pepper(fresh []byte) ([]byte, error) { return fresh, nil }

// uriPath is a file path inside a SQLite URI.
func uriPath(path string) string {
	return strings.NewReplacer("%", "%25", "?", "%3f", "#", "%23").Replace(filepath.ToSlash(path))
}
