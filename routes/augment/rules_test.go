package augment_test

import (
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"farebox/providers/web"
	"farebox/routes/augment"
	"farebox/routes/routestest"
)

func TestMain(m *testing.M) {
	web.Work() // a child does nothing else
	os.Exit(m.Run())
}

const sells = `
augment:
  scrape: { rate: { rpm: 0 }, timeout: 1s }
  search:
    rate: { rpm: 0 }
    brave: [{ name: b, format: brave, base_url: "http://ADDR", breaker: { failures: 0 } }]
    google: [{ name: g, format: serper, base_url: "http://ADDR", breaker: { failures: 0 } }]
`

// searcher is an upstream that finds nothing for any search.
func searcher(t *testing.T) string {
	return routestest.Upstream(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "{}") })
}

// "A member was refused at the edge that its rule allows, or taken beyond it."
func TestRulesHoldAtTheirEdges(t *testing.T) {
	routestest.Edges(t, strings.ReplaceAll(sells, "ADDR", searcher(t)), nil, augment.New())
}
