package operator

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"farebox/bench/servers"
	"farebox/tests/rig"
)

// sentChange is sent until it is answered, and again.
type sentChange struct{ path, body, key string }

const onceAccounts = 3

// sentChanges are changes of all kinds that book money, and some that make keys.
func sentChanges(random *rand.Rand, n int) (list []sentChange) {
	for i := range n {
		account := fmt.Sprintf("/accounts/a%d", random.IntN(onceAccounts))
		money := fmt.Sprintf(`{"currency":%q,"amount":"%d","ref":"r%d","memo":"m"`, []string{"USD", "BUNDLED_CREDITS"}[random.IntN(2)],
			1+random.IntN(9), i)
		switch random.IntN(7) {
		case 0:
			list = append(list, sentChange{account + "/keys", `{"type":"INFERENCE"}`, fmt.Sprint("k", i)})
		case 1:
			list = append(list, sentChange{account + "/refunds", money + "}", ""})
		case 2:
			list = append(list, sentChange{account + "/debits", money + `,"may_owe":true}`, ""})
		case 3:
			list = append(list, sentChange{account + "/credits", `{"currency":"USD","amount":"3"}`, fmt.Sprint("k", i)})
		default:
			list = append(list, sentChange{account + "/credits", money + "}", ""})
		}
	}
	return list
}

// try sends a change. A lost answer, or one of a server that stops, is not a failure.
func (d *desk) try(c sentChange) {
	req, _ := http.NewRequest("POST", d.base+c.path, strings.NewReader(c.body))
	for name, value := range map[string]string{"X-Forwarded-User": "boss", "X-Farebox-Proxy-Secret": secret, "X-Farebox-Operator": "1",
		"Content-Type": "application/json", "Idempotency-Key": c.key} {
		if value != "" {
			req.Header.Set(name, value)
		}
	}
	if res, err := rig.Client.Do(req); err == nil {
		if res.StatusCode != 200 && res.StatusCode != 503 {
			d.t.Errorf("POST %s %s is answered %d", c.path, c.body, res.StatusCode)
		}
		_ = res.Body.Close()
	}
}

// "The connection broke, the import ran again, and the books were off." Changes are sent more than
// once, in any order, beside traffic, and the process is killed meanwhile: by the API alone, the
// statement, the entries, the balance and a recount say the same.
func TestChangesOverHTTPAreMadeOnce(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(t *testing.T) *desk{
		"sqlite":   newDesk,
		"postgres": func(t *testing.T) *desk { _, list := nodesOf(t, 1, ""); return list[0] },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sendTwice(t, open(t), 3, 40)
		})
	}
}

func TestLongChangesOverHTTPAreMadeOnce(t *testing.T) {
	sendTwice(t, newDesk(t), servers.Campaign(20), 200)
	_, list := nodesOf(t, 1, "")
	sendTwice(t, list[0], servers.Campaign(20), 200)
}

func sendTwice(t *testing.T, d *desk, rounds, changes int) {
	seeded := rig.Seeded(t)
	var keys []string
	for i := range onceAccounts {
		d.must("POST", "/accounts", fmt.Sprintf(`{"name":"a%d"}`, i))
		keys = append(keys, d.must("POST", fmt.Sprintf("/accounts/a%d/keys", i), `{"type":"INFERENCE"}`).Get("secret").Str)
	}
	list := sentChanges(seeded(1), changes)
	var whole atomic.Int64
	for round := range uint64(rounds) {
		random, stop := seeded(10+round), make(chan struct{})
		var senders sync.WaitGroup
		for i := range uint64(3) {
			order := seeded(1000*round + i).Perm(len(list))
			senders.Go(func() {
				for _, n := range order {
					select {
					case <-stop:
						return
					default:
						d.try(list[n])
					}
				}
			})
		}
		for _, key := range keys {
			senders.Go(func() { d.buy(key, stop, &whole) })
		}
		time.Sleep(time.Duration(50+random.IntN(400)) * time.Millisecond)
		d.Kill()
		close(stop)
		senders.Wait()
		d.Start()
	}
	for range 2 {
		for _, n := range seeded(2).Perm(len(list)) {
			var headers []string
			if list[n].key != "" {
				headers = append(headers, "Idempotency-Key: "+list[n].key)
			}
			d.must("POST", list[n].path, list[n].body, headers...)
		}
	}
	t.Logf("%d requests were answered", whole.Load())
	d.await(t)
	for i := range onceAccounts {
		d.booksAgree(t, fmt.Sprint("a", i), list)
	}
	made := onceAccounts * 2
	if rows := d.all("/audit"); len(rows) != made+len(list) {
		t.Errorf("the audit log has %d entries, expected %d", len(rows), made+len(list))
	}
	if report := d.must("POST", "/verify", ""); report.Get("faults.#").Int() != 0 || report.Get("open_holds").Int() != 0 {
		t.Errorf("verify: %s", report)
	}
}

// buy sends requests until stop. Answers may be lost with the process.
func (d *desk) buy(key string, stop chan struct{}, whole *atomic.Int64) {
	for {
		select {
		case <-stop:
			return
		default:
		}
		req, _ := http.NewRequest("POST", d.URL+"/chat/completions", strings.NewReader(rig.Ask("sim-chat", "[[sim tokens=50]] Go", "")))
		req.Header.Set("Authorization", "Bearer "+key)
		req.Header.Set("Content-Type", "application/json")
		res, err := rig.Client.Do(req)
		if err != nil {
			time.Sleep(5 * time.Millisecond)
			continue
		}
		if res.StatusCode == 200 {
			whole.Add(1)
		} else {
			time.Sleep(5 * time.Millisecond)
		}
		_ = res.Body.Close()
	}
}

// await waits until the store has all charges of the node.
func (d *desk) await(t *testing.T) {
	t.Helper()
	last := ""
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(1500 * time.Millisecond) {
		now := d.must("GET", "/accounts", "").Raw
		if now == last && !strings.Contains(strings.ReplaceAll(now, `"held":"0"`, ""), `"held":`) {
			return
		}
		last = now
	}
	t.Fatalf("the balances do not come to rest: %s", last)
}

// all reads all pages of a list.
func (d *desk) all(path string) (rows []gjson.Result) {
	d.t.Helper()
	join := "?"
	if strings.Contains(path, "?") {
		join = "&"
	}
	for cursor := ""; ; {
		page := d.must("GET", path+join+"limit=50&cursor="+cursor, "")
		rows = append(rows, page.Get("data").Array()...)
		if cursor = page.Get("next_cursor").Str; cursor == "" {
			return rows
		}
	}
}

// booksAgree compares an account's statement, entries, usage and balance with the sent changes.
func (d *desk) booksAgree(t *testing.T, account string, list []sentChange) {
	t.Helper()
	sent, keys := map[string]rig.Money{}, 1
	for _, c := range list {
		if of, kind, _ := strings.Cut(strings.TrimPrefix(c.path, "/accounts/"), "/"); of == account {
			if kind == "keys" {
				keys++
				continue
			}
			sent[strings.TrimSuffix(kind, "s")] += moneyOf(t, gjson.Get(c.body, "amount"))
		}
	}
	for _, kind := range []string{"credit", "refund", "debit"} {
		var sum rig.Money
		for _, b := range d.all("/money-in?account=" + account + "&kind=" + kind) {
			sum += moneyOf(t, b.Get("amount"))
		}
		if sum != sent[kind] {
			t.Errorf("%s: entries of %ss add up to %s, sent were %s", account, kind, sum, sent[kind])
		}
	}
	info := d.must("GET", "/accounts/"+account, "")
	var all, consumed rig.Money
	for currency, name := range map[string]string{"USD": "usd", "DIEM": "diem", "BUNDLED_CREDITS": "bundled"} {
		var sum rig.Money
		for after := int64(0); ; {
			part := d.must("GET", fmt.Sprintf("/accounts/%s/statement?currency=%s&most=20&after=%d", account, currency, after), "")
			for _, line := range part.Get("lines").Array() {
				n := moneyOf(t, line.Get("amount"))
				sum += n
				switch line.Get("kind").Str {
				case "CHARGE", "REFUND", "DEBT", "WAIVED":
					consumed -= n
				}
			}
			if after = part.Get("next").Int(); after == 0 {
				break
			}
		}
		has := moneyOf(t, info.Get(name)) + moneyOf(t, info.Get("leased."+name)) + moneyOf(t, info.Get("held"))
		if sum != has {
			t.Errorf("%s: the statement adds up to %s %s, the balance is %s: %s", account, sum, currency, has, info)
		}
		all += has
	}
	var used rig.Money
	for _, row := range d.all("/revenue?by=account&from=2020-01-01T00:00:00Z&account=" + account) {
		used += moneyOf(t, row.Get("usd")) + moneyOf(t, row.Get("diem")) + moneyOf(t, row.Get("bundled"))
	}
	if used != consumed {
		t.Errorf("%s: the usage is %s, by the statement %s", account, used, consumed)
	}
	// Refunds are in the usage, too, as less of it.
	if want := sent["credit"] - sent["debit"] - used; all-moneyOf(t, info.Get("debt")) != want {
		t.Errorf("%s: %s and debt of %s are left, expected %s", account, all, info.Get("debt"), want)
	}
	if rows := d.all("/keys?account=" + account); len(rows) != keys {
		t.Errorf("%s has %d keys, expected %d", account, len(rows), keys)
	}
}

func moneyOf(t *testing.T, v gjson.Result) (n rig.Money) {
	t.Helper()
	if !v.Exists() {
		return 0
	}
	if err := n.UnmarshalJSON([]byte(v.Raw)); err != nil {
		t.Fatalf("%s: %v", v.Raw, err)
	}
	return n
}
