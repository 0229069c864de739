package operations

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
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

// The limits of the data plane, in counts that a busy machine does not change much. They are a
// little above the measured values; tighten them with each gain. Allocations are gated by the
// allocation_test.go of each package, the size of the binary by size_test.go.
const (
	mostCallsOfRequest = 8.0      // system calls of a chat of 1 KB, one after the other on one connection
	mostCallsOfEvent   = 3.2      // system calls of an event that comes by itself
	mostIdleKB         = 22 << 10 // its own memory after a hundred requests and the idle collection
	mostStreamKB       = 39       // of each open stream beyond the first hundred
)

func countedGateway(t *testing.T) (*rig.Gateway, string) {
	t.Helper()
	sim := rig.StartUpstream(t, upstream.Options{})
	g := rig.StartGateway(t, fmt.Sprintf(rig.LoneConfig, sim.URL, ""))
	g.NewAccount("a", "1000")
	return g, g.Key("a")
}

// systemCalls counts those of the gateway on connections and files while f runs. How often Go's
// scheduler waits and wakes depends on the machine's load.
func systemCalls(t *testing.T, g *rig.Gateway, f func()) (count int) {
	t.Helper()
	strace := servers.Tool(t, "strace")
	out := filepath.Join(t.TempDir(), "calls")
	cmd := exec.Command(strace, "-f", "-q", "-c", "-o", out,
		"-e", "trace=read,write,readv,writev,recvfrom,sendto,recvmsg,sendmsg,ppoll,poll,epoll_ctl,openat,close,fcntl,setsockopt", "-p", strconv.Itoa(g.PID()))
	var words bytes.Buffer
	cmd.Stderr = &words
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	rig.Await(t, "strace sees every thread", func() bool { return traced(t, g.PID()) })
	f()
	_ = cmd.Process.Signal(syscall.SIGINT)
	_ = cmd.Wait()
	text, err := os.ReadFile(out)
	if err != nil {
		t.Fatalf("%v: %s", err, &words)
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) >= 4 && f[len(f)-1] == "total" {
			if count, err = strconv.Atoi(f[3]); err != nil {
				t.Fatal(err)
			}
		}
	}
	if count == 0 {
		t.Fatalf("strace counted nothing: %s%s", text, &words)
	}
	if testing.Verbose() {
		t.Logf("\n%s", text)
	}
	return count
}

func traced(t *testing.T, pid int) bool {
	t.Helper()
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	if err != nil || len(threads) == 0 {
		t.Fatalf("no threads of %d: %v", pid, err)
	}
	for _, path := range threads {
		if text, err := os.ReadFile(path); err == nil && bytes.Contains(text, []byte("TracerPid:\t0\n")) {
			return false
		}
	}
	return true
}

// "The data plane got dearer while features moved in, and nobody saw it."
func TestRequestsAndEventsCostFewSystemCalls(t *testing.T) {
	g, key := countedGateway(t)
	body := rig.Ask("m", "[[sim tokens=16]] "+strings.Repeat("x", 800), "")
	ask := func(n int) {
		for range n {
			if status, _, answer := g.Post("/chat/completions", key, body); status != 200 {
				t.Fatalf("%d %s", status, answer)
			}
		}
	}
	ask(50)
	// The difference of two counts leaves out other work.
	of := func(f func(n int), few, many int) float64 {
		least := systemCalls(t, g, func() { f(few) })
		return float64(systemCalls(t, g, func() { f(many) })-least) / float64(many-few)
	}
	if n := of(ask, 50, 450); n > mostCallsOfRequest {
		t.Errorf("a request makes %.1f system calls, at most %.0f are meant", n, mostCallsOfRequest)
	} else {
		t.Logf("a request makes %.1f system calls", n)
	}
	listen := func(n int) {
		status, _, answer := g.Post("/chat/completions", key,
			rig.Ask("m", fmt.Sprintf("[[sim tokens=%d gap_ms=5]] Hello", n), `,"stream":true`))
		if status != 200 || bytes.Count(answer, []byte("data: ")) < n {
			t.Fatalf("%d, %d bytes", status, len(answer))
		}
	}
	if n := of(listen, 20, 320); n > mostCallsOfEvent {
		t.Errorf("an event makes %.1f system calls, at most %.0f are meant", n, mostCallsOfEvent)
	} else {
		t.Logf("an event makes %.1f system calls", n)
	}
}

// openStreams opens streams that stay open until the test ends.
func openStreams(t *testing.T, g *rig.Gateway, key string, n int) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{}}
	var failed atomic.Int64
	var opening sync.WaitGroup
	for range n {
		opening.Go(func() {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, g.URL+"/chat/completions",
				strings.NewReader(rig.Ask("m", "[[sim tokens=600 gap_ms=500]] Hello", `,"stream":true`)))
			if err != nil {
				failed.Add(1)
				return
			}
			r.Header.Set("Authorization", "Bearer "+key)
			r.Header.Set("Content-Type", "application/json")
			res, err := client.Do(r)
			if err != nil || res.StatusCode != 200 {
				failed.Add(1)
				return
			}
			t.Cleanup(func() { _ = res.Body.Close() })
		})
	}
	if opening.Wait(); failed.Load() > 0 {
		t.Fatalf("%d of %d streams were not opened", failed.Load(), n)
	}
}

func TestIdleAndOpenStreamsTakeLittleMemory(t *testing.T) {
	g, key := countedGateway(t)
	pid := g.PID()
	for range 100 {
		if status, _, answer := g.Post("/chat/completions", key, rig.Ask("m", "Hello", "")); status != 200 {
			t.Fatalf("%d %s", status, answer)
		}
	}
	idle := rig.ResidentKB(t, pid, "RssAnon")
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end) && idle > mostIdleKB; time.Sleep(500 * time.Millisecond) {
		idle = min(idle, rig.ResidentKB(t, pid, "RssAnon"))
	}
	if t.Logf("idle: %d KB", idle); idle > mostIdleKB {
		t.Errorf("an idle gateway has %d KB, at most %d KB are meant", idle, mostIdleKB)
	}
	// The difference of two counts leaves out the one-time cost of the first streams.
	const few, many = 100, 600
	openStreams(t, g, key, few)
	begin := 1 << 30
	for range 10 {
		time.Sleep(time.Second)
		begin = min(begin, rig.ResidentKB(t, pid, "RssAnon"))
	}
	openStreams(t, g, key, many-few)
	// Memory of opening them on a busy machine is given back little by little.
	each := 1 << 30
	for end := time.Now().Add(40 * time.Second); time.Now().Before(end) && each > mostStreamKB; {
		time.Sleep(500 * time.Millisecond)
		each = min(each, (rig.ResidentKB(t, pid, "RssAnon")-begin)/(many-few))
	}
	if t.Logf("a stream: %d KB", each); each > mostStreamKB {
		t.Errorf("an open stream has %d KB, at most %d KB are meant", each, mostStreamKB)
	}
	g.Kill() // it would wait for the streams
}
