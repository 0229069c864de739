package billing

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"farebox/bench/servers"
	"farebox/billing/money"
	"farebox/billing/report"
	"farebox/config"
)

// loadedStores are ledgers as farebox of schemas 3 and 4 left them under load, ended by
// kill -9: text with and without cache prices, embeddings, pictures, credits and a free
// model, paid in three currencies. Some requests have their detail in the store, some
// only their charge, some are in the journal alone, and some were under way, with and
// without progress. Beside each ledger are that farebox's reports of a copy (told), and
// its backup of the copy.
var loadedStores = []string{"ledger-loaded-schema3.tar.gz", "ledger-loaded-schema4.tar.gz"}

// loadedAt is the time of the reports, a day after the load began.
func loadedAt() time.Time { return time.UnixMicro(1_795_190_400_000_000).Add(26 * time.Hour) }

// "After the update my invoices of last month were other ones."
func TestLoadedLedgersKeepTheirSales(t *testing.T) {
	for _, name := range loadedStores {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for how, prepare := range map[string]func(t *testing.T, dir string) Options{
				"in its place": func(_ *testing.T, dir string) Options { return Options{Dir: dir} },
				"by its backup": func(t *testing.T, dir string) Options {
					return restored(t, dir, Options{Dir: t.TempDir()})
				},
				"by its backup into PostgreSQL": func(t *testing.T, dir string) Options {
					return restored(t, dir, Options{Dir: t.TempDir(), Shared: servers.Database(t),
						storeAhead: time.Until(loadedAt())})
				},
			} {
				t.Run(how, func(t *testing.T) {
					dir := unpack(t, name)
					told, err := os.ReadFile(filepath.Join(dir, "told"))
					if err != nil {
						t.Fatal(err)
					}
					f := openLedger(t, func(o *Options) {
						*o = prepare(t, dir)
						o.Brand, o.Clock, o.segmentSize = "svc", loadedAt, 64<<10
					})
					for range 2 {
						f.tellsOf(dir, string(told))
						f.recount()
						f.reopen()
					}
				})
			}
		})
	}
}

func restored(t *testing.T, dir string, o Options) Options {
	t.Helper()
	if _, err := Restore(filepath.Join(dir, "backup"), o); err != nil {
		t.Fatal(err)
	}
	return o
}

// tellsOf compares all reports with their earlier text.
func (f *fixture) tellsOf(dir, told string) {
	f.t.Helper()
	raw, err := os.ReadFile(filepath.Join(dir, "secrets"))
	if err != nil {
		f.t.Fatal(err)
	}
	secrets := strings.Fields(string(raw))
	var b strings.Builder
	for _, i := range []int{0, 2} {
		k := f.find(secrets[i])
		usd, diem, bundled := k.Balance()
		fmt.Fprintf(&b, "balance %s %s %s\n", usd, diem, bundled)
		list, err := f.Reports(k.Account).List(report.ListQuery{Limit: 100_000, Page: 1, Ascending: true})
		if err != nil {
			f.t.Fatal(err)
		}
		for j := range list.Entries {
			e := &list.Entries[j]
			line := append(e.AppendTime(nil), ' ')
			line = append(append(line, e.SKU()...), ' ')
			line = append(e.AppendPrice(line), ' ')
			line = append(e.AppendUnits(line), ' ')
			line = append(e.AppendAmount(line), ' ')
			line = append(e.AppendRequestID(line), ' ')
			fmt.Fprintf(&b, "%s%s %d", line, e.Currency, e.TookMs)
			if e.Kind.OfTokens() {
				fmt.Fprintf(&b, " %d %d", e.Prompt, e.Completion)
			}
			b.WriteByte('\n')
		}
		sum, err := f.Reports(k.Account).Analytics(f.Today()-2, f.Today())
		if err != nil {
			f.t.Fatal(err)
		}
		fmt.Fprintf(&b, "days %+v\n", sum.Days)
		for _, m := range sum.Models {
			fmt.Fprintf(&b, "model %s %+v %+v", m.Name, m.Spend, m.Daily)
			if m.Unit == "tokens" {
				fmt.Fprintf(&b, " %+v", [4]report.Spend{
					m.Sum([]money.Kind{money.InputTokens, money.EmbeddingTokens}), m.Kinds[money.CacheReadTokens],
					m.Kinds[money.CacheWriteTokens], m.Kinds[money.OutputTokens],
				})
			}
			b.WriteByte('\n')
		}
		for _, k := range sum.Keys {
			fmt.Fprintf(&b, "key %+v\n", k)
		}
	}
	if strings.Contains(told, "\naccount {") { // schema 3 had no report of accounts
		for _, by := range []string{"account", "model", "key", "day"} {
			day := time.Unix(int64(f.Today())*86400, 0).UTC()
			list, err := f.UsageReport(report.SumQuery{From: day.AddDate(0, 0, -2), To: day, By: by})
			if err != nil {
				f.t.Fatal(err)
			}
			for i := range list {
				s := &list[i]
				line, err := json.Marshal(toldSum{s.ID, s.Name, s.Account, s.Requests, s.Input, s.Output, s.Units, int64(s.USD), int64(s.DIEM),
					int64(s.Bundled), s.Input, s.Output, s.Units, s.USD, s.DIEM, s.Bundled})
				if err != nil {
					f.t.Fatal(err)
				}
				fmt.Fprintf(&b, "%s %s\n", by, line)
			}
		}
	}
	got, want := strings.Split(b.String(), "\n"), strings.Split(told, "\n")
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			f.t.Fatalf("line %d of the reports is\n%s\nand was\n%s", i+1, got[i], want[i])
		}
	}
	if len(got) != len(want) {
		f.t.Fatalf("reports have %d lines, and had %d", len(got), len(want))
	}
}

// toldSum is a report.Sum as those versions wrote it.
type toldSum struct {
	ID           string     `json:"id"`
	Name         string     `json:"name"`
	Account      string     `json:"account,omitempty"`
	Requests     int64      `json:"requests"`
	Input        int64      `json:"Input"`
	Output       int64      `json:"Output"`
	Units        int64      `json:"Units"`
	NanoUSD      int64      `json:"USD"`
	NanoDIEM     int64      `json:"DIEM"`
	NanoBundled  int64      `json:"Bundled"`
	InputTokens  int64      `json:"inputTokens"`
	OutputTokens int64      `json:"outputTokens"`
	OfUnits      int64      `json:"units"`
	USD          money.Nano `json:"usd"`
	DIEM         money.Nano `json:"diem"`
	Bundled      money.Nano `json:"bundled"`
}

// "I set the model's type to image, and my 40 tokens had become 40 pictures."
func TestSalesKeepTheirKind(t *testing.T) {
	f := openLedger(t)
	f.account("a", 100*usd)
	k, secret := f.key("a")
	f.charge(k, "m", money.Text(&config.Price{Input: 1_000_000, Output: 2_000_000},
		money.Usage{Prompt: 30, Completion: 40}))
	f.clock.advance(time.Second)
	var pictures money.Lines
	pictures.Add(money.WebSearches, 1, 10_000_000_000)
	pictures.Add(money.Images, 2, 20_000_000_000)
	f.charge(k, "m", pictures)
	for range 2 {
		list, err := f.Reports(k.Account).List(report.ListQuery{Limit: 10, Page: 1, Ascending: true})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for i := range list.Entries {
			e := &list.Entries[i]
			got = append(got, fmt.Sprintf("%s %s at %s: %s", e.SKU(), e.AppendUnits(nil), e.AppendPrice(nil),
				e.AppendAmount(nil)))
		}
		want := []string{
			"m-llm-input-mtoken 0.00003 at 1: -0.00003", "m-llm-output-mtoken 0.00004 at 2: -0.00008",
			"m-image-search-unit 1 at 0.01: -0.01", "m-image-unit 2 at 0.02: -0.04",
		}
		if !slices.Equal(got, want) {
			t.Errorf("the entries are %q, expected %q", got, want)
		}
		sum, err := f.Reports(k.Account).Analytics(f.Today(), f.Today())
		if err != nil {
			t.Fatal(err)
		}
		if m := sum.Models; len(m) != 2 || m[0].Unit != "images" || m[0].Units != 2 || m[0].USD != 50_000_000 ||
			m[1].Unit != "tokens" || m[1].Units != 70 || m[1].USD != 110_000 {
			t.Errorf("the model's usage is %+v", m)
		}
		day := time.Unix(int64(f.Today())*86400, 0).UTC()
		report, err := f.UsageReport(report.SumQuery{From: day, To: day, By: "model"})
		if r := report; err != nil || len(r) != 1 || r[0].Requests != 2 || r[0].Input != 30 || r[0].Output != 40 ||
			r[0].Units != 2 {
			t.Errorf("the report says %+v (%v)", r, err)
		}
		f.recount()
		f.reopen()
		k = f.find(secret)
	}
}
