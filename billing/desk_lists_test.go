package billing

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"farebox/bench/servers"
)

// "Two colleagues edited the customer at once, and the tax id of one was lost."
func TestAProfileChangesWithItsVersion(t *testing.T) {
	servers.NoRace(t)
	t.Parallel()
	onBothEngines(t, func(d *desk) {
		d.do(boss, "create_account", `{"name":"acme","external_id":"crm-1","email":"a@example.com","metadata":{"plan":"gold"}}`)
		d.do(boss, "create_account", `{"name":"other"}`)
		d.refuse(ErrExternal, boss, "create_account", `{"name":"third","external_id":"crm-1"}`)
		d.refuse(ErrNameTaken, boss, "create_account", `{"name":"acme"}`)
		got := d.do(boss, "get_account", `{"account":"acme"}`)
		if member(t, got, "external_id") != "crm-1" || member(t, got, "version") != "1" || member(t, got, "spent_today") != "0" ||
			member2(t, got, "metadata") != `{"plan":"gold"}` || member(t, got, "days_left") != "null" {
			t.Errorf("the account is %s", got)
		}
		change := `{"account":"acme","tax_id":"DE1","metadata":{}}`
		d.refuse(ErrNoMatch, boss, "change_account", change)
		match := boss
		match.Match = `"1"`
		if got := d.do(match, "change_account", change); member(t, got, "version") != "2" || member(t, got, "tax_id") != "DE1" ||
			member(t, got, "email") != "a@example.com" || member2(t, got, "metadata") != "" {
			t.Errorf("the change gives %s", got)
		}
		d.refuse(ErrStale, match, "change_account", `{"account":"acme","company":"x"}`)
		match.Match = "2"
		d.refuse(ErrNameTaken, match, "change_account", `{"account":"acme","name":"other"}`)
		d.refuse(ErrQuery, match, "change_account", `{"account":"acme","usd":"5"}`)
		for _, bad := range []string{`"email":"nobody"`, `"low_balance_at":"-1"`, `"company":"a\u0007"`, `"name":""`,
			`"metadata":{"` + strings.Repeat("x", 41) + `":"y"}`, `"tax_id":"` + strings.Repeat("x", 300) + `"`} {
			d.refuse(nil, match, "change_account", `{"account":"acme",`+bad+`}`)
		}
		if got := d.do(match, "change_account", `{"account":"acme","name":"acme 2","low_balance_at":"5"}`); member(t, got,
			"name") != "acme 2" || member(t, got, "low_balance_at") != "5" {
			t.Errorf("the change gives %s", got)
		}
		d.refuse(ErrNoAccount, boss, "get_account", `{"account":"acme"}`)
		if got := d.do(boss, "create_key", `{"account":"acme 2","type":"INFERENCE"}`); !strings.Contains(got, `"account":"acme 2"`) {
			t.Errorf("a key of a renamed account is %s", got)
		}
	})
}

// "The customer asked to be forgotten, and the backup still had the email."
func TestAnErasedAccountIsAnonymous(t *testing.T) {
	t.Parallel()
	onBothEngines(t, func(d *desk) {
		d.do(boss, "create_account", `{"name":"Jane Roe","email":"jane@example.com","company":"Roe Ltd","tax_id":"T-77"}`)
		d.do(boss, "credit_account", `{"account":"Jane Roe","currency":"USD","amount":"5","ref":"wire"}`)
		d.do(boss, "create_key", `{"account":"Jane Roe","type":"INFERENCE","description":"Jane laptop"}`)
		d.do(boss, "add_review", `{"slug":"x","account":"Jane Roe","rating":5,"locale":"en","message":"I am Jane"}`)
		d.do(boss, "link_wallet", `{"address":"0x00000000000000000000000000000000000000aa","account":"Jane Roe"}`)
		id := member(t, d.do(boss, "get_account", `{"account":"Jane Roe"}`), "id")
		d.refuse(nil, boss, "erase_account", `{"account":"Jane Roe"}`)
		d.refuse(ErrBalance, boss, "close_account", `{"account":"Jane Roe"}`)
		d.do(boss, "close_account", `{"account":"Jane Roe","with_balance":true}`)
		d.do(boss.as("once"), "erase_account", `{"account":"Jane Roe"}`)
		d.do(boss.as("once"), "erase_account", `{"account":"Jane Roe"}`)
		var all []string
		for _, q := range [][2]string{{"get_account", `{"account":"` + id + `"}`}, {"list_accounts", ``}, {"list_keys", ``},
			{"list_audit", ``}, {"list_reviews", ``}, {"list_wallets", ``}, {"list_tokens", ``}} {
			all = append(all, d.do(boss, q[0], q[1]))
		}
		text := strings.Join(all, "\n")
		for _, word := range []string{"Jane", "jane", "Roe", "T-77", "00aa"} {
			if word != "00aa" && strings.Contains(text, word) {
				t.Errorf("%q is left in\n%s", word, text)
			}
		}
		if !strings.Contains(text, "erased-"+id) || !strings.Contains(text, `"usd":"5"`) {
			t.Errorf("the books are gone: %s", text)
		}
		if r, err := d.Verify(); err != nil || len(r.Faults) > 0 {
			t.Errorf("%+v %v", r, err)
		}
	})
}

// pages reads a list page by page.
func (d *desk) pages(name, query string, limit int) (all []string) {
	d.t.Helper()
	for cursor, n := "", 0; ; n++ {
		part := fmt.Sprintf(`{"limit":%d,"cursor":%q`, limit, cursor)
		if query != "" {
			part += "," + query
		}
		text := d.do(boss, name, part+"}")
		var list struct {
			Data []json.RawMessage `json:"data"`
			Next string            `json:"next_cursor"`
		}
		if err := json.Unmarshal([]byte(text), &list); err != nil || len(list.Data) > limit || n > 100 || list.Data == nil {
			d.t.Fatalf("page %d of %s has %d entries: %s (%v)", n, name, len(list.Data), text, err)
		}
		for _, one := range list.Data {
			all = append(all, string(one))
		}
		if cursor = list.Next; cursor == "" {
			return all
		}
	}
}

// "The second page had an account that was on the first, and one was on none."
func TestPagesOfListsAreTheWholeList(t *testing.T) {
	servers.NoRace(t)
	t.Parallel()
	onBothEngines(t, func(d *desk) {
		for i := range 7 {
			d.do(boss, "create_account", fmt.Sprintf(`{"name":"a%d","external_id":"x%d"}`, i, i))
			d.do(boss, "credit_account", fmt.Sprintf(`{"account":"a%d","currency":"USD","amount":"1","ref":"r%d"}`, i, i))
			d.do(boss, "create_key", fmt.Sprintf(`{"account":"a%d","type":"INFERENCE"}`, i%2))
			d.do(boss, "create_token", fmt.Sprintf(`{"name":"t%d","role":"read-only","ends":"2040-01-01T00:00:00Z"}`, i))
			d.do(boss, "add_review", fmt.Sprintf(`{"slug":"x","account":"a%d","rating":5,"locale":"en","message":"m"}`, i))
		}
		for name, most := range map[string]int{"list_accounts": 7, "list_keys": 7, "list_tokens": 7, "list_audit": 35,
			"list_jobs": 0, "list_payments": 0, "list_wallets": 0, "list_reviews": 7} {
			whole := d.pages(name, "", 500)
			if len(whole) != most {
				t.Errorf("%s has %d entries, expected %d", name, len(whole), most)
			}
			for _, limit := range []int{1, 3, 7} {
				if parts := d.pages(name, "", limit); strings.Join(parts, "\n") != strings.Join(whole, "\n") {
					t.Errorf("%s in pages of %d gives\n%s\nexpected\n%s", name, limit, parts, whole)
				}
			}
			for _, bad := range []string{`{"limit":501}`, `{"limit":-1}`, `{"cursor":"x"}`, `{"cursor":"W10"}`,
				`{"cursor":"WyJ4Il0"}`} {
				d.refuse(ErrQuery, boss, name, bad)
			}
		}
		for query, n := range map[string]int{`"account":"a1"`: 3, `"live":true`: 7} {
			if got := d.pages("list_keys", query, 2); len(got) != n {
				t.Errorf("keys with %s: %s", query, got)
			}
		}
		last := member(t, d.pages("list_keys", "", 500)[2], "last6")
		for _, end := range []string{last, last[2:]} {
			if got := d.pages("list_keys", `"last":"`+end+`"`, 500); len(got) != 1 || !strings.Contains(got[0], last) {
				t.Errorf("keys that end with %s: %s", end, got)
			}
		}
		d.refuse(ErrQuery, boss, "list_keys", `{"last":"%"}`)
		if got := d.pages("list_accounts", `"external_id":"x3"`, 500); len(got) != 1 || member(t, got[0], "name") != "a3" {
			t.Errorf("the account x3 is %s", got)
		}
		d.do(boss, "suspend_account", `{"account":"a5"}`)
		if got := d.pages("list_accounts", `"status":"suspended"`, 500); len(got) != 1 || member(t, got[0], "name") != "a5" {
			t.Errorf("the suspended accounts are %s", got)
		}
		if got := d.pages("list_audit", `"account":"a5","operation":"suspend_account"`, 500); len(got) != 1 {
			t.Errorf("the suspension is %s", got)
		}
		if got := d.pages("list_audit", `"to":"2020-01-01T00:00:00Z"`, 500); len(got) != 0 {
			t.Errorf("before 2020 there is %s", got)
		}
	})
}

// "The list of money in for the tax office was not what the bank had."
func TestMoneyInAndLiabilityAreTheBooks(t *testing.T) {
	servers.NoRace(t)
	t.Parallel()
	onBothEngines(t, func(d *desk) {
		d.do(boss, "create_account", `{"name":"a"}`)
		d.do(boss, "create_account", `{"name":"b"}`)
		for i := range 5 {
			d.do(boss, "credit_account", fmt.Sprintf(`{"account":"%c","currency":"USD","amount":"%d","ref":"r%d","memo":"m%d"}`,
				'a'+i%2, i+1, i, i))
		}
		d.do(boss, "credit_account", `{"account":"a","currency":"BUNDLED_CREDITS","amount":"7","ref":"gift"}`)
		d.do(boss, "refund_account", `{"account":"b","currency":"USD","amount":"1","ref":"back"}`)
		d.do(boss, "debit_account", `{"account":"b","currency":"USD","amount":"2","ref":"out","memo":"typo"}`)
		d.do(boss, "debit_account", `{"account":"b","currency":"USD","amount":"50","ref":"owe","memo":"typo","may_owe":true}`)
		list := d.pages("money_in", `"currency":"USD"`, 2)
		if len(list) != 5 || member(t, list[2], "ref") != "r2" || member(t, list[2], "memo") != "m2" ||
			member(t, list[2], "account") != "a" || member(t, list[2], "amount") != "3" || member(t, list[2], "kind") != "credit" {
			t.Errorf("the money is %s", list)
		}
		if got := d.pages("money_in", `"account":"a"`, 500); len(got) != 4 {
			t.Errorf("the money of a is %s", got)
		}
		if got := d.pages("money_in", `"kind":"debit"`, 1); len(got) != 2 || member(t, got[1], "amount") != "50" {
			t.Errorf("the debits are %s", got)
		}
		if got := d.pages("money_in", `"kind":"refund"`, 1); len(got) != 1 {
			t.Errorf("the refunds are %s", got)
		}
		d.refuse(ErrQuery, boss, "money_in", `{"kind":"bribe"}`)
		var days List[LiabilityDay]
		if err := json.Unmarshal([]byte(d.do(boss, "liability", ``)), &days); err != nil || len(days.Items) != 31 {
			t.Fatalf("%+v %v", days, err)
		}
		accounts, err := d.ListAccounts()
		if err != nil {
			t.Fatal(err)
		}
		if got, want := days.Items[0], accounts[0].USD+accounts[1].USD; got.USD != want || want != 9*usd || got.Bundled != 7*usd {
			t.Errorf("the liability is %+v, the accounts have %s", got, want)
		}
		if got := days.Items[1]; got.USD != 0 || got.Bundled != 0 || got.Day >= days.Items[0].Day {
			t.Errorf("the day before it was %+v", got)
		}
		d.refuse(ErrQuery, boss, "liability", `{"from":"2020-01-01T00:00:00Z"}`)
		if got := d.pages("revenue", `"by":"account"`, 10); len(got) != 1 {
			t.Errorf("the revenue is %s", got)
		}
	})
}

// "We changed the secret and the service was down until the deployment."
func TestARotatedKeyStaysValidForSomeHours(t *testing.T) {
	servers.NoRace(t)
	l := openLedger(t)
	d := &desk{l.Ledger, t}
	l.account("a", usd)
	made := d.do(boss, "create_key", `{"account":"a","type":"INFERENCE","description":"prod","limit_usd":"5","period":"MONTH"}`)
	old, id := member(t, made, "secret"), member(t, member2(t, made, "info"), "id")
	valid := func(secret string) bool {
		_, err := l.Lookup([]byte(secret))
		return err == nil
	}
	if !valid(old) {
		t.Fatal("the key is not valid")
	}
	act := boss.as("rotate")
	rotated := d.do(act, "rotate_key", `{"id":"`+id+`","hours":2}`)
	if again := d.do(act, "rotate_key", `{"id":"`+id+`","hours":2}`); again != rotated {
		t.Errorf("%s, and again %s", rotated, again)
	}
	next := member(t, rotated, "secret")
	if info := member2(t, rotated, "info"); member(t, info, "description") != "prod" || member(t, info, "limit_usd") != "5" {
		t.Errorf("the new key is %s", info)
	}
	if !valid(old) || !valid(next) {
		t.Error("both are valid for two hours")
	}
	l.clock.advance(2*time.Hour + time.Second)
	if valid(old) || !valid(next) {
		t.Error("only the new one is valid after two hours")
	}
	d.refuse(nil, boss, "rotate_key", `{"id":"`+id+`"}`)
	id = member(t, member2(t, rotated, "info"), "id")
	third := member(t, d.do(boss, "rotate_key", `{"id":"`+id+`"}`), "secret")
	if valid(next) || !valid(third) {
		t.Error("with 0 hours only the new one is valid")
	}
	d.refuse(ErrNoKey, boss, "rotate_key", `{"id":"x"}`)
	d.refuse(ErrQuery, boss, "rotate_key", `{"id":"x","hours":-1}`)
}

// "We restored the backup, and nobody's token worked, and the audit log began anew."
func TestABackupHasTheAuditLogTokensAndProfiles(t *testing.T) {
	servers.NoRace(t)
	t.Parallel()
	onBothEngines(t, func(d *desk) {
		t := d.t
		d.do(boss, "create_account", `{"name":"a","external_id":"x","metadata":{"k":"v"}}`)
		made := d.do(boss.as("k"), "create_token", `{"name":"ci","role":"owner","ends":"2040-01-01T00:00:00Z"}`)
		secret, id := member(t, made, "secret"), member(t, made, "id")
		path := filepath.Join(t.TempDir(), "backup")
		d.do(boss, "back_up", `{"path":"`+path+`"}`)
		for _, o := range []Options{{Dir: filepath.Join(t.TempDir(), "new")}, {Shared: servers.Database(t)}} {
			if _, err := Restore(path, o); err != nil {
				t.Fatal(err)
			}
			l, err := openDesk(o.Dir, o.Shared)
			if err != nil {
				t.Fatal(err)
			}
			to := &desk{l, t}
			for _, q := range []string{"list_audit", "list_tokens"} {
				if got, want := to.do(boss, q, ``), d.do(boss, q, ``); got != want {
					t.Errorf("%s is\n%s\nexpected\n%s", q, got, want)
				}
			}
			if info, err := l.OperatorToken(secret); err != nil || info.Name != "ci" {
				t.Errorf("the token is %+v (%v)", info, err)
			}
			if again := to.do(boss.as("k"), "create_token", `{"name":"ci","role":"owner","ends":"2040-01-01T00:00:00Z"}`); member(t,
				again, "id") != id {
				t.Errorf("the repeat gives %s", again)
			}
			if got := to.do(boss, "get_account", `{"account":"a"}`); member(t, got, "external_id") != "x" {
				t.Errorf("the account is %s", got)
			}
			to.do(boss, "create_account", `{"name":"b"}`)
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
		}
	})
}
