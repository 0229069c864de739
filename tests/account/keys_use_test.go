package account

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"farebox/bench/upstream"
	"farebox/tests/rig"
)

// A deleted key is refused from the answer on, whatever is under way with it.
func TestDeletedKeyIsRefusedAtOnceUnderLoad(t *testing.T) {
	t.Parallel()
	_, g := rig.StartPrepaid(t, "10")
	admin := g.Key("a", "--type", "ADMIN")
	for round := range 5 {
		id, secret := g.NewKey("a")
		var deleted, served atomic.Bool
		var wg sync.WaitGroup
		for range 16 {
			wg.Go(func() {
				for n := 0; ; {
					was := deleted.Load()
					status, _, answer := g.Post("/chat/completions", secret, rig.Ask("sim-free", "Hello", ""))
					switch {
					case status == 200 && was:
						t.Errorf("round %d: served after the deletion was confirmed", round)
						return
					case status == 200:
						served.Store(true)
					case status != 401:
						t.Errorf("round %d: answered %d %s", round, status, answer)
						return
					}
					if was {
						if n++; n == 3 {
							return
						}
					}
				}
			})
		}
		time.Sleep(100 * time.Millisecond)
		rig.Await(t, "the key is served", served.Load)
		g.Must(200, "DELETE", "/api_keys?id="+id, admin, "", nil)
		deleted.Store(true)
		wg.Wait()
	}
}

// Changing a key under load neither loses its recorded use nor lets it spend more than its limit.
func TestKeyChangesUnderLoadKeepTheCount(t *testing.T) {
	t.Parallel()
	_, g := rig.StartPrepaid(t, "10")
	admin := g.Key("a", "--type", "ADMIN")
	id, secret := g.NewKey("a", "--limit-usd", "0.01", "--limit-period", "LIFETIME")
	stop := make(chan struct{})
	var patches sync.WaitGroup
	patches.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			g.Must(200, "PATCH", "/api_keys", admin, fmt.Sprintf(`{"id":%q,"description":"change %d"}`, id, i), nil)
			if i%4 == 0 {
				// The limit is lifted, set again and changes its period, too.
				g.Must(200, "PATCH", "/api_keys", admin, fmt.Sprintf(`{"id":%q,"limit_period":%q}`, id,
					[]string{"MONTH", "EPOCH", "LIFETIME"}[i/4%3]), nil)
			}
		}
	})
	var wg sync.WaitGroup
	var ok, unread atomic.Int64
	for range 8 {
		wg.Go(func() {
			for {
				status, _, answer := g.Post("/chat/completions", secret,
					rig.Ask("sim-chat", "[[sim tokens=100]] Hello", `,"max_completion_tokens":100`))
				switch status {
				case 200:
					ok.Add(1)
				case 402:
					if !strings.Contains(string(answer), "API_KEY_USD_SPEND_LIMIT_EXCEEDED") {
						t.Errorf("refused with %s", answer)
					}
					return
				case 503: // the store of keys has no time: it asks for another try
					if unread.Add(1) > 100 {
						t.Errorf("answered %d %s", status, answer)
						return
					}
				default:
					t.Errorf("answered %d %s", status, answer)
					return
				}
			}
		})
	}
	wg.Wait()
	close(stop)
	patches.Wait()
	a := g.Settled()["a"]
	if a.Spent > 10_000_000 || a.Spent < 9_000_000 || a.USD+a.Spent != 10_000_000_000 {
		t.Errorf("%d requests spent %s on a limit of 0.01; the account is %+v", ok.Load(), a.Spent, a)
	}
	g.Must(200, "PATCH", "/api_keys", admin, `{"id":"`+id+`","consumptionLimit":{"usd":1}}`, nil)
	g.Must(200, "POST", "/chat/completions", secret, rig.Ask("sim-chat", "Hello", ""), nil)
}

// A key's use is shown in decimal strings, exact from the charges.
func TestKeyUseIsShown(t *testing.T) {
	t.Parallel()
	sim := rig.StartUpstream(t, upstream.Options{})
	g := rig.StartGateway(t, strings.Replace(fmt.Sprintf(rig.PrepaidConfig, sim.URL), "input: 1, output: 2",
		"input: 1000, output: 2000", 1))
	g.NewAccount("a", "100")
	g.Credit("a", "0.5", "--currency", "DIEM")
	admin := g.Key("a", "--type", "ADMIN")
	id, secret := g.NewKey("a", "--limit-usd", "50", "--limit-diem", "10", "--limit-period", "MONTH")
	for range 4 {
		g.Must(200, "POST", "/chat/completions", secret, rig.Ask("sim-chat", "[[sim tokens=77]] Hello",
			`,"max_completion_tokens":77`), nil)
	}
	a := g.Settled()["a"]
	if a.DIEM != 0 || a.Spent < 500_000_000 {
		t.Fatalf("the account is %+v", a)
	}
	fixed := func(n rig.Money) string {
		n = (n + 50_000) / 100_000
		return fmt.Sprintf("%d.%04d", n/10_000, n%10_000)
	}
	var one struct{ Data apiKey }
	want := fixed(a.Spent - 500_000_000)
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		g.Must(200, "GET", "/api_keys/"+id, admin, "", &one)
		if u := one.Data.Usage.TrailingSevenDays; u.USD == want && u.DIEM == "0.5000" && u.VCU == "5.0000" {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("spent %s; shown as %+v, want %s USD", a.Spent, one.Data.Usage, want)
		}
	}
	if c := one.Data.CurrentPeriodUsage; c == nil || c.USD != want || c.DIEM != "0.5000" {
		t.Errorf("the current period is %+v, want %s", c, want)
	}
}
