package augment_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"farebox/routes/augment"
	"farebox/routes/routestest"
)

// "A service that hung had all of the time, and the next one, which was well, was asked
// when there was none left."
func TestAHangingServiceLeavesTimeForTheNext(t *testing.T) {
	t.Parallel()
	answers := func(after time.Duration) string {
		return routestest.Upstream(t, func(w http.ResponseWriter, r *http.Request) {
			select {
			case <-time.After(after):
				_, _ = w.Write([]byte(`{"web":{"results":[{"url":"https://a.example/"}]}}`))
			case <-r.Context().Done():
			}
		})
	}
	config := strings.NewReplacer("HANGS", answers(time.Minute), "WELL", answers(time.Second)).Replace(`
augment:
  search:
    timeout: 8s
    brave:
      - { name: hangs, format: brave, base_url: "http://HANGS" }
      - { name: well, format: brave, base_url: "http://WELL", priority: 1 }
    google: [{ name: alone, format: brave, base_url: "http://WELL", priority: 1 }]
`)
	rig := routestest.Start(t, config, "127.0.0.1:9", augment.New())
	began := time.Now()
	status, answer := rig.Post("/augment/search", `{"query":"x"}`, "")
	if took := time.Since(began); status != 200 || !strings.Contains(answer, "https://a.example/") ||
		took > 10*time.Second {
		t.Errorf("%d %s after %s", status, answer, took)
	}
}
