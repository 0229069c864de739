package video

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"farebox/bench/upstream"
	"farebox/bench/upstream/film"
	"farebox/tests/rig"
)

func TestMain(m *testing.M) { rig.Main(m) }

// videoConfig sells videos by the second, by the piece, by the height and for nothing, of
// three kinds of upstreams.
const videoConfig = `
log: { level: info, format: json, sample_above: 0 }
billing: { minimum_balance: 0 }
limits: { failed_requests: { count: 0 }, unsupported_features: { count: 0 } }
jobs: { poll_min: 100ms, poll_max: 300ms %[3]s }
media: { dir: %[2]q %[5]s }
public_url: https://films.example
fetch: { allow: [127.0.0.1] }
%[4]s
upstreams:
  - { name: fal, dialect: fal, base_url: "%[1]s/fal", key: k, breaker: { failures: 0 } }
  - { name: replicate, dialect: replicate, base_url: "%[1]s/v1", key: k, breaker: { failures: 0 } }
  - { name: native, dialect: native, base_url: "%[1]s/v1", key: k, breaker: { failures: 0 } }
models:
  - id: by-second
    type: video
    tier: unlimited
    aliases: [movie]
    constraints: { durations: [5s, 10s], resolutions: [480p, 720p, 1080p], default_resolution: 720p, aspect_ratios: ["16:9"], audio: true, audio_configurable: true, prompt_characters: 500 }
    inputs: { image: optional, reference_videos: 2 }
    price: { second: { 480p: 0.02, 720p: 0.05, any: 0.1234567 }, second_silent: { 1080p: 0.08 }, reference_second: 0.0101 }
    targets: [{ upstream: fal, model: sim/video }]
  - id: by-piece
    type: video
    tier: unlimited
    recommend: by-second
    constraints: { durations: [5s, 10s], resolutions: [480p, 720p] }
    price: { generation: { 480p: 0.085, any: 0.17 } }
    targets: [{ upstream: replicate, model: sim/video, options: { duration: "duration:number" } }]
  - id: either
    type: video
    tier: unlimited
    constraints: { durations: [4s, auto, 1 gen], auto_seconds: 12, audio: true, audio_configurable: true }
    inputs: { tasks: [edit, auto], bitrate_modes: [standard, high] }
    price: { second: { any: 0.03 }, generation: { any: 0.5 }, generation_silent: { any: 0.4 } }
    targets: [{ upstream: native, model: sim-video }]
  - id: larger
    type: video
    tier: unlimited
    constraints: { model_type: video }
    inputs: { upscale_factors: [1, 2, 4], video_min_seconds: 1, video_max_seconds: 30 }
    price: { upscale: [{ to: 720, second: 0.013 }, { to: 1080, second: 0.025 }, { second: 0.10 }], fast_frames: 3 }
    targets: [{ upstream: native, model: sim-video-upscale }]
  - id: gift
    type: video
    tier: unlimited
    constraints: { durations: [5s] }
    price: free
    targets: [{ upstream: native, model: sim-video }]
  - id: linked
    type: video
    tier: unlimited
    download_url: true
    constraints: { durations: [5s] }
    price: { second: { any: 0.05 } }
    targets: [{ upstream: fal, model: sim/video }]
  - id: faces
    type: video
    tier: unlimited
    constraints: { durations: [5s] }
    inputs: { image: optional }
    consents: [{ provider: acme, version: "2026-01", policy_text: "No \"faces\".", docs_url: "https://example.com/terms", face_media_roles: [image_url] }]
    price: { second: { any: 0.05 } }
    targets: [{ upstream: native, model: sim-video }]
`

// cinema is a gateway that sells videos of a simulated upstream.
type cinema struct {
	*rig.Gateway
	sim   *rig.Simulated
	media string
}

// start starts one. jobs and media are further keys of those groups, and groups further ones.
func start(t *testing.T, jobs, media, groups string) *cinema {
	t.Helper()
	return startWith(t, jobs, media, groups, "", "")
}

// startWith starts one with further upstreams and models.
func startWith(t *testing.T, jobs, media, groups, upstreams, models string) *cinema {
	t.Helper()
	return startOn(t, "", jobs, media, groups, upstreams, models)
}

// startOn starts one on a store; empty: an embedded one.
func startOn(t *testing.T, store, jobs, media, groups, upstreams, models string) *cinema {
	t.Helper()
	s := &cinema{sim: rig.StartUpstream(t, upstream.Options{Keep: 256}), media: filepath.Join(t.TempDir(), "media")}
	text := strings.Replace(videoConfig, "models:\n", strings.TrimPrefix(upstreams, "\n")+"models:\n", 1) +
		strings.TrimPrefix(models, "\n")
	s.Gateway = rig.StartGatewayOn(t, store, fmt.Sprintf(text, strings.TrimSuffix(s.sim.URL, "/v1"), s.media, jobs, groups, media))
	t.Cleanup(func() { s.CLI("verify") })
	return s
}

// account makes one with 100 USD and gives its key. Each test has its own, since an
// account may only ask so often.
func (s *cinema) account(name string) (key string) {
	s.NewAccount(name, "100")
	return s.Key(name, "--type", "ADMIN")
}

// queued is the answer to an order.
type queued struct {
	Model  string
	ID     string `json:"queue_id"`
	Status string
	Link   string `json:"download_url"`
}

// queue orders a video.
func (s *cinema) queue(t *testing.T, key, body string) (q queued) {
	t.Helper()
	status, header, answer := s.Post("/video/queue", key, body)
	if err := json.Unmarshal(answer, &q); err != nil || status != 200 || !strings.EqualFold(q.Status, "queued") || len(q.ID) != 36 {
		t.Fatalf("%.300s is answered %d %s", body, status, answer)
	}
	if header.Get("X-Svc-Model-Id") != q.Model || !strings.HasPrefix(header.Get("Content-Type"), "application/json") {
		t.Errorf("%s: the headers are %v", q.Model, header)
	}
	return q
}

// ask is one retrieve.
func (s *cinema) ask(key, model, id, more string) (status int, header http.Header, body []byte) {
	return s.Post("/video/retrieve", key, fmt.Sprintf(`{"model":%q,"queue_id":%q%s}`, model, id, more))
}

// await retrieves until a job is not processing any more.
func (s *cinema) await(t *testing.T, key, model, id, more string) (status int, header http.Header, body []byte) {
	t.Helper()
	return s.until(t, key, model, id, more, func(body []byte) bool {
		return !bytes.HasPrefix(bytes.ToLower(body), []byte(`{"status":"processing"`))
	})
}

// until retrieves a job until its answer holds, as often as an account may.
func (s *cinema) until(t *testing.T, key, model, id, more string, holds func(body []byte) bool) (
	status int, header http.Header, body []byte,
) {
	t.Helper()
	for end := time.Now().Add(rig.CallLimit); time.Now().Before(end); time.Sleep(150 * time.Millisecond) {
		status, header, body = s.ask(key, model, id, more)
		switch {
		case status == http.StatusTooManyRequests: // on a machine that is very slow
			time.Sleep(time.Second)
		case status != 200 && status != 422 || holds(body):
			return status, header, body
		}
	}
	t.Fatalf("job %s is still %d %.300s", id, status, body)
	return 0, nil, nil
}

// refunded says that an answer about a job that failed says so.
func refunded(body []byte) bool { return bytes.Contains(body, []byte(`"credits_refunded":true`)) }

// spent awaits the final payments of a key's account.
func (s *cinema) spent(t *testing.T, key, want string) {
	t.Helper()
	var b struct{ Balances struct{ USD json.Number } }
	last := rig.Money(0)
	for end := time.Now().Add(rig.CallLimit); time.Now().Before(end); time.Sleep(30 * time.Millisecond) {
		s.Must(200, "GET", "/billing/balance", key, "", &b)
		if last = 100_000_000_000 - rig.Exact(t, b.Balances.USD); last.String() == want {
			return
		}
	}
	t.Errorf("%s was paid, not %s", last, want)
}

// kept reports whether the media store has a job's media.
func (s *cinema) kept(id string) (found bool) {
	_ = filepath.WalkDir(s.media, func(path string, d fs.DirEntry, err error) error {
		found = found || err == nil && !d.IsDir() && strings.Contains(path, id)
		return nil
	})
	return found
}

// reel is a film of a client, as a data URL.
func reel(length time.Duration, height, rate int) string {
	return "data:video/mp4;base64," + base64.StdEncoding.EncodeToString(
		film.MP4(film.Film{Length: length, Width: 16, Height: height, Rate: rate}))
}
