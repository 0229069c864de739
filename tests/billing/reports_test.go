package billing

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"farebox/bench/upstream"
	"farebox/tests/rig"
)

// ledgerOfSixteen is a gateway on which an account with DIEM, bundled credits and USD
// made 16 requests; in returns its first balances.
func ledgerOfSixteen(t *testing.T, store string) (g *rig.Gateway, admin, inference string, in map[string]rig.Money) {
	t.Helper()
	sim := rig.StartUpstream(t, upstream.Options{})
	g = rig.StartGatewayOn(t, store, fmt.Sprintf(rig.PrepaidConfig, sim.URL))
	g.NewAccount("a", "1")
	g.Credit("a", "0.00005", "--currency", "DIEM")
	g.Credit("a", "0.00004", "--currency", "BUNDLED_CREDITS")
	admin, inference = g.Key("a", "--type", "ADMIN", "--description", "boss"), g.Key("a", "--description", "worker")
	for i := range 16 {
		body := rig.Ask("sim-chat", fmt.Sprintf("[[sim tokens=%d]] Hello", 5+i), `,"max_completion_tokens":50`)
		if status, _, answer := g.Post("/chat/completions", []string{admin, inference}[i%2], body); status != 200 {
			t.Fatalf("request %d is answered %d: %s", i, status, answer)
		}
		time.Sleep(2 * time.Millisecond) // entries differ by the millisecond
	}
	return g, admin, inference, map[string]rig.Money{"USD": 1_000_000_000, "DIEM": 50_000, "BUNDLED_CREDITS": 40_000}
}

// The listing, the history, the analytics and the balance match the charges, to the nano,
// in each currency; the last request is in all of them.
func TestBillingAddsUpToTheCharges(t *testing.T) {
	rig.OnBothStores(t, billingAddsUpToWhatWasCharged)
}

func billingAddsUpToWhatWasCharged(t *testing.T, store string) {
	g, admin, _, in := ledgerOfSixteen(t, store)
	var list usageList
	g.Must(200, "GET", "/billing/usage?limit=500", admin, "", &list)
	sums := map[string]rig.Money{}
	requests := map[string]bool{}
	for _, e := range list.Data {
		sums[e.Currency] += rig.Exact(t, e.Amount)
		requests[e.InferenceDetails.RequestID] = true
		if e.Notes != "API Inference" || len(e.InferenceDetails.RequestID) != 32 ||
			e.InferenceDetails.PromptTokens < 1 || e.InferenceDetails.CompletionTokens < 5 {
			t.Errorf("the entry %+v", e)
		}
		if when, err := time.Parse("2006-01-02T15:04:05.000Z", e.Timestamp); err != nil ||
			time.Since(when) > time.Hour {
			t.Errorf("the timestamp %q, %v", e.Timestamp, err)
		}
		price := map[string]json.Number{"sim-chat-llm-input-mtoken": "1", "sim-chat-llm-output-mtoken": "2"}[e.SKU]
		if price == "" || e.PricePerUnitUsd != price || !strings.HasPrefix(e.Amount.String(), "-0.0") ||
			rig.Exact(t, e.Units) < 1000 {
			t.Errorf("%s: %s units at %s for %s", e.SKU, e.Units, e.PricePerUnitUsd, e.Amount)
		}
	}
	if len(requests) != 16 {
		t.Errorf("%d requests are listed, 16 were made", len(requests))
	}
	if a := g.Settled()["a"]; in["USD"]+sums["USD"] != a.USD+a.Leased.USD || in["DIEM"]+sums["DIEM"] != a.DIEM ||
		in["BUNDLED_CREDITS"]+sums["BUNDLED_CREDITS"] != a.Bundled || a.DIEM != 0 || a.Bundled != 0 {
		t.Errorf("listed are %v, the account is %+v", sums, a)
	}

	var history usageList
	told := map[string]rig.Money{}
	path := "/billing/usage-history?pageSize=10"
	for {
		history = usageList{}
		g.Must(200, "GET", path, admin, "", &history)
		for _, e := range history.Data {
			told[e.Currency] += rig.Exact(t, e.Amount)
		}
		if history.NextCursor == nil {
			break
		}
		path = "/billing/usage-history?cursor=" + *history.NextCursor
	}
	if fmt.Sprint(told) != fmt.Sprint(sums) {
		t.Errorf("the history has %v, the list %v", told, sums)
	}

	var analytics struct {
		Lookback string
		ByDate   []struct {
			Date      string
			USD, DIEM json.Number
		}
		ByModel []struct {
			ModelName, UnitType, ModelType  string
			TotalUsd, TotalDiem, TotalUnits json.Number
			Breakdown                       []struct {
				Type             string
				Usd, Diem, Units json.Number
			}
		}
		ByKey []struct {
			APIKeyID, Description string
			TotalUsd, TotalDiem   json.Number
		}
		TopModels, TopKeyNames []string
		ByModelDaily           []map[string]json.Number
		ByKeyDailyUsd          []map[string]json.Number
	}
	g.Must(200, "GET", "/billing/usage-analytics", admin, "", &analytics)
	usd, diem := -sums["USD"]-sums["BUNDLED_CREDITS"], -sums["DIEM"]
	last := analytics.ByDate[len(analytics.ByDate)-1]
	if analytics.Lookback != "7d" || len(analytics.ByDate) != 7 || rig.Exact(t, last.USD) != usd ||
		rig.Exact(t, last.DIEM) != diem || last.Date != time.Now().UTC().Format(time.DateOnly) {
		t.Errorf("by date: %s, %+v; want %s and %s", analytics.Lookback, analytics.ByDate, usd, diem)
	}
	m := analytics.ByModel[0]
	if len(analytics.ByModel) != 1 || m.ModelName != "sim-chat" || m.UnitType != "tokens" || m.ModelType != "LLM" ||
		rig.Exact(t, m.TotalUsd) != usd || rig.Exact(t, m.TotalDiem) != diem {
		t.Errorf("by model: %+v", analytics.ByModel)
	}
	var lines rig.Money
	for _, b := range m.Breakdown {
		lines += rig.Exact(t, b.Usd) + rig.Exact(t, b.Diem)
	}
	if lines != usd+diem || len(m.Breakdown) != 2 || m.Breakdown[0].Type != "Input" || m.Breakdown[1].Type != "Output" {
		t.Errorf("the breakdown is %+v", m.Breakdown)
	}
	if len(analytics.ByKey) != 2 || rig.Exact(t, analytics.ByKey[0].TotalUsd)+rig.Exact(t,
		analytics.ByKey[1].TotalUsd) != usd || len(analytics.ByKey[0].APIKeyID) != 36 {
		t.Errorf("by key: %+v", analytics.ByKey)
	}
	slices.Sort(analytics.TopKeyNames)
	if !slices.Equal(analytics.TopKeyNames, []string{"boss", "worker"}) ||
		!slices.Equal(analytics.TopModels, []string{"sim-chat"}) {
		t.Errorf("the names are %v and %v", analytics.TopKeyNames, analytics.TopModels)
	}
	if len(analytics.ByModelDaily) != 7 || analytics.ByModelDaily[6]["sim-chat"] != m.TotalUnits ||
		analytics.ByKeyDailyUsd[6]["boss"] == "" {
		t.Errorf("the daily figures are %v and %v", analytics.ByModelDaily, analytics.ByKeyDailyUsd)
	}

	var balance struct {
		CanConsume          bool
		Can                 bool `json:"can_consume"`
		ConsumptionCurrency string
		Balances            struct{ Diem, Usd, BundledCredits json.Number }
		DiemEpochAllocation json.Number
	}
	g.Must(200, "GET", "/billing/balance", admin, "", &balance)
	if !balance.CanConsume || !balance.Can || balance.ConsumptionCurrency != "USD" ||
		rig.Exact(t, balance.Balances.Usd) != in["USD"]+sums["USD"] ||
		balance.Balances.Diem != "0" || balance.Balances.BundledCredits != "0" ||
		balance.DiemEpochAllocation != "0.00005" {
		t.Errorf("the balance is %+v", balance)
	}
}

// A new account has no allocation, cannot consume, and empty reports.
func TestBillingOfAnEmptyAccount(t *testing.T) {
	t.Parallel()
	g := rig.StartGateway(t, fmt.Sprintf(rig.PrepaidConfig, "http://127.0.0.1:1/v1"))
	g.NewAccount("empty", "")
	key := g.Key("empty", "--type", "ADMIN")
	for path, want := range map[string]string{
		"/billing/balance":       `{"canConsume":false,"can_consume":false,"consumptionCurrency":null,"balances":{"diem":null,"usd":0,"bundledCredits":0},"diemEpochAllocation":0}`,
		"/billing/usage":         `{"data":[],"pagination":{"limit":200,"page":1,"total":0,"totalPages":0}}`,
		"/billing/usage-history": `{"data":[],"nextCursor":null}`,
		"/billing/usage-analytics?startDate=2026-11-01&endDate=2026-11-01": `{"lookback":"2026-11-01:2026-11-01","byDate":[{"date":"2026-11-01","USD":0,"DIEM":0}],"byModel":[],` +
			`"byModelDaily":[{"date":1793491200000}],"topModels":[],"byModelDailyUsd":[{"date":1793491200000}],"byKey":[],"byKeyDaily":[{"date":1793491200000}],"topKeyNames":[],"byKeyDailyUsd":[{"date":1793491200000}]}`,
	} {
		status, header, answer := g.Get(path, key)
		if status != 200 || string(answer) != want || header.Get("Content-Type") != "application/json; charset=utf-8" {
			t.Errorf("%s: %d %s\nwant %s", path, status, answer, want)
		}
	}
}

// refused checks that a request is answered 400 with a field and a reason.
func refused(g *rig.Gateway, key, path, field, reason string) {
	g.T.Helper()
	status, _, answer := g.Get(path, key)
	var e struct {
		Error, Code string
		Issues      []struct {
			Path    []any
			Message string
		}
	}
	if err := json.Unmarshal(answer, &e); err != nil || status != 400 || e.Code != "INVALID_REQUEST" ||
		len(e.Issues) == 0 {
		g.T.Errorf("%s is answered %d: %s", path, status, answer)
		return
	}
	if fmt.Sprint(e.Issues[0].Path...) != field || !strings.Contains(e.Issues[0].Message, reason) ||
		!strings.Contains(e.Error, e.Issues[0].Message) {
		g.T.Errorf("%s: %s; want %s and %q", path, answer, field, reason)
	}
}

// Every bad parameter is named with its reason and range.
func TestBillingRefusesBadParameters(t *testing.T) {
	t.Parallel()
	g := rig.StartGateway(t, fmt.Sprintf(rig.PrepaidConfig, "http://127.0.0.1:1/v1"))
	g.NewAccount("a", "1")
	key := g.Key("a", "--type", "ADMIN")
	for _, c := range []struct{ path, field, reason string }{
		{"usage?limit=0", "limit", "from 1 to 500; 0 is too little"},
		{"usage?limit=501", "limit", "from 1 to 500; 501 is too much"},
		{"usage?limit=99999999999999999999", "limit", "is too much"},
		{"usage?limit=-99999999999999999999", "limit", "is too little"},
		{"usage?limit=", "limit", `from 1 to 500; got ""`},
		{"usage?limit", "limit", `from 1 to 500; got ""`},
		{"usage?limit=1.5", "limit", `got "1.5"`},
		{"usage?limit=%2B5", "limit", `got "+5"`},
		{"usage?limit=5&limit=6", "limit", "more than once"},
		{"usage?page=0", "page", fmt.Sprintf("from 1 to %d", math.MaxInt64)},
		{"usage?page=two", "page", `got "two"`},
		{"usage?sortOrder=down", "sortOrder", "asc, desc"},
		{"usage?currency=EUR", "currency", "USD, DIEM, VCU, BUNDLED_CREDITS"},
		{"usage?format=xml", "format", "json, csv"},
		{"usage?startDate=yesterday", "startDate", "ISO 8601"},
		{"usage?startDate=2026-02-30", "startDate", "ISO 8601"},
		{"usage?endDate=2026-11-21T25:00:00Z", "endDate", "ISO 8601"},
		{"usage?startDate=2026-11-02&endDate=2026-11-01", "endDate", "not be before startDate"},
		{"usage?startDate=" + strings.Repeat("2", 41), "startDate", "at most 40 characters"},
		{"usage-history?pageSize=9", "pageSize", "from 10 to 1000; 9 is too little"},
		{"usage-history?pageSize=1001", "pageSize", "from 10 to 1000; 1001 is too much"},
		{"usage-history?currency=VCU", "currency", "USD, DIEM, BUNDLED_CREDITS"},
		{"usage-history?startTimestamp=2026-11-21", "startTimestamp", "in UTC"},
		{"usage-history?startTimestamp=2026-11-21T12:00:00%2B01:00", "startTimestamp", "in UTC"},
		{"usage-history?endTimestamp=2026-11-21T12:00:00." + strings.Repeat("0", 25) + "Z", "endTimestamp",
			"at most 40 characters"},
		{"usage-history?startTimestamp=2026-11-21T12:00:00Z&endTimestamp=2026-11-21T12:00:00Z", "endTimestamp",
			"later than startTimestamp"},
		{"usage-analytics?lookback=0d", "lookback", "from 1d to 90d"},
		{"usage-analytics?lookback=91d", "lookback", "from 1d to 90d"},
		{"usage-analytics?lookback=7", "lookback", "from 1d to 90d"},
		{"usage-analytics?lookback=-7d", "lookback", "from 1d to 90d"},
		{"usage-analytics?lookback=1w", "lookback", "from 1d to 90d"},
		{"usage-analytics?lookback=7d&startDate=2026-11-01&endDate=2026-11-02", "lookback", "cannot be combined"},
		{"usage-analytics?startDate=2026-11-01", "endDate", "both or neither"},
		{"usage-analytics?endDate=2026-11-01", "startDate", "both or neither"},
		{"usage-analytics?startDate=2026-11-02&endDate=2026-11-01", "endDate", "not be before startDate"},
		{"usage-analytics?startDate=2026-08-01&endDate=2026-11-01", "endDate", "at most 90 days"},
		{"usage-analytics?startDate=2026-11-01T00:00:00Z&endDate=2026-11-02", "startDate", "YYYY-MM-DD"},
	} {
		refused(g, key, "/billing/"+c.path, c.field, c.reason)
	}
	for _, good := range []string{"usage-analytics?lookback=90d",
		"usage-analytics?startDate=2026-08-04&endDate=2026-11-01", "usage?page=" + fmt.Sprint(math.MaxInt64),
		"usage?limit=1&limite=x"} {
		if status, _, answer := g.Get("/billing/"+good, key); status != 200 {
			t.Errorf("%s is answered %d: %s", good, status, answer)
		}
	}
}

// Billing is for ADMIN keys, and each account sees itself alone.
func TestBillingIsForAdminsOfTheAccount(t *testing.T) {
	t.Parallel()
	rig.OnBothStores(t, billingIsForAdminsOfTheAccount)
}

func billingIsForAdminsOfTheAccount(t *testing.T, store string) {
	g, admin, inference, _ := ledgerOfSixteen(t, store)
	g.NewAccount("b", "2")
	other := g.Key("b", "--type", "ADMIN")
	for _, path := range []string{"/billing/balance", "/billing/usage", "/billing/usage-history",
		"/billing/usage-analytics"} {
		for key, want := range map[string]int{admin: 200, inference: 403, "": 401, "SVC_ADMIN_KEY_nothing": 401} {
			if status, _, answer := g.Get(path, key); status != want {
				t.Errorf("%s is answered %d instead of %d: %s", path, status, want, answer)
			}
		}
		if _, _, answer := g.Get(path, other); strings.Contains(string(answer), "sim-chat") {
			t.Errorf("%s shows another account's usage: %s", path, answer)
		}
	}
	var balance struct{ Balances struct{ Usd float64 } }
	if _, _, answer := g.Get("/billing/balance", other); json.Unmarshal(answer, &balance) != nil ||
		balance.Balances.Usd != 2 {
		t.Errorf("the other account's balance is %s", answer)
	}
}

// A restart changes nothing, and neither does a kill -9 in between.
func TestBillingIsTheSameAfterARestart(t *testing.T) {
	rig.OnBothStores(t, billingIsTheSameAfterARestart)
}

func billingIsTheSameAfterARestart(t *testing.T, store string) {
	g, admin, _, _ := ledgerOfSixteen(t, store)
	var before, after usageList
	g.Must(200, "GET", "/billing/usage?limit=500", admin, "", &before)
	if status, _, answer := g.Post("/chat/completions", admin, rig.Ask("sim-chat", "one more", "")); status != 200 {
		t.Fatalf("%d %s", status, answer)
	}
	g.Kill()
	g.Start()
	g.Must(200, "GET", "/billing/usage?limit=500", admin, "", &after)
	if len(after.Data) != len(before.Data)+2 || fmt.Sprint(after.Data[2:]) != fmt.Sprint(before.Data) {
		t.Errorf("%d entries before, %d after one more request and a kill", len(before.Data), len(after.Data))
	}
}

// "I made my model an image model, and its 40 tokens were 40 pictures."
func TestModelOfAnotherTypeDoesNotChangeEarlierBookings(t *testing.T) {
	t.Parallel()
	sim := rig.StartUpstream(t, upstream.Options{})
	text := fmt.Sprintf(rig.PrepaidConfig, sim.URL)
	g := rig.StartGateway(t, text)
	g.NewAccount("a", "1")
	admin := g.Key("a", "--type", "ADMIN")
	if status, _, answer := g.Post("/chat/completions", admin,
		rig.Ask("sim-chat", "[[sim tokens=40]] Hello", "")); status != 200 {
		t.Fatalf("%d %s", status, answer)
	}
	var before, after usageList
	g.Must(200, "GET", "/billing/usage", admin, "", &before)
	if len(before.Data) != 2 {
		t.Fatalf("the entries are %+v", before.Data)
	}
	at := strings.Index(text, "  - id: sim-chat\n")
	g.WriteConfig(text[:at] + `  - id: sim-chat
    type: image
    tier: unlimited
    constraints: { prompt_characters: 100 }
    price: { generation: 0.01 }
    targets: [{ upstream: only, model: paint }]
`)
	g.Signal(rig.Hangup)
	g.MetricIs("farebox_holds_open", func(float64) bool {
		_, _, answer := g.Get("/models?type=image", admin)
		return strings.Contains(string(answer), "sim-chat")
	})
	g.Must(200, "GET", "/billing/usage", admin, "", &after)
	if fmt.Sprint(after.Data) != fmt.Sprint(before.Data) {
		t.Errorf("the entries are %+v, and were %+v", after.Data, before.Data)
	}
	var sums struct {
		ByModel []struct {
			ModelName, UnitType, ModelType string
			TotalUnits                     int64
		}
	}
	g.Must(200, "GET", "/billing/usage-analytics", admin, "", &sums)
	if m := sums.ByModel; len(m) != 1 || m[0].UnitType != "tokens" || m[0].ModelType != "LLM" || m[0].TotalUnits < 40 {
		t.Errorf("the model's usage is %+v", m)
	}
	var report []struct {
		OutputTokens int64 `json:"output_tokens"`
		Units        int64
	}
	g.CLIJSON(&report, "usage", "--by", "model")
	if len(report) != 1 || report[0].OutputTokens != 40 || report[0].Units != 0 {
		t.Errorf("the report is %+v", report)
	}
}
