package rpc

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"farebox/bench/upstream"
	"farebox/tests/rig"
)

// Large answers to batches are held beside the store: images without a folder
// for temporary files serve them, too. What cannot be held is in the log.
func TestLargeBatchesNeedNoFolderForTemporaryFiles(t *testing.T) {
	t.Parallel()
	n, url := startSimulated(t, upstream.NodeOptions{})
	n.Fault(upstream.NodeFaults{Large: 1 << 20})
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
	if lines := strings.Count(g.Log(), "could not be held"); lines != 1 || !strings.Contains(g.Log(), held) {
		t.Errorf("%d lines in the log tell of it", lines)
	}
	c.MetricIs("farebox_rpc_spool_failures_total", func(v float64) bool { return v == 3 })
	c.spent(80)
}

// What an upstream says of when to come back is not told on without bounds.
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
