package operator

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"

	"farebox/bench/load"
	"farebox/bench/servers"
	"farebox/bench/upstream"
	"farebox/billing"
	"farebox/billing/store"
	"farebox/tests/rig"
)

// prunedKeep is how many days are kept in a round: fewer in each, and 90 in the last.
func prunedKeep(round, rounds int) int { return 190 - 100*(round+1)/rounds }

// "It pruned a month at noon, and chat stood still." Chat over HTTP is measured with and without
// pruning beside it, in turn. $FAREBOX_PRUNED is how many entries are made up; five million for the
// figures, on a quiet machine.
func TestLongChatBesidePruning(t *testing.T) {
	entries, rounds := int64(servers.Campaign(200_000)), 2
	if n, err := strconv.ParseInt(os.Getenv("FAREBOX_PRUNED"), 10, 64); err == nil {
		entries, rounds = n, 4
	}
	for _, engine := range []string{"sqlite", "postgres"} {
		t.Run(engine, func(t *testing.T) { chatBesidePruning(t, engine, entries, rounds) })
	}
}

func chatBesidePruning(t *testing.T, engine string, entries int64, rounds int) {
	sim := rig.StartUpstream(t, upstream.Options{})
	addr := rig.FreeAddr(t)
	config := func(keep int) string {
		return fmt.Sprintf(strings.Replace(rig.PrepaidConfig, "level: warn", "level: info", 1), sim.URL) + fmt.Sprintf(settings, addr) + fmt.Sprintf("\nusage: { keep: %d }\n", keep)
	}
	g := rig.NewGateway(t, config(0))
	options, driver := billing.Options{Dir: g.Store, Brand: "svc"}, "sqlite"
	source := "file:" + filepath.Join(g.Store, store.DatabaseFile) + "?mode=ro"
	if engine == "postgres" {
		g.Store, driver = servers.Database(t), "pgx"
		source, options = g.Store, billing.Options{Dir: t.TempDir(), Shared: g.Store, Brand: "svc"}
	} else if err := os.MkdirAll(g.Store, 0o700); err != nil {
		t.Fatal(err)
	}
	fillUsage(t, options, entries)
	g.ListenAndStart()
	d := &desk{g, t, "http://" + addr + "/operator/v1"}
	g.NewAccount("chat", "1000")
	key := g.Key("chat")
	db, err := sql.Open(driver, source)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	pruned := func() (steps, requests int64) {
		if err := db.QueryRow(`SELECT coalesce((SELECT steps FROM usage_kept), 0), CAST(coalesce((SELECT sum(requests) FROM usage_sum), 0)
			AS BIGINT)`).Scan(&steps, &requests); err != nil {
			t.Fatal(err)
		}
		return steps, requests
	}
	chat := func(name string) float64 {
		r, err := load.Run(context.Background(), load.Options{URL: g.URL, Key: key, Model: "sim-chat", Rate: 200, Duration: 5 * time.Second,
			Least: 1000, Longest: 20 * time.Second})
		if err != nil || r.Failed > 0 || r.Requests < 500 {
			t.Fatalf("%s: %+v, %v", name, r, err)
		}
		t.Logf("%s: %d requests, p50 %.2f ms, p99 %.2f ms", name, r.Requests, r.Latency.P50Us/1000, r.Latency.P99Us/1000)
		return r.Latency.P99Us
	}
	var without, with float64
	for round := range rounds {
		without += chat("without pruning")
		steps, requests := pruned()
		g.WriteConfig(config(prunedKeep(round, rounds)))
		d.must("POST", "/config/reload", "")
		for end := time.Now().Add(2 * time.Minute); ; time.Sleep(5 * time.Millisecond) {
			if now, _ := pruned(); now > steps {
				break
			}
			if time.Now().After(end) {
				t.Fatal("nothing is pruned")
			}
		}
		began := time.Now()
		with += chat("while requests are pruned")
		stepsAfter, _ := pruned()
		awaitPruned(t, g, prunedKeep(round, rounds))
		now, sum := pruned()
		t.Logf("%d requests in %d steps, %d of them beside chat, in %s", sum-requests, now-steps, stepsAfter-steps,
			time.Since(began).Round(time.Millisecond))
		if per := (sum - requests) / (now - steps); per > 2048+400 { // the last page of a step
			t.Errorf("a step prunes %d requests", per)
		}
	}
	t.Logf("p99 with pruning is %.2f times that without", with/without)
	if report := d.must("POST", "/verify", ""); report.Get("faults.#").Int() != 0 {
		t.Errorf("verify: %s", report)
	}
}

// fillUsage makes up entries of 200 days.
func fillUsage(t *testing.T, o billing.Options, entries int64) {
	t.Helper()
	l, err := billing.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	filled, err := l.Fill(context.Background(), billing.FillOptions{Entries: entries, Keys: 20, Models: 5, Days: 200, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d entries of %d requests are made up in %s", filled.Entries, filled.Requests, filled.Took.Round(time.Millisecond))
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

// awaitPruned waits until the last day of a round is pruned.
func awaitPruned(t *testing.T, g *rig.Gateway, keep int) {
	t.Helper()
	last := time.Now().UTC().AddDate(0, 0, -keep-1).Format(time.DateOnly)
	for end := time.Now().Add(30 * time.Minute); !strings.Contains(g.Log(), `"day":"`+last+`"`); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("the day %s is not pruned", last)
		}
	}
}
