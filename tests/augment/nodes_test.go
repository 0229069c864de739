package augment

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"farebox/bench/servers"
	"farebox/tests/rig"
)

// Two nodes on one PostgreSQL and one Redis sell the three together: an account has one limit
// of calls and one balance, whichever node it asks, and every call is one line on the bill.
func TestNodesSellTogether(t *testing.T) {
	t.Parallel()
	const limit, load = 6, 16 // calls of an account in a minute, and its tries of each kind
	e := startEngines(t)
	p := serve(t, says(200, "text/html", article("")))
	redis, store := servers.StartRedis(t).Addr, servers.Database(t)
	var nodes []*shop
	for i := range 2 {
		dir := filepath.Join(t.TempDir(), "node")
		rates := strings.NewReplacer("rate: { rpm: 0 }", fmt.Sprintf("rate: { rpm: %d }", limit))
		g := rig.NewGateway(t, rates.Replace(e.all(fmt.Sprintf("redis: { addresses: [%q], timeout: 1s }\nnode: { name: n%d, dir: %q }\n",
			redis, i, dir))))
		g.Store = store
		rig.ShareJail(t, dir)
		g.ListenAndStart()
		nodes = append(nodes, &shop{Gateway: g})
	}
	first := nodes[0]
	first.NewAccount("warm", "1")
	first.NewAccount("a", "10")
	key, admin := first.Key("a"), first.Key("a", "--type", "ADMIN")
	for _, s := range nodes {
		s.key, s.admin = first.Key("warm"), admin
		rig.Await(t, "the children are ready", func() bool {
			status, _ := s.parse(t, "a", []byte("stork"))
			return status == 200 || status == 429
		})
		s.key = key
	}
	first.had = first.has()

	var mu sync.Mutex
	var wg sync.WaitGroup
	got := map[string]map[int]int{}
	for path, call := range offers(p) {
		got[path] = map[int]int{}
		for i := range load {
			wg.Go(func() {
				kind, body := call()
				status, header, answer := nodes[i%2].send(t.Context(), path, kind, body)
				if status != 200 && (status != 429 || header.Get("Retry-After") == "") {
					t.Errorf("%s: %d %v %.200s", path, status, header, answer)
				}
				mu.Lock()
				defer mu.Unlock()
				got[path][status]++
			})
		}
	}
	wg.Wait()
	for path, n := range got {
		// One more where the minute ended meanwhile; one less where a request that
		// arrived just before the first took the last permit.
		if n[200] < limit-1 || n[200] > limit+1 {
			t.Errorf("%s: %v, want %d answers of both nodes together", path, n, limit)
		}
	}
	sold := got[scraping][200] + got[searching][200] + got[parsing][200]
	for _, s := range nodes {
		s.idle()
	}
	rig.Await(t, "the store has the sales of both nodes", func() bool {
		return rig.Money(10_000_000_000)-first.has() == rig.Money(sold)*price
	})
	lines := map[string]int{}
	rig.Await(t, "the bill has all lines", func() bool {
		var usage struct{ Data []struct{ SKU string } }
		first.Must(200, "GET", "/billing/usage?limit=200", admin, "", &usage)
		clear(lines)
		for _, l := range usage.Data {
			lines[l.SKU]++
		}
		return len(usage.Data) == sold
	})
	if lines["augment-scrape-page"] != got[scraping][200] || lines["augment-parser-document"] != got[parsing][200] {
		t.Errorf("the bill has %v, answered were %v", lines, got)
	}
	for _, s := range nodes {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	}
	first.CLI("verify")
	if _, err := os.Stat(filepath.Join(first.Dir, "store")); err == nil {
		t.Error("a node on PostgreSQL made a store of its own")
	}
}
