package account

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"farebox/bench/upstream"
	"farebox/tests/rig"
)

// The operator's commands for accounts and keys, beside a running gateway, on either store.
func TestOperatorSuspendsLimitsDebitsAndReports(t *testing.T) {
	t.Parallel()
	const text = `
log: { level: error, format: json }
billing: { minimum_balance: 0 }
limits: { failed_requests: { count: 0 } }
upstreams: [{ name: only, base_url: %s }]
models:
  - { id: sim-chat, tier: unlimited, context_tokens: 8000, max_completion_tokens: 100, price: { input: 1, output: 2 }, targets: [{ upstream: only }] }
`
	rig.OnBothStores(t, func(t *testing.T, store string) {
		sim := rig.StartUpstream(t, upstream.Options{})
		g := rig.StartGatewayOn(t, store, fmt.Sprintf(text, sim.URL))
		g.NewAccount("a", "10")
		id, key := g.NewKey("a", "--limit-usd", "5")
		const body = `{"model":"sim-chat","messages":[{"role":"user","content":"Hello"}]}`
		// answered waits for P5: at once here, within a second where the store is shared.
		answered := func(want int, code string) {
			t.Helper()
			for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
				status, _, answer := g.Post("/chat/completions", key, body)
				if status == want && strings.Contains(string(answer), code) {
					return
				}
				if time.Now().After(end) {
					t.Fatalf("answered with %d %s, expected %d %s", status, answer, want, code)
				}
			}
		}
		answered(200, "")
		g.CLI("account", "suspend", "a")
		answered(403, "API_ACCESS_DISABLED")
		g.CLI("account", "resume", "a")
		answered(200, "")

		g.CLI("key", "limits", id, "--usd", "0", "--period", "LIFETIME")
		answered(402, "API_KEY_USD_SPEND_LIMIT_EXCEEDED")
		g.CLI("key", "limits", id, "--usd", "none")
		answered(200, "")

		if _, err := g.TryCLI("account", "debit", "a", "1000", "--ref", "r1", "--reason", "too much"); err == nil ||
			!strings.Contains(err.Error(), "--allow-debt") {
			t.Errorf("a debit of more than there is: %v", err)
		}
		g.CLI("account", "debit", "a", "1000", "--ref", "r1", "--reason", "fraud", "--allow-debt")
		answered(402, "owes")
		var shown struct {
			USD, Debt rig.Money
			Status    string
		}
		g.CLIJSON(&shown, "account", "show", "a")
		if shown.USD != 0 || shown.Debt == 0 || shown.Status != "open" {
			t.Errorf("the account is shown as %+v", shown)
		}
		g.Credit("a", "1000")
		answered(200, "")

		if _, err := g.TryCLI("account", "credit", "a", "-5"); err == nil ||
			!strings.Contains(err.Error(), "amounts are positive") || !strings.Contains(err.Error(), "account debit") {
			t.Errorf("a credit of -5: %v", err)
		}
		var rows []struct {
			Name     string
			Requests int
		}
		for range 400 {
			g.CLIJSON(&rows, "usage", "--by", "model")
			if len(rows) == 1 && rows[0].Requests >= 4 {
				break
			}
			time.Sleep(100 * time.Millisecond) // nodes report once a second
		}
		if len(rows) != 1 || rows[0].Requests < 4 {
			t.Errorf("the usage report says %+v", rows)
		}
		if out := string(g.CLI("usage", "--csv", "--by", "key")); !strings.HasPrefix(out,
			"key,account,description,requests,") || !strings.Contains(out, id+",a,") {
			t.Errorf("the usage report as CSV is %q", out)
		}
		if out := string(g.CLI("key", "list")); !strings.Contains(out, id) || !strings.Contains(out, "EXPIRES") {
			t.Errorf("the list of keys is %q", out)
		}
		g.CLI("account", "close", "a")
		answered(403, "closed")
		if _, err := g.TryCLI("account", "resume", "a"); err == nil || !strings.Contains(err.Error(), "closed") {
			t.Errorf("a closed account was opened: %v", err)
		}
		var report struct{ Faults []json.RawMessage }
		g.CLIJSON(&report, "verify")
		if len(report.Faults) > 0 {
			t.Errorf("verify finds %s", report.Faults)
		}
	})
}
