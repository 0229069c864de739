package billing

import (
	"errors"
	"fmt"
	"math"
	"testing"

	"farebox/billing/store"
)

// rowsOf is a store that takes rows, or fails.
type rowsOf struct {
	store.Store
	away bool
	rows []*store.RequestRow
}

func (s *rowsOf) AddRequests(rows []*store.RequestRow) error {
	if s.away {
		return errors.New("away")
	}
	s.rows = append(s.rows, rows...)
	return nil
}

// counted returns the rows of an account, and the requests that they count.
func (s *rowsOf) counted(account uint32) (rows int, requests int64) {
	for _, r := range s.rows {
		if r.Account == account {
			rows, requests = rows+1, requests+1+r.Alike
		}
	}
	return rows, requests
}

func noteAs(l *Ledger, account uint32, n int, code string) {
	k := &Key{Account: &AccountState{no: account}, No: int64(account)}
	r := &store.RequestRow{ID: [16]byte{byte(n), byte(n >> 8), byte(account)}, Status: 402, Code: code, Refused: true}
	if l.TakesRequest(k, r) {
		l.NoteRequest(r)
	}
}

// An account has few rows in a flush, and they count the others, however many of its requests fail
// and in how many ways. Another account loses nothing, and neither does while the store is away.
func TestFailuresOfOneAccountDoNotDisplaceThoseOfAnother(t *testing.T) {
	l, db := &Ledger{}, &rowsOf{away: true}
	l.requests.keepUs.Store(1)
	const all = 5000
	for n := range all {
		code := "POOR"
		if n%2 == 0 {
			code = fmt.Sprint("kind", n%100)
		}
		noteAs(l, 1, n, code)
		if n%1000 == 0 {
			noteAs(l, 2, n, "RARE")
			if l.requests.flush(db) == nil {
				t.Fatal("a store that is away took rows")
			}
		}
	}
	db.away = false
	if err := l.requests.flush(db); err != nil {
		t.Fatal(err)
	}
	if rows, requests := db.counted(1); rows > requestsEach+1 || requests != all {
		t.Errorf("%d rows count %d of %d", rows, requests, all)
	}
	if rows, requests := db.counted(2); rows != requestsAlike || requests != 5 {
		t.Errorf("the other account has %d rows, which count %d", rows, requests)
	}
	if l.requests.waiting != 0 || len(l.requests.accounts) != 0 {
		t.Errorf("%d rows of %d accounts are left", l.requests.waiting, len(l.requests.accounts))
	}
	noteAs(l, 1, all, "upstream said: \"secret\"")
	if err := l.requests.flush(db); err != nil || db.rows[len(db.rows)-1].Code != "other" {
		t.Errorf("a code of an upstream is kept: %v", err)
	}
}

// The memory of waiting details is bounded, and details beyond the bound are counted.
func TestDetailsBeyondTheBoundAreCounted(t *testing.T) {
	l := &Ledger{}
	l.requests.keepUs.Store(1)
	for account := range uint32(requestsWaiting + 100) {
		noteAs(l, account+1, 1, "POOR")
	}
	if l.requests.waiting != requestsWaiting || l.RequestsDropped() != 100 {
		t.Errorf("%d are waiting, %d were dropped", l.requests.waiting, l.RequestsDropped())
	}
	db := &rowsOf{}
	for l.requests.waiting > 0 {
		before := len(db.rows)
		if err := l.requests.flush(db); err != nil || len(db.rows)-before > requestsFlushed {
			t.Fatalf("one flush wrote %d rows, %v", len(db.rows)-before, err)
		}
	}
	off := &Ledger{}
	noteAs(off, 1, 1, "POOR")
	if off.requests.waiting != 0 {
		t.Error("requests.keep: 0 keeps details")
	}
}

// If the bound is too small for all, the accounts with the most rows lose some.
func TestAFullStoreTakesFromTheLargestAccounts(t *testing.T) {
	for _, c := range []struct {
		counts      []int
		most, level int
	}{{[]int{1, 2, 3}, 6, math.MaxInt}, {[]int{1, 2, 100}, 50, 47}, {[]int{90, 1, 90}, 101, 50}, {[]int{5, 5}, 4, 2}, {nil, 4, math.MaxInt}} {
		if got := fairLevel(c.counts, c.most); got != c.level {
			t.Errorf("%v with room for %d: %d each, expected %d", c.counts, c.most, got, c.level)
		}
	}
}

// Old details are removed. Of too many, those of the account with the most go first, and no others.
func TestDetailsGoWithAgeAndNumber(t *testing.T) {
	db, err := store.OpenSQLite(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	var rows []*store.RequestRow
	for n := range 4000 {
		r := &store.RequestRow{ID: [16]byte{byte(n), byte(n >> 8)}, AtUs: int64(1000 + n), Account: 1}
		if n%40 == 0 {
			r.Account = 2
		}
		rows = append(rows, r)
	}
	if err := db.AddRequests(rows); err != nil {
		t.Fatal(err)
	}
	l := &Ledger{}
	left := func(keep, most, now int64) map[uint32]int {
		t.Helper()
		l.requests.keepUs.Store(keep)
		l.requests.maxRows.Store(most)
		if err := l.requests.purge(db, now); err != nil {
			t.Fatal(err)
		}
		counts, err := db.RequestsByAccount()
		if err != nil {
			t.Fatal(err)
		}
		return counts
	}
	if got := left(10_000, 1000, 6000); got[2] != 100 || got[1] != 900 {
		t.Errorf("with room for 1000 there are %v", got)
	}
	if got := left(500, 1000, 5000); got[1]+got[2] != 500 {
		t.Errorf("with half of the time there are %v", got)
	}
	if got := left(0, 1000, 6000); len(got) != 0 {
		t.Errorf("turned off, there are %v", got)
	}
}
