package security

import (
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"farebox/bench/load"
	"farebox/bench/upstream"
	"farebox/tests/rig"
)

const stalledConfig = `
log: { level: warn, format: json }
server: { client_stall: %s }
billing: { drain: { time: 5s } }
limits: { failed_requests: { count: 0 } }
upstreams:
  - { name: only, base_url: %s, max_connections: 4096, breaker: { failures: 0 } }
models:
  - id: sim-chat
    tier: unlimited
    context_tokens: 10000000
    max_completion_tokens: 5000000
    price: free
    targets: [{ upstream: only }]
`

// sendQueues are the bytes that the kernel keeps for the clients of a gateway.
func sendQueues(g *rig.Gateway) (queues []int64) {
	g.T.Helper()
	text, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		g.T.Skip("no /proc/net/tcp here")
	}
	_, port, _ := net.SplitHostPort(g.Addr)
	n, _ := strconv.Atoi(port)
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) < 5 || !strings.HasSuffix(f[1], fmt.Sprintf(":%04X", n)) || f[3] != "01" {
			continue
		}
		queued, _, _ := strings.Cut(f[4], ":")
		k, err := strconv.ParseInt(queued, 16, 64)
		if err != nil {
			g.T.Fatal(err)
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
			stopReading(t, 20, "1s", time.Minute, c.script, c.more)
		})
	}
}

// As many as it was seen with, all of them at once.
func TestLongTwoThousandReadersThatStoppedAreEnded(t *testing.T) {
	stopReading(t, 2000, "10s", 90*time.Second, "tokens=3000000", `,"stream":true`)
}

// stopReading lets readers ask for an answer that they do not read, and waits
// at most limit until the gateway, whose client_stall is stall, has got rid of
// most of them.
func stopReading(t *testing.T, readers int, stall string, limit time.Duration, script, more string) {
	sim := rig.StartUpstream(t, upstream.Options{})
	g := rig.StartGateway(t, fmt.Sprintf(stalledConfig, stall, sim.URL))
	g.NewAccount("a", "1")
	body := rig.Ask("sim-chat", "[["+"sim "+script+"]] Go", more+`,"max_completion_tokens":4000000`)
	head := uploadHead(g.Key("a"), len(body))
	quiet := load.RSS(g.PID())
	began := time.Now()
	conns := make([]net.Conn, readers)
	for i := range conns {
		conns[i] = dial(g)
		_ = conns[i].(*net.TCPConn).SetReadBuffer(4 << 10)
	}
	for _, conn := range conns {
		_, _ = io.WriteString(conn, head+body)
	}
	asked := time.Since(began)
	g.MetricIs("http_server_active_requests", func(n float64) bool { return n >= float64(readers/2) })
	began = time.Now()
	var most, together, peak int64
	for queues := sendQueues(g); len(queues) > readers/4; queues = sendQueues(g) {
		sum := int64(0)
		for _, n := range queues {
			most = max(most, n)
			sum += n
		}
		together, peak = max(together, sum), max(peak, load.RSS(g.PID()))
		if time.Since(began) > limit {
			t.Fatalf("after %s the kernel keeps up to %d, now %d bytes for %d readers that stopped", time.Since(began),
				most, sum, len(queues))
		}
		time.Sleep(50 * time.Millisecond)
	}
	if most > 256<<10 {
		t.Errorf("%d bytes were kept for one reader", most)
	}
	g.MetricIs("http_server_active_requests", func(n float64) bool { return n <= 1 })
	t.Logf("%d readers came in %s and were gone %s later: at most %d KB in the kernel for one, %d KB for all; memory "+
		"%d KB before, %d KB at its highest",
		readers, asked.Round(time.Millisecond), time.Since(began).Round(time.Millisecond), most>>10, together>>10,
		quiet>>10, peak>>10)
}
