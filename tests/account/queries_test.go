package account

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"farebox/bench/upstream"
	"farebox/tests/rig"
)

// "I deleted two keys in one call, and one of them lives."
func TestQueriesAboutKeysCanBeReadOnlyOneWay(t *testing.T) {
	t.Parallel()
	g := rig.StartGateway(t, fmt.Sprintf(rig.PrepaidConfig, "http://127.0.0.1:9"))
	g.NewAccount("a", "")
	admin := g.Key("a", "--type", "ADMIN")
	one, _ := g.NewKey("a")
	two, _ := g.NewKey("a")
	for _, c := range []struct{ method, path, code, words string }{
		{"DELETE", "/api_keys?id=" + one + "&id=" + two, "custom", "id is given more than once"},
		{"GET", "/api_keys?page=1&page=2", "custom", "page is given more than once"},
		{"GET", "/api_keys?limit=1&limit=2", "custom", "limit is given more than once"},
		{"GET", "/api_keys?page=99999999999999999999", "too_big", "page must be"},
		{"GET", "/api_keys?limit=-99999999999999999999", "too_small", "limit must be"},
		{"GET", "/api_keys?limit=2.0", "invalid_type", "whole number from 1 to 500"},
	} {
		var e struct {
			Error  string
			Issues []struct{ Code string }
		}
		g.Must(400, c.method, c.path, admin, "", &e)
		if !strings.Contains(e.Error, c.words) || len(e.Issues) == 0 || e.Issues[0].Code != c.code {
			t.Errorf("%s %s: %+v", c.method, c.path, e)
		}
	}
	var list []apiKey
	for _, page := range []string{"2", "1000001", "9223372036854775807"} {
		answer := g.Must(200, "GET", "/api_keys?limit=500&page="+page, admin, "", nil)
		if string(answer) != "[]" {
			t.Errorf("page %s, beyond the end, is %s", page, answer)
		}
	}
	// Axios and others send {} along with the query.
	g.Must(200, "DELETE", "/api_keys?id="+one, admin, "{}", nil)
	g.Must(200, "DELETE", "/api_keys?id="+two, admin, `{"id":"`+two+`"}`, nil)
	g.Must(400, "DELETE", "/api_keys", admin, "{}", nil)
	g.Must(200, "GET", "/api_keys", admin, "", &list)
	if len(list) != 1 {
		t.Errorf("%d keys are left", len(list))
	}
}

// A faulty body gets an error that its sender can act on.
func TestMistakesInKeyBodiesAreSaidRightly(t *testing.T) {
	t.Parallel()
	g := rig.StartGateway(t, fmt.Sprintf(rig.PrepaidConfig, "http://127.0.0.1:9"))
	g.NewAccount("a", "")
	admin := g.Key("a", "--type", "ADMIN")
	for body, words := range map[string]string{
		`{"apikeytype":"ADMIN"}`: "apiKeyType must be written in exactly these letters",
		`{"consumptionLimit":{"usd":0.` + strings.Repeat("1", 100) +
			`}}`: "consumptionLimit.usd: must be written with at most 64 characters",
		`{"consumptionLimit":{"usd":` + strings.Repeat("1", 70) + `}}`:               "0 to 9999999999",
		`{"consumptionLimit":{"usd":1},"consumption_limit":{"usd":1}}`:               "give one of them",
		`{"limitPeriod":"DAILY","modelPrivacy":"NONE","apiKeyType":"ROOT","x":true}`: "EPOCH, MONTH, LIFETIME",
	} {
		if answer := g.Must(400, "POST", "/api_keys", admin, body, nil); !strings.Contains(string(answer), words) ||
			strings.Contains(string(answer), `"code":"too_big"`) {
			t.Errorf("%.60s: %s", body, answer)
		}
	}
	// Allow lists the served methods.
	req, err := http.NewRequest("PUT", g.URL+"/api_keys", nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := rig.Client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if answer := rig.ReadAll(t, res); res.StatusCode != 405 || res.Header.Get("Allow") != "DELETE, GET, OPTIONS, PATCH, POST" {
		t.Errorf("PUT is answered %d, Allow: %s, %s", res.StatusCode, res.Header.Get("Allow"), answer)
	}
}

// A key's data, its limits and the balance agree, in the answers and in their headers.
func TestKeysLimitsAndBalanceAgree(t *testing.T) { rig.OnBothStores(t, keysLimitsAndBalanceAgree) }

func keysLimitsAndBalanceAgree(t *testing.T, store string) {
	sim := rig.StartUpstream(t, upstream.Options{})
	g := rig.StartGatewayOn(t, store, strings.Replace(fmt.Sprintf(rig.PrepaidConfig, sim.URL), "input: 1, output: 2",
		"input: 1000, output: 2000", 1))
	g.NewAccount("a", "10")
	g.Credit("a", "0.05", "--currency", "BUNDLED_CREDITS")
	admin := g.Key("a", "--type", "ADMIN")
	id, key := g.NewKey("a", "--limit-usd", "5", "--limit-period", "LIFETIME")
	for range 3 {
		g.Must(200, "POST", "/chat/completions", key, rig.Ask("sim-chat", "[[sim tokens=10]] Hello", ""), nil)
	}
	rig.Await(t, "all answers are the same", func() bool {
		spent := g.Accounts()["a"].Spent
		left, used := 10_050_000_000-spent, fmt.Sprintf("%.4f", float64(spent)/1e9)
		var r rateLimits
		g.Must(200, "GET", "/api_keys/rate_limits", key, "", &r)
		var one struct{ Data apiKey }
		g.Must(200, "GET", "/api_keys/"+id, admin, "", &one)
		status, header, answer := g.Get("/billing/balance", admin)
		var b struct {
			Balances struct{ USD, BundledCredits json.Number }
		}
		if err := json.Unmarshal(answer, &b); err != nil || status != 200 {
			t.Fatalf("%d %s: %v", status, answer, err)
		}
		inHeader := header.Get("X-Svc-Balance-Usd")
		w := r.Data.Windows
		return spent > 0 && w.Month.Used == 3 && one.Data.CurrentPeriodUsage.USD == used &&
			one.Data.Usage.TrailingSevenDays.USD == used &&
			rig.Exact(t, b.Balances.USD)+rig.Exact(t, b.Balances.BundledCredits) == left && inHeader != "" &&
			rig.Exact(t, json.Number(inHeader)) == left && rig.Exact(t, json.Number(r.Data.Balances.USD)) == left
	})
}
