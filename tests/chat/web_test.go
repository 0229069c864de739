package chat

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"farebox/bench/upstream"
	"farebox/tests/rig"
)

const searchConfig = `
compat: { responses_events: sdk }
log: { level: info, format: json, sample_above: 0 }
billing: { minimum_balance: 0 }
limits: { failed_requests: { count: 0 } }
fetch: { allow: [127.0.0.0/8] }
upstreams:
  - { name: first, base_url: %[1]s, retry_safe: true, breaker: { failures: 0 } }
  - { name: second, dialect: anthropic, base_url: %[1]s, key: k, retry_safe: true, breaker: { failures: 0 } }
models:
  - id: sim-chat
    tier: unlimited
    context_tokens: 128000
    max_completion_tokens: 1000
    capabilities: { tools: true, web_search: true }
    price: &price { input: 1, output: 2 }
    targets: [{ upstream: first }]
  - id: sim-claude
    tier: unlimited
    context_tokens: 128000
    max_completion_tokens: 1000
    capabilities: { web_search: true }
    price: *price
    targets: [{ upstream: second }]
  - id: sim-plain
    tier: unlimited
    context_tokens: 128000
    price: *price
    targets: [{ upstream: first }]
augment:
  search:
    price: 0.01
    rate: { rpm: 0 } # of searches
    brave: [{ name: finder, format: brave, base_url: %[2]q, key: k, breaker: { failures: 0 } }]
  scrape: { price: 0.02, rate: { rpm: 0 }, timeout: 50s, ports: [%[3]s], min_text: 10, cache: { size: 0 } }
  chat: { tokens: 2000, results: 3 }
`

// web is a service that searches and a site in one.
type web struct {
	*httptest.Server
	asked   atomic.Int64
	query   atomic.Value
	status  atomic.Int64                            // of searches; 0: 200
	wait    chan struct{}                           // nil: searches are answered at once
	results func() (titles, links, texts [3]string) // nil: plain ones
}

func newWeb(t *testing.T) *web {
	w := &web{}
	mux := http.NewServeMux()
	mux.HandleFunc("/res/v1/web/search", func(rw http.ResponseWriter, r *http.Request) {
		w.asked.Add(1)
		w.query.Store(r.URL.Query().Get("q"))
		if w.wait != nil {
			select {
			case <-w.wait:
			case <-r.Context().Done():
				return
			}
		}
		if s := w.status.Load(); s != 0 {
			rw.WriteHeader(int(s))
			return
		}
		titles := [3]string{"Rivers", "Lakes", "Seas"}
		links := [3]string{"https://a.example/1", "https://b.example/2", "https://c.example/3"}
		texts := [3]string{"Rivers move.", "Lakes rest.", "Seas sway."}
		if w.results != nil {
			titles, links, texts = w.results()
		}
		var list []map[string]string
		for i := range titles {
			list = append(list, map[string]string{"title": titles[i], "url": links[i], "description": texts[i],
				"page_age": "2026-10-01"})
		}
		_ = json.NewEncoder(rw).Encode(map[string]any{"web": map[string]any{"results": list}})
	})
	mux.HandleFunc("/page/", func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = io.WriteString(rw, "<html><body><article><h1>Page "+r.URL.Path+"</h1><p>"+
			strings.Repeat("The river takes sand from the outer side of every bend. ", 20)+"</p></article></body></html>")
	})
	w.Server = httptest.NewServer(mux)
	t.Cleanup(w.Close)
	return w
}

// port is that of the site.
func (w *web) port() string { return w.URL[strings.LastIndexByte(w.URL, ':')+1:] }

func startSearch(t *testing.T) (*rig.Simulated, *web, *rig.Gateway, string) {
	t.Helper()
	sim, w := rig.StartUpstream(t, upstream.Options{}), newWeb(t)
	g := rig.StartGateway(t, fmt.Sprintf(searchConfig, sim.URL, w.URL, w.port()))
	g.NewAccount("a", "5")
	return sim, w, g, g.Key("a")
}

// said is an answer's text, charge and searches.
type said struct {
	Choices []struct{ Message struct{ Content string } }
	Usage   struct {
		Prompt     int64 `json:"prompt_tokens"`
		Completion int64 `json:"completion_tokens"`
	}
	Params struct {
		Search    string `json:"enable_web_search"`
		Failed    bool   `json:"web_search_failed"`
		Citations []struct{ Title, URL, Content, Date string }
		Found     []struct{ Title, URL, Content, Date string } `json:"web_search_citations"`
	} `json:"svc_parameters"`
}

const nanoToken, nanoSearch, nanoPage = 1000, 10_000_000, 20_000_000

// costs is the price of the tokens, in nano-USD.
func (s *said) costs() rig.Money {
	return rig.Money((s.Usage.Prompt + 2*s.Usage.Completion) * nanoToken)
}

// spent waits until an account has spent exactly so much since before.
func spent(t *testing.T, g *rig.Gateway, before, want rig.Money) rig.Money {
	t.Helper()
	now := g.Settled()["a"].Spent
	if now-before != want {
		t.Errorf("charged %d nano, want %d", now-before, want)
	}
	return now
}

// messages are those of a body that reached the upstream.
func messages(t *testing.T, body []byte) (roles, texts []string) {
	t.Helper()
	var b struct {
		Messages []struct {
			Role    string
			Content json.RawMessage
		}
	}
	if err := json.Unmarshal(body, &b); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	for _, m := range b.Messages {
		var text string
		if json.Unmarshal(m.Content, &text) != nil {
			var parts []struct{ Text string }
			_ = json.Unmarshal(m.Content, &parts)
			for _, p := range parts {
				text += p.Text + "\n"
			}
		}
		roles, texts = append(roles, m.Role), append(texts, text)
	}
	return roles, texts
}

var fenced = regexp.MustCompile(`(?s)\n(==== [A-Z2-7]{26} ====)\n(.*)\n(==== [A-Z2-7]{26} ====)$`)

// inside is the text between the fences.
func inside(t *testing.T, text string) string {
	t.Helper()
	found := fenced.FindStringSubmatch(text)
	if found == nil || found[1] != found[3] || strings.Count(text, found[1]) != 3 {
		t.Fatalf("no fence around the results: %s", text)
	}
	return found[2]
}

// readSaid reads an answer, or the events of a stream: the first event must report the search.
func readSaid(t *testing.T, answer []byte, stream bool) (s said) {
	t.Helper()
	if !stream {
		if err := json.Unmarshal(answer, &s); err != nil {
			t.Fatalf("%v: %s", err, answer)
		}
		return s
	}
	n := 0
	for line := range strings.Lines(string(answer)) {
		data, ok := strings.CutPrefix(strings.TrimSpace(line), "data: ")
		if !ok || data == "[DONE]" {
			continue
		}
		before := len(s.Params.Found)
		if err := json.Unmarshal([]byte(data), &s); err != nil {
			t.Fatalf("%v: %s", err, data)
		}
		if n++; n > 1 && len(s.Params.Found) != before {
			t.Errorf("event %d reports the search: %s", n, data)
		}
	}
	return s
}
