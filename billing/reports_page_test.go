package billing

import (
	"context"
	"database/sql"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"farebox/bench/servers"
	"farebox/billing/calendar"
	"farebox/billing/journal"
	"farebox/billing/money"
	"farebox/billing/report"
	"farebox/billing/store"
)

// While the store refuses writes, a list shows the stored entries and says that it is
// behind.
func TestListingSaysThatItIsBehind(t *testing.T) {
	var store *faultyStore
	f := openLedger(t, withFaults(&store))
	f.account("a", usd)
	k, _ := f.key("a")
	f.spend(k, 2, 1000)
	if _, err := f.Reports(k.Account).List(report.ListQuery{Limit: 10, Page: 1}); err != nil {
		t.Fatal(err)
	}
	store.before.Store(true)
	f.spend(k, 1, 1000)
	list, err := f.Reports(k.Account).List(report.ListQuery{Limit: 10, Page: 1})
	if err != nil || !list.Behind || list.Total != 2 {
		t.Errorf("%d entries, behind %v, %v", list.Total, list.Behind, err)
	}
	store.before.Store(false)
	list, err = f.Reports(k.Account).List(report.ListQuery{Limit: 10, Page: 1})
	if err != nil || list.Behind || list.Total != 3 {
		t.Errorf("with the store back: %d entries, behind %v, %v", list.Total, list.Behind, err)
	}
}

// A page deep inside must not need the pages before it: with ten million entries that
// would be gigabytes. Here everything else is damaged.
func TestListingOpensOnlyItsOwnPages(t *testing.T) {
	onEngines(t, func(t *testing.T, f *fixture) {
		o := FillOptions{Entries: 60_000, Keys: 3, Models: 3, Days: 40, Seed: 1}
		filled, err := f.Fill(context.Background(), o)
		if err != nil {
			t.Fatal(err)
		}
		k, err := f.Lookup([]byte(filled.Secret))
		if err != nil {
			t.Fatal(err)
		}
		middle := f.clock.nano()/1000 - 20*24*journal.HourUs
		db := database(f.store)
		if _, err := db.Exec("UPDATE usage_page SET data = $3 WHERE last_us < $1 OR first_us > $2",
			middle-24*journal.HourUs, middle+24*journal.HourUs, []byte{0}); err != nil {
			t.Fatal(err)
		}
		list, err := f.Reports(k.Account).List(report.ListQuery{Limit: 500, Page: 60})
		if err != nil || len(list.Entries) != 500 || list.Total != filled.Entries {
			t.Errorf("page 60 has %d of %d entries, %v", len(list.Entries), list.Total, err)
		}
		for _, q := range []report.ListQuery{{Limit: 1, Page: 1}, {Limit: 500, Page: 1, Ascending: true}} {
			if _, err := f.Reports(k.Account).List(q); !errors.Is(err, journal.ErrPage) {
				t.Errorf("%+v: a damaged page gives %v", q, err)
			}
		}
		h, err := f.Reports(k.Account).History(report.HistoryQuery{FromUs: middle, PageSize: 1000})
		if err != nil || len(h.Entries) != 1000 || h.Entries[0].AtUs < middle {
			t.Errorf("the history has %d entries, %v", len(h.Entries), err)
		}
	})
}

// The entries of Fill are the same in all books.
func TestFilledLedgerAddsUp(t *testing.T) {
	servers.NoRace(t)
	onEngines(t, func(t *testing.T, f *fixture) {
		f.account("a", usd)
		k, _ := f.key("a")
		f.spend(k, 3, 1000)
		filled, err := f.Fill(context.Background(), FillOptions{Entries: 20_000, Keys: 2, Models: 4, Days: 100,
			Seed: 2})
		if err != nil {
			t.Fatal(err)
		}
		f.reopen()
		f.reports.Limit = time.Minute // on a busy machine
		if r := f.recount(); r.Requests != filled.Requests+3 || r.Charged != filled.Charged+3000 {
			t.Errorf("%d requests for %s; made up were %d for %s", r.Requests, r.Charged, filled.Requests,
				filled.Charged)
		}
		k, err = f.Lookup([]byte(filled.Secret))
		if err != nil {
			t.Fatal(err)
		}
		f.spend(k, 1, 1000)
		list, err := f.Reports(k.Account).List(report.ListQuery{Limit: 1, Page: 1})
		if err != nil || list.Total != filled.Entries+1 {
			t.Errorf("%d entries after one more request, %v; made up were %d", list.Total, err, filled.Entries)
		}
	})
}

// "The report hung and with it my dashboard."
func TestSlowReportEndsInTime(t *testing.T) {
	onEngines(t, func(t *testing.T, f *fixture) {
		f.account("a", usd)
		k, _ := f.key("a")
		slow := report.New(slowSource{storeSource{f.store}})
		slow.Limit = 100 * time.Millisecond
		began := time.Now()
		_, err := slow.Sum(report.SumQuery{By: "day"}, 0)
		if took := time.Since(began); !errors.Is(err, report.ErrTimeout) || took > 20*time.Second {
			t.Errorf("a query without end gave %v after %s", err, took)
		}
		if _, err := f.Reports(k.Account).List(report.ListQuery{Limit: 1, Page: 1}); err != nil {
			t.Errorf("the next report fails: %v", err)
		}
	})
}

// slowSource sends the store a query that takes minutes.
type slowSource struct{ storeSource }

func (s slowSource) Report(ctx context.Context, _ func(*store.Query) error) error {
	return s.Store.Report(ctx, func(q *store.Query) error {
		var n int64
		return q.Row("WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 2000000000) SELECT " +
			"count(*) FROM c").Scan(&n)
	})
}

// A ledger of schema 2 has uncounted pages, some across the end of an hour.
func TestPagesOfSchema2AreCounted(t *testing.T) {
	dir := t.TempDir()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, store.DatabaseFile))
	if err != nil {
		t.Fatal(err)
	}
	old, err := os.ReadFile(filepath.Join("testdata", "schema2.sql"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec(string(
		old) + "; PRAGMA user_version = 2; INSERT INTO account(id, name, created_us) VALUES('u', 'a', 1)"); err != nil {
		t.Fatal(err)
	}
	x := rand.New(rand.NewPCG(3, 3))
	var model entryList
	us, seq := 1_790_000_000_000_000-10*journal.HourUs, uint64(1)
	for range 20 {
		p := journal.Page{}
		for range 1 + x.IntN(100) {
			us += x.Int64N(journal.HourUs / 50)
			seq += 1 + x.Uint64N(2)
			r := madeUp(x, 1, seq, us)
			p.Add(r)
			model = report.AppendEntries(model, r, 1, journal.AnyPlace)
		}
		if _, err := db.Exec("INSERT INTO usage_page VALUES($1, 1, $2, $3, $4, $5, $6, $7)", p.Account, p.First, p.Last,
			p.FirstUs, p.LastUs, p.Requests, p.Data); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	s, err := store.OpenSQLite(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	account := report.Account{Reports: report.New(storeSource{s}), No: 1, Newest: allStored{}}
	h, err := account.History(report.HistoryQuery{PageSize: 10_000})
	if err != nil || h.Next != "" || !slices.Equal(positions(h.Entries), positions(model)) {
		t.Errorf("%d entries of %d, %v", len(h.Entries), len(model), err)
	}
	// Page 1 would include the writes of the store's nodes, and this store has no nodes.
	list, err := account.List(report.ListQuery{Limit: 10, Page: 2})
	if err != nil || list.Total != int64(len(model)) {
		t.Errorf("%d entries, counted as %d, %v", len(model), list.Total, err)
	}
	count, err := s.Recount(func() {})
	if err != nil || len(count.Faults) > 0 {
		t.Errorf("the recount finds %v, %v", count, err)
	}
}

// storeSource makes reports of a store without a ledger.
type storeSource struct{ store.Store }

func (s storeSource) Now() int64                 { return time.Now().UnixNano() }
func (s storeSource) Today() int32               { return calendar.DayOf(s.Now()) }
func (s storeSource) SeveralNodes() bool         { return false }
func (s storeSource) Sign([]byte) (sum [32]byte) { return sum }
func (s storeSource) Floor() Nano                { return 0 }

// allStored is for accounts of which everything is in the store.
type allStored struct{}

func (allStored) Detailed() bool { return true }
func (allStored) Detail() bool   { return true }
func (allStored) Days() bool     { return true }

// addPages writes pages as another node would, up to its record last.
func addPages(db *sql.DB, node uint32, pages []*journal.Page, last uint64) error {
	tx, err := db.Begin()
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	_, err = tx.Exec("INSERT INTO applied(node, sink, inc, seq) VALUES($1, 'usage', 0, $2) ON CONFLICT(node, sink) "+
		"DO UPDATE SET seq = excluded.seq", node, last)
	if err != nil {
		return err
	}
	for _, p := range pages {
		n := &p.Entries
		_, err := tx.Exec(`INSERT INTO usage_page(account, node, seq_first, seq_last, first_us, last_us, requests, entries_diem, entries_bundled, entries_usd, data)
			VALUES($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)`,
			p.Account, node, p.First, p.Last, p.FirstUs, p.LastUs, p.Requests, n[money.InDIEM], n[money.InBundled],
			n[money.InUSD], p.Data)
		if err != nil {
			return err
		}
		_, err = tx.Exec(`INSERT INTO usage_hour(account, hour, node, entries_diem, entries_bundled, entries_usd) VALUES($1, $2, $3, $4, $5, $6)
			ON CONFLICT(account, hour, node) DO UPDATE SET entries_diem = usage_hour.entries_diem + excluded.entries_diem,
			entries_bundled = usage_hour.entries_bundled + excluded.entries_bundled, entries_usd = usage_hour.entries_usd + excluded.entries_usd`,
			p.Account, journal.HourOf(p.FirstUs), node, n[money.InDIEM], n[money.InBundled], n[money.InUSD])
		if err != nil {
			return err
		}
	}
	return tx.Commit()
}
