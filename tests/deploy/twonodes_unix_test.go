//go:build unix

package deploy

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"farebox/bench/servers"
	"farebox/bench/upstream"
	"farebox/tests/rig"
)

// twoNodes is the set-up of the page: two nodes behind nginx, and a paid key.
type twoNodes struct {
	*shell
	t      *testing.T
	dir    string
	blocks []string
	sim    *rig.Simulated
	fronts map[string]*front // nginx as the page starts it, and Caddy before the same nodes
	key    string
}

// followPage walks the section of the page up to the first call.
func followPage(t *testing.T, env ...string) *twoNodes {
	t.Helper()
	servers.Tool(t, "nginx", "/usr/sbin/nginx")
	servers.Tool(t, "openssl")
	port := ports(t, "8080", "8443", "8081", "8082", "9465", "9466")
	n := &twoNodes{t: t, dir: t.TempDir(), blocks: pageBlocks(t, "## Two nodes behind nginx")}
	if len(n.blocks) != 6 {
		t.Fatalf("the page has %d blocks, not 6", len(n.blocks))
	}
	for i, b := range n.blocks {
		n.blocks[i] = port.Replace(b)
	}
	n.sim = rig.StartUpstream(t, upstream.Options{Key: "sk-test"})
	redis := servers.StartRedis(t, "--appendonly", "yes", "--maxmemory-policy", "noeviction")
	postgres := servers.StartPostgres(t)
	n.shell = openShell(t, n.dir, append(env, "DEPLOY="+copied(t, port), "OPENAI_API_KEY=sk-test", "FAREBOX_POSTGRES="+postgres.Addr,
		"FAREBOX_REDIS="+redis.Addr, "FAREBOX_UPSTREAM="+n.sim.URL)...)
	t.Cleanup(n.stop)

	// The first step of the page needs root, or rather a superuser of the database.
	n.run(strings.SplitAfter(n.blocks[0], "\n")[0])
	password, err := os.ReadFile(filepath.Join(n.dir, "secrets", "postgres"))
	if err != nil {
		t.Fatal(err)
	}
	postgres.Exec(t, "CREATE ROLE farebox LOGIN PASSWORD '"+strings.TrimSpace(string(password))+"'")
	postgres.Exec(t, "CREATE DATABASE farebox OWNER farebox")
	n.run(n.blocks[1])
	n.run("sed -i 's/  - id: chat/&\\n    tier: unlimited/' farebox.yaml") // the test calls more often than a customer may
	n.run(n.blocks[2])
	n.run(n.blocks[3])
	out := n.run("echo $KEY")
	if n.key = regexp.MustCompile(`SVC_INFERENCE_KEY_\S+`).FindString(out); n.key == "" {
		t.Fatalf("there is no key: %s", out)
	}
	pem, err := os.ReadFile(filepath.Join(n.dir, "farebox-cert.pem"))
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem)
	n.fronts = map[string]*front{
		"nginx": {url: "https://localhost:" + port.Replace("8443"), trust: &tls.Config{RootCAs: pool}},
		"Caddy": startCaddy(t, "127.0.0.1:"+port.Replace("8081"), "127.0.0.1:"+port.Replace("8082")),
	}
	return n
}

// stop ends those processes of the page that the test did not start.
func (n *twoNodes) stop() {
	for _, name := range []string{"nginx", "node-1", "node-2"} {
		text, err := os.ReadFile(filepath.Join(n.dir, name+".pid"))
		if err != nil {
			continue // it ended in good order, or never began
		}
		if pid, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	if n.t.Failed() {
		for _, name := range []string{"node-1.log", "node-2.log"} {
			text, _ := os.ReadFile(filepath.Join(n.dir, name))
			n.t.Logf("%s:\n%s", name, rig.Last(string(text), 3000))
		}
	}
}

// traffic calls until it is stopped, over kept connections, new ones and HTTP/2.
type traffic struct {
	calls, streams, failed atomic.Int64
	over                   chan struct{}
	wg                     sync.WaitGroup
}

func (n *twoNodes) startTraffic() *traffic {
	tr := &traffic{over: make(chan struct{})}
	for through, f := range n.fronts {
		h1 := f.trust.Clone()
		h1.NextProtos = []string{"http/1.1"}
		for name, transport := range map[string]*http.Transport{
			"kept":    {TLSClientConfig: h1},
			"new":     {TLSClientConfig: h1, DisableKeepAlives: true},
			"HTTP/2":  {TLSClientConfig: f.trust, ForceAttemptHTTP2: true},
			"a while": {TLSClientConfig: h1}, // streams that last through the restart of a node
		} {
			c := &http.Client{Timeout: rig.CallLimit, Transport: transport}
			for worker := range 2 {
				body, streamed := rig.Ask("chat", "[[sim tokens=6 gap_ms=5]] Go", ""), worker == 1
				if streamed {
					body = rig.Ask("chat", "[[sim tokens=12 gap_ms=20]] Go", `,"stream":true`)
				}
				if name == "a while" {
					body, streamed = rig.Ask("chat", "[[sim tokens=80 gap_ms=100]] Go", `,"stream":true`), true
				}
				tr.wg.Go(func() {
					defer c.CloseIdleConnections()
					for {
						select {
						case <-tr.over:
							return
						default:
						}
						status, _, answer, err := rig.Try(c, f.url+"/api/v1/chat/completions", n.key, body)
						switch {
						case err != nil || status != 200 || streamed && !strings.HasSuffix(answer, "data: [DONE]\n\n"):
							tr.failed.Add(1)
							n.t.Errorf("%s, %s, streamed %t: %d %v, ends with %q", through, name, streamed, status, err, rig.Last(answer, 200))
						case streamed:
							tr.streams.Add(1)
						default:
							tr.calls.Add(1)
						}
					}
				})
			}
		}
	}
	return tr
}

func (tr *traffic) stop() {
	close(tr.over)
	tr.wg.Wait()
}

// "During the upgrade our customers got 502s for a minute." The page, followed in an empty
// folder, ends with two nodes that are restarted under traffic: nothing is refused, no stream
// breaks, and the books are right to the token.
func TestLongTwoNodesBehindNginx(t *testing.T) {
	t.Parallel()
	began := time.Now()
	n := followPage(t)
	walked := time.Since(began)
	tr := n.startTraffic()
	time.Sleep(2 * time.Second)
	n.run(n.blocks[4])
	time.Sleep(2 * time.Second)
	tr.stop()
	t.Logf("the page up to the first call took %s, the rolling restart %s: %d calls, %d streams, %d failed",
		walked.Round(time.Second/10), time.Since(began.Add(walked)).Round(time.Second), tr.calls.Load(), tr.streams.Load(),
		tr.failed.Load())
	if tr.calls.Load() < 500 || tr.streams.Load() < 200 {
		t.Errorf("%d calls and %d streams are too few to show anything", tr.calls.Load(), tr.streams.Load())
	}

	made := n.sim.Idle(t).Tokens
	want := rig.Money(made.PromptTokens*150 + made.CompletionTokens*600)
	for end := time.Now().Add(rig.CallLimit); ; time.Sleep(100 * time.Millisecond) { // charges reach the store in batches
		var accounts []rig.Account
		listed := n.run("farebox account list --json -c farebox.yaml")
		if err := json.NewDecoder(strings.NewReader(listed)).Decode(&accounts); err != nil || len(accounts) != 1 {
			t.Fatalf("%v\n%s", err, listed)
		}
		if a := accounts[0]; a.Spent == want && a.Held == 0 {
			break
		} else if time.Now().After(end) {
			t.Errorf("the upstream's tokens are worth %s, the account is %+v", want, a)
			break
		}
	}
	n.run("farebox verify -c farebox.yaml")
	n.run(n.blocks[5])
}
