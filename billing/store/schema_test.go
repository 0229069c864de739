package store

import (
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"farebox/bench/servers"
	"farebox/billing/journal"
	"farebox/billing/money"
)

// columns lists all tables with their columns and keys, and all indexes.
func columns(t *testing.T, db *sql.DB) string {
	t.Helper()
	rows, err := db.Query(`SELECT m.name || '.' || c.name || ' ' || c.type || ' ' || c."notnull" || ' ' || coalesce(c.dflt_value, '') || ' ' || c.pk
		FROM sqlite_master m JOIN pragma_table_info(m.name) c WHERE m.type = 'table'
		UNION ALL SELECT 'index ' || replace(sql, char(10), '') FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL ORDER BY 1`)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	var all strings.Builder
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintln(&all, line)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return all.String()
}

// "After the update half of the balances were gone." A ledger of the first
// version, with money, keys, usage and a stream under way, comes forward whole,
// and looks like one that was made today.
func TestOldLedgerComesForwardWhole(t *testing.T) {
	dir := t.TempDir()
	text, err := os.ReadFile(filepath.Join("testdata", "schema1.sql"))
	if err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", "file:"+uriPath(filepath.Join(dir, DatabaseFile)))
	if err != nil {
		t.Fatal(err)
	}
	progress := journal.Record{Kind: journal.Progress, Seq: 4, Hold: 3, Account: 1, Key: 1, Model: 1, Day: conformDay,
		TimeNs: 7, Amounts: money.Parts{0, 0, 5}}
	data := make([]byte, journal.MaxRecord)
	data = data[:progress.Put(data)]
	var set journal.Pages
	set.Begin(0)
	set.Add(&journal.Record{Kind: journal.Settle, Seq: 2, Hold: 1, Account: 1, Key: 1, Model: 1, Day: conformDay,
		TimeNs: conformUs * 1000, Amounts: money.Parts{0, 0, 30}})
	page := set.List()[0]
	for _, q := range []struct {
		text string
		args []any
	}{
		{string(text), nil},
		{"PRAGMA user_version = 1", nil},
		{"INSERT INTO account VALUES(1, 'id', 'name', 5)", nil},
		{"INSERT INTO api_key VALUES(1, 'k', 1, 1, x'0102', 'abcdef', 'd', 3, 100, NULL, 6, 0, 0)", nil},
		{"INSERT INTO model VALUES(1, 'm')", nil},
		{"INSERT INTO bucket VALUES(1, 1, 0, 100, 70, 0, 30, 0)", nil},
		{"INSERT INTO entry VALUES(1, 5, 'TOP_UP', 'ref', NULL, NULL, ''), (2, 6, 'CHARGE', NULL, 1, 2, '')", nil},
		{"INSERT INTO posting VALUES(1, 'customer', 1, 1, 100, 100), (1, 'cash', 0, 1, -100, NULL), (2, 'customer', " +
			"1, 1, -30, 70), (2, 'revenue', 0, 1, 30, NULL)", nil},
		{"INSERT INTO house VALUES('cash', 1, -100), ('revenue', 1, 30)", nil},
		{"INSERT INTO usage_day VALUES(1, 1, 20261121, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 30, 9)", nil},
		{"INSERT INTO usage_page VALUES(1, $1, $2, $3, $4, $5, $6)",
			[]any{page.First, page.Last, page.FirstUs, page.LastUs, page.Requests, page.Data}},
		{"INSERT INTO open_progress VALUES(3, 4, $1)", []any{data}},
		{"UPDATE applied SET seq = 4", nil},
	} {
		if _, err := db.Exec(q.text, q.args...); err != nil {
			t.Fatalf("%.60s: %v", q.text, err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	old, err := OpenSQLite(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = old.Close() }()
	fresh, err := OpenSQLite(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = fresh.Close() }()
	if a, b := columns(t, old.writer), columns(t, fresh.writer); a != b {
		t.Errorf("a migrated ledger differs from a new one:\n%s\nnew:\n%s", a, b)
	}
	c := &conform{Store: old, t: t}
	r := c.recount()
	if r.Requests != 1 || r.Charged != 30 || r.Accounts[1].detail != (money.Parts{0, 0, 30}) {
		t.Errorf("%d requests for %s survived", r.Requests, r.Charged)
	}
	k, err := old.KeyByID("k")
	if err != nil || k.Version != 1 || k.Privacy != AnyModel || *k.LimitUSD != 100 || k.LimitDIEM != nil ||
		k.Period != Lifetime {
		t.Errorf("the key is now %+v (%v)", k, err)
	}
	for _, s := range []Sink{ToLedger, ToUsage} {
		if seq, err := old.Applied(s); seq != 4 || err != nil {
			t.Errorf("the cursor %s is at %d (%v)", s, seq, err)
		}
	}
	if list, err := old.OpenProgress(); err != nil || len(list) != 1 || list[0].Amounts != progress.Amounts ||
		list[0].Hold != 3 {
		t.Errorf("open progress is now %+v (%v)", list, err)
	}
	if ok, err := old.Credit(&Credit{Account: 1, Currency: money.USD, Amount: 100, Ref: "ref", NowUs: 9}); ok ||
		err != nil {
		t.Errorf("a credit from before the migration counted again (%v)", err)
	}
}

// "We updated two machines at the same time and both migrated."
func TestNodesThatStartTogetherMigrateOnce(t *testing.T) {
	t.Parallel()
	address := servers.Database(t)
	const nodes = 8
	stores := make([]*postgresStore, nodes)
	var wg sync.WaitGroup
	for i := range nodes {
		wg.Go(func() {
			s, err := OpenPostgres(address, 0)
			if err != nil {
				t.Errorf("node %d: %v", i, err)
				return
			}
			stores[i] = s
			if _, _, err := s.Join(fmt.Sprint("id", i), "node", time.Minute); err != nil {
				t.Errorf("node %d: %v", i, err)
			}
		})
	}
	wg.Wait()
	var numbers []uint32
	for _, s := range stores {
		if s == nil {
			continue
		}
		numbers = append(numbers, s.node)
		c := conform{Store: s, t: t}
		c.recount()
		defer func() { _ = s.Close() }()
	}
	slices.Sort(numbers)
	if len(slices.Compact(numbers)) != nodes {
		t.Errorf("%d nodes got the numbers %v", nodes, numbers)
	}
	if _, err := stores[0].writer.Exec("UPDATE schema_version SET version = version + 1"); err != nil {
		t.Fatal(err)
	}
	if s, err := OpenPostgres(address, 0); err == nil || !strings.Contains(err.Error(), "newer farebox") {
		t.Errorf("a store of a newer version was opened: %v", err)
		_ = s.Close()
	}
}
