package augment

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"farebox/bench/servers"
	"farebox/tests/rig"
)

const scraping = "/augment/scrape"

// article is a page with a main content of its own.
func article(body string) string {
	return "<!doctype html><html><head><title>A title</title></head><body><nav><a href=/home>Homeward</a></nav><article>" +
		"<p>" + strings.Repeat("The first paragraph goes on, with commas, for a while. ", 8) + "</p>" + body +
		"<p>" + strings.Repeat("The last paragraph says something else, at some length. ", 8) + "</p>" +
		"</article><footer>Imprint and cookies</footer></body></html>"
}

// internal is a server at 127.0.0.2, which may not be fetched from. It counts who
// comes, whatever they say.
func internal(t testing.TB) (addr string, hits *atomic.Int64) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.2:0")
	if err != nil {
		servers.Elsewhere(t, "second loopback address")
	}
	t.Cleanup(func() { _ = ln.Close() })
	hits = new(atomic.Int64)
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			hits.Add(1)
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 6\r\n\r\nsecret")
			_ = c.Close()
		}
	}()
	return ln.Addr().String(), hits
}

// site is a public site with the habits of real ones. inward is a forbidden internal address.
func site(t testing.TB, inward string) *peer {
	html := func(body string) func(http.ResponseWriter, *http.Request) {
		return says(200, "text/html; charset=utf-8", body)
	}
	to := func(link string) func(http.ResponseWriter, *http.Request) {
		return says(302, "text/html", "", "Location", link)
	}
	pages := map[string]func(http.ResponseWriter, *http.Request){
		"/robots.txt": says(200, "text/plain", "User-agent: *\nDisallow: /rookery/private\n"),
		"/rookery":    html(article("<h2>Below</h2><p>A <a href=/b>link</a>, and <b>bold</b> words beside it.</p>")),
		"/moved":      to("/rookery"),
		"/text":       says(200, "text/plain", "plain rookery"),
		"/pdf":        says(200, "application/pdf", string(pdf("A stork on paper"))),
		"/scan":       says(200, "application/pdf", string(pdf(""))),
		"/404":        says(404, "text/html", article("")), "/403": says(403, "text/html", "no"),
		"/500": says(500, "text/html", "no"), "/503": says(503, "text/html", "no", "Retry-After", "7"),
		"/429":       says(429, "text/html", "no", "Retry-After", "9"),
		"/challenge": says(403, "text/html", "<title>Just a moment...</title>", "Cf-Mitigated", "challenge"),
		"/slow":      late(time.Minute, nil),
		"/loop":      to("/loop"), "/circle": to("/circle2"), "/circle2": to("/circle"),
		"/inward": to("http://" + inward + "/secret"), "/meta": to("http://169.254.169.254/latest/meta-data/"),
		"/ftp": to("ftp://127.0.0.1/x"), "/user": to("http://a:b@127.0.0.1/x"), "/blocked": to("https://x.com/rookery"),
		"/robbed": to("/rookery/private"),
		"/image":  says(200, "image/png", "\x89PNG\r\n\x1a\n"), "/empty": html("<html><body></body></html>"),
		"/nothing": html(""), "/cut": cut("<html>"),
		"/frame": html(article(`<iframe src="http://` + inward + `/f"></iframe><img src="http://` + inward +
			`/i.png"><script src="http://` + inward + `/s.js"></script><link rel=stylesheet ` +
			`href="http://` + inward + `/c.css">` +
			`<meta http-equiv=refresh content="0;url=http://` + inward + `/r">`)),
	}
	endless := func(pause time.Duration, piece string) func(http.ResponseWriter, *http.Request) {
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			for r.Context().Err() == nil {
				if _, err := io.WriteString(w, piece); err != nil {
					return
				}
				w.(http.Flusher).Flush()
				time.Sleep(pause)
			}
		}
	}
	pages["/endless"] = endless(0, strings.Repeat("<p>rookery", 10_000))
	pages["/drip"] = endless(50*time.Millisecond, "<p>rookery")
	return serve(t, func(w http.ResponseWriter, r *http.Request) {
		if answer := pages[r.URL.Path]; answer != nil {
			answer(w, r)
			return
		}
		html(article("<p>"+r.URL.Path+"</p>"))(w, r)
	})
}

// Pages are read, refused and charged as they should be. All addresses have a word
// that may be in no log.
func TestPages(t *testing.T) {
	t.Parallel()
	inward, hits := internal(t)
	p := site(t, inward)
	config := func(scrape string) string {
		return settings + "augment:\n  scrape: { timeout: 5s, per_host: 64, " + scrape + " }\n  text_parser: {}\n"
	}
	s := start(t, config("rate: { rpm: 0 }"), "100")
	page := func(t *testing.T, url string, headers ...string) (int, http.Header, string) {
		t.Helper()
		return s.ask(t, scraping, `{"url":`+quoted(url)+`}`, headers...)
	}

	rig.Await(t, "the children are ready", func() bool {
		status, _, _ := page(t, p.URL+"/warm")
		return status == 200
	})
	s.charged(t, 1)

	t.Run("a page becomes Markdown and one line on the bill", func(t *testing.T) {
		status, header, answer := page(t, p.URL+"/rookery#top")
		var got struct{ URL, Content, Format string }
		if err := json.Unmarshal([]byte(answer), &got); status != 200 || err != nil ||
			got.URL != p.URL+"/rookery" || got.Format != "markdown" || header.Get("Content-Type") != "application/json" {
			t.Fatalf("%d %v %.300s", status, header, answer)
		}
		for _, want := range []string{"The first paragraph", "## Below", "A [link](" + p.URL + "/b), and **bold** words"} {
			if !strings.Contains(got.Content, want) {
				t.Errorf("the Markdown has no %s:\n%s", want, got.Content)
			}
		}
		if strings.Contains(got.Content, "Imprint") || strings.Contains(got.Content, "Homeward") {
			t.Errorf("the Markdown has more than the content:\n%s", got.Content)
		}
		s.charged(t, 1)
		var usage struct {
			Data []struct {
				SKU                            string
				Units, PricePerUnitUSD, Amount json.Number
			}
		}
		s.Must(200, "GET", "/billing/usage", s.admin, "", &usage)
		if len(usage.Data) != 2 || fmt.Sprint(usage.Data[0]) != "{augment-scrape-page 1 0.01 -0.01}" {
			t.Errorf("the usage is %+v", usage)
		}
	})
	t.Run("a page that is kept costs the same and is not fetched again", func(t *testing.T) {
		_, _, first := page(t, p.URL+"/rookery")
		rig.Await(t, "the page is kept", func() bool {
			before := p.asked()
			_, _, again := page(t, p.URL+"/rookery")
			if again != first {
				t.Fatalf("the second answer is %.200s", again)
			}
			return p.asked() == before
		})
		spent := s.had - s.has()
		if n, ok := s.Metric(`farebox_augment_total{of="scrape"}`); !ok || rig.Money(n-2)*price != spent {
			t.Errorf("%v calls, two of them before, cost %s", n, spent)
		}
		s.charged(t, int(spent/price))
	})
	t.Run("the address is where redirects end", func(t *testing.T) {
		if status, _, answer := page(t, p.URL+"/moved?rookery"); status != 200 ||
			!strings.HasPrefix(answer, `{"url":"`+p.URL+`/rookery","content":"`) {
			t.Errorf("%d %.200s", status, answer)
		}
		if status, _, answer := page(t, p.URL+"/text?rookery"); status != 200 ||
			answer != `{"url":"`+p.URL+`/text?rookery","content":"plain rookery","format":"markdown"}` {
			t.Errorf("%d %.200s", status, answer)
		}
		s.charged(t, 2)
	})
	t.Run("a PDF behind a link goes through the parser", func(t *testing.T) {
		if status, _, answer := page(t, p.URL+"/pdf?rookery"); status != 200 ||
			!strings.Contains(answer, "A stork on paper") {
			t.Errorf("%d %.200s", status, answer)
		}
		s.charged(t, 1)
	})
	t.Run("resources of a page are not fetched", func(t *testing.T) {
		if status, _, answer := page(t, p.URL+"/frame?rookery"); status != 200 {
			t.Errorf("%d %.200s", status, answer)
		}
		s.charged(t, 1)
	})
	t.Run("a client that leaves once a site was asked pays once", func(t *testing.T) {
		before := p.asked()
		s.leave(t, scraping, "application/json", []byte(`{"url":"`+p.URL+`/slow?rookery=left"}`), func() bool {
			return p.asked() > before
		})
		s.charged(t, 1)
	})
	t.Run("a client that left with a key gets the page with the retry", func(t *testing.T) {
		var asked atomic.Int64
		q := serve(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/robots.txt" {
				w.WriteHeader(404)
				return
			}
			asked.Add(1)
			late(300*time.Millisecond, says(200, "text/html", article("<p>kept</p>")))(w, r)
		})
		body := `{"url":"` + q.URL + `/rookery"}`
		s.leave(t, scraping, "application/json", []byte(body), func() bool { return asked.Load() == 1 },
			"Idempotency-Key", "s1")
		status, header, answer := s.ask(t, scraping, body, "Idempotency-Key", "s1")
		if status != 200 || !strings.Contains(answer, "kept") || header.Get("Idempotent-Replayed") != "true" ||
			asked.Load() != 1 {
			t.Errorf("%d %v %.200s after %d requests", status, header, answer, asked.Load())
		}
		s.charged(t, 1)
	})

	before := p.asked()
	for _, c := range []struct {
		name, url string
		status    int
		text      string
	}{
		{"another scheme", "ftp://example.com/rookery", 400, "http"}, {"no scheme", "example.com/rookery", 400, "http"},
		{"a script", "javascript:rookery", 400, "http"}, {"a file", "file:///etc/rookery", 400, "http"},
		{"no host", "http:///rookery", 400, "http"}, {"nonsense", "http://a b/rookery", 400, "http"},
		{"credentials", "http://rookery:x@" + p.Addr + "/", 400, "credentials"},
		{"a blocked site", "https://x.com/rookery", 400, "X does not let"},
		{"below a blocked site", "https://old.reddit.com./rookery", 400, "Reddit"},
		{"a blocked site in wide letters", "https://ｘ.com/rookery", 400, "X does not let"},
		{"an internal address", "http://" + inward + "/rookery", 400, "may not be fetched"},
		{"an internal address in IPv6", "http://[::ffff:" + strings.Replace(inward, ":", "]:", 1) + "/rookery", 400,
			"may not be fetched"},
		{"an internal address as a number", "http://" + strings.Replace(inward, "127.0.0.2", "2130706434", 1) + "/rookery",
			400, "may not be fetched"},
		{"an internal address in octal", "http://" + strings.Replace(inward, "127.0.0.2", "0177.0.0.2", 1) + "/rookery", 400,
			"may not be fetched"},
		{"this machine in IPv6", "http://[::1]:80/rookery", 400, "may not be fetched"},
		{"the metadata of a cloud", "http://169.254.169.254/rookery", 400, "may not be fetched"},
		{"a private address", "http://10.0.0.1/rookery", 400, "may not be fetched"},
		{"a private address in IPv6", "http://[fd00::1]/rookery", 400, "may not be fetched"},
		{"an odd port", "http://93.184.216.34:6379/rookery", 400, ""},
		{"a long address", "http://" + p.Addr + "/" + strings.Repeat("rookery", 1200), 400, "url"},
	} {
		t.Run(c.name+" is refused before any site is asked", func(t *testing.T) {
			status, _, answer := page(t, c.url)
			if status != c.status || !strings.Contains(answer, c.text) || !strings.Contains(answer, `"path":["url"]`) {
				t.Errorf("%d %.300s", status, answer)
			}
		})
	}
	if n := p.asked() - before; n != 0 {
		t.Errorf("the site was asked %d times", n)
	}
	for _, c := range []struct {
		path   string
		status int
		text   string
	}{
		{"/rookery/private", 400, "robots.txt"}, {"/robbed", 400, "robots.txt"}, {"/404", 500, "404"}, {"/403", 500, "403"},
		{"/500", 500, "500"}, {"/503", 500, "503"}, {"/429", 500, "429"}, {"/challenge", 500, "Cloudflare"},
		{"/slow", 500, "in time"}, {"/drip", 500, "in time"}, {"/loop", 500, "redirects too often"},
		{"/circle", 500, "redirects too often"}, {"/inward", 400, "may not be fetched"}, {"/meta", 400, "may not be fetched"},
		{"/ftp", 400, "http"}, {"/user", 400, "credentials"}, {"/blocked", 400, "X does not let"},
		{"/image", 400, "neither"}, {"/empty", 500, "no readable text"}, {"/nothing", 500, "no readable text"}, {"/cut", 500, "broke off"},
		{"/endless", 400, "too large"}, {"/scan", 400, "No text"},
	} {
		t.Run(c.path+" is reported and free", func(t *testing.T) {
			began := time.Now()
			status, header, answer := page(t, p.URL+c.path+"?rookery")
			if took := time.Since(began); status != c.status || !strings.Contains(answer, c.text) || took > 20*time.Second {
				t.Errorf("%d %v %.300s after %s", status, header, answer, took)
			}
			if c.status == 500 && !strings.Contains(answer, "othing was charged") || strings.Contains(answer, "127.0.0") {
				t.Errorf("the answer is %s", answer)
			}
			if want := map[string]string{"/503": "7", "/429": "9"}[c.path]; want != "" && header.Get("Retry-After") != want {
				t.Errorf("Retry-After is %s, not the site's %s", header.Get("Retry-After"), want)
			}
		})
	}
	t.Run("a site that is down is reported and free", func(t *testing.T) {
		if status, _, answer := page(t, "http://"+rig.FreeAddr(t)+"/rookery"); status != 500 ||
			!strings.Contains(answer, "could not be reached") {
			t.Errorf("%d %s", status, answer)
		}
	})
	t.Run("bodies that are wrong are 400", func(t *testing.T) {
		for _, body := range []string{`{}`, `{"url":""}`, `{"url":1}`, `{"url":null}`, `[]`, ``,
			`{"url":["` + p.URL + `"]}`} {
			if status, _, answer := s.ask(t, scraping, body); status != 400 {
				t.Errorf("%s: %d %s", body, status, answer)
			}
		}
	})
	s.charged(t, 0)
	t.Run("nothing internal was reached", func(t *testing.T) {
		if n := hits.Load(); n != 0 {
			t.Errorf("the internal server was reached %d times", n)
		}
	})
	t.Run("no address is in the log", func(t *testing.T) {
		for line := range strings.Lines(s.Log()) {
			if strings.Contains(line, "rookery") || strings.Contains(line, p.Addr) {
				t.Fatalf("the log says %s", line)
			}
		}
	})
	// On a busy machine a page takes longer than the two seconds that others may take here.
	patient := func(scrape string) string { return strings.Replace(config(scrape), "timeout: 5s", "timeout: 10s", 1) }
	t.Run("a reload that does not concern pages keeps them", func(t *testing.T) {
		var asked atomic.Int64
		q := serve(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/robots.txt" {
				asked.Add(1)
			}
			says(200, "text/html", article(""))(w, r)
		})
		for i, c := range []struct {
			config string
			asked  int64
		}{
			{patient("rate: { rpm: 0 }"), 1},
			{patient("rate: { rpm: 0 }") + "server: { drain_timeout: 9s }\n", 1},
			{patient("rate: { rpm: 9000 }, price: 0.010"), 1},
			{patient("rate: { rpm: 0 }") + "  search: { brave: [{ name: b, format: brave, key: k }] }\n", 1},
			{patient("rate: { rpm: 0 }, user_agent: another"), 2},
		} {
			s.reload(c.config)
			if status, _, answer := page(t, q.URL+"/rookery"); status != 200 || asked.Load() != c.asked {
				t.Errorf("config %d: %d %.200s after %d requests", i, status, answer, asked.Load())
			}
			s.charged(t, 1)
		}
	})
	t.Run("a reload does not disturb open requests", func(t *testing.T) {
		var asked atomic.Int64
		q := serve(t, func(w http.ResponseWriter, r *http.Request) {
			if asked.Add(1); r.URL.Path == "/robots.txt" {
				w.WriteHeader(404)
				return
			}
			late(600*time.Millisecond, says(200, "text/html", article("<p>still there</p>")))(w, r)
		})
		type end struct {
			status int
			answer string
		}
		s.reload(patient("rate: { rpm: 0 }"))
		done := make(chan end, 4)
		for i := range 4 {
			go func() {
				status, _, answer := page(t, fmt.Sprint(q.URL, "/rookery/", i))
				done <- end{status, answer}
			}()
		}
		rig.Await(t, "the site is asked", func() bool { return asked.Load() >= 5 })
		s.reload(patient("rate: { rpm: 0 }, min_text: 20"))
		s.reload(patient("rate: { rpm: 0 }, min_text: 30"))
		for range 4 {
			if got := <-done; got.status != 200 || !strings.Contains(got.answer, "still there") {
				t.Errorf("%d %.200s", got.status, got.answer)
			}
		}
		s.charged(t, 4)
	})
	t.Run("twenty pages a minute are usual", func(t *testing.T) {
		s.reload(config("min_text: 10"))
		began := time.Now()
		for i := range 20 {
			if status, _, answer := page(t, fmt.Sprint(p.URL, "/rookery/", i)); status != 200 {
				t.Fatalf("page %d: %d %s", i, status, answer)
			}
		}
		n, before := 20, p.asked()
		status, header, answer := page(t, p.URL+"/rookery/20")
		for ; status == 200 && n < 100; n++ { // one more for every three seconds
			before = p.asked()
			status, header, answer = page(t, fmt.Sprint(p.URL, "/rookery/", n+1))
		}
		if most := 21 + int(time.Since(began)/(3*time.Second)); n > most {
			t.Errorf("%d pages were read, at most %d may be", n, most)
		}
		if status != 429 || header.Get("Retry-After") == "" || header.Get("X-Ratelimit-Limit") != "20" ||
			header.Get("X-Ratelimit-Remaining") != "0" || !strings.Contains(answer, "RATE_LIMIT_EXCEEDED") ||
			p.asked() != before {
			t.Errorf("%d %v %s", status, header, answer)
		}
		s.charged(t, n)
	})
	t.Run("an account without money gets nothing and no site is asked", func(t *testing.T) {
		s.NewAccount("poor", "0.009")
		s.reload(config("rate: { rpm: 0 }, robots: ignore"))
		before := p.asked()
		if status, _, answer := s.Post(scraping, s.Key("poor"), `{"url":"`+p.URL+`/rookery/x"}`); status != 402 ||
			!strings.Contains(string(answer), "INSUFFICIENT_BALANCE") || p.asked() != before {
			t.Errorf("%d %s", status, answer)
		}
		tight := s.Key("a", "--limit-usd", "0.015", "--limit-period", "LIFETIME")
		for _, want := range []int{200, 402} {
			if status, _, answer := s.Post(scraping, tight, `{"url":"`+p.URL+`/rookery/private/y"}`); status != want {
				t.Errorf("with a key of 0.015: %d %s, want %d", status, answer, want)
			}
		}
		s.charged(t, 1)
	})
	s.CLI("verify")
}
