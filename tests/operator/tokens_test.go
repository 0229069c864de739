package operator

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"
)

// token makes a token on the command line.
func (d *desk) token(role string, args ...string) (id, bearer string) {
	d.t.Helper()
	var made struct{ ID, Secret string }
	d.CLIJSON(&made, append([]string{"operator", "token", "create", "--name", role + " of the night", "--role", role}, args...)...)
	if !strings.HasPrefix(made.Secret, "fbo_") {
		d.t.Fatalf("%+v", made)
	}
	return made.ID, "Authorization: Bearer " + made.Secret
}

// A token has the rights of its role until it ends or is revoked, at once.
func TestTokensHaveTheirRoleAndTheirEnd(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	self := func(bearer string) (int, string) {
		t.Helper()
		status, _, answer := d.send("GET", "/self", "", bearer)
		return status, answer
	}
	for _, role := range []string{"read-only", "support", "billing", "owner"} {
		_, bearer := d.token(role)
		if status, answer := self(bearer); status != 200 || gjson.Get(answer, "role").Str != role ||
			gjson.Get(answer, "name").Str != role+" of the night" || gjson.Get(answer, "from").Str != "127.0.0.1" {
			t.Errorf("%s: %d %s", role, status, answer)
		}
	}
	id, bearer := d.token("owner")
	d.CLI("operator", "token", "revoke", id)
	if status, answer := self(bearer); status != 401 {
		t.Errorf("a revoked token: %d %s", status, answer)
	}
	_, short := d.token("owner", "--ends", time.Now().Add(6*time.Second).UTC().Format(time.RFC3339Nano))
	if status, answer := self(short); status != 200 {
		t.Errorf("before its end: %d %s", status, answer)
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		if status, _ := self(short); status == 401 {
			break
		}
		if time.Now().After(end) {
			t.Fatal("a token is valid after its end")
		}
	}
	if out, err := d.TryCLI("operator", "token", "create", "--name", "x", "--role", "boss"); err == nil || !strings.Contains(err.Error(), "read-only, support, billing or owner") {
		t.Errorf("%v %s", err, out)
	}
	if list := d.must("GET", "/tokens", ""); strings.Contains(list.Raw, "fbo_") || list.Get("data.#").Int() != 6 {
		t.Errorf("%s", list)
	}
}

// Support credits as much a day as its token says, else as the config says.
func TestSupportCreditsWithinItsDay(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.must("POST", "/accounts", `{"name":"a"}`)
	credit := func(amount, ref string, bearer ...string) int {
		t.Helper()
		status, _, answer := d.send("POST", "/accounts/a/credits", fmt.Sprintf(`{"currency":"USD","amount":%q,"ref":%q}`, amount, ref),
			append(bearer, "X-Farebox-Operator: 1")...)
		if status == 403 && !strings.Contains(answer, "credit") {
			t.Errorf("%s", answer)
		}
		return status
	}
	_, five := d.token("support", "--max-credit", "5")
	helper := []string{"X-Forwarded-User: helper", "X-Farebox-Proxy-Secret: " + secret}
	for i, c := range []struct {
		amount string
		bearer []string
		want   int
	}{{"3", []string{five}, 200}, {"3", []string{five}, 403}, {"2", []string{five}, 200}, {"0.01", []string{five}, 403},
		{"20", helper, 200}, {"0.000000001", helper, 403}} {
		if got := credit(c.amount, fmt.Sprint("ref ", i), c.bearer...); got != c.want {
			t.Errorf("credit %d of %s is answered %d, expected %d", i, c.amount, got, c.want)
		}
	}
	if got := d.must("GET", "/accounts/a", "").Get("usd").Str; got != "25" {
		t.Errorf("the account has %s", got)
	}
}

// A change that is sent again is made once, and another one with its name is refused.
func TestChangesAreMadeOnce(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.must("POST", "/accounts", `{"name":"a"}`)
	key := d.must("POST", "/accounts/a/keys", `{"type":"INFERENCE"}`, "Idempotency-Key: k1", "X-Reason: ticket 7")
	if again := d.must("POST", "/accounts/a/keys", `{"type":"INFERENCE"}`, "Idempotency-Key: k1"); again.Raw != key.Raw {
		t.Errorf("first %s, again %s", key, again)
	}
	if status, _, answer := d.as("boss", "POST", "/accounts/a/keys", `{"type":"ADMIN"}`, "Idempotency-Key: k1"); status != 409 {
		t.Errorf("another query is answered %d %s", status, answer)
	}
	if n := d.must("GET", "/keys?account=a", "").Get("data.#").Int(); n != 1 {
		t.Errorf("there are %d keys", n)
	}
	first := d.must("POST", "/accounts/a/credits", `{"currency":"USD","amount":"5","ref":"r","reason":"ticket 8"}`)
	if again := d.must("POST", "/accounts/a/credits", `{"currency":"USD","amount":"5","ref":"r"}`); again.Get("balance").Str != "5" || !first.Get("applied").Bool() {
		t.Errorf("first %s, again %s", first, again)
	}
	status, _, answer := d.as("boss", "POST", "/accounts/a/credits", `{"currency":"USD","amount":"6","ref":"r"}`)
	if status != 409 || gjson.Get(answer, "first.amount").Str != "5" {
		t.Errorf("another amount is answered %d %s", status, answer)
	}
	audit := d.must("GET", "/audit", "")
	who := func(n int, path string) string { return audit.Get(fmt.Sprintf("data.%d.%s", n, path)).Str }
	if who(0, "operation") != "credit_account" || who(0, "reason") != "ticket 8" || who(0, "who") != "boss" || who(0, "from") != "127.0.0.1" ||
		who(1, "operation") != "create_key" || who(1, "reason") != "ticket 7" || audit.Get("data.#").Int() != 3 {
		t.Errorf("%s", audit)
	}
	if secret := key.Get("secret").Str; secret == "" || strings.Contains(audit.Raw, secret) {
		t.Errorf("the audit log has the secret of a key: %s", audit)
	}
	d.CLI("verify")
}
