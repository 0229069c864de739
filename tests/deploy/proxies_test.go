package deploy

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"farebox/bench/servers"
	"farebox/bench/upstream"
	"farebox/tests/rig"
)

// front is a proxy from the files of config/deploy before two nodes.
type front struct {
	url   string
	trust *tls.Config
}

// client calls from a local address.
func (f *front) client(from string) *http.Client {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	return &http.Client{Timeout: rig.CallLimit, Transport: &http.Transport{
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			return d.DialContext(ctx, "tcp4", addr)
		},
		TLSClientConfig: f.trust, ForceAttemptHTTP2: true,
	}}
}

// startFront runs a program until the test ends, once its port answers.
func startFront(t *testing.T, dir, port string, name string, args ...string) *front {
	t.Helper()
	out := &rig.Output{}
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, out, out
	cmd.Env = append(os.Environ(), "HOME="+dir)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("%s:\n%s", name, rig.Last(out.String(), 3000))
		}
	})
	for end := time.Now().Add(rig.StartLimit); ; time.Sleep(20 * time.Millisecond) {
		if c, err := net.Dial("tcp", "127.0.0.1:"+port); err == nil {
			_ = c.Close()
			return &front{url: "https://localhost:" + port}
		}
		if time.Now().After(end) {
			t.Fatalf("%s does not listen on %s:\n%s", name, port, out)
		}
	}
}

// certified writes the certificate that both proxies have in these tests.
func certified(t *testing.T, dir string) *tls.Config {
	t.Helper()
	trust := &tls.Config{RootCAs: rig.Certificate(t, dir)}
	for _, name := range []string{"cert.pem", "key.pem"} {
		if err := os.Rename(filepath.Join(dir, name), filepath.Join(dir, "farebox-"+name)); err != nil {
			t.Fatal(err)
		}
	}
	return trust
}

// startNginx replaces ports, nodes and the certificate.
func startNginx(t *testing.T, nodes ...string) *front {
	t.Helper()
	name := servers.Tool(t, "nginx", "/usr/sbin/nginx")
	dir := filepath.Join(copied(t, strings.NewReplacer()), "nginx")
	port := ports(t, "80", "443")
	rewrite(t, filepath.Join(dir, "farebox.conf"), "listen 80;", port.Replace("listen 80;"), "listen 443 ", port.Replace("listen 443 "))
	rewrite(t, filepath.Join(dir, "farebox-nodes.conf"), "127.0.0.1:8081", nodes[0], "127.0.0.1:8082", nodes[1])
	trust := certified(t, dir)
	f := startFront(t, dir, port.Replace("443"), name, "-e", "stderr", "-p", dir, "-c", "nginx.conf", "-g", "pid nginx.pid; daemon off;")
	f.trust = trust
	return f
}

// startCaddy replaces the name, nodes and, since no authority is here, the certificate.
func startCaddy(t *testing.T, nodes ...string) *front {
	t.Helper()
	name := servers.Tool(t, "caddy")
	dir := filepath.Join(copied(t, strings.NewReplacer()), "caddy")
	port := ports(t, "443").Replace("443")
	rewrite(t, filepath.Join(dir, "Caddyfile"), "api.example.com {", "{\n\tadmin off\n\tauto_https disable_redirects\n}\nhttps://localhost:"+
		port+" {\n\ttls farebox-cert.pem farebox-key.pem", "127.0.0.1:8081", nodes[0], "127.0.0.1:8082", nodes[1])
	trust := certified(t, dir)
	f := startFront(t, dir, port, name, "run", "--adapter", "caddyfile", "--config", "Caddyfile")
	f.trust = trust
	return f
}

// rewrite replaces parts of a file, each of which must be there.
func rewrite(t *testing.T, file string, pairs ...string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(pairs); i += 2 {
		if !strings.Contains(string(text), pairs[i]) {
			t.Fatalf("%s has no %q", file, pairs[i])
		}
	}
	if err := os.WriteFile(file, []byte(strings.NewReplacer(pairs...).Replace(string(text))), 0o644); err != nil {
		t.Fatal(err)
	}
}

var fronts = map[string]func(*testing.T, ...string) *front{"nginx": startNginx, "Caddy": startCaddy}

// "Behind the proxy, all words came at once, and one customer's attack blocked everybody."
func TestLongProxiesStreamAndPassAddresses(t *testing.T) {
	t.Parallel()
	for name, start := range fronts {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sim := rig.StartUpstream(t, upstream.Options{})
			g := rig.StartGateway(t, fmt.Sprintf(rig.PrepaidConfig, sim.URL)+
				"web3_keys: { per_ip: 3 }\nserver: { trusted_proxies: [127.0.0.1] }\n")
			g.NewAccount("a", "10")
			key := g.Key("a")
			f := start(t, g.Addr, g.Addr)

			// The first event is there long before the last is produced, over HTTP/2.
			req, _ := http.NewRequest("POST", f.url+"/api/v1/chat/completions",
				strings.NewReader(rig.Ask("sim-chat", "[[sim tokens=10 gap_ms=200]] Go", `,"stream":true`)))
			req.Header = http.Header{"Authorization": {"Bearer " + key}, "Content-Type": {"application/json"}}
			res, err := f.client("127.0.0.1").Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = res.Body.Close() }()
			var events []time.Time
			lines := bufio.NewScanner(res.Body)
			for lines.Scan() {
				if strings.HasPrefix(lines.Text(), "data: ") {
					events = append(events, time.Now())
				}
			}
			if len(events) < 10 || res.ProtoMajor != 2 {
				t.Fatalf("%d events over %s, status %d, %v", len(events), res.Proto, res.StatusCode, lines.Err())
			}
			if took := events[len(events)-1].Sub(events[0]); took < time.Second {
				t.Errorf("all events arrived within %s: they were kept back", took)
			}

			if name == "nginx" {
				refusedEarly(t, f)
			}

			// Each client has limits by address of its own, and cannot say that it is another.
			ask := func(from, says string) int {
				req, _ := http.NewRequest("GET", f.url+"/api/v1"+rig.Web3Path, nil)
				if says != "" {
					req.Header.Set("X-Forwarded-For", says)
				}
				res, err := f.client(from).Do(req)
				if err != nil {
					t.Fatal(err)
				}
				_, _ = io.Copy(io.Discard, res.Body)
				_ = res.Body.Close()
				return res.StatusCode
			}
			for i := range 3 {
				if status := ask("127.0.0.2", ""); status != 200 {
					t.Errorf("call %d of one client: %d", i, status)
				}
				if status := ask("127.0.0.3", "127.0.0.4"); status != 200 {
					t.Errorf("call %d of a client that claims another address: %d", i, status)
				}
			}
			for says, want := range map[string]int{"": 429, "192.0.2.1": 429, "127.0.0.5, 127.0.0.1": 429} {
				if status := ask("127.0.0.2", says); status != want {
					t.Errorf("the client without calls left, as %q: %d", says, status)
				}
			}
			if status := ask("127.0.0.4", ""); status != 200 {
				t.Errorf("the client that another one claimed to be: %d", status)
			}
		})
	}
}

// refusedEarly sees that an upload is refused before it has arrived. Caddy 2.6 reads on first.
func refusedEarly(t *testing.T, f *front) {
	t.Helper()
	trust := f.trust.Clone()
	trust.NextProtos = []string{"http/1.1"}
	c, err := tls.Dial("tcp", "127.0.0.1:"+f.url[strings.LastIndexByte(f.url, ':')+1:], trust)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(rig.CallLimit / 4))
	_, _ = fmt.Fprintf(c, "POST /api/v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer wrong\r\n"+
		"Content-Type: application/json\r\nContent-Length: 4000000\r\n\r\n%s", strings.Repeat(" ", 200_000))
	if early, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil || early.StatusCode != 401 {
		t.Errorf("an upload with a wrong key, of which a part has arrived: %v", err)
	}
}

// "The proxy sent the request to the second node as well, and it was charged twice."
func TestLongProxiesSendAPOSTOnce(t *testing.T) {
	t.Parallel()
	for name, start := range fronts {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var posts atomic.Int64
			breaking := func() string { // a node that ends after it has read a request
				s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if r.URL.Path == "/readyz" {
						return
					}
					_, _ = io.Copy(io.Discard, r.Body)
					posts.Add(1)
					panic(http.ErrAbortHandler)
				}))
				t.Cleanup(s.Close)
				return strings.TrimPrefix(s.URL, "http://")
			}
			f := start(t, breaking(), breaking())
			res, err := f.client("127.0.0.1").Post(f.url+"/api/v1/chat/completions", "application/json", strings.NewReader("{}"))
			if err != nil {
				t.Fatal(err)
			}
			_ = res.Body.Close()
			if res.StatusCode != 502 || posts.Load() != 1 {
				t.Errorf("status %d; the nodes have read it %d times", res.StatusCode, posts.Load())
			}

			// Where one node is away, the other gets every request.
			sim := rig.StartUpstream(t, upstream.Options{})
			g := rig.StartGateway(t, fmt.Sprintf(rig.PrepaidConfig, sim.URL)+"server: { trusted_proxies: [127.0.0.1] }\n")
			g.NewAccount("a", "10")
			key := g.Key("a")
			f = start(t, rig.FreeAddr(t), g.Addr)
			for i := range 20 {
				if status, _, answer, err := rig.Try(f.client("127.0.0.1"), f.url+"/api/v1/chat/completions", key,
					rig.Ask("sim-chat", "[[sim tokens=3]] Go", "")); err != nil || status != 200 {
					t.Errorf("call %d with one node away: %d %v %s", i, status, err, answer)
				}
			}
		})
	}
}
