package rpc

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"farebox/bench/upstream/node"
	"farebox/tests/rig"
)

// Large answers to batches are held beside the store: images without a folder for
// temporary files serve them, too. An answer that cannot be held is in the log.
func TestLargeBatchesNeedNoFolderForTemporaryFiles(t *testing.T) {
	t.Parallel()
	n, url := startSimulated(t, node.Options{})
	n.Fault(node.Faults{Large: 1 << 20})
	g := rig.NewGateway(t, fmt.Sprintf(
		"log: { level: info, format: json, sample_above: 0 }\nrpc:\n  rate: { rpm: 0 }\n  batch_memory: 64KB\n"+
			"  networks: [{ name: ethereum-sepolia, upstreams: [{ name: node, url: %q }] }]\n", url))
	g.Wrap = []string{"env", "TMPDIR=" + filepath.Join(g.Dir, "missing")}
	held := filepath.Join(g.Store, "rpc-answers")
	if err := os.MkdirAll(held, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(held, "answer-of-a-process-that-was-killed"), []byte("secret"), 0o600); err !=
		nil {
		t.Fatal(err)
	}
	g.ListenAndStart()
	c := &chain{t: t, Gateway: g}
	c.NewAccount("rich", chainCredit.String())
	c.key = c.Key("rich")
	const batch = `[{"jsonrpc":"2.0","id":1,"method":"eth_getLogs"},{"jsonrpc":"2.0","id":2,"method":"eth_getLogs"}]`
	if left, err := os.ReadDir(held); err != nil || len(left) != 0 {
		t.Errorf("%d files are left of before, %v", len(left), err)
	}
	large := func() {
		t.Helper()
		status, header, answer := c.rpc(batch)
		if status != 200 || len(answer) < 2<<20 {
			t.Errorf("%d %.300s", status, answer)
		}
		c.charged(header, 40)
	}
	large()
	// Cleaned away under the running process, it is made again.
	if err := os.RemoveAll(held); err != nil {
		t.Fatal(err)
	}
	large()
	// Nothing can be made where a file is in the way.
	if err := os.RemoveAll(held); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(held, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if status, _, answer := c.rpc(batch); status != 500 {
			t.Errorf("%d %.300s", status, answer)
		}
	}
	if lines := strings.Count(g.Log(), "could not be buffered"); lines != 1 || !strings.Contains(g.Log(), held) {
		t.Errorf("%d lines in the log report it", lines)
	}
	c.MetricIs("farebox_rpc_spool_failures_total", func(v float64) bool { return v == 3 })
	c.spent(80)
}

// "Another customer reads twelve answers drop by drop, and my batches are refused for half a minute."
func TestAnswersReadDropByDropLeaveSpaceToOthers(t *testing.T) {
	t.Parallel()
	n, url := startSimulated(t, node.Options{})
	n.Fault(node.Faults{Large: 900 << 10})
	g := rig.StartGateway(t, fmt.Sprintf(
		"log: { level: info, format: json, sample_above: 0 }\nrpc:\n  rate: { rpm: 0 }\n  batch_memory: 64KB\n"+
			"  batch_answer: 1MB\n  networks: [{ name: ethereum-sepolia, upstreams: [{ name: node, url: %q }] }]\n", url))
	g.NewAccount("greedy", chainCredit.String())
	g.NewAccount("honest", chainCredit.String())
	const batch = `[{"jsonrpc":"2.0","id":1,"method":"eth_getLogs"}]`
	greedy, honest := g.Key("greedy"), g.Key("honest")
	var readers sync.WaitGroup
	ended := make(chan struct{})
	dripping := 0
	for range 12 {
		conn, err := net.Dial("tcp", g.Addr)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		_ = conn.(*net.TCPConn).SetReadBuffer(4 << 10)
		_, _ = fmt.Fprintf(conn, "POST /api/v1/crypto/rpc/ethereum-sepolia HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n"+
			"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", greedy, len(batch), batch)
		// One after the other: of many that grow at once none may fit.
		drop := make([]byte, 256)
		if _, err := conn.Read(drop); err != nil || !strings.Contains(string(drop), " 200 ") {
			continue // it has its share already
		}
		dripping++
		readers.Go(func() {
			for err := error(nil); err == nil; {
				select {
				case <-ended:
					return
				case <-time.After(100 * time.Millisecond):
				}
				_, err = conn.Read(drop)
			}
		})
	}
	if dripping < 7 {
		t.Errorf("%d answers are read drop by drop, fewer than one customer may hold", dripping)
	}
	for i := range 10 {
		if status, _, answer := g.Post("/crypto/rpc/ethereum-sepolia", honest, batch); status != 200 || len(answer) < 900<<10 {
			t.Errorf("batch %d of the honest one is answered %d %.300s", i, status, answer)
		}
	}
	// Those that read drops are cut, long before they are done.
	g.MetricIs("farebox_rpc_spool_bytes", func(n float64) bool { return n == 0 })
	close(ended)
	readers.Wait()
}

// An upstream's Retry-After is bounded before it goes to the client.
func TestClientsAreNotSentAwayForADay(t *testing.T) {
	t.Parallel()
	bounded := func(header http.Header, answer string) {
		t.Helper()
		if after, err := strconv.Atoi(header.Get("Retry-After")); err != nil || after < 1 || after > 120 {
			t.Errorf("Retry-After %q: %s", header.Get("Retry-After"), answer)
		}
	}
	u := rig.StartRaw(t, rig.Sends(rig.HTTPAnswer(429, "application/json", "{}", "Retry-After: 99999999999\r\n")))
	c := startHostile(t, 3, "", u.URL)
	for _, body := range []string{chainID, "[" + chainID + "]", chainID} {
		_, header, answer := c.rpc(body)
		bounded(header, answer)
	}
	g := rig.StartGateway(t, fmt.Sprintf(rig.LoneConfig, u.URL, ""))
	g.NewAccount("a", "1")
	_, header, answer := g.Post("/chat/completions", g.Key("a"), rig.Ask("m", "hello", ""))
	bounded(header, string(answer))
}
