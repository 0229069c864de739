package account

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"farebox/tests/rig"
)

// Keys made, changed and deleted on one node are so on the others, at the
// latest within a second; refusals and limits are those of the account.
func TestKeysAreTheSameOnAllNodes(t *testing.T) {
	t.Parallel()
	c := rig.StartCluster(t, 2)
	a, b := c.Nodes[0], c.Nodes[1]
	a.NewAccount("a", "10")
	admin := a.Key("a", "--type", "ADMIN")
	body := rig.Ask("sim-chat", "[[sim tokens=2]] Hello", "")

	var m made
	a.Must(200, "POST", "/api_keys", admin, `{"description":"shared"}`, &m)
	id, secret := m.Data.ID, m.Data.APIKey
	for _, g := range c.Nodes {
		g.Must(200, "POST", "/chat/completions", secret, body, nil)
	}
	var one struct{ Data apiKey }
	b.Must(200, "GET", "/api_keys/"+id, admin, "", &one)
	if one.Data.Description != "shared" || one.Data.LastUsedAt == nil {
		t.Errorf("the other node shows %+v", one.Data)
	}

	rig.Soon(t, "a limit, or a lifted one", time.Second, func(int) time.Duration {
		a.Must(200, "PATCH", "/api_keys", admin, `{"id":"`+id+`","consumption_limit":{"usd":0}}`, nil)
		limited := rig.Took(t, "the limit holds", func() bool {
			status, _, answer := b.Post("/chat/completions", secret, body)
			return status == 402 && strings.Contains(string(answer), "API_KEY_USD_SPEND_LIMIT_EXCEEDED")
		})
		b.Must(200, "PATCH", "/api_keys", admin, `{"id":"`+id+`","consumption_limit":null,"description":"again"}`, nil)
		return max(limited, rig.Took(t, "the limit is lifted", func() bool {
			status, _, _ := a.Post("/chat/completions", secret, body)
			return status == 200
		}))
	})

	// Both nodes change one key at once: nothing is lost.
	var wg sync.WaitGroup
	for i, g := range c.Nodes {
		wg.Go(func() {
			for n := range 20 {
				change := fmt.Sprintf(`{"id":%q,"description":"%d"}`, id, n)
				if i == 1 {
					change = fmt.Sprintf(`{"id":%q,"consumptionLimit":{"diem":%d}}`, id, n)
				}
				g.Must(200, "PATCH", "/api_keys", admin, change, nil)
			}
		})
	}
	wg.Wait()
	a.Must(200, "GET", "/api_keys/"+id, admin, "", &one)
	if one.Data.Description != "19" || string(one.Data.ConsumptionLimits.DIEM) != "19" {
		t.Errorf("after changes from both sides the key is %+v", one.Data)
	}

	few := rig.Ask("sim-few", "[[sim tokens=2]] Hello", "")
	refused := false
	for range 200 {
		if status, _, _ := b.Post("/chat/completions", secret, few); status == 429 {
			refused = true
			break
		}
	}
	if !refused {
		t.Fatal("200 requests passed a limit of 30 a minute")
	}
	rig.Await(t, "the refusal is in the log", func() bool {
		var l limitLog
		a.Must(200, "GET", "/api_keys/rate_limits/log", admin, "", &l)
		return len(l.Data) == 1 && l.Data[0].ModelID == "sim-few" && l.Data[0].APIKeyID == id &&
			l.Data[0].RateLimitType == "RPM"
	})

	rig.Soon(t, "a deletion", time.Second, func(try int) time.Duration {
		if try > 0 {
			a.Must(200, "POST", "/api_keys", admin, `{"description":"another"}`, &m)
			a.Must(200, "POST", "/chat/completions", m.Data.APIKey, body, nil)
		}
		b.Must(200, "DELETE", "/api_keys?id="+m.Data.ID, admin, "", nil)
		b.Must(401, "POST", "/chat/completions", m.Data.APIKey, body, nil)
		return rig.Took(t, "the key is refused", func() bool {
			status, _, _ := a.Post("/chat/completions", m.Data.APIKey, body)
			return status == 401
		})
	})
}

// A token that one node made makes one key, on whichever nodes it is sent to.
func TestTokenWorksOnceOnAllNodes(t *testing.T) {
	t.Parallel()
	c := rig.StartCluster(t, 2)
	w := newWallet(t)
	c.Nodes[0].NewAccount(w.address, "1")
	for round := range 5 {
		token := web3Token(c.Nodes[round%2])
		body := web3Body(w.address, w.sign(token), token, "")
		var got atomic.Int64
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				switch status, _, answer := c.Nodes[i%2].Post(rig.Web3Path, "", body); status {
				case 200:
					got.Add(1)
				case 400, 429:
				default:
					t.Errorf("answered %d %s", status, answer)
				}
			})
		}
		wg.Wait()
		if got.Load() != 1 {
			t.Errorf("one token made %d keys", got.Load())
		}
	}
}

// "A node that I had not asked before showed a balance and limits that were
// long used up."
func TestAnIdleNodeReportsTheUseOfOthers(t *testing.T) {
	t.Parallel()
	c := rig.StartCluster(t, 2)
	a, b := c.Nodes[0], c.Nodes[1]
	for _, g := range c.Nodes {
		was, err := os.ReadFile(g.Config)
		if err != nil {
			t.Fatal(err)
		}
		text := strings.Replace(string(was), "limits: {", "limits: { key: { rpm: 100, rpmonth: 400 },", 1)
		g.WriteConfig(text)
	}
	a.NewAccount("a", "10")
	admin, key := a.Key("a", "--type", "ADMIN"), a.Key("a")
	limits := func(g *rig.Gateway) (r rateLimits) {
		g.Must(200, "GET", "/api_keys/rate_limits", key, "", &r)
		return r
	}
	rig.Await(t, "both have the limits of the config", func() bool {
		return limits(a).Data.Windows.Month.Limit != nil && limits(b).Data.Windows.Month.Limit != nil
	})
	for range 12 {
		a.Must(200, "POST", "/chat/completions", key, rig.Ask("sim-chat", "[[sim tokens=2]] Hello", ""), nil)
	}
	rig.Await(t, "the other node's use is known", func() bool {
		d := limits(b).Data
		w := d.Windows
		return w.Month.Used == 12 && *w.Month.Remaining == 388 && string(d.Balances.USD) != "10"
	})
	var balance struct {
		Balances struct{ USD json.Number }
	}
	b.Must(200, "GET", "/billing/balance", admin, "", &balance)
	if d := limits(b).Data; string(d.Balances.USD) != balance.Balances.USD.String() {
		t.Errorf("the limits say %s, the balance is %s", d.Balances.USD, balance.Balances.USD)
	}
}
