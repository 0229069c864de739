package operations

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"farebox/tests/rig"
)

// "1,599 customers got a 503 within four seconds, and the log knew 500 of them." All
// failures are accounted for, one kind does not hide another, and the log stays small.
func TestFailuresAreAccountedForInTheLog(t *testing.T) {
	t.Parallel()
	u := rig.StartRaw(t, rig.Sends(rig.HTTPAnswer(503, "application/json", `{"error":{"message":"busy"}}`)))
	g := rig.StartGateway(t, fmt.Sprintf("log: { level: info, format: json }\nlimits: { failed_requests: { count: 0 } }\n"+
		"upstreams:\n  - { name: only, base_url: %q, breaker: { failures: 3, open_for: 60s } }\nmodels:\n  - { id: m, tier: "+
		"unlimited, context_tokens: 8192, price: { input: 1, output: 2 }, targets: [{ upstream: only }] }\n", u.URL))
	g.NewAccount("a", "100")
	key := g.Key("a")
	const clients, each = 8, 100
	var mu sync.Mutex
	answers := map[int]int64{}
	began := time.Now()
	var wg sync.WaitGroup
	for i := range clients {
		wg.Go(func() {
			for n := range each {
				body, k := rig.Ask("m", "Hello", ""), key
				switch {
				case i == 0 && n%50 == 0:
					body = `{"model":"m"}`
				case i > 4:
					k = "nobody's"
				}
				status, _, _ := g.Post("/chat/completions", k, body)
				mu.Lock()
				answers[status]++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	seconds := int64(time.Since(began)/time.Second) + 2
	if err := g.Stop(); err != nil {
		t.Fatal(err)
	}
	type kind struct {
		Status      int
		Code, Cause string
	}
	lines, told := map[kind]int64{}, map[int]int64{}
	for line := range strings.Lines(g.Log()) {
		var l struct {
			kind
			Path, Message string
			Count         int64
		}
		if json.Unmarshal([]byte(line), &l) != nil {
			continue
		}
		switch l.Message {
		case "request":
			lines[l.kind]++
			told[l.Status]++
		case "more requests failed alike":
			told[l.Status] += l.Count
		}
	}
	if answers[http.StatusServiceUnavailable] < 300 || answers[http.StatusUnauthorized] < 50 || answers[400] != 2 {
		t.Fatalf("answers by status: %v", answers)
	}
	for status, n := range answers {
		if told[status] != n {
			t.Errorf("%d answers have status %d, the log has %d", n, status, told[status])
		}
	}
	for k, n := range lines {
		if n > 20*seconds {
			t.Errorf("%+v has %d lines in %d seconds", k, n, seconds)
		}
	}
	if lines[kind{400, "INVALID_REQUEST", ""}] != 2 {
		t.Errorf("the two rare failures are not in the log: %v", lines)
	}
}

// "A customer says that he has money and gets a 402; our log has the code and not one sum."
// The line has the balance, the held and the needed sums, and the limit that refused.
func TestARefusalForMoneyHasItsSumsInTheLog(t *testing.T) {
	t.Parallel()
	rig.OnBothStores(t, func(t *testing.T, store string) {
		quiet := make(chan struct{})
		u := rig.StartRaw(t, func(c net.Conn, body string) {
			if strings.Contains(body, "wait") {
				<-quiet
			}
			rig.Sends(rig.HTTPAnswer(200, "application/json", rig.GoodAnswer))(c, body)
		})
		g := rig.StartGatewayOn(t, store, fmt.Sprintf("log: { level: info, format: json, sample_above: 0 }\nbilling: { minimum_balance: "+
			"0.000002 }\nupstreams:\n  - { name: only, base_url: %q }\nmodels:\n  - { id: m, tier: unlimited, context_tokens: 8192, "+
			"price: { input: 1, output: 2 }, targets: [{ upstream: only }] }\n", u.URL))
		g.NewAccount("poor", "0.000001234")
		g.NewAccount("rich", "5")
		g.CLI("account", "credit", "rich", "3", "--currency", "DIEM")
		g.NewAccount("busy", "0.003")
		// refuse has a request refused, and gives its line.
		refuse := func(account string, args ...string) (line struct {
			RefusedBy string    `json:"refused_by"`
			Had       rig.Money `json:"had_usd"`
			Held      rig.Money `json:"held_usd"`
			Needed    rig.Money `json:"needed_usd"`
			Left      rig.Money `json:"limit_left_usd"`
			Period    string    `json:"limit_period"`
		}) {
			t.Helper()
			status, header, answer := g.Post("/chat/completions", g.Key(account, args...), rig.Ask("m", "Hello", `,"max_completion_tokens":1000`))
			if status != 402 {
				t.Fatalf("%s: %d %s", account, status, answer)
			}
			id := `"request_id":"` + header.Get("X-Request-Id")
			for text := range strings.Lines(g.AwaitLog(id)) {
				if strings.Contains(text, id) {
					if err := json.Unmarshal([]byte(text), &line); err != nil {
						t.Fatalf("%v in %s", err, text)
					}
				}
			}
			return line
		}
		if l := refuse("poor"); l.RefusedBy != "minimum_balance" || l.Had != 1234 || l.Held != 0 || l.Needed < 2000 || l.Period != "" {
			t.Errorf("below the minimum: %+v", l)
		}
		if l := refuse("rich", "--limit-diem", "0.000001", "--limit-usd", "1"); l.RefusedBy != "key_diem" ||
			l.Had != 8_000_000_000 || l.Left != 1000 || l.Period != "EPOCH" || l.Needed <= l.Left {
			t.Errorf("a limit of DIEM: %+v", l)
		}
		g.NewAccount("plain", "5")
		if l := refuse("plain", "--limit-usd", "0.000002", "--limit-period", "MONTH"); l.RefusedBy != "key_usd" ||
			l.Had != 5_000_000_000 || l.Left != 2000 || l.Period != "MONTH" || l.Needed <= l.Left {
			t.Errorf("a limit of USD: %+v", l)
		}
		done := make(chan struct{})
		key := g.Key("busy")
		go func() {
			defer close(done)
			g.Post("/chat/completions", key, rig.Ask("m", "wait", `,"max_completion_tokens":1490`))
		}()
		rig.Await(t, "the first request is under way", func() bool { return u.Asked.Load() > 0 })
		if l := refuse("busy"); l.RefusedBy != "balance" || l.Held == 0 || l.Had+l.Held != 3_000_000 || l.Needed <= l.Had {
			t.Errorf("the balance: %+v", l)
		}
		close(quiet)
		<-done
		g.MetricIs(`farebox_unpaid_refusals_total{limit="balance"}`, func(n float64) bool { return n == 1 })
	})
}

// "Without systemd the log grew until the disk was full." A file of the log stays small,
// some old ones are kept, and a file that cannot be written ends the start.
func TestTheLogGoesToAFileThatIsBegunAnew(t *testing.T) {
	t.Parallel()
	u := rig.StartRaw(t, rig.Sends(rig.HTTPAnswer(200, "application/json", rig.GoodAnswer)))
	dir := t.TempDir()
	file := filepath.Join(dir, "logs", "farebox.log")
	text := func(file string) string {
		return fmt.Sprintf("log: { level: info, sample_above: 0, file: %q, max_size: 1MB, keep: 2 }\nupstreams:\n  - { name: only, "+
			"base_url: %q }\nmodels:\n  - { id: m, tier: unlimited, context_tokens: 8192, price: { input: 1, output: 2 }, targets: "+
			"[{ upstream: only }] }\n", file, u.URL)
	}
	g := rig.StartGateway(t, text(file))
	old := make([]byte, 1<<20-200)
	if err := os.WriteFile(file, append(old, '\n'), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := g.Stop(); err != nil {
		t.Fatal(err)
	}
	g.Start()
	g.NewAccount("a", "1")
	if status, _, answer := g.Post("/chat/completions", g.Key("a"), rig.Ask("m", "Hello", "")); status != 200 {
		t.Fatalf("%d %s", status, answer)
	}
	rig.Await(t, "the request is in the new file", func() bool {
		b, err := os.ReadFile(file)
		return err == nil && len(b) < 1<<16 && strings.Contains(string(b), `"charged_usd"`)
	})
	if list, err := os.ReadDir(filepath.Dir(file)); err != nil || len(list) != 2 {
		t.Errorf("the folder has %v, %v", list, err)
	}
	if strings.Contains(g.Log(), `"message":"request"`) {
		t.Error("standard error has the requests, too")
	}
	if err := g.Stop(); err != nil {
		t.Fatal(err)
	}
	g.WriteConfig(text(filepath.Join(file, "below-a-file")))
	if err := g.TryStart(); err == nil || !strings.Contains(g.Log(), "log.file") {
		t.Errorf("started with %v and a log that cannot be written: %s", err, g.Tail())
	}
}
