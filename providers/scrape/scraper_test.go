package scrape

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"farebox/providers/fetch"
	"farebox/providers/fetch/fetchtest"
	"farebox/providers/jail"
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

// What is Markdown or text already is passed on; documents go to whoever reads
// those; the rest is refused.
func TestTypesAreTold(t *testing.T) {
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

// What a site answers instead of a page says what it is, and whose.
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
		"challenge 200: a script, which is not run here,")
	// A page that tells of such walls is none.
	f(200, "X", "", article("<p>window._cf_chl_opt, Just a moment... geo.captcha-delivery.com</p>"), "<nil>")
	status, header = 429, http.Header{"Retry-After": {"120"}}
	_, err := get(t, s, u+"/a")
	var e *Error
	if !errors.As(err, &e) || e.RetryAfter != 2*time.Minute || e.Fault() != OfSite {
		t.Error(err)
	}
}

// A page is kept by its final address, and found by the one that was asked, until
// it is too old; what failed or must not be kept is not.
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
	s := scraper(t, Options{Jail: here{}, Cache: 1 << 20, TTL: 2 * time.Second})
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
	time.Sleep(2100 * time.Millisecond)
	f("/to", false, 6)
}

// Who asks for the same page at once shares one reading, which goes on as long as
// one of them waits and ends with the last.
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
		waiting = s.shared.m[u+"/a"].waiting
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
	for end := time.Now().Add(10 * time.Second); len(s.seats) != 0 && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	if len(s.shared.m) != 0 || len(s.seats) != 0 {
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

// A page that is made by a script goes through the browser, and what comes of it
// is asked about as any other.
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
	f(func(at string) (string, string, error) { return stub, at, nil }, "challenge")
	f(func(at string) (string, string, error) { return strings.Repeat("<p>x", 1<<20), at, nil }, "large")
	page = "<h1>Little</h1><p>but all there is.</p>"
	f(func(string) (string, string, error) { return "", "", errors.New("crashed") }, u+"/a # Little")
	page = article("")
	f(func(string) (string, string, error) { t.Error("not needed"); return "", "", nil }, u+"/a # A title")
}

// Whatever a hostile site does ends with its reason, in time and in bounds, and
// reaches nothing inside.
func TestHostileSitesAreCutShort(t *testing.T) {
	t.Parallel()
	var inside atomic.Int32
	victim, err := net.Listen("tcp", "127.0.0.2:0")
	if err != nil {
		t.Skip("no second loopback address here: ", err)
	}
	internal := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(
		func(w http.ResponseWriter, _ *http.Request) { inside.Add(1); fmt.Fprint(w, article("secret")) })}
	go func() { _ = internal.Serve(victim) }()
	t.Cleanup(func() { internal.Close() })
	port := fmt.Sprint(victim.Addr().(*net.TCPAddr).Port)

	pool := jail.New(jail.Options{Workers: 1, Limit: slower(1500 * time.Millisecond)})
	t.Cleanup(func() { _ = pool.Close() })
	client := fetch.New(fetch.Options{Allow: loopback, PerHost: 4, Limit: slower(20 * time.Second),
		Resolver: fetchtest.Names(t, map[string][]string{
			"turns.test.": {"127.0.0.2", "169.254.169.254", "10.0.0.1"}, "inside.test.": {"127.0.0.2"}})})
	html := func(page string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			_, _ = io.WriteString(w, page)
		}
	}
	to := func(where string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", where)
			w.WriteHeader(302)
		}
	}
	bomb := func() []byte {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, _ = z.Write(bytes.Repeat([]byte("<p>bomb "), 8<<20))
		_ = z.Close()
		return b.Bytes()
	}()
	for name, x := range map[string]struct {
		h    http.HandlerFunc
		want string
	}{
		"endless": {func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				if _, err := w.Write(bytes.Repeat([]byte("<p>on and on"), 1000)); err != nil {
					return
				}
			}
		}, "large"},
		"slow drip": {func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				_, _ = io.WriteString(w, "<p>")
				w.(http.Flusher).Flush()
				time.Sleep(20 * time.Millisecond)
			}
		}, "slow"},
		"silent":               {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, "slow"},
		"round and round":      {to("/again"), "redirects"},
		"inward":               {to("http://127.0.0.2:" + port + "/"), "forbidden"},
		"inward by IPv6":       {to("http://[::ffff:127.0.0.2]:" + port + "/"), "forbidden"},
		"inward by a name":     {to("http://inside.test:" + port + "/"), "forbidden"},
		"inward, changing":     {to("http://turns.test:" + port + "/"), "forbidden"},
		"inward by a number":   {to("http://2130706434:" + port + "/"), "forbidden"},
		"to a file":            {to("file:///etc/passwd"), "bad url"},
		"to a blocked site":    {to("https://www.facebook.com/"), "blocked"},
		"to metadata":          {to("http://169.254.169.254/latest/meta-data/"), "forbidden"},
		"200,000 elements":     {html(strings.Repeat("<div>", 200_000) + "at the bottom"), "<nil>"},
		"3 MB of <p>":          {html(strings.Repeat("<p>", 1<<20-100) + "at the end"), "<nil>"},
		"10 MB of <p>":         {html(strings.Repeat("<p>", 10<<20/3)), "large"},
		"deep lists":           {html(strings.Repeat("<ul><li>a", 250) + strings.Repeat("<li>b", 100_000)), "<nil>"},
		"a cell of many":       {html(strings.Repeat("<table><tr><td colspan=9999 rowspan=9999>", 100) + "here"), "<nil>"},
		"many in a cell":       {html("<table>" + strings.Repeat("<tr><td colspan=24 rowspan=24>x", 60_000)), "<nil>"},
		"one long word":        {html(article(strings.Repeat("w", 2<<20))), "<nil>"},
		"a million attributes": {html("<p " + strings.Repeat("a ", 1<<20) + ">text</p>" + article("")), "<nil>"},
		"gzip bomb": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(bomb)
		}, "large"},
		"huge head": {func(w http.ResponseWriter, _ *http.Request) {
			for i := range 200 {
				w.Header().Set(fmt.Sprint("X-", i), strings.Repeat("x", 1000))
			}
		}, "unreachable"},
		"not HTTP": {func(w http.ResponseWriter, _ *http.Request) {
			conn, _, _ := w.(http.Hijacker).Hijack()
			_, _ = io.WriteString(conn, "220 smtp ready\r\n")
			conn.Close()
		}, "unreachable"},
		"wrong charset": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html; charset=utf-16")
			_, _ = io.WriteString(w, article("<p>Gr\xfc\xdfe \xff\xfe\x81</p>"))
		}, "<nil>"},
		"no such charset": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html; charset=\"; drop table\"")
			_, _ = io.WriteString(w, article("\x80"))
		}, "<nil>"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := site(t, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/robots.txt" {
					http.NotFound(w, r)
					return
				}
				x.h(w, r)
			})
			limit := slower(30 * time.Second)
			if x.want == "slow" {
				limit = 400 * time.Millisecond
			}
			began := time.Now()
			p, err := get(t, scraper(t, Options{Fetch: client, Jail: pool, Limit: limit}), u)
			if ended(err) != x.want {
				t.Errorf("%v", err)
			}
			if err == nil && strings.TrimSpace(p.Markdown) == "" || len(p.Markdown) > 16<<20 {
				t.Errorf("%d bytes", len(p.Markdown))
			}
			if err != nil && strings.Contains(err.Error(), "127.0.0") {
				t.Error("the error names a host: ", err)
			}
			if d := time.Since(began); d > 2*time.Second {
				t.Logf("%v, %d bytes", d, len(p.Markdown))
			}
		})
	}
	t.Cleanup(func() {
		if inside.Load() != 0 {
			t.Errorf("the internal server was reached %d times", inside.Load())
		}
	})
}

// A page of 10 MB of <p>, where that is allowed, gives its text; the gateway's own
// memory and the pages of others do not feel it.
func TestLongALargePageDoesNotHoldTheGateway(t *testing.T) {
	large := strings.Repeat("<p>x", 10<<20/4)
	u := site(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		if r.URL.Path == "/large" {
			_, _ = io.WriteString(w, large)
			return
		}
		_, _ = io.WriteString(w, article(""))
	})
	pool := jail.New(jail.Options{Workers: 2})
	t.Cleanup(func() { _ = pool.Close() })
	s := scraper(t, Options{Jail: pool, MaxPage: 16 << 20, IgnoreRobots: true, Limit: time.Minute})
	f := func(path string) time.Duration {
		t.Helper()
		began := time.Now()
		if _, err := get(t, s, u+path); err != nil {
			t.Error(path, err)
		}
		return time.Since(began)
	}
	for range 2 {
		f("/warm")
	}
	var alone time.Duration
	for range 20 {
		alone = max(alone, f("/small"))
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	done := make(chan time.Duration)
	go func() { done <- f("/large") }()
	var beside time.Duration
	for range 20 {
		beside = max(beside, f("/small"))
	}
	took := <-done
	runtime.GC()
	runtime.ReadMemStats(&after)
	grown := int64(after.HeapAlloc) - int64(before.HeapAlloc)
	t.Logf("the large page took %v; a small one at most %v alone, %v beside; the heap grew by %d KB", took, alone, beside,
		grown>>10)
	if grown > 10<<20 {
		t.Errorf("the heap grew by %d MB", grown>>20)
	}
}
