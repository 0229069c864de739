package billing

import (
	"bufio"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"farebox/bench/servers"
	"farebox/billing/calendar"
	"farebox/billing/money"
	"farebox/billing/report"
	"farebox/billing/store"
	"farebox/config"
)

// pruneSome prunes some of the requests beyond the retention, in steps of any size, and may stop or
// crash at any point. Sums do not change.
func (s *histories) pruneSome() {
	t := s.f.t
	h := s.list[s.random.IntN(len(s.list))]
	if err := s.f.project.drain(); err != nil {
		t.Fatal(err)
	}
	before := s.used(h)
	done := s.pruneUntil(s.random.IntN(12))
	if after := s.used(h); before != after {
		t.Errorf("%s: used %v before requests were pruned, %v after", h.name, before, after)
	}
	if !done && s.random.IntN(3) == 0 {
		s.restart(true)
	}
	if s.random.IntN(3) == 0 {
		s.f.audit()
		for _, fault := range statementFaults(t, s.f.Ledger, h.name) {
			t.Errorf("%s, while requests are pruned: %s", h.name, fault)
		}
	}
}

// used sums an account's usage from its list.
func (s *histories) used(h *history) (sum money.Parts) {
	for place, currency := range money.SpendOrder {
		sum[place] = listedUse(s.f.t, s.f.Ledger, h.name, currency, time.Time{}, time.Time{})
	}
	return sum
}

// pruneUntil passes so many points at which pruning can be interrupted. done: there is no more to
// prune.
func (s *histories) pruneUntil(points int) (done bool) {
	t, l := s.f.t, s.f.Ledger
	r := &retention{l: l}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	interrupted := func() bool { points--; return points < 0 }
	if err := l.store.TakePruning(r.until(0), r.until(pruneFor)); errors.Is(err, store.ErrPrunes) {
		return false
	} else {
		must(err)
	}
	// The clock of a shared store does not follow that of the test.
	var lastUs int64
	must(database(l.store).QueryRow("SELECT coalesce(max(last_us), 0) FROM usage_page").Scan(&lastUs))
	for !interrupted() {
		day, found, err := l.store.OldestUsage(calendar.DayOf(lastUs*1000) - int32(s.keep))
		must(err)
		if !found {
			return true
		}
		file, err := r.export(day, exportFolder(s.export))
		must(err)
		if interrupted() {
			return false
		}
		must(l.store.BeginPrune(day))
		for after := uint32(0); ; {
			accounts, err := l.store.PruneAccounts(day, after)
			must(err)
			if len(accounts) == 0 {
				break
			}
			after = accounts[len(accounts)-1]
			for len(accounts) > 0 {
				if interrupted() {
					return false
				}
				n, requests, err := l.store.PruneStep(day, accounts, file.Bounds, 1+s.random.IntN(9), r.until(pruneFor))
				must(err)
				if n == 0 && requests == 0 {
					t.Fatal("a step prunes nothing")
				}
				accounts = accounts[n:]
			}
		}
		must(l.store.EndExport(file))
	}
	return false
}

// exportedUse sums the files of a folder by account and currency. No request is in them twice.
func exportedUse(t *testing.T, folder string) map[string]money.Parts {
	t.Helper()
	use, seen := map[string]money.Parts{}, map[string]bool{}
	for _, r := range exportedRequests(t, folder) {
		if r.Type == "charge" && r.Request != "" {
			if seen[r.Request] {
				t.Errorf("the request %s is exported twice", r.Request)
			}
			seen[r.Request] = true
		}
		sum := use[r.Account]
		for _, line := range r.Lines {
			for place, c := range money.SpendOrder {
				if c.String() == line.Currency {
					sum[place] += line.Amount
				}
			}
		}
		use[r.Account] = sum
	}
	return use
}

// exportedRequests returns the requests in the files of a folder.
func exportedRequests(t *testing.T, folder string) (list []ExportedRequest) {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			t.Errorf("%s is left in the folder of exports", e.Name())
			continue
		}
		f, err := os.Open(filepath.Join(folder, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		zip, err := gzip.NewReader(f)
		if err != nil {
			t.Fatal(err)
		}
		for lines := bufio.NewScanner(zip); lines.Scan(); {
			var r ExportedRequest
			if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
				t.Fatal(err)
			}
			list = append(list, r)
		}
		_ = f.Close()
	}
	return list
}

// prunedUse returns the same from the sums in the store.
func prunedUse(t *testing.T, l *Ledger) map[string]money.Parts {
	t.Helper()
	use := map[string]money.Parts{}
	rows, err := database(l.store).Query(`SELECT a.id, currency, CAST(sum(amount) AS BIGINT) FROM usage_sum JOIN account a ON a.no = account
		GROUP BY a.id, currency`)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var id string
		var c Currency
		var n Nano
		if err := rows.Scan(&id, &c, &n); err != nil {
			t.Fatal(err)
		}
		sum := use[id]
		sum[money.PlaceOf(c)] += n
		use[id] = sum
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return use
}

// Requests are pruned at random moments of random histories, and the process may end between any
// two steps. The statements, balances and books do not change, and the exports match the pruned
// requests.
func TestPrunedHistoriesAddUp(t *testing.T) {
	servers.NoRace(t)
	t.Parallel()
	for _, shared := range []string{"", servers.Database(t)} {
		runHistories(t, 20, 40, historySeed(t), shared, 2)
	}
}

// A period must not join two sums of a day when a line before the period is between them.
func TestAPeriodJoinsNoSumsThatTheStatementHasApart(t *testing.T) {
	servers.NoRace(t)
	t.Parallel()
	for _, seed := range []uint64{16852070701695655, 49306230833727992} {
		runHistories(t, 20, 40, seed, "", 2)
	}
}

func TestLongPrunedHistoriesAddUp(t *testing.T) {
	seed := historySeed(t)
	for i := range servers.Campaign(4) {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			shared := ""
			if i%4 == 3 {
				shared = servers.Database(t)
			}
			runHistories(t, 200, 40, seed+uint64(i), shared, 2)
		})
	}
}

// prunedAll prunes the remaining requests, and compares the exports with the sums.
func (s *histories) prunedAll(t *testing.T) {
	s.f.clock.advance(time.Hour) // over the lease of a process that is gone
	for i := 0; !s.pruneUntil(1 << 20); i++ {
		if i == 10 {
			t.Fatal("pruning does not end")
		}
	}
	in, out := exportedUse(t, s.export), prunedUse(t, s.f.Ledger)
	maps.DeleteFunc(in, func(_ string, p money.Parts) bool { return p == money.Parts{} })
	maps.DeleteFunc(out, func(_ string, p money.Parts) bool { return p == money.Parts{} })
	if !maps.Equal(in, out) {
		t.Errorf("exported %v, pruned %v", in, out)
	}
}

// The retention of the config is applied: past days are exported and pruned, others stay.
func TestOldRequestsAreExportedAndPruned(t *testing.T) {
	onEngines(t, func(t *testing.T, f *fixture) {
		f.account("a", 100*usd)
		k, _ := f.key("a")
		folder := filepath.Join(t.TempDir(), "exports")
		f.Configure(&config.Config{Usage: config.Usage{Keep: 90, Export: folder}})
		upstreams := []uint32{f.UpstreamNumber("near"), f.UpstreamNumber("far"), 0}
		for range 100 { // days
			for _, upstream := range upstreams {
				var h Hold
				if d := f.Admit(&h, f.ask(k, usd/100)); d.Code != Admitted {
					t.Fatal(d.Code)
				}
				h.From(upstream)
				f.settle(&h, usd/100)
			}
			if err := f.project.drain(); err != nil {
				t.Fatal(err)
			}
			f.clock.advance(24 * time.Hour)
		}
		analytics := func() string {
			f.reports = report.New(reportSource{f.Ledger}) // without kept answers
			sum, err := f.Reports(k.Account).Analytics(f.Today()-89, f.Today())
			if err != nil {
				t.Fatal(err)
			}
			return fmt.Sprintf("%+v", *sum)
		}
		if f.node != nil {
			f.node.day.Store(calendar.DayOf(f.now())) // its store's clock stands
		}
		before := analytics()
		if err := f.retention.prune(); err != nil {
			t.Fatal(err)
		}
		if after := analytics(); after != before {
			t.Errorf("analytics were %s, and are %s", before, after)
		}
		files, err := os.ReadDir(folder)
		if err != nil || len(files) != 10 {
			t.Fatalf("%d files are exported (%v), expected 10", len(files), err)
		}
		list, err := listAll(f.Ledger, k, report.ListQuery{Limit: 37})
		if err != nil {
			t.Fatal(err)
		}
		sums := 0
		for _, e := range list {
			if e.Sum {
				sums++
				if e.Amount != 3*usd/100 || e.Requests != 3 {
					t.Errorf("a sum is %s of %d requests", e.Amount, e.Requests)
				}
			}
		}
		if sums != 10 || len(list) != 10+90*3 {
			t.Errorf("%d entries are listed, %d of them sums", len(list), sums)
		}
		checkRevenueByUpstream(t, f, folder)
		f.recount()
		restoredIsPruned(t, f)

		// A changed sum is found.
		if _, err := database(f.store).Exec("UPDATE usage_sum SET amount = amount - 1, units = units + 1 WHERE ended = (SELECT min(ended) FROM usage_sum)"); err != nil {
			t.Fatal(err)
		}
		r, err := f.Audit()
		if err != nil || len(r.Faults) == 0 {
			t.Errorf("a changed sum is not found (%v)", err)
		}
	})
}

// restoredIsPruned restores a backup into an embedded store.
func restoredIsPruned(t *testing.T, f *fixture) {
	t.Helper()
	o := f.options
	o.Dir, o.Shared = filepath.Join(t.TempDir(), "restored"), ""
	if _, err := Restore(backupFile(t, f), o); err != nil {
		t.Fatal(err)
	}
	g := &fixture{t: t, clock: f.clock, options: o}
	g.open()
	defer func() { _ = g.Close() }()
	g.recount()
	want, err := f.store.Pruned()
	got, err2 := g.store.Pruned()
	if err != nil || err2 != nil || got != want || got.Day == 0 {
		t.Errorf("pruned %+v is restored as %+v (%v, %v)", want, got, err, err2)
	}
}

// checkRevenueByUpstream compares revenue and exports: of 100 requests each, 10 were exported.
func checkRevenueByUpstream(t *testing.T, f *fixture, folder string) {
	t.Helper()
	list, err := f.UsageReport(report.SumQuery{From: f.clock.now().AddDate(0, 0, -200), To: f.clock.now(), By: "upstream"})
	if err != nil || len(list) != 3 || list[0].ID != "" || list[1].ID != "far" || list[2].ID != "near" {
		t.Fatalf("the revenue by upstream is %+v (%v)", list, err)
	}
	for _, s := range list {
		if s.USD != usd || s.Requests != 100 {
			t.Errorf("the revenue of %q is %s with %d requests", s.ID, s.USD, s.Requests)
		}
	}
	exported := map[string]int{}
	for _, r := range exportedRequests(t, folder) {
		exported[r.Upstream]++
	}
	if want := map[string]int{"": 10, "far": 10, "near": 10}; !maps.Equal(exported, want) {
		t.Errorf("requests by upstream in the exports: %v", exported)
	}
}

// A cursor among requests that were pruned meanwhile would repeat them.
func TestCursorEndsWhereRequestsArePruned(t *testing.T) {
	t.Parallel()
	f := openLedger(t)
	f.account("a", 10*usd)
	k, _ := f.key("a")
	for range 3 {
		for range 4 {
			var h Hold
			if d := f.Admit(&h, f.ask(k, usd/100)); d.Code != Admitted {
				t.Fatal(d.Code)
			}
			f.settle(&h, usd/100)
		}
		if err := f.project.drain(); err != nil {
			t.Fatal(err)
		}
		f.clock.advance(24 * time.Hour)
	}
	within, err := f.Reports(k.Account).History(report.HistoryQuery{PageSize: 2})
	if err != nil {
		t.Fatal(err)
	}
	behind, err := f.Reports(k.Account).History(report.HistoryQuery{PageSize: 10})
	if err != nil {
		t.Fatal(err)
	}
	s := &histories{f: f, keep: 1, export: t.TempDir(), random: rand.New(rand.NewPCG(1, 1))}
	if !s.pruneUntil(1 << 20) {
		t.Fatal("pruning does not end")
	}
	if _, err := f.Reports(k.Account).HistoryAfter(within.Next); !errors.Is(err, report.ErrCursor) {
		t.Errorf("a cursor among pruned requests gives %v", err)
	}
	if h, err := f.Reports(k.Account).HistoryAfter(behind.Next); err != nil || len(h.Entries) != 2 || h.Entries[0].Sum {
		t.Errorf("a cursor after them gives %+v, %v", h, err)
	}
}

// stepsOf records the size and the duration of steps.
type stepsOf struct {
	store.Store
	steps, most int
	longest     time.Duration
}

func (s *stepsOf) PruneStep(day int32, accounts []uint32, bounds map[uint32]uint64, most int, untilUs int64) (done, requests int, err error) {
	began := time.Now()
	done, requests, err = s.Store.PruneStep(day, accounts, bounds, most, untilUs)
	s.steps, s.most, s.longest = s.steps+1, max(s.most, requests), max(s.longest, time.Since(began))
	return done, requests, err
}

// Many requests are pruned in short steps, and their sums do not change.
func TestLongManyRequestsArePrunedInShortSteps(t *testing.T) {
	steps := &stepsOf{}
	f := openLedger(t, func(o *Options) {
		o.wrapStore = func(s store.Store) store.Store { steps.Store = s; return steps }
	})
	filled, err := f.Fill(context.Background(), FillOptions{Entries: 400_000, Keys: 20, Models: 5, Days: 200, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	f.reopen()
	f.Configure(&config.Config{Usage: config.Usage{Keep: 90, Export: t.TempDir()}})
	list := func() (n Nano) {
		for _, c := range money.SpendOrder {
			n += listedUse(t, f.Ledger, filled.Account, c, time.Time{}, time.Time{})
		}
		return n
	}
	before := list()
	began := time.Now()
	if err := f.retention.prune(); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d requests, of which those of 110 days are pruned in %s by %d steps, of at most %d requests and %s", filled.Requests,
		time.Since(began).Round(time.Millisecond), steps.steps, steps.most, steps.longest.Round(time.Millisecond))
	if steps.most > pruneMost+400 { // the last page of a step
		t.Errorf("a step prunes %d requests", steps.most)
	}
	if after := list(); after != before {
		t.Errorf("%s are listed, they were %s", after, before)
	}
	f.audit()
}
