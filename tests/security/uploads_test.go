package security

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"farebox/bench/upstream"
	"farebox/tests/rig"
)

const uploadsConfig = `
log: { level: warn, format: json }
server: { max_body: 1MB, max_in_flight: 16MB, read_timeout: 30s }
limits: { failed_requests: { count: 0 } }
upstreams:
  - { name: only, base_url: %s, breaker: { failures: 0 } }
models:
  - id: sim-chat
    tier: unlimited
    context_tokens: 10000000
    max_completion_tokens: 1000
    price: free
    targets: [{ upstream: only }]
`

// dial opens a plain connection to the gateway, closed at the test's end.
func dial(g *rig.Gateway) net.Conn {
	g.T.Helper()
	c, err := net.Dial("tcp", g.Addr)
	if err != nil {
		g.T.Fatal(err)
	}
	_ = c.SetDeadline(time.Now().Add(rig.CallLimit))
	g.T.Cleanup(func() { _ = c.Close() })
	return c
}

// uploadHead announces a chat request with a body of so many bytes.
func uploadHead(key string, length int) string {
	head := "POST /api/v1/chat/completions HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nContent-Length: " +
		strconv.Itoa(length) + "\r\n"
	if key != "" {
		head += "Authorization: Bearer " + key + "\r\n"
	}
	return head + "\r\n"
}

// largeAsk is a chat request of about n bytes.
func largeAsk(n int) string {
	return `{"model":"sim-chat","max_completion_tokens":10,"messages":[{"role":"user","content":"[[sim tokens=5]] ` +
		strings.Repeat("word ", n/5) + `"}]}`
}

// Announcing bodies costs those who announce them, not others: a dozen sockets
// without a key could once shut every body of 16 KB out for half a minute.
func TestAnnouncedBodiesKeepNobodyOut(t *testing.T) {
	t.Parallel()
	sim := rig.StartUpstream(t, upstream.Options{})
	g := rig.StartGateway(t, fmt.Sprintf(uploadsConfig, sim.URL))
	g.NewAccount("a", "1")
	g.NewAccount("b", "1")
	mine, other := g.Key("a"), g.Key("b")
	serve := func(when string) {
		t.Helper()
		began := time.Now()
		status, _, answer := g.Post("/chat/completions", other, largeAsk(500<<10))
		if status != 200 || time.Since(began) > 15*time.Second {
			t.Errorf("%s: a body of 500 KB was answered %d after %s: %.200s", when, status, time.Since(began), answer)
		}
	}
	serve("at first")
	before := rig.ResidentKB(t, g.PID(), "VmRSS")

	for name, key := range map[string]string{"without a key": "", "with an unknown key": "SVC_INFERENCE_KEY_unknown"} {
		for range 100 {
			c := dial(g)
			_, _ = io.WriteString(c, uploadHead(key, 1<<20)+strings.Repeat(" ", 9<<10))
			// It is refused at its head, with an answer.
			if line, err := bufio.NewReader(c).ReadString('\n'); err != nil ||
				!strings.HasPrefix(line, "HTTP/1.1 401") {
				t.Fatalf("%s: %q %v", name, line, err)
			}
		}
	}
	serve("beside 200 that were refused")

	for range 100 {
		c := dial(g)
		_, _ = io.WriteString(c, uploadHead(mine, 1<<20)+strings.Repeat(" ", 10<<10))
		c = dial(g)
		_, _ = io.WriteString(c, uploadHead("", 1<<20)) // nothing of the body: not even refused yet
	}
	time.Sleep(200 * time.Millisecond)
	serve("beside 200 that stand still")
	if after := rig.ResidentKB(t, g.PID(), "VmRSS"); after > before+80<<10 {
		t.Errorf("%d KB resident before, %d KB with 200 MB announced", before, after)
	}
}

// A body that trickles in is cut off long before read_timeout, and its sender gets an error.
func TestSendersThatTrickleAreCut(t *testing.T) {
	t.Parallel()
	sim := rig.StartUpstream(t, upstream.Options{})
	g := rig.StartGateway(t, fmt.Sprintf(uploadsConfig, sim.URL))
	g.NewAccount("a", "1")
	c := dial(g)
	began := time.Now()
	_, _ = io.WriteString(c, uploadHead(g.Key("a"), 1<<20)+strings.Repeat(" ", 10<<10))
	go func() {
		for {
			if _, err := io.WriteString(c, " "); err != nil {
				return
			}
			time.Sleep(100 * time.Millisecond)
		}
	}()
	line, err := bufio.NewReader(c).ReadString('\n')
	if took := time.Since(began); err != nil || !strings.HasPrefix(line, "HTTP/1.1 408") || took > 25*time.Second ||
		took < 4*time.Second {
		t.Errorf("after %s: %q %v", took, line, err)
	}
}

// One account has its part of all room for bodies, and no more.
func TestOneAccountCannotTakeAllRoom(t *testing.T) {
	t.Parallel()
	sim := rig.StartUpstream(t, upstream.Options{})
	g := rig.StartGateway(t, fmt.Sprintf(uploadsConfig, sim.URL))
	g.NewAccount("a", "1")
	g.NewAccount("b", "1")
	mine, other := g.Key("a"), g.Key("b")
	slow := strings.Replace(largeAsk(900<<10), "tokens=5", "tokens=5 delay_ms=4000", 1)
	var wg sync.WaitGroup
	var mu sync.Mutex
	counts := map[int]int{}
	for range 24 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			status, header, answer := g.Post("/chat/completions", mine, slow)
			mu.Lock()
			defer mu.Unlock()
			if counts[status]++; status == http.StatusTooManyRequests &&
				(header.Get("Retry-After") == "" || !strings.Contains(string(answer), "RATE_LIMIT_EXCEEDED")) {
				t.Errorf("a 429 of %v %s", header, answer)
			}
		}()
	}
	rig.Await(t, "four of them are with the upstream", func() bool { return sim.Stats().Open >= 4 })
	if status, _, answer := g.Post("/chat/completions", other, largeAsk(900<<10)); status != 200 {
		t.Errorf("another account meanwhile: %d %s", status, answer)
	}
	wg.Wait()
	// Seven eighths of 16 MB for one account: fifteen bodies of 900 KB or so.
	if counts[200] < 12 || counts[200] > 18 || counts[200]+counts[429] != 24 {
		t.Errorf("of 24 large bodies at once: %v", counts)
	}
	if status, _, answer := g.Post("/chat/completions", mine, largeAsk(900<<10)); status != 200 {
		t.Errorf("the room is not back: %d %s", status, answer)
	}
}

// Routes without a key take small bodies only.
func TestRoutesWithoutAKeyTakeSmallBodies(t *testing.T) {
	t.Parallel()
	sim := rig.StartUpstream(t, upstream.Options{})
	g := rig.StartGateway(t, fmt.Sprintf(uploadsConfig, sim.URL))
	status, _, answer := g.Post("/api_keys/generate_web3_key", "", `{"x":"`+strings.Repeat("x", 100<<10)+`"}`)
	if status != http.StatusRequestEntityTooLarge || !strings.Contains(string(answer), "16KB") {
		t.Errorf("%d %s", status, answer)
	}
}
