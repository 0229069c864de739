package cluster

import (
	"os"
	"strings"
	"testing"
	"time"

	"farebox/bench/servers"
	"farebox/bench/upstream"
	"farebox/tests/rig"
)

// shiftedBinary is a farebox whose clock is $FAREBOX_CLOCK_OFFSET ahead. All of it is compiled anew
// for that: `make race` uses the binary with the race detector.
func shiftedBinary(t *testing.T) string {
	t.Helper()
	path := os.Getenv("FAREBOX_SHIFTED")
	if path == "" {
		t.Skip("make race runs this test, with a farebox whose clock can be shifted")
	}
	return path
}

// Three processes whose clocks are up to four minutes apart spend one account's
// last dollar once and keep a limit of 30 requests a minute; a fourth whose
// clock is an hour off does not start, and says why.
func TestNodesWithClocksApartCostNoLimitAndNoMoney(t *testing.T) {
	bin := shiftedBinary(t)
	c := &rig.Cluster{T: t, Postgres: servers.Database(t), Redis: servers.StartRedis(t).Addr,
		Sim: rig.StartUpstream(t, upstream.Options{})}
	for name, offset := range map[string]string{"n1": "2m", "n2": "-2m", "n3": "5s"} {
		g := c.NewNode(name)
		g.Bin, g.Wrap = bin, []string{"env", "FAREBOX_CLOCK_OFFSET=" + offset}
		g.ListenAndStart()
		c.Nodes = append(c.Nodes, g)
	}
	limitHolds(c)
	spendTheLastDollar(c)
	c.Nodes[0].CLI("verify")

	wrong := c.NewNode("n4")
	wrong.Bin, wrong.Wrap = bin, []string{"env", "FAREBOX_CLOCK_OFFSET=1h"}
	wrong.Addr = rig.FreeAddr(t)
	wrong.Origin = "http://" + wrong.Addr
	began := time.Now()
	if err := wrong.TryStart(); err == nil {
		wrong.Kill()
		t.Fatal("a node whose clock is an hour ahead starts")
	}
	if !strings.Contains(wrong.Log()+wrong.Banner(), "the clock of this machine is 1h0m0s ahead of PostgreSQL's") ||
		time.Since(began) > 20*time.Second {
		t.Errorf("after %s: %s", time.Since(began), wrong.Log()+wrong.Banner())
	}
}
