package operations

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"farebox/bench/upstream"
	"farebox/tests/rig"
)

// A container of scratch has no curl: farebox asks itself, however it listens.
func TestHealthAsksAsTheConfigListens(t *testing.T) {
	t.Parallel()
	sim := rig.StartUpstream(t, upstream.Options{})
	dir := t.TempDir()
	rig.Certificate(t, dir)
	secure := fmt.Sprintf("tls: { cert: %s/cert.pem, key: %s/key.pem }\n", dir, dir)
	const fronted = "server: { trusted_proxies: [127.0.0.0/8], proxy_protocol: true }\n"
	for name, c := range map[string]struct{ listen, more string }{
		"a port":                        {"127.0.0.1:%s", ""},
		"all addresses":                 {"0.0.0.0:%s", ""},
		"no host":                       {":%s", ""},
		"TLS":                           {"127.0.0.1:%s", secure},
		"the PROXY protocol":            {"127.0.0.1:%s", fronted},
		"the PROXY protocol before TLS": {"0.0.0.0:%s", secure + fronted},
		"a Unix socket":                 {"unix:" + filepath.Join(dir, "farebox.sock"), ""},
		"a Unix socket of a proxy": {"unix:" + filepath.Join(dir, "proxied.sock"),
			"server: { trusted_proxies: [unix], proxy_protocol: true }\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, port, _ := net.SplitHostPort(rig.FreeAddr(t))
			listen := strings.Replace(c.listen, "%s", port, 1)
			g := rig.NewGateway(t, fmt.Sprintf("listen: %q\n", listen)+c.more+fmt.Sprintf(rig.LoneConfig, sim.URL, ""))
			health := func(args ...string) (string, error) {
				return rig.RunIn(t, g.Dir, append([]string{"health", "-c", g.Config}, args...)...)
			}
			out, err := health()
			if rig.ExitCode(err) != 1 || !strings.HasPrefix(out, "farebox: not healthy: ") || strings.Count(out, "\n") != 1 {
				t.Errorf("before it runs: %v\n%s", err, out)
			}
			g.Addr = listen
			g.Launch()
			t.Cleanup(g.Cleanup)
			for end := time.Now().Add(rig.StartLimit); ; time.Sleep(20 * time.Millisecond) {
				if out, err = health(); err == nil {
					break
				}
				if time.Now().After(end) {
					t.Fatalf("it never is healthy: %v\n%s", err, out)
				}
			}
			if !strings.HasSuffix(out, "/readyz: ready\n") || strings.Count(out, "\n") != 1 {
				t.Errorf("%q", out)
			}
			if out, err := health("--live"); err != nil || !strings.HasSuffix(out, "/healthz: ok\n") {
				t.Errorf("%v: %q", err, out)
			}
		})
	}
}

// While a process drains, it lives but takes no new work. A process that hangs is not healthy.
func TestHealthTellsDrainingAndHangingApart(t *testing.T) {
	t.Parallel()
	sim := rig.StartUpstream(t, upstream.Options{})
	g := rig.StartGateway(t, "server: { drain_delay: 10s }\n"+fmt.Sprintf(rig.LoneConfig, sim.URL, ""))
	health := func(args ...string) (string, error) {
		return rig.RunIn(t, g.Dir, append([]string{"health", "--url", g.Origin}, args...)...)
	}
	if out, err := health(); err != nil || out != g.Origin+"/readyz: ready\n" {
		t.Errorf("%v: %q", err, out)
	}
	g.Signal(syscall.SIGSTOP)
	began := time.Now()
	if out, err := health("--live", "--timeout", "300ms"); rig.ExitCode(err) != 1 || time.Since(began) > 30*time.Second {
		t.Errorf("a process that hangs, after %s: %v %q", time.Since(began), err, out)
	}
	g.Signal(syscall.SIGCONT)
	g.Signal(syscall.SIGTERM)
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if res, err := http.Get(g.Origin + "/readyz"); err == nil {
			_ = res.Body.Close()
			if res.StatusCode == 503 {
				break
			}
		}
		if time.Now().After(end) {
			t.Fatal("it does not drain")
		}
	}
	if out, err := health(); rig.ExitCode(err) != 1 || !strings.Contains(out, `answered 503 "draining"`) {
		t.Errorf("%v: %q", err, out)
	}
	if out, err := health("--live"); err != nil || !strings.HasSuffix(out, "/healthz: ok\n") {
		t.Errorf("%v: %q", err, out)
	}
}

// A command line that names no address, or two, is answered with the usage.
func TestHealthNeedsOneAddress(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"health"}, {"health", "-c", os.DevNull, "--url", "http://127.0.0.1:1"}} {
		if out, err := rig.RunIn(t, t.TempDir(), args...); rig.ExitCode(err) != 1 || !strings.Contains(out, "usage: farebox health") {
			t.Errorf("%v: %v %q", args, err, out)
		}
	}
}
