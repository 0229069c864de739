//go:build unix

package main

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"farebox/bench/upstream"
)

var successorPID = regexp.MustCompile(`"pid":(\d+)`)

// A restart refused every connection until the successor had the ledger, for
// 18 seconds and more.
func TestHandOverRefusesNobodyAndCutsNoStream(t *testing.T) {
	t.Parallel()
	sim := startUpstream(t, upstream.Options{})
	g := startGateway(t, strings.ReplaceAll(fmt.Sprintf(prepaidConfig, sim.URL), "level: warn", "level: info"))
	g.NewAccount("a", "100")
	key := g.Key("a")
	stream := g.open("POST", "/chat/completions", key, ask("sim-chat", "[[sim tokens=20 gap_ms=50]] Go", `,"stream":true`))
	defer func() { _ = stream.Body.Close() }()
	if _, err := io.ReadFull(stream.Body, make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	fresh := &http.Client{Timeout: 60 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	var wg sync.WaitGroup
	for n := range 200 {
		if n == 50 {
			g.Signal(syscall.SIGUSR2)
		}
		wg.Go(func() {
			res, err := fresh.Get(g.Origin + "/readyz")
			if err != nil {
				t.Errorf("request %d: %v", n, err)
				return
			}
			_ = res.Body.Close()
			if res.StatusCode != 200 {
				t.Errorf("request %d: status %d", n, res.StatusCode)
			}
		})
		time.Sleep(10 * time.Millisecond)
	}
	rest, err := io.ReadAll(stream.Body)
	if err != nil || !strings.Contains(string(rest), "[DONE]") {
		t.Errorf("the stream was cut: %v", err)
	}
	wg.Wait()
	found := successorPID.FindStringSubmatch(g.Log())
	if found == nil {
		t.Fatalf("no successor is named in the log:\n%s", g.Log())
	}
	pid, _ := strconv.Atoi(found[1])
	defer func() {
		_ = syscall.Kill(pid, syscall.SIGTERM)
		<-g.done
	}()
	if status, _, answer := g.post("/chat/completions", key, ask("sim-chat", "[[sim tokens=3]] Go", "")); status != 200 {
		t.Errorf("the successor answers %d: %s", status, answer)
	}
	if log := g.Log(); !strings.Contains(log, "all charges are on disk") {
		t.Errorf("the old process has not ended:\n%s", log)
	}
	if a := g.accounts()["a"]; a.Spent == 0 || a.Held != 0 {
		t.Errorf("the account is %+v", a)
	}
}

// A successor that cannot start must not end the service.
func TestHandOverToABadConfigChangesNothing(t *testing.T) {
	t.Parallel()
	sim := startUpstream(t, upstream.Options{})
	g := startGateway(t, fmt.Sprintf(prepaidConfig, sim.URL))
	g.WriteConfig("nonsense: 1\n")
	g.Signal(syscall.SIGUSR2)
	for end := time.Now().Add(20 * time.Second); !strings.Contains(g.Log(), "going on as before") && time.Now().Before(end); {
		time.Sleep(20 * time.Millisecond)
	}
	if res, err := http.Get(g.Origin + "/readyz"); err != nil || res.StatusCode != 200 || !g.Running() {
		t.Errorf("after a failed hand-over: %v %v", res, err)
	}
}

// The listener closed at SIGTERM, before any load balancer saw /readyz turn.
func TestReadinessTurnsBeforeTheListenerCloses(t *testing.T) {
	t.Parallel()
	sim := startUpstream(t, upstream.Options{})
	g := startGateway(t, fmt.Sprintf(prepaidConfig, sim.URL)+"server: { drain_delay: 3s }\n")
	g.NewAccount("a", "1")
	key := g.Key("a")
	g.Signal(syscall.SIGTERM)
	time.Sleep(500 * time.Millisecond)
	res, err := http.Get(g.Origin + "/readyz")
	if err != nil || res.StatusCode != 503 {
		t.Fatalf("/readyz while draining: %v %v", res, err)
	}
	_ = res.Body.Close()
	if status, _, answer := g.post("/chat/completions", key, ask("sim-chat", "[[sim tokens=3]] Go", "")); status != 200 {
		t.Errorf("work is refused before the listener closes: %d %s", status, answer)
	}
	<-g.done
	if g.exit != nil {
		t.Errorf("it ended with %v", g.exit)
	}
}
