package billing

import (
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"farebox/bench/servers"
	"farebox/billing/store"
)

// filled is a ledger with money of all kinds, keys and charges.
func filled(t testing.TB) (f *fixture, secret string) {
	t.Helper()
	f = openLedger(t)
	f.account("rich", 1000*usd)
	f.account("poor", 0)
	f.credit("rich", Bundled, 3*usd)
	f.credit("rich", DIEM, 2*usd)
	if _, err := f.SetAllowance("poor", 5*usd); err != nil {
		t.Fatal(err)
	}
	limit := 50 * usd
	_, secret, err := f.CreateKey(NewKey{Account: "rich", Type: store.Inference, Period: store.Month, LimitUSD: &limit,
		Description: "kept"})
	if err != nil {
		t.Fatal(err)
	}
	f.CreateKey(NewKey{Account: "poor", Type: store.Admin})
	k, err := f.Lookup([]byte(secret))
	if err != nil {
		t.Fatal(err)
	}
	f.spend(k, 700, usd/100)
	payAs(t, f.Ledger, "pay_filled", testWallet, 5*usd)
	if _, err := f.LinkWallet("0xlinked", "poor", "me"); err != nil {
		t.Fatal(err)
	}
	payAs(t, f.Ledger, "pay_linked", "0xlinked", usd)
	return f, secret
}

// hasWallets checks the wallets of a filled ledger.
func hasWallets(t testing.TB, l *Ledger) {
	t.Helper()
	for address, account := range map[string]string{testWallet: testWallet, "0xlinked": "poor"} {
		if k, err := l.WalletKey(address); err != nil || k.Account.Name() != account {
			t.Errorf("the wallet %s has the key %v, %v", address, k, err)
		}
	}
	row, applied, err := l.Payments().CreditPayment(&store.PaymentCredit{ID: "pay_filled", Epoch: 1})
	if err != nil || applied || row.State != store.PaymentCredited || row.Balance != 5*usd {
		t.Errorf("a payment of before: %+v, credited again %t, %v", row, applied, err)
	}
}

func backupFile(t testing.TB, f *fixture) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "backup")
	info, err := f.Backup(path)
	if err != nil {
		t.Fatal(err)
	}
	st, err := os.Stat(path)
	if err != nil || st.Size() != info.Bytes || info.Rows == 0 || st.Mode().Perm() != 0o600 {
		t.Fatalf("%+v, %v, %v", info, st, err)
	}
	return path
}

// "The backup could be restored, but the keys were gone."
func TestRestoredLedgerIsTheSame(t *testing.T) {
	servers.NoRace(t)
	t.Parallel()
	f, secret := filled(t)
	path := backupFile(t, f)
	before, err := f.ListAccounts()
	if err != nil {
		t.Fatal(err)
	}
	k, _ := f.Lookup([]byte(secret))
	f.spend(k, 10, usd) // after the backup

	o := f.options
	o.Dir = filepath.Join(t.TempDir(), "restored")
	info, err := Restore(path, o)
	if err != nil || info.Engine != "SQLite" || info.Schema != store.Version {
		t.Fatalf("%+v, %v", info, err)
	}
	g := &fixture{t: t, clock: f.clock, options: o}
	g.open()
	defer g.Close()
	after, err := g.ListAccounts()
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(before, after) {
		t.Errorf("before %+v\nafter %+v", before, after)
	}
	r, err := g.Audit()
	if err != nil || len(r.Faults) > 0 || r.Requests != 700 {
		t.Errorf("%+v, %v", r, err)
	}
	again, err := g.Lookup([]byte(secret))
	if err != nil {
		t.Fatal(err)
	}
	if again.use.quota.usd != 7*usd-2*usd || again.Description != "kept" {
		t.Errorf("the key has used %s of its limit", again.use.quota.usd)
	}
	// The ledger continues: new accounts, keys and charges do not collide with the old
	// ones.
	g.account("new", usd)
	g.spend(again, 5, usd/100)
	if r, err := g.Audit(); err != nil || len(r.Faults) > 0 {
		t.Errorf("after going on: %+v, %v", r, err)
	}
}

// A whole ledger moves from the embedded store to PostgreSQL and back.
func TestBackupMovesBetweenEngines(t *testing.T) {
	servers.NoRace(t)
	t.Parallel()
	f, secret := filled(t)
	path := backupFile(t, f)
	want, err := f.ListAccounts()
	if err != nil {
		t.Fatal(err)
	}
	shared := servers.Database(t)
	// The server has the clock of this machine; the ledger has that of the test.
	ahead := time.Until(f.clock.now())
	if info, err := Restore(path, Options{Shared: shared, storeAhead: ahead}); err != nil || info.Engine != "SQLite" {
		t.Fatalf("%+v, %v", info, err)
	}
	if _, err := Restore(path, Options{Shared: shared, storeAhead: ahead}); err == nil {
		t.Error("restored over a ledger")
	}
	o := f.options
	o.Dir, o.Shared, o.storeAhead = t.TempDir(), shared, ahead
	g := &fixture{t: t, clock: f.clock, options: o}
	g.open()
	k, err := g.Lookup([]byte(secret))
	if err != nil {
		t.Fatal(err)
	}
	g.spend(k, 50, usd/100)
	hasWallets(t, g.Ledger)
	g.recount()
	again := backupFile(t, g)
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	back := f.options
	back.Dir = filepath.Join(t.TempDir(), "back")
	if info, err := Restore(again, back); err != nil || info.Engine != "PostgreSQL" {
		t.Fatalf("%+v, %v", info, err)
	}
	h := &fixture{t: t, clock: f.clock, options: back}
	h.open()
	defer h.Close()
	hasWallets(t, h.Ledger)
	if r := h.recount(); r.Requests != 750 {
		t.Errorf("%d requests were restored", r.Requests)
	}
	got, err := h.ListAccounts()
	if err != nil {
		t.Fatal(err)
	}
	for i := range want {
		if w, g := want[i], got[i]; w.ID != g.ID || w.USD+w.Bundled+w.DIEM+w.Spent != g.USD+g.Bundled+g.DIEM+g.Spent {
			t.Errorf("was %+v, is %+v", w, g)
		}
	}
}

// "The backup was taken while charges were being written and did not add up."
func TestBackupBesideTrafficAddsUp(t *testing.T) {
	t.Parallel()
	f, secret := filled(t)
	k, _ := f.Lookup([]byte(secret))
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(time.Millisecond): // so that backups stay small
				}
				var h Hold
				if d := f.Admit(&h, f.ask(k, usd/1000)); d.Code == Admitted {
					h.Settle(Settlement{Cost: usd / 1000, Now: f.clock.at()})
				}
			}
		})
	}
	for range 3 {
		path := backupFile(t, f)
		o := f.options
		o.Dir = filepath.Join(t.TempDir(), "restored")
		if _, err := Restore(path, o); err != nil {
			t.Error(err)
		}
	}
	close(stop)
	wg.Wait()
}

// "Half a backup was restored without a word."
func TestDamagedBackupIsRefusedAndLeavesNothing(t *testing.T) {
	servers.NoRace(t)
	t.Parallel()
	f, _ := filled(t)
	path := backupFile(t, f)
	raw := unzipped(t, path)
	columns := regexp.MustCompile(`("table":"house","columns":)\[[^\]]*\]`)
	// These are refused before the checksum is compared.
	says := map[string]string{"a row with a value more": "a row of house has 4 values, not 3", "without columns": "the table house has no columns"}
	for name, damage := range map[string]func([]byte) []byte{
		"a row with a value more": func(b []byte) []byte {
			at := columns.FindIndex(b)[1] + len("}\n[")
			return slices.Insert(b, at, []byte("1,")...)
		},
		"without columns": func(b []byte) []byte { return columns.ReplaceAll(b, []byte("$1[]")) },
		"cut":             func(b []byte) []byte { return b[:len(b)/2] },
		"without an end":  func(b []byte) []byte { return b[:bytes.LastIndex(b[:len(b)-1], []byte("\n"))+1] },
		"changed":         func(b []byte) []byte { return bytes.Replace(b, []byte("TOP_UP"), []byte("TOP_OP"), 1) },
		"another table": func(b []byte) []byte {
			return bytes.Replace(b, []byte(`{"table":"house"`), []byte(`{"table":"house; DROP TABLE entry"`), 1)
		},
		"newer": func(b []byte) []byte {
			return bytes.Replace(b, []byte(`"farebox_backup":1`), []byte(`"farebox_backup":9`), 1)
		},
		"nothing": func([]byte) []byte { return nil },
	} {
		bad := filepath.Join(t.TempDir(), "bad")
		if err := os.WriteFile(bad, zipped(t, damage(bytes.Clone(raw))), 0o600); err != nil {
			t.Fatal(err)
		}
		o := f.options
		o.Dir = filepath.Join(t.TempDir(), "restored")
		if _, err := Restore(bad, o); err == nil || !strings.Contains(err.Error(), says[name]) {
			t.Errorf("%s: restoring says %v", name, err)
		}
		if left, _ := filepath.Glob(filepath.Join(o.Dir, "*")); len(left) > 0 {
			t.Errorf("%s: left %v", name, left)
		}
	}
	if _, err := Restore(path, f.options); err == nil || !strings.Contains(err.Error(), "has a ledger already") {
		t.Errorf("restored over a ledger: %v", err)
	}
	if _, err := f.Backup(path); err == nil {
		t.Error("a backup was overwritten")
	}
}

func unzipped(t testing.TB, path string) []byte {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func zipped(t testing.TB, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	if _, err := z.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// Each kind of corruption of the books is found by the recount.
func TestVerifyFindsPlantedCorruption(t *testing.T) {
	t.Parallel()
	planted := map[string]string{
		"money from nowhere": "UPDATE bucket SET avail = avail + 1, granted = granted + 1 WHERE currency = 1 " +
			"AND account = 1",
		"spent less than charged": "UPDATE bucket SET spent = spent - 1, avail = avail + 1 WHERE currency = 1 AND " +
			"account = 1",
		"changed posting": "UPDATE posting SET amount = amount - 1 WHERE book = 'customer' AND entry = " +
			"(SELECT max(entry) FROM posting WHERE book = 'customer')",
		"missing posting": "DELETE FROM posting WHERE book = 'revenue'",
		"missing entry": "DELETE FROM entry WHERE kind = 'TOP_UP' AND id = (SELECT min(id) FROM entry " +
			"WHERE kind = 'TOP_UP')",
		"changed daily usage":     "UPDATE usage_day SET amount = amount + 1",
		"daily usage counts less": "UPDATE usage_day SET requests = requests - 1",
		"missing page":            "DELETE FROM usage_page WHERE seq_first = (SELECT min(seq_first) FROM usage_page)",
		"page twice": "INSERT INTO usage_page SELECT account, node, seq_first + 1, seq_last, " +
			"first_us, last_us, requests, data, entries_diem, entries_bundled, entries_usd FROM usage_page LIMIT 1",
		"flipped bit in a page": "UPDATE usage_page SET data = CAST(substr(data, 1, 40) || X'ff' || substr(data, " +
			"42) AS BLOB) WHERE seq_first = (SELECT min(seq_first) FROM usage_page)",
		"house balance": "UPDATE house SET balance = balance + 1 WHERE book = 'revenue'",
		"account gone":  "PRAGMA foreign_keys = OFF; DELETE FROM account WHERE name = 'rich'",
		"cursor ahead":  "UPDATE applied SET seq = seq - 1 WHERE sink = 'ledger'",
		"bucket of nobody": "INSERT INTO bucket(account, currency, day, granted, avail) VALUES(77, 1, " +
			"0, 5, 5)",
		"hours count other entries": "UPDATE usage_hour SET entries_usd = entries_usd + 1",
	}
	for name, statement := range planted {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, _ := filled(t)
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
			db, err := store.OpenSQLite(f.options.Dir)
			if err != nil {
				t.Fatal(err)
			}
			res, err := db.DB().Exec(statement)
			if err != nil {
				t.Fatal(err)
			}
			if n, _ := res.RowsAffected(); n == 0 {
				t.Fatal("nothing was planted")
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			defer f.open() // for the fixture's end
			defer os.RemoveAll(f.options.Dir)
			o := f.options
			o.idle = true
			l, err := Open(o)
			if err != nil {
				t.Logf("found at the start: %v", err)
				return
			}
			defer l.Close()
			r, err := l.Verify()
			if err != nil {
				t.Fatal(err)
			}
			if len(r.Faults) == 0 {
				t.Error("not found")
			}
			for _, fault := range r.Faults {
				t.Log(fault)
			}
		})
	}
}

// "The backup of our three nodes could not be restored into a new database."
func TestBackupOfSeveralNodesMovesToAnotherDatabase(t *testing.T) {
	servers.NoRace(t)
	t.Parallel()
	nodes := nodesOn(t, servers.Database(t), 2, func(int, *Options) {})
	first := &fixture{t: t, clock: newTestClock(), Ledger: nodes[0]}
	first.account("a", 10*usd)
	_, secret, err := first.CreateKey(NewKey{Account: "a", Type: store.Inference})
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range nodes {
		k, err := l.Lookup([]byte(secret))
		if err != nil {
			t.Fatal(err)
		}
		var h Hold
		if d := l.Admit(&h, &Admission{Key: k, Slot: -1, Hold: usd, Min: usd, Now: l.at()}); d.Code != Admitted {
			t.Fatalf("denied with %d", d.Code)
		}
		h.Settle(Settlement{Cost: usd, Status: 200, Now: l.at()})
		if err := l.project.drain(); err != nil {
			t.Fatal(err)
		}
	}
	path := backupFile(t, first)
	for _, o := range []Options{{Shared: servers.Database(t), Brand: "svc", NodeName: "new"},
		{Dir: filepath.Join(t.TempDir(), "embedded"), Brand: "svc"}} {
		if _, err := Restore(path, o); err != nil {
			t.Fatal(err)
		}
		if o.Shared != "" {
			o.Dir = t.TempDir()
		}
		l, err := Open(o)
		if err != nil {
			t.Fatal(err)
		}
		list, err := l.ListAccounts()
		if err != nil || len(list) != 1 || list[0].Spent != 2*usd || list[0].USD != 8*usd {
			t.Errorf("restored are %+v, %v", list, err)
		}
		if r, err := l.Audit(); err != nil || len(r.Faults) > 0 {
			t.Errorf("%+v, %v", r, err)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
}

// "The books of the backup did not add up, and now the database is no longer
// empty, so that I cannot restore a better one."
func TestRefusedBackupLeavesTheDatabaseEmpty(t *testing.T) {
	servers.NoRace(t)
	t.Parallel()
	f, _ := filled(t)
	if _, err := database(f.store).Exec(
		"UPDATE bucket SET granted = granted + 5, avail = avail + 5 WHERE currency = 1"); err != nil {
		t.Fatal(err)
	}
	path := backupFile(t, f)
	shared := Options{Shared: servers.Database(t)}
	for range 2 {
		if _, err := Restore(path, shared); err == nil || !strings.Contains(err.Error(), "do not add up") {
			t.Fatalf("books that do not add up: %v", err)
		}
	}
	good, _ := filled(t)
	if _, err := Restore(backupFile(t, good), shared); err != nil {
		t.Errorf("into the same database: %v", err)
	}
}

// An interrupted backup leaves a partial file. The next backup of that name says how to
// remove it.
func TestBackupReportsAPartialOne(t *testing.T) {
	t.Parallel()
	f := openLedger(t)
	path := filepath.Join(t.TempDir(), "backup")
	if err := os.WriteFile(path+".part", []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Backup(path); err == nil || !strings.Contains(err.Error(), "remove it") {
		t.Errorf("%v", err)
	}
	if half, err := os.ReadFile(path + ".part"); err != nil || string(half) != "half" {
		t.Errorf("the partial file of another backup was changed: %q, %v", half, err)
	}
}
