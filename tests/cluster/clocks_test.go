package cluster

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"farebox/bench/servers"
	"farebox/bench/upstream"
	"farebox/tests/rig"
)

// shiftedBinary is a farebox whose clock is $FAREBOX_CLOCK_OFFSET ahead.
func shiftedBinary(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	overlay, err := exec.Command("./.ci/clocks", "overlay", dir).Output()
	if err != nil {
		t.Fatalf("cannot make the overlay that shifts the clock: %v", err)
	}
	bin := filepath.Join(dir, "farebox")
	out, err := exec.Command("go", "build", "-tags", "nodynamic", "-overlay", strings.TrimSpace(string(overlay)), "-o",
		bin, ".").CombinedOutput()
	if err != nil {
		t.Fatalf("cannot build farebox with a shifted clock: %v\n%s", err, out)
	}
	return bin
}

// Three processes whose clocks are up to four minutes apart spend one account's
// last dollar once and keep a limit of 30 requests a minute; a fourth whose
// clock is an hour off does not start, and says why.
func TestLongNodesWithClocksApartCostNoLimitAndNoMoney(t *testing.T) {
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
