package store

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"farebox/billing/journal"
	"farebox/billing/money"
)

// sqlStore is common to both engines: all queries, written once, in
// the SQL that SQLite, PostgreSQL and CockroachDB have in common. The differences
// are a dialect. Writers lock in this order, so that none waits for another in
// a circle: cursor or node, job, key, usage_day, buckets by account, currency and
// day, leases, quotas, sums of accounts, then moved, house and change at the end of the transaction.
type sqlStore struct {
	dialect        *dialect
	writer, reader *sql.DB
	reports        *sql.DB // nil: reader
	node, inc      uint32  // under which this process applies
	shared         bool    // others work on this store, too
	prepared       map[*sql.DB]map[string]*sql.Stmt
	texts          *sync.Map   // of statements, translated
	audited        *AuditEntry // of the operation whose view this is
	before         journal.SoldBefore
	recounted      *recounted
}

// DB is the connection that writes, for tests of the tables.
func (s *sqlStore) DB() *sql.DB { return s.writer }

// Readers are the connections that read, for tests of the cost of lists.
func (s *sqlStore) Readers() []*sql.DB {
	if s.reports == nil {
		return []*sql.DB{s.reader}
	}
	return []*sql.DB{s.reader, s.reports}
}

// dialect is where engines differ.
type dialect struct {
	words      *strings.Replacer // in the schema and in statements
	arrays     bool              // takes many rows as arrays; else they go one by one
	timeout    time.Duration     // of one attempt; 0: none
	long       time.Duration     // of a migration or a recount
	unhurried  string            // takes the server's own bounds off a transaction
	version    func(*tx) (int, error)
	setVersion func(*tx, int) error
	unique     func(error) bool // says that a row exists already
	again      func(error) bool // says that the same may succeed at another try
	args       func([]any) []any
	clean      func(error) error // takes secrets out
}

// attempts x attemptPause, doubling, is how long a conflict is tried again.
const (
	attempts     = 12
	attemptPause = 2 * time.Millisecond
	attemptMost  = 200 * time.Millisecond
)

// try runs do until it succeeds or fails for good. The work of do in an attempt
// that failed is undone, or does no harm when done again.
func (s *sqlStore) try(timeout time.Duration, do func(context.Context) error) error {
	pause := attemptPause
	for n := 1; ; n++ {
		ctx, cancel := context.Background(), func() {}
		if timeout > 0 {
			ctx, cancel = context.WithTimeout(ctx, timeout)
		}
		err := do(ctx)
		cancel()
		if err == nil || n == attempts || s.dialect.again == nil || !s.dialect.again(err) {
			return s.shown(err)
		}
		time.Sleep(pause/2 + time.Duration(time.Now().UnixNano())%pause)
		pause = min(2*pause, attemptMost)
	}
}

// Query is where statements run: the reader, or a transaction.
type Query struct {
	s   *sqlStore
	ctx context.Context
	db  *sql.DB
	tx  *sql.Tx
	own map[string]*sql.Stmt // prepared ones, of tx
}

// read runs do on the reader.
func (s *sqlStore) read(do func(q *Query) error) error {
	return s.try(s.dialect.timeout, func(ctx context.Context) error { return do(&Query{s: s, ctx: ctx, db: s.reader}) })
}

// ask is read for a question with an answer.
func ask[T any](s *sqlStore, do func(q *Query) (T, error)) (answer T, err error) {
	err = s.read(func(q *Query) error {
		answer, err = do(q)
		return err
	})
	return answer, err
}

// value reads one value.
func value[T any](s *sqlStore, text string, args ...any) (T, error) {
	return ask(s, func(q *Query) (v T, err error) {
		err = q.Row(text, args...).Scan(&v)
		return v, err
	})
}

// list reads rows, each into the fields of one value.
func list[T any](q *Query, fields func(*T) []any, text string, args ...any) (all []T, err error) {
	err = q.Each(func(rows *sql.Rows) error {
		var one T
		err := rows.Scan(fields(&one)...)
		all = append(all, one)
		return err
	}, text, args...)
	return all, err
}

// snapshot runs do in one reading transaction.
func (s *sqlStore) snapshot(timeout time.Duration, do func(q *Query) error) error {
	return s.try(timeout, func(ctx context.Context) error {
		q, err := s.begin(ctx, s.reader, timeout == s.dialect.long)
		if err != nil {
			return err
		}
		defer func() { _ = q.tx.Rollback() }()
		return do(q)
	})
}

// begin begins a reading transaction; one that is long has no bound of the
// server's own on its time.
func (s *sqlStore) begin(ctx context.Context, db *sql.DB, long bool) (*Query, error) {
	o := &sql.TxOptions{ReadOnly: s.dialect.arrays}
	if s.dialect.arrays {
		o.Isolation = sql.LevelRepeatableRead
	}
	t, err := db.BeginTx(ctx, o)
	if err != nil {
		return nil, err
	}
	if long && s.dialect.unhurried != "" {
		if _, err := t.ExecContext(ctx, s.dialect.unhurried); err != nil {
			_ = t.Rollback()
			return nil, err
		}
	}
	return &Query{s: s, ctx: ctx, db: db, tx: t}, nil
}

// shown is an error without secrets.
func (s *sqlStore) shown(err error) error {
	if err != nil && s.dialect.clean != nil {
		return s.dialect.clean(err)
	}
	return err
}

// tx is a writing transaction.
type tx struct {
	*sql.Tx
	Query
	house   map[houseID]money.Nano
	days    map[dayMove]money.Nano
	changes []Change
	moved   []journal.Record // consumption besides charges (moved.go)
	last    uint64           // number of the last of changes, once they are written
	failed  error            // of a bulk: the first, as later ones say less
	audited *AuditEntry      // that it writes
}

type houseID struct {
	book     string
	currency money.Currency
}

// write runs do in one transaction. do may run several times, the last of which
// counts.
func (s *sqlStore) write(do func(t *tx) error) error { return s.writeFor(s.dialect.timeout, do) }

// writeFor is write with another bound on the time of an attempt.
func (s *sqlStore) writeFor(timeout time.Duration, do func(t *tx) error) error {
	return s.try(timeout, func(ctx context.Context) error {
		sqlTx, err := s.writer.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		t := &tx{Tx: sqlTx, Query: Query{s: s, ctx: ctx, db: s.writer, tx: sqlTx}}
		if s.audited != nil && !s.audited.written {
			t.audited = s.audited
		}
		if err = t.beginAudit(); err == nil {
			err = do(t)
		}
		if err == nil {
			err = t.endAudit()
		}
		if err == nil {
			err = t.finish()
		}
		if t.failed != nil {
			err = t.failed
		}
		if err != nil {
			if undo := sqlTx.Rollback(); undo != nil && !errors.Is(undo, sql.ErrTxDone) && s.dialect.again == nil {
				err = errors.Join(err, undo)
			}
			return err
		}
		err = sqlTx.Commit()
		if t.audited != nil {
			t.audited.written, t.audited.uncertain = err == nil, err != nil
		}
		return err
	})
}

// text is a statement in the engine's words.
func (s *sqlStore) text(text string) string {
	if !strings.Contains(text, "{") {
		return text
	}
	if t, ok := s.texts.Load(text); ok {
		return t.(string)
	}
	t := s.dialect.words.Replace(s.dialect.rows(text))
	s.texts.Store(text, t)
	return t
}

// stmt is the prepared form of a statement, where there is one.
func (q *Query) stmt(text string) *sql.Stmt {
	if own := q.own[text]; own != nil {
		return own
	}
	stmt := q.s.prepared[q.db][text]
	if stmt == nil || q.tx == nil {
		return stmt
	}
	return q.keep(text, q.tx.StmtContext(q.ctx, stmt))
}

func (q *Query) keep(text string, stmt *sql.Stmt) *sql.Stmt {
	if q.own == nil {
		q.own = map[string]*sql.Stmt{}
	}
	q.own[text] = stmt
	return stmt
}

// Prepare parses a statement once for all its uses in a report.
func (q *Query) Prepare(text string) error {
	stmt, err := q.tx.PrepareContext(q.ctx, q.s.text(text))
	if err == nil {
		q.keep(text, stmt)
	}
	return err
}

func (q *Query) args(args []any) []any {
	if q.s.dialect.args != nil {
		return q.s.dialect.args(args)
	}
	return args
}

// Row reads one row, or gives sql.ErrNoRows.
func (q *Query) Row(text string, args ...any) *sql.Row {
	args = q.args(args)
	switch stmt := q.stmt(text); {
	case stmt != nil:
		return stmt.QueryRowContext(q.ctx, args...)
	case q.tx != nil:
		return q.tx.QueryRowContext(q.ctx, q.s.text(text), args...)
	}
	return q.db.QueryRowContext(q.ctx, q.s.text(text), args...)
}

// rows reads rows; the caller closes them.
func (q *Query) rows(text string, args ...any) (*sql.Rows, error) {
	args = q.args(args)
	switch stmt := q.stmt(text); {
	case stmt != nil:
		return stmt.QueryContext(q.ctx, args...)
	case q.tx != nil:
		return q.tx.QueryContext(q.ctx, q.s.text(text), args...)
	}
	return q.db.QueryContext(q.ctx, q.s.text(text), args...)
}

// Each runs scan for every row. With limits or locks inside, nothing else may
// run on the transaction meanwhile.
func (q *Query) Each(scan func(*sql.Rows) error, text string, args ...any) error {
	rows, err := q.rows(text, args...)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// exec runs a statement that gives no rows.
func (t *tx) exec(text string, args ...any) (sql.Result, error) {
	args = t.args(args)
	if stmt := t.stmt(text); stmt != nil {
		return stmt.ExecContext(t.ctx, args...)
	}
	return t.ExecContext(t.ctx, t.s.text(text), args...)
}

// affect is exec with the number of the rows that it changed.
func (t *tx) affect(text string, args ...any) (int64, error) {
	done, err := t.exec(text, args...)
	if err != nil {
		return 0, err
	}
	return done.RowsAffected()
}

// lockRows keeps the rows that a SELECT with a lock finds as they are until t ends.
func (t *tx) lockRows(text string, args ...any) error {
	return t.Each(func(*sql.Rows) error { return nil }, text, args...)
}

// affect runs a statement by itself and says how many rows it changed.
func (s *sqlStore) affect(text string, args ...any) (n int, err error) {
	err = s.write(func(t *tx) error {
		rows, err := t.affect(text, args...)
		n = int(rows)
		return err
	})
	return n, err
}

// change tells the other nodes something when t commits.
func (t *tx) change(kind ChangeKind, account uint32, key int64) {
	if t.s.shared {
		t.changes = append(t.changes, Change{Kind: kind, Account: account, Key: key})
	}
}

// alone lets no other transaction past this point, nor one that tells of
// changes, until t ends: for giving out numbers.
func (t *tx) alone() error {
	var value int64
	return t.Row("SELECT value FROM counter WHERE name = 'change' {LOCK}").Scan(&value)
}

// pay adds to a running sum of the house when t commits.
func (t *tx) pay(book string, c money.Currency, n money.Nano) {
	if t.house == nil {
		t.house = map[houseID]money.Nano{}
	}
	t.house[houseID{book, c}] += n
}

const (
	sqlHouse = `INSERT INTO house(book, currency, balance) VALUES($1, $2, $3)
		ON CONFLICT(book, currency) DO UPDATE SET balance = house.balance + excluded.balance`
	sqlCount  = "UPDATE counter SET value = value + $1 WHERE name = 'change' RETURNING value"
	sqlChange = "INSERT INTO change(no, kind, account, api_key, at_us) VALUES($1, $2, $3, $4, {NOW})"
)

// finish writes the rows that all writers meet in, as late as can be.
func (t *tx) finish() error {
	if err := t.writeMoved(); err != nil {
		return fmt.Errorf("cannot record consumption besides charges: %w", err)
	}
	ids := make([]houseID, 0, len(t.house))
	for id, n := range t.house {
		if n != 0 {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(a, b houseID) int {
		return cmp.Or(strings.Compare(a.book, b.book), cmp.Compare(a.currency, b.currency))
	})
	for _, id := range ids {
		if _, err := t.exec(sqlHouse, id.book, int64(id.currency), int64(t.house[id])); err != nil {
			return fmt.Errorf("cannot add %s %s to the book %q of the house: %w", t.house[id], id.currency, id.book,
				err)
		}
	}
	if err := t.writeDays(); err != nil {
		return fmt.Errorf("cannot add up what moved balances today: %w", err)
	}
	if len(t.changes) == 0 {
		return nil
	}
	if err := t.Row(sqlCount, len(t.changes)).Scan(&t.last); err != nil {
		return err
	}
	for i, c := range t.changes {
		if _, err := t.exec(sqlChange, t.last-uint64(len(t.changes)-1-i), int64(c.Kind), c.Account, c.Key); err != nil {
			return err
		}
	}
	return nil
}

// unique gives errExists for a row that is there already.
func (s *sqlStore) unique(err error) error {
	if err != nil && s.dialect.unique(err) {
		return ErrExists
	}
	return err
}

func noRow(err error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return ErrNoRow
	}
	return err
}

func (s *sqlStore) Close() error {
	for _, list := range s.prepared {
		for _, stmt := range list {
			_ = stmt.Close()
		}
	}
	var err error
	if s.reader != nil && s.reader != s.writer {
		err = s.reader.Close()
	}
	if s.reports != nil {
		err = errors.Join(err, s.reports.Close())
	}
	return errors.Join(err, s.writer.Close())
}

// prepare keeps statements ready on a database.
func (s *sqlStore) prepare(db *sql.DB, texts ...string) error {
	if s.prepared == nil {
		s.prepared = map[*sql.DB]map[string]*sql.Stmt{}
	}
	if s.prepared[db] == nil {
		s.prepared[db] = map[string]*sql.Stmt{}
	}
	for _, text := range texts {
		stmt, err := db.Prepare(s.text(text))
		if err != nil {
			return fmt.Errorf("cannot prepare %q: %w", text, err)
		}
		s.prepared[db][text] = stmt
	}
	return nil
}
