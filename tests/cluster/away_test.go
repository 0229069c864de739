package cluster

import (
	"strings"
	"testing"
	"time"

	"farebox/bench/servers"
	"farebox/bench/upstream"
	"farebox/tests/rig"
)

// Promise P4: PostgreSQL that is cut off, killed or restarted under load costs
// at most 503s; nothing is lost and nothing charged twice.
func TestStoreThatIsAwayLosesAndDoublesNothing(t *testing.T) {
	t.Parallel()
	pg := servers.StartPostgres(t)
	cut := servers.StartCut(t, pg.Addr)
	c := &rig.Cluster{T: t, Redis: servers.StartRedis(t).Addr, Sim: rig.StartUpstream(t, upstream.Options{})}
	c.Postgres = strings.Replace(pg.Database(t), pg.Addr, cut.Addr, 1)
	c.StartNode("n1")
	c.StartNode("n2")
	first := c.Nodes[0]
	first.NewAccount("a", "1000")
	key := first.Key("a")
	l := load(c, key, rig.Ask("sim-chat", "[[sim tokens=8]] Hello", ""), 4)
	time.Sleep(time.Second)
	for range 10 {
		cut.Cut()
		time.Sleep(100 * time.Millisecond)
	}
	time.Sleep(time.Second)
	cut.Refuse(true)
	cut.Cut()
	time.Sleep(100 * time.Millisecond)
	if !l.goesOn() {
		t.Error("with the store away the nodes answered nothing from their leases")
	}
	for _, g := range c.Nodes {
		g.MetricIs("farebox_store_up", func(v float64) bool { return v == 0 })
		// Heartbeats are 5 s apart.
		g.MetricIs("farebox_node_session_age_seconds", func(v float64) bool { return v > 5.5 })
	}
	cut.Refuse(false)
	for _, g := range c.Nodes {
		g.MetricIs("farebox_store_up", func(v float64) bool { return v == 1 })
		g.MetricIs("farebox_node_session_age_seconds", func(v float64) bool { return v < 5.5 })
	}
	if a := first.Accounts()["a"]; a.Leased.USD <= 0 || a.USD+a.Leased.USD+a.Spent != 1_000_000_000_000 {
		t.Errorf("while nodes spend it, the account is listed as %+v", a)
	}
	pg.Kill()
	time.Sleep(500 * time.Millisecond)
	pg.Start(t)
	time.Sleep(time.Second)
	pg.Restart(t)
	time.Sleep(2 * time.Second)
	if !l.goesOn() {
		t.Error("the nodes do not answer again after the store came back")
	}
	l.end()
	if l.wrong.Load() > 0 {
		t.Errorf("%d answers were wrong, such as %v", l.wrong.Load(), l.example.Load())
	}
	settle(c, 1_000_000_000_000)
	t.Logf("%d answers, %d refused with 503, %d cuts", l.whole.Load(), l.away.Load(), cut.Cuts())
}

// Redis that is flushed, frozen, killed or restarted under load costs no
// request anything but its share of the limit.
func TestRedisThatIsAwayStopsNothing(t *testing.T) {
	t.Parallel()
	redis := servers.StartRedis(t)
	c := &rig.Cluster{T: t, Postgres: servers.Database(t), Redis: redis.Addr,
		Sim: rig.StartUpstream(t, upstream.Options{})}
	c.StartNode("n1")
	c.StartNode("n2")
	first := c.Nodes[0]
	first.NewAccount("a", "1000")
	key := first.Key("a")
	l := load(c, key, rig.Ask("sim-many", "[[sim tokens=8]] Hello", ""), 4)
	time.Sleep(time.Second)
	redis.Flush()
	time.Sleep(500 * time.Millisecond)
	redis.Freeze()
	time.Sleep(2 * time.Second)
	redis.Thaw()
	time.Sleep(time.Second)
	redis.Kill()
	time.Sleep(2 * time.Second)
	if !l.goesOn() {
		t.Error("without Redis nothing is answered")
	}
	redis.Start()
	time.Sleep(2 * time.Second)
	l.end()
	if l.wrong.Load() > 0 {
		t.Errorf("%d answers were wrong, such as %v", l.wrong.Load(), l.example.Load())
	}
	settle(c, 1_000_000_000_000)
	t.Logf("%d answers, %d refused with 429 or 503", l.whole.Load(), l.away.Load())
}
