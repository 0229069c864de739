package operations

import (
	"encoding/json"
	"fmt"
	"net/http"
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
			t.Errorf("%d answers have status %d, the log tells of %d", n, status, told[status])
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
