package media

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"farebox/bench/servers"
	"farebox/bench/upstream"
	"farebox/tests/rig"
)

func TestMain(m *testing.M) { rig.Main(m) }

// mediaConfig has models that make tracks, and videos that are fetched once from a link.
const mediaConfig = `
log: { level: info, format: json, sample_above: 0 }
billing: { minimum_balance: 0 }
limits: { failed_requests: { count: 0 } }
public_url: https://media.example
%[2]s
upstreams:
  - { name: up, dialect: native, base_url: "%[1]s", key: k, breaker: { failures: 0 } }
models:
  - id: song
    type: music
    tier: unlimited
    constraints: { min_prompt_characters: 1, min_duration: 2, max_duration: 8 }
    price: { per_second: 0.01 }
    targets: [{ upstream: up }]
  - id: film
    type: video
    tier: unlimited
    download_url: true
    constraints: { durations: [5s] }
    price: { second: { any: 0.05 } }
    targets: [{ upstream: up }]
`

const (
	jobsConfig = "jobs: { poll_min: 100ms, poll_max: 300ms, timeout: 1m }\n"
	// briefJobs is for media that cannot be kept: each is tried for the whole time.
	briefJobs = "jobs: { poll_min: 100ms, poll_max: 300ms, timeout: 8s }\n"
)

// place is a gateway that makes tracks and videos.
type place struct {
	*rig.Gateway
	sim *rig.Simulated
	key string // of account a
}

// start starts one; groups are those of the config that say where it keeps them, and perhaps for how
// long it tries to.
func start(t *testing.T, groups string) *place {
	t.Helper()
	p := &place{sim: rig.StartUpstream(t, upstream.Options{})}
	if !strings.HasPrefix(groups, briefJobs) {
		groups = jobsConfig + groups
	}
	p.Gateway = rig.StartGateway(t, fmt.Sprintf(mediaConfig, p.sim.URL, groups))
	p.NewAccount("a", "100")
	p.key = p.Key("a")
	return p
}

// bucket starts an S3 server, and gives the groups of the shipped example that keeps
// results there.
func bucket(t *testing.T, more string) (s *servers.S3, groups string) {
	t.Helper()
	s = servers.StartS3(t)
	text, err := os.ReadFile("config/examples/media-s3.yaml")
	if err != nil {
		t.Fatal(err)
	}
	groups, _, ok := strings.Cut(string(text), "\nupstreams:")
	_, groups, found := strings.Cut(groups, "\nmedia:")
	groups = strings.NewReplacer("https://s3.us-east-1.amazonaws.com", s.URL, "${AWS_ACCESS_KEY_ID}", s.AccessKey,
		"${AWS_SECRET_ACCESS_KEY}", s.SecretKey, "redirect: false", more).Replace("media:" + groups)
	if !ok || !found || !strings.Contains(groups, s.SecretKey) || !strings.Contains(groups, more) {
		t.Fatalf("the example has another form:\n%s", groups)
	}
	return s, groups
}

// job is one that was ordered.
type job struct {
	ID   string `json:"queue_id"`
	Link string `json:"download_url"`
}

// track orders one, waits until it is made and gives where it is to be had.
func (p *place) track(t *testing.T, key string) (j job, link string) {
	t.Helper()
	p.Must(200, "POST", "/audio/queue", key, `{"model":"song","prompt":"[[sim polls=1]] x","duration_seconds":4}`, &j)
	body := p.await(t, "audio", "song", j.ID, key)
	var made struct{ Status, URL string }
	if err := json.Unmarshal(body, &made); err != nil || made.Status != "completed" {
		t.Fatalf("it came to %.300s (%v)", body, err)
	}
	return j, p.local(t, made.URL)
}

// film orders one, waits until it is made and gives its link.
func (p *place) film(t *testing.T, key string) (j job, link string) {
	t.Helper()
	p.Must(200, "POST", "/video/queue", key, `{"model":"film","prompt":"[[sim polls=1]] x","duration":"5s"}`, &j)
	p.await(t, "video", "film", j.ID, key)
	return j, p.local(t, j.Link)
}

// await retrieves until a job is not processing any more.
func (p *place) await(t *testing.T, kind, model, id, key string) (body []byte) {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(150 * time.Millisecond) {
		_, _, body = p.Post("/"+kind+"/retrieve", key, fmt.Sprintf(`{"model":%q,"queue_id":%q}`, model, id))
		if !bytes.HasPrefix(body, []byte(`{"status":"processing"`)) {
			return body
		}
	}
	t.Fatalf("%s is still %s", id, body)
	return nil
}

// local is a link at the address at which the test reaches the gateway.
func (p *place) local(t *testing.T, link string) string {
	t.Helper()
	u, err := url.Parse(link)
	if err != nil || u.Host != "media.example" || u.Query().Get("sig") == "" {
		t.Fatalf("a link is %q (%v)", link, err)
	}
	return p.Origin + u.RequestURI()
}

// unled follows no redirects.
var unled = &http.Client{
	Timeout:       time.Minute,
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// get fetches a link, without a key.
func get(t *testing.T, method, link string, header ...string) (*http.Response, []byte) {
	t.Helper()
	req, err := http.NewRequest(method, link, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := unled.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	body, _ := io.ReadAll(res.Body) // a broken body is short
	return res, body
}
