package operator

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

// providersBalances are providers' answers about a balance, by the first part of the path, and the parsed result.
var providersBalances = []struct{ name, path, body, want string }{
	{"openrouter", "/v1/credits", `{"data":{"total_credits":100.5,"total_usage":25.750000001}}`, `[{"currency":"USD","amount":"74.749999999"}]`},
	{"owing", "/v1/credits", `{"data":{"total_credits":0,"total_usage":1.5e-05}}`, `[{"currency":"USD","amount":"-0.000015"}]`},
	{"limited", "/v1/key", `{"data":{"label":"k","limit_remaining":12.25,"usage":3}}`, `[{"currency":"USD","amount":"12.25"}]`},
	{"deepseek", "/user/balance", `{"is_available":true,"balance_infos":[{"currency":"CNY","total_balance":"110.00"},` +
		`{"currency":"USD","total_balance":"0.00"}]}`, `[{"currency":"CNY","amount":"110"},{"currency":"USD","amount":"0"}]`},
	// Lies.
	{"huge", "/v1/credits", `{"data":{"total_credits":1e308,"total_usage":0}}`, ""},
	{"hugest", "/v1/credits", `{"data":{"total_credits":1e999999999,"total_usage":0}}`, ""},
	{"digits", "/v1/credits", `{"data":{"total_credits":` + strings.Repeat("9", 9000) + `,"total_usage":0}}`, ""},
	{"text", "/v1/credits", `{"data":{"total_credits":"<script>","total_usage":"upstream-words"}}`, ""},
	{"unlimited", "/v1/key", `{"data":{"limit_remaining":null}}`, ""},
	{"currency", "/user/balance", `{"balance_infos":[{"currency":"upstream-words","total_balance":"1"}]}`, ""},
	{"crowd", "/user/balance", `{"balance_infos":[` + strings.Repeat(`{"currency":"USD","total_balance":"1"},`, 99) + `{"currency":"USD","total_balance":"1"}]}`, ""},
	{"endless", "/v1/credits", "", ""},
	{"broken", "/v1/credits", `{"data":`, ""},
}

// A balance is the provider's, in decimals; lies make an error in our words, and no provider is asked often.
func TestBalancesAtProviders(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	sim := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer upstream-key" {
			http.Error(w, "upstream-words", http.StatusUnauthorized)
			return
		}
		for _, p := range providersBalances {
			if r.URL.Path != "/"+p.name+p.path {
				continue
			}
			asked.Add(1)
			for endless := strings.Repeat("upstream-words ", 1000); p.name == "endless"; {
				if _, err := fmt.Fprint(w, endless); err != nil {
					return
				}
			}
			_, _ = fmt.Fprint(w, p.body)
			return
		}
		http.NotFound(w, r)
	}))
	t.Cleanup(sim.Close)
	config := "billing: { minimum_balance: 0 }\nupstreams:\n"
	models := "models:\n"
	add := func(name, key string) {
		config += fmt.Sprintf("  - { name: %s, base_url: \"%s/%s/v1\", key: %s }\n", name, sim.URL, name, key)
		models += fmt.Sprintf("  - { id: m-%s, context_tokens: 8192, price: free, targets: [{ upstream: %s }] }\n", name, name)
	}
	for _, p := range providersBalances {
		add(p.name, "upstream-key")
	}
	add("refusing", "another-key")
	d := deskOf(t, config+models)
	for _, p := range providersBalances {
		b := d.must("GET", "/upstreams/"+p.name+"/balance", "")
		if p.want != "" && (b.Get("balances").Raw != p.want || b.Get("error").Exists()) {
			t.Errorf("%s: %s, want %s", p.name, b, p.want)
		}
		if p.want == "" && (b.Get("balances").Raw != "[]" || b.Get("error").Str == "" || strings.Contains(b.Raw, "upstream-words")) {
			t.Errorf("%s: %s", p.name, b)
		}
	}
	if b := d.must("GET", "/upstreams/refusing/balance", ""); !strings.Contains(b.Get("error").Str, "refuses the credential") {
		t.Errorf("refusing: %s", b)
	}
	before := asked.Load()
	for range 5 {
		d.must("GET", "/upstreams/openrouter/balance", "")
	}
	if asked.Load() != before {
		t.Errorf("it is asked %d times within a minute", asked.Load()-before)
	}
}
