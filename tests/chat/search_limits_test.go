package chat

import (
	"fmt"
	"strings"
	"testing"

	"farebox/bench/upstream"
	"farebox/tests/rig"
)

// "Twenty searches a minute by the call, and as many as I like through a chat."
func TestChatsKeepTheLimitsOfSearches(t *testing.T) {
	t.Parallel()
	sim, w := rig.StartUpstream(t, upstream.Options{}), newWeb(t)
	text := fmt.Sprintf(searchConfig, sim.URL, w.URL, w.port())
	text = strings.Replace(text, "rate: { rpm: 0 } # of searches", "rate: { rpm: 4 }", 1)
	text = strings.Replace(text, "rate: { rpm: 0 }, timeout", "rate: { rpm: 4 }, timeout", 1)
	g := rig.StartGateway(t, text)
	g.NewAccount("a", "5")
	key := g.Key("a")
	ask := func(params, words string) (int, string, []byte) {
		status, head, answer := g.Post("/chat/completions", key, rig.Ask("sim-chat", words, `,"svc_parameters":`+params))
		if status == 429 && (head.Get("Retry-After") == "" || head.Get("X-Ratelimit-Limit") != "4" ||
			!strings.Contains(string(answer), "RATE_LIMIT_EXCEEDED")) {
			t.Errorf("the refusal is %v %s", head, answer)
		}
		return status, head.Get("X-Svc-Web-Search"), answer
	}
	before := rig.Money(0)
	for range 2 {
		status, told, answer := ask(`{"enable_web_search":"on"}`, "How do rivers move?")
		s := readSaid(t, answer, false)
		if status != 200 || told != "search" {
			t.Fatalf("%d %q %s", status, told, answer)
		}
		before = spent(t, g, before, s.costs()+nanoSearch)
	}
	for n, want := range []int{200, 200, 429} {
		if status, _, answer := g.Post("/augment/search", key, `{"query":"rivers"}`); status != want {
			t.Errorf("search %d by the call: %d %s, want %d", n, status, answer, want)
		}
	}
	before = spent(t, g, before, 2*nanoSearch)
	sent := sim.Idle(t).Requests
	if status, _, answer := ask(`{"enable_web_search":"on"}`, "How do rivers move?"); status != 429 {
		t.Errorf("the fifth search: %d %s", status, answer)
	}
	before = spent(t, g, before, 0)
	if asked := w.asked.Load(); asked != 4 || sim.Idle(t).Requests != sent {
		t.Errorf("%d searches, and the model was asked", asked)
	}
	status, told, answer := ask(`{"enable_web_search":"auto"}`, "What is the latest news of rivers?")
	if s := readSaid(t, answer, false); status != 200 || told != "failed" || !s.Params.Failed {
		t.Errorf("auto: %d %q %s", status, told, answer)
	} else {
		before = spent(t, g, before, s.costs())
	}
	links := w.URL + "/page/1 " + w.URL + "/page/2 " + w.URL + "/page/3"
	if status, told, answer = ask(`{"enable_web_scraping":true}`, "Read "+links); status != 200 || told != "pages" {
		t.Fatalf("%d %q %s", status, told, answer)
	}
	s := readSaid(t, answer, false)
	before = spent(t, g, before, s.costs()+3*nanoPage)
	if status, _, answer = ask(`{"enable_web_scraping":true}`, "Read "+links); status != 429 {
		t.Errorf("the sixth page: %d %s", status, answer)
	}
	if status, _, answer = g.Post("/augment/scrape", key, `{"url":"`+w.URL+`/page/4"}`); status != 200 {
		t.Errorf("the fourth page: %d %s", status, answer)
	}
	spent(t, g, before, nanoPage)
	g.CLI("verify")
}
