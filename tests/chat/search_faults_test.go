package chat

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"farebox/tests/rig"
)

// "I know a request that the model refuses: I search as often as I like, and the operator pays."
// Lookups are charged if the request is refused for its content, and free if the model or its
// upstream fails.
func TestSearchesOfRefusedRequestsAreNotFree(t *testing.T) {
	t.Parallel()
	_, w, g, key := startSearch(t)
	on := `,"svc_parameters":{"enable_web_search":"on"}`
	before := rig.Money(0)
	for _, c := range []struct {
		words, more string
		want        int
		cost        rig.Money
	}{
		{"[[sim status=400]]", "", 400, nanoSearch},
		{"[[sim status=400]]", `,"stream":true`, 400, nanoSearch},
		{"[[sim status=400 kind=context]]", "", 400, nanoSearch},
		{"[[sim status=413]]", "", 413, nanoSearch},
		{"[[sim status=401]]", "", 503, 0},
		{"[[sim status=429]]", "", 429, 0},
		{"[[sim status=500]]", `,"stream":true`, 500, 0},
	} {
		asked := w.asked.Load()
		status, head, answer := g.Post("/chat/completions", key, rig.Ask("sim-chat", "Rivers? "+c.words, on+c.more))
		if status != c.want || w.asked.Load() != asked+1 ||
			strings.Contains(string(answer), "looked up for it is charged") != (c.cost > 0) ||
			(head.Get("X-Svc-Web-Search") == "search") != (c.cost > 0) {
			t.Errorf("%s%s: %d %v %s", c.words, c.more, status, head, answer)
		}
		before = spent(t, g, before, c.cost)
	}
	// Members that no target supports are found after the search, too.
	status, _, answer := g.Post("/chat/completions", key, rig.Ask("sim-claude", "Rivers?", on+`,"logit_bias":{"1":1},"n":2`))
	if status != 400 {
		t.Errorf("%d %s", status, answer)
	}
	before = spent(t, g, before, nanoSearch)
	// A key does not make it free, nor is it carried out again.
	asked := w.asked.Load()
	body := rig.Ask("sim-chat", "Rivers? [[sim status=400]]", on)
	first, _, _ := g.WithKey("/chat/completions", key, "refused", body)
	again, _, text := g.WithKey("/chat/completions", key, "refused", body)
	if first != 400 || again != 409 || w.asked.Load() != asked+1 {
		t.Errorf("%d, then %d %s, %d searches", first, again, text, w.asked.Load()-asked)
	}
	spent(t, g, before, nanoSearch)
	g.CLI("verify")
}

// An answer without a word costs no tokens, but its sources were searched for and delivered.
func TestSearchesBehindEmptyAnswersAreCharged(t *testing.T) {
	t.Parallel()
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"id":"1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":""},"finish_reason":"stop"}],"usage":{"prompt_tokens":70,"completion_tokens":0,"total_tokens":70}}`))
	}))
	defer up.Close()
	w := newWeb(t)
	g := rig.StartGateway(t, fmt.Sprintf(searchConfig, up.URL+"/v1", w.URL, w.port()))
	g.NewAccount("a", "5")
	status, _, answer := g.Post("/chat/completions", g.Key("a"), rig.Ask("sim-chat", "Rivers?",
		`,"svc_parameters":{"enable_web_search":"on"}`))
	if s := readSaid(t, answer, false); status != 200 || len(s.Params.Found) != 3 {
		t.Errorf("%d %s", status, answer)
	}
	spent(t, g, 0, nanoSearch)
	g.CLI("verify")
}

// "I close the stream a moment before its end: the search of X was free."
func TestLeavingASearchOfXCostsItsResults(t *testing.T) {
	t.Parallel()
	leave := make(chan struct{}, 1)
	const head = `data: {"id":"1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"They say it is so"},"finish_reason":null}]}` + "\n\n"
	found := 2
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = w.Write([]byte(head))
		w.(http.Flusher).Flush()
		if found == 0 {
			leave <- struct{}{}
			<-r.Context().Done()
			return
		}
		_, _ = fmt.Fprintf(w, `data: {"id":"1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`+"\n\n"+
			`data: {"id":"1","object":"chat.completion.chunk","created":1,"model":"m","choices":[],"usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15,"num_sources_used":%d}}`+"\n\ndata: [DONE]\n\n", found)
	}))
	defer up.Close()
	g := rig.StartGateway(t, strings.Replace(fmt.Sprintf(xConfig, up.URL+"/v1"), "capabilities: { x_search: true",
		"hold: slice\n    capabilities: { reasoning: false, x_search: true", 1))
	g.NewAccount("a", "5")
	key := g.Key("a")
	body := rig.Ask("m", "x", `,"stream":true,"svc_parameters":{"enable_x_search":true}`)
	results := func(before rig.Money) rig.Money {
		spent := g.Settled()["a"].Spent
		return (spent - before) / 20_000_000 // the tokens cost less than one
	}
	left := func() rig.Money {
		before := g.Settled()["a"].Spent
		found = 0
		go func() {
			client := &http.Client{Timeout: rig.CallLimit}
			req, _ := http.NewRequest("POST", g.URL+"/chat/completions", strings.NewReader(body))
			req.Header.Set("Authorization", "Bearer "+key)
			req.Header.Set("Content-Type", "application/json")
			if res, err := client.Do(req); err == nil {
				buf := make([]byte, 10)
				_, _ = res.Body.Read(buf)
				_ = res.Body.Close()
			}
		}()
		<-leave
		rig.Await(t, "it is charged", func() bool { return g.Settled()["a"].Spent > before })
		return results(before)
	}
	if n := left(); n != 4 {
		t.Errorf("%d results were paid, want the 4 that were held", n)
	}
	found = 2
	before := g.Settled()["a"].Spent
	if status, _, answer := g.Post("/chat/completions", key, body); status != 200 {
		t.Fatalf("%d %s", status, answer)
	}
	if n := results(before); n != 2 {
		t.Errorf("%d results were paid, want 2", n)
	}
	if n := left(); n != 2 {
		t.Errorf("%d results were paid, want the usual 2", n)
	}
	g.CLI("verify")
}
