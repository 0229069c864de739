package operator

import (
	"bufio"
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"farebox/bench/upstream"
	"farebox/tests/rig"
)

// askedConfig has a model with two upstreams, and one with few requests a minute.
const askedConfig = `
log: { level: warn, format: json }
billing: { minimum_balance: 0, stream_slice_tokens: 64 }
limits: { failed_requests: { count: 0 }, tiers: { scarce: { rpm: 2 } } }
upstreams:
  - { name: first, base_url: %[1]s, retry_safe: true, breaker: { failures: 0 } }
  - { name: second, base_url: %[1]s, retry_safe: true, breaker: { failures: 0 } }
models:
  - id: sim-chat
    tier: unlimited
    context_tokens: 128000
    max_completion_tokens: 1000
    capabilities: { reasoning: false }
    price: { input: 1, output: 2 }
    targets: [{ upstream: first, priority: 1 }, { upstream: second, priority: 2 }]
  - id: sim-few
    tier: scarce
    context_tokens: 128000
    max_completion_tokens: 1000
    capabilities: { reasoning: false }
    price: { input: 1, output: 2 }
    targets: [{ upstream: first, model: sim-chat }]
`

// marker is in every prompt and must be in no row.
const marker = "What-nobody-else-may-read"

func newAskedDesk(t *testing.T) (*desk, *rig.Simulated) {
	t.Helper()
	sim := rig.StartUpstream(t, upstream.Options{})
	return deskOf(t, fmt.Sprintf(askedConfig, sim.URL)), sim
}

// ask sends a chat and gives its status and id.
func (d *desk) ask(key, model, scenario, more string) (status int, id string) {
	d.t.Helper()
	status, header, _ := d.Post("/chat/completions", key, rig.Ask(model, scenario+" "+marker, more))
	return status, header.Get("X-Request-Id")
}

// request finds a request by its id, which is there within two seconds.
func (d *desk) request(id string) (found gjson.Result) {
	d.t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		status, _, answer := d.as("reader", "GET", "/requests/"+id, "")
		if status == 200 {
			return gjson.Parse(answer)
		}
		if status != 404 || time.Now().After(end) {
			d.t.Fatalf("GET /requests/%s is answered %d %s", id, status, answer)
		}
	}
}

// expectErrors compares the errors of an upstream by kind. Its credential was accepted just now.
func (d *desk) expectErrors(upstream string, want map[string]int64) {
	d.t.Helper()
	u := d.must("GET", "/upstreams", "").Get(`data.#(upstream=="` + upstream + `")`)
	got := map[string]int64{}
	u.Get("errors_by_kind").ForEach(func(kind, n gjson.Result) bool { got[kind.Str] = n.Int(); return true })
	if !maps.Equal(got, want) {
		d.t.Errorf("%s has the errors %v, expected %v", upstream, got, want)
	}
	if at := u.Get("credential.last_accepted_at").Time(); time.Since(at) > time.Minute {
		d.t.Errorf("the credential of %s was last accepted at %s", upstream, at)
	}
}

// expectRevenue compares the requests of each upstream in the revenue, of which each has some.
func (d *desk) expectRevenue(want map[string]int64) {
	d.t.Helper()
	rows := d.must("GET", "/revenue?by=upstream", "").Get("data").Array()
	for _, r := range rows {
		if n := want[r.Get("id").Str]; r.Get("requests").Int() != n || r.Get("usd").Float() <= 0 {
			d.t.Errorf("of revenue by upstream, %d requests expected: %s", n, r.Raw)
		}
	}
	if len(rows) != len(want) {
		d.t.Errorf("the revenue has %d upstreams: %v", len(rows), rows)
	}
}

// "My customer says that request 0192… failed; what was it?" Each is found by its id, with its sums
// and attempts, and nothing of its prompt is stored.
func TestARequestIsFoundByItsID(t *testing.T) {
	t.Parallel()
	d, _ := newAskedDesk(t)
	d.NewAccount("rich", "10")
	d.NewAccount("poor", "0.00001")
	rich, poor, tight := d.Key("rich"), d.Key("poor"), d.Key("rich", "--limit-usd", "0.00001")
	expect := func(name, id string, want map[string]string) gjson.Result {
		t.Helper()
		r := d.request(id)
		for path, value := range want {
			if got := r.Get(path).String(); got != value {
				t.Errorf("%s: %s is %q, not %q: %s", name, path, got, value, r.Raw)
			}
		}
		return r
	}

	_, id := d.ask(poor, "sim-chat", "", "")
	r := expect("no money", id, map[string]string{"status": "402", "limit": "balance", "had": "0.00001", "account": "poor", "attempts": "0",
		"flags": `["failed","refused"]`, "route": "POST /chat/completions", "model": "sim-chat", "hold": "0"})
	if needed := r.Get("needed").Float(); needed <= 0.00001 {
		t.Errorf("needed: %s", r.Raw)
	}
	_, id = d.ask(tight, "sim-chat", "", "")
	expect("a key's limit", id, map[string]string{"status": "402", "limit": "key_usd", "remaining": "0.00001", "account": "rich"})
	for range 2 {
		d.ask(rich, "sim-few", "", "")
	}
	_, limited := d.ask(rich, "sim-few", "", "")
	expect("a rate limit", limited, map[string]string{"status": "429", "limit": "RPM", "model": "sim-few"})

	status, id := d.ask(rich, "sim-chat", "[[sim id=a status=500 fail_first=1 tokens=5]]", "")
	if r = expect("failover", id, map[string]string{"status": "200", "attempts": "2", "tries.#": "2", "tries.0.upstream": "first",
		"tries.0.status": "500", "tries.1.upstream": "second", "tries.1.status": "200", "flags": `["retried"]`,
		"charge.lines.#": "2"}); status != 200 || r.Get("charge.usd").Float() <= 0 {
		t.Errorf("failover: %d %s", status, r.Raw)
	}
	d.expectRevenue(map[string]int64{"second": 1, "first": 2})
	status, id = d.ask(rich, "sim-chat", "[[sim status=500]]", "")
	d.expectErrors("first", map[string]int64{"server_error": 2})
	d.expectErrors("second", map[string]int64{"server_error": 1})
	r = expect("upstream away", id, map[string]string{"tries.0.status": "500", "tries.1.status": "500", "charge": ""})
	if hold := r.Get("hold").Float(); hold <= 0.001 || r.Get("status").Int() != int64(status) {
		t.Errorf("upstream away: %s", r.Raw)
	}
	_, id = d.ask(rich, "sim-chat", "[[sim cut=rst cut_after=3]]", `,"stream":true`)
	if r = d.request(id); r.Get("cause").Str == "" || !strings.Contains(r.Get("flags").Raw, "incomplete") {
		t.Errorf("a stream that breaks off: %s", r.Raw)
	}
	r = d.request(d.leave(rich))
	if !strings.Contains(r.Get("flags").Raw, "aborted") || r.Get("charge.usd").Float() <= 0 {
		t.Errorf("a client that leaves: %s", r.Raw)
	}
	_, id = d.ask(rich, "sim-chat", "[[sim tokens=7]]", "")
	expect("a plain success", id, map[string]string{"status": "200", "flags": "[]", "charge.lines.1.units": "7", "model": "sim-chat",
		"account": "rich"})
	for _, account := range []string{"rich", "poor"} {
		status, _, _ := d.as("reader", "GET", "/requests/"+id+"?account="+account, "")
		if (status == 200) != (account == "rich") {
			t.Errorf("the request of rich, asked for as one of %s: %d", account, status)
		}
	}
	d.lists()
	d.stores(marker)
}

// leave sends a request and leaves in the middle of its answer.
func (d *desk) leave(key string) (id string) {
	d.t.Helper()
	res := d.Open("POST", "/chat/completions", key, rig.Ask("sim-chat", "[[sim tokens=50 hold_after=10]] "+marker, `,"stream":true`))
	r := bufio.NewReader(res.Body)
	for events := 0; events < 5; {
		line, err := r.ReadString('\n')
		if err != nil {
			d.t.Fatal(err)
		}
		if strings.HasPrefix(line, "data:") {
			events++
		}
	}
	_ = res.Body.Close()
	return res.Header.Get("X-Request-Id")
}

// lists asks for the requests of TestARequestIsFoundByItsID by filters.
func (d *desk) lists() {
	t := d.t
	t.Helper()
	for query, want := range map[string]int{
		"/requests":                                        7,
		"/requests?account=poor":                           1,
		"/requests?account=rich&status=402":                1,
		"/requests?status=429":                             1,
		"/requests?flag=retried":                           2,
		"/requests?flag=aborted":                           1,
		"/requests?flag=refused":                           3,
		"/requests?model=sim-few":                          1,
		"/requests?code=INSUFFICIENT_BALANCE&account=poor": 1,
		"/requests?upstream=second":                        2,
		"/requests?from=2040-01-01T00:00:00Z":              0,
		"/requests?to=2040-01-01T00:00:00Z":                7,
		"/refusals":                                        3,
		"/refusals?account=rich":                           2,
		"/refusals?by=balance":                             1,
		"/refusals?status=429":                             1,
	} {
		if list := d.must("GET", query, ""); list.Get("data.#").Int() != int64(want) || list.Get("next_cursor").Str != "" {
			t.Errorf("%s has not %d: %s", query, want, list.Raw)
		}
		if want == 0 {
			continue
		}
		found, cursor := 0, ""
		for pages := 0; pages < 10; pages++ {
			join := "?"
			if strings.Contains(query, "?") {
				join = "&"
			}
			path := query + join + "limit=2"
			if cursor != "" {
				path += "&cursor=" + cursor
			}
			list := d.must("GET", path, "")
			found += int(list.Get("data.#").Int())
			if cursor = list.Get("next_cursor").Str; cursor == "" {
				break
			}
		}
		if found != want {
			t.Errorf("%s has %d in pages of two, not %d", query, found, want)
		}
	}
	for _, query := range []string{"/requests?flag=odd", "/requests/xyz", "/requests?cursor=abc"} {
		if status, _, answer := d.as("reader", "GET", query, ""); status != 400 {
			t.Errorf("%s is answered %d %s", query, status, answer)
		}
	}
	if status, _, answer := d.as("reader", "GET", "/requests/"+strings.Repeat("0", 32), ""); status != 404 {
		t.Errorf("an unknown id is answered %d %s", status, answer)
	}
}

// stores fails where a text is in the store.
func (d *desk) stores(text string) {
	d.t.Helper()
	err := filepath.WalkDir(d.Store, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(path)
		if bytes.Contains(b, []byte(text)) {
			d.t.Errorf("%s has the words of a client", path)
		}
		return err
	})
	if err != nil {
		d.t.Error(err)
	}
}

// A client that fails 10,000 times writes a few rows a second, which count the others; and a
// request of another account that failed meanwhile is found.
func TestAFloodOfRefusalsWritesFewRows(t *testing.T) {
	t.Parallel()
	d, _ := newAskedDesk(t)
	d.NewAccount("flood", "0")
	d.NewAccount("quiet", "0")
	flood, quiet := d.Key("flood"), d.Key("quiet")
	const all, clients = 10_000, 20
	began := time.Now()
	var group sync.WaitGroup
	for range clients {
		group.Go(func() {
			for range all / clients {
				if status, _ := d.ask(flood, "sim-chat", "", ""); status != 402 {
					t.Errorf("refused with %d", status)
					return
				}
			}
		})
	}
	var ids []string
	for range 5 {
		_, id := d.ask(quiet, "sim-chat", "", "")
		ids = append(ids, id)
		time.Sleep(1200 * time.Millisecond)
	}
	group.Wait()
	seconds := int64(time.Since(began)/time.Second) + 2
	for _, id := range ids {
		if r := d.request(id); r.Get("account").Str != "quiet" {
			t.Errorf("the request of the other account: %s", r.Raw)
		}
	}
	list := d.must("GET", "/refusals?account=flood&limit=500", "")
	rows, counted := list.Get("data.#").Int(), int64(0)
	for _, r := range list.Get("data").Array() {
		counted += 1 + r.Get("alike").Int()
	}
	if counted != all || rows > 5*seconds {
		t.Errorf("%d refusals within %d seconds have %d rows, which count %d", all, seconds, rows, counted)
	}
	if dropped, _ := d.Metric("farebox_request_details_dropped_total"); dropped != 0 {
		t.Errorf("%v details were dropped", dropped)
	}
}
