package audio

import (
	"encoding/json"
	"strings"
	"testing"

	"farebox/tests/rig"
)

// "Reports said that I had used 51.90, and you had kept 35.90." Every report of an
// account's use is net of refunds, also after a kill.
func TestReportsAreNetOfRefunds(t *testing.T) {
	t.Parallel()
	s := startStudio(t, "", "", "")
	s.NewAccount("net", "10")
	key := s.Key("net", "--type", "ADMIN")
	for _, body := range []string{`{"model":"sound","prompt":"x","duration_seconds":10}`,
		`{"model":"sound","prompt":"[[sim job=fail polls=1]] x","duration_seconds":7}`,
		`{"model":"song","prompt":"[[sim job=fail]] x"}`} {
		model := strings.Split(body, `"`)[3]
		s.await(t, key, model, s.queue(t, key, body), "")
	}
	var account struct{ Spent, USD rig.Money }
	s.Kill()
	s.Start()
	rig.Await(t, "both failures are given back", func() bool {
		s.CLIJSON(&account, "account", "show", "net")
		return account.Spent < 500_000_000
	})
	const start = rig.Money(10_000_000_000)
	if account.Spent <= 0 || account.Spent != start-account.USD {
		t.Errorf("account show says %s spent, and %s left of %s", account.Spent, account.USD, start)
	}
	used := start - account.USD

	var list struct {
		Data []struct {
			SKU, Notes       string
			Amount           json.Number
			InferenceDetails struct{ RequestID string }
		}
	}
	s.Must(200, "GET", "/billing/usage?sortOrder=asc", key, "", &list)
	sum, charged, refunds := rig.Money(0), map[string]rig.Money{}, 0
	for _, e := range list.Data {
		n := rig.Exact(t, e.Amount)
		sum -= n
		id := e.InferenceDetails.RequestID + " " + e.SKU
		switch e.Notes {
		case "API Inference":
			charged[id] = n
		case "Refund":
			if refunds++; n <= 0 || charged[id] != -n {
				t.Errorf("%s %s are given back of %q, which was charged %s", n, e.SKU, id, charged[id])
			}
		default:
			t.Errorf("an entry with the notes %q", e.Notes)
		}
	}
	if sum != used || refunds != 2 || len(charged) != 3 {
		t.Errorf("the list has %d charges, %d refunds and a sum of %s, expected 3, 2 and %s", len(charged), refunds, sum, used)
	}
	status, _, csv := s.Get("/billing/usage-history?currency=USD", key)
	if status != 200 || strings.Count(string(csv), `"notes":"Refund"`) != 2 {
		t.Errorf("the history is %d %s", status, csv)
	}
	var analytics struct {
		ByModel []struct {
			ModelName string
			TotalUSD  json.Number `json:"totalUsd"`
		}
	}
	s.Must(200, "GET", "/billing/usage-analytics?lookback=7d", key, "", &analytics)
	sum = 0
	for _, m := range analytics.ByModel {
		sum += rig.Exact(t, m.TotalUSD)
	}
	if sum != used {
		t.Errorf("the analytics have %s, expected %s: %+v", sum, used, analytics)
	}
	var usage []map[string]any
	s.CLIJSON(&usage, "usage", "--account", "net", "--by", "account", "--from", "2026-01-01")
	if len(usage) != 1 || usage[0]["usd"] != used.String() {
		t.Errorf("farebox usage says %+v, expected %s", usage, used)
	}
	s.statement(t, used)
	s.CLI("verify")
}

// statement reads the output of farebox statement.
func (s *studio) statement(t *testing.T, used rig.Money) {
	t.Helper()
	var list []struct {
		Currency string
		Closing  rig.Money
		Lines    []struct {
			Kind, Request, Model, Key, Reason string
			Amount, Balance                   rig.Money
		}
	}
	s.CLIJSON(&list, "statement", "net")
	if len(list) != 1 || len(list[0].Lines) != 6 {
		t.Fatalf("the statement is %+v", list)
	}
	balance := rig.Money(0)
	for _, l := range list[0].Lines {
		if balance += l.Amount; balance != l.Balance {
			t.Errorf("a line leaves %s, all before it %s: %+v", l.Balance, balance, l)
		}
		if l.Kind == "REFUND" && (l.Request == "" || l.Model == "" || l.Key == "" || !strings.Contains(l.Reason, "job")) {
			t.Errorf("a refund does not name its job: %+v", l)
		}
	}
	if balance != list[0].Closing || balance != 10_000_000_000-used {
		t.Errorf("it ends with %s and says %s", balance, list[0].Closing)
	}
	if csv := s.CLI("statement", "net", "--csv"); strings.Count(string(csv), "\n") != 7 {
		t.Errorf("as CSV it is %s", csv)
	}
	if table := string(s.CLI("statement", "net")); !strings.Contains(table, "closing") || !strings.Contains(table, "REFUND") {
		t.Errorf("as a table it is %s", table)
	}
}
