package billing

import (
	"fmt"
	"strings"
	"testing"

	"farebox/bench/upstream"
	"farebox/tests/rig"
)

// The daily allowance is set beside a running server and without one, is spent
// before all else, is not given twice, and refunds come back in DIEM.
func TestDailyAllowance(t *testing.T) {
	t.Parallel()
	sim := rig.StartUpstream(t, upstream.Options{})
	g := rig.StartGateway(t, strings.Replace(fmt.Sprintf(rig.PrepaidConfig, sim.URL), "input: 1, output: 2",
		"input: 1000, output: 2000", 1))
	g.NewAccount("a", "10")
	key := g.Key("a")
	g.CLI("account", "diem", "a", "--daily", "5")
	if a := g.Accounts()["a"]; a.DIEM != 5_000_000_000 || a.USD != 10_000_000_000 {
		t.Fatalf("after the first allowance the account is %+v", a)
	}
	body := rig.Ask("sim-chat", "[[sim tokens=500]] Hello", `,"max_completion_tokens":500`)
	g.Must(200, "POST", "/chat/completions", key, body, nil)
	a := g.Settled()["a"]
	if a.USD != 10_000_000_000 || a.DIEM != 5_000_000_000-a.Spent || a.Spent < 1_000_000_000 {
		t.Errorf("a request was paid as %+v", a)
	}
	if err := g.Stop(); err != nil {
		t.Fatal(err)
	}
	if again := g.Accounts()["a"]; again != a {
		t.Errorf("without a server the account is %+v, before %+v", again, a)
	}
	for range 2 {
		g.CLI("account", "diem", "a", "--daily", "5")
		g.CLI("account", "refund", "a", a.Spent.String(), "--currency", "DIEM", "--ref", "request-1")
	}
	g.Start()
	if again := g.Accounts()["a"]; again.DIEM != 5_000_000_000 || again.USD != a.USD || again.Spent != 0 { // net of the refund
		t.Errorf("after one refund the account is %+v", again)
	}
	g.Kill()
	g.Start()
	if again := g.Accounts()["a"]; again.DIEM != 5_000_000_000 {
		t.Errorf("after kill -9 there are %s DIEM", again.DIEM)
	}
	for _, bad := range [][]string{
		{"account", "diem", "a", "--daily", "0.01"}, {"account", "diem", "nobody", "--daily", "1"},
		{"account", "diem", "a", "--daily", "-1"}, {"account", "diem", "a"},
		{"account", "refund", "a", "1"}, {"account", "refund", "a", "9", "--ref", "request-1", "--currency", "DIEM"},
		{"account", "refund", "a", "1", "--ref", "x", "--currency", "EUR"},
	} {
		if out, err := g.TryCLI(bad...); err == nil {
			t.Errorf("farebox %s was carried out: %s", strings.Join(bad, " "), out)
		}
	}
}

// A key's DIEM limit ends a request even while there is USD; with the
// operator's switch the USD pays on.
func TestDIEMLimitOfAKey(t *testing.T) {
	t.Parallel()
	sim := rig.StartUpstream(t, upstream.Options{})
	text := strings.Replace(fmt.Sprintf(rig.PrepaidConfig, sim.URL), "input: 1, output: 2", "input: 1000, output: 2000",
		1)
	body := rig.Ask("sim-chat", "[[sim tokens=200]] Hello", `,"max_completion_tokens":200`)
	for _, through := range []bool{false, true} {
		g := rig.StartGateway(t, strings.Replace(text, "minimum_balance: 0,",
			fmt.Sprintf("minimum_balance: 0, key_limit_fallthrough: %v,", through), 1))
		g.NewAccount("a", "10")
		g.CLI("account", "diem", "a", "--daily", "5")
		key := g.Key("a", "--limit-diem", "0.5")
		for range 2 {
			status, _, answer := g.Post("/chat/completions", key, body)
			if through && status != 200 || !through && status == 402 &&
				!strings.Contains(string(answer), "API_KEY_DIEM_SPEND_LIMIT_EXCEEDED") {
				t.Errorf("fall-through %v: answered %d %s", through, status, answer)
			}
		}
		a := g.Settled()["a"]
		if a.DIEM < 4_500_000_000 || (a.USD == 10_000_000_000) == through {
			t.Errorf("fall-through %v: the account is %+v", through, a)
		}
		if !through {
			g.Must(402, "POST", "/chat/completions", key, body, nil)
		}
	}
}
