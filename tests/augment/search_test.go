package augment

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"time"

	"farebox/tests/rig"
)

const searching = "/augment/search"

// engines are three peers that search: two of one provider, one of the other.
type engines struct {
	first, second, other *peer
}

const (
	braveHit  = `{"web":{"results":[{"title":"T","url":"https://a.example/","description":"C","page_age":"D"}]}}`
	serperHit = `{"organic":[{"title":"T","link":"https://a.example/","snippet":"C","date":"D"}]}`
	hit       = `"results":[{"title":"T","url":"https://a.example/","content":"C","date":"D"}]}`
)

func startEngines(t testing.TB) *engines {
	well, other := says(200, "application/json", braveHit), says(200, "application/json", serperHit)
	return &engines{serve(t, well), serve(t, well), serve(t, other)}
}

// well has all of them answer again.
func (e *engines) well() {
	e.first.now(says(200, "application/json", braveHit))
	e.second.now(says(200, "application/json", braveHit))
	e.other.now(says(200, "application/json", serperHit))
}

// both has the two of the first provider answer alike.
func (e *engines) both(answer func(http.ResponseWriter, *http.Request)) {
	e.well()
	e.first.now(answer)
	e.second.now(answer)
}

const quiet = "breaker: { failures: 0 }"

// searches is a config before engines; more are further settings of search, breaker
// those of upstreams.
func (e *engines) searches(more, breaker string) string {
	return settings + fmt.Sprintf(`
augment:
  search:
    timeout: 4s
%s
    brave:
      - { name: first, format: brave, base_url: %q, key: secret-1, %s }
      - { name: second, format: brave, base_url: %q, key: secret-2, priority: 1, %s }
    google: [{ name: other, format: serper, base_url: %q, key: secret-3, %s }]
`, more, e.first.URL, breaker, e.second.URL, breaker, e.other.URL, breaker)
}

// quoted is a JSON string.
func quoted(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}

// Searches are answered, refused and charged as they should be. All of them are for
// herons, a word that no log may have.
func TestSearches(t *testing.T) {
	t.Parallel()
	e := startEngines(t)
	s := start(t, e.searches("    rate: { rpm: 0 }", quiet), "100")

	t.Run("an answer has all four texts of a result and is one line on the bill", func(t *testing.T) {
		e.well()
		status, header, answer := s.ask(t, searching, `{"query":"heron"}`)
		if want := `{"query":"heron",` + hit; status != 200 || answer != want ||
			header.Get("Content-Type") != "application/json" {
			t.Errorf("%d %v %s, want %s", status, header, answer, want)
		}
		s.charged(t, 1)
		var usage struct {
			Data []struct {
				SKU                            string
				Units, PricePerUnitUSD, Amount json.Number
			}
		}
		s.Must(200, "GET", "/billing/usage", s.admin, "", &usage)
		if len(usage.Data) != 1 || fmt.Sprint(usage.Data[0]) !=
			"{augment-search-request 1 0.01 -0.01}" {
			t.Errorf("the usage is %+v", usage)
		}
	})
	t.Run("a service sees the words and nothing of the client", func(t *testing.T) {
		e.well()
		s.ask(t, searching, `{"query":"heron"}`, "User-Agent", "client/9", "X-Forwarded-For", "203.0.113.9", "Cookie",
			"c=1", "Referer", "https://client.example/", "Accept-Language", "tlh")
		got := e.first.last(t)
		all := fmt.Sprint(got)
		for _, bad := range []string{"client", "203.0.113.9", "c=1", "tlh", s.key} {
			if strings.Contains(all, bad) {
				t.Errorf("the service sees %s: %s", bad, all)
			}
		}
		if got.header.Get("X-Subscription-Token") != "secret-1" || got.header.Get("Accept") != "application/json" {
			t.Errorf("the service is asked with %v", got.header)
		}
		s.charged(t, 1)
	})
	t.Run("words arrive unharmed", func(t *testing.T) {
		for _, words := range []string{"heron {limit}", `"heron" {query}`, "heron\nheron\r\n\theron", "heron & q=1 # ? %41 +",
			"heron 鷺 \U0001F600 \u2028", "heron\\", strings.Repeat("鷺", 400), "\x00heron"} {
			e.well()
			want := words
			for _, provider := range []string{"brave", "google"} {
				status, _, answer := s.ask(t, searching,
					fmt.Sprintf(`{"query":%s,"search_provider":%q}`, quoted(words), provider))
				var said struct{ Query string }
				if err := json.Unmarshal([]byte(answer), &said); status != 200 || err != nil || said.Query != want {
					t.Errorf("%q by %s: %d %s", words, provider, status, answer)
					continue
				}
				got := ""
				if provider == "brave" {
					u, err := url.Parse(e.first.last(t).uri)
					if err != nil {
						t.Fatal(err)
					}
					got = u.Query().Get("q")
				} else {
					var asked struct{ Q string }
					_ = json.Unmarshal([]byte(e.other.last(t).body), &asked)
					got = asked.Q
				}
				if got != want {
					t.Errorf("%s is asked for %q, want %q", provider, got, want)
				}
			}
		}
		s.charged(t, 16)
	})
	t.Run("wrong bodies are 400 and no service is asked", func(t *testing.T) {
		e.well()
		for _, c := range []struct{ body, member string }{
			{`{}`, "query"}, {`{"query":""}`, "query"}, {`{"query":null}`, "query"}, {`{"query":1}`, "query"},
			{`{"query":["heron"]}`, "query"}, {`{"query":"` + strings.Repeat("鷺", 401) + `"}`, "query"},
			{`{"query":"` + strings.Repeat(`\u9dfa`, 401) + `"}`, "query"},
			{`{"query":"heron","limit":0}`, "limit"}, {`{"query":"heron","limit":21}`, "limit"},
			{`{"query":"heron","limit":-1}`, "limit"}, {`{"query":"heron","limit":"3"}`, "limit"},
			{`{"query":"heron","limit":1.5}`, "limit"}, {`{"query":"heron","limit":1e99}`, "limit"},
			{`{"query":"heron","search_provider":"bing"}`, "search_provider"},
			{`{"query":"heron","search_provider":"Brave"}`, "search_provider"},
			{`{"query":"heron","search_provider":1}`, "search_provider"},
			{`{"query":"heron","search_provider":""}`, "search_provider"}, {`[]`, ""}, {`{"query":"heron"`, ""},
			{`{"query":"heron","unknown":{"x":1}}`, "unknown"}, {`"heron"`, ""}, {``, ""}, {"{\"query\":\"heron\xff\"}", ""},
		} {
			status, _, answer := s.ask(t, searching, c.body)
			if status != 400 || !strings.Contains(answer, c.member) {
				t.Errorf("%.80s is answered %d %s", c.body, status, answer)
			}
		}
		for _, body := range []string{`{"query":"` + strings.Repeat("鷺", 400) + `","limit":20}`, `{"query":"h","limit":1}`,
			`{"query":"` + strings.Repeat(`\u9dfa`, 400) + `"}`, `{"query":"h","limit":20.0}`, `{"query":"h","limit":2e1}`} {
			if status, _, answer := s.ask(t, searching, body); status != 200 {
				t.Errorf("%.80s is answered %d %s", body, status, answer)
			}
		}
		if n := e.first.asked(); n != 5 || e.second.asked()+e.other.asked() != 0 {
			t.Errorf("the first was asked %d times, not 5", n)
		}
		s.charged(t, 5)
	})
	t.Run("a limit is sent to the service and kept", func(t *testing.T) {
		many := `{"web":{"results":[` + strings.TrimSuffix(strings.Repeat(`{"title":"T","url":"https://a.example/"},`, 40),
			",") + `]}}`
		for body, want := range map[string]int{`{"query":"heron"}`: 10, `{"query":"heron","limit":1}`: 1,
			`{"query":"heron","limit":20}`: 20} {
			e.both(says(200, "application/json", many))
			_, _, answer := s.ask(t, searching, body)
			u, err := url.Parse(e.first.last(t).uri)
			if n := strings.Count(answer, `"title"`); err != nil || n != want ||
				u.Query().Get("count") != fmt.Sprint(want) || !strings.Contains(answer, `"date":""`) {
				t.Errorf("%s is asked as %s and gives %d results, want %d", body, u, n, want)
			}
		}
		s.charged(t, 3)
	})
	t.Run("no hits are an answer and cost their price", func(t *testing.T) {
		for _, none := range []string{`{"type":"search"}`, `{"web":{"results":[]}}`} {
			e.both(says(200, "application/json", none))
			if status, _, answer := s.ask(t, searching, `{"query":"heron"}`); status != 200 ||
				answer != `{"query":"heron","results":[]}` {
				t.Errorf("%s is answered %d %s", none, status, answer)
			}
		}
		s.charged(t, 2)
	})
	t.Run("a search that fails at one service goes to the next, never to the other provider", func(t *testing.T) {
		for name, fault := range faults {
			e.well()
			e.first.now(fault)
			status, _, answer := s.ask(t, searching, `{"query":"heron"}`)
			if status != 200 || answer != `{"query":"heron",`+hit || e.first.asked() != 1 || e.second.asked() != 1 ||
				e.other.asked() != 0 {
				t.Errorf("%s: %d %.200s after %d, %d and %d requests", name, status, answer, e.first.asked(),
					e.second.asked(), e.other.asked())
			}
		}
		s.charged(t, len(faults))
	})
	t.Run("a search that fails at all is reported and free, and never reaches the other provider", func(t *testing.T) {
		for name, fault := range faults {
			e.both(fault)
			want := map[string]int{"429": 429, "429 in a while": 429}[name]
			if want == 0 {
				want = 503
			}
			status, header, answer := s.ask(t, searching, `{"query":"heron"}`)
			if status != want || !strings.Contains(answer, "othing was charged") || header.Get("Retry-After") == "" ||
				e.second.asked() != 1 || e.other.asked() != 0 || strings.Contains(answer, "heron") {
				t.Errorf("%s: %d %v %.200s", name, status, header, answer)
			}
		}
		e.both(says(429, "application/json", "{}", "Retry-After", "7"))
		if _, header, _ := s.ask(t, searching, `{"query":"heron"}`); header.Get("Retry-After") != "7" {
			t.Errorf("Retry-After is %s, not the service's 7", header.Get("Retry-After"))
		}
		s.charged(t, 0)
	})
	t.Run("a request that a service refuses is 400 at once", func(t *testing.T) {
		for _, status := range []int{400, 422} {
			e.both(says(status, "application/json", `{"error":"heron is not allowed"}`))
			got, _, answer := s.ask(t, searching, `{"query":"heron"}`)
			if got != 400 || strings.Contains(answer, "heron") || e.second.asked()+e.other.asked() != 0 {
				t.Errorf("%d becomes %d %s", status, got, answer)
			}
		}
		s.charged(t, 0)
	})
	t.Run("a search that takes too long is 504 and free", func(t *testing.T) {
		drip := func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			for r.Context().Err() == nil {
				_, _ = w.Write([]byte(" "))
				w.(http.Flusher).Flush()
				time.Sleep(50 * time.Millisecond)
			}
		}
		for name, slow := range map[string]func(http.ResponseWriter, *http.Request){
			"nothing comes": late(time.Minute, nil), "it drips": drip} {
			e.both(slow)
			began := time.Now()
			status, _, answer := s.ask(t, searching, `{"query":"heron"}`)
			if took := time.Since(began); status != 504 || took > 15*time.Second || e.other.asked() != 0 ||
				!strings.Contains(answer, "othing was charged") {
				t.Errorf("%s: %d %s after %s", name, status, answer, took)
			}
		}
		s.charged(t, 0)
	})
	t.Run("one that hangs leaves time for the next", func(t *testing.T) {
		e.well()
		e.first.now(late(time.Minute, nil))
		if status, _, answer := s.ask(t, searching, `{"query":"heron"}`); status != 200 || e.second.asked() != 1 {
			t.Errorf("%d %s", status, answer)
		}
		s.charged(t, 1)
	})
	t.Run("hostile results are tamed", func(t *testing.T) {
		e.both(says(200, "application/json", `{"web":{"results":[null,1,"x",[],{},{"title":"no link"},`+
			`{"title":"J","url":"javascript:alert(1)"},{"title":"D","url":"data:text/html,x"},`+
			`{"title":5,"url":"https://a.example/?q=\"\u0000<","description":["x"],"page_age":2026},`+
			"{\"title\":\"\xff\xfeX\\u0000\",\"url\":\"http://b.example/\",\"description\":\""+strings.Repeat("y", 1<<20)+
			`"}]}}`))
		status, _, answer := s.ask(t, searching, `{"query":"heron"}`)
		var got struct {
			Results []map[string]string
		}
		if err := json.Unmarshal([]byte(answer), &got); status != 200 || err != nil || len(got.Results) != 2 {
			t.Fatalf("%d %v %.300s", status, err, answer)
		}
		want := map[string]string{"title": "5", "url": "https://a.example/?q=\"\x00<", "content": "", "date": "2026"}
		if !reflect.DeepEqual(got.Results[0], want) {
			t.Errorf("%q, want %q", got.Results[0], want)
		}
		if r := got.Results[1]; r["title"] != "\uFFFDX" || r["url"] != "http://b.example/" || r["date"] != "" ||
			len(r["content"]) > 64<<10 {
			t.Errorf("%.300q", r)
		}
		s.charged(t, 1)
	})
	t.Run("a client that leaves once a service was asked pays once", func(t *testing.T) {
		e.both(late(10*time.Second, says(200, "application/json", braveHit)))
		s.leave(t, searching, "application/json", []byte(`{"query":"heron"}`), func() bool { return e.first.asked() == 1 })
		s.charged(t, 1)
		if n := e.second.asked(); n != 0 {
			t.Errorf("the second was asked %d times without a client", n)
		}
	})
	t.Run("a key gives the same answer twice and costs once", func(t *testing.T) {
		e.well()
		status, header, answer := s.ask(t, searching, `{"query":"heron"}`, "Idempotency-Key", "k1")
		again, second, text := s.ask(t, searching, `{"query":"heron"}`, "Idempotency-Key", "k1")
		if status != 200 || again != 200 || text != answer || header.Get("Idempotent-Replayed") != "" ||
			second.Get("Idempotent-Replayed") != "true" || second.Get("Content-Type") != header.Get("Content-Type") ||
			e.first.asked() != 1 {
			t.Errorf("%d %v %s, then %d %v %s", status, header, answer, again, second, text)
		}
		if status, _, text = s.ask(t, searching, `{"query":"herons"}`, "Idempotency-Key", "k1"); status != 400 {
			t.Errorf("another body under the key: %d %s", status, text)
		}
		s.charged(t, 1)
	})
	t.Run("a client that left with a key gets the answer with the retry", func(t *testing.T) {
		e.both(late(300*time.Millisecond, says(200, "application/json", braveHit)))
		s.leave(t, searching, "application/json", []byte(`{"query":"heron"}`), func() bool { return e.first.asked() == 1 },
			"Idempotency-Key", "k2")
		status, header, answer := s.ask(t, searching, `{"query":"heron"}`, "Idempotency-Key", "k2")
		if status != 200 || answer != `{"query":"heron",`+hit || header.Get("Idempotent-Replayed") != "true" ||
			e.first.asked() != 1 {
			t.Errorf("%d %v %s", status, header, answer)
		}
		s.charged(t, 1)
	})
	t.Run("a failure after a client with a key has left can be tried again", func(t *testing.T) {
		e.both(late(300*time.Millisecond, says(500, "text/plain", "x")))
		s.leave(t, searching, "application/json", []byte(`{"query":"heron"}`), func() bool { return e.first.asked() == 1 },
			"Idempotency-Key", "k4")
		s.MetricIs("farebox_unattended_keyed", func(n float64) bool { return n == 0 })
		e.well()
		status, header, answer := s.ask(t, searching, `{"query":"heron"}`, "Idempotency-Key", "k4")
		if status != 200 || answer != `{"query":"heron",`+hit || header.Get("Idempotent-Replayed") != "" {
			t.Errorf("%d %v %s", status, header, answer)
		}
		s.charged(t, 1)
	})
	t.Run("a failure under a key can be tried again", func(t *testing.T) {
		e.both(says(500, "text/plain", "x"))
		if status, _, answer := s.ask(t, searching, `{"query":"heron"}`, "Idempotency-Key", "k3"); status != 503 {
			t.Errorf("%d %s", status, answer)
		}
		e.well()
		if status, _, answer := s.ask(t, searching, `{"query":"heron"}`, "Idempotency-Key", "k3"); status != 200 {
			t.Errorf("%d %s", status, answer)
		}
		s.charged(t, 1)
	})
	t.Run("no query is in the log", func(t *testing.T) {
		if log := s.Log(); strings.Contains(log, "heron") || strings.Contains(log, "鷺") ||
			strings.Contains(log, "secret-") || !strings.Contains(log, searching) {
			for line := range strings.Lines(log) {
				if strings.Contains(line, "heron") || strings.Contains(line, "鷺") || strings.Contains(line, "secret-") {
					t.Fatalf("the log says %s", line)
				}
			}
			t.Error("the log has no searches")
		}
	})
	t.Run("metrics count sales", func(t *testing.T) {
		spent := s.Settled()["a"].Spent
		if n, ok := s.Metric(`farebox_augment_total{of="search"}`); !ok || rig.Money(n)*price != spent {
			t.Errorf("%v searches are counted, %s were charged", n, spent)
		}
	})
	t.Run("a reload keeps the connections of unchanged services", func(t *testing.T) {
		e.well()
		var peers []string
		e.first.now(func(w http.ResponseWriter, r *http.Request) {
			peers = append(peers, r.RemoteAddr)
			says(200, "application/json", braveHit)(w, r)
		})
		s.ask(t, searching, `{"query":"heron"}`)
		s.reload(e.searches("    price: 0.02\n    rate: { rpm: 0 }", quiet))
		s.ask(t, searching, `{"query":"heron"}`)
		if len(peers) != 2 || peers[0] != peers[1] {
			t.Errorf("the connections came from %v", peers)
		}
		s.charged(t, 3) // one at 0.01, one at 0.02
	})
	t.Run("a search that is free is answered and costs nothing", func(t *testing.T) {
		e.well()
		s.reload(e.searches("    price: free\n    rate: { rpm: 0 }", quiet))
		for range 2 {
			if status, _, answer := s.ask(t, searching, `{"query":"heron"}`, "Idempotency-Key", "free"); status != 200 ||
				answer != `{"query":"heron",`+hit {
				t.Errorf("%d %s", status, answer)
			}
		}
		s.charged(t, 0)
	})
	t.Run("a provider without a service is refused", func(t *testing.T) {
		text := e.searches("    rate: { rpm: 0 }", quiet)
		s.reload(text[:strings.Index(text, "    google:")])
		status, _, answer := s.ask(t, searching, `{"query":"heron","search_provider":"google"}`)
		if status != 400 || !strings.Contains(answer, "search_provider") {
			t.Errorf("%d %s", status, answer)
		}
		s.charged(t, 0)
	})
	t.Run("twenty searches a minute are usual", func(t *testing.T) {
		e.well()
		s.reload(e.searches("", quiet))
		for i := range 20 {
			if status, header, answer := s.ask(t, searching, `{"query":"heron"}`); status != 200 {
				t.Fatalf("search %d: %d %v %s", i, status, header, answer)
			}
		}
		status, header, answer := s.ask(t, searching, `{"query":"heron"}`)
		if status != 429 || header.Get("Retry-After") == "" || header.Get("X-Ratelimit-Limit") != "20" ||
			header.Get("X-Ratelimit-Remaining") != "0" || header.Get("X-Ratelimit-Reset") == "" ||
			!strings.Contains(answer, "RATE_LIMIT_EXCEEDED") || e.first.asked() != 20 {
			t.Errorf("the search after: %d %v %s", status, header, answer)
		}
		s.charged(t, 20)
	})
	s.CLI("verify")
}
