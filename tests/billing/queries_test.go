package billing

import (
	"strings"
	"testing"

	"farebox/tests/rig"
)

// "The report ignored my start_date": parameters have two spellings, too.
func TestBillingQueriesTakeBothSpellings(t *testing.T) {
	t.Parallel()
	_, g := rig.StartPrepaid(t, "1")
	admin := g.Key("a", "--type", "ADMIN")
	for range 6 {
		g.Must(200, "POST", "/chat/completions", admin, rig.Ask("sim-chat", "Hello", ""), nil)
	}
	for _, c := range []struct {
		path  string
		total int
	}{
		{"/billing/usage?start_date=2020-01-01&end_date=2020-01-02", 0},
		{"/billing/usage?sort_order=asc&start_date=2020-01-01", 12},
		{"/billing/usage-history?start_timestamp=2020-01-01T00:00:00Z&end_timestamp=2020-01-02T00:00:00Z", 0},
		{"/billing/usage-history?page_size=10", 10},
	} {
		var list usageList
		g.Must(200, "GET", c.path, admin, "", &list)
		if len(list.Data) != c.total {
			t.Errorf("%s: %d entries, not %d", c.path, len(list.Data), c.total)
		}
	}
	var sum struct{ Lookback string }
	g.Must(200, "GET", "/billing/usage-analytics?start_date=2026-01-01&end_date=2026-01-02", admin, "", &sum)
	if sum.Lookback != "2026-01-01:2026-01-02" {
		t.Errorf("the analytics are of %s", sum.Lookback)
	}
	for path, words := range map[string]string{
		"/billing/usage?startDate=2020-01-01&start_date=2020-01-01": "more than once",
		"/billing/usage-analytics?start_date=2026-01-01":            "give both or neither",
		"/billing/usage-analytics?end_date=2026-01-01&lookback=7d":  "cannot be combined",
		"/billing/usage-history?cursor=abc&page_size=10":            "cannot come with cursor",
		"/billing/usage?startDate=2026-11-21%2000:00:00":            "got \\\"2026-11-21 00:00:00\\\"",
	} {
		if answer := g.Must(400, "GET", path, admin, "", nil); !strings.Contains(string(answer), words) {
			t.Errorf("%s: %s", path, answer)
		}
	}
}
