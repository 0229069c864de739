package fetch

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	brotli "github.com/molecule-man/go-brrr"

	"farebox/providers/fetch/fetchtest"
)

func gzipped(p []byte) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write(p)
	_ = z.Close()
	return b.Bytes()
}

func brotlied(t testing.TB, p []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := brotli.NewWriter(&b, 5)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = w.Write(p)
	_ = w.Close()
	return b.Bytes()
}

// An answer has its status, its header, the URL it came from and its body
// without encodings.
func TestAnAnswerIsGivenWhateverItsStatus(t *testing.T) {
	t.Parallel()
	page := bytes.Repeat([]byte("page "), 10_000)
	u := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Accept-Encoding") != "gzip, br" || r.Header.Get("Accept") != "text/html" ||
			r.Header.Get("User-Agent") != "tester/1" || r.Header.Get("Referer") != "" {
			t.Error(r.Header)
		}
		w.Header().Set("Content-Type", "text/html; charset=x")
		switch r.URL.Path {
		case "/from":
			http.Redirect(w, r, "/gzip?x=1", http.StatusFound)
		case "/gzip":
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(gzipped(page))
		case "/br":
			w.Header().Set("Content-Encoding", "br")
			_, _ = w.Write(brotlied(t, page))
		case "/busy":
			w.Header().Set("Retry-After", "7")
			w.Header().Set("Content-Encoding", "gzip")
			w.WriteHeader(503)
			_, _ = w.Write(gzipped(page))
		case "/nothing":
			w.Header().Set("Content-Encoding", "gzip")
			w.WriteHeader(204)
		case "/zip":
			w.Header().Set("Content-Encoding", "zstd")
			_, _ = w.Write(page)
		default:
			_, _ = w.Write(page)
		}
	})
	c := New(Options{Allow: loopback})
	ask := func(path string) (*Answer, error) {
		return c.Do(context.Background(), Ask{URL: u + path, Agent: "tester/1", Accept: "text/html", Most: 50_000,
			Redirects: 2})
	}
	for path, status := range map[string]int{"/from": 200, "/gzip": 200, "/br": 200, "/plain": 200, "/busy": 503} {
		a, err := ask(path)
		if err != nil || a.Status != status || !bytes.Equal(a.Body, page) ||
			a.Header.Get("Content-Type") != "text/html; charset=x" {
			t.Errorf("%s: %v %v", path, a, err)
			continue
		}
		if path == "/from" && a.URL.String() != u+"/gzip?x=1" {
			t.Error(a.URL)
		}
		if path == "/busy" && a.Header.Get("Retry-After") != "7" {
			t.Error(a.Header)
		}
	}
	if a, err := ask("/nothing"); err != nil || a.Status != 204 || len(a.Body) != 0 {
		t.Error(a, err)
	}
	if _, err := ask("/zip"); reason(err) != "unwanted" {
		t.Error(err)
	}
}

// Whatever an encoding holds, no more is unpacked than was asked for.
func TestPackedBodiesAreBounded(t *testing.T) { // not parallel: it counts the allocations of the process
	bombs := map[string][]byte{}
	bomb := gzipped(make([]byte, 64<<20))
	bombs["gzip"] = bomb
	bombs["br"] = brotlied(t, make([]byte, 64<<20))
	bombs["gzip of nothing"] = bytes.Repeat(gzipped(nil), 100_000)
	bombs["gzip that breaks off"] = bomb[:200]
	bombs["br that breaks off"] = brotlied(t, []byte("some text that goes on"))[:9]
	bombs["no gzip"] = []byte("plain text, and not what the header says")
	bombs["no br"] = bytes.Repeat([]byte{0xfb, 3, 7, 0xff}, 1000)
	bombs["br with a large window"] = []byte{0x0f, 0, 0, 0}
	want := map[string]string{"gzip": "large", "br": "large", "gzip of nothing": "large",
		"br with a large window": "large"}
	for name, body := range bombs {
		u := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", strings.ReplaceAll(strings.Fields(strings.Replace(name, "no ", "", 1))[0],
				",", ""))
			_, _ = w.Write(body)
		})
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := New(Options{Allow: loopback}).Do(context.Background(), Ask{URL: u, Most: 1 << 20})
		runtime.ReadMemStats(&after)
		if w := want[name]; w != "" && reason(err) != w || err == nil {
			t.Errorf("%s: %v", name, err)
		}
		if took := after.TotalAlloc - before.TotalAlloc; took > 64<<20 {
			t.Errorf("%s: %d MB", name, took>>20)
		}
	}
}

// A body may be cut where its beginning is enough.
func TestABodyIsCutWhereThatIsAskedFor(t *testing.T) {
	t.Parallel()
	u := serve(t, func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			if _, err := w.Write(bytes.Repeat([]byte("x"), 4096)); err != nil {
				return
			}
		}
	})
	a, err := New(Options{Allow: loopback}).Do(context.Background(), Ask{URL: u, Most: 10_000, Cut: true})
	if err != nil || len(a.Body) != 10_000 {
		t.Error(err)
	}
	if _, err := New(Options{Allow: loopback}).Do(context.Background(), Ask{URL: u, Most: 10_000}); reason(err) !=
		"large" {
		t.Error(err)
	}
	a, err = New(Options{Allow: loopback}).Do(context.Background(), Ask{URL: u, Cut: true,
		MostOf: func(status int, h http.Header) int64 { return int64(status + len(h)*0) }})
	if err != nil || len(a.Body) != 200 {
		t.Error(err)
	}
}

// Every hop is asked about, before it is requested; no redirect is an error
// when none is followed.
func TestEveryHopIsAskedAbout(t *testing.T) {
	t.Parallel()
	var hits atomic.Int32
	u := serve(t, func(w http.ResponseWriter, r *http.Request) {
		hits.Add(1)
		if n := len(r.URL.Path); n < 5 {
			http.SetCookie(w, &http.Cookie{Name: fmt.Sprint("at", n), Value: "yes"})
			http.Redirect(w, r, r.URL.Path+"x", http.StatusFound)
			return
		}
		_, _ = io.WriteString(w, r.Header.Get("Cookie"))
	})
	c := New(Options{Allow: loopback})
	no := errors.New("no")
	var seen []string
	_, err := c.Do(context.Background(), Ask{URL: u + "/", Most: 99, Redirects: 9, Check: func(u *url.URL) error {
		seen = append(seen, u.Path)
		if u.Path == "/xx" {
			return no
		}
		return nil
	}})
	if err != no || fmt.Sprint(seen) != "[/ /x /xx]" || hits.Load() != 2 {
		t.Error(err, seen, hits.Load())
	}
	a, err := c.Do(context.Background(), Ask{URL: u + "/", Most: 99})
	if err != nil || a.Status != 302 || a.Header.Get("Location") != "/x" {
		t.Error(a, err)
	}
	if _, err = c.Do(context.Background(), Ask{URL: u + "/", Most: 99, Redirects: 3}); reason(err) != "redirects" {
		t.Error(err)
	}
	jar, _ := cookiejar.New(nil)
	a, err = c.Do(context.Background(), Ask{URL: u + "/", Most: 99, Redirects: 4, Cookies: jar})
	if err != nil || string(a.Body) != "at1=yes; at2=yes; at3=yes; at4=yes" {
		t.Errorf("%v %s", err, a.Body)
	}
}

// One host is asked as often at once as it may be, and no more; others do not
// wait for it.
func TestAHostIsNotFlooded(t *testing.T) {
	t.Parallel()
	var now, most atomic.Int32
	slow := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		most.Store(max(most.Load(), now.Add(1)))
		time.Sleep(20 * time.Millisecond)
		now.Add(-1)
		_, _ = io.WriteString(w, "ok")
	})
	c := New(Options{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, PerHost: 2})
	ends := make(chan error, 10)
	for range cap(ends) {
		go func() { _, err := c.Do(context.Background(), Ask{URL: slow, Most: 9}); ends <- err }()
	}
	for range cap(ends) {
		if err := <-ends; err != nil {
			t.Error(err)
		}
	}
	if most.Load() != 2 {
		t.Errorf("%d at once", most.Load())
	}
	held := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	t.Cleanup(held.Close)
	ctx, cancel := context.WithCancel(context.Background())
	for range 2 {
		go func() { _, err := c.Do(ctx, Ask{URL: held.URL, Most: 9}); ends <- err }()
	}
	p := c.http.Transport.(*perHost)
	p.wait = 50 * time.Millisecond
	for sitting := 0; sitting < 2; {
		p.mu.Lock()
		if q := p.hosts["127.0.0.1"]; q != nil {
			sitting = q.turns.Waiting()
		}
		p.mu.Unlock()
		time.Sleep(time.Millisecond)
	}
	if _, err := c.Do(context.Background(), Ask{URL: held.URL, Most: 9}); reason(err) !=
		"busy" {
		t.Error(err)
	}
	other := strings.Replace(slow, "127.0.0.1", "localhost", 1)
	if _, err := c.Do(context.Background(), Ask{URL: other, Most: 9}); err != nil {
		t.Error(err)
	}
	cancel()
	for range 2 {
		if err := <-ends; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
	if len(p.hosts) != 0 {
		t.Error("something is left")
	}
}

// Callers with protocols of their own are guarded as well, at the dialer.
func TestConnectionsAreGuarded(t *testing.T) {
	t.Parallel()
	c := New(Options{Allow: loopback, Ports: []uint16{80, 8443}, Resolver: fetchtest.Names(t, map[string][]string{
		"turns.test.": {"10.0.0.1", "169.254.169.254"}})})
	u := serve(t, func(http.ResponseWriter, *http.Request) {})
	conn, err := c.DialContext(context.Background(), "tcp", strings.TrimPrefix(u, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
	for _, address := range []string{"127.0.0.2:80", "[::1]:80", "turns.test:80", "turns.test:443", "10.0.0.1:8443",
		"1.1.1.1:443"} {
		if _, err := c.DialContext(context.Background(), "tcp", address); reason(err) != "forbidden" {
			t.Errorf("%s: %v", address, err)
		}
	}
	if err := newGuard(nil, nil, 80, 8443).control(context.Background(), "tcp4", "1.1.1.1:8443", nil); err != nil {
		t.Error(err)
	}
}

// Whatever a server calls gzip or br ends, within bounds.
func FuzzDecoded(f *testing.F) {
	f.Add([]byte("plain"), "gzip")
	f.Add(gzipped([]byte("text")), "gzip")
	f.Add(brotlied(f, []byte("text")), "br")
	f.Add(brotlied(f, bytes.Repeat([]byte("text, "), 3000)), "br")
	f.Fuzz(func(t *testing.T, p []byte, encoding string) {
		r := &http.Response{Header: http.Header{"Content-Encoding": {encoding}}, Body: io.NopCloser(bytes.NewReader(p)),
			ContentLength: -1}
		if body, err := decoded(r, 10_000, len(p)%2 == 0); err == nil && len(body) > 10_000 {
			t.Error(len(body))
		}
	})
}
