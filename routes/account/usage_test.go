package account

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"farebox/billing"
	"farebox/billing/money"
	"farebox/billing/report"
	"farebox/routes"
	"farebox/routes/routestest"
)

func queryOf(text string) *routes.Query {
	args := &fasthttp.Args{}
	args.Parse(text)
	params := maps.Clone(usageParams)
	maps.Copy(params, historyParams)
	return routes.NewQuery(args, params)
}

// A spreadsheet runs a cell that begins like a formula, so it is escaped. A negative
// number must stay a number.
func TestCSVRunsNoFormulas(t *testing.T) {
	for text, want := range map[string]string{
		"plain-model": "plain-model", "": "",
		"=HYPERLINK(1)": "'=HYPERLINK(1)", "+1": "'+1", "-1": "'-1", "@x": "'@x", "\tx": "'\tx",
		`a,b`: `a,b`, `say "hi"`: `say "hi"`, "two\nlines": "two\nlines", `="x",1`: `'="x",1`,
	} {
		rows, err := csv.NewReader(strings.NewReader("a," + string(appendCSV(nil, text)) + ",b\r\n")).ReadAll()
		if err != nil || len(rows) != 1 || len(rows[0]) != 3 || rows[0][1] != want {
			t.Errorf("%q is read as %q, %v", text, rows, err)
		}
	}
	list := []report.Entry{{Model: "=cmd", Kind: money.InputTokens, Amount: 1_500_000, Currency: billing.USD, Units: 7,
		Price: 2_500_000}}
	rows, err := csv.NewReader(strings.NewReader(string(entriesCSV(list)))).ReadAll()
	if err != nil || len(rows) != 2 || rows[1][1] != "'=cmd-llm-input-mtoken" || rows[1][2] != "2.5" ||
		rows[1][3] != "0.000007" || rows[1][4] != "-0.0015" {
		t.Errorf("the row is %q, %v", rows, err)
	}
}

// The client's preference decides, and JSON is the default.
func TestFormatFollowsTheClientsPreference(t *testing.T) {
	for _, c := range []struct {
		accept, query string
		csv           bool
	}{
		{"", "", false}, {"*/*", "", false}, {"text/csv", "", true}, {"TEXT/CSV; charset=utf-8", "", true},
		{"text/csv, application/json", "", true}, {"application/json, text/csv", "", false},
		{"application/json;q=0.5, text/csv", "", true},
		{"text/csv;q=0.1, */*", "", true}, {"text/csv;q=0", "", false},
		{"text/csv; q=0.4, application/json; q=0.45", "", false},
		{"text/csv", "format=json", false}, {"application/json", "format=csv", true}, {"", "format=CSV", true},
	} {
		ctx := &fasthttp.RequestCtx{}
		ctx.Request.SetRequestURI("/?" + c.query)
		ctx.Request.Header.Set("Accept", c.accept)
		call := &routes.Call{Ctx: ctx, Row: &routes.Row{Params: usageParams}}
		q := call.Query()
		if got := wantsCSV(call, q); got != c.csv || len(q.Issues) > 0 {
			t.Errorf("Accept %q and %q: CSV %v, %v", c.accept, c.query, got, q.Issues)
		}
	}
}

// A report that takes too long ends with the billing timeout, not an internal error.
// Neither answer repeats the store's error.
func TestSlowReportIsTheBillingTimeout(t *testing.T) {
	var failure error
	r := routestest.Start(t, failingConfig, "127.0.0.1:1", &failing{&failure})
	for err, want := range map[error]struct {
		status int
		text   string
	}{
		fmt.Errorf("cannot list: %w: interrupted secret", report.ErrTimeout): {504, "timed out"},
		errors.New("disk secret"):                          {503, "cannot be read"},
		fmt.Errorf("%w: it has expired", report.ErrCursor): {400, "begin again without a cursor"},
	} {
		failure = err
		status, answer := r.Post("/failing", "{}", "")
		if status != want.status || !strings.Contains(answer, want.text) || strings.Contains(answer, "secret") {
			t.Errorf("%v is answered %d: %s", err, status, answer)
		}
	}
}

const failingConfig = `
log: { level: error }
upstreams:
  - { name: only, base_url: "http://ADDR/v1" }
models:
  - { id: m, tier: unlimited, context_tokens: 128000, price: { input: 1, output: 2 }, targets: [{ upstream: only }] }
`

// failing is a capability whose reports fail.
type failing struct{ err *error }

func (f *failing) Open(*routes.Gateway) []routes.Row {
	return []routes.Row{{
		Method: "POST", Path: "/failing", Access: routes.Bearer, Form: routes.JSONBody,
		Rules: routes.Always(keyDeletion), // it is not asked
		Serve: func(c *routes.Call) *routes.Error { return historyFailed(c, *f.err) },
	}}
}

// Names of keys are members of an object: two of the same name, or one called
// date, must not overwrite each other.
func TestDailySeriesHaveNamesOfTheirOwn(t *testing.T) {
	day := []report.Spend{{USD: 1, Units: 2}}
	sum := &report.Analytics{First: 20_000, Last: 20_000, Days: day}
	for _, name := range []string{"date", "same", "same", "same", ""} {
		sum.Keys = append(sum.Keys, report.KeySpend{ID: "id", Description: name, Last6: "abcdef", Daily: day})
	}
	sum.Keys = append(sum.Keys, report.KeySpend{Daily: day})
	sum.Models = []report.ModelSpend{{Name: "date", Daily: day}, {Name: `"`, Daily: day}}
	var got struct {
		TopModels, TopKeyNames                                   []string
		ByKeyDaily, ByKeyDailyUsd, ByModelDaily, ByModelDailyUsd []map[string]json.Number
	}
	if err := json.Unmarshal(appendAnalytics(nil, "1d", sum), &got); err != nil {
		t.Fatal(err)
	}
	want := []string{"date (abcdef)", "same", "same (abcdef)", "same (abcdef) 2", "Key …abcdef", "Web App"}
	if !slices.Equal(got.TopKeyNames, want) || !slices.Equal(got.TopModels, []string{"date 1", `"`}) {
		t.Errorf("the names are %q and %q", got.TopKeyNames, got.TopModels)
	}
	for _, name := range want {
		if got.ByKeyDaily[0][name] != "2" || got.ByKeyDailyUsd[0][name] != "0.000000001" {
			t.Errorf("%s has %q units and %q USD", name, got.ByKeyDaily[0][name], got.ByKeyDailyUsd[0][name])
		}
	}
	if got.ByModelDaily[0]["date"] != "1728000000000" {
		t.Errorf("the date is %q", got.ByModelDaily[0]["date"])
	}
}

// Dates and times in the forms that clients send.
func TestListingReadsDates(t *testing.T) {
	at := func(text string) int64 {
		when, err := time.Parse(time.RFC3339Nano, text)
		if err != nil {
			t.Fatal(err)
		}
		return when.UnixMicro()
	}
	for _, c := range []struct {
		query    string
		from, to int64
	}{
		{"", 0, 0},
		{"startDate=2026-11-01", at("2026-11-01T00:00:00Z"), 0},
		{"endDate=2026-11-01", 0, at("2026-11-02T00:00:00Z")},
		{"startDate=2026-11-01&endDate=2026-11-01", at("2026-11-01T00:00:00Z"), at("2026-11-02T00:00:00Z")},
		{"startDate=2026-11-01T12:00:00Z&endDate=2026-11-01", at("2026-11-01T12:00:00Z"), at("2026-11-02T00:00:00Z")},
		{"startDate=2026-11-01T10:00:00%2B02:00&endDate=2026-11-01T10:00:00.500Z", at("2026-11-01T08:00:00Z"),
			at("2026-11-01T10:00:00.501Z")},
		{"startDate=2026-11-01T10:00:00+02:00", at("2026-11-01T08:00:00Z"), 0},
		{"startDate=2026-11-01T10:00:00", at("2026-11-01T10:00:00Z"), 0},
		{"startDate=2026-11-01T10:00Z", at("2026-11-01T10:00:00Z"), 0},
		{"startDate=0001-01-01&endDate=1960-01-01", 0, 1},
	} {
		q := queryOf(c.query)
		if from, to := days(q); from != c.from || to != c.to || len(q.Issues) > 0 {
			t.Errorf("%s: %d to %d, want %d to %d; %v", c.query, from, to, c.from, c.to, q.Issues)
		}
	}
}

// FuzzBillingQuery sends any query: it is read within the limits or refused with the
// field, and the refusal is JSON.
func FuzzBillingQuery(f *testing.F) {
	for _, seed := range []string{
		"", "limit=500&page=1&sortOrder=asc&currency=VCU", "limit=0", "limit=99999999999999999999",
		"limit=-1&page=-99999999999999999999", "limit=1&limit=2",
		"startDate=2026-11-01&endDate=2026-10-01T00:00:00+01:00",
		"startDate=9999-12-31T23:59:59.999999999Z&endDate=9999-12-31", "lookback=90d", "lookback=0d",
		"lookback=7d&startDate=",
		"startTimestamp=2026-11-01T00:00:00Z&endTimestamp=2026-11-01T00:00:00.000001Z&pageSize=10",
		"cursor=_&pageSize=10", "cursor=%00", "format=csv", "limit", "currency=%ff%fe",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		q := queryOf(text)
		limit, page := q.Integer("limit"), q.Integer("page")
		from, to := days(q)
		r := rangeOf(q, 20_000)
		cursor, follows := q.Text("cursor")
		h := history(q, cursor, follows)
		_ = q.Choice("currency")
		e := q.Refusal()
		if e != nil {
			if e.Status != 400 || !json.Valid(routes.AppendError(nil, e, routes.ShapeString, nil)) ||
				!json.Valid(routes.AppendError(nil, e, routes.ShapeObject, nil)) {
				t.Errorf("%q is refused with %+v", text, e)
			}
			for _, i := range e.Issues {
				if i.Path == "" || i.Message == "" || i.Code == "" {
					t.Errorf("%q: the issue %+v does not say where and why", text, i)
				}
			}
			return
		}
		if limit < 1 || limit > 500 || page < 1 || from < 0 || to < 0 || to != 0 && from >= to {
			t.Errorf("%q: limit %d, page %d, %d to %d", text, limit, page, from, to)
		}
		if days := r.last - r.first + 1; days < 1 || days > report.MostDays {
			t.Errorf("%q: %d days", text, days)
		}
		if !follows && (h.PageSize < 10 || h.PageSize > 1000 || h.FromUs < 0 || h.ToUs < 0 || h.ToUs != 0 &&
			h.FromUs > h.ToUs) {
			t.Errorf("%q: %+v", text, h)
		}
	})
}
