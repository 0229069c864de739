//go:build unix

package operations

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"farebox/bench/upstream"
	"farebox/tests/rig"
)

var successorPID = regexp.MustCompile(`"pid":(\d+)`)

// A restart refused every connection until the successor had the ledger, for
// 18 seconds and more.
func TestHandOverRefusesNoClientAndCutsNoStream(t *testing.T) {
	t.Parallel()
	sim := rig.StartUpstream(t, upstream.Options{})
	g := rig.StartGateway(t, strings.ReplaceAll(fmt.Sprintf(rig.PrepaidConfig, sim.URL), "level: warn", "level: info"))
	g.NewAccount("a", "100")
	key := g.Key("a")
	long := g.Open("POST", "/chat/completions", key, rig.Ask("sim-chat", "[[sim tokens=20 gap_ms=50]] Go",
		`,"stream":true`))
	defer func() { _ = long.Body.Close() }()
	if _, err := io.ReadFull(long.Body, make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	const short = "[[sim tokens=8 gap_ms=5]] Go"
	whole, streamed := rig.Ask("sim-chat", short, ""), rig.Ask("sim-chat", short, `,"stream":true`)
	paid := func(c *http.Client, what, body string) {
		status, _, answer, err := rig.Try(c, g.URL+"/chat/completions", key, body)
		if err != nil || status != 200 || body == streamed && !strings.HasSuffix(answer, "data: [DONE]\n\n") {
			t.Errorf("%s: %d %v, ends with %q", what, status, err, rig.Last(answer, 100))
		}
	}

	// Some keep their connections, some come with a new one each.
	var wg sync.WaitGroup
	over := make(chan struct{})
	var kept atomic.Int64
	for n := range 4 {
		wg.Go(func() {
			c := &http.Client{Timeout: rig.CallLimit, Transport: &http.Transport{}}
			defer c.CloseIdleConnections()
			body := []string{whole, streamed}[n%2]
			for {
				select {
				case <-over:
					return
				default:
					paid(c, "kept connection "+strconv.Itoa(n), body)
					kept.Add(1)
				}
			}
		})
	}
	fresh := &http.Client{Timeout: rig.CallLimit, Transport: &http.Transport{DisableKeepAlives: true}}
	var single sync.WaitGroup
	for n := range 200 {
		if n == 50 {
			g.Signal(syscall.SIGUSR2)
		}
		single.Go(func() {
			switch n % 4 {
			case 0:
				paid(fresh, "request "+strconv.Itoa(n), whole)
			case 1:
				paid(fresh, "stream "+strconv.Itoa(n), streamed)
			default:
				res, err := fresh.Get(g.Origin + "/readyz")
				if err != nil {
					t.Errorf("request %d: %v", n, err)
					return
				}
				answer, _ := io.ReadAll(res.Body)
				_ = res.Body.Close()
				if res.StatusCode != 200 {
					t.Errorf("request %d: status %d, %s", n, res.StatusCode, answer)
				}
			}
		})
		time.Sleep(10 * time.Millisecond) // they come one after the other, before the hand-over and behind it
	}
	rest, err := io.ReadAll(long.Body)
	if err != nil || !strings.Contains(string(rest), "[DONE]") {
		t.Errorf("the stream was cut: %v", err)
	}
	single.Wait()
	logged(g, "all charges are on disk") // the old process has ended
	before := kept.Load()
	for end := time.Now().Add(rig.CallLimit); kept.Load() < before+8 && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
	}
	close(over)
	wg.Wait()
	if kept.Load() < before+8 {
		t.Errorf("kept connections were served %d times, then %d times by the successor", before, kept.Load()-before)
	}

	found := successorPID.FindStringSubmatch(g.Log())
	if found == nil {
		t.Fatalf("no successor is named in the log:\n%s", g.Log())
	}
	pid, _ := strconv.Atoi(found[1])
	_ = syscall.Kill(pid, syscall.SIGTERM)
	<-g.Done // it has the same output
	made := sim.Idle(t).Tokens
	if a, want := g.Accounts()["a"], rig.Money(made.PromptTokens*1000+made.CompletionTokens*2000); a.Spent != want ||
		a.Held != 0 || a.USD+a.Spent != 100_000_000_000 {
		t.Errorf("the upstream's tokens are worth %s, the account is %+v", want, a)
	}
	g.CLI("verify")
	t.Logf("%d requests on kept connections, %d requests of the upstream in all", kept.Load(), sim.Stats().Requests)
}

// logged waits for words in the log.
func logged(g *rig.Gateway, words string) {
	g.T.Helper()
	for end := time.Now().Add(rig.CallLimit); !strings.Contains(g.Log(), words); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			g.T.Fatalf("after %s the log does not say %q:\n%s", rig.CallLimit, words, g.Tail())
		}
	}
}

// systemd opens the socket, keeps it through restarts and names its process in LISTEN_FDS
// and LISTEN_PID.
const asSystemd = `LISTEN_FDS=%s LISTEN_PID=$$ LISTEN_FDNAMES=farebox.socket exec "$@"`

func TestSocketOfSystemdWaitsThroughARestart(t *testing.T) {
	t.Parallel()
	sim := rig.StartUpstream(t, upstream.Options{})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	g := rig.NewGateway(t, fmt.Sprintf(rig.PrepaidConfig, sim.URL))
	if g.Pass, err = ln.(*net.TCPListener).File(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = g.Pass.Close() }()
	g.Wrap = []string{"/bin/sh", "-c", fmt.Sprintf(asSystemd, "1"), "sh"}
	// On its own it could not listen there: the address is taken.
	g.Addr = ln.Addr().String()
	g.Origin = "http://" + g.Addr
	g.URL = g.Origin + "/api/v1"
	g.Start()
	t.Cleanup(g.Cleanup)
	g.NewAccount("a", "1")
	key, body := g.Key("a"), rig.Ask("sim-chat", "[[sim tokens=3]] Go", "")
	if status, _, answer := g.Post("/chat/completions", key, body); status != 200 {
		t.Fatalf("%d %s", status, answer)
	}
	if err := g.Stop(); err != nil {
		t.Fatal(err)
	}

	// Clients that arrive while there is no process wait in the queue of the socket.
	came := make(chan error, 1)
	conn, err := net.Dial("tcp", g.Addr)
	if err != nil {
		t.Fatalf("between two processes connections are refused: %v", err)
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(rig.StartLimit))
	go func() {
		_, _ = fmt.Fprintf(conn,
			"POST /api/v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Type: "+
				"application/json\r\nContent-Length: %d\r\n\r\n%s", key, len(body), body)
		line, err := bufio.NewReader(conn).ReadString('\n')
		if err == nil && !strings.HasPrefix(line, "HTTP/1.1 200 ") {
			err = errors.New(line)
		}
		came <- err
	}()
	g.Start()
	if err := <-came; err != nil {
		t.Errorf("a client between two processes is answered: %v", err)
	}
	if a := g.Settled()["a"]; a.Spent == 0 || a.Held != 0 {
		t.Errorf("the account is %+v", a)
	}
}

// A socket that systemd passes on to another process, or more sockets than farebox
// listens on, are not taken for its own.
func TestSocketsThatAreNotForUsAreNotTaken(t *testing.T) {
	t.Parallel()
	sim := rig.StartUpstream(t, upstream.Options{})
	g := rig.NewGateway(t, fmt.Sprintf(rig.PrepaidConfig, sim.URL))
	g.Wrap = []string{"/bin/sh", "-c", strings.Replace(fmt.Sprintf(asSystemd, "1"), "$$", "1", 1), "sh"}
	g.ListenAndStart() // on a socket of its own: there is no descriptor 3

	two := rig.NewGateway(t, fmt.Sprintf(rig.PrepaidConfig, sim.URL))
	two.Wrap = []string{"/bin/sh", "-c", fmt.Sprintf(asSystemd, "2"), "sh"}
	two.Addr = rig.FreeAddr(t)
	if err := two.TryStart(); err == nil || !strings.Contains(two.Log(),
		"2 sockets were passed on; expected one ListenStream=") {
		t.Errorf("with two sockets: %v\n%s", err, two.Log())
	}
}

// A successor that cannot start must not end the service.
func TestHandOverToABadConfigChangesNothing(t *testing.T) {
	t.Parallel()
	sim := rig.StartUpstream(t, upstream.Options{})
	g := rig.StartGateway(t, fmt.Sprintf(rig.PrepaidConfig, sim.URL))
	g.WriteConfig("nonsense: 1\n")
	g.Signal(syscall.SIGUSR2)
	logged(g, "going on as before")
	if res, err := http.Get(g.Origin + "/readyz"); err != nil || res.StatusCode != 200 || !g.Running() {
		t.Errorf("after a failed hand-over: %v %v", res, err)
	}
}

// The listener closed at SIGTERM, before any load balancer saw /readyz turn, and
// kept connections under their next request.
func TestReadinessTurnsBeforeTheListenerCloses(t *testing.T) {
	t.Parallel()
	sim := rig.StartUpstream(t, upstream.Options{})
	g := rig.StartGateway(t, fmt.Sprintf(rig.PrepaidConfig, sim.URL)+"server: { drain_delay: 10s }\n")
	g.NewAccount("a", "1")
	key := g.Key("a")
	ready := func() int {
		res, err := rig.Client.Get(g.Origin + "/readyz")
		if err != nil {
			t.Fatalf("/readyz while draining: %v", err)
		}
		_ = res.Body.Close()
		return res.StatusCode
	}
	g.Signal(syscall.SIGTERM)
	for ready() == 200 {
		time.Sleep(10 * time.Millisecond)
	}
	if status := ready(); status != 503 {
		t.Fatalf("/readyz while draining: %d", status)
	}
	res := g.Open("POST", "/chat/completions", key, rig.Ask("sim-chat", "[[sim tokens=3]] Go", ""))
	answer, _ := io.ReadAll(res.Body)
	_ = res.Body.Close()
	if res.StatusCode != 200 {
		t.Errorf("work is refused before the listener closes: %d %s", res.StatusCode, answer)
	}
	if !res.Close {
		t.Error("an answer before the end does not say that its connection ends")
	}
	<-g.Done
	if g.Exit != nil {
		t.Errorf("it ended with %v", g.Exit)
	}
}
