package store

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Load fills an empty store from a dump, in one transaction, and recounts it
// before that is committed: books that do not add up leave the store empty. Leases
// of the processes that had any go back to their accounts.
func (s *sqlStore) Load(r io.Reader) (head DumpHead, err error) {
	t, err := s.writer.BeginTx(context.Background(), nil)
	if err != nil {
		return head, s.shown(err)
	}
	defer func() { _ = t.Rollback() }()
	if s.shared {
		if _, err := t.Exec(withoutServerTime); err != nil {
			return head, s.shown(err)
		}
	}
	l := &loader{q: &Query{s: s, ctx: context.Background(), db: s.writer, tx: t}}
	if err := l.empty(); err != nil {
		return head, err
	}
	if err := readDump(r, l.line); err != nil {
		return head, s.shown(err)
	}
	if err := l.finish(); err != nil {
		return head, s.shown(err)
	}
	count, err := recountOn(l.q, func() {})
	if err != nil {
		return head, s.shown(err)
	}
	if faults := count.Report().Faults; len(faults) > 0 {
		return head, fmt.Errorf("its books do not add up: %s; restore another backup", faults[0])
	}
	return l.head, s.shown(t.Commit())
}

// A statement inserts loadedAtOnce values, or rows of loadedBytes: a statement a row would take a
// round trip to PostgreSQL each.
const (
	loadedAtOnce = 2000
	loadedBytes  = 1 << 20
)

type loader struct {
	q      *Query
	head   DumpHead
	table  *dumpTable
	width  int // columns of its rows in this dump; an older one has fewer
	insert string
	stmt   *sql.Stmt // for loadedAtOnce values
	values []any     // of rows that no statement has inserted yet
	bytes  int       // length of their lines
}

// empty refuses a store that is in use.
func (l *loader) empty() error {
	var accounts int64
	if err := l.q.Row("SELECT count(*) FROM account").Scan(&accounts); err != nil {
		return l.q.s.shown(err)
	}
	if accounts > 0 {
		return errors.New("the store has accounts already: restore into an empty one")
	}
	_, err := l.q.tx.Exec("DELETE FROM applied")
	return l.q.s.shown(err)
}

func (l *loader) line(b []byte) error {
	if b[0] == '[' {
		return l.row(b)
	}
	if l.head.Backup == 0 {
		if json.Unmarshal(b, &l.head) != nil || l.head.Backup == 0 || len(l.head.Pepper) != PepperBytes {
			return ErrDump
		}
		if l.head.Backup > dumpVersion || l.head.Schema > Version {
			return fmt.Errorf("the backup was made by a newer farebox (schema %d, this one knows %d); use that version",
				l.head.Schema, Version)
		}
		return nil
	}
	return l.readHeader(b)
}

// readHeader prepares for the rows of a table. Only the names that Dump writes are taken: names
// from a file do not get into statements.
func (l *loader) readHeader(b []byte) error {
	var named dumpTable
	if err := json.Unmarshal(b, &named); err != nil {
		return err
	}
	if err := l.endTable(); err != nil {
		return err
	}
	l.table = nil
	for i := range dumped {
		if dumped[i].Table == named.Table {
			l.table = &dumped[i]
		}
	}
	if l.table == nil {
		return fmt.Errorf("the table %q is unknown", named.Table)
	}
	if l.head.Schema < 5 && named.Table == "usage_day" {
		if _, err := l.q.tx.Exec(l.q.s.dialect.words.Replace(usageDay4)); err != nil {
			return err
		}
		l.table = &dumpedDay4
	}
	for i, c := range named.Columns {
		if i >= len(l.table.Columns) || l.table.Columns[i] != c {
			return fmt.Errorf("the table %s has another column %q", named.Table, c)
		}
	}
	if l.width = len(named.Columns); l.width == 0 {
		return fmt.Errorf("the table %s has no columns", named.Table)
	}
	l.insert = "INSERT INTO " + l.table.Table + "(" + strings.Join(named.Columns, ", ") + ") VALUES"
	var err error
	l.stmt, err = l.q.tx.Prepare(l.insert + l.marks(l.full()))
	return err
}

// full is how many rows one statement inserts.
func (l *loader) full() int { return loadedAtOnce / l.width }

// marks are the parameters of some rows: ($1, $2), ($3, $4). SQLite compares each
// name with all before it, so that its parameters have no names: (?, ?), (?, ?).
func (l *loader) marks(rows int) string {
	var b strings.Builder
	for i := range rows * l.width {
		switch {
		case i == 0:
			b.WriteString("(")
		case i%l.width == 0:
			b.WriteString("), (")
		default:
			b.WriteString(", ")
		}
		if l.q.s.dialect.arrays {
			b.WriteString("$" + strconv.Itoa(i+1))
		} else {
			b.WriteString("?")
		}
	}
	return b.String() + ")"
}

// flush inserts the rows that were read.
func (l *loader) flush() error {
	if len(l.values) == 0 {
		return nil
	}
	rows := len(l.values) / l.width
	var err error
	if rows == l.full() {
		_, err = l.stmt.Exec(l.values...)
	} else {
		_, err = l.q.tx.Exec(l.insert+l.marks(rows), l.values...)
	}
	clear(l.values)
	l.values, l.bytes = l.values[:0], 0
	if err != nil {
		return fmt.Errorf("the last %d rows of %s: %w", rows, l.table.Table, err)
	}
	return nil
}

// endTable inserts the last rows of a table.
func (l *loader) endTable() error {
	err := l.flush()
	if l.stmt != nil {
		err = errors.Join(err, l.stmt.Close())
		l.stmt = nil
	}
	return err
}

func (l *loader) row(b []byte) error {
	if l.table == nil {
		return ErrDump
	}
	var values []any
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	if err := d.Decode(&values); err != nil {
		return err
	}
	for i, v := range values {
		switch v := v.(type) {
		case json.Number:
			n, err := v.Int64()
			if err != nil {
				return fmt.Errorf("the number %s of %s is not an integer", v, l.table.Table)
			}
			values[i] = n
		case map[string]any:
			text, _ := v["b"].(string)
			raw, err := base64.StdEncoding.DecodeString(text)
			if err != nil {
				return err
			}
			values[i] = raw
		}
	}
	if len(values) != l.width {
		return fmt.Errorf("a row of %s has %d values, not %d", l.table.Table, len(values), l.width)
	}
	l.values = append(l.values, values...)
	l.bytes += len(b)
	if len(l.values) == l.full()*l.width || l.bytes >= loadedBytes {
		return l.flush()
	}
	return nil
}

// keeps says of which progress p the journal continues in the restored store.
func (l *loader) keeps() string {
	if l.q.s.shared {
		return "false"
	}
	return "p.node = 1"
}

// finish makes the rows a store without processes.
func (l *loader) finish() error {
	if l.head.Backup == 0 {
		return ErrDump
	}
	if err := l.endTable(); err != nil {
		return err
	}
	if l.head.Schema < 5 {
		if err := l.q.divideDays(); err != nil {
			return err
		}
	}
	if l.head.Schema < 8 {
		if _, err := l.q.tx.Exec(markMoved); err != nil {
			return err
		}
	}
	var err error
	if l.q.s.before, err = l.q.loadBefore(); err != nil {
		return err
	}
	if l.head.Schema < 11 {
		t := &tx{Tx: l.q.tx, Query: *l.q}
		if _, err := t.exec("INSERT INTO applied(node, sink, inc, seq) VALUES(0, 'usage', 0, 0)"); err != nil {
			return err
		}
		if err := t.numberPostings(); err != nil {
			return err
		}
	}
	statements := []string{
		// The process that had a payment's lease is not there any more.
		"UPDATE payment SET lease_us = 0, next_us = CASE WHEN " + paymentLeft + " THEN 0 ELSE next_us END",
		// Where a charge was still in a journal, which is not in a backup, nothing was paid;
		// and the number of that hold may come again.
		"UPDATE job SET paid_us = created_us, node = 0, hold = node * 1099511627776 + hold WHERE paid_us = 0 AND NOT EXISTS(SELECT 1 FROM open_progress p " +
			"WHERE p.node = job.node AND p.hold = job.hold AND " + l.keeps() + ")",
		"UPDATE bucket SET avail = avail + escrow, escrow = 0 WHERE escrow > 0",
		"UPDATE usage_kept SET node = 0, lease_us = 0",
		l.q.s.text(sqlAllDays),
		"INSERT INTO applied(node, sink, inc, seq) SELECT 1, s, 0, 0 FROM (SELECT 'ledger' AS s UNION ALL SELECT " +
			"'usage') x WHERE true ON CONFLICT DO NOTHING",
	}
	if l.q.s.shared {
		// Numbers of nodes must not come again: their records would collide.
		statements = append(statements,
			`INSERT INTO node(no, id, name, inc, started_us, expires_us, ended)
			SELECT node, 'restored-' || CAST(node AS TEXT), 'restored', max(inc), 0, 0, 1 FROM applied WHERE node > 0 GROUP BY node ON CONFLICT DO NOTHING`,
			"DELETE FROM open_progress",
			"SELECT setval(pg_get_serial_sequence('account', 'no'), (SELECT coalesce(max(no), 1) FROM account))",
			"SELECT setval(pg_get_serial_sequence('api_key', 'no'), (SELECT coalesce(max(no), 1) FROM api_key))",
			"SELECT setval(pg_get_serial_sequence('entry', 'id'), (SELECT coalesce(max(id), 1) FROM entry))",
			"SELECT setval(pg_get_serial_sequence('owed', 'no'), (SELECT coalesce(max(no), 1) FROM owed))",
			"SELECT setval(pg_get_serial_sequence('violation', 'no'), (SELECT coalesce(max(no), 1) FROM violation))",
			"SELECT setval(pg_get_serial_sequence('review', 'no'), (SELECT coalesce(max(no), 1) FROM review))",
			"SELECT setval(pg_get_serial_sequence('audit', 'no'), (SELECT coalesce(max(no), 1) FROM audit))")
	} else {
		// Streams of other nodes that were under way cannot be settled here.
		statements = append(statements, "DELETE FROM open_progress WHERE node <> 1")
	}
	for _, text := range statements {
		if _, err := l.q.tx.Exec(text); err != nil {
			return err
		}
	}
	return nil
}
