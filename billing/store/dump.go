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
	"strings"
)

// DumpHead begins a dump, a store in a form that every engine can take: one JSON value a
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
// they are restored. The rows of processes (nodes, leases, quotas) and their
// messages stay out: a restored store has no process yet.
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
	{"usage_page", append([]string{"account", "node", "seq_first", "seq_last", "first_us", "last_us", "requests", "data"},
		strings.Split(entryColumns, ", ")...)},
	{"usage_hour", append([]string{"account", "hour", "node"}, strings.Split(entryColumns, ", ")...)},
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
