package billing

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unsafe"

	sqlite3 "modernc.org/sqlite/lib"

	"farebox/bench/servers"
	"farebox/billing/store"
)

// filters are values of the filters of lists, by name, or by list and name: some that many rows
// have, and one that none has. A filter without a value here fails the test.
var filters = map[string][]string{
	"account":              {`"big"`, `"account-7"`},
	"from":                 {`"MIDDLE"`, `"2100-01-01T00:00:00Z"`},
	"to":                   {`"MIDDLE"`, `"2000-01-01T00:00:00Z"`},
	"model":                {`"model-1"`, `"none"`},
	"code":                 {`"CODE_1"`, `"none"`},
	"upstream":             {`"upstream-1"`, `"none"`},
	"key":                  {`"KEY"`},
	"flag":                 {`"refused"`, `"retried"`},
	"by":                   {`"balance"`, `"none"`},
	"who":                  {`"who-1"`, `"none"`},
	"operation":            {`"operation-1"`, `"none"`},
	"subject":              {`"subject-1"`, `"none"`},
	"slug":                 {`"slug-1"`, `"none"`},
	"wallet":               {`"wallet-1"`, `"none"`},
	"open":                 {"true"},
	"live":                 {"true"},
	"last":                 {`"a1b2c3"`, `"abc"`, `"zz"`},
	"external_id":          {`"x7"`, `"none"`},
	"currency":             {`"USD"`, `"DIEM"`},
	"kind":                 {`"refund"`},
	"list_accounts.status": {`"suspended"`, `"closed"`},
	"list_requests.status": {"402", "500"},
	"list_refusals.status": {"402", "500"},
}

// sums are lists that add up the daily usage of all keys: they never read single requests, but grow
// with the days, keys and models that were in use.
var sums = map[string][]string{
	"revenue":      {`"by":"account"`, `"by":"key"`, `"by":"model"`, `"by":"day"`, `"by":"day","from":"MONTH"`, `"by":"account","from":"MONTH"`},
	"report_usage": {`"by":"day"`},
}

// bounded are lists whose members cannot all be combined: they read the sums of some days, or those
// of one account.
var bounded = map[string][]string{
	"liability":    {``, `"from":"MIDDLE"`, `"to":"MIDDLE"`, `"to":"2000-01-01T00:00:00Z"`},
	"revenue":      {`"by":"key","account":"account-7"`},
	"report_usage": {`"by":"day","account":"account-7"`},
}

// listCase is a list with filters.
type listCase struct {
	list, query string
	page        bool // it has pages
}

// listCases are all lists of the table of operations, with each of their filters and each two of
// them.
func listCases(t *testing.T, words *strings.Replacer) (cases []listCase) {
	for _, o := range operations {
		if o.method != "GET" || strings.Contains(o.path, "{") || sums[o.name] != nil || bounded[o.name] != nil || o.name == "list_nodes" {
			continue // there are as many nodes as there are processes
		}
		if o.answer.Kind() != reflect.Slice && !strings.HasPrefix(o.answer.Name(), "List[") {
			continue
		}
		queries := map[string]bool{"": true}
		var parts [][]string
		for _, name := range o.members {
			if name == "limit" || name == "cursor" {
				continue
			}
			values := filters[o.name+"."+name]
			if values == nil {
				values = filters[name]
			}
			if values == nil {
				t.Errorf("%s has the filter %s, for which this test has no value", o.name, name)
			}
			var of []string
			for _, v := range values {
				of = append(of, words.Replace(fmt.Sprintf("%q:%s", name, v)))
			}
			for _, other := range parts {
				for _, a := range other {
					for _, b := range of {
						queries[a+","+b] = true
					}
				}
			}
			for _, q := range of {
				queries[q] = true
			}
			parts = append(parts, of)
		}
		for _, q := range slices.Sorted(maps.Keys(queries)) {
			cases = append(cases, listCase{o.name, q, slices.Contains(o.members, "limit")})
		}
	}
	for name, list := range bounded {
		for _, q := range list {
			cases = append(cases, listCase{name, words.Replace(q), false})
		}
	}
	return cases
}

// engineUnderTest has the same books on one engine.
type engineUnderTest struct {
	name string
	desk *desk
	// read returns how much the store has read so far: rows in PostgreSQL, pages of a tree in
	// SQLite.
	read func() int64
}

// page reads one page and returns the cursor of the next.
func (e *engineUnderTest) page(c *listCase, cursor string) (next string) {
	query := c.query
	if c.page {
		query = strings.Trim(fmt.Sprintf(`"limit":100,"cursor":%q,%s`, cursor, query), ",")
	}
	answer := e.desk.do(boss, c.list, "{"+query+"}")
	if !c.page {
		return ""
	}
	var list struct {
		Next string `json:"next_cursor"`
	}
	if err := json.Unmarshal([]byte(answer), &list); err != nil {
		e.desk.t.Fatal(err)
	}
	return list.Next
}

// deep is the number of pages that are read after the first one.
const deep = 12

// reads returns the reads of the first page, and the most of a later one. Of lists with two filters
// it reads the first page only.
func (e *engineUnderTest) reads(c *listCase) (first, later int64) {
	cursor := ""
	pages := 3
	if strings.Contains(c.query, ",") {
		pages = 1
	}
	for n := range pages {
		before := e.read()
		cursor = e.page(c, cursor)
		if n == 0 {
			first = e.read() - before
		} else {
			later = max(later, e.read()-before)
		}
		if cursor == "" {
			break
		}
	}
	return first, later
}

// "The list took a second in March, a minute in June." A page of any list of the operator's API,
// with any filters, reads as much in a full store as in one with a quarter of its rows.
func TestLongAPageOfEveryListReadsTheSameInAFullStore(t *testing.T) {
	t.Parallel()
	all := max(200_000, servers.Campaign(200_000)) // in fewer rows a bounded page sees a large part of the store
	s := newFullStore(t)
	type cost struct{ first, later int64 }
	costs := map[string]map[listCase]cost{}
	for _, part := range []int{4, 1} {
		s.grow(all/part, 4000/part, all/part/2)
		for e := range s.engines {
			now, began := map[listCase]cost{}, time.Now()
			if idle := e.read(); e.name == "sqlite" {
				time.Sleep(2 * keepEvery)
				if idle = e.read() - idle; idle > 200 {
					t.Errorf("without queries, %d pages are read in two rounds of the keeper", idle)
				}
			}
			for _, c := range listCases(t, s.words()) {
				first, later := e.reads(&c)
				now[c] = cost{first, later}
				was, some := costs[e.name][c]
				// A tree of SQLite may have one more level.
				grown := func(now, was int64) bool { return now > was+was/2+50 }
				if some && (grown(first, was.first) || grown(later, was.later)) {
					t.Errorf("%s: %s {%s} reads %d, later %d; with a quarter of the rows %d, later %d", e.name, c.list, c.query, first, later,
						was.first, was.later)
				}
			}
			costs[e.name] = now
			t.Logf("%s with %d: %d lists and filters in %s", e.name, all/part, len(now), time.Since(began).Round(time.Second))
		}
	}
}

// words replaces placeholders by values that are not known in advance.
func (s *fullStore) words() *strings.Replacer {
	var key string
	if err := database(s.f.store).QueryRow("SELECT id FROM api_key WHERE no = 10").Scan(&key); err != nil {
		s.t.Fatal(err)
	}
	return strings.NewReplacer("MIDDLE", s.begin.AddDate(0, 0, fullDays/2).Format(time.RFC3339), "KEY", key,
		"MONTH", s.begin.AddDate(0, 0, fullDays-30).Format(time.RFC3339))
}

// engines are this store and then its copy in PostgreSQL, made from a backup.
func (s *fullStore) engines(yield func(*engineUnderTest) bool) {
	t := s.t
	var pages int64
	if !yield(&engineUnderTest{"sqlite", &desk{s.f.Ledger, t}, func() int64 { pages += pagesRead(t, s.f.store); return pages }}) {
		return
	}
	path := filepath.Join(t.TempDir(), "backup")
	if _, err := Do(s.f.Ledger, BackUp{Path: path}); err != nil {
		t.Fatal(err)
	}
	address := servers.Database(t)
	if _, err := Restore(path, Options{Shared: address}); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	servers.ExecAt(t, address, "VACUUM ANALYZE")
	// PostgreSQL reads a small table whole where that is cheaper. Here it represents a large one.
	servers.ExecAt(t, address, "DO $$ BEGIN EXECUTE 'ALTER DATABASE ' || quote_ident(current_database()) || ' SET enable_seqscan = off'; END $$")
	shared, err := OperateShared(address, "svc")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = shared.Close() })
	// Counting asks all connections. Opening new ones each time would take most of the time.
	for _, db := range shared.store.(interface{ Readers() []*sql.DB }).Readers() {
		db.SetMaxIdleConns(db.Stats().MaxOpenConnections)
	}
	yield(&engineUnderTest{"postgres", &desk{shared, t}, func() int64 { return rowsRead(t, shared.store) }})
}

// eachConn runs do on every connection that reads. There are no other readers meanwhile.
func eachConn(t *testing.T, s store.Store, do func(c *sql.Conn)) {
	t.Helper()
	for _, db := range s.(interface{ Readers() []*sql.DB }).Readers() {
		var list []*sql.Conn
		for range db.Stats().MaxOpenConnections {
			c, err := db.Conn(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, c)
		}
		for _, c := range list {
			do(c)
			if err := c.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// pagesRead counts the pages that all connections of SQLite have read since its last call, cached or
// not. The counters have 32 bits, so each call resets them. The driver does not export them.
func pagesRead(t *testing.T, s store.Store) (sum int64) {
	t.Helper()
	eachConn(t, s, func(c *sql.Conn) {
		err := c.Raw(func(driver any) error {
			conn := reflect.ValueOf(driver).Elem()
			tls := conn.FieldByName("tls")
			args := []reflect.Value{reflect.NewAt(tls.Type(), unsafe.Pointer(tls.UnsafeAddr())).Elem(),
				reflect.ValueOf(uintptr(conn.FieldByName("db").Uint()))}
			for _, what := range []int32{sqlite3.SQLITE_DBSTATUS_CACHE_HIT, sqlite3.SQLITE_DBSTATUS_CACHE_MISS} {
				now, most := new(int32), new(int32)
				reflect.ValueOf(sqlite3.Xsqlite3_db_status).Call(append(args[:2:2], reflect.ValueOf(what),
					reflect.ValueOf(uintptr(unsafe.Pointer(now))), reflect.ValueOf(uintptr(unsafe.Pointer(most))), reflect.ValueOf(int32(1))))
				sum += int64(*now)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	})
	return sum
}

// rowsRead counts the rows and entries of indexes that PostgreSQL has read.
func rowsRead(t *testing.T, s store.Store) (sum int64) {
	t.Helper()
	eachConn(t, s, func(c *sql.Conn) {
		if _, err := c.ExecContext(context.Background(), "SELECT pg_stat_force_next_flush()"); err != nil {
			t.Fatal(err)
		}
	})
	err := database(s).QueryRow(`SELECT CAST((SELECT sum(seq_tup_read) FROM pg_stat_user_tables) + (SELECT sum(idx_tup_read) FROM
		pg_stat_user_indexes) AS BIGINT)`).Scan(&sum)
	if err != nil {
		t.Fatal(err)
	}
	return sum
}

// Times of pages of lists in a store of $FAREBOX_LISTS requests, by default 12,000. For times that say
// something, on a quiet machine:
// FAREBOX_LISTS=10000000 go test -tags nodynamic -run TestLongTimesOfLists -timeout 5h -v ./billing
func TestLongTimesOfLists(t *testing.T) {
	all := 12_000
	if number := os.Getenv("FAREBOX_LISTS"); number != "" {
		var err error
		if all, err = strconv.Atoi(number); err != nil {
			t.Fatal(err)
		}
	}
	s := newFullStore(t)
	began := time.Now()
	s.grow(all, max(1000, all/1000), min(all/5, 1_000_000))
	t.Logf("filled in %s", time.Since(began).Round(time.Second))
	for e := range s.engines {
		type line struct{ first, deep, filtered time.Duration }
		lines, slowest := map[string]*line{}, map[string]string{}
		cases := listCases(t, s.words())
		for name, list := range sums {
			for _, q := range list {
				cases = append(cases, listCase{name + " " + q, s.words().Replace(q), strings.HasPrefix(name, "revenue")})
			}
		}
		for _, c := range cases {
			name := c.list
			c.list, _, _ = strings.Cut(name, " ")
			if lines[name] == nil {
				lines[name] = &line{}
			}
			cursor := ""
			for n := range deep {
				began := time.Now()
				cursor = e.page(&c, cursor)
				took := time.Since(began)
				switch l := lines[name]; {
				case c.query != "" && sums[c.list] == nil:
					if took > l.filtered {
						l.filtered, slowest[name] = took, c.query
					}
				case n == 0:
					l.first = took
				default:
					l.deep = max(l.deep, took)
				}
				if cursor == "" {
					break
				}
			}
		}
		for _, name := range slices.Sorted(maps.Keys(lines)) {
			l := lines[name]
			t.Logf("| %s | %s | %.1f | %.1f | %.1f | %s |", e.name, name, ms(l.first), ms(l.deep), ms(l.filtered), slowest[name])
		}
		if report, err := e.desk.Verify(); err != nil || len(report.Faults) > 0 {
			t.Errorf("%s: verify: %d faults, %v", e.name, len(report.Faults), err)
		}
	}
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
