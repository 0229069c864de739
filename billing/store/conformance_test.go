package store

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"farebox/bench/servers"
	"farebox/billing/journal"
	"farebox/billing/money"
	"farebox/config"
)

// The suite that every engine must pass, with the same results to the byte: a scenario
// records the store's answers, and the transcripts of the engines are compared.

// conformDay is the day of all scenarios, conformUs the time.
const (
	conformDay = int32(20778) // 2026-11-21
	conformUs  = int64(conformDay)*86_400_000_000 + 43_200_000_000
)

// conform is a store under test, with the transcript of its answers.
type conform struct {
	Store
	t      *testing.T
	shared *postgresStore // nil: the embedded store
	b      *Batch
	op     uint64
	text   strings.Builder
}

// engines open an empty store of each kind.
var engines = []struct {
	name string
	open func(t *testing.T) *conform
}{
	{"sqlite", func(t *testing.T) *conform {
		s, err := OpenSQLite(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		return &conform{Store: s}
	}},
	{"postgres", func(t *testing.T) *conform {
		return &conform{shared: openNode(t, servers.Database(t), "node")}
	}},
}

// openNode opens a shared store and joins it.
func openNode(t testing.TB, address, name string) *postgresStore {
	t.Helper()
	s, err := OpenPostgres(address, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("cannot close the store: %v", err)
		}
	})
	if _, _, err := s.Join("ID-"+name, name, time.Minute); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestConformance runs every scenario on every engine.
func TestConformance(t *testing.T) {
	for _, scenario := range []struct {
		name string
		run  func(c *conform)
	}{
		{"accounts", conformAccounts},
		{"keys", conformKeys},
		{"key pages and sums", conformKeySums},
		{"credit by reference", conformCredit},
		{"batches count once", conformBatches},
		{"pages count once", conformPages},
		{"progress of streams", conformProgress},
		{"DIEM of a day", conformDIEM},
		{"models", conformModels},
		{"violations and tokens", conformViolations},
		{"reviews and uses of characters", conformReviews},
		{"answers of enclaves", conformEnclaves},
		{"details of requests", conformRequests},
		{"jobs", conformJobs},
		{"what jobs cost and give back", conformRefunds},
		{"cloned voices", conformVoices},
		{"payments of wallets", conformPayments},
		{"whose the credit of wallets is", conformWallets},
		{"last dollar", conformLastDollar},
	} {
		t.Run(scenario.name, func(t *testing.T) {
			t.Parallel()
			said := make([]string, len(engines))
			for i, e := range engines {
				t.Run(e.name, func(t *testing.T) {
					c := e.open(t)
					if c.shared != nil {
						c.Store = c.shared
					} else {
						t.Cleanup(func() { _ = c.Close() })
					}
					c.t, c.b = t, NewBatch()
					c.b.Begin(0)
					scenario.run(c)
					c.recount()
					said[i] = c.text.String()
					if said[i] == "" {
						t.Error("nothing was written down")
					}
				})
			}
			if said[0] != said[1] && said[1] != "" {
				t.Errorf("the engines differ:\n%s", differences(said[0], said[1]))
			}
		})
	}
}

func differences(a, b string) string {
	x, y := strings.Split(a, "\n"), strings.Split(b, "\n")
	var out strings.Builder
	for i := range max(len(x), len(y)) {
		p, q := "(nothing)", "(nothing)"
		if i < len(x) {
			p = x[i]
		}
		if i < len(y) {
			q = y[i]
		}
		if p != q {
			fmt.Fprintf(&out, "line %d\n  %s: %s\n  %s: %s\n", i+1, engines[0].name, p, engines[1].name, q)
		}
	}
	return out.String()
}

// say records an answer of the store.
func (c *conform) say(format string, args ...any) { fmt.Fprintf(&c.text, format+"\n", args...) }

// fail names the known error that err is: texts may differ, kinds may not.
func fail(err error) string {
	switch {
	case err == nil:
		return "ok"
	case errors.Is(err, ErrNoRow):
		return "no row"
	case errors.Is(err, ErrExists):
		return "exists"
	case errors.Is(err, ErrStale):
		return "stale"
	case errors.Is(err, ErrManyKeys):
		return "many keys"
	}
	return "refused"
}

func (c *conform) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

// account makes an account with money, all of it this node's.
func (c *conform) account(name string, balance money.Parts) uint32 {
	c.t.Helper()
	a := &AccountRow{ID: "id-of-" + name, Name: name, CreatedUs: conformUs}
	c.must(c.AddAccount(a))
	for place, n := range balance {
		if n == 0 {
			continue
		}
		ok, err := c.Credit(&Credit{Account: a.No, Currency: money.SpendOrder[place], Day: conformDay, Amount: n,
			Ref: fmt.Sprint(name, place), NowUs: conformUs})
		c.must(err)
		if !ok {
			c.t.Fatalf("a new credit was not applied")
		}
	}
	c.lease(a.No, conformDay, balance)
	return a.No
}

// lease gives this node money of an account, if there are nodes.
func (c *conform) lease(account uint32, day int32, balance money.Parts) {
	c.t.Helper()
	if c.shared == nil || balance == (money.Parts{}) {
		return
	}
	c.op++
	list, err := c.shared.Grant(c.op, []Want{{Account: account, Day: day, Amounts: balance}})
	c.must(err)
	if list[0].Granted != balance {
		c.t.Fatalf("wanted %v, granted %v", balance, list[0].Granted)
	}
}

// money is an account's balance, free and leased.
func (c *conform) money(account uint32, day int32) money.Parts {
	c.t.Helper()
	a, err := c.Account(account, day)
	c.must(err)
	if c.shared != nil {
		list, err := c.shared.Funds([]uint32{account}, day)
		c.must(err)
		a.Avail.Add(&list[0].Lease)
		a.Avail.Add(&list[0].Others)
	}
	return a.Avail
}

func (c *conform) key(account uint32, n int) *KeyRow {
	c.t.Helper()
	k := &KeyRow{ID: fmt.Sprintf("key-%d-%d", account, n), Account: account, Type: Inference, Last6: "abcdef",
		Period: Epoch, CreatedUs: conformUs}
	k.Digest[0], k.Digest[1] = byte(account), byte(n)
	c.must(c.AddKey(k, 500))
	return k
}

// settle adds the charge of a request to the open batch.
func (c *conform) settle(account uint32, key int64, day int32, amounts money.Parts) {
	seq := c.b.Last + 1
	c.b.Add(&journal.Record{Kind: journal.Settle, Seq: seq, Hold: seq, TimeNs: (int64(day)*86400 + 3600) * 1e9,
		Account: account, Key: uint32(key), Model: 1, Day: day,
		Amounts: amounts, Lines: money.Text(&config.Price{Input: 1000, Output: 1000},
			money.Usage{Prompt: 10, Completion: 5})})
}

func (c *conform) apply() {
	c.t.Helper()
	c.b.Sealed, c.b.NowUs = true, conformUs
	c.must(c.Apply(c.b))
	c.b.Applied()
	c.b.Begin(c.b.Last)
}

// recount recounts the store's books.
func (c *conform) recount() *Recount {
	c.t.Helper()
	r, err := c.Recount(func() {})
	c.must(err)
	for _, f := range r.Report().Faults {
		c.t.Errorf("recount: %s", f)
	}
	return r
}

func conformAccounts(c *conform) {
	for _, name := range []string{"a", "b", "ü 世界"} {
		a := &AccountRow{ID: "id-" + name, Name: name, CreatedUs: conformUs}
		c.say("add %s: %s, number %d", name, fail(c.AddAccount(a)), a.No)
	}
	again := &AccountRow{ID: "id-a", Name: "a", CreatedUs: conformUs}
	c.say("the same again: %s, number %d", fail(c.AddAccount(again)), again.No)
	c.say("another of the same name: %s", fail(c.AddAccount(&AccountRow{ID: "other", Name: "a"})))
	for _, q := range []string{"a", "id-b", "ü 世界", "nobody", ""} {
		a, err := c.FindAccount(q, conformDay)
		c.say("find %q: %s", q, fail(err))
		if err == nil {
			c.say("  %+v", *a)
		}
	}
	_, err := c.Account(99, conformDay)
	c.say("account 99: %s", fail(err))
	list, err := c.Accounts(conformDay)
	c.must(err)
	for _, a := range list {
		c.say("listed: %+v", *a)
	}
}
