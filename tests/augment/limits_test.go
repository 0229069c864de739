package augment

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"farebox/tests/rig"
)

// leaves checks the answer's headers of the request limit.
func leaves(t *testing.T, header http.Header, limit, remaining int) {
	t.Helper()
	reset, err := strconv.ParseInt(header.Get("X-Ratelimit-Reset-Requests"), 10, 64)
	if now := time.Now().Unix(); err != nil || reset < now-60 || reset > now+120 ||
		header.Get("X-Ratelimit-Limit-Requests") != strconv.Itoa(limit) ||
		header.Get("X-Ratelimit-Remaining-Requests") != strconv.Itoa(remaining) {
		t.Errorf("want a limit of %d with %d left: %v", limit, remaining, header)
	}
}

// "Only the refusal said what the limit is: the answers before it did not count down."
func TestAnswersReportTheRestOfTheirLimit(t *testing.T) {
	t.Parallel()
	e := startEngines(t)
	p := serve(t, says(200, "text/html", article("")))
	config := strings.Replace(e.searches("    rate: { rpm: 7 }", quiet), "augment:\n",
		"augment:\n  scrape: { rate: { rpm: 7 }, timeout: 50s }\n  text_parser: { rate: { rpm: 7 }, timeout: 50s }\n", 1)
	s := start(t, config, "1")
	for path, call := range offers(p) {
		kind, body := call()
		for n := range 7 {
			status, header, answer := s.send(context.Background(), path, kind, body)
			if status != 200 || header.Get("X-Svc-Balance-Usd") == "" {
				t.Fatalf("%s: %d %v %.200s", path, status, header, answer)
			}
			leaves(t, header, 7, 6-n)
		}
		status, header, _ := s.send(context.Background(), path, "application/json", []byte(`{"query":1,"url":1}`))
		if status == 200 {
			t.Errorf("%s takes nonsense", path)
		}
		leaves(t, header, 7, 0)
		if status, header, _ = s.send(context.Background(), path, kind, body); status != 429 {
			t.Errorf("%s: %d", path, status)
		}
		leaves(t, header, 7, 0)
	}
	s.charged(t, 21)
	if _, _, list := s.Get("/api_keys/rate_limits", s.key); !strings.Contains(string(list), `"apiModelId":"scrape"`) {
		t.Errorf("the limits are %s", list)
	}
	rig.Await(t, "nothing is held", func() bool { return s.Settled()["a"].Held == 0 })
}
