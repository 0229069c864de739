package operator

import "testing"

// "I asked for the revenue up to 9999-12-31, and there was none." Sums over a period without an end are
// those up to today.
func TestPeriodsWithoutAnEndHaveAllMoney(t *testing.T) {
	t.Parallel()
	d, _ := newAskedDesk(t)
	d.NewAccount("acme", "10")
	if status, _ := d.ask(d.Key("acme"), "sim-chat", "", ""); status != 200 {
		t.Fatalf("the request is answered %d", status)
	}
	const since = "from=2020-01-01T00:00:00Z"
	for _, path := range []string{"/revenue?by=account&" + since, "/revenue?by=day&" + since, "/usage?by=model&" + since, "/liability?"} {
		want := d.must("GET", path, "")
		if rows := want.Get("data"); len(rows.Array())+len(want.Array()) == 0 {
			t.Errorf("%s is empty: %s", path, want)
		}
		for _, to := range []string{"2262-01-01", "2263-01-01", "2400-06-01", "9999-12-31"} {
			if got := d.must("GET", path+"&to="+to+"T00:00:00Z", ""); got.Raw != want.Raw {
				t.Errorf("%s up to %s: %s, expected %s", path, to, got, want)
			}
		}
	}
}
