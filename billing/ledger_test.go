package billing

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"farebox/billing/money"
	"farebox/billing/store"
	"farebox/billing/window"
)

const usd = Nano(1_000_000_000)

// testClock is a clock that stands still until a test moves it.
type testClock struct{ ns atomic.Int64 }

func newTestClock() *testClock {
	c := &testClock{}
	c.ns.Store(time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC).UnixNano())
	return c
}

func (c *testClock) now() time.Time          { return time.Unix(0, c.ns.Load()) }
func (c *testClock) nano() int64             { return c.ns.Load() }
func (c *testClock) at() window.Instant      { return at(c.nano()) }
func (c *testClock) advance(d time.Duration) { c.ns.Add(int64(d)) }

// at is an instant at which the wall clock and the monotonic clock agree.
func at(ns int64) window.Instant { return window.Instant{Wall: ns, Mono: ns} }

// fixture is a ledger in a directory of its own that can be reopened.
type fixture struct {
	*Ledger
	t       testing.TB
	clock   *testClock
	options Options
}

// openLedger opens a ledger with a small journal; adjust may change its options.
func openLedger(t testing.TB, adjust ...func(*Options)) *fixture {
	t.Helper()
	f := &fixture{t: t, clock: newTestClock()}
	f.options = Options{Dir: t.TempDir(), Brand: "svc", Clock: f.clock.now, segmentSize: 64 << 10}
	for _, a := range adjust {
		a(&f.options)
	}
	f.open()
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Errorf("cannot close the ledger: %v", err)
		}
	})
	return f
}

func (f *fixture) open() {
	f.t.Helper()
	l, err := Open(f.options)
	if err != nil {
		f.t.Fatalf("cannot open the ledger: %v", err)
	}
	// A test that takes longer than a minute would prune the same day twice at a time.
	l.retention.work.Close()
	l.retention = &retention{l: l}
	f.Ledger = l
}

func (f *fixture) reopen() {
	f.t.Helper()
	if err := f.Close(); err != nil {
		f.t.Fatalf("cannot close the ledger: %v", err)
	}
	f.open()
}

// account makes an account with so much USD.
func (f *fixture) account(name string, amount Nano) {
	f.t.Helper()
	if _, err := f.CreateAccount(name); err != nil {
		f.t.Fatal(err)
	}
	if amount > 0 {
		f.credit(name, USD, amount)
	}
}

func (f *fixture) credit(name string, c Currency, amount Nano) {
	f.t.Helper()
	if _, applied, err := f.Credit(name, c, amount, "", ""); err != nil || !applied {
		f.t.Fatalf("credit: applied %v, %v", applied, err)
	}
}

// Balance is the spendable money of the key's account now.
func (k *Key) Balance() (usd, diem, bundled Nano) {
	p := k.BalanceAt(k.Account.ledger.now())
	return p[money.InUSD], p[money.InDIEM], p[money.InBundled]
}

// key makes a key and returns it as a request finds it.
func (f *fixture) key(account string, adjust ...func(*NewKey)) (*Key, string) {
	f.t.Helper()
	n := NewKey{Account: account, Type: store.Inference}
	for _, a := range adjust {
		a(&n)
	}
	_, secret, err := f.CreateKey(n)
	if err != nil {
		f.t.Fatal(err)
	}
	k, err := f.Lookup([]byte(secret))
	if err != nil {
		f.t.Fatal(err)
	}
	return k, secret
}

func (f *fixture) ask(k *Key, amount Nano) *Admission {
	return &Admission{Key: k, Slot: f.ModelNumber("model"), Hold: amount, Min: amount, Now: f.clock.at()}
}

func (f *fixture) settle(h *Hold, cost Nano) (Nano, Nano) {
	return h.Settle(Settlement{Cost: cost, Model: "model", Status: 200, Now: f.clock.at()})
}

// recount fails the test if the money does not add up.
func (f *fixture) recount() store.Report {
	f.t.Helper()
	r := f.audit()
	statementsAddUp(f.t, f.Ledger)
	return r
}

// audit is recount while requests go on: their statements change from one read to the next.
func (f *fixture) audit() store.Report {
	f.t.Helper()
	r, err := f.Audit()
	if err != nil {
		f.t.Fatalf("cannot recount: %v", err)
	}
	for _, fault := range r.Faults {
		f.t.Errorf("recount: %s", fault)
	}
	return r
}

func nano(n Nano) *Nano { return &n }

// manyKeys fills a store with keys of accounts with money, in one transaction, and
// returns their secrets.
func manyKeys(t testing.TB, l *Ledger, accounts, keys int) [][]byte {
	t.Helper()
	secrets := make([][]byte, keys)
	tx, err := database(l.store).Begin()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	for i := range accounts {
		if _, err := tx.Exec("INSERT INTO account(no, id, name, created_us) VALUES($1, $2, $3, 1)", i+1, newUUID(),
			fmt.Sprint("account-", i)); err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec("INSERT INTO bucket(account, currency, day, granted, avail) VALUES($1, 1, 0, $2, $2)", i+1,
			int64(1e15)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range keys {
		secret := newSecret("svc", store.Inference, (*call)(nil).secretOf(nil))
		d := l.hasher.digest([]byte(secret))
		secrets[i] = []byte(secret)
		if _, err := tx.Exec(`INSERT INTO api_key(id, account, type, secret_mac, last6, description, limit_period, created_us, expires_us, revoked_us)
			VALUES($1, $2, 1, $3, 'abcdef', '', 1, 1, 0, 0)`, newUUID(), i%accounts+1, d[:]); err != nil {
			t.Fatal(err)
		}
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	return secrets
}
