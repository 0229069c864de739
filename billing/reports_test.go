package billing

import (
	"database/sql"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"farebox/bench/servers"
	"farebox/billing/calendar"
	"farebox/billing/journal"
	"farebox/billing/money"
	"farebox/billing/report"
	"farebox/billing/store"
	"farebox/config"
)

// madeUp is a random settlement, whose charge need not be the sum of its lines.
func madeUp(x *rand.Rand, account uint32, seq uint64, us int64) *journal.Record {
	r := &journal.Record{
		Kind: journal.Settle, Seq: seq, Hold: seq - 1, TimeNs: us * 1000, Account: account, Key: 1,
		Model: 1 + x.Uint32N(3), Day: calendar.DayOf(us * 1000),
		Status: 200, TookMs: x.Uint32N(5000),
	}
	read, write := money.Pico(x.Int64N(1_000_000)), money.Pico(7)
	price := &config.Price{Input: money.Pico(1 + x.Int64N(5_000_000)), CacheRead: &read, CacheWrite: &write,
		Output: money.Pico(x.Int64N(9_000_000))}
	u := money.Usage{Prompt: x.Int64N(3000), Completion: x.Int64N(500)}
	switch x.IntN(6) {
	case 0:
		u.Cached, u.CacheWrite = x.Int64N(u.Prompt+1), x.Int64N(u.Prompt+1)
	case 1:
		u = money.Usage{}
	}
	r.Lines = money.Text(price, u)
	cost := r.Lines.Cost()
	if x.IntN(8) == 0 {
		cost /= 2 // the money ran out
	}
	switch x.IntN(5) {
	case 0:
		r.Amounts[money.InDIEM] = cost
	case 1:
		r.Amounts[money.InDIEM], r.Amounts[money.InUSD] = cost/3, cost-cost/3
	case 2:
		r.Amounts[money.InBundled], r.Amounts[money.InUSD] = cost/5, cost-cost/5
	default:
		r.Amounts[money.InUSD] = cost
	}
	return r
}

// "The list did not add up to what I was charged."
func TestEntriesOfARequestAreItsCharge(t *testing.T) {
	x := rand.New(rand.NewPCG(1, 1))
	for i := range 20_000 {
		r := madeUp(x, 1, uint64(i+2), 1_800_000_000_000_000)
		list := report.AppendEntries(nil, r, 1, journal.AnyPlace)
		var sum money.Parts
		var tokens int64
		for _, e := range list {
			sum[money.PlaceOf(e.Currency)] += e.Amount
			tokens += e.Units
			if e.Amount < 0 || e.Units < 0 || e.Amount == 0 && e.Units == 0 {
				t.Fatalf("%+v has the entry %+v", r, e)
			}
		}
		prompt, completion := r.Tokens()
		if sum != r.Amounts || tokens != prompt+completion {
			t.Fatalf("%+v: the entries are %v and %d tokens", r, sum, tokens)
		}
		if !slices.IsSortedFunc(list, inOrder) {
			t.Fatalf("the entries are in no order: %+v", list)
		}
		var s journal.Shares
		r.Spread(&s)
		var count journal.Entries
		count.Count(&s)
		if count.Of(journal.AnyPlace) != int64(len(list)) {
			t.Fatalf("%d entries, counted as %v", len(list), count)
		}
		for place := range money.Currencies {
			if got := report.AppendEntries(nil, r, 1, place); int64(len(got)) != count.Of(place) {
				t.Fatalf("%d entries of %s, counted as %v", len(got), money.SpendOrder[place], count)
			}
		}
	}
}

// onEngines runs a test on a ledger of each engine.
func onEngines(t *testing.T, run func(t *testing.T, f *fixture), adjust ...func(*Options)) {
	for _, engine := range []string{"sqlite", "postgres"} {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			shared := ""
			if engine == "postgres" {
				shared = servers.Database(t)
			}
			run(t, openLedger(t, append(adjust, func(o *Options) { o.Shared = shared })...))
		})
	}
}

// database is the connection under a store.
func database(s store.Store) *sql.DB { return s.(interface{ DB() *sql.DB }).DB() }

// entryList is the expected result: all entries of one account in order.
type entryList []report.Entry

func (m entryList) filter(c Currency, fromUs, toUs int64) (list []report.Position) {
	for _, e := range m {
		if (c == 0 || e.Currency == c) && e.AtUs >= fromUs && (toUs == 0 || e.AtUs < toUs) {
			list = append(list, e.At)
		}
	}
	return list
}

func positions(entries []report.Entry) []report.Position {
	list := make([]report.Position, len(entries))
	for i := range entries {
		list[i] = entries[i].At
	}
	return list
}

// listAll reads every page of a listing.
func listAll(l *Ledger, k *Key, q report.ListQuery) (all []report.Entry, err error) {
	total := int64(0)
	for q.Page = 1; q.Page == 1 || (q.Page-1)*q.Limit < total; q.Page++ {
		list, err := l.Reports(k.Account).List(q)
		if err != nil {
			return nil, err
		}
		if q.Page > 1 && list.Total != total {
			return nil, fmt.Errorf("%d entries in total on page 1, %d on page %d", total, list.Total, q.Page)
		}
		total = list.Total
		all = append(all, list.Entries...)
	}
	if int64(len(all)) != total {
		err = fmt.Errorf("%d entries on all pages, %d in total", len(all), total)
	}
	return all, err
}

// historyAll reads every page of a history.
func historyAll(l *Ledger, k *Key, q report.HistoryQuery) (all []report.Entry, err error) {
	h, err := l.Reports(k.Account).History(q)
	for {
		all = append(all, h.Entries...)
		if err != nil || h.Next == "" {
			return all, err
		}
		h, err = l.Reports(k.Account).HistoryAfter(h.Next)
	}
}

// fillNodes writes pages of several nodes whose requests overlap in time, with
// clocks that jump, in chunks of any size.
func fillNodes(t *rapid.T, f *fixture, account uint32) (model entryList) {
	x := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
	end := f.clock.nano() / 1000
	nodes := rapid.IntRange(1, 4).Draw(t, "nodes")
	span := rapid.SampledFrom([]int64{1000, journal.HourUs / 60, 3 * journal.HourUs, 200 * journal.HourUs}).Draw(t,
		"span")
	most := rapid.IntRange(0, 120).Draw(t, "requests")
	for node := uint32(101); node <= uint32(100+nodes); node++ {
		us, seq := end-span, uint64(10)
		var set journal.Pages
		set.Begin(seq - 1)
		var pages []*journal.Page
		for range most {
			us += x.Int64N(2*span/int64(most) + 2)
			at := us
			switch x.IntN(30) {
			case 0:
				at -= x.Int64N(journal.HourUs) // the clock was wrong
			case 1:
				at = end - span // many in one moment
			}
			seq += 1 + x.Uint64N(3)
			r := madeUp(x, account, seq, max(0, min(at, end)))
			model = report.AppendEntries(model, r, node, journal.AnyPlace)
			set.Add(r)
			if x.IntN(40) == 0 {
				pages = append(pages, set.List()...)
				set = journal.Pages{}
				set.Begin(seq)
			}
		}
		pages = append(pages, set.List()...)
		err := addPages(database(f.store), node, pages, seq)
		if err != nil {
			t.Fatal(err)
		}
	}
	slices.SortFunc(model, inOrder)
	return model
}

// "Page 7 repeated what was on page 6", with several nodes writing, clocks that
// jump, and pages that overlap.
func TestPagesOfSeveralNodesAreListedInOneOrder(t *testing.T) {
	onEngines(t, func(t *testing.T, f *fixture) {
		round := 0
		rapid.Check(t, func(t *rapid.T) {
			round++
			name := fmt.Sprint("a", round)
			f.account(name, 0)
			k, _ := f.key(name)
			model := fillNodes(t, f, k.Account.no)
			currency := rapid.SampledFrom([]Currency{0, 0, USD, DIEM, Bundled}).Draw(t, "currency")
			from, to := int64(0), int64(0)
			if len(model) > 0 && rapid.Bool().Draw(t, "range") {
				from = model[rapid.IntRange(0, len(model)-1).Draw(t, "from")].AtUs + rapid.Int64Range(-1, 1).Draw(t,
					"after")
				to = max(1, model[rapid.IntRange(0, len(model)-1).Draw(t, "to")].AtUs+rapid.Int64Range(-1, 1).Draw(t,
					"before"))
			}
			want := model.filter(currency, from, to)

			ascending := rapid.Bool().Draw(t, "ascending")
			q := report.ListQuery{Currency: currency, FromUs: from, ToUs: to, Ascending: ascending,
				Limit: rapid.Int64Range(1, 90).Draw(t, "limit")}
			list, err := listAll(f.Ledger, k, q)
			if err != nil {
				t.Fatal(err)
			}
			got := positions(list)
			if !ascending {
				slices.Reverse(got)
			}
			if !slices.Equal(got, want) {
				t.Fatalf("%d entries are listed, %d are right, or their order is wrong", len(got), len(want))
			}
			h, err := historyAll(f.Ledger, k, report.HistoryQuery{Currency: currency, FromUs: from, ToUs: to,
				PageSize: rapid.IntRange(1, 90).Draw(t, "size")})
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(positions(h), want) {
				t.Fatalf("the history has %d entries, %d are right, or their order is wrong", len(h), len(want))
			}
		})
	})
}

// Listing, history, analytics and the books have the same sums for any settlements in any
// currencies.
func TestListingHistoryAndAnalyticsAgreeWithCharges(t *testing.T) {
	listingIsWhatWasCharged(t, 20)
}

func TestLongListingHistoryAndAnalyticsAgreeWithCharges(t *testing.T) {
	listingIsWhatWasCharged(t, 0)
}

// listingIsWhatWasCharged tries so many rounds of a property; 0: all of its 100.
func listingIsWhatWasCharged(t *testing.T, rounds int) {
	onEngines(t, func(t *testing.T, f *fixture) {
		round := 0
		rapid.Check(t, func(t *rapid.T) {
			if round++; rounds > 0 && round > rounds {
				return
			}
			account := fmt.Sprint("a", round)
			f.account(account, 2*usd)
			f.credit(account, Bundled, usd)
			k1, _ := f.key(account)
			k2, _ := f.key(account)
			price := &config.Price{Input: 1_500_000, Output: 4_840_333}
			var charged money.Parts
			for range rapid.IntRange(1, 60).Draw(t, "requests") {
				switch rapid.IntRange(0, 9).Draw(t, "what") {
				case 0:
					f.clock.advance(time.Duration(rapid.Int64Range(0, int64(30*time.Hour)).Draw(t, "later")))
					f.credit(account, DIEM, usd/10)
				case 1:
					if err := f.project.drain(); err != nil {
						t.Fatal(err)
					}
				}
				k := rapid.SampledFrom([]*Key{k1, k2}).Draw(t, "key")
				u := money.Usage{Prompt: rapid.Int64Range(0, 40_000).Draw(t, "prompt"),
					Completion: rapid.Int64Range(0, 9_000).Draw(t, "completion")}
				u.Cached = rapid.Int64Range(0, u.Prompt).Draw(t, "cached")
				sold := money.Text(price, u)
				cost := sold.Cost()
				var h Hold
				if d := f.Admit(&h, &Admission{Key: k, Slot: f.ModelNumber(rapid.SampledFrom([]string{"x", "y"}).Draw(t,
					"model")), Hold: cost / 2, Now: f.clock.at()}); d.Code != Admitted {
					continue
				}
				before := k.Account.spent
				h.Settle(Settlement{Cost: cost, Lines: sold, Now: f.clock.at()})
				after := k.Account.spent
				after.Sub(&before)
				charged.Add(&after)
			}
			if rapid.IntRange(0, 4).Draw(t, "behind") > 0 { // else it is written when it is asked for
				if err := f.project.drain(); err != nil {
					t.Fatal(err)
				}
			}
			list, err := listAll(f.Ledger, k1, report.ListQuery{Limit: 37})
			if err != nil {
				t.Fatal(err)
			}
			h, err := historyAll(f.Ledger, k1, report.HistoryQuery{PageSize: 11})
			if err != nil {
				t.Fatal(err)
			}
			var listed, told money.Parts
			var tokens int64
			for _, e := range list {
				listed[money.PlaceOf(e.Currency)] += e.Amount
				tokens += e.Units
			}
			for _, e := range h {
				told[money.PlaceOf(e.Currency)] += e.Amount
			}
			if listed != charged || told != charged {
				t.Fatalf("charged %v, listed %v, in the history %v", charged, listed, told)
			}
			var days, models, keys report.Spend
			for first := f.Today() - 89; ; first -= 90 {
				sum, err := f.Reports(k1.Account).Analytics(first, first+89)
				if err != nil {
					t.Fatal(err)
				}
				for _, d := range sum.Days {
					days.Add(d)
				}
				for _, m := range sum.Models {
					models.Add(m.Spend)
					var lines report.Spend
					for _, n := range m.Kinds {
						lines.Add(n)
					}
					if lines != m.Spend {
						t.Fatalf("model %s has %+v, its lines add up to %+v", m.Name, m.Spend, lines)
					}
				}
				for _, k := range sum.Keys {
					keys.Add(k.Spend)
				}
				if len(sum.Models) == 0 {
					break
				}
			}
			want := report.Spend{USD: charged[money.InUSD] + charged[money.InBundled], DIEM: charged[money.InDIEM],
				Units: tokens}
			if days != want || models != want || keys != want {
				t.Fatalf("want %+v; by day %+v, by model %+v, by key %+v", want, days, models, keys)
			}
			if b, err := f.Reports(k1.Account).Balance(); err != nil || b.USD != 2*usd-charged[money.InUSD] ||
				b.Bundled != usd-charged[money.InBundled] {
				t.Fatalf("the balance is %+v, %v after %v", b, err, charged)
			}
		})
		f.recount()
	})
}

// "While requests kept coming, the pages repeated some of them and left out others."
func TestPagingVisitsEachEntryOnceWhileRequestsArrive(t *testing.T) {
	for _, ascending := range []bool{true, false} {
		t.Run(fmt.Sprintf("ascending=%v", ascending), func(t *testing.T) {
			t.Parallel()
			f := openLedger(t, func(o *Options) { o.Clock, o.segmentSize = time.Now, 1<<20 })
			f.account("a", 1000*usd)
			k, _ := f.key("a")
			price := &config.Price{Input: 1_000_000, Output: 1_000_000}
			spend := func() {
				var h Hold
				if d := f.Admit(&h, &Admission{Key: k, Slot: f.ModelNumber("m"), Hold: 1000, Now: At(time.Now())}); d.Code !=
					Admitted {
					t.Errorf("denied with %d", d.Code)
				}
				h.Settle(Settlement{Cost: 1000, Lines: money.Text(price, money.Usage{Prompt: 1, Completion: 1}),
					Now: At(time.Now())})
			}
			for range 500 {
				spend()
			}
			var stop atomic.Bool
			var arriving sync.WaitGroup
			for range 3 {
				arriving.Go(func() {
					for !stop.Load() {
						spend()
						time.Sleep(2 * time.Millisecond)
					}
				})
			}
			defer func() { stop.Store(true); arriving.Wait() }()
			for range 2 {
				list, err := listAll(f.Ledger, k, report.ListQuery{Limit: 50, Ascending: ascending})
				if err != nil {
					t.Fatal(err)
				}
				order := func(a, b report.Entry) int {
					if ascending {
						return a.At.Compare(b.At)
					}
					return b.At.Compare(a.At)
				}
				if len(list) < 1000 || !slices.IsSortedFunc(list, order) {
					t.Errorf("%d entries, in order: %v", len(list), slices.IsSortedFunc(list, order))
				}
				for i := 1; i < len(list); i++ {
					if list[i].At == list[i-1].At {
						t.Fatalf("%+v is listed twice", list[i])
					}
				}
				h, err := historyAll(f.Ledger, k, report.HistoryQuery{PageSize: 500})
				if err != nil || len(h) < len(list) || !slices.IsSortedFunc(h, inOrder) {
					t.Errorf("a history after the list of %d has %d entries, %v", len(list), len(h), err)
				}
			}
		})
	}
}

// "I looked right after my request and it was not there", although detail waits
// for quieter times.
func TestListingShowsTheRequestBeforeIt(t *testing.T) {
	onEngines(t, func(t *testing.T, f *fixture) {
		f.account("a", usd)
		k, _ := f.key("a")
		for i := range 5 {
			f.spend(k, 1, 1000)
			began := time.Now()
			list, err := f.Reports(k.Account).List(report.ListQuery{Limit: 10, Page: 1})
			if err != nil || list.Behind || list.Total != int64(i+1) {
				t.Fatalf("after %d requests: %d entries, behind %v, %v", i+1, list.Total, list.Behind, err)
			}
			if took := time.Since(began); took > 8*time.Second {
				t.Errorf("the list took %s", took)
			}
			h, err := f.Reports(k.Account).History(report.HistoryQuery{PageSize: 10})
			if err != nil || len(h.Entries) != i+1 {
				t.Fatalf("after %d requests the history has %d entries, %v", i+1, len(h.Entries), err)
			}
		}
	})
}

func inOrder(a, b report.Entry) int { return a.At.Compare(b.At) }
