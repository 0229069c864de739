package chat

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"farebox/tests/rig"
)

const xConfig = `
log: { level: info, format: json, sample_above: 0 }
billing: { minimum_balance: 0 }
limits: { failed_requests: { count: 0 } }
upstreams:
  - { name: only, base_url: %q, breaker: { failures: 0 } }
models:
  - id: m
    tier: unlimited
    context_tokens: 128000
    max_completion_tokens: 100
    capabilities: { x_search: true, tools: true }
    price: { input: 1, output: 2 }
    targets: [{ upstream: only }]
  - { id: plain, tier: unlimited, context_tokens: 8192, price: { input: 1, output: 2 }, targets: [{ upstream: only }] }
augment:
  chat: { x_price: 0.02, x_results: 4, tokens: 1000 }
`

// Searches of X are the upstream's: it gets the tool, and its reported results are charged one by
// one, up to the hold.
func TestSearchesOfXArePaidByTheResult(t *testing.T) {
	t.Parallel()
	found, got := 3, ""
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = string(body)
		usage := fmt.Sprintf(`"usage":{"prompt_tokens":700,"completion_tokens":5,"total_tokens":705,"num_sources_used":%d}`, found)
		if strings.Contains(got, `"stream":true`) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, `data: {"id":"1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"They say it is so"},"finish_reason":"stop"}]}`+"\n\n"+
				`data: {"id":"1","object":"chat.completion.chunk","created":1,"model":"m","choices":[],`+usage+"}\n\ndata: [DONE]\n\n")
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"id":"1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"They say it is so"},"finish_reason":"stop"}],`+usage+`}`)
	}))
	defer up.Close()
	g := rig.StartGateway(t, fmt.Sprintf(xConfig, up.URL+"/v1"))
	g.NewAccount("a", "5")
	key := g.Key("a")
	before := rig.Money(0)
	const tokens, result = (700 + 2*5) * nanoToken, 20_000_000
	function := `{"type":"function","function":{"name":"f"}}`
	for name, c := range map[string]struct {
		members, want string
		found, paid   int
	}{
		"a parameter":              {`,"svc_parameters":{"enable_x_search":true}`, `"tools":[{"type":"x_search"}]`, 3, 3},
		"a tool":                   {`,"tools":[{"type":"x_search"}]`, `"tools":[{"type":"x_search"}]`, 0, 0},
		"members that are unknown": {`,"tools":[{"type":"x_search","from_date":"2026-01-01","max_results":50}]`, `"tools":[{"type":"x_search","from_date":"2026-01-01"}]`, 1, 1},
		"beside functions":         {`,"tools":[ ` + function + `],"svc_parameters":{"enable_x_search":true}`, `"tools":[{"type":"x_search"}, ` + function + `]`, 1, 1},
		"more than was held":       {`,"tools":[` + function + `,{"type":"x_search"}]`, `"tools":[` + function + `,{"type":"x_search"}]`, 900, 4},
		"tools that are null":      {`,"tools":null,"svc_parameters":{"enable_x_search":true}`, `"tools":[{"type":"x_search"}]`, 2, 2},
		"none":                     {``, ``, 3, 0},
		"a parameter of a stream":  {`,"stream":true,"svc_parameters":{"enable_x_search":true}`, `"tools":[{"type":"x_search"}]`, 2, 2},
	} {
		found = c.found
		status, _, answer := g.Post("/chat/completions", key, rig.Ask("m", strings.Repeat("word ", 50), c.members))
		if status != 200 || !strings.Contains(got, c.want) || strings.Contains(got, "svc_") {
			t.Errorf("%s: %d, the upstream got %s: %s", name, status, got, answer)
		}
		want := rig.Money(tokens + c.paid*result)
		before = spent(t, g, before, want)
	}
	for body, path := range map[string]string{
		rig.Ask("plain", "x", `,"tools":[{"type":"x_search"}]`):               "tools",
		rig.Ask("plain", "x", `,"svc_parameters":{"enable_x_search":true}`):   "enable_x_search",
		rig.Ask("m", "x", `,"svc_parameters":{"enable_web_search":"on"}`):     "enable_web_search",
		rig.Ask("m", "x", `,"tools":[{"type":"x_search"},{"type":"what"}]`):   "tools.1.type",
		rig.Ask("m", "x", `,"tools":[{"type":"web_search"},`+function+`]`):    "tools",
		rig.Ask("m", "x", `,"svc_parameters":{"enable_web_scraping":true}`):   "enable_web_scraping",
		rig.Ask("m", "x", `,"svc_parameters":{"enable_x_search":"yes"}`):      "enable_x_search",
		rig.Ask("m", "x", `,"svc_parameters":{"enable_web_search":"always"}`): "enable_web_search",
	} {
		if status, _, answer := g.Post("/chat/completions", key, body); status != 400 || !strings.Contains(string(answer), path) {
			t.Errorf("%s: %d %s", body, status, answer)
		}
	}
	g.NewAccount("poor", "0.08") // four results, 0.001 for their text, and the chat
	if status, _, answer := g.Post("/chat/completions", g.Key("poor"), rig.Ask("m", "x",
		`,"tools":[{"type":"x_search"}]`)); status != 402 {
		t.Errorf("without money: %d %s", status, answer)
	}
}
