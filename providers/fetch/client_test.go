package fetch

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"farebox/providers/fetch/fetchtest"
)

// serve is a hostile server on 127.0.0.1, the only address that is allowed.
func serve(t testing.TB, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.Config.ErrorLog = nil
	s.Start()
	t.Cleanup(s.Close)
	return s.URL
}

var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}

func reason(err error) string {
	var e *Error
	if !errors.As(err, &e) {
		return fmt.Sprint(err)
	}
	return [...]string{"bad url", "forbidden", "unreachable", "status", "redirects", "large", "slow",
		"unwanted", "busy"}[e.Reason]
}

// No spelling of an internal address gets anywhere, by itself or as the target
// of a redirect.
func TestNoSpellingOfAnInternalAddressIsFetched(t *testing.T) {
	t.Parallel()
	port := fetchtest.Inside(t)
	c := New(Options{Allow: loopback, Limit: 10 * time.Second, Resolver: fetchtest.Names(t, map[string][]string{
		"internal.test.": {"127.0.0.2"}, "metadata.test.": {"169.254.169.254"}, "private.test.": {"10.0.0.5"},
		"six.test.":    {"::1"},
		"mapped.test.": {"::ffff:127.0.0.2"}, "nat.test.": {"64:ff9b::7f00:2"}, "wire.test.": {"168.63.129.16"},
		"any.test.":    {"0.0.0.0"},
		"unique.test.": {"fd00:ec2::254"}, "local.test.": {"fe80::1"}, "2130706434.": {"127.0.0.2"},
		"127.2.": {"127.0.0.2"},
	})})
	hop := ""
	redirector := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", r.URL.Query().Get("to"))
		w.WriteHeader(302)
	})
	for _, host := range []string{
		"127.0.0.2", "127.0.0.2.", "127.2", "0x7f000002", "0x7f.2", "0x7F.0.0.2", "0177.0.0.2", "2130706434",
		"017700000002", "127.0.2", "0",
		"127。0。0。2", "１２７.0.0.2", "127．0．0．2", "①②⑦.0.0.2", "127%2e0%2e0%2e2", "localhost2.", "[::1]",
		"[::ffff:127.0.0.2]", "[::ffff:7f00:2]", "[::7f00:2]",
		"[0:0:0:0:0:ffff:127.0.0.2]", "[64:ff9b::7f00:2]", "[2002:7f00:2::]", "[fe80::1%25lo]", "[::]",
		"[fd00:ec2::254]", "0.0.0.0", "0.0.0.2",
		"169.254.169.254", "169.254.169.254.", "0xa9fea9fe", "2852039166", "0251.0376.0251.0376", "169.254.43518",
		"100.100.100.200", "192.0.0.192",
		"168.63.129.16", "10.0.0.1", "172.16.0.1", "192.168.1.1", "internal.test", "INTERNAL.TEST.", "metadata.test",
		"private.test", "six.test", "mapped.test",
		"nat.test", "wire.test", "any.test", "unique.test", "local.test", "ınternal.test", "256.256.256.256",
		"127.0.0.2#.example.com", "example.com@127.0.0.2",
		"127.0.0.2\\.example.com", "127.0.0.2%00.example.com", "127.0.0.2 ", "127.0.0.2\t",
	} {
		for _, u := range []string{"http://" + host + ":" + port + "/", "http://" + host + "/",
			"https://" + host + "/x.png", "HTTP://" + host + "/"} {
			for _, way := range []string{u, redirector + "/?to=" + url.QueryEscape(u)} {
				hop = way
				if b, err := c.Get(context.Background(), way, 1<<20); err == nil {
					t.Errorf("%q was fetched: %q", hop, b)
				}
			}
		}
	}
	for _, u := range []string{
		"", "/", "http:", "http:/", "http://", "//127.0.0.1/", "file:///etc/passwd", "ftp://127.0.0.1/",
		"gopher://127.0.0.1:6379/_x", "unix:///var/run/docker.sock",
		"javascript:1", "data:image/png;base64,AAAA", "http:127.0.0.1", "jar:http://127.0.0.1!/",
		"http://user@127.0.0.1/", "http://:80/", "http://[::1", "http://%zz/",
		"http://127.0.0.1:99999/", "http://127.0.0.1:-1/", "ldap://127.0.0.1",
		strings.Repeat("http://127.0.0.1/", 1000), "http://127.0.0.1/\r\nX: y",
	} {
		for _, way := range []string{u, redirector + "/?to=" + url.QueryEscape(u)} {
			if b, err := c.Get(context.Background(), way, 1<<20); err == nil {
				t.Errorf("%q was fetched: %q", way, b)
			}
		}
	}
}

// A name that is public when it is checked and internal when it is dialled: the check is
// made on the dialled address.
func TestANameThatChangesIsCheckedWhenDialled(t *testing.T) {
	t.Parallel()
	c := New(Options{Limit: 5 * time.Second, Resolver: fetchtest.Names(t,
		map[string][]string{"turns.test.": {"127.0.0.1", "10.0.0.1", "169.254.169.254"}})})
	for range 6 {
		if _, err := c.Get(context.Background(), "http://turns.test/", 1<<20); reason(err) != "forbidden" {
			t.Error(err)
		}
	}
}

// The environment's proxy is not asked: it would be the only address checked.
func TestNoProxyOfTheEnvironmentIsAsked(t *testing.T) {
	var asked atomic.Int32
	p := serve(t, func(http.ResponseWriter, *http.Request) { asked.Add(1) })
	t.Setenv("HTTP_PROXY", p)
	t.Setenv("http_proxy", p)
	c := New(Options{Allow: loopback, Limit: 2 * time.Second,
		Resolver: fetchtest.Names(t, map[string][]string{"internal.test.": {"10.0.0.1"}})})
	if _, err := c.Get(context.Background(), "http://internal.test/", 10); reason(err) != "forbidden" ||
		asked.Load() != 0 {
		t.Error(err, asked.Load())
	}
}

// Whatever a hostile server does ends with its reason, in time and in bounds.
func TestHostileServersAreCutShort(t *testing.T) {
	t.Parallel()
	file := bytes.Repeat([]byte("image."), 50_000)
	for name, x := range map[string]struct {
		h    http.HandlerFunc
		want string
	}{
		"good":  {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(file) }, "<nil>"},
		"empty": {func(http.ResponseWriter, *http.Request) {}, "unwanted"},
		"another kind": {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") },
			"unwanted"},
		"not found": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(404) }, "status"},
		"partial": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(206); _, _ = w.Write(file) },
			"status"},
		"no content": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) }, "status"},
		"says too much": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "999999999")
			w.WriteHeader(200)
		}, "large"},
		"endless": {fetchtest.Endless("image."), "large"},
		"breaks off": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", fmt.Sprint(len(file)+1))
			_, _ = w.Write(file)
		}, "unreachable"},
		"slow":   {fetchtest.Drip("image."), "slow"},
		"silent": {fetchtest.Silent, "slow"},
		"packed": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			_, _ = z.Write(make([]byte, 64<<20))
			_ = z.Close()
		}, "unwanted"},
		"huge head": {fetchtest.HugeHead, "unreachable"},
		"not HTTP":  {fetchtest.NotHTTP, "unreachable"},
		"to itself": {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/again", http.StatusFound) },
			"redirects"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := serve(t, x.h)
			limit := 20 * time.Second
			if x.want == "slow" {
				limit = 300 * time.Millisecond
			}
			c := New(Options{Allow: loopback, Limit: limit, Accept: func(p []byte) bool {
				return bytes.HasPrefix(p, []byte("image."))
			}})
			b, err := c.Get(context.Background(), u, 1<<20)
			if reason(err) != x.want {
				t.Errorf("%v", err)
			}
			if err == nil && !bytes.Equal(b, file) {
				t.Errorf("%d bytes", len(b))
			}
			if err != nil && strings.Contains(err.Error(), "127.0.0.1") {
				t.Errorf("the error names the host: %v", err)
			}
		})
	}
}

// Redirects are followed as far as allowed, without telling where from.
func TestRedirectsAreFollowed(t *testing.T) {
	t.Parallel()
	u := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Referer") != "" || r.Header.Get("Cookie") != "" {
			t.Error(r.Header)
		}
		n := len(r.URL.Path)
		if n >= 4 {
			_, _ = io.WriteString(w, "there")
			return
		}
		http.SetCookie(w, &http.Cookie{Name: "a", Value: "b"})
		http.Redirect(w, r, r.URL.Path+"x", http.StatusTemporaryRedirect)
	})
	if b, err := New(Options{Allow: loopback}).Get(context.Background(), u+"/", 100); err != nil ||
		string(b) != "there" {
		t.Error(string(b), err)
	}
	if _, err := New(Options{Allow: loopback, Redirects: 2}).Get(context.Background(), u+"/", 100); reason(err) !=
		"redirects" {
		t.Error(err)
	}
	if _, err := New(Options{Allow: loopback, Redirects: -1}).Get(context.Background(), u+"/xx", 100); reason(err) !=
		"redirects" {
		t.Error(err)
	}
}

// Sizes at the edge, with and without an announced length.
func TestSizesAtTheEdge(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, firstRead - 1, firstRead, firstRead + 1, 2*firstRead + 1, 1 << 20} {
		for _, announced := range []bool{true, false} {
			body := bytes.Repeat([]byte{7}, n)
			u := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				if announced {
					w.Header().Set("Content-Length", fmt.Sprint(n))
				} else {
					w.(http.Flusher).Flush()
				}
				_, _ = w.Write(body)
			})
			c := New(Options{Allow: loopback})
			if b, err := c.Get(context.Background(), u, int64(n)); err != nil || !bytes.Equal(b, body) {
				t.Errorf("%d: %d bytes, %v", n, len(b), err)
			}
			if _, err := c.Get(context.Background(), u, int64(n-1)); reason(err) != "large" {
				t.Errorf("%d above the edge: %v", n, err)
			}
		}
	}
}

// A caller that gives up, or a full house, does not leave anything behind.
func TestAFetchEndsWithItsCaller(t *testing.T) {
	t.Parallel()
	began := make(chan bool, 4)
	u := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		began <- true
		<-r.Context().Done()
	})
	c := New(Options{Allow: loopback, Parallel: 1})
	ctx, cancel := context.WithCancel(context.Background())
	ends := make(chan error, 2)
	go func() { _, err := c.Get(ctx, u, 10); ends <- err }()
	<-began
	go func() { _, err := c.Get(ctx, u, 10); ends <- err }() // finds no seat
	cancel()
	for range 2 {
		if err := <-ends; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
	if len(began) != 0 || c.turns.Waiting() != 0 {
		t.Error("something is left")
	}
}

// Certificates are checked.
func TestCertificatesAreChecked(t *testing.T) {
	t.Parallel()
	s := httptest.NewTLSServer(
		http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }))
	t.Cleanup(s.Close)
	s.Config.ErrorLog = nil
	if _, err := New(Options{Allow: loopback}).Get(context.Background(), s.URL, 10); reason(err) != "unreachable" {
		t.Error(err)
	}
	roots := s.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	if b, err := New(Options{Allow: loopback, TLS: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}).
		Get(context.Background(), s.URL, 10); err != nil || string(b) != "ok" {
		t.Error(err)
	}
}

func FuzzCheck(f *testing.F) {
	for _, s := range []string{"http://127.0.0.1/", "https://example.com/a.png", "http://0x7f.1/", "http://[::1]:80/",
		"http://a@b/", "http://127。0。0。1/"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		u, err := url.Parse(s)
		if err != nil || check(u) != nil {
			return
		}
		if u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.Hostname() == "" {
			t.Errorf("%q passed", s)
		}
	})
}
