package scrape

import (
	"strings"
	"testing"
)

// Only addresses that lead to the public web by their own words are asked.
func TestAddressesAreReadInOneForm(t *testing.T) {
	t.Parallel()
	r := newRules(&Options{})
	f := func(in, want string) {
		t.Helper()
		got, err := r.address(in)
		s := ended(err)
		if err == nil {
			s = got.String()
		}
		if s != want {
			t.Errorf("%q: %s, want %s", in, s, want)
		}
	}
	f("http://example.com", "http://example.com/")
	f(" HTTPS://EXAMPLE.com:443/a?b=c#d ", "https://example.com/a?b=c")
	f("http://example.com.:80/", "http://example.com/")
	f("http://example.com:443/", "http://example.com:443/")
	f("http://bücher.example/ü", "http://xn--bcher-kva.example/%C3%BC")
	f("http://[2606:4700::1111]/", "http://[2606:4700::1111]/")
	for _, bad := range []string{"", "example.com", "/a", "ftp://example.com/", "file:///etc/passwd", "http://",
		"http:///a", "javascript:alert(1)", "http://u@example.com/", "http://u:p@example.com/", "http:example.com",
		"http://example.com:8080/", "http://example.com:22/", "http://example.com:0/", "http://example.com:99999/",
		"http://exa mple.com/", "data:text/html,a", "http://" + strings.Repeat("a", maxURL) + "/", "gopher://example.com/",
		"view-source:http://example.com/", "http://%00/", "http://\x00/"} {
		f(bad, "bad url")
	}
	for _, no := range []string{"https://x.com/a/status/1", "https://X.COM./", "http://mobile.twitter.com/",
		"https://old.reddit.com/r/golang", "https://ｘ.com/", "https://www。facebook。com/", "https://m.facebook.com/",
		"https://www.instagram.com/p/1", "https://de.linkedin.com/in/a", "https://www.tiktok.com/@a", "https://redd.it/1",
		"https://t.co/x"} {
		f(no, "blocked")
	}
	f("https://netflix.com/", "https://netflix.com/")
	f("https://x.company/", "https://x.company/")
	f("https://example.com/x.com", "https://example.com/x.com")

	r = newRules(&Options{Ports: []uint16{8080}, Blocked: []Site{{Host: "Example.org", Text: "Not that one."}}})
	f("https://x.com/", "https://x.com/")
	f("http://a.example.org/", "blocked")
	f("http://example.com:8080/", "http://example.com:8080/")
	f("https://example.com:443/", "https://example.com/")
	if _, err := r.address("http://example.org/"); err == nil || err.Error() != "Not that one." {
		t.Error(err)
	}
	if _, err := newRules(&Options{}).address("http://linkedin.com/"); err == nil || !strings.HasPrefix(err.Error(),
		"linkedin.com cannot be scraped") {
		t.Error(err)
	}
}

// Every failure has words for a client, which name no host of ours, and blames one side.
func TestFailuresHaveWords(t *testing.T) {
	t.Parallel()
	for r := BadURL; r <= Failed; r++ {
		e := &Error{Reason: r, Status: 418, Name: "somebody"}
		if e.Text() == "" || strings.Contains(e.Text(), "%!") {
			t.Errorf("%d: %s", r, e.Text())
		}
		want := OfSite
		if r <= TooLarge {
			want = OfClient
		} else if r >= Busy {
			want = OfUs
		}
		if e.Fault() != want {
			t.Errorf("%d: fault %d", r, e.Fault())
		}
	}
}

func FuzzAddress(f *testing.F) {
	for _, s := range []string{"http://example.com/", "https://x.com./", "http://bücher.example:80/",
		"http://[::1]:443/a?b#c"} {
		f.Add(s)
	}
	r := newRules(&Options{})
	f.Fuzz(func(t *testing.T, s string) {
		u, err := r.address(s)
		if err != nil {
			return
		}
		again, err := r.address(u.String())
		if err != nil || again.String() != u.String() {
			t.Errorf("%q is %q, then %v, %v", s, u, again, err)
		}
	})
}
