package render

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"farebox/providers/fetch"
	"farebox/providers/fetch/fetchtest"
)

var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}

// way is a client that goes out by a guard proxy as a user.
func way(p *guardProxy, user *url.Userinfo) *http.Client {
	u, _ := url.Parse(local(p.listen))
	u.User = user
	return &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{Proxy: http.ProxyURL(u),
		DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} // the test's own server
}

func started(t *testing.T, o fetch.Options, refuse func(string) error) *guardProxy {
	t.Helper()
	o.Allow = loopback
	p, err := newProxy(fetch.New(o), "127.0.0.1:0", refuse)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.close() })
	return p
}

func asked(c *http.Client, to string) string {
	resp, err := c.Get(to)
	if err != nil {
		// The answer to CONNECT is in the words.
		if at := strings.LastIndex(err.Error(), ": "); at >= 0 {
			return err.Error()[at+2:]
		}
		return err.Error()
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return "broken off"
	}
	if resp.StatusCode != http.StatusOK {
		return http.StatusText(resp.StatusCode)
	}
	return string(b)
}

// Only a page gets out, with its own password, as long as it lives, and only to
// where the guard allows.
func TestTheProxyServesPagesOnly(t *testing.T) {
	t.Parallel()
	ok := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, h := range []string{"Proxy-Authorization", "Proxy-Connection", "Via", "X-Forwarded-For", "Forwarded"} {
			if r.Header.Get(h) != "" {
				t.Error(r.Header)
			}
		}
		_, _ = io.WriteString(w, "hello")
	})
	plain, secure := httptest.NewServer(ok), httptest.NewTLSServer(ok)
	t.Cleanup(plain.Close)
	t.Cleanup(secure.Close)
	p := started(t, fetch.Options{Resolver: fetchtest.Names(t, map[string][]string{
		"turns.test.": {"127.0.0.2", "10.0.0.1"}})},
		func(host string) error {
			if host == "blocked.test" {
				return errors.New("no")
			}
			return nil
		})
	ctx, cancel := context.WithCancel(context.Background())
	s := p.admit(ctx, 1<<20)
	other := p.admit(context.Background(), 1<<20)
	mine := way(p, url.UserPassword(s.user, s.password))
	for _, to := range []string{plain.URL, secure.URL} {
		if got := asked(mine, to); got != "hello" {
			t.Errorf("%s: %s", to, got)
		}
		for _, user := range []*url.Userinfo{nil, url.User(s.user), url.UserPassword(s.user, other.password),
			url.UserPassword("", ""), url.UserPassword("x", s.password)} {
			if got := asked(way(p, user), to); got != "Proxy Authentication Required" {
				t.Errorf("%v: %s", user, got)
			}
		}
	}
	for _, to := range []string{"http://127.0.0.2/", "https://127.0.0.2/", "http://[::1]/", "https://[::1]/",
		"http://10.0.0.1/", "http://169.254.169.254/", "http://turns.test/", "https://turns.test/", "http://blocked.test/",
		"https://blocked.test/", "https://1.1.1.1:22/", "http://2130706434/"} {
		if got := asked(mine, to); got != "Forbidden" && got != "Bad Gateway" {
			t.Errorf("%s: %s", to, got)
		}
	}
	cancel()
	for end := time.Now().Add(10 * time.Second); asked(mine, plain.URL) == "hello" && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	if got := asked(mine, plain.URL); got != "Proxy Authentication Required" {
		t.Error("after its end: ", got)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.pages) != 1 {
		t.Errorf("%d pages", len(p.pages))
	}
}

// A page has its share of bytes and connections, and no connection outlives it.
func TestAPageHasItsShare(t *testing.T) {
	t.Parallel()
	var open atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		open.Add(1)
		defer open.Add(-1)
		for r.Context().Err() == nil {
			if r.URL.Path == "/quiet" {
				<-r.Context().Done()
				return
			}
			if _, err := w.Write(make([]byte, 4096)); err != nil {
				return
			}
		}
	}))
	t.Cleanup(server.Close)
	secure := httptest.NewTLSServer(server.Config.Handler)
	t.Cleanup(secure.Close)
	p := started(t, fetch.Options{}, nil)
	for _, to := range []string{server.URL, secure.URL} {
		s := p.admit(context.Background(), 100_000)
		if got := asked(way(p, url.UserPassword(s.user, s.password)), to); got != "broken off" {
			t.Errorf("%s: %.100s", to, got)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := p.admit(ctx, 1<<20)
	c := way(p, url.UserPassword(s.user, s.password))
	for range maxConns {
		for _, to := range []string{server.URL, secure.URL}[:1] {
			go asked(c, to+"/quiet")
		}
	}
	for end := time.Now().Add(20 * time.Second); open.Load() < maxConns && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	if got := asked(c, server.URL+"/quiet"); got != "Too Many Requests" {
		t.Error(got)
	}
	cancel()
	for end := time.Now().Add(20 * time.Second); open.Load() > 0 && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	if n := open.Load(); n != 0 {
		t.Errorf("%d connections are left", n)
	}
}
