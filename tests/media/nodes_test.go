package media

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"farebox/bench/servers"
	"farebox/bench/upstream"
	"farebox/tests/rig"
)

// pair starts two nodes on one PostgreSQL and one directory.
func pair(t *testing.T) (a, b *place) {
	t.Helper()
	c := &rig.Cluster{T: t, Postgres: servers.Database(t), Redis: servers.StartRedis(t).Addr,
		Sim: rig.StartUpstream(t, upstream.Options{})}
	dir, nodes := t.TempDir(), make([]*place, 2)
	for i := range nodes {
		name := fmt.Sprintf("n%d", i+1)
		g := c.NewNode(name)
		g.WriteConfig(fmt.Sprintf(mediaConfig, c.Sim.URL, jobsConfig+fmt.Sprintf(
			"node: { name: %s, dir: %q }\nredis: { addresses: [%q], timeout: 1s }\nmedia: { dir: %q, links: true, free_bytes: 0 }", name,
			filepath.Join(g.Dir, "node"), c.Redis, filepath.Join(dir, "media"))))
		g.ListenAndStart()
		nodes[i] = &place{Gateway: g, sim: c.Sim}
	}
	nodes[0].NewAccount("a", "100")
	nodes[0].key = nodes[0].Key("a")
	nodes[1].key = nodes[0].key
	return nodes[0], nodes[1]
}

// "Behind the balancer the link for one download was good for one on each node."
func TestOneDownloadOfTwoNodes(t *testing.T) {
	t.Parallel()
	a, b := pair(t)
	at := func(p *place, link string) string { return p.Origin + strings.TrimPrefix(link, a.Origin) }
	t.Run("in parts from both", func(t *testing.T) {
		t.Parallel()
		_, link := a.film(t, a.key)
		_, first := get(t, "GET", at(a, link), "Range", "bytes=0-999")
		res, rest := get(t, "GET", at(b, link), "Range", "bytes=1000-")
		if want := fmt.Sprintf("/%d", len(first)+len(rest)); res.StatusCode != 206 || len(first) != 1000 ||
			!strings.HasSuffix(res.Header.Get("Content-Range"), want) || string(first[4:8]) != "ftyp" {
			t.Fatalf("%d %s, %d and %d bytes", res.StatusCode, res.Header.Get("Content-Range"), len(first), len(rest))
		}
		for _, p := range []*place{a, b} {
			rig.Await(t, "it is used up on both", func() bool {
				res, _ := get(t, "GET", at(p, link), "Range", "bytes=0-0")
				return res.StatusCode == 410
			})
		}
	})
	t.Run("whole from both at the same time", func(t *testing.T) {
		t.Parallel()
		_, link := a.film(t, a.key)
		var all sync.WaitGroup
		var mu sync.Mutex
		whole := 0
		for i := range 12 {
			all.Go(func() {
				res, body := get(t, "GET", at([]*place{a, b}[i%2], link))
				mu.Lock()
				defer mu.Unlock()
				switch {
				case res.StatusCode == 200 && int64(len(body)) == res.ContentLength && bytes.Contains(body[:8], []byte("ftyp")):
					whole++
				case res.StatusCode != 410 && res.StatusCode != 429:
					t.Errorf("%d, %d bytes of %d", res.StatusCode, len(body), res.ContentLength)
				}
			})
		}
		if all.Wait(); whole != 1 {
			t.Errorf("it was had %d times", whole)
		}
	})
	t.Run("a link of one node is good and revoked on the other", func(t *testing.T) {
		t.Parallel()
		_, link := a.track(t, a.key)
		if res, body := get(t, "GET", at(b, link)); res.StatusCode != 200 || len(body) < 1000 {
			t.Errorf("on the other node: %d, %d bytes", res.StatusCode, len(body))
		}
		if res, _ := get(t, "DELETE", at(b, link)); res.StatusCode != 204 {
			t.Errorf("DELETE: %d", res.StatusCode)
		}
		if res, _ := get(t, "GET", at(a, link)); res.StatusCode != 410 {
			t.Errorf("on its own node afterwards: %d", res.StatusCode)
		}
	})
}
