package augment

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"farebox/tests/rig"
)

// "A page that sends its readers on was read itself, and charged."
func TestRefreshesAreFollowed(t *testing.T) {
	t.Parallel()
	inward, hits := internal(t)
	refresh := func(content string) string {
		return `<!doctype html><html><head><meta http-equiv="refresh" content="` + content + `"><title>Moved</title></head>` +
			`<body><p>This page has moved.</p></body></html>`
	}
	var asked atomic.Int64
	p := serve(t, func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		page := map[string]string{
			"/robots.txt": "-", "/there": article("<p>You are there</p>"),
			"/now": refresh("0;url=/there"), "/soon": refresh("5; URL='/there'"), "/late": refresh("30;url=/there"),
			"/upper":    strings.Replace(refresh("0;url=/there"), "http-equiv=\"refresh\"", "HTTP-EQUIV=ReFresh", 1),
			"/based":    "<base href=/sub/>" + refresh("0;url=../there"),
			"/twice":    refresh("0;url=/now"),
			"/article":  strings.Replace(refresh("0;url=/there"), "<p>This page", article("<p>Old text</p>")+"<p>This page", 1),
			"/noscript": `<noscript><meta http-equiv=refresh content="0;url=/there"></noscript><p>Wait</p>`,
			"/full": strings.Replace(article("<p>All of it is here</p>"), "<head>",
				`<head><noscript><meta http-equiv=refresh content="0;url=/nowhere"></noscript>`, 1),
			"/self": refresh("0;url=/self"), "/itself": refresh("0"), "/fragment": refresh("0;url=#top"),
			"/loop": refresh("0;url=/pool"), "/pool": refresh("0;url=/loop"),
			"/inward": refresh("0;url=http://" + inward + "/"), "/metadata": refresh("0;url=http://169.254.169.254/latest/"),
			"/user": refresh("0;url=http://a:b@" + r.Host + "/there"), "/blocked": refresh("0;url=https://x.com/"),
			"/robbed": refresh("0;url=/private"), "/gone": refresh("0;url=/404"),
			"/script": refresh("0;url=javascript:alert(1)"), "/data": refresh("0;url=data:text/html,x"), "/ftp": refresh("0;url=ftp://a.example/"),
			"/many": "<head>" + strings.Repeat(`<meta http-equiv="refresh" content="0;url=ftp://x/">`, 10_000) +
				`<meta http-equiv="refresh" content="0;url=/there"></head>`,
			"/long": refresh("0;url=/" + strings.Repeat("x", 1<<20)),
		}[r.URL.Path]
		switch {
		case r.URL.Path == "/robots.txt":
			says(200, "text/plain", "User-agent: *\nDisallow: /private\n")(w, r)
		case r.URL.Path == "/grows":
			says(200, "text/html", refresh("0;url=/grows?"+r.URL.RawQuery+"x"))(w, r)
		case r.URL.Path == "/header":
			says(200, "text/html", article(""), "Refresh", "0; url=/there")(w, r)
		case r.URL.Path == "/redirected":
			says(302, "text/html", "", "Location", "/now")(w, r)
		case page != "":
			says(200, "text/html", page)(w, r)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	})
	s := start(t, settings+"augment: { scrape: { timeout: 9s, per_host: 64, rate: { rpm: 0 }, cache: { size: 0 } } }\n", "10")
	page := func(path string) (int, string) {
		t.Helper()
		status, _, answer := s.ask(t, scraping, `{"url":`+quoted(p.URL+path)+`}`)
		return status, answer
	}
	rig.Await(t, "the children are ready", func() bool { status, _ := page("/there"); return status == 200 })
	s.charged(t, 1)
	for _, path := range []string{"/now", "/soon", "/upper", "/based", "/twice", "/article", "/noscript", "/many", "/redirected", "/header"} {
		if status, answer := page(path); status != 200 || !strings.HasPrefix(answer, `{"url":"`+p.URL+`/there","content":`) ||
			!strings.Contains(answer, "You are there") {
			t.Errorf("%s: %d %.300s", path, status, answer)
		}
		s.charged(t, 1)
	}
	for path, want := range map[string]string{"/late": "has moved", "/self": "has moved", "/itself": "has moved", "/fragment": "has moved",
		"/script": "has moved", "/data": "has moved", "/ftp": "has moved", "/long": "has moved", "/full": "All of it is here"} {
		if status, answer := page(path); status != 200 || !strings.Contains(answer, want) || !strings.Contains(answer, `"url":"`+p.URL+path) {
			t.Errorf("%s: %d %.300s", path, status, answer)
		}
		s.charged(t, 1)
	}
	for path, want := range map[string]string{"/inward": "400 may not be fetched", "/metadata": "400 may not be fetched",
		"/user": "400 credentials", "/blocked": "400 X does not let", "/robbed": "400 robots.txt", "/gone": "500 404",
		"/loop": "500 redirects too often", "/grows": "500 redirects too often"} {
		asked.Store(0)
		status, answer := page(path)
		code, text, _ := strings.Cut(want, " ")
		if fmt.Sprint(status) != code || !strings.Contains(answer, text) {
			t.Errorf("%s: %d %.300s, want %s", path, status, answer, want)
		}
		if n := asked.Load(); n > 6 {
			t.Errorf("%s: the site was asked %d times", path, n)
		}
		s.charged(t, 0)
	}
	if n := hits.Load(); n != 0 {
		t.Errorf("the internal server was reached %d times", n)
	}
	s.CLI("verify")
}

// "A page that said "Loading…" cost a page, and so did one that asked for JavaScript."
func TestPagesWithoutTextBeforeTheirScriptsAreFree(t *testing.T) {
	t.Parallel()
	const script = `<script src="/bundle.js"></script>`
	pages := map[string]struct {
		page string
		read bool
	}{
		"/loading":    {`<title>App</title><div id="root">Loading…</div>` + script, false},
		"/empty":      {`<title>App</title><div id="root"></div>` + script, false},
		"/enable":     {`<noscript>You need to enable JavaScript to run this app.</noscript><div id="root"></div>` + script, false},
		"/please":     {`<p>Please enable JavaScript to view this page.</p>` + script, false},
		"/spinner":    {`<div class="spinner"><span>Please wait...</span></div>` + script, false},
		"/cookies":    {`<div class=consent><p>We use cookies to improve your experience.</p><button>Accept all</button><button>Reject</button></div>` + script, false},
		"/hello":      {`<p>Hello, world</p>`, true},
		"/ok":         {`OK`, true},
		"/status":     {`<h1>All systems operational</h1>` + script, true},
		"/rendered":   {`<div id="root"><h1>Hello, world</h1></div>` + script, true},
		"/about":      {`<p>We use cookies to remember your cart.</p>`, true},
		"/javascript": {article("<p>Please enable JavaScript. Loading…</p>") + script, true},
	}
	p := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if c, ok := pages[r.URL.Path]; ok {
			says(200, "text/html", c.page)(w, r)
			return
		}
		w.WriteHeader(http.StatusNotFound)
	})
	s := start(t, settings+"augment: { scrape: { timeout: 9s, per_host: 64, rate: { rpm: 0 } } }\n", "10")
	for path, c := range pages {
		status, _, answer := s.ask(t, scraping, `{"url":`+quoted(p.URL+path)+`}`)
		switch {
		case c.read && status != 200:
			t.Errorf("%s: %d %.300s", path, status, answer)
		case !c.read && (status != 500 || !strings.Contains(answer, "no readable text before its scripts run in a browser") ||
			!strings.Contains(answer, "augment.scrape.js") || !strings.Contains(answer, "othing was charged")):
			t.Errorf("%s: %d %.300s", path, status, answer)
		}
		n := 0
		if c.read {
			n = 1
		}
		s.charged(t, n)
	}
	s.CLI("verify")
}
