package scrape

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"farebox/config/fair"
	"farebox/providers/fetch"
	"farebox/providers/fetch/fetchtest"
)

// A page is read in the jail, from where its redirects lead, with an honest name.
func TestAPageIsRead(t *testing.T) {
	t.Parallel()
	u := site(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/robots.txt":
			http.NotFound(w, r)
			return
		case "/start":
			http.SetCookie(w, &http.Cookie{Name: "seen", Value: "1"})
			http.Redirect(w, r, "/article?id=1#top", http.StatusMovedPermanently)
			return
		}
		if a := r.Header.Get("Accept"); !strings.HasPrefix(a, "text/markdown, text/html;q=.9") ||
			r.Header.Get("User-Agent") != "tester/2 (+https://example.com)" || r.Header.Get("Cookie") != "seen=1" ||
			r.Header.Get("Referer") != "" {
			t.Error(r.Header)
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprint(w, article("<p>A <a href=/b>link</a> with some words around it.</p>"))
	})
	s := scraper(t, Options{Agent: "tester/2 (+https://example.com)"})
	p, err := get(t, s, u+"/start#x")
	if err != nil || p.URL != u+"/article?id=1" || p.Cached || !strings.Contains(p.Markdown, "[link]("+u+"/b)") {
		t.Errorf("%v %+v", err, p)
	}
}

// A redirect to a host in letters of its own, or to one that only looks like ASCII, is
// judged by the host that it leads to.
func TestRedirectsToHostsInOtherLetters(t *testing.T) {
	t.Parallel()
	var at string // of the host that the site is asked for
	u := site(t, func(w http.ResponseWriter, r *http.Request) {
		_, port, _ := strings.Cut(r.Host, ":")
		to := map[string]string{"/letters": "bücher.test", "/capitals": "BÜCHER.test", "/combined": "bu\u0308cher.test",
			"/ascii": "xn--bcher-kva.test", "/escaped": "b%C3%BCcher.test", "/wide": "ｉnside.test", "/numbers": "①②⑦.0.0.2",
			"/blocked": "ｘ.com", "/empty": "\u200b", "/joined": "a\u200db.test", "/long": strings.Repeat("ü", 300) + ".test"}[r.URL.Path]
		switch {
		case r.URL.Path == "/robots.txt":
			http.NotFound(w, r)
		case to != "":
			w.Header().Set("Location", "http://"+to+":"+port+"/there")
			w.WriteHeader(302)
		default:
			at, _, _ = strings.Cut(r.Host, ":")
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprint(w, article("<p>there</p>"))
		}
	})
	client := fetch.New(fetch.Options{Allow: loopback, Resolver: fetchtest.Names(t, map[string][]string{
		"xn--bcher-kva.test.": {"127.0.0.1"}, "inside.test.": {"127.0.0.2"}})})
	s := scraper(t, Options{Fetch: client, Jail: here{}})
	for _, path := range []string{"/letters", "/capitals", "/combined", "/ascii", "/escaped"} {
		at = ""
		p, err := get(t, s, u+path)
		if _, port, _ := strings.Cut(strings.TrimPrefix(u, "http://"), ":"); err != nil || at != "xn--bcher-kva.test" ||
			p.URL != "http://xn--bcher-kva.test:"+port+"/there" {
			t.Errorf("%s: %v %s, the host was %q", path, err, p.URL, at)
		}
	}
	for path, want := range map[string]string{"/wide": "forbidden", "/numbers": "forbidden", "/blocked": "blocked",
		"/empty": "bad url", "/joined": "bad url", "/long": "unreachable"} {
		at = ""
		if _, err := get(t, s, u+path); ended(err) != want || at != "" {
			t.Errorf("%s: %v, want %s; the host was %q", path, err, want, at)
		}
	}
}

// Markdown and text are passed on unchanged; documents go to the document reader; the
// rest is refused.
func TestTypesAreReported(t *testing.T) {
	t.Parallel()
	pdf := "%PDF-1.7\n" + strings.Repeat("x", 4<<20)
	u := site(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/robots.txt" {
			return
		}
		w.Header()["Content-Type"] = nil
		if kind := r.URL.Query().Get("t"); kind != "" {
			w.Header().Set("Content-Type", kind)
		}
		switch r.URL.Path {
		case "/pdf":
			_, _ = io.WriteString(w, pdf)
		case "/html":
			_, _ = io.WriteString(w, article(""))
		case "/zeros":
			_, _ = w.Write(make([]byte, 1000))
		case "/latin":
			_, _ = io.WriteString(w, "Gr\xfc\xdfe")
		default:
			_, _ = io.WriteString(w, "# Title\n\n*as* it <is>\n")
		}
	})
	s := scraper(t, Options{Jail: here{}, Document: func(_ context.Context, doc []byte) (string, error) {
		if string(doc) != pdf {
			return "", errors.New("another document")
		}
		return "text of the document", nil
	}})
	for path, want := range map[string]string{
		"/md?t=text/markdown;charset=utf-8": "# Title\n\n*as* it <is>\n", "/a.txt?t=text/plain": "# Title\n\n*as* it <is>\n",
		"/latin?t=text/plain;charset=iso-8859-1": "Grüße", "/json?t=application/json": "# Title\n\n*as* it <is>\n",
		"/pdf?t=application/pdf": "text of the document", "/pdf": "text of the document",
		"/pdf?t=application/octet-stream": "text of the document", "/html": "# A title", "/html?t=": "# A title",
		"/zeros?t=text/plain": "unsupported", "/zeros": "unsupported", "/a?t=image/png": "unsupported",
		"/a?t=video/mp4": "unsupported", "/a?t=application/zip": "unsupported",
	} {
		p, err := get(t, s, u+path)
		got := p.Markdown
		if err != nil {
			got = ended(err)
		}
		if !strings.HasPrefix(got, want) {
			t.Errorf("%s: %.80q", path, got)
		}
	}
	if _, err := get(t, scraper(t, Options{Jail: here{}}), u+"/pdf"); ended(err) != "unsupported" {
		t.Error(err)
	}
}

// An error names the kind of page that a site answers with, and its vendor.
func TestSitesThatRefuseAreNamed(t *testing.T) {
	t.Parallel()
	status, body := 200, ""
	header := http.Header{}
	u := site(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/robots.txt" {
			return
		}
		w.Header().Set("Content-Type", "text/html")
		for k, v := range header {
			w.Header()[k] = v
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	})
	s := scraper(t, Options{Jail: here{}})
	f := func(code int, key, value, page, want string) {
		t.Helper()
		status, body = code, page
		header = http.Header{key: {value}}
		_, err := get(t, s, u+"/a")
		got := ended(err)
		var e *Error
		if errors.As(err, &e) && e.Name != "" {
			got += ": " + e.Name
		}
		if got != want {
			t.Errorf("%d %s %.60q: %s, want %s", code, value, page, got, want)
		}
	}
	for _, code := range []int{401, 403, 407, 429, 451, 503} {
		f(code, "X", "", "no", fmt.Sprint("refused ", code))
	}
	for _, code := range []int{400, 404, 410, 500, 502} {
		f(code, "X", "", "no", fmt.Sprint("status ", code))
	}
	f(204, "X", "", "", "status 204")
	f(202, "X", "", article(""), "<nil>")
	f(200, "X", "", "<html></html>", "no text")
	f(403, "Cf-Mitigated", "challenge", "", "challenge 403: a challenge of Cloudflare")
	f(503, "X", "", "<html><head><title>Just a moment...</title>", "challenge 503: a challenge of Cloudflare")
	f(200, "X", "", "<title>Just a moment...</title><p>Checking your browser", "challenge 200: a challenge of Cloudflare")
	f(403, "X", "", "<div class=cf-error-details>Sorry, you have been blocked", "challenge 403: a block of Cloudflare")
	f(403, "X", "", "Access Denied. Reference #18 https://errors.edgesuite.net/18.", "challenge 403: a block of Akamai")
	f(200, "X", "", "<div id=\"sec-if-cpt-container\">", "challenge 200: a challenge of Akamai")
	f(403, "X-Datadome", "protected", "", "challenge 403: DataDome")
	f(403, "X", "", "<script src=https://ct.captcha-delivery.com/c.js>", "challenge 403: DataDome")
	f(403, "X", "", "<div id=\"px-captcha\">Press & Hold", "challenge 403: a challenge of HUMAN (PerimeterX)")
	f(405, "X-Amzn-Waf-Action", "captcha", "", "challenge 405: a challenge of AWS WAF")
	f(202, "X-Amzn-Waf-Action", "challenge", "", "challenge 202: a challenge of AWS WAF")
	f(200, "X", "", "<iframe src=/_Incapsula_Resource?SWUDNSAI=31>", "challenge 200: Imperva")
	f(429, "X", "", "<form id=\"captcha-form\">", "challenge 429: a captcha")
	f(200, "X", "", "<div id=\"root\"></div><noscript>You need to enable JavaScript to run this app.</noscript>",
		"needs browser")
	// A page about such walls is not a wall.
	f(200, "X", "", article("<p>window._cf_chl_opt, Just a moment... geo.captcha-delivery.com</p>"), "<nil>")
	status, header = 429, http.Header{"Retry-After": {"120"}}
	_, err := get(t, s, u+"/a")
	var e *Error
	if !errors.As(err, &e) || e.RetryAfter != 2*time.Minute || e.Fault() != OfSite {
		t.Error(err)
	}
}

// A page is kept by its final address, and found by the requested one, until it is too
// old; failures and pages that must not be kept are not.
func TestPagesAreKept(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	u := site(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/robots.txt":
			return
		case "/from":
			http.Redirect(w, r, "/to", http.StatusFound)
			return
		case "/never":
			w.Header().Set("Cache-Control", "private, no-store")
		case "/fails":
			w.WriteHeader(500)
		}
		asked.Add(1)
		fmt.Fprint(w, article(""))
	})
	s := scraper(t, Options{Jail: here{}, Cache: 1 << 20, TTL: 5 * time.Second})
	f := func(path string, cached bool, count int32) {
		t.Helper()
		p, err := get(t, s, u+path)
		if s.kept.m.Wait(); p.Cached != cached || asked.Load() != count {
			t.Errorf("%s: %v, asked %d times, cached: %v", path, err, asked.Load(), p.Cached)
		}
	}
	f("/from", false, 1)
	f("/from#again", true, 1)
	f("/to", true, 1)
	f("/never", false, 2)
	f("/never", false, 3)
	f("/fails", false, 4)
	f("/fails", false, 5)
	time.Sleep(5100 * time.Millisecond)
	f("/to", false, 6)
}

// Requests for the same page at once share one reading, which goes on as long as one of
// them waits and ends with the last.
func TestOnePageIsReadOnce(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	began, goOn, left := make(chan bool, 9), make(chan bool), make(chan bool, 9)
	u := site(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/robots.txt" {
			return
		}
		asked.Add(1)
		began <- true
		select {
		case <-goOn:
			fmt.Fprint(w, article(""))
		case <-r.Context().Done():
			left <- true
		}
	})
	s := scraper(t, Options{Jail: here{}})
	leaving, leave := context.WithCancel(context.Background())
	var all sync.WaitGroup
	all.Go(func() {
		if _, err := s.Page(leaving, u+"/a"); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	<-began
	for range 5 {
		all.Go(func() {
			if p, err := s.Page(context.Background(), u+"/a"); err != nil || p.Markdown == "" {
				t.Error(err)
			}
		})
	}
	for waiting := 0; waiting < 6; time.Sleep(time.Millisecond) {
		s.shared.mu.Lock()
		waiting = s.shared.m[flightKey{fair.Owner{}, u + "/a"}].waiting
		s.shared.mu.Unlock()
	}
	leave()
	time.Sleep(10 * time.Millisecond)
	close(goOn)
	all.Wait()
	if asked.Load() != 1 {
		t.Errorf("asked %d times", asked.Load())
	}
	goOn = make(chan bool)
	leaving, leave = context.WithCancel(context.Background())
	all.Go(func() { _, _ = s.Page(leaving, u+"/b") })
	<-began
	leave()
	<-left
	all.Wait()
	for end := time.Now().Add(10 * time.Second); s.turns.Waiting() != 0 && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	if len(s.shared.m) != 0 || s.turns.Waiting() != 0 {
		t.Error("something is left")
	}
}

// A full house says so, soon.
func TestAFullHouseSaysSo(t *testing.T) {
	t.Parallel()
	began := make(chan bool, 1)
	u := site(t, func(_ http.ResponseWriter, r *http.Request) {
		began <- true
		<-r.Context().Done()
	})
	s := scraper(t, Options{Jail: here{}, IgnoreRobots: true, Parallel: 1, Wait: 20 * time.Millisecond})
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	all.Go(func() { _, _ = s.Page(ctx, u+"/a") })
	<-began
	_, err := get(t, s, u+"/b")
	var e *Error
	if !errors.As(err, &e) || e.Reason != Busy || e.Fault() != OfUs {
		t.Error(err)
	}
	cancel()
	all.Wait()
}

// browser is a Renderer that has a page ready.
type browser func(url string) (string, string, error)

func (b browser) Render(_ context.Context, url string) ([]byte, string, error) {
	page, at, err := b(url)
	return []byte(page), at, err
}

// A page that is made by a script goes through the browser, and the addresses that it
// leads to are checked as any other.
func TestPagesOfScriptsAreRendered(t *testing.T) {
	t.Parallel()
	stub := "<div id=\"root\"></div><script src=a.js></script>"
	page := stub
	u := site(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/robots.txt" {
			fmt.Fprint(w, "User-agent: *\nDisallow: /private")
			return
		}
		fmt.Fprint(w, page)
	})
	f := func(b browser, want string) {
		t.Helper()
		p, err := get(t, scraper(t, Options{Jail: here{}, Renderer: b}), u+"/a")
		got := p.URL + " " + p.Markdown
		if err != nil {
			got = ended(err)
		}
		if !strings.HasPrefix(got, want) {
			t.Errorf("%.200s, want %s", got, want)
		}
	}
	f(func(at string) (string, string, error) { return article(""), at + "#/route", nil }, u+"/a # A title")
	f(func(string) (string, string, error) { return article(""), u + "/b", nil }, u+"/b # A title")
	f(func(string) (string, string, error) { return article(""), u + "/private", nil }, "robots")
	f(func(string) (string, string, error) { return article(""), "https://x.com/", nil }, "blocked")
	f(func(string) (string, string, error) { return article(""), "file:///etc/passwd", nil }, "bad url")
	f(func(string) (string, string, error) { return "", "", &Error{Reason: TooSlow} }, "slow")
	f(func(at string) (string, string, error) { return stub, at, nil }, "no text")
	f(func(at string) (string, string, error) { return strings.Repeat("<p>x", 1<<20), at, nil }, "large")
	page = "<h1>Little</h1><p>but all there is.</p>"
	f(func(string) (string, string, error) { return "", "", errors.New("crashed") }, u+"/a # Little")
	page = article("")
	f(func(string) (string, string, error) { t.Error("not needed"); return "", "", nil }, u+"/a # A title")
}
