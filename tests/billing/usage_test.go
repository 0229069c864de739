package billing

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"farebox/tests/rig"
)

// usageEntry is an entry of the listing as clients read it; numbers keep their
// digits.
type usageEntry struct {
	Timestamp, SKU, Currency, Notes string
	PricePerUnitUsd, Units, Amount  json.Number
	InferenceDetails                struct {
		RequestID                                              string
		InferenceExecutionTime, PromptTokens, CompletionTokens int64
	}
}

type usageList struct {
	Data       []usageEntry
	Pagination struct{ Limit, Page, Total, TotalPages int64 }
	NextCursor *string
}

// Pages, filters, order and both forms of the listing agree with each other.
func TestUsageListingPagesFiltersAndForms(t *testing.T) {
	t.Parallel()
	rig.OnBothStores(t, usageListingPagesFiltersAndForms)
}

func usageListingPagesFiltersAndForms(t *testing.T, store string) {
	g, admin, _, _ := ledgerOfSixteen(t, store)
	var all usageList
	g.Must(200, "GET", "/billing/usage?sortOrder=asc", admin, "", &all)
	n := int64(len(all.Data))
	if all.Pagination.Limit != 200 || all.Pagination.Page != 1 || all.Pagination.Total != n ||
		all.Pagination.TotalPages != 1 {
		t.Errorf("the pagination is %+v of %d", all.Pagination, n)
	}
	if !slices.IsSortedFunc(all.Data, func(a, b usageEntry) int { return strings.Compare(a.Timestamp, b.Timestamp) }) {
		t.Error("the entries do not ascend")
	}
	var paged []usageEntry
	for page := int64(1); ; page++ {
		var list usageList
		status, header, answer := g.Get(fmt.Sprintf("/billing/usage?limit=7&page=%d", page), admin)
		if err := json.Unmarshal(answer, &list); err != nil || status != 200 {
			t.Fatalf("%d %s: %v", status, answer, err)
		}
		for name, want := range map[string]int64{"limit": 7, "page": page, "total": n, "total-pages": (n + 6) / 7} {
			if got := header.Get("x-pagination-" + name); got != strconv.FormatInt(want, 10) {
				t.Errorf("x-pagination-%s is %s, want %d", name, got, want)
			}
		}
		paged = append(paged, list.Data...)
		if page > list.Pagination.TotalPages {
			break
		}
	}
	slices.Reverse(paged)
	if fmt.Sprint(paged) != fmt.Sprint(all.Data) {
		t.Errorf("%d entries on pages of 7 from the newest on are not the %d of the other order", len(paged), n)
	}

	split := int64(0)
	for _, currency := range []string{"USD", "diem", "BUNDLED_CREDITS", "VCU"} {
		var list usageList
		g.Must(200, "GET", "/billing/usage?currency="+currency, admin, "", &list)
		split += list.Pagination.Total
		for _, e := range list.Data {
			if !strings.EqualFold(e.Currency, currency) {
				t.Errorf("%s is in the list of %s", e.Currency, currency)
			}
		}
		if len(list.Data) == 0 != (currency == "VCU") {
			t.Errorf("%d entries of %s", len(list.Data), currency)
		}
	}
	if split != n {
		t.Errorf("the currencies have %d entries, all together are %d", split, n)
	}
	middle := all.Data[n/2].Timestamp
	for query, want := range map[string]func(string) bool{
		"startDate=" + middle:                        func(s string) bool { return s >= middle },
		"endDate=" + middle:                          func(s string) bool { return s <= middle },
		"startDate=" + middle + "&endDate=" + middle: func(s string) bool { return s == middle },
		"endDate=2020-01-01":                         func(string) bool { return false },
		"startDate=2020-01-01":                       func(string) bool { return true },
	} {
		var list usageList
		g.Must(200, "GET", "/billing/usage?"+query, admin, "", &list)
		right := 0
		for _, e := range all.Data {
			if want(e.Timestamp) {
				right++
			}
		}
		if len(list.Data) != right || list.Pagination.Total != int64(right) {
			t.Errorf("%s: %d entries of %d, %d are right", query, len(list.Data), list.Pagination.Total, right)
		}
	}

	for _, form := range []struct{ path, accept, name string }{
		{"/billing/usage?sortOrder=asc&format=csv", "", "billing_usage.csv"},
		{"/billing/usage?sortOrder=asc", "text/csv", "billing_usage.csv"},
		{"/billing/usage-history", "text/csv", "billing-usage-history-"},
		{"/billing/usage-history?format=csv", "application/json", "billing-usage-history-"},
	} {
		header, rows := readCSV(g, form.path, admin, form.accept)
		if header.Get("Content-Type") != "text/csv" || !strings.Contains(header.Get("Content-Disposition"),
			"attachment; filename="+form.name) || len(rows) != int(n)+1 {
			t.Fatalf("%s: %v with %d rows", form.path, header, len(rows))
		}
		want := "timestamp sku pricePerUnitUsd units amount currency notes inferenceDetails.requestId " +
			"inferenceDetails.inferenceExecutionTime inferenceDetails.promptTokens inferenceDetails.completionTokens"
		if got := strings.Join(rows[0], " "); got != want {
			t.Errorf("the columns are %s", got)
		}
		for i, e := range all.Data {
			d := e.InferenceDetails
			want := []string{
				e.Timestamp, e.SKU, e.PricePerUnitUsd.String(), e.Units.String(), e.Amount.String(), e.Currency,
				e.Notes,
				d.RequestID, fmt.Sprint(d.InferenceExecutionTime), fmt.Sprint(d.PromptTokens),
				fmt.Sprint(d.CompletionTokens),
			}
			if !slices.Equal(rows[i+1], want) {
				t.Errorf("%s: row %d is %v, want %v", form.path, i, rows[i+1], want)
			}
		}
	}
}

// readCSV reads a path of the API as CSV.
func readCSV(g *rig.Gateway, path, key, accept string) (http.Header, [][]string) {
	g.T.Helper()
	req, err := http.NewRequest("GET", g.URL+path, nil)
	if err != nil {
		g.T.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+key)
	if accept != "" {
		req.Header.Set("Accept", accept)
	}
	res, err := rig.Client.Do(req)
	if err != nil {
		g.T.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	rows, err := csv.NewReader(res.Body).ReadAll()
	if err != nil || res.StatusCode != 200 {
		g.T.Fatalf("%s as CSV: %d, %v", path, res.StatusCode, err)
	}
	return res.Header, rows
}

// The pages of a history as CSV are joined by a header; a cursor is good for
// its own account only, and comes alone.
func TestUsageHistoryCursor(t *testing.T) { rig.OnBothStores(t, usageHistoryCursor) }

func usageHistoryCursor(t *testing.T, store string) {
	g, admin, _, _ := ledgerOfSixteen(t, store)
	var first usageList
	g.Must(200, "GET", "/billing/usage-history?pageSize=10&currency=USD", admin, "", &first)
	if len(first.Data) != 10 || first.NextCursor == nil {
		t.Fatalf("the first page has %d entries and the cursor %v", len(first.Data), first.NextCursor)
	}
	var second usageList
	g.Must(200, "GET", "/billing/usage-history?cursor="+*first.NextCursor, admin, "", &second)
	if len(second.Data) != 10 || second.Data[0].Currency != "USD" ||
		second.Data[0].Timestamp < first.Data[9].Timestamp {
		t.Errorf("the second page is %+v", second.Data)
	}
	header, rows := readCSV(g, "/billing/usage-history?pageSize=10&currency=USD", admin, "text/csv")
	header, rows2 := readCSV(g, "/billing/usage-history?cursor="+header.Get("x-next-cursor"), admin, "text/csv")
	if len(rows) != 11 || len(rows2) != 11 || rows2[1][7] != second.Data[0].InferenceDetails.RequestID ||
		rows2[1][1] != second.Data[0].SKU {
		t.Errorf("the second page as CSV begins with %v", rows2[1])
	}
	for header.Get("x-next-cursor") != "" {
		header, rows2 = readCSV(g, "/billing/usage-history?cursor="+header.Get("x-next-cursor"), admin, "text/csv")
	}
	if len(rows2) < 2 {
		t.Error("the last page is empty")
	}
	from, to := first.Data[3].Timestamp, second.Data[3].Timestamp
	var part usageList
	g.Must(200, "GET", "/billing/usage-history?startTimestamp="+from+"&endTimestamp="+to, admin, "", &part)
	if len(part.Data) == 0 {
		t.Errorf("nothing is listed from %s to %s", from, to)
	}
	for _, e := range part.Data {
		if e.Timestamp < from || e.Timestamp >= to {
			t.Errorf("%s is not from %s on and before %s", e.Timestamp, from, to)
		}
	}

	g.NewAccount("b", "1")
	other := g.Key("b", "--type", "ADMIN")
	bad := *first.NextCursor
	for _, c := range []struct{ key, query, path, reason string }{
		{other, "cursor=" + bad, "cursor", "belongs to another account"},
		{admin, "cursor=" + bad[:30], "cursor", "damaged"},
		{admin, "cursor=" + strings.Repeat("A", 513), "cursor", "1 to 512 characters"},
		{admin, "cursor=" + url.QueryEscape("a+b/c="), "cursor", "A-Z, a-z, 0-9, - and _"},
		{admin, "cursor=", "cursor", "1 to 512"},
		{admin, "cursor=" + bad + "&pageSize=10", "pageSize", "cannot come with cursor"},
		{admin, "cursor=" + bad + "&currency=USD", "currency", "cannot come with cursor"},
		{admin, "cursor=" + bad + "&cursor=" + bad, "cursor", "more than once"},
	} {
		refused(g, c.key, "/billing/usage-history?"+c.query, c.path, c.reason)
	}
}
