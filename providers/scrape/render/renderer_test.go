package render

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"farebox/bench/servers"
	"farebox/providers/fetch"
	"farebox/providers/fetch/fetchtest"
	"farebox/providers/scrape"
)

// inside counts connections to internal addresses: the gateway's own machine.
type inside struct {
	tcp, udp atomic.Int32
	port     int
	mu       sync.Mutex
	seen     []string
}

func guarded(t *testing.T) *inside {
	t.Helper()
	v := &inside{}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	v.port = l.Addr().(*net.TCPAddr).Port
	count := func(l net.Listener) {
		t.Cleanup(func() { l.Close() })
		s := &http.Server{ReadHeaderTimeout: time.Minute, ConnState: func(_ net.Conn, s http.ConnState) {
			if s == http.StateNew {
				v.tcp.Add(1)
			}
		}, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			v.mu.Lock()
			v.seen = append(v.seen, r.Host+r.URL.String())
			v.mu.Unlock()
			w.Header().Set("Access-Control-Allow-Origin", "*")
			w.Header().Set("Access-Control-Allow-Private-Network", "true")
			_, _ = io.WriteString(w, "secret")
		})}
		go func() { _ = s.Serve(l) }()
	}
	count(l)
	if six, err := net.Listen("tcp", fmt.Sprintf("[::1]:%d", v.port)); err == nil {
		count(six)
	}
	for _, address := range []string{"127.0.0.1", "[::1]"} {
		if pc, err := net.ListenPacket("udp", fmt.Sprintf("%s:%d", address, v.port)); err == nil {
			t.Cleanup(func() { pc.Close() })
			go func() {
				b := make([]byte, 2000)
				for {
					if _, _, err := pc.ReadFrom(b); err != nil {
						return
					}
					v.udp.Add(1)
				}
			}()
		}
	}
	return v
}

// tries are all the ways in which a page's script can ask for an address.
const tries = `<!doctype html><title>made</title><div id=out></div>
<link rel=preconnect href="http://127.0.0.1:PORT"><link rel=dns-prefetch href="//127.0.0.1:PORT">
<link rel=stylesheet href="http://localhost:PORT/css"><link rel=prefetch href="http://127.0.0.1:PORT/prefetch">
<script src="http://127.0.0.1:PORT/script"></script><img src="http://127.0.0.1:PORT/img">
<iframe src="http://127.0.0.1:PORT/iframe"></iframe><iframe src="http://localhost:PORT/iframe"></iframe>
<iframe src="http://[::1]:PORT/iframe"></iframe><iframe src="file:///etc/passwd"></iframe>
<iframe srcdoc="<script>fetch('http://127.0.0.1:PORT/srcdoc',{mode:'no-cors'})</script>"></iframe>
<iframe src="/inward"></iframe><object data="http://127.0.0.1:PORT/object"></object>
<embed src="http://127.0.0.1:PORT/embed"><video src="http://127.0.0.1:PORT/video"></video>
<script>
fetch("/hold");
const said = [];
const hosts = ["127.0.0.1", "localhost", "[::1]", "127.1", "2130706433", "0x7f000001", "0.0.0.0", "[::ffff:127.0.0.1]",
  "turns.test", "inside.test", "localhost.", "a.localhost", "127.0.0.1.nip.test"];
const all = [];
for (const h of hosts) for (const mode of ["cors", "no-cors"])
  all.push(fetch("http://" + h + ":PORT/fetch", {mode}).then(r => r.text())
    .then(x => x && said.push("LEAK " + h + x), () => 0));
for (const h of hosts) for (const s of ["ws", "wss"]) all.push(new Promise(done => { try {
  const w = new WebSocket(s + "://" + h + ":PORT/ws"); w.onopen = w.onerror = w.onclose = done } catch { done() } }));
all.push(fetch("/inward").then(r => r.text()).then(x => x && said.push("LEAK redirect " + x), () => 0));
all.push(fetch("https://127.0.0.1:PORT/tls", {mode: "no-cors"}).catch(() => 0));
try { navigator.sendBeacon("http://127.0.0.1:PORT/beacon", "x") } catch {}
try { new EventSource("http://127.0.0.1:PORT/events") } catch {}
try { import("http://127.0.0.1:PORT/module").catch(() => 0) } catch {}
try { window.open("http://127.0.0.1:PORT/open") } catch {}
try { new Worker(URL.createObjectURL(new Blob([
  "for (const h of ['127.0.0.1','localhost','[::1]']) { fetch('http://'+h+':PORT/worker',{mode:'no-cors'})" +
  ".catch(()=>0); try { new WebSocket('ws://'+h+':PORT/w') } catch {} }"]))) } catch {}
try { const x = new WebTransport("https://127.0.0.1:PORT/transport"); x.ready.catch(() => 0) } catch {}
for (const f of [self, ...[...document.querySelectorAll("iframe")].map(i => i.contentWindow)]) try {
  const c = new f.RTCPeerConnection({iceServers: [{urls: ["stun:127.0.0.1:PORT", "stun:[::1]:PORT"]},
    {urls: ["turn:127.0.0.1:PORT?transport=tcp", "turn:localhost:PORT"], username: "a", credential: "b"}]});
  c.createDataChannel("x"); c.createOffer().then(o => c.setLocalDescription(o)); said.push("RTC") } catch {}
const form = document.createElement("form"); form.action = "http://127.0.0.1:PORT/form"; form.method = "POST";
form.target = "f"; document.body.append(form); try { form.submit() } catch {}
Promise.race([Promise.allSettled(all), new Promise(r => setTimeout(r, 3000))]).then(() => fetch("/ok"))
  .then(r => r.text()).then(x => { document.getElementById("out").textContent = "done " + x + " " + said.join(", ") });
</script>`

// A page's script reaches nothing inside, in whatever way it asks, and the page
// is there nevertheless. Takes 40 s, and half a minute more where Chromium is not
// installed.
func TestLongScriptsReachNothingInside(t *testing.T) {
	path := servers.Chromium(t)
	v := guarded(t)
	l, err := net.Listen("tcp", "127.0.0.2:0")
	if err != nil {
		servers.Elsewhere(t, "second loopback address")
	}
	port := fmt.Sprint(v.port)
	site := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			switch r.URL.Path {
			case "/tries":
				_, _ = io.WriteString(w, strings.ReplaceAll(tries, "PORT", cmp.Or(r.URL.Query().Get("port"), port)))
			case "/inward":
				http.Redirect(w, r, "http://127.0.0.1:"+port+"/redirected", http.StatusFound)
			case "/away":
				_, _ = io.WriteString(w, "<script>location = 'http://localhost:"+port+"/away'</script>")
			case "/hold": // keeps the page from being quiet until all is tried
				time.Sleep(4 * time.Second)
			case "/ok":
				if agent := r.Header.Get("User-Agent"); agent == "" || r.Header.Get("Proxy-Authorization") != "" {
					t.Error(r.Header)
				}
				_, _ = io.WriteString(w, "ok")
			case "/app":
				_, _ = io.WriteString(w, `<div id=root></div><script>alert("stop"); fetch("/ok").then(r => r.text()).then(x =>
{ history.pushState(0, "", "/app/route"); root.innerHTML = "<h1>Made by a script: " + x + "</h1>" })</script>`)
			case "/file":
				w.Header().Set("Content-Disposition", "attachment")
			case "/loop":
				_, _ = io.WriteString(w, "<script>for (;;) {}</script>")
			case "/memory":
				_, _ = io.WriteString(w, `<script>const keep = []; setInterval(() => { const b = new Uint8Array(64 << 20);
b.fill(7); keep.push(b) }, 5)</script>`)
			default:
				http.NotFound(w, r)
			}
		})}
	go func() { _ = site.Serve(l) }()
	t.Cleanup(func() { site.Close() })
	_, sitePort, _ := net.SplitHostPort(l.Addr().String())

	client := fetch.New(fetch.Options{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.2/32")},
		Resolver: fetchtest.Names(t, map[string][]string{"page.test.": {"127.0.0.2"},
			"turns.test.": {"127.0.0.1", "127.0.0.2"}, "inside.test.": {"127.0.0.1"}, "a.localhost.": {"127.0.0.1"},
			"localhost.": {"127.0.0.1"}, "127.0.0.1.nip.test.": {"127.0.0.1"}})})
	var r *Renderer
	for _, bare := range []bool{false, true} { // containers without user namespaces have no sandbox
		r, err = New(Options{Fetch: client, Path: path, NoSandbox: bare, Agent: "farebox/1", Settle: 6 * time.Second,
			Idle: 2 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = r.Close() })
		if _, _, err = r.Render(context.Background(), "http://page.test:"+sitePort+"/app"); err == nil {
			break
		}
		t.Logf("without a sandbox: %v, %v", bare, err)
	}
	get := func(t *testing.T, path string, limit time.Duration) (string, string, error) {
		t.Helper()
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		defer cancel()
		began := time.Now()
		html, at, err := r.Render(ctx, "http://page.test:"+sitePort+path)
		t.Logf("%s: %v, %v", path, time.Since(began).Round(time.Millisecond), err)
		return string(html), at, err
	}
	t.Run("a page of a script is read", func(t *testing.T) {
		for range 3 {
			html, at, err := get(t, "/app", time.Minute)
			if err != nil || !strings.Contains(html, "<h1>Made by a script: ok</h1>") || !strings.HasSuffix(at, "/app/route") {
				t.Errorf("%v %s %s", err, at, html)
			}
		}
	})
	fails := func(t *testing.T) {
		html, _, err := get(t, "/tries", time.Minute)
		_, said, _ := strings.Cut(html, "<div id=\"out\">")
		said, _, _ = strings.Cut(said, "</div>")
		if err != nil || strings.TrimSpace(said) != "done ok" {
			t.Errorf("%v %q", err, said)
		}
	}
	t.Run("all tries fail", fails)
	t.Run("inward by itself", func(t *testing.T) {
		for _, path := range []string{"/inward", "/away"} {
			if html, _, _ := get(t, path, time.Minute); strings.Contains(html, "secret") {
				t.Error(html)
			}
		}
	})
	t.Run("not a page", func(t *testing.T) {
		var e *scrape.Error
		if _, _, err := get(t, "/nothing", time.Minute); !errors.As(err, &e) || e.Reason != scrape.Status || e.Status != 404 {
			t.Error(err)
		}
		if _, _, err := get(t, "/file", time.Minute); !errors.As(err, &e) {
			t.Error(err)
		}
	})
	t.Run("a script without end", func(t *testing.T) {
		if _, _, err := get(t, "/loop", 3*time.Second); err == nil {
			t.Error("it ended")
		}
		if _, _, err := get(t, "/app", time.Minute); err != nil {
			t.Error("the next page: ", err)
		}
	})
	t.Run("a page that takes longer than a page may", func(t *testing.T) {
		r.o.Limit = 2 * time.Second
		defer func() { r.o.Limit = 0 }()
		began := time.Now()
		if _, _, err := get(t, "/loop", time.Minute); !errors.Is(err, context.DeadlineExceeded) ||
			time.Since(began) > 30*time.Second {
			t.Error(err, time.Since(began))
		}
	})
	t.Run("a script that takes memory", func(t *testing.T) {
		_, _, _ = get(t, "/memory", 10*time.Second)
		if _, _, err := get(t, "/app", time.Minute); err != nil {
			t.Error("the next page: ", err)
		}
	})
	t.Run("the browser ends when idle", func(t *testing.T) {
		for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
			r.mu.Lock()
			none := r.now == nil
			r.mu.Unlock()
			if none {
				return
			}
		}
		t.Error("it still runs")
	})
	t.Run("in a remote browser, too", func(t *testing.T) {
		address := servers.StartChromium(t, path)
		if r, err = New(Options{Fetch: client, NoSandbox: r.o.NoSandbox, Remote: address, Agent: "farebox/1", Settle: 6 * time.Second}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = r.Close() })
		if html, _, err := get(t, "/app", time.Minute); err != nil || !strings.Contains(html, "Made by a script: ok") {
			t.Error(err, html)
		}
		fails(t)
	})
	if v.tcp.Load() != 0 || v.udp.Load() != 0 {
		t.Errorf("reached inside: %d connections, %d packets: %v", v.tcp.Load(), v.udp.Load(), v.seen)
	}
	t.Run("where the guard is open they are no dead letters", func(t *testing.T) {
		open := guarded(t)
		client := fetch.New(fetch.Options{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
			Resolver: fetchtest.Names(t, map[string][]string{"page.test.": {"127.0.0.2"}, "localhost.": {"127.0.0.1"}})})
		if r, err = New(Options{Fetch: client, Path: path, NoSandbox: r.o.NoSandbox, Settle: 6 * time.Second}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = r.Close() })
		if _, _, err := get(t, "/tries?port="+fmt.Sprint(open.port), time.Minute); err != nil || open.tcp.Load() < 10 {
			t.Errorf("%v, %d connections", err, open.tcp.Load())
		}
		t.Logf("%d connections", open.tcp.Load())
	})
}
