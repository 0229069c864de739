package scrape

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"farebox/providers/fetch"
	"farebox/providers/fetch/fetchtest"
	"farebox/providers/jail"
)

// Whatever a hostile site does ends with its reason, in time and in bounds, and
// reaches nothing inside.
func TestHostileSitesAreCutShort(t *testing.T) {
	t.Parallel()
	port := fetchtest.Inside(t)
	pool := jail.New(jail.Options{Workers: 1, Limit: slower(3 * time.Second)})
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
		"endless":              {fetchtest.Endless("<p>on and on"), "large"},
		"slow drip":            {fetchtest.Drip("<p>"), "slow"},
		"silent":               {fetchtest.Silent, "slow"},
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
		"huge head": {fetchtest.HugeHead, "unreachable"},
		"not HTTP":  {fetchtest.NotHTTP, "unreachable"},
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
