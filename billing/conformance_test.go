package billing

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"farebox/bench/servers"
)

// The suite that every engine must pass, with the same results to the byte: a
// scenario writes down what the store answers, and the transcripts of the
// engines are compared.

// conformDay is the day of all scenarios, conformUs the time.
const (
	conformDay = int32(20778) // 2026-11-21
	conformUs  = int64(conformDay)*86_400_000_000 + 43_200_000_000
)

// conform is a store under test, and the transcript of what it said.
type conform struct {
	Store
	t      *testing.T
	shared *postgresStore // nil: the embedded store
	b      *batch
	op     uint64
	text   strings.Builder
}

// engines open an empty store of each kind.
var engines = []struct {
	name string
	open func(t *testing.T) *conform
}{
	{"sqlite", func(t *testing.T) *conform {
		s, err := openSQLite(t.TempDir())
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
	s, err := openPostgres(address)
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
					c.t, c.b = t, newBatch()
					c.b.begin(0)
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

// say writes down what the store answered.
func (c *conform) say(format string, args ...any) { fmt.Fprintf(&c.text, format+"\n", args...) }

// fail says which known error err is: texts may differ, kinds not.
func fail(err error) string {
	switch {
	case err == nil:
		return "ok"
	case errors.Is(err, errNoRow):
		return "no row"
	case errors.Is(err, errExists):
		return "exists"
	case errors.Is(err, errStale):
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
func (c *conform) account(name string, money parts) uint32 {
	c.t.Helper()
	a := &accountRow{id: "id-of-" + name, name: name, createdUs: conformUs}
	c.must(c.AddAccount(a))
	for place, n := range money {
		if n == 0 {
			continue
		}
		ok, err := c.Credit(&credit{account: a.no, currency: spendOrder[place], day: conformDay, amount: n, ref: fmt.Sprint(name, place), nowUs: conformUs})
		c.must(err)
		if !ok {
			c.t.Fatalf("a new credit was not applied")
		}
	}
	c.lease(a.no, conformDay, money)
	return a.no
}

// lease gives this node money of an account, where there are nodes.
func (c *conform) lease(account uint32, day int32, money parts) {
	c.t.Helper()
	if c.shared == nil || money == (parts{}) {
		return
	}
	c.op++
	list, err := c.shared.Grant(c.op, []want{{account: account, day: day, amounts: money}})
	c.must(err)
	if list[0].granted != money {
		c.t.Fatalf("wanted %v, granted %v", money, list[0].granted)
	}
}

// money is what an account has: free or leased.
func (c *conform) money(account uint32, day int32) parts {
	c.t.Helper()
	a, err := c.Account(account, day)
	c.must(err)
	if c.shared != nil {
		list, err := c.shared.Funds([]uint32{account}, day)
		c.must(err)
		a.avail.add(&list[0].lease)
		a.avail.add(&list[0].others)
	}
	return a.avail
}

func (c *conform) key(account uint32, n int) *keyRow {
	c.t.Helper()
	k := &keyRow{id: fmt.Sprintf("key-%d-%d", account, n), account: account, typ: Inference, last6: "abcdef", period: Epoch, createdUs: conformUs}
	k.digest[0], k.digest[1] = byte(account), byte(n)
	c.must(c.AddKey(k, 500))
	return k
}

// settle adds the charge of a request to the open batch.
func (c *conform) settle(account uint32, key int64, day int32, amounts parts) {
	seq := c.b.last + 1
	c.b.add(&record{kind: recSettle, seq: seq, hold: seq, timeNs: (int64(day)*86400 + 3600) * 1e9, account: account, key: uint32(key), model: 1, day: day,
		amounts: amounts, usage: Usage{Prompt: 10, Completion: 5, Seen: true}, prices: lines{lineInput: 1000, lineOutput: 1000}})
}

func (c *conform) apply() {
	c.t.Helper()
	c.b.sealed, c.b.nowUs = true, conformUs
	c.must(c.Apply(c.b))
	c.b.applied()
	c.b.begin(c.b.last)
}

// recount lets the store add up its books.
func (c *conform) recount() *recount {
	c.t.Helper()
	r, err := c.Recount(func() {})
	c.must(err)
	for _, f := range r.report().Faults {
		c.t.Errorf("recount: %s", f)
	}
	return r
}

func conformAccounts(c *conform) {
	for _, name := range []string{"a", "b", "ü 世界"} {
		a := &accountRow{id: "id-" + name, name: name, createdUs: conformUs}
		c.say("add %s: %s, number %d", name, fail(c.AddAccount(a)), a.no)
	}
	again := &accountRow{id: "id-a", name: "a", createdUs: conformUs}
	c.say("the same again: %s, number %d", fail(c.AddAccount(again)), again.no)
	c.say("another of the same name: %s", fail(c.AddAccount(&accountRow{id: "other", name: "a"})))
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

func (c *conform) describe(k *keyRow) {
	text := func(n *Nano) string {
		if n == nil {
			return "none"
		}
		return n.String()
	}
	c.say("  %d %s of %d %s %s, type %d, digest %x, %s %q, period %d, limits %s %s (%q %q), privacy %d, version %d, times %d %d %d %d", k.no, k.id, k.account, k.accountID, k.accountName,
		k.typ, k.digest[:4], k.last6, k.description, k.period, text(k.limitUSD), text(k.limitDIEM), k.limitTextUSD, k.limitTextDIEM, k.privacy, k.version,
		k.createdUs, k.expiresUs, k.revokedUs, k.lastUsedUs)
}

func conformKeys(c *conform) {
	account := c.account("a", parts{})
	zero, most := Nano(0), Nano(1<<63-1)
	rows := []*keyRow{
		{id: "k1", account: account, typ: Inference, digest: digest{1, 2, 3}, last6: "aaaaaa", period: Epoch, createdUs: 1},
		{id: "k2", account: account, typ: Admin, digest: digest{0xff, 0, 0xfe}, last6: "bbbbbb", description: "è'\"\\ ", period: Lifetime,
			limitUSD: &zero, limitDIEM: &most, limitTextDIEM: "9999999999", privacy: PrivateOnly, createdUs: 2, expiresUs: conformUs},
		{id: "k3", account: account, typ: Inference, digest: digest{9}, last6: "cccccc", period: Month, createdUs: 3},
	}
	for _, k := range rows {
		c.say("add: %s", fail(c.AddKey(k, 3)))
	}
	c.say("one too many: %s", fail(c.AddKey(&keyRow{id: "k4", account: account, digest: digest{7}, createdUs: 4, period: Epoch, typ: Inference}, 3)))
	c.say("the same again: %s", fail(c.AddKey(rows[0], 3)))
	c.say("of nobody: %s", fail(c.AddKey(&keyRow{id: "k5", account: 77, digest: digest{8}, period: Epoch, typ: Inference}, 3)))
	for _, d := range []digest{rows[0].digest, rows[1].digest, {5}} {
		k, err := c.KeyByDigest(d)
		c.say("by digest: %s", fail(err))
		if err == nil {
			c.describe(k)
		}
	}
	k, err := c.KeyByID("k2")
	c.must(err)
	stale := *k
	k.description, k.limitUSD, k.limitDIEM, k.limitTextDIEM, k.period, k.expiresUs, k.privacy = "new", nil, &zero, "", Month, 0, PrivateText
	c.say("update: %s, version %d", fail(c.UpdateKey(k)), k.version)
	c.say("update of what was read before: %s", fail(c.UpdateKey(&stale)))
	c.must(c.TouchKeys(map[int64]int64{rows[0].no: 500, k.no: 700, 99: 1}))
	c.must(c.TouchKeys(map[int64]int64{rows[0].no: 400, k.no: 800}))
	c.must(c.TouchKeys(nil))
	c.must(c.RevokeKey(rows[2].no, 1234))
	c.must(c.RevokeKey(rows[2].no, 5678))
	k3, err := c.KeyByID("k3")
	c.must(err)
	c.say("update of a revoked key: %s", fail(c.UpdateKey(k3)))
	for _, of := range []uint32{0, account, 99} {
		list, err := c.Keys(of)
		c.must(err)
		c.say("keys of %d:", of)
		for _, k := range list {
			c.describe(k)
		}
	}
	n, first, err := c.KeysMade(account, 2)
	c.say("made since 2: %d, the first at %d, %s", n, first, fail(err))
}

func conformKeySums(c *conform) {
	account := c.account("a", parts{usd, usd, 10 * usd})
	var keys []*keyRow
	for i := range 5 {
		k := c.key(account, i)
		keys = append(keys, k)
		c.settle(account, k.no, conformDay, parts{0, Nano(i), Nano(i+1) * 100})
		c.settle(account, k.no, conformDay-1, parts{0, 0, 7})
		c.settle(account, k.no, conformDay-40, parts{0, 0, 1})
	}
	c.settle(account, keys[0].no, conformDay, parts{55, 0, 0})
	c.apply()
	c.must(c.RevokeKey(keys[3].no, 1))
	page, err := c.ActiveKeys(account, conformUs, 2, 1)
	c.must(err)
	for _, k := range page {
		c.describe(k)
	}
	for _, p := range []Period{Epoch, Month, Lifetime} {
		used, err := c.KeyUsed(account, keys[0].no, p, conformDay)
		c.say("%s: %v %s", p, used, fail(err))
	}
	for _, day := range []int32{conformDay - 40, conformDay - 1, conformDay} {
		later, err := c.KeyUsedLater(account, keys[0].no, day)
		c.say("after %d: %v %s", day, later, fail(err))
	}
	sums, err := c.KeySums(account, conformDay-7, conformDay)
	c.must(err)
	for _, k := range keys {
		c.say("key %d: %+v", k.no, sums[k.no])
	}
}

func conformCredit(c *conform) {
	account := c.account("a", parts{})
	other := c.account("b", parts{})
	try := func(account uint32, currency Currency, n Nano, ref string) {
		ok, err := c.Credit(&credit{account: account, currency: currency, day: conformDay, amount: n, ref: ref, memo: "m", nowUs: conformUs})
		c.say("%s %s to %d by %s: %t %s", n, currency, account, ref, ok, fail(err))
	}
	try(account, USD, 5*usd, "r1")
	try(account, USD, 5*usd, "r1")
	try(account, USD, 6*usd, "r1")
	try(account, Bundled, 5*usd, "r1")
	try(other, USD, 5*usd, "r1")
	try(account, DIEM, 7, "r2")
	try(account, Bundled, 9, "r3")
	try(account, USD, maxCredit, "too much, with what is there")
	var wg sync.WaitGroup
	var mu sync.Mutex
	applied := map[string]int{}
	for i := range 24 {
		ref := fmt.Sprint("many-", i%3)
		wg.Go(func() {
			ok, err := c.Credit(&credit{account: other, currency: USD, amount: usd, ref: ref, nowUs: conformUs})
			if err != nil {
				c.t.Errorf("credit: %v", err)
			}
			mu.Lock()
			defer mu.Unlock()
			if ok {
				applied[ref]++
			}
		})
	}
	wg.Wait()
	c.say("of 24 credits at once with 3 references: %v", applied)
	c.say("%v and %v", c.money(account, conformDay), c.money(other, conformDay))
}

func conformBatches(c *conform) {
	a := c.account("a", parts{100, 200, 300})
	b := c.account("b", parts{0, 0, 1000})
	k1, k2 := c.key(a, 1), c.key(b, 1)
	c.settle(a, k1.no, conformDay, parts{50, 60, 0})
	c.settle(b, k2.no, conformDay, parts{0, 0, 400})
	c.settle(a, k1.no, conformDay, parts{0, 40, 70})
	c.b.add(&record{kind: recHold, seq: c.b.last + 1})
	seq := c.b.last + 1
	c.b.add(&record{kind: recSettle, seq: seq, hold: seq, account: b, key: uint32(k2.no), model: 2, day: conformDay, amounts: parts{0, 0, 600}, shortfall: 33, timeNs: 1})
	c.b.sealed, c.b.nowUs = true, conformUs
	for range 3 { // the answers to the first two were lost
		c.must(c.Apply(c.b))
	}
	at, err := c.Applied(sinkLedger)
	c.say("applied up to %d %s; %v and %v", at, fail(err), c.money(a, conformDay), c.money(b, conformDay))
	gap := newBatch()
	gap.begin(c.b.last + 5)
	gap.add(&record{kind: recVoid, seq: c.b.last + 6})
	c.say("a batch after a gap: %s", fail(c.Apply(gap)))
	part := newBatch()
	part.begin(c.b.last - 2)
	part.add(&record{kind: recVoid, seq: c.b.last - 1})
	c.say("a batch from the middle of what is applied: %s", fail(c.Apply(part)))
	at, err = c.Applied(sinkLedger)
	c.say("applied up to %d %s", at, fail(err))
	short, err := c.Shortfall()
	c.say("shortfall %s %s", short, fail(err))
	r := c.recount()
	for _, no := range []uint32{a, b} {
		x := r.accounts[no]
		c.say("%d: spent %v, daily %v in %d requests, short %s", no, x.spent, x.daily, x.dailyCount, x.short)
	}
	// Many rows, more than go to the database at a time.
	c.b.applied()
	c.b.begin(c.b.last)
	rich := c.account("c", parts{0, 0, maxCredit})
	for i := range bulkMost + 100 {
		c.settle(rich, int64(1000+i%(bulkMost+50)), conformDay-int32(i%2), parts{0, 0, Nano(i)})
	}
	c.apply()
	x := c.recount().accounts[rich]
	c.say("%d: spent %v in %d requests, has %v", rich, x.spent, x.dailyCount, c.money(rich, conformDay))
}

func conformPages(c *conform) {
	a := c.account("a", parts{0, 0, 1000 * usd})
	var set pageSet
	set.begin(0)
	for seq := uint64(1); seq <= 3000; seq++ {
		r := record{kind: recSettle, seq: seq, hold: seq, timeNs: (conformUs + int64(seq)) * 1000, account: a, key: 1, model: 1, day: conformDay,
			amounts: parts{0, 0, Nano(seq)}, usage: Usage{Prompt: 10, Completion: 5, Seen: true}}
		set.add(&r)
		c.b.add(&r)
	}
	c.apply()
	for range 2 {
		c.must(c.AddPages(set.list(), 1, 3000))
	}
	at, err := c.Applied(sinkUsage)
	c.say("detail up to %d %s", at, fail(err))
	r := c.recount()
	c.say("%d requests, detail %v", r.requests, r.accounts[a].detail)
}

func conformProgress(c *conform) {
	a := c.account("a", parts{0, 0, 1000})
	show := func() {
		list, err := c.OpenProgress()
		c.must(err)
		for _, r := range list {
			c.say("  hold %d at %d: %v", r.hold, r.seq, r.amounts)
		}
	}
	progress := func(seq, hold uint64, n Nano) {
		c.b.add(&record{kind: recProgress, seq: seq, hold: hold, account: a, key: 1, model: 1, day: conformDay, timeNs: 5, amounts: parts{0, 0, n}})
	}
	c.b.add(&record{kind: recHold, seq: 1, account: a})
	c.b.add(&record{kind: recHold, seq: 2, account: a})
	progress(3, 1, 10)
	progress(4, 2, 20)
	c.apply()
	c.say("two:")
	show()
	progress(5, 1, 30)
	c.b.add(&record{kind: recVoid, seq: 6, hold: 2, account: a})
	c.apply()
	c.say("one:")
	show()
	c.b.add(&record{kind: recSettle, seq: 7, hold: 1, account: a, key: 1, model: 1, day: conformDay, timeNs: 5, amounts: parts{0, 0, 35}})
	c.apply()
	c.say("none:")
	show()
	c.say("%v", c.money(a, conformDay))
}

func conformDIEM(c *conform) {
	a := c.account("a", parts{0, 0, 10})
	show := func(what string, day int32) { c.say("%s: %v", what, c.money(a, day)) }
	show("none", conformDay)
	c.must(c.SetAllowance(a, 1000, conformDay, conformUs))
	show("a first allowance counts at once", conformDay)
	c.must(c.SetAllowance(a, 500, conformDay, conformUs))
	show("a change does not", conformDay)
	show("but the next day", conformDay+1)
	ok, err := c.Credit(&credit{account: a, currency: DIEM, day: conformDay + 1, amount: 7, ref: "r", nowUs: conformUs})
	c.say("credit %t %s", ok, fail(err))
	show("with a credit", conformDay+1)
	c.lease(a, conformDay+2, parts{500, 0, 0})
	c.settle(a, 1, conformDay+2, parts{100, 0, 0})
	c.settle(a, 1, conformDay+2, parts{1, 0, 0})
	c.apply()
	show("the first charge of a day", conformDay+2)
	c.must(c.SetAllowance(a, 0, conformDay+2, conformUs))
	show("taken away", conformDay+2)
	show("from the next day on", conformDay+3)
	if c.shared != nil { // what is leased does not expire before it is given back
		c.op++
		_, err := c.shared.Return(c.op, []want{{account: a, day: conformDay + 2, amounts: parts{399, 0, 0}}})
		c.must(err)
	}
	stale, err := c.StaleDIEM(conformDay + 3)
	slices.SortFunc(stale, func(x, y staleDIEM) int { return int(x.day - y.day) })
	c.say("stale: %v %s", stale, fail(err))
	for _, d := range stale {
		for range 2 {
			c.must(c.ExpireDIEM(d.account, d.day, conformUs))
		}
		show("expired", d.day)
	}
	stale, err = c.StaleDIEM(conformDay + 3)
	c.say("stale: %v %s", stale, fail(err))
	c.say("a bucket that is not there: %s", fail(c.ExpireDIEM(a, conformDay-9, conformUs)))
	list, err := c.Accounts(conformDay + 1)
	c.must(err)
	c.say("%s: allowance %s, spent %v, spendable %v", list[0].name, list[0].diemDaily, list[0].spent, c.money(a, conformDay+1))
}

func conformModels(c *conform) {
	ids := []string{"m-a", "m-b", "m-c"}
	for _, id := range append(ids, ids...) {
		no, err := c.AddModel(id)
		c.say("%s: %d %s", id, no, fail(err))
	}
	var wg sync.WaitGroup
	got := make([]uint32, 32)
	for i := range got {
		wg.Go(func() {
			no, err := c.AddModel(fmt.Sprint("n-", i%8))
			if err != nil {
				c.t.Errorf("model: %v", err)
			}
			got[i] = no
		})
	}
	wg.Wait()
	list, err := c.Models()
	c.must(err)
	for i, no := range got {
		if list[no] != fmt.Sprint("n-", i%8) {
			c.t.Errorf("model n-%d got the number %d, which is %q", i%8, no, list[no])
		}
	}
	c.say("%d models, %q", len(list), []string{list[1], list[2], list[3]})
}

func conformViolations(c *conform) {
	a, b := c.account("a", parts{}), c.account("b", parts{})
	k := c.key(a, 1)
	for i := range 7 {
		var list []violation
		for j := range 10 {
			list = append(list, violation{account: a, timeUs: int64(i*10 + j), key: k.no, model: fmt.Sprint("m", j), tier: "S", kind: "RPM"})
		}
		list = append(list, violation{account: b, timeUs: int64(i), key: 99, model: "x", kind: "TPM"})
		c.must(c.AddViolations(list))
	}
	for _, no := range []uint32{a, b, 99} {
		list, err := c.Violations(no)
		c.must(err)
		c.say("%d: %d", no, len(list))
		for _, v := range list {
			c.say("  %+v", v)
		}
	}
	for _, use := range []struct {
		id           string
		expires, now int64
	}{{"t", 100, 1}, {"t", 100, 2}, {"u", 100, 3}, {"t", 300, 200}} {
		fresh, err := c.UseToken(use.id, use.expires, use.now)
		c.say("token %v: %t %s", use, fresh, fail(err))
	}
}

// The last dollar: credits and charges of many at the same time, and to the
// last nano.
func conformLastDollar(c *conform) {
	a := c.account("a", parts{})
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() {
			if _, err := c.Credit(&credit{account: a, currency: USD, amount: usd / 40, ref: fmt.Sprint("r", i), nowUs: conformUs}); err != nil {
				c.t.Errorf("credit: %v", err)
			}
		})
	}
	wg.Wait()
	c.lease(a, conformDay, parts{0, 0, usd})
	for range 10 {
		for range 100 {
			c.settle(a, 1, conformDay, parts{0, 0, usd / 1000})
		}
		c.apply()
	}
	c.say("%v left of a dollar after 1000 charges of 0.001", c.money(a, conformDay))
	c.settle(a, 1, conformDay, parts{0, 0, 1})
	c.b.sealed, c.b.nowUs = true, conformUs
	// One more is a fault in an embedded store, whose memory decides; nodes may
	// have lost their lease meanwhile.
	if err := c.Apply(c.b); c.shared == nil && err == nil {
		c.t.Error("more was charged than there is")
	}
}
