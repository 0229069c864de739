package billing

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"farebox/bench/servers"
)

// desk is a ledger with operators on the network.
type desk struct {
	*Ledger
	t *testing.T
}

// onBothEngines runs a test on an embedded and on a shared store.
func onBothEngines(t *testing.T, test func(d *desk)) {
	t.Run("sqlite", func(t *testing.T) { test(&desk{openLedger(t).Ledger, t}) })
	t.Run("postgres", func(t *testing.T) {
		l, err := OperateShared(servers.Database(t), "svc")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		test(&desk{l, t})
	})
}

var boss = Act{By: Actor{Name: "boss", Role: MayOwn, From: "192.0.2.1"}}

// as is a call of the operator with another idempotency key.
func (a Act) as(key string) Act {
	a.Key = key
	return a
}

// do performs an operation that succeeds, and gives its answer in JSON.
func (d *desk) do(act Act, name, query string) string {
	d.t.Helper()
	answer, err := d.Perform(d.t.Context(), act, name, []byte(query))
	if err != nil {
		d.t.Fatalf("%s %s: %v", name, query, err)
	}
	text, err := json.Marshal(answer)
	if err != nil {
		d.t.Fatal(err)
	}
	return string(text)
}

// refuse performs an operation that fails.
func (d *desk) refuse(want error, act Act, name, query string) error {
	d.t.Helper()
	answer, err := d.Perform(d.t.Context(), act, name, []byte(query))
	if err == nil || want != nil && !errors.Is(err, want) {
		d.t.Errorf("%s %s: %v, %v; expected %v", name, query, answer, err, want)
	}
	return err
}

// audit is the audit log, the oldest entry first.
func (d *desk) audit() (list []AuditInfo) {
	d.t.Helper()
	rows, err := Do(d.Ledger, ListAudit{})
	if err != nil {
		d.t.Fatal(err)
	}
	for i := len(rows.Items) - 1; i >= 0; i-- {
		list = append(list, rows.Items[i])
	}
	return list
}

// member is a member of a JSON object.
func member(t *testing.T, text, name string) string {
	t.Helper()
	var v map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return strings.Trim(string(v[name]), `"`)
}

// "Somebody credited 500 USD, and nobody knows who."
func TestEveryChangeByAnOperatorIsInTheAuditLog(t *testing.T) {
	t.Parallel()
	onBothEngines(t, func(d *desk) {
		act := boss
		act.Reason = "ticket 7"
		d.do(act, "create_account", `{"name":"acme"}`)
		d.do(act, "credit_account", `{"account":"acme","currency":"USD","amount":"500","ref":"r1"}`)
		d.do(act, "suspend_account", `{"account":"acme"}`)
		d.do(act, "resume_account", `{"account":"acme"}`)
		key := d.do(act, "create_key", `{"account":"acme","type":"INFERENCE"}`)
		id := member(t, member2(t, key, "info"), "id")
		d.do(act, "change_key", `{"id":"`+id+`","change":{"description":"new"}}`)
		d.do(act, "revoke_key", `{"id":"`+id+`"}`)
		d.do(act, "debit_account", `{"account":"acme","currency":"USD","amount":"1","ref":"d1","memo":"typo"}`)
		d.do(act, "refund_account", `{"account":"acme","currency":"USD","amount":"2","ref":"f1"}`)
		d.do(act, "set_allowance", `{"account":"acme","daily":"5"}`)
		d.do(act, "link_wallet", `{"address":"0x00000000000000000000000000000000000000aa","account":"acme"}`)
		d.do(act, "unlink_wallet", `{"address":"0x00000000000000000000000000000000000000aa"}`)
		d.do(act, "close_account", `{"account":"acme","with_balance":true}`)
		token := d.do(act, "create_token", `{"name":"ci","role":"read-only","ends":"2040-01-01T00:00:00Z"}`)
		d.do(act, "revoke_token", `{"id":"`+member(t, token, "id")+`"}`)
		var names []string
		for _, a := range d.audit() {
			names = append(names, a.Operation)
			if a.Who != "boss" || a.From != "192.0.2.1" || a.Reason != "ticket 7" || a.Role != "owner" || a.At.IsZero() {
				t.Errorf("%+v", a)
			}
			if len(a.After) == 0 || a.Subject == "" {
				t.Errorf("%s has no subject or state: %+v", a.Operation, a)
			}
			for _, secret := range []string{member(t, key, "secret"), member(t, token, "secret")} {
				if secret == "" || strings.Contains(string(a.After), secret) {
					t.Errorf("the secret %q is in the audit log: %s", secret, a.After)
				}
			}
		}
		want := "create_account credit_account suspend_account resume_account create_key change_key revoke_key debit_account " +
			"refund_account set_allowance link_wallet unlink_wallet close_account create_token revoke_token"
		if got := strings.Join(names, " "); got != want {
			t.Errorf("the log has %s\nexpected %s", got, want)
		}
		a := d.audit()[2]
		if member(t, string(a.Before), "status") != "open" || member(t, string(a.After), "status") != "suspended" ||
			a.Account != "acme" {
			t.Errorf("%s, then %s, of %q", a.Before, a.After, a.Account)
		}
	})
}

// member2 is a member of a JSON object that is an object.
func member2(t *testing.T, text, name string) string {
	t.Helper()
	var v map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return string(v[name])
}

// "The command line is not in the log, so whoever has a shell does what they like."
func TestTheCommandLineIsInTheAuditLog(t *testing.T) {
	l := openLedger(t)
	if err := l.ServeControl(); err != nil {
		t.Fatal(err)
	}
	c, err := dialControl(l.dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if _, err := Do(c, CreateAccount{Name: "a"}); err != nil {
		t.Fatal(err)
	}
	if _, err := l.CreateAccount("b"); err != nil {
		t.Fatal(err)
	}
	list := (&desk{l.Ledger, t}).audit()
	if len(list) != 2 || list[0].From != "control socket" || list[1].From != "command line" ||
		!strings.HasPrefix(list[0].Who, "uid ") || list[0].Who != list[1].Who {
		t.Errorf("the log has %+v", list)
	}
}

// "The answer was lost, I sent it again, and there are two keys now."
func TestARepeatWithTheSameIdempotencyKeyGivesTheFirstAnswer(t *testing.T) {
	t.Parallel()
	onBothEngines(t, func(d *desk) {
		for i, op := range [][2]string{
			{"create_account", `{"name":"acme"}`},
			{"create_key", `{"account":"acme","type":"INFERENCE"}`},
			{"credit_account", `{"account":"acme","currency":"USD","amount":"5"}`},
			{"suspend_account", `{"account":"acme"}`},
			{"resume_account", `{"account":"acme"}`},
			{"set_allowance", `{"account":"acme","daily":"5"}`},
			{"debit_account", `{"account":"acme","currency":"USD","amount":"1","ref":"d","memo":"m"}`},
			{"refund_account", `{"account":"acme","currency":"USD","amount":"1","ref":"f"}`},
			{"create_token", `{"name":"ci","role":"billing","ends":"2040-01-01T00:00:00Z"}`},
		} {
			act := boss.as(fmt.Sprint("k", i))
			first := d.do(act, op[0], op[1])
			for range 2 {
				if again := d.do(act, op[0], op[1]); again != first {
					t.Errorf("%s gives\n%s\nand then\n%s", op[0], first, again)
				}
			}
			d.refuse(ErrOtherQuery, act, "create_account", `{"name":"other"}`)
			other := act
			other.By.Name = "another"
			_, _ = d.Perform(t.Context(), other, "create_account", []byte(fmt.Sprintf(`{"name":"by another %d"}`, i)))
		}
		d.do(boss.as("late"), "suspend_account", `{"account":"acme"}`)
		if again := d.do(boss.as("k1"), "create_key", `{"account":"acme","type":"INFERENCE"}`); member(t, again, "secret") == "" {
			t.Errorf("a repeat for a suspended account gives %s", again)
		}
		keys, err := d.Keys("acme")
		if err != nil || len(keys) != 1 {
			t.Errorf("there are %d keys (%v)", len(keys), err)
		}
		if r, err := d.Verify(); err != nil || len(r.Faults) > 0 {
			t.Errorf("%+v %v", r, err)
		}
	})
}

// "Two clicks at once made two tokens."
func TestRacingRepeatsAreOneChange(t *testing.T) {
	t.Parallel()
	onBothEngines(t, func(d *desk) {
		answers := make([]string, 8)
		var wg sync.WaitGroup
		for i := range answers {
			wg.Go(func() {
				answer, err := d.Perform(t.Context(), boss.as("same"), "create_token",
					[]byte(`{"name":"ci","role":"billing","ends":"2040-01-01T00:00:00Z"}`))
				text, _ := json.Marshal(answer)
				if answers[i] = string(text); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		for _, a := range answers {
			if a != answers[0] {
				t.Errorf("%s\n%s", answers[0], a)
			}
		}
		if list, err := Do(d.Ledger, ListTokens{}); err != nil || len(list.Items) != 1 || len(d.audit()) != 1 {
			t.Errorf("%+v %v, and %d in the log", list, err, len(d.audit()))
		}
	})
}

// "The bank file was booked twice, once as a credit and once as a refund."
func TestAReferenceBooksOnceInTheWholeStore(t *testing.T) {
	t.Parallel()
	onBothEngines(t, func(d *desk) {
		d.do(boss, "create_account", `{"name":"a"}`)
		d.do(boss, "create_account", `{"name":"b"}`)
		type op struct{ name, query string }
		credit := op{"credit_account", `{"account":"a","currency":"USD","amount":"5","ref":"x","memo":"wire"}`}
		debit := op{"debit_account", `{"account":"a","currency":"USD","amount":"2","ref":"y","memo":"wire"}`}
		owed := op{"debit_account", `{"account":"b","currency":"USD","amount":"2","ref":"z","memo":"wire","mayOwe":true}`}
		for _, o := range []op{credit, debit, owed} {
			first := d.do(boss, o.name, o.query)
			again := d.do(boss, o.name, o.query)
			if member2(t, first, "booking") != member2(t, again, "booking") || member2(t, first, "booking") == "" ||
				member(t, first, "applied") != "true" || member(t, again, "applied") != "false" {
				t.Errorf("%s gives\n%s\nand then\n%s", o.name, first, again)
			}
		}
		for _, o := range []op{
			{"credit_account", `{"account":"a","currency":"USD","amount":"6","ref":"x"}`},
			{"credit_account", `{"account":"a","currency":"DIEM","amount":"5","ref":"x"}`},
			{"credit_account", `{"account":"b","currency":"USD","amount":"5","ref":"x"}`},
			{"refund_account", `{"account":"a","currency":"USD","amount":"5","ref":"x"}`},
			{"debit_account", `{"account":"a","currency":"USD","amount":"1","ref":"x","memo":"m"}`},
		} {
			var taken *RefError
			if err := d.refuse(ErrRef, boss, o.name, o.query); !errors.As(err, &taken) || taken.Booking.Account != "a" ||
				taken.Booking.Kind != "credit" || taken.Booking.Amount != 5*usd || taken.Booking.Memo != "wire" {
				t.Errorf("%s: %v", o.query, err)
			}
		}
		d.refuse(ErrRef, boss, "debit_account", `{"account":"a","currency":"USD","amount":"1","ref":"y","memo":"m"}`)
		d.refuse(ErrRef, boss, "debit_account", `{"account":"a","currency":"DIEM","amount":"2","ref":"y","memo":"m","mayOwe":true}`)
		for _, own := range []string{"diem:x", "job:1", "payment:2"} {
			d.refuse(nil, boss, "credit_account", `{"account":"a","currency":"USD","amount":"1","ref":"`+own+`"}`)
			d.refuse(nil, boss, "debit_account", `{"account":"a","currency":"USD","amount":"1","ref":"`+own+`","memo":"m"}`)
		}
		if n := len(d.audit()); n != 5 {
			t.Errorf("%d entries in the audit log, expected 5", n)
		}
		if r, err := d.Verify(); err != nil || len(r.Faults) > 0 {
			t.Errorf("%+v %v", r, err)
		}
	})
}

// "The support desk gave away 400 USD in one night: it clicked eight times at once."
func TestSupportCreditsAreBoundedByDay(t *testing.T) {
	t.Parallel()
	onBothEngines(t, func(d *desk) {
		d.do(boss, "create_account", `{"name":"a"}`)
		support := Act{By: Actor{Name: "sue", Role: MaySupport, From: "x", MaxCredit: 10 * usd}}
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				_, err := d.Perform(t.Context(), support, "credit_account",
					fmt.Appendf(nil, `{"account":"a","currency":"USD","amount":"3","ref":"s%d"}`, i))
				if err != nil && !errors.Is(err, ErrMostCredit) {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		list, err := d.ListAccounts()
		if err != nil || list[0].USD != 9*usd {
			t.Fatalf("%s were credited (%v)", list[0].USD, err)
		}
		d.do(support, "credit_account", `{"account":"a","currency":"USD","amount":"1","ref":"last"}`)
		d.do(support, "credit_account", `{"account":"a","currency":"USD","amount":"1","ref":"last"}`)
		d.refuse(ErrMostCredit, support, "credit_account", `{"account":"a","currency":"USD","amount":"0.000000001"}`)
		other := support
		other.By.Name = "tom"
		d.do(other, "credit_account", `{"account":"a","currency":"USD","amount":"10"}`)
		other.By.MaxCredit = 0
		d.refuse(ErrMostCredit, other, "credit_account", `{"account":"a","currency":"USD","amount":"0.000000001"}`)
		d.refuse(ErrNotAllowed, support, "refund_account", `{"account":"a","currency":"USD","amount":"1","ref":"r"}`)
		d.do(boss, "credit_account", `{"account":"a","currency":"USD","amount":"100"}`)
	})
}

// "The intern's token from last year still works."
func TestTokensEndAndAreRevoked(t *testing.T) {
	l := openLedger(t)
	d := &desk{l.Ledger, t}
	made := d.do(boss, "create_token", `{"name":"ci","role":"support","ends":"2026-11-22T12:00:00Z","max_credit":"7"}`)
	secret := member(t, made, "secret")
	info, err := d.OperatorToken(secret)
	if err != nil || info.Name != "ci" || info.Role != MaySupport || info.MaxCredit != 7*usd || len(secret) != 36 {
		t.Errorf("%+v %v", info, err)
	}
	for _, wrong := range []string{"", "fbo_", secret[:35], secret + "a", "fbo_" + strings.Repeat("a", 32)} {
		if _, err := d.OperatorToken(wrong); !errors.Is(err, ErrNoToken) {
			t.Errorf("%q: %v", wrong, err)
		}
	}
	l.clock.advance(24 * time.Hour)
	if _, err := d.OperatorToken(secret); !errors.Is(err, ErrNoToken) {
		t.Errorf("a token that ended: %v", err)
	}
	second := d.do(boss, "create_token", `{"name":"ci","role":"support","ends":"2026-12-22T12:00:00Z"}`)
	d.do(boss, "revoke_token", `{"id":"`+member(t, second, "id")+`"}`)
	if _, err := d.OperatorToken(member(t, second, "secret")); !errors.Is(err, ErrNoToken) {
		t.Errorf("a token that was revoked: %v", err)
	}
	list := d.do(boss, "list_tokens", ``)
	if strings.Contains(list, secret) || strings.Count(list, `"id"`) != 2 {
		t.Errorf("the list is %s", list)
	}
	d.refuse(ErrNoToken, boss, "revoke_token", `{"id":"x"}`)
	for _, bad := range []string{`{"name":"x","role":"root","ends":"2040-01-01T00:00:00Z"}`, `{"name":"x","role":"owner"}`,
		`{"name":"x","ends":"2040-01-01T00:00:00Z"}`, `{"role":"owner","ends":"2040-01-01T00:00:00Z"}`,
		`{"name":"x","role":"owner","ends":"2020-01-01T00:00:00Z"}`} {
		d.refuse(nil, boss, "create_token", bad)
	}
}

// "Two colleagues edited the customer at once, and the tax id of one was lost."
func TestAProfileChangesWithItsVersion(t *testing.T) {
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
func TestAnErasedAccountIsNobodys(t *testing.T) {
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
			{"list_audit", ``}, {"list_reviews", ``}, {"list_wallets", `{"most":10}`}, {"list_tokens", ``}} {
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
	t.Parallel()
	onBothEngines(t, func(d *desk) {
		for i := range 7 {
			d.do(boss, "create_account", fmt.Sprintf(`{"name":"a%d","external_id":"x%d"}`, i, i))
			d.do(boss, "credit_account", fmt.Sprintf(`{"account":"a%d","currency":"USD","amount":"1","ref":"r%d"}`, i, i))
			d.do(boss, "create_key", fmt.Sprintf(`{"account":"a%d","type":"INFERENCE"}`, i%2))
			d.do(boss, "create_token", fmt.Sprintf(`{"name":"t%d","role":"read-only","ends":"2040-01-01T00:00:00Z"}`, i))
		}
		for name, most := range map[string]int{"list_accounts": 7, "list_keys": 7, "list_tokens": 7, "list_audit": 28,
			"list_jobs": 0, "list_payments": 0, "list_wallets": 0} {
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
		last := member(t, d.pages("list_keys", "", 500)[2], "last6Chars")
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
		d.do(boss, "debit_account", `{"account":"b","currency":"USD","amount":"50","ref":"owe","memo":"typo","mayOwe":true}`)
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
	l := openLedger(t)
	d := &desk{l.Ledger, t}
	l.account("a", usd)
	made := d.do(boss, "create_key", `{"account":"a","type":"INFERENCE","description":"prod","limitUSD":"5","period":"MONTH"}`)
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
	if info := member2(t, rotated, "info"); member(t, info, "description") != "prod" || member(t, info, "limitUSD") != "5" {
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
