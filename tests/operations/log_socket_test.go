package operations

import (
	"bytes"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"farebox/tests/rig"
)

// collector reads logs from a socket.
type collector struct {
	mu    sync.Mutex
	text  bytes.Buffer
	conns []net.Conn
}

func (c *collector) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.text.Write(p)
}

func (c *collector) requests() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Count(c.text.String(), `"message":"request"`)
}

// listen serves the path until stop is called; a collector that hangs accepts and never reads.
func (c *collector) listen(t *testing.T, path string, hangs bool) (stop func()) {
	t.Helper()
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			c.mu.Lock()
			c.conns = append(c.conns, conn)
			c.mu.Unlock()
			if !hangs {
				go func() {
					p := make([]byte, 1<<16)
					for {
						n, err := conn.Read(p)
						if _, _ = c.Write(p[:n]); err != nil {
							return
						}
					}
				}()
			}
		}
	}()
	stop = sync.OnceFunc(func() {
		_ = l.Close()
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, conn := range c.conns {
			_ = conn.Close()
		}
		c.conns = nil
	})
	t.Cleanup(stop)
	return stop
}

// "The collector of our logs hung, and the gateway with it." Lines go to the socket while it takes
// them, and to standard error while it does not; no request waits for it.
func TestTheLogGoesToASocketWhileItTakesLines(t *testing.T) {
	t.Parallel()
	u := rig.StartRaw(t, rig.Sends(rig.HTTPAnswer(200, "application/json", rig.GoodAnswer)))
	path := filepath.Join(t.TempDir(), "log.sock")
	var c collector
	stop := c.listen(t, path, false)
	g := rig.StartGateway(t, fmt.Sprintf("log: { level: info, format: json, sample_above: 0, socket: %q }\nupstreams:\n  - { name: "+
		"only, base_url: %q }\nmodels:\n  - { id: m, tier: unlimited, context_tokens: 8192, price: { input: 1, output: 2 }, targets: "+
		"[{ upstream: only }] }\n", "unix://"+path, u.URL))
	g.NewAccount("a", "100")
	key := g.Key("a")
	ask := func() {
		t.Helper()
		if status, _, answer := g.Post("/chat/completions", key, rig.Ask("m", "Hello", "")); status != 200 {
			t.Fatalf("%d %s", status, answer)
		}
	}
	other := func() int { return strings.Count(g.Log(), `"message":"request"`) }
	ask()
	rig.Await(t, "the line is at the collector", func() bool { return c.requests() == 1 })
	if n := other(); n != 0 {
		t.Errorf("standard error has %d lines of requests, too", n)
	}

	stop()
	asked := 1
	rig.Await(t, "lines are on standard error", func() bool { ask(); asked++; return other() > 0 })

	stop = c.listen(t, path, true)
	before := other()
	rig.Await(t, "a collector that does not read is given up", func() bool {
		for range 100 {
			ask()
			asked++
		}
		return other() > before+100
	})

	stop()
	atCollector := c.requests()
	c.listen(t, path, false)
	rig.Await(t, "lines are at the collector again", func() bool { ask(); asked++; return c.requests() > atCollector })
}
