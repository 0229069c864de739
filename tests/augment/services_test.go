package augment

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"farebox/bench/servers"
	"farebox/bench/upstream"
	"farebox/tests/rig"
)

// faults are failures of a service, after which another is asked.
var faults = map[string]func(http.ResponseWriter, *http.Request){
	"429": says(429, "application/json", "{}"), "429 in a while": says(429, "text/plain", "", "Retry-After", "3"),
	"402": says(402, "application/json", "{}"), "401": says(401, "application/json", "{}"),
	"403": says(403, "application/json", "{}"), "404": says(404, "text/plain", "heron"),
	"500": says(500, "text/plain", "heron"), "503": says(503, "text/html", "<html>heron"),
	"302":  says(302, "text/html", "", "Location", "http://127.0.0.1:9/"),
	"HTML": says(200, "text/html", "<!doctype html><p>heron"),
	"half": says(200, "application/json", `{"web":{"results":[`),
	"cut":  cut(`{"web":`), "empty": says(200, "application/json", ""), "204": says(204, "application/json", ""),
	"null": says(200, "application/json", "null"), "text": says(200, "application/json", `"heron"`),
	"huge": says(200, "application/json", `{"web":{"results":[{"title":"`+strings.Repeat("heron", 2<<20)+`"}]}}`),
	"deep": says(200, "application/json", strings.Repeat("[", 3<<20)),
	"no HTTP": func(w http.ResponseWriter, _ *http.Request) {
		c, _, _ := w.(http.Hijacker).Hijack()
		_, _ = c.Write([]byte("\x00\x01 heron\r\n\r\n"))
		_ = c.Close()
	},
}

// Each service is asked exactly as it wants to be: the simulated ones are as strict
// as those are.
func TestSearchesByFiveServices(t *testing.T) {
	t.Parallel()
	sim := rig.StartUpstream(t, upstream.Options{})
	config := func(format string) string {
		key := ", key: k-1"
		if format == "searxng" {
			key = ""
		}
		return settings + fmt.Sprintf("augment: { search: { rate: { rpm: 0 }, brave: [{ name: s, format: %s, base_url: "+
			"\"%s/search/%s\"%s }] } }\n", format, strings.TrimSuffix(sim.URL, "/v1"), format, key)
	}
	s := start(t, config("brave"), "10")
	for _, c := range []struct{ format, asked, key, date string }{
		{"brave", "/search/brave/res/v1/web/search?count=2&q=a+heron&result_filter=web&text_decorations=false",
			"X-Subscription-Token: k-1", "2026-10-01T00:00:00"},
		{"serper", `/search/serper/search {"q":"a heron","num":2}`, "X-API-KEY: k-1", ""},
		{"searxng", "/search/searxng/search?format=json&q=a+heron", "", ""},
		{"tavily", `/search/tavily/search {"query":"a heron","max_results":2}`, "Authorization: Bearer k-1", ""},
		{"exa", `/search/exa/search {"query":"a heron","numResults":2,"type":"auto","contents":{"highlights":true}}`,
			"x-api-key: k-1", "2026-10-01T00:00:00.000Z"},
	} {
		t.Run(c.format, func(t *testing.T) {
			if c.format != "brave" {
				s.reload(config(c.format))
			}
			status, _, answer := s.ask(t, searching, `{"query":"a heron","limit":2}`)
			want := `{"query":"a heron","results":[`
			for i := 1; i <= 2; i++ {
				want += fmt.Sprintf(`{"title":"Result %d for “a heron”","url":"https://example.org/a%%20heron/%d",`+
					`"content":"Page %d says something about a heron.","date":%q},`, i, i, i, c.date)
			}
			if want = strings.TrimSuffix(want, ",") + "]}"; status != 200 || answer != want {
				t.Errorf("%d %s\nwant %s", status, answer, want)
			}
			got := sim.Latest(t)
			_, target, _ := strings.Cut(strings.SplitN(got.Head, "\r\n", 2)[0], " ")
			asked := strings.TrimSuffix(strings.TrimSuffix(target, " HTTP/1.1")+" "+string(got.Body), " ")
			if asked != c.asked || !strings.Contains(strings.ToLower(got.Head), strings.ToLower(c.key)) {
				t.Errorf("it was asked %s\n%s\nwant %s with %s", asked, got.Head, c.asked, c.key)
			}
			if status, _, answer := s.ask(t, searching, `{"query":"[[sim tokens=0]]"}`); status != 200 ||
				!strings.HasSuffix(answer, `"results":[]}`) {
				t.Errorf("without hits: %d %s", status, answer)
			}
			s.charged(t, 2)
		})
	}
}

// "Results had tags and entities in them, in answers and in prompts."
func TestResultsAreCleanText(t *testing.T) {
	t.Parallel()
	formats := map[string]string{ // answers of one result, by title, text and date
		"brave":   `{"web":{"results":[{"title":%s,"url":"https://a.example/?a=1&amp;b=2","description":%s,"page_age":%s}]}}`,
		"serper":  `{"organic":[{"title":%s,"link":"https://a.example/?a=1&amp;b=2","snippet":%s,"date":%s}]}`,
		"searxng": `{"results":[{"title":%s,"url":"https://a.example/?a=1&amp;b=2","content":%s,"publishedDate":%s}]}`,
		"tavily":  `{"results":[{"title":%s,"url":"https://a.example/?a=1&amp;b=2","content":%s,"published_date":%s}]}`,
		"exa":     `{"results":[{"title":%s,"url":"https://a.example/?a=1&amp;b=2","highlights":[%s],"publishedDate":%s}]}`,
		"markup":  `{"hits":[{"title":%s,"url":"https://a.example/?a=1&amp;b=2","text":%s,"date":%s}]}`,
	}
	service := serve(t, nil)
	config := func(format string) string {
		return settings + fmt.Sprintf("augment: { search: { rate: { rpm: 0 }, brave: [{ name: s, format: %s, base_url: %q }], formats: "+
			"{ markup: { path: /search, query: { q: \"{query}\" }, results: hits, title: [title], url: [url], content: [text], "+
			"date: [date], html: true } } } }\n", format, service.URL)
	}
	s := start(t, settings+"augment: { text_parser: {} }\n", "10")
	for format, answer := range formats {
		s.reload(config(format))
		markup := format == "brave" || format == "markup"
		for _, c := range []struct{ text, plain, html string }{
			{"<strong>Rivers</strong> &amp; lakes", "Rivers & lakes", ""},
			{"It&#x27;s &quot;here&quot;&nbsp;&#8211; caf&eacute;", "It's \"here\" – café", ""},
			{"&amp;lt;b&amp;gt; &lt;b&gt;", "&lt;b&gt; <b>", ""},
			{" a\n\t b\r\n<br>c\u2028d ", "a b c d", ""},
			{"r\u200b\u200b\u00adiver\ufeff\u202e \u0000\u0007x\U000E0041", "river x", ""},
			{"<b>one</b><script>alert(1)</script><i class=\"a>b\">two</i>", "onetwo", ""},
			{"if a < b && c > d", "if a < b && c > d", ""},
			{"List<String> and Map<K, V> of x<y", "List<String> and Map<K, V> of x<y", ""},
			{"👩\u200d💻 ❤\ufe0f می\u200cخواهم", "👩\u200d💻 ❤\ufe0f می\u200cخواهم", ""},
			{"The <strong> tag in HTML", "The <strong> tag in HTML", "The tag in HTML"},
			{"cut <strong>in the mid", "cut <strong>in the mid", "cut in the mid"},
			{"<p>One</p><ul><li>two</li><li>three</li></ul>", "One two three", ""},
		} {
			want := c.plain
			if markup && c.html != "" {
				want = c.html
			}
			service.now(says(200, "application/json", fmt.Sprintf(answer, quoted(c.text), quoted("<em>x</em> "+c.text), quoted("<i>2026</i>&#45;10"))))
			status, _, got := s.ask(t, searching, `{"query":"heron"}`)
			if want := `{"query":"heron","results":[{"title":` + quoted(want) + `,"url":"https://a.example/?a=1&amp;b=2","content":` +
				quoted("x "+want) + `,"date":"2026-10"}]}`; status != 200 || !sameJSON(got, want) {
				t.Errorf("%s: %q: %d %s\nwant %s", format, c.text, status, got, want)
			}
		}
		service.now(says(200, "application/json", fmt.Sprintf(answer, quoted(strings.Repeat("<b>", 40_000)), quoted(strings.Repeat("<b>x</b> ", 40_000)+"<"), `"2026"`)))
		rig.Soon(t, format+" with many tags", 2*time.Second, func(int) time.Duration {
			began := time.Now()
			if status, _, got := s.ask(t, searching, `{"query":"heron"}`); status != 200 || len(got) > 40<<10 {
				t.Errorf("%s: %d with %d bytes after %s", format, status, len(got), time.Since(began))
			}
			return time.Since(began)
		})
	}
	s.CLI("verify")
}

// sameJSON reports whether two texts have the same values.
func sameJSON(a, b string) bool {
	var x, y any
	return json.Unmarshal([]byte(a), &x) == nil && json.Unmarshal([]byte(b), &y) == nil && reflect.DeepEqual(x, y)
}

// The simulated services answer like a real one: searx, from which SearXNG comes, with an
// engine of the test's.
func TestLongSearchesByARealSearx(t *testing.T) {
	t.Parallel()
	var hits []string
	for i := range 8 {
		hits = append(hits, fmt.Sprintf(`{"title":"Heron %d","url":"https://example.org/%d","text":"It waits: %d"}`, i, i, i))
	}
	engine := serve(t, says(200, "application/json", `{"hits":[`+strings.Join(hits, ",")+`]}`))
	url := servers.StartSearx(t, engine.URL)
	s := start(t, settings+fmt.Sprintf("augment: { search: { rate: { rpm: 0 }, google: [{ name: own, format: searxng, "+
		"base_url: %q, params: { engines: local } }] } }\n", url), "10")
	status, _, answer := s.ask(t, searching, `{"query":"a heron & its \"fish\" 鷺","limit":3,"search_provider":"google"}`)
	want := `{"query":"a heron & its \"fish\" 鷺","results":[`
	for i := range 3 {
		want += fmt.Sprintf(`{"title":"Heron %d","url":"https://example.org/%d","content":"It waits: %d","date":""},`,
			i, i, i)
	}
	if want = strings.TrimSuffix(want, ",") + "]}"; status != 200 || answer != want {
		t.Errorf("%d %s\nwant %s", status, answer, want)
	}
	if asked := engine.last(t).uri; asked != "/?q=a+heron+%26+its+%22fish%22+%E9%B7%BA" {
		t.Errorf("its engine was asked %s", asked)
	}
	s.charged(t, 1)
	engine.now(says(200, "application/json", `{"hits":[]}`))
	if status, _, answer := s.ask(t, searching, `{"query":"nothing","search_provider":"google"}`); status != 200 ||
		answer != `{"query":"nothing","results":[]}` {
		t.Errorf("without hits: %d %s", status, answer)
	}
	s.charged(t, 1)
	s.CLI("verify")
}

// A service that fails rests, and is asked again when it has.
func TestAFailingServiceRests(t *testing.T) {
	t.Parallel()
	e := startEngines(t)
	s := start(t, e.searches("    rate: { rpm: 0 }", "breaker: { failures: 2, open_for: 3s }"), "10")
	e.first.now(says(500, "text/plain", "x"))
	for range 6 {
		if status, _, answer := s.ask(t, searching, `{"query":"heron"}`); status != 200 {
			t.Errorf("%d %s", status, answer)
		}
	}
	if n := e.first.asked(); n < 2 || n > 4 {
		t.Errorf("a service that failed twice was asked %d times", n)
	}
	log := s.AwaitLog(`"breaker":"open"`)
	if !strings.Contains(log, `"search_provider":"brave","upstream":"first"`) {
		t.Error("the log does not name the resting service")
	}
	label := `{search_provider="brave",upstream="first"}`
	if state, _ := s.Metric("farebox_search_state" + label); state == 0 {
		t.Error("the metrics do not name the resting service")
	}
	if n, _ := s.Metric("farebox_search_failures_total" + label); n < 2 {
		t.Errorf("%v failures are counted", n)
	}
	e.first.now(says(200, "application/json", braveHit))
	rig.Await(t, "it is asked again", func() bool {
		s.ask(t, searching, `{"query":"heron"}`)
		return e.first.asked() > 1
	})
	s.AwaitLog(`"breaker":"closed"`)
	e.both(says(503, "text/plain", "x"))
	for range 3 {
		s.ask(t, searching, `{"query":"heron"}`)
	}
	if status, header, answer := s.ask(t, searching, `{"query":"heron"}`); status != 503 ||
		header.Get("Retry-After") == "" || e.other.asked() != 0 {
		t.Errorf("when all rest: %d %v %s", status, header, answer)
	}
	s.idle()
	s.CLI("verify")
}

// An account without money gets nothing, and no service is asked for it; a client that
// leaves before any service was asked pays nothing.
func TestSearchesThatCostNothing(t *testing.T) {
	t.Parallel()
	e := startEngines(t)
	mute := mute(t)
	s := start(t, strings.Replace(strings.Replace(e.searches("", quiet), fmt.Sprintf("%q", e.first.URL),
		fmt.Sprintf("%q", "https://"+mute), 1), "timeout: 4s", "timeout: 5s", 1), "0.009")
	if status, _, answer := s.ask(t, searching, `{"query":"heron"}`); status != 402 ||
		!strings.Contains(answer, "INSUFFICIENT_BALANCE") || e.second.asked() != 0 {
		t.Errorf("without money: %d %s", status, answer)
	}
	s.Credit("a", "1")
	tight := s.Key("a", "--limit-usd", "0.015", "--limit-period", "LIFETIME")
	for _, want := range []int{200, 402} {
		status, _, answer := s.Post(searching, tight, `{"query":"heron","search_provider":"google"}`)
		if status != want || want == 402 && !strings.Contains(string(answer), "API_KEY_USD_SPEND_LIMIT_EXCEEDED") {
			t.Errorf("with a key of 0.015: %d %s, want %d", status, answer, want)
		}
	}
	s.had = s.has()
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	if status, _, _ := s.send(ctx, searching, "application/json", []byte(`{"query":"heron"}`)); status != 0 {
		t.Errorf("answered %d", status)
	}
	s.charged(t, 0)
	if e.other.asked() != 1 || e.second.asked() != 0 {
		t.Errorf("others were asked: %d, %d", e.other.asked(), e.second.asked())
	}
	s.CLI("verify")
}
