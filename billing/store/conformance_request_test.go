package store

import (
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"farebox/billing/journal"
	"farebox/billing/money"
)

// Every filter lists details of requests, the latest first. They go with their age and number.
func conformRequests(c *conform) {
	a, b := c.account("a", money.Parts{}), c.account("b", money.Parts{})
	row := func(n int, account uint32, status int, code string) *RequestRow {
		return &RequestRow{ID: [16]byte{byte(n)}, AtUs: conformUs + int64(n/2), Account: account, Key: int64(account), Route: "POST /x",
			Model: fmt.Sprint("m", n%3), Status: status, Code: code, Refused: status == 402, Needed: 7, Period: "DAY", Tries: "[]",
			Alike: int64(n), Attempts: n, Upstream: "u", Hold: -1}
	}
	var rows []*RequestRow
	for n := 1; n <= 9; n++ {
		account, status, code := a, 402, "POOR"
		if n%3 == 0 {
			account, status, code = b, 500, ""
		}
		rows = append(rows, row(n, account, status, code))
	}
	c.must(c.AddRequests(rows))
	c.must(c.AddRequests(rows[:2])) // again
	show := func(name string, f RequestFilter, most int) {
		for {
			list, next, err := c.Requests(f, most)
			for _, r := range list {
				one := *r
				one.Node = 0
				c.say("%s: %+v", name, one)
			}
			c.say("%s: %v %v", name, next, fail(err))
			if next == nil {
				return
			}
			f.Behind = *next
		}
	}
	show("all", RequestFilter{}, 4)
	show("all at once", RequestFilter{}, 9)
	show("of one", RequestFilter{Account: b}, 2)
	show("of a key", RequestFilter{Key: int64(a)}, 5)
	show("by code", RequestFilter{Code: "POOR", Model: "m1"}, 2)
	show("by model", RequestFilter{Model: "m2"}, 2)
	show("refused", RequestFilter{Refused: true, FromUs: conformUs + 2, ToUs: conformUs + 4}, 2)
	show("refused of one", RequestFilter{Refused: true, Account: a}, 2)
	show("that match", RequestFilter{Matches: func(r *RequestRow) bool { return r.Attempts == 5 }}, 2)
	if r, err := c.Request([16]byte{4}); err != nil || r.Account != a || r.Alike != 4 {
		c.t.Errorf("one: %+v, %v", r, err)
	}
	if _, err := c.Request([16]byte{40}); !errors.Is(err, ErrNoRow) {
		c.t.Errorf("an unknown request: %v", err)
	}
	counts, err := c.RequestsByAccount()
	c.must(err)
	c.say("%v", counts)
	n, err := c.PurgeRequests(conformUs+1, 5)
	c.say("%s", fmt.Sprint(n, fail(err)))
	n, err = c.PurgeRequestsOf(a, 2)
	c.say("%s", fmt.Sprint(n, fail(err)))
	show("left", RequestFilter{}, 9)
}

// The charge of a request is found by its time with and without its account, in a bounded number
// of pages.
func TestChargesAreFoundByTime(t *testing.T) {
	t.Parallel()
	for _, e := range engines {
		t.Run(e.name, func(t *testing.T) {
			c := e.open(t)
			if c.shared != nil {
				c.Store = c.shared
			} else {
				t.Cleanup(func() { _ = c.Close() })
			}
			c.t = t
			findCharges(c)
		})
	}
}

func findCharges(c *conform) {
	a, b := c.account("a", money.Parts{}), c.account("b", money.Parts{})
	id := func(n int) (id [16]byte) {
		id[0], id[1] = byte(n), byte(n>>8)
		return id
	}
	at := func(n int) int64 { return conformUs + int64(n)*1e6 }
	const pages = 200
	for n := 1; n <= pages; n++ {
		account := a
		if n%2 == 0 {
			account = b
		}
		var set journal.Pages
		set.Begin(uint64(n - 1))
		set.Add(&journal.Record{Kind: journal.Settle, Seq: uint64(n), Hold: uint64(n), Account: account, Key: 1, Model: 1, Day: conformDay,
			TimeNs: at(n) * 1000, RequestID: id(n)})
		c.must(c.AddPages(set.List(), uint64(n), uint64(n)))
	}
	expect := func(name string, seq uint64, s ChargeSearch) {
		c.t.Helper()
		r, err := c.FindCharge(s)
		switch {
		case seq == many && !errors.Is(err, ErrManyPages), seq != many && err != nil:
			c.t.Errorf("%s: %v", name, err)
		case seq != many && (r == nil) != (seq == 0), r != nil && r.Seq != seq:
			c.t.Errorf("%s: found %+v, expected the record %d", name, r, seq)
		}
	}
	for _, n := range []int{1, 2, 100, 199, 200} {
		s := ChargeSearch{Request: id(n), FromUs: at(n - 5), ToUs: at(n + 3600), Most: pagesAtOnce}
		expect("by time", uint64(n), s)
		s.Account, s.Most = b, pages
		expect("by time and account", uint64(n*(1-n%2)), s)
		s.FromUs = 0
		expect("by account", uint64(n*(1-n%2)), s)
	}
	expect("far from its time", many, ChargeSearch{Request: id(200), FromUs: at(1), ToUs: at(3600), Most: pagesAtOnce})
	expect("at the end of its account", many, ChargeSearch{Request: id(2), Account: b, Most: pagesAtOnce})
	expect("unknown", 0, ChargeSearch{Request: id(999), FromUs: at(150), ToUs: at(3600), Most: pagesAtOnce})
}

// many marks a search that ends at its bound.
const many = math.MaxUint64

// A page of requests costs the same in a store of 200,000: every list is read in the order of an
// index, and one with a filter of its own stops at its bound.
func TestLongAPageOfRequestsReadsFewRows(t *testing.T) {
	const all, accounts = 200_000, 50
	s, err := OpenSQLite(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	var rows []*RequestRow
	for n := range all {
		r := &RequestRow{AtUs: conformUs + int64(n), Account: uint32(1 + n%accounts), Key: int64(1 + n%accounts), Model: "m", Code: "C",
			Status: 402, Refused: n%2 == 0, Upstream: "u", Tries: "[]"}
		binary.BigEndian.PutUint64(r.ID[:], uint64(n))
		if rows = append(rows, r); len(rows) == 1000 {
			if err := s.AddRequests(rows); err != nil {
				t.Fatal(err)
			}
			rows = rows[:0]
		}
	}
	for name, f := range map[string]RequestFilter{"all": {}, "account": {Account: 7}, "key": {Key: 7}, "code": {Code: "C"},
		"model": {Model: "m"}, "refused": {Refused: true}, "refused of one": {Refused: true, Account: 7},
		"period": {FromUs: conformUs + 10, ToUs: conformUs + all/2}} {
		looked := 0
		f.Matches = func(*RequestRow) bool { looked++; return true }
		for range 3 {
			list, next, err := s.Requests(f, 100)
			if err != nil || len(list) != 100 || next == nil {
				t.Fatalf("%s: %d rows, next %v, %v", name, len(list), next, err)
			}
			f.Behind = *next
		}
		if looked > 3*101 {
			t.Errorf("%s: three pages of 100 read %d rows", name, looked)
		}
	}
	looked := 0
	f := RequestFilter{Matches: func(*RequestRow) bool { looked++; return false }}
	list, next, err := s.Requests(f, 100)
	if err != nil || len(list) != 0 || next == nil || looked != rowsLooked {
		t.Errorf("a filter that nothing matches: %d rows of %d, next %v, %v", len(list), looked, next, err)
	}
	for _, q := range []string{"true", "r.account = 1", "r.api_key = 1", "r.code = 'C'", "r.model = 'm'", "r.refused = 1",
		"r.account = 1 AND r.refused = 1"} {
		plan := planOf(t, s, requests.row+q+" AND r.at_us < 5 ORDER BY r.at_us DESC, r.id DESC LIMIT 9")
		if !strings.Contains(plan, "USING INDEX request_") || strings.Contains(plan, "TEMP B-TREE") {
			t.Errorf("%s is read by %s", q, plan)
		}
	}
}

// A change with a key takes as long after 100,000 others. All changes of its token were read.
func TestRepeatedChangesAreFoundByTheirIndex(t *testing.T) {
	s, err := OpenSQLite(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	if plan := planOf(t, s, audits.row+byIdem, "a", "b"); !strings.Contains(plan, "INDEX audit_idem") {
		t.Errorf("a repeated change is read by %s", plan)
	}
}

// planOf returns SQLite's plan for a list.
func planOf(t *testing.T, s Store, query string, args ...any) string {
	t.Helper()
	rows, err := s.(interface{ DB() *sql.DB }).DB().Query("EXPLAIN QUERY PLAN "+query, args...)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	var plan []string
	for rows.Next() {
		var id, parent, unused int
		var text string
		if err := rows.Scan(&id, &parent, &unused, &text); err != nil {
			t.Fatal(err)
		}
		plan = append(plan, text)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return strings.Join(plan, "; ")
}
