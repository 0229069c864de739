package store

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"strconv"
	"strings"
)

// A dump is a store in a form that every engine can take: one JSON value a
// line. The head, then for each table its name and columns and a line a row
// (numbers, strings, null, and {"b": base64} for bytes), and an end with the
// number of lines and the SHA-256 of all before it, so that one that is cut
// short or damaged is never taken for whole.
type DumpHead struct {
	Backup    int    `json:"farebox_backup"` // version of this form
	Schema    int    `json:"schema"`
	Engine    string `json:"engine"`
	CreatedUs int64  `json:"created_us"`
	Pepper    []byte `json:"pepper"`
}

type dumpTable struct {
	Table   string   `json:"table"`
	Columns []string `json:"columns"`
}

type dumpEnd struct {
	End    bool   `json:"end"`
	Lines  int64  `json:"lines"`
	Digest []byte `json:"sha256"`
}

const dumpVersion = 1

// dumped are the tables of a dump with their columns, in the order in which
// they are restored. What belongs to processes (nodes, leases, quotas) and what
// they told each other stays out: a restored store has no process yet.
var dumped = []dumpTable{
	{"account", []string{"no", "id", "name", "created_us", "diem_daily", "status", "status_us", "external_id", "email", "company",
		"tax_id", "metadata", "low_balance", "version", "erased_us"}},
	{"api_key", keys.names()},
	{"model", []string{"no", "id", "type"}},
	{"upstream", []string{"no", "id"}},
	{"bucket", []string{"account", "currency", "day", "granted", "avail", "escrow", "spent", "expired"}},
	{"entry", []string{"id", "ts_us", "kind", "ref", "seq_first", "seq_last", "memo", "node", "reason"}},
	{"posting", []string{"entry", "book", "account", "currency", "amount", "balance_after", "moved", "no", "corrected"}},
	{"account_sum", []string{"account", "currency", "postings", "balance", "refunded"}},
	{"owed", []string{"no", "account", "record", "amount"}},
	{"house", []string{"book", "currency", "balance"}},
	{"debt", []string{"account", "incurred", "paid"}},
	{"usage_day", []string{"account", "api_key", "day", "model", "currency", "kind", "requests", "units", "amount",
		"last_us", "upstream"}},
	{"usage_moved", []string{"account", "api_key", "day", "model", "currency", "kind", "requests", "units", "amount",
		"last_us", "upstream"}},
	{"usage_page", []string{"account", "node", "seq_first", "seq_last", "first_us", "last_us", "requests", "data",
		"entries_diem", "entries_bundled", "entries_usd"}},
	{"usage_hour", []string{"account", "hour", "node", "entries_diem", "entries_bundled", "entries_usd"}},
	{"usage_sum", []string{"account", "ended", "api_key", "day", "model", "currency", "kind", "moved", "requests", "units", "amount",
		"shortfall", "debt", "upstream"}},
	{"usage_late", []string{"account", "currency", "entry", "ended", "amount", "debt"}},
	{"usage_kept", []string{"no", "pruned_day", "steps", "node", "lease_us"}},
	{"usage_export", []string{"day", "part", "name", "requests", "digest", "bounds", "node", "pruned"}},
	{"open_progress", []string{"node", "hold", "seq", "record"}},
	{"applied", []string{"node", "sink", "inc", "seq"}},
	{"violation", []string{"no", "account", "at_us", "api_key", "model", "tier", "kind"}},
	{"token", []string{"id", "expires_us"}},
	{"review", append([]string{"no"}, reviews.names()...)},
	{"character_use", []string{"slug", "account", "first_us"}},
	{"character_sum", []string{"slug", "imports"}},
	{"job", append(jobs.names(), "charge")},
	{"key_back", []string{"account", "api_key", "day", "currency", "amount"}},
	{"voice", voices.names()},
	{"payment", payments.names()},
	{"wallet_link", walletLinks.names()},
	{"enclave_answer", enclaveAnswers.names()},
	{"audit", audits.names()},
	{"operator_token", tokens.names()},
	{"request", requests.names()},
}

// dumpedDay4 is daily usage in dumps of schemas before 5.
var dumpedDay4 = dumpTable{"usage_day4", []string{"account", "api_key", "day", "model", "currency", "requests",
	"input_tokens", "cache_read_tokens", "cache_write_tokens", "output_tokens",
	"input_amount", "cache_read_amount", "cache_write_amount", "output_amount", "last_us"}}

// dumper writes the lines.
type dumper struct {
	w     *bufio.Writer
	sum   hash.Hash
	lines int64
}

func (d *dumper) line(v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	d.lines++
	b = append(b, '\n')
	d.sum.Write(b)
	_, err = d.w.Write(b)
	return err
}

func (s *sqlStore) Engine() string {
	if s.shared {
		return "PostgreSQL"
	}
	return "SQLite"
}

// Dump writes the store as it is at one moment. pinned is called when that
// moment is past: later writes are not in the dump.
func (s *sqlStore) Dump(w io.Writer, head DumpHead, pinned func()) (lines int64, err error) {
	q, err := s.begin(context.Background(), s.reader, true)
	if err != nil {
		pinned()
		return 0, s.shown(err)
	}
	defer func() { _ = q.tx.Rollback() }()
	var first int64
	err = q.Row("SELECT count(*) FROM applied").Scan(&first) // the first read is the moment
	pinned()
	if err != nil {
		return 0, s.shown(err)
	}
	d := &dumper{w: bufio.NewWriterSize(w, 1<<16), sum: sha256.New()}
	head.Backup, head.Schema = dumpVersion, Version
	if err := d.line(head); err != nil {
		return 0, err
	}
	for _, table := range dumped {
		if err := d.table(q, table); err != nil {
			return 0, fmt.Errorf("cannot read the table %s: %w", table.Table, s.shown(err))
		}
	}
	end, err := json.Marshal(dumpEnd{true, d.lines, d.sum.Sum(nil)})
	if err != nil {
		return 0, err
	}
	_, err = d.w.Write(append(end, '\n'))
	return d.lines, errors.Join(err, d.w.Flush())
}

func (d *dumper) table(q *Query, table dumpTable) error {
	if err := d.line(table); err != nil {
		return err
	}
	row := make([]any, len(table.Columns))
	into := make([]any, len(row))
	for i := range row {
		into[i] = &row[i]
	}
	return q.Each(func(rows *sql.Rows) error {
		if err := rows.Scan(into...); err != nil {
			return err
		}
		line := make([]any, len(row))
		for i, v := range row {
			line[i] = v
			if b, ok := v.([]byte); ok {
				line[i] = dumpedBytes{base64.StdEncoding.EncodeToString(b)}
			}
		}
		return d.line(line)
	}, "SELECT "+strings.Join(table.Columns, ", ")+" FROM "+table.Table)
}

type dumpedBytes struct {
	B string `json:"b"`
}

// ErrDump is the error of a file that is not a whole backup.
var ErrDump = errors.New("this is not a whole farebox backup")

// dumpLine bounds a line: a page of usage has about 22 KB.
const dumpLine = 16 << 20

// readDump checks the lines of a dump and gives them on, the head first.
func readDump(r io.Reader, line func(b []byte) error) error {
	in := bufio.NewReaderSize(r, 1<<16)
	sum := sha256.New()
	for n := int64(0); ; n++ {
		b, err := in.ReadSlice('\n')
		if err == bufio.ErrBufferFull {
			long := bytes.Clone(b)
			for err == bufio.ErrBufferFull && len(long) < dumpLine {
				b, err = in.ReadSlice('\n')
				long = append(long, b...)
			}
			b = long
		}
		if err != nil {
			return fmt.Errorf("%w: it ends at line %d", ErrDump, n+1)
		}
		if bytes.HasPrefix(b, []byte(`{"end":`)) {
			var end dumpEnd
			if json.Unmarshal(b, &end) != nil || end.Lines != n || !bytes.Equal(end.Digest, sum.Sum(nil)) {
				return fmt.Errorf("%w: its checksum is wrong", ErrDump)
			}
			return nil
		}
		sum.Write(b)
		if err := line(b); err != nil {
			return fmt.Errorf("line %d: %w", n+1, err)
		}
	}
}

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

type loader struct {
	q     *Query
	head  DumpHead
	table *dumpTable
	stmt  *sql.Stmt
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
	return l.begin(b)
}

// begin prepares for the rows of a table. Only what Dump writes is taken: names
// from a file do not get into statements.
func (l *loader) begin(b []byte) error {
	var named dumpTable
	if err := json.Unmarshal(b, &named); err != nil {
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
	if l.stmt != nil {
		_ = l.stmt.Close()
	}
	marks := make([]string, len(named.Columns))
	for i := range marks {
		marks[i] = "$" + strconv.Itoa(i+1)
	}
	var err error
	l.stmt, err = l.q.tx.Prepare("INSERT INTO " + l.table.Table + "(" + strings.Join(named.Columns, ", ") +
		") VALUES(" + strings.Join(marks, ", ") + ")")
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
	_, err := l.stmt.Exec(values...)
	return err
}

// keeps says of which progress p the journal goes on in the restored store.
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
	if l.stmt != nil {
		_ = l.stmt.Close()
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
		// Whoever was at a payment is not there any more.
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
		// Streams of other nodes that were under way can be settled by nobody here.
		statements = append(statements, "DELETE FROM open_progress WHERE node <> 1")
	}
	for _, text := range statements {
		if _, err := l.q.tx.Exec(text); err != nil {
			return err
		}
	}
	return nil
}
