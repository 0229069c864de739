package audio

import (
	"cmp"
	"database/sql"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"farebox/bench/load"
	"farebox/bench/upstream"
	"farebox/billing/store"
	"farebox/tests/rig"
)

// waitingConfig asks after jobs as often as farebox does by itself.
const waitingConfig = `
log: { level: warn, format: json }
billing: { minimum_balance: 0 }
limits: { failed_requests: { count: 0 } }
jobs: { per_account: 20000 }
media: { dir: %[2]q }
upstreams:
  - { name: queue, dialect: native, base_url: "%[1]s", key: k }
  - { name: chat, base_url: "%[1]s", key: k }
models:
  - id: song
    type: music
    tier: unlimited
    constraints: { min_prompt_characters: 1, min_duration: 1, max_duration: 22 }
    price: { per_second: 0.0023 }
    targets: [{ upstream: queue }]
  - id: bench-1k
    tier: unlimited
    context_tokens: 100000
    max_completion_tokens: 1000
    price: { input: 1, output: 2 }
    targets: [{ upstream: chat }]
`

const (
	waitingJobs   = 10_000
	waitingAge    = 20 * time.Minute // from ten minutes on one of ten thousand is asked after each 100 s
	waitingIdle   = 30 * time.Second
	waitingWindow = 1500 * time.Millisecond
	waitingRounds = 4
)

// copies makes jobs of the only one that there is, which were sold earlier.
func copies(db *sql.DB, jobs int) error {
	differs := map[string]string{
		"id": "printf('00000000-0000-4000-8000-%012x', i)", "request": "NULL", "hold": "1000000 + i", "ord": "NULL",
		"created_us":   fmt.Sprintf("created_us - %d", waitingAge.Microseconds()),
		"submitted_us": fmt.Sprintf("submitted_us - %d", waitingAge.Microseconds()),
	}
	rows, err := db.Query("SELECT name FROM pragma_table_info('job')")
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	var names, values []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return err
		}
		names, values = append(names, name), append(values, cmp.Or(differs[name], name))
	}
	if err := rows.Err(); err != nil {
		return err
	}
	_, err = db.Exec(fmt.Sprintf(`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d)
INSERT INTO job(%s) SELECT %s FROM job, n`, jobs, strings.Join(names, ", "), strings.Join(values, ", ")))
	return err
}

// waiting starts a gateway, with jobs that are never done or without.
func waiting(t *testing.T, sim *rig.Simulated, jobs int) (g *rig.Gateway, key string) {
	t.Helper()
	g = rig.StartGateway(t, fmt.Sprintf(waitingConfig, sim.URL, filepath.Join(t.TempDir(), "media")))
	g.NewAccount("a", "1000")
	key = g.Key("a")
	if jobs == 0 {
		return g, key
	}
	order := `{"model":"song","prompt":"[[sim job=stuck]] rain","duration_seconds":4}`
	g.Must(200, "POST", "/audio/queue", key, order, nil)
	rig.Await(t, "the job is paid", func() bool { return g.Settled()["a"].Spent > 0 })
	if err := g.Stop(); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", "file:"+filepath.Join(g.Store, store.DatabaseFile))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if err := copies(db, jobs-1); err != nil {
		t.Fatal(err)
	}
	g.Start()
	return g, key
}

// heap is the size of a gateway's live heap, which its collector doubles for its next turn.
func heap(t *testing.T, g *rig.Gateway) float64 {
	t.Helper()
	next, ok := g.Metric("go_memstats_next_gc_bytes")
	if !ok {
		t.Fatal("the metrics do not say when the next collection is")
	}
	return next / 2
}

// chats measures the latency of chats for a while.
func chats(t *testing.T, g *rig.Gateway, key string) (p50, p95 float64) {
	t.Helper()
	r, err := load.Run(t.Context(), load.Options{URL: g.URL, Key: key, Model: "bench-1k", MaxTokens: 100, Rate: 200,
		Connections: 8, Warmup: 100 * time.Millisecond, Duration: waitingWindow, Least: 20, Longest: time.Minute})
	if err != nil || r.Failed > 0 || r.Latency.Count == 0 {
		t.Fatalf("%d chats were answered, errors %v, %v", r.Requests, r.Errors, err)
	}
	for _, point := range r.Latency.Curve {
		if point[0] == 95 {
			p95 = point[1]
		}
	}
	return r.Latency.P50Us, p95
}

// "Ten thousand customers wait for their songs, and mine is not the chat that pays for it."
func TestLongTenThousandJobsWaitAtNoCost(t *testing.T) {
	if load.CheckPIDs(1) != nil {
		t.Skip("memory use is read from /proc, which is missing")
	}
	sim := rig.StartUpstream(t, upstream.Options{})
	without, plain := waiting(t, sim, 0)
	with, key := waiting(t, sim, waitingJobs)
	var took [2][2][]float64 // without and with; p50 and p95
	for range waitingRounds {
		for i, side := range []struct {
			g   *rig.Gateway
			key string
		}{{without, plain}, {with, key}} {
			p50, p95 := chats(t, side.g, side.key)
			took[i][0], took[i][1] = append(took[i][0], p50), append(took[i][1], p95)
		}
	}
	for i := range took {
		for j := range took[i] {
			slices.Sort(took[i][j])
		}
	}
	middle := func(side, point int) float64 { return took[side][point][waitingRounds/2] }
	polled := func() float64 {
		n, _ := with.Metric("farebox_job_polls_total")
		return n
	}
	first := polled()
	idle, busy := load.Watch([]int{without.PID()}), load.Watch([]int{with.PID()})
	time.Sleep(waitingIdle)
	none, all := idle.Stop(), busy.Stop()
	polls := (polled() - first) / waitingIdle.Seconds()
	share := all.CPUShare - none.CPUShare
	alive := (heap(t, with) - heap(t, without)) / waitingJobs
	resident := float64(all.RSSBytes-none.RSSBytes) / waitingJobs
	t.Logf("%d jobs that wait: %.2f %% of a core (%.2f %% with them, %.2f %% without), %.0f polls a second, other "+
		"programs %.0f %%; %.0f bytes a job in the heap, %.0f resident; chat p50 %.0f µs and p95 %.0f µs with them, "+
		"%.0f µs and %.0f µs without (x %.3f, x %.3f)", waitingJobs, 100*share, 100*all.CPUShare, 100*none.CPUShare,
		polls, 100*all.OtherShare, alive, resident, middle(1, 0), middle(1, 1), middle(0, 0), middle(0, 1),
		middle(1, 0)/middle(0, 0), middle(1, 1)/middle(0, 1))
	if rig.RaceDetector() {
		return // which takes more than all of it
	}
	// A crowd is asked after a hundred times a second, and a little more where an interval's chance has it.
	if polls < 60 || polls > 150 {
		t.Errorf("upstreams are asked %.0f times a second", polls)
	}
	if share > 0.10 {
		t.Errorf("waiting takes %.1f %% of a core", 100*share)
	}
	if alive > 2048 {
		t.Errorf("a job that waits takes %.0f bytes", alive)
	}
	if middle(1, 0) > 3*middle(0, 0)+5000 {
		t.Errorf("chats take %.0f µs beside jobs, %.0f µs without", middle(1, 0), middle(0, 0))
	}
}
