package queue_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"farebox/bench/upstream"
	"farebox/bench/upstream/strict"
	"farebox/config"
	"farebox/config/asyncjob"
	"farebox/providers/attempt"
	"farebox/providers/fetch"
	"farebox/providers/health"
	"farebox/providers/queue"
	"farebox/providers/queue/elevenlabs"
	"farebox/providers/queue/fal"
	"farebox/providers/queue/native"
	"farebox/providers/queue/replicate"
	"farebox/proxy"
)

// rig is an Engine and the upstreams that it asks.
type rig struct {
	*queue.Engine
	t       testing.TB
	sim     *strict.Server
	base    string // of the simulated upstream, without a path
	targets []*queue.Target
	tried   []attempt.Tried
}

// account is whose jobs they are.
const account = 7

func newRig(t testing.TB, change ...func(o *queue.Options)) *rig {
	t.Helper()
	g := &rig{t: t, sim: strict.New(upstream.Options{Key: "secret"})}
	base, err := g.sim.Start()
	if err != nil {
		t.Fatal(err)
	}
	g.base = strings.TrimSuffix(base, "/v1")
	p := proxy.New(proxy.Options{Tick: 20 * time.Millisecond})
	o := queue.Options{
		Proxy: p, Ask: 10 * time.Second, Make: 20 * time.Second, Most: 8 << 20,
		Targets: func(string) []*queue.Target { return g.targets },
		Fetch: fetch.New(fetch.Options{Limit: 10 * time.Second,
			Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}}),
		Tried: func(_ string, t attempt.Tried) { g.tried = append(g.tried, t) },
	}
	for _, f := range change {
		f(&o)
	}
	g.Engine = queue.New(o)
	t.Cleanup(func() {
		p.Close()
		g.sim.Close()
	})
	return g
}

// door is an API of the simulated upstream.
type door struct {
	name   string
	speaks queue.Dialect
	path   string // of the base URL
	key    [2]string
	models map[*config.JobKind]string
}

var doors = []door{
	{"fal", fal.Dialect{}, "/fal", [2]string{"Authorization", "Key secret"},
		map[*config.JobKind]string{config.MusicKind: "sim/music/v2", config.VideoKind: "sim/video/text-to-video"}},
	{"replicate", replicate.Dialect{}, "/replicate/v1", [2]string{"Authorization", "Bearer secret"},
		map[*config.JobKind]string{config.MusicKind: "sim/music", config.VideoKind: "sim/video"}},
	{"native", native.Dialect{}, "/api/v1", [2]string{"Authorization", "Bearer secret"},
		map[*config.JobKind]string{config.MusicKind: "sim-music", config.VideoKind: "sim-video"}},
	{"elevenlabs", elevenlabs.Dialect{}, "/v1", [2]string{"xi-api-key", "secret"},
		map[*config.JobKind]string{config.MusicKind: "music_v1"}},
}

// target adds one of a door.
func (g *rig) target(d *door, kind *config.JobKind, options map[string]string) *queue.Target {
	return g.targetAt(d, kind, g.base+d.path, options)
}

func (g *rig) targetAt(d *door, kind *config.JobKind, base string, options map[string]string) *queue.Target {
	g.t.Helper()
	end, err := proxy.NewEndpoint(proxy.EndpointOptions{Name: d.name, BaseURL: base, Headers: [][2]string{d.key},
		Connect: 5 * time.Second, FirstByte: 10 * time.Second, Idle: 10 * time.Second,
		RetrySafe: true}) // as the config has it, unless it says otherwise
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(end.Close)
	to := &queue.Target{Upstream: d.name, Model: d.models[kind], Kind: kind, Dialect: d.speaks, Proxy: end, Base: base,
		Options: options, Breaker: health.NewBreaker(5, time.Minute), Weight: 1, Priority: len(g.targets)}
	g.targets = append(g.targets, to)
	return to
}

// order is the simplest one of a kind, with a directive for the simulated upstream.
func order(kind *config.JobKind, directive string) *queue.Order {
	o := &queue.Order{Kind: kind.Name, Prompt: "a song of the sea [[sim " + directive + "]]"}
	if kind == config.VideoKind {
		o.Duration = "2s"
	} else {
		o.Seconds = 4
	}
	return o
}

// ids are those of tasks.
var ids atomic.Int64

// task is that of an order.
func task(o *queue.Order) asyncjob.Task {
	text, err := json.Marshal(o)
	if err != nil {
		panic(err)
	}
	return asyncjob.Task{ID: fmt.Sprintf("0190e2c4-7b1e-7000-8000-%012d", ids.Add(1)), Kind: o.Kind, Model: "m",
		Order: text, Account: account}
}

// submit hands an order over that is taken, and gives the task that asks after it.
func (g *rig) submit(o *queue.Order) (asyncjob.Task, *asyncjob.Submitted) {
	g.t.Helper()
	t := task(o)
	s, err := g.Submit(context.Background(), t)
	if err != nil {
		g.t.Fatalf("the order was not taken: %v %+v", err, g.tried)
	}
	t.Upstream, t.Target, t.Handle = s.Upstream, s.Target, s.Handle
	return t, s
}

// wait polls until a job is over.
func (g *rig) wait(t asyncjob.Task) *asyncjob.Status {
	g.t.Helper()
	for range 20 {
		at, err := g.Poll(context.Background(), t)
		if err != nil {
			g.t.Fatalf("nothing is known of the job: %v", err)
		}
		if at.Done || at.Failed != nil {
			return at
		}
	}
	g.t.Fatal("the job does not end")
	return nil
}

// read takes all of a body.
func read(t testing.TB, body io.ReadCloser) []byte {
	t.Helper()
	b, err := io.ReadAll(body)
	if err != nil {
		t.Fatalf("the body ended with %v after %d bytes", err, len(b))
	}
	if err := body.Close(); err != nil {
		t.Error(err)
	}
	return b
}

// last are the requests that the simulated upstream has seen, once it has written down all.
func (g *rig) last() []upstream.Received {
	g.t.Helper()
	if !g.sim.WaitIdle(10 * time.Second) {
		g.t.Fatal("the upstream is still answering")
	}
	return g.sim.Last()
}

// each runs a test for every dialect and kind that it makes.
func each(t *testing.T, f func(t *testing.T, g *rig, d *door, kind *config.JobKind)) {
	t.Helper()
	for i := range doors {
		d := &doors[i]
		for _, kind := range []*config.JobKind{config.MusicKind, config.VideoKind} {
			if d.models[kind] != "" {
				t.Run(d.name+" "+kind.Name, func(t *testing.T) {
					t.Parallel()
					f(t, newRig(t), d, kind)
				})
			}
		}
	}
}
