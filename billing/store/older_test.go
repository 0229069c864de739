package store

import (
	"database/sql"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"farebox/bench/servers"
)

// "The old nodes went on beside the new ones, and forgot what they were owed."
func TestOlderNodesBesideNewerOnesAreRefused(t *testing.T) {
	t.Parallel()
	for _, version := range []int{3, 4, 5, 6, 7} {
		t.Run(fmt.Sprint("schema ", version), func(t *testing.T) { olderNodesAreRefused(t, version) })
	}
}

func olderNodesAreRefused(t *testing.T, version int) {
	address := servers.Database(t)
	old := schemaOn(t, address, version)
	if _, err := old.Exec("INSERT INTO node(no, id, name, inc, started_us, expires_us) VALUES(1, 'i', 'front-1', 4, "+
		"0, $1), (2, 'j', 'front-2', 1, 0, $1)",
		time.Now().Add(time.Minute).UnixMicro()); err != nil {
		t.Fatal(err)
	}
	if _, err := old.Exec("INSERT INTO applied(node, sink, inc, seq) VALUES(1, 'ledger', 4, 7), (1, " +
		"'usage', 4, 7)"); err != nil {
		t.Fatal(err)
	}
	for _, open := range []func() error{
		func() error { _, err := OpenPostgres(address, 0); return err },
	} {
		err := open()
		for _, word := range []string{"front-1, front-2", "make a backup", "stop all its nodes", "start this one"} {
			if err == nil || !strings.Contains(err.Error(), word) {
				t.Errorf("beside live nodes of schema %d the answer is %v, expected %q", version, err, word)
			}
		}
	}
	var now int
	if err := old.QueryRow("SELECT version FROM schema_version").Scan(&now); err != nil || now != version {
		t.Fatalf("the schema is %d (%v)", now, err)
	}
	// One has ended, the other is gone, and comes back later as it was.
	if _, err := old.Exec("UPDATE node SET ended = no - 1, expires_us = 0"); err != nil {
		t.Fatal(err)
	}
	s, err := OpenPostgres(address, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	s.node, s.inc = 1, 4
	if _, err := s.Beat(time.Minute); !errors.Is(err, ErrFenced) {
		t.Errorf("a process from before the migration goes on: %v", err)
	}
	if err := s.Apply(&Batch{First: 8, Last: 8}); !errors.Is(err, ErrFenced) {
		t.Errorf("a process from before the migration books: %v", err)
	}
	if no, inc, err := s.Join("i", "front-1", time.Minute); no != 1 || int(inc) != 4+Version-version+1 || err != nil {
		t.Errorf("the node comes back as %d %d (%v)", no, inc, err)
	}
	if seq, err := s.Applied(ToLedger); seq != 7 || err != nil {
		t.Errorf("its cursor is at %d (%v)", seq, err)
	}
	if r, err := s.Recount(func() {}); err != nil || len(r.Report().Faults) > 0 {
		t.Errorf("the recount finds %+v (%v)", r, err)
	}
	if _, err := old.Exec("UPDATE schema_version SET version = $1", Version+1); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenPostgres(address, 0); err == nil || !strings.Contains(err.Error(), "newer farebox") {
		t.Errorf("an older farebox is answered with %v", err)
	}
}

// oldUsageDay is the table of daily usage before version 5.
var oldUsageDay = strings.Replace(usageDay4, "usage_day4", "usage_day", 1) +
	"CREATE INDEX usage_day_day ON usage_day(account, day);"

// schemaOn makes an empty store of schema 3 to 7.
func schemaOn(t *testing.T, address string, version int) *sql.DB {
	t.Helper()
	db, err := sql.Open("pgx", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	text := strings.TrimSuffix(schema, postingNo)
	for since, later := range map[int]string{4: schema4, 6: schema6, 7: schema7, 8: schema8, 9: schema9, 10: schema10,
		11: schema11, 12: schema12, 13: schema13, 14: schema14, 15: schema15} {
		if version < since {
			text = strings.Replace(text, later, "", 1)
		}
	}
	if version < 5 {
		text = strings.Replace(text, usageDay, oldUsageDay, 1)
	}
	for _, q := range []string{postgresDialect(nil, 0).words.Replace(text),
		"CREATE TABLE schema_version(one BIGINT PRIMARY KEY, version BIGINT NOT NULL)",
		fmt.Sprintf("INSERT INTO schema_version VALUES(1, %d)", version)} {
		if _, err := db.Exec(q); err != nil {
			t.Fatal(err)
		}
	}
	return db
}

// "On PostgreSQL the update counted the pictures as tokens."
func TestDailyUsageIsDividedAlikeInBothEngines(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if out, err := exec.Command("tar", "-xzf", filepath.Join("..", "testdata", "ledger-loaded-schema4.tar.gz"), "-C",
		dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	from, err := sql.Open("sqlite", "file:"+uriPath(filepath.Join(dir, DatabaseFile)))
	if err != nil {
		t.Fatal(err)
	}
	address := servers.Database(t)
	to := schemaOn(t, address, 4)
	for _, table := range dumped {
		if strings.Contains(schema6+schema7+schema8+schema9+schema11+schema12+schema13+schema15, "CREATE TABLE "+table.Table+"(") || table.Table == "upstream" {
			continue // there was none yet
		}
		if table.Table == "usage_day" {
			table.Columns = dumpedDay4.Columns
		}
		table.Columns = slices.DeleteFunc(slices.Clone(table.Columns), func(c string) bool {
			return slices.Contains([]string{"posting moved", "posting no", "posting corrected", "entry reason"}, table.Table+" "+c)
		})
		if table.Table == "account" {
			table.Columns = table.Columns[:slices.Index(table.Columns, "external_id")]
		}
		copyRows(t, from, to, table)
	}
	if err := from.Close(); err != nil {
		t.Fatal(err)
	}
	lite, err := OpenSQLite(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lite.Close() }()
	shared, err := OpenPostgres(address, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = shared.Close() }()
	a, b := daysOf(t, lite.sqlStore), daysOf(t, shared.sqlStore)
	if len(a) < 20 || !slices.Equal(a, b) {
		t.Errorf("daily usage of SQLite:\n%s\nof PostgreSQL:\n%s", strings.Join(a, "\n"), strings.Join(b, "\n"))
	}
	if fmt.Sprint(lite.SoldBefore()) != fmt.Sprint(shared.SoldBefore()) || len(lite.SoldBefore()) != 4 {
		t.Errorf("earlier sales of models: %v and %v", lite.SoldBefore(), shared.SoldBefore())
	}
}

func copyRows(t *testing.T, from, to *sql.DB, table dumpTable) {
	t.Helper()
	rows, err := from.Query("SELECT " + strings.Join(table.Columns, ", ") + " FROM " + table.Table)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	row, into, marks := make([]any, len(table.Columns)), make([]any, len(table.Columns)),
		make([]string, len(table.Columns))
	for i := range row {
		into[i], marks[i] = &row[i], fmt.Sprint("$", i+1)
	}
	insert := "INSERT INTO " + table.Table + "(" + strings.Join(table.Columns, ", ") + ") VALUES(" + strings.Join(marks,
		", ") + ")"
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			t.Fatal(err)
		}
		if _, err := to.Exec(insert, row...); err != nil {
			t.Fatalf("%s: %v", table.Table, err)
		}
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
}

func daysOf(t *testing.T, s *sqlStore) (list []string) {
	t.Helper()
	err := s.read(func(q *Query) error {
		list = nil
		return q.Each(func(rows *sql.Rows) error {
			var n [10]int64
			into := make([]any, len(n))
			for i := range n {
				into[i] = &n[i]
			}
			err := rows.Scan(into...)
			list = append(list, fmt.Sprint(n))
			return err
		}, `SELECT account, api_key, day, model, currency, kind, requests, units, amount, last_us FROM usage_day
			ORDER BY account, api_key, day, model, currency, kind`)
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}
