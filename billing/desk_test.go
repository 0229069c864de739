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

// as returns a call of the operator with another idempotency key.
func (a Act) as(key string) Act {
	a.Key = key
	return a
}

// do performs an operation that succeeds, and returns its answer in JSON.
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

// audit returns the audit log, the oldest entry first.
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

// member returns a member of a JSON object.
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
	servers.NoRace(t)
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
		d.do(act, "change_key", `{"id":"`+id+`","description":"new"}`)
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

// member2 returns a member of an object in a JSON object.
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
	servers.NoRace(t)
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
	servers.NoRace(t)
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
	servers.NoRace(t)
	t.Parallel()
	onBothEngines(t, func(d *desk) {
		d.do(boss, "create_account", `{"name":"a"}`)
		d.do(boss, "create_account", `{"name":"b"}`)
		type op struct{ name, query string }
		credit := op{"credit_account", `{"account":"a","currency":"USD","amount":"5","ref":"x","memo":"wire"}`}
		debit := op{"debit_account", `{"account":"a","currency":"USD","amount":"2","ref":"y","memo":"wire"}`}
		owed := op{"debit_account", `{"account":"b","currency":"USD","amount":"2","ref":"z","memo":"wire","may_owe":true}`}
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
		d.refuse(ErrRef, boss, "debit_account", `{"account":"a","currency":"DIEM","amount":"2","ref":"y","memo":"m","may_owe":true}`)
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
	servers.NoRace(t)
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
