package audio

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"farebox/bench/servers"
	"farebox/bench/upstream"
	"farebox/tests/rig"
)

// houseConfig sells music and videos of every API of jobs that there is.
const houseConfig = `
log: { level: info, format: json, sample_above: 0 }
node: { name: %[1]s, dir: %[2]q }
billing: { minimum_balance: 0 }
limits: { failed_requests: { count: 0 }, aborted_requests: { count: 0 } }
jobs: { poll_min: 100ms, poll_max: 300ms, per_account: 1000, timeout: %[3]s }
media: { dir: %[4]q, sweep: 1s, free_bytes: 0 }
fetch: { allow: [127.0.0.1] }
upstreams:
  - { name: native, dialect: native, base_url: "%[5]s/api/v1", key: k, breaker: { failures: 0 } }
  - { name: labs, dialect: elevenlabs, base_url: "%[5]s/v1", key: k, breaker: { failures: 0 } }
  - { name: fal, dialect: fal, base_url: "%[5]s/fal", key: k, breaker: { failures: 0 } }
  - { name: replicate, dialect: replicate, base_url: "%[5]s/replicate/v1", key: k, breaker: { failures: 0 } }
models:
  - id: song
    type: music
    tier: unlimited
    constraints: { min_prompt_characters: 1, durations: [4], min_duration: 1, max_duration: 4 }
    price: { durations: { 4: { price: 0.69, min_seconds: 1, max_seconds: 4 } } }
    targets: [{ upstream: native }]
  - id: tune
    type: music
    tier: unlimited
    constraints: { min_prompt_characters: 1, min_duration: 1, max_duration: 22, default_duration: 4 }
    price: { per_second: 0.0023 }
    targets: [{ upstream: native, options: { idempotent: "true" } }]
  - id: sketch
    type: music
    tier: unlimited
    constraints: { min_prompt_characters: 1, min_duration: 3, max_duration: 22, default_duration: 4 }
    price: { per_second: 0.01 }
    targets: [{ upstream: labs, model: music_v1 }]
  - id: jingle
    type: music
    tier: unlimited
    constraints: { min_prompt_characters: 1, min_duration: 1, max_duration: 22, default_duration: 4 }
    price: { per_second: 0.02 }
    targets: [{ upstream: replicate, model: sim/music }]
  - id: film
    type: video
    tier: unlimited
    constraints: { durations: [2s] }
    price: { second: { any: 0.05 } }
    targets: [{ upstream: native }]
  - id: clip
    type: video
    tier: unlimited
    constraints: { durations: [2s] }
    price: { second: { any: 0.03 } }
    targets: [{ upstream: fal, model: sim/video/text-to-video }]
`

// ware is a model of houseConfig.
type ware struct {
	model, kind string // audio or video
	price       rig.Money
	idempotent  bool
	// spoiled are the ways in which its upstream goes wrong, beside those of all.
	spoiled []string
}

var (
	wares = []ware{
		{model: "song", kind: "audio", price: 690_000_000, spoiled: asked},
		{model: "tune", kind: "audio", price: 9_200_000, idempotent: true, spoiled: append(asked, "at=submit status=500")},
		{model: "sketch", kind: "audio", price: 40_000_000, spoiled: []string{"think_ms=250", "cut=rst", "job=wrongtype"}},
		{model: "jingle", kind: "audio", price: 80_000_000, spoiled: append(asked, linked...)},
		{model: "film", kind: "video", price: 100_000_000, spoiled: asked},
		{model: "clip", kind: "video", price: 60_000_000, spoiled: append(asked, linked...)},
	}
	// fine are orders that succeed, sooner or later.
	fine = []string{"polls=0", "polls=1", "polls=2", "polls=4", "delay_ms=200 polls=2", "think_ms=500", "delay_ms=60"}
	// asked are the ways of upstreams that are polled for a job's status, linked those of
	// upstreams that send a link.
	asked = []string{"job=fail polls=1", "job=fail polls=4", "job=forget", "job=double polls=2", "job=swallow",
		"job=stuck", "at=submit status=422 kind=policy", "job=fail kind=policy", "job=refuse_cancel polls=9",
		"job=wrongtype", "at=status status=500"}
	linked = []string{"at=file status=500", "cut=rst"}
)

// house is one or two gateways on one ledger, whose processes are killed.
type house struct {
	t       *testing.T
	sim     *rig.Simulated
	store   string // of PostgreSQL; empty: embedded
	media   string
	nodes   []*rig.Gateway
	patrons []*patron
	timeout time.Duration // of jobs
	random  *rand.Rand
	answers atomic.Int64 // that clients have had

	mu       sync.Mutex
	up       []bool
	kills    int
	starts   int
	starting time.Duration
}

// "The gateway was killed, again and again, while my tracks and films were ordered, made
// and fetched: each is there or paid back, and none was sold twice."
func TestJobsOutliveKills(t *testing.T) {
	t.Parallel()
	kills := 6
	if rig.RaceDetector() {
		kills = 2 // each start takes seconds
	}
	startHouse(t, "", 1, 3, time.Second).outlive(kills)
}

func TestLongJobsOutliveKills(t *testing.T) {
	t.Run("on the embedded store", func(t *testing.T) {
		t.Parallel()
		startHouse(t, "", 1, 8, 4*time.Second).outlive(servers.Campaign(24))
	})
	t.Run("on PostgreSQL", func(t *testing.T) {
		t.Parallel()
		startHouse(t, servers.Database(t), 1, 8, 4*time.Second).outlive(servers.Campaign(12))
	})
	t.Run("on two nodes", func(t *testing.T) {
		t.Parallel()
		startHouse(t, servers.Database(t), 2, 8, 4*time.Second).outlive(servers.Campaign(12))
	})
}

func startHouse(t *testing.T, store string, nodes, patrons int, timeout time.Duration) *house {
	t.Helper()
	random := rig.Seeded(t)
	h := &house{t: t, sim: rig.StartUpstream(t, upstream.Options{}), store: store, timeout: timeout,
		media: filepath.Join(t.TempDir(), "media"), random: random(1000)}
	base := strings.TrimSuffix(h.sim.URL, "/v1")
	for n := range nodes {
		name := fmt.Sprintf("n%d", n+1)
		h.nodes = append(h.nodes, rig.StartGatewayOn(t, store, fmt.Sprintf(houseConfig, name,
			filepath.Join(t.TempDir(), "node"), timeout, h.media, base)))
		h.up = append(h.up, true)
	}
	for n := range patrons {
		h.patrons = append(h.patrons, newPatron(h, fmt.Sprintf("a%d", n), random(uint64(n))))
	}
	return h
}

// outlive kills nodes the given number of times, and then audits all jobs.
func (h *house) outlive(kills int) {
	stop := make(chan struct{})
	var clients sync.WaitGroup
	for _, p := range h.patrons {
		clients.Go(func() { p.shop(stop) })
	}
	for h.kills < kills {
		h.kill()
	}
	for n := range h.nodes {
		h.start(n)
	}
	close(stop)
	clients.Wait()
	h.audit()
}

// pause is until the next kill: until clients have had some answers, however fast this
// machine is, or just after a start.
func (h *house) pause() {
	most := time.Duration(h.random.IntN(60)) * time.Millisecond
	if h.random.IntN(3) > 0 {
		enough, end := h.answers.Load()+int64(h.random.IntN(30)), time.Now().Add(2*time.Second)
		for h.answers.Load() < enough && time.Now().Before(end) {
			time.Sleep(time.Millisecond)
		}
		most /= 4
	}
	time.Sleep(most)
}

// kill kills a node, which comes back at once or, of two, perhaps only after another one.
func (h *house) kill() {
	n := h.random.IntN(len(h.nodes))
	if !h.isUp(n) {
		h.start(n)
		return
	}
	h.pause()
	h.nodes[n].Kill()
	h.kills++
	h.isUp(n, false)
	for h.random.IntN(6) == 0 {
		h.nodes[n].KillStarting(time.Duration(h.random.IntN(120)) * time.Millisecond)
		h.kills++
	}
	if len(h.nodes) > 1 {
		// Its session ends at once as it would in half a minute, so that the other one
		// takes over its jobs when it starts; or the session of one ends that is alive.
		if h.random.IntN(3) == 0 {
			name := fmt.Sprintf("n%d", h.random.IntN(len(h.nodes))+1)
			servers.ExecAt(h.t, h.store, "UPDATE node SET expires_us = 0 WHERE name = '"+name+"'")
		}
		if h.random.IntN(3) == 0 {
			return
		}
	}
	h.start(n)
}

// start starts a node that is down.
func (h *house) start(n int) {
	if h.isUp(n) {
		return
	}
	began := time.Now()
	h.nodes[n].Start()
	h.starting += time.Since(began)
	h.starts++
	h.isUp(n, true)
}

// isUp says, or notes, whether a node serves.
func (h *house) isUp(n int, now ...bool) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, up := range now {
		h.up[n] = up
	}
	return h.up[n]
}

// url is a gateway that a client calls: of several any that is up.
func (h *house) url(random *rand.Rand) string {
	n := random.IntN(len(h.nodes))
	if !h.isUp(n) {
		n = (n + 1) % len(h.nodes)
	}
	return h.nodes[n].URL
}
