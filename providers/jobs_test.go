package providers

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"

	"farebox/bench/upstream"
	"farebox/bench/upstream/film"
	"farebox/bench/upstream/sound"
	"farebox/bench/upstream/strict"
	"farebox/config"
	"farebox/config/asyncjob"
	"farebox/providers/queue"
	"farebox/proxy"
)

// Whatever the config may name for music and videos makes them, with the key where it
// belongs.
func TestJobsAreMadeByEveryDialectOfTheConfig(t *testing.T) {
	t.Parallel()
	sim := strict.New(upstream.Options{Key: "k"})
	t.Cleanup(sim.Close)
	base, err := sim.Start()
	if err != nil {
		t.Fatal(err)
	}
	c := catalogOf(t, strings.ReplaceAll(`
upstreams:
  - { name: fal, dialect: fal, base_url: "BASE/fal", key: k }
  - { name: replicate, dialect: replicate, base_url: "BASE/v1", key: k }
  - { name: elevenlabs, dialect: elevenlabs, base_url: "BASE/v1", key: k }
  - { name: native, dialect: native, base_url: "BASE/api/v1", key: k }
models:
  - { id: fal-song, type: music, price: free, targets: [{ upstream: fal, model: a/music }] }
  - { id: replicate-song, type: music, price: free, targets: [{ upstream: replicate, model: a/music }] }
  - { id: elevenlabs-song, type: music, price: free, targets: [{ upstream: elevenlabs, model: music_v1 }] }
  - { id: native-song, type: music, price: free, targets: [{ upstream: native, model: song }] }
  - { id: fal-film, type: video, constraints: &two { durations: [2s] }, price: free,
      targets: [{ upstream: fal, model: a/video }] }
  - { id: replicate-film, type: video, constraints: *two, price: free,
      targets: [{ upstream: replicate, model: a/video }] }
  - { id: native-film, type: video, constraints: *two, price: free, targets: [{ upstream: native, model: film }] }
`, "BASE", strings.TrimSuffix(base, "/v1")), nil, today)
	p := proxy.New(proxy.Options{})
	t.Cleanup(p.Close)
	engine := NewQueue(p, config.Fetch{Allow: []string{"127.0.0.1"}, Limit: 10 * time.Second},
		func() *Catalog { return c }, nil, 8<<20)
	for _, m := range c.Models() {
		o := queue.Order{Kind: config.MusicKind.Name, Prompt: "a song [[sim polls=0]]", Seconds: 3}
		want := sound.Bytes("mp3", 3*time.Second)
		if m.Config.Type == "video" {
			o.Kind, o.Seconds, o.Duration = config.VideoKind.Name, 0, "2s"
			want = film.MP4(film.Film{Length: 2 * time.Second})
		}
		text, _ := json.Marshal(&o)
		task := asyncjob.Task{ID: m.ID, Kind: o.Kind, Model: m.ID, Order: text}
		s, err := engine.Submit(context.Background(), task)
		if err != nil {
			t.Errorf("%s: %v", m.ID, err)
			continue
		}
		task.Upstream, task.Target, task.Handle = s.Upstream, s.Target, s.Handle
		at := s.Done
		if at == nil {
			if at, err = engine.Poll(context.Background(), task); err != nil {
				t.Errorf("%s: %v", m.ID, err)
				continue
			}
		}
		body := at.Body
		if body == nil {
			if body, _, err = engine.Fetch(context.Background(), task, at.Result); err != nil {
				t.Errorf("%s: %v", m.ID, err)
				continue
			}
		}
		got, err := io.ReadAll(body)
		body.Close()
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %d bytes, %v", m.ID, len(got), err)
		}
		if u := m.Targets[0]; c.JobModel(u.Upstream.Name, u.Name, config.JobKindOf(o.Kind)) != m.ID {
			t.Errorf("%s is not found by its name at %s", m.ID, u.Upstream.Name)
		}
	}
	for _, o := range sim.Orders() {
		if !o.Made || o.Leaked {
			t.Errorf("%+v", o)
		}
	}
	if c.JobModel("fal", "a/music", config.VideoKind) != "" {
		t.Error("a model of music makes videos")
	}
}
