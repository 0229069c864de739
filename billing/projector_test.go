package billing

import (
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"farebox/bench/servers"
	"farebox/billing/journal"
	"farebox/billing/money"
	"farebox/billing/store"
)

// faultyStore fails as a database can: before a call, or after it, so that only the
// answer is lost.
type faultyStore struct {
	store.Store
	before, after atomic.Bool
	pages         atomic.Int64
}

var errFault = errors.New("the database is away")

func (s *faultyStore) Apply(b *store.Batch) error {
	return s.fault(func() error { return s.Store.Apply(b) })
}

func (s *faultyStore) AddPages(pages []*journal.Page, first, last uint64) error {
	s.pages.Add(int64(len(pages)))
	return s.fault(func() error { return s.Store.AddPages(pages, first, last) })
}

func (s *faultyStore) fault(do func() error) error {
	if s.before.Load() {
		return errFault
	}
	err := do()
	if s.after.Load() {
		return errFault
	}
	return err
}

func withFaults(s **faultyStore) func(*Options) {
	return func(o *Options) {
		o.wrapStore = func(inner store.Store) store.Store {
			*s = &faultyStore{Store: inner}
			return *s
		}
	}
}

func (f *fixture) spend(k *Key, n int, cost Nano) {
	f.t.Helper()
	for range n {
		var h Hold
		if d := f.Admit(&h, f.ask(k, cost)); d.Code != Admitted {
			f.t.Fatalf("denied with %d", d.Code)
		}
		f.settle(&h, cost)
	}
}

// breathe keeps the writers of a test, which do nothing else, from running away from the
// projection: each wait for it would take longer.
func (f *fixture) breathe() {
	for f.Stats().JournalLag > 2000 {
		time.Sleep(time.Millisecond)
	}
}

// "The commit's answer was lost, the batch was applied again, everybody paid twice."
func TestBatchesCountOnceWhateverTheStoreAnswers(t *testing.T) {
	var store *faultyStore
	f := openLedger(t, withFaults(&store))
	f.account("a", 1000*usd)
	k, _ := f.key("a")
	for i := range 20 {
		f.spend(k, 10, usd/10)
		store.before.Store(i%3 == 0)
		store.after.Store(i%3 == 1)
		if err := f.project.drain(); (err == nil) != (i%3 == 2) {
			t.Fatalf("drain gave %v", err)
		}
	}
	store.before.Store(false)
	store.after.Store(false)
	if r := f.recount(); r.Charged != 20*usd || r.Requests != 200 {
		t.Errorf("%s charged for %d requests; 200 of 0.1 were made", r.Charged, r.Requests)
	}
	f.reopen()
	f.recount()
}

// "The database was locked for a while and the gateway stopped, or lost charges."
func TestTrafficGoesOnWhileTheStoreIsAway(t *testing.T) {
	var store *faultyStore
	f := openLedger(t, withFaults(&store))
	f.account("a", 1000*usd)
	k, _ := f.key("a")
	store.before.Store(true)
	f.spend(k, 2000, usd/100)
	deadline := time.Now().Add(time.Minute)
	for f.Healthy() == nil {
		if time.Now().After(deadline) {
			t.Fatal("Healthy does not report that the store is away")
		}
		time.Sleep(20 * time.Millisecond)
	}
	if left, _, _ := k.Balance(); left != 980*usd {
		t.Errorf("%s left of 1000 after charges of 20", left)
	}
	if s := f.Stats(); s.JournalLag < 4000 {
		t.Errorf("a lag of %d records with 4000 written", s.JournalLag)
	}
	store.before.Store(false)
	for f.Healthy() != nil || f.Stats().JournalLag > 0 {
		if time.Now().After(deadline.Add(10 * time.Second)) {
			t.Fatalf("the store is back, but health says %v and the lag is %d", f.Healthy(), f.Stats().JournalLag)
		}
		time.Sleep(20 * time.Millisecond)
	}
	f.recount()
}

// Closing while the store is away must keep the journal, and the next process
// apply it.
func TestCloseWithoutStoreKeepsTheJournal(t *testing.T) {
	var store *faultyStore
	f := openLedger(t, withFaults(&store))
	f.account("a", 1000*usd)
	k, _ := f.key("a")
	f.spend(k, 500, usd/100)
	store.before.Store(true)
	if err := f.Close(); !errors.Is(err, errFault) {
		t.Errorf("close said %v", err)
	}
	f.open()
	if r := f.recount(); r.Charged != 5*usd || r.Requests != 500 {
		t.Errorf("%s charged for %d requests; 500 of 0.01 were made", r.Charged, r.Requests)
	}
}

// Under load the detail of requests is postponed. It is complete in the end: the journal
// keeps the records for it.
func TestDetailIsPutOffAndNeverLost(t *testing.T) {
	var store *faultyStore
	f := openLedger(t, withFaults(&store), func(o *Options) { o.segmentSize = 8 << 10 })
	f.account("a", 1000*usd)
	k, _ := f.key("a")
	busy := &projector{l: f.Ledger, lastLook: time.Now().Add(-rateWindow)}
	busy.ledgerSeq.Store(1)
	f.spend(k, 3000, usd/100)
	f.journal.Flush()
	if err := f.project.project(); err != nil {
		t.Fatal(err)
	}
	if busy.mayDetail() {
		t.Errorf("%.0f records a second, but detail would be written now", busy.rate)
	}
	if s := f.Stats(); s.JournalLag != 0 || s.UsageLag < 6000 {
		t.Errorf("the lag is %d, of the detail %d", s.JournalLag, s.UsageLag)
	}
	c := f.crash(func([]byte) {})
	c.options.wrapStore = nil
	c.open()
	if r := c.recount(); r.Requests != 3000 {
		t.Errorf("the detail of %d of 3000 requests survived", r.Requests)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	deadline := time.Now().Add(time.Minute)
	for f.Stats().UsageLag > 0 {
		if time.Now().After(deadline) {
			t.Fatalf("it is quiet, but the detail still lags by %d records", f.Stats().UsageLag)
		}
		time.Sleep(50 * time.Millisecond)
	}
	if n := store.pages.Load(); n == 0 || n > 200 {
		t.Errorf("3000 requests were written as %d pages", n)
	}
	f.recount()
}

// A stream's progress must outlive the segment that it was recorded in.
func TestProgressOutlivesItsSegment(t *testing.T) {
	f := openLedger(t, func(o *Options) { o.segmentSize, o.detailNow = 4<<10, true })
	f.account("a", 1000*usd)
	k, _ := f.key("a")
	var stream, settled Hold
	for _, h := range []*Hold{&stream, &settled} {
		f.Admit(h, f.ask(k, usd))
		h.Progress(worth(usd / 4))
		h.Progress(worth(usd / 2))
	}
	f.spend(k, 300, usd/100)
	if err := f.project.drain(); err != nil {
		t.Fatal(err)
	}
	f.settle(&settled, usd/10)
	f.spend(k, 300, usd/100)
	if err := f.project.drain(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(journal.Path(f.journalDir(), 1)); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("the first segment is still there (%v): the test tests nothing", err)
	}
	for range 2 {
		c := f.crash(func(tail []byte) { clear(tail) })
		c.open()
		if r := c.recount(); r.Charged != 6*usd+usd/10+usd/2 {
			t.Errorf("%s charged, expected 6 and 0.1 and the stream's 0.5", r.Charged)
		}
		c.reopen()
		if r := c.recount(); r.Charged != 6*usd+usd/10+usd/2 {
			t.Errorf("after another restart %s are charged", r.Charged)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	f.settle(&stream, usd)
	f.recount()
}

// "The audit page showed a fault that was none, because traffic went on."
func TestAuditUnderLoad(t *testing.T) {
	f := openLedger(t)
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for i := range 4 {
		name := fmt.Sprint("account-", i)
		f.account(name, 100_000*usd)
		k, _ := f.key(name, func(n *NewKey) { n.LimitUSD = nano(50_000 * usd) })
		wg.Go(func() {
			var h Hold
			for {
				select {
				case <-stop:
					return
				default:
				}
				f.breathe()
				f.Admit(&h, f.ask(k, usd))
				h.Extend(usd)
				f.settle(&h, usd/2)
				h.Reset()
			}
		})
	}
	for range 5 {
		time.Sleep(20 * time.Millisecond)
		f.audit()
	}
	close(stop)
	wg.Wait()
	f.recount()
}

// An auditor that cannot fail proves nothing: every kind of drift is found.
func TestAuditFindsDrift(t *testing.T) {
	servers.NoRace(t)
	for name, spoil := range map[string]func(f *fixture, k *Key, db *sql.DB) error{
		"memory": func(_ *fixture, k *Key, _ *sql.DB) error { k.Account.avail[money.InUSD]++; return nil },
		"held": func(_ *fixture, k *Key, _ *sql.DB) error {
			k.Account.held[money.InUSD]++
			k.Account.avail[money.InUSD]--
			return nil
		},
		"key": func(_ *fixture, k *Key, _ *sql.DB) error { k.use.quota.usd++; return nil },
		"bucket": func(_ *fixture, _ *Key, db *sql.DB) error {
			_, err := db.Exec("UPDATE bucket SET avail = avail - 1, spent = spent + 1")
			return err
		},
		"granted": func(_ *fixture, _ *Key, db *sql.DB) error {
			_, err := db.Exec("UPDATE bucket SET avail = avail + 1, granted = granted + 1")
			return err
		},
		"posting": func(_ *fixture, _ *Key, db *sql.DB) error {
			_, err := db.Exec("UPDATE posting SET amount = amount - 1 WHERE book = 'customer'")
			return err
		},
		"house": func(_ *fixture, _ *Key, db *sql.DB) error {
			_, err := db.Exec("UPDATE house SET balance = balance + 1")
			return err
		},
		"day": func(_ *fixture, _ *Key, db *sql.DB) error {
			_, err := db.Exec("UPDATE usage_day SET amount = amount + 1")
			return err
		},
		"page lost": func(_ *fixture, _ *Key, db *sql.DB) error {
			_, err := db.Exec("DELETE FROM usage_page")
			return err
		},
		"page twice": func(_ *fixture, _ *Key, db *sql.DB) error {
			_, err := db.Exec("INSERT INTO usage_page SELECT account, node, seq_first - 1, seq_last, first_us, " +
				"last_us, requests, data, entries_diem, entries_bundled, entries_usd FROM usage_page")
			return err
		},
		"page counted wrong": func(_ *fixture, _ *Key, db *sql.DB) error {
			_, err := db.Exec("UPDATE usage_page SET entries_usd = entries_usd + 1, entries_diem = entries_diem - 1")
			return err
		},
		"page at another time": func(_ *fixture, _ *Key, db *sql.DB) error {
			_, err := db.Exec("UPDATE usage_page SET first_us = first_us - 1")
			return err
		},
		"hour counted wrong": func(_ *fixture, _ *Key, db *sql.DB) error {
			_, err := db.Exec("UPDATE usage_hour SET entries_usd = entries_usd + 1")
			return err
		},
		"hour lost": func(_ *fixture, _ *Key, db *sql.DB) error {
			_, err := db.Exec("DELETE FROM usage_hour")
			return err
		},
		"figures": func(f *fixture, _ *Key, _ *sql.DB) error { f.shortfall.Add(1); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			f := openLedger(t)
			f.account("a", 10*usd)
			k, _ := f.key("a", func(n *NewKey) { n.LimitUSD = nano(5 * usd) })
			f.spend(k, 3, usd)
			f.recount()
			if err := spoil(f, k, database(f.store)); err != nil {
				t.Fatal(err)
			}
			r, err := f.Audit()
			if len(r.Faults) == 0 && err == nil {
				t.Error("nothing was found")
			}
		})
	}
}

// A store of a later version, or with a broken disk under it, is refused with a clear
// message.
func TestNewerStoreIsRefused(t *testing.T) {
	f := openLedger(t)
	if _, err := database(f.store).Exec(fmt.Sprintf("PRAGMA user_version = %d", store.Version+1)); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if l, err := Open(f.options); err == nil {
		t.Error("a store of a newer version was opened")
		_ = l.Close()
	}
	db, err := sql.Open("sqlite", "file:"+filepath.ToSlash(filepath.Join(f.options.Dir, store.DatabaseFile)))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec(fmt.Sprintf("PRAGMA user_version = %d", store.Version)); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	f.open()
}

// "The start took minutes with many keys", "and the memory."
func TestLongStartAndIdleMemoryWithManyKeys(t *testing.T) {
	f := openLedger(t)
	secrets := manyKeys(t, f.Ledger, 10_000, 100_000)
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	f.open()
	took := time.Since(began)
	if took > time.Second {
		t.Errorf("the start took %s", took)
	}
	began = time.Now()
	for _, s := range secrets[:1000] {
		if _, err := f.Lookup(s); err != nil {
			t.Fatal(err)
		}
	}
	first := time.Since(began) / 1000
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	if m.HeapInuse > 30<<20 {
		t.Errorf("%d MB of heap with 1000 of 100,000 keys in use", m.HeapInuse>>20)
	}
	t.Logf("start %s, first use of a key %s, heap %d MB", took, first, m.HeapInuse>>20)
}
