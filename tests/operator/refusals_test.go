package operator

import (
	"strings"
	"testing"
)

// "The customer says that all is refused, and our list of refusals is empty." So are requests of
// accounts that are suspended or closed, and with keys that were revoked.
func TestRefusalsNameAccountsAndKeysThatMayNotBeUsed(t *testing.T) {
	t.Parallel()
	d, _ := newAskedDesk(t)
	d.NewAccount("acme", "10")
	d.NewAccount("gone", "10")
	key, revoked, gone := d.Key("acme"), d.Key("acme"), d.Key("gone")
	ask := func(key string, want int, code, by string) {
		t.Helper()
		status, id := d.ask(key, "sim-chat", "", "")
		if status != want {
			t.Fatalf("a request is answered %d, expected %d", status, want)
		}
		if want == 200 {
			return
		}
		list := d.must("GET", "/refusals?by="+by, "")
		if r := list.Get("data.0"); list.Get("data.#").Int() != 1 || r.Get("id").Str != id || r.Get("code").Str != code ||
			r.Get("status").Int() != int64(want) || r.Get("key").Str == "" || r.Get("account").Str == "" {
			t.Errorf("refusals by %s: %s; %s was expected", by, list.Raw, id)
		}
	}
	ask(key, 200, "", "")
	ask(revoked, 200, "", "")
	d.must("POST", "/accounts/acme/suspend", `{"reason":"unpaid"}`)
	ask(key, 403, "API_ACCESS_DISABLED", "account_suspended")
	d.must("POST", "/accounts/acme/resume", `{"reason":"paid"}`)
	list := d.must("GET", "/keys?account=acme", "")
	for _, k := range list.Get("data").Array() {
		if strings.HasSuffix(revoked, k.Get("last6").Str) {
			d.must("POST", "/keys/"+k.Get("id").Str+"/revoke", `{"reason":"leaked"}`)
		}
	}
	ask(revoked, 401, "AUTHENTICATION_FAILED", "key_revoked")
	ask(key, 200, "", "")
	d.must("POST", "/accounts/gone/close", `{"reason":"left","with_balance":true}`)
	ask(gone, 403, "API_ACCESS_DISABLED", "account_closed")

	// Many of them are few rows, which count the others.
	for range 500 {
		d.ask(revoked, "sim-chat", "", "")
		d.ask("nobody-has-this-key", "sim-chat", "", "")
	}
	rows, counted := 0, int64(0)
	for _, r := range d.must("GET", "/refusals?limit=500", "").Get("data").Array() {
		rows, counted = rows+1, counted+1+r.Get("alike").Int()
	}
	if rows > 100 || counted > 503 {
		t.Errorf("%d rows count %d refusals", rows, counted)
	}
}
