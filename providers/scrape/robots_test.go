package scrape

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// A robots.txt is read as RFC 9309 says.
func TestRobotsAreReadByTheBook(t *testing.T) {
	t.Parallel()
	f := func(robots, path string, want bool) {
		t.Helper()
		u, err := url.Parse("http://example.com" + path)
		if err != nil {
			t.Fatal(err)
		}
		if got := parseRobots([]byte(robots), "farebox").allows(u); got != want {
			t.Errorf("%q: %s is %v", robots, path, got)
		}
	}
	f("", "/a", true)
	f("<html>not found</html>", "/a", true)
	f("User-agent: *\nDisallow: /", "/a", false)
	f("User-agent: *\nDisallow: /", "/robots.txt", true)
	f("User-agent: *\nDisallow:", "/a", true)
	f("Disallow: /", "/a", true) // for no agent
	f("\xef\xbb\xbfuser-agent : *\r\ndisallow : /a # why\r\n", "/ab", false)
	f("User-agent: *\rDisallow: /a", "/a", false)
	f("User-agent: *\nDisallow: /a\nAllow: /a/b", "/a/b/c", true)
	f("User-agent: *\nDisallow: /a\nAllow: /a", "/a", true)
	f("User-agent: *\nDisallow: /a/b\nAllow: /a", "/a/b", false)
	f("User-agent: *\nDisallow: /*.php$", "/x.php", false)
	f("User-agent: *\nDisallow: /*.php$", "/x.php?a", true)
	f("User-agent: *\nDisallow: /a*b*c", "/axxbxxcxx", false)
	f("User-agent: *\nDisallow: /a*b", "/x/ab", true)
	f("User-agent: *\nDisallow: /?", "/?q=1", false)
	f("User-agent: *\nDisallow: /a%3cd", "/a%3Cd", false)
	f("User-agent: *\nDisallow: /%7Ejoe", "/~joe/a", false)
	f("User-agent: *\nDisallow: /ü", "/%C3%BC", false)
	f("User-agent: *\nDisallow: a", "/a", false)
	f("User-agent: FareBox/2.0\nDisallow: /a\n\nUser-agent: *\nDisallow: /", "/b", true)
	f("User-agent: FareBox/2.0\nDisallow: /a\n\nUser-agent: *\nDisallow: /", "/a", false)
	f("User-agent: GoodBot\nDisallow:\n\nUser-agent: *\nDisallow: /", "/a", false)
	f("User-agent: GoodBot\nUser-agent: farebox\nDisallow: /a", "/a", false)
	f("User-agent: fare\nDisallow: /\n", "/a", true)
	f("User-agent: farebox\nDisallow: /a\nUser-agent: x\nDisallow: /b\nUser-agent: farebox\nDisallow: /c", "/c", false)
	f("User-agent: farebox\nDisallow: /a\nUser-agent: x\nDisallow: /b\nUser-agent: farebox\nDisallow: /c", "/b", true)
	f("User-agent: *\nSitemap: http://example.com/s\nCrawl-delay: soon\nDisallow: /a", "/a", false)
}

// Robots that are made to take long do not.
func TestHostileRobotsAreQuick(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString("User-agent: *\n")
	for i := 0; b.Len() < robotsMost; i++ {
		fmt.Fprintf(&b, "Disallow: /*a*a*a*a*%da*a*a$\n", i)
	}
	began := time.Now()
	p := parseRobots([]byte(b.String()), "farebox")
	if !p.allows(&url.URL{Path: "/" + strings.Repeat("a", maxURL)}) {
		t.Error("refused")
	}
	if d := time.Since(began); d > 20*time.Second {
		t.Error(d)
	}
}

// A site's robots.txt is fetched once an hour, for every hop, and counts as a no if it
// cannot be read.
func TestRobotsAreAsked(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	status := atomic.Int32{}
	status.Store(200)
	pages := func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/robots.txt":
			asked.Add(1)
			if !strings.HasPrefix(r.Header.Get("User-Agent"), "farebox/") {
				t.Error(r.Header)
			}
			if status.Load() == 302 {
				http.Redirect(w, r, "/robots.txt", http.StatusFound)
				return
			}
			w.WriteHeader(int(status.Load()))
			fmt.Fprint(w, "User-agent: farebox\nDisallow: /private\n")
		case r.URL.Path == "/leads":
			http.Redirect(w, r, "/private/b", http.StatusFound)
		case strings.HasPrefix(r.URL.Path, "/private") && status.Load() == 200:
			t.Error("asked for ", r.URL)
		default:
			fmt.Fprint(w, article(""))
		}
	}
	s := scraper(t, Options{Jail: here{}})
	u := site(t, pages)
	for path, want := range map[string]string{"/a": "<nil>", "/private/a": "robots", "/leads": "robots"} {
		if _, err := get(t, s, u+path); ended(err) != want {
			t.Errorf("%s: %v", path, err)
		}
		s.robots.kept.Wait()
	}
	if asked.Load() != 1 {
		t.Errorf("asked %d times", asked.Load())
	}
	if _, err := get(t, scraper(t, Options{Jail: here{}, IgnoreRobots: true}), u+"/leads2"); err != nil {
		t.Error(err)
	}
	for code, want := range map[int32]string{404: "<nil>", 403: "<nil>", 500: "robots", 503: "robots", 302: "<nil>"} {
		status.Store(code)
		if _, err := get(t, s, site(t, pages)+"/private/x"); ended(err) != want {
			t.Errorf("%d: %v", code, err)
		}
	}
}
