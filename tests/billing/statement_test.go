package billing

import (
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"farebox/tests/rig"
)

// "Why was I refused, and where did my money go?" An account reads its own refusals and statement,
// and nothing of other accounts or of the upstreams.
func TestAnAccountReadsItsRefusalsAndStatement(t *testing.T) {
	t.Parallel()
	_, g := rig.StartPrepaid(t, "1")
	g.NewAccount("b", "0.00001")
	key, admin, other := g.Key("a"), g.Key("a", "--type", "ADMIN"), g.Key("b")
	tight := g.Key("a", "--limit-usd", "0.00001")
	for range 3 {
		g.Post("/chat/completions", key, rig.Ask("sim-chat", "[[sim tokens=5]] Hello", ""))
		g.Post("/chat/completions", tight, rig.Ask("sim-chat", "Hello", ""))
		g.Post("/chat/completions", other, rig.Ask("sim-chat", "Hello", ""))
	}
	read := func(path string, ready func(gjson.Result) bool) gjson.Result {
		t.Helper()
		for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
			r := gjson.ParseBytes(g.Must(200, "GET", path, admin, "", nil))
			if ready(r) {
				return r
			}
			if time.Now().After(end) {
				t.Fatalf("GET %s is answered %s", path, r.Raw)
			}
		}
	}
	refused := read("/billing/refusals", func(r gjson.Result) bool { return r.Get("data.#").Int() == 3 })
	for _, r := range refused.Get("data").Array() {
		if r.Get("limit").Str != "key_usd" || r.Get("remaining").Float() != 0.00001 || r.Get("needed").Float() <= 0.00001 ||
			r.Get("status").Int() != 402 || len(r.Get("requestId").Str) != 32 || r.Get("limitPeriod").Str == "" {
			t.Errorf("a refusal: %s", r.Raw)
		}
	}
	for _, word := range []string{"only", "upstream", "node", "account"} {
		if strings.Contains(refused.Raw, `"`+word) {
			t.Errorf("it shows %q: %s", word, refused.Raw)
		}
	}
	page := read("/billing/refusals?limit=2", func(r gjson.Result) bool { return r.Get("data.#").Int() == 2 })
	rest := read("/billing/refusals?limit=2&cursor="+page.Get("nextCursor").Str, func(gjson.Result) bool { return true })
	if rest.Get("data.#").Int() != 1 || rest.Get("nextCursor").Value() != nil {
		t.Errorf("the second page: %s", rest.Raw)
	}

	lines := read("/billing/statement", func(r gjson.Result) bool { return r.Get("data.#").Int() == 4 })
	balance := lines.Get("openingBalance").Float()
	for _, l := range lines.Get("data").Array() {
		balance += l.Get("amount").Float()
		if d := balance - l.Get("balance").Float(); d > 1e-9 || d < -1e-9 {
			t.Errorf("the balance after a line is not the sum of the lines: %s", l.Raw)
		}
	}
	if lines.Get("data.0.kind").Str != "CREDIT" || len(lines.Get("data.3.requestId").Str) != 32 || lines.Get("data.3.modelId").Str != "sim-chat" {
		t.Errorf("the statement: %s", lines.Raw)
	}
	for path, status := range map[string]int{"/billing/statement?from=2040-01-01T00:00:00Z": 200, "/billing/statement?cursor=x": 400,
		"/billing/statement?limit=0": 400, "/billing/refusals?cursor=x": 400,
		"/billing/refusals?from=2026-02-01T00:00:00Z&to=2026-01-01T00:00:00Z": 400} {
		if got, _, answer := g.Get(path, admin); got != status {
			t.Errorf("GET %s is answered %d %s", path, got, answer)
		}
	}
	if of := read("/billing/statement?account=b", func(gjson.Result) bool { return true }); of.Raw != lines.Raw {
		t.Errorf("named another account, it reads %s", of.Raw)
	}
	for _, path := range []string{"/billing/statement", "/billing/refusals"} {
		if got, _, _ := g.Get(path, key); got != 403 {
			t.Errorf("GET %s with an INFERENCE key is answered %d", path, got)
		}
	}
}
