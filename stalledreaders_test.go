package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"farebox/bench/upstream"
)

const stalledConfig = `
log: { level: warn, format: json }
server: { client_stall: 1s }
limits: { failed_requests: { count: 0 } }
upstreams:
  - { name: only, base_url: %s, breaker: { failures: 0 } }
models:
  - id: sim-chat
    tier: unlimited
    context_tokens: 10000000
    max_completion_tokens: 5000000
    price: free
    targets: [{ upstream: only }]
`

// sendQueues are the bytes that the kernel keeps for the clients of a gateway.
func (g *gateway) sendQueues() (queues []int64) {
	g.t.Helper()
	text, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		g.t.Skip("no /proc/net/tcp here")
	}
	_, port, _ := net.SplitHostPort(g.addr)
	n, _ := strconv.Atoi(port)
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) < 5 || !strings.HasSuffix(f[1], fmt.Sprintf(":%04X", n)) || f[3] != "01" {
			continue
		}
		queued, _, _ := strings.Cut(f[4], ":")
		k, err := strconv.ParseInt(queued, 16, 64)
		if err != nil {
			g.t.Fatal(err)
		}
		queues = append(queues, k)
	}
	return queues
}

// Clients that stop reading cost the kernel little, and the service nothing after
// client_stall: 2,000 of them once took a gigabyte and stayed.
func TestReadersThatStoppedAreEnded(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, script, more string }{
		{"a fast stream", "tokens=3000000", `,"stream":true`},
		{"a slow stream", "tokens=3000000 gap_ms=2", `,"stream":true`},
		{"a whole answer", "tokens=1000000", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			sim := startUpstream(t, upstream.Options{})
			g := startGateway(t, fmt.Sprintf(stalledConfig, sim.URL))
			g.NewAccount("a", "1")
			body := ask("sim-chat", "[["+"sim "+c.script+"]] Go", c.more+`,"max_completion_tokens":4000000`)
			head := uploadHead(g.Key("a"), len(body))
			const readers = 20
			for range readers {
				conn := g.dial()
				_ = conn.(*net.TCPConn).SetReadBuffer(4 << 10)
				_, _ = io.WriteString(conn, head+body)
			}
			g.metricIs("http_server_active_requests", func(n float64) bool { return n >= readers/2 })
			began, most := time.Now(), int64(0)
			for len(g.sendQueues()) > readers/4 {
				for _, n := range g.sendQueues() {
					most = max(most, n)
				}
				if time.Since(began) > 20*time.Second {
					t.Fatalf("after %s the kernel keeps up to %d, now %v bytes for readers that stopped", time.Since(began), most, g.sendQueues())
				}
				time.Sleep(50 * time.Millisecond)
			}
			if most > 256<<10 {
				t.Errorf("%d bytes were kept for one reader", most)
			}
			g.metricIs("http_server_active_requests", func(n float64) bool { return n <= 1 })
		})
	}
}
