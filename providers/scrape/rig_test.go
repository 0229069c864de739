package scrape

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"farebox/providers/fetch"
	"farebox/providers/jail"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == jail.Word {
		jail.Main(Jobs())
	}
	os.Exit(m.Run())
}

// site is a server on 127.0.0.1, the only address that is allowed.
func site(t testing.TB, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}

// scraper is one that reaches the test's own servers, and reads no robots.txt
// unless a test asks for that.
func scraper(t testing.TB, o Options) *Scraper {
	t.Helper()
	if o.Fetch == nil {
		o.Fetch = fetch.New(fetch.Options{Allow: loopback})
	}
	if o.Jail == nil {
		p := jail.New(jail.Options{Workers: 1, Limit: time.Minute})
		t.Cleanup(func() { _ = p.Close() })
		o.Jail = p
	}
	o.Allow = loopback
	o.Limit = cmp.Or(o.Limit, 2*time.Minute) // a busy machine takes up to half a minute to begin a child
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// here does a job at once, for tests of other parts than the jail.
type here struct{}

func (here) Do(_ context.Context, job, word string, in []byte) ([]byte, error) {
	return Jobs()[job](in, word)
}

// ended is a failure in a word and its figures.
func ended(err error) string {
	var e *Error
	if !errors.As(err, &e) {
		return fmt.Sprint(err)
	}
	s := [...]string{"bad url", "blocked", "forbidden", "robots", "unsupported", "large", "refused", "challenge",
		"status", "unreachable", "redirects", "slow", "no text", "needs browser", "busy", "failed"}[e.Reason]
	if e.Status != 0 {
		s += fmt.Sprint(" ", e.Status)
	}
	return s
}

// article is a page with a main content of its own.
func article(body string) string {
	return "<!doctype html><html><head><title>A title</title></head><body><nav><a href=/home>Home</a></nav><article>" +
		"<p>" + strings.Repeat("The first paragraph goes on, with commas, for a while. ", 8) + "</p>" + body +
		"<p>" + strings.Repeat("The last paragraph says something else, at some length. ", 8) + "</p>" +
		"</article><footer>Imprint and cookies</footer></body></html>"
}

func get(t testing.TB, s *Scraper, url string) (Page, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return s.Page(ctx, url)
}

// slower is a limit under the race detector, which takes its time.
func slower(d time.Duration) time.Duration {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "-race" && s.Value == "true" {
				return 10 * d
			}
		}
	}
	return d
}
