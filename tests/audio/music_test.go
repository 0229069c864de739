package audio

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"math"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"farebox/bench/upstream"
	"farebox/tests/rig"
)

// musicConfig sells songs by tiers, sounds by the second and words by the character.
const musicConfig = `
log: { level: info, format: json, sample_above: 0 }
billing: { minimum_balance: 0 }
limits: { failed_requests: { count: 0 } }
jobs: { poll_min: 100ms, poll_max: 300ms %[2]s }
media: { dir: %[3]q %[4]s }
%[5]s
upstreams:
  - { name: queue, dialect: native, base_url: "%[1]s", key: k, breaker: { failures: 0 } }
models:
  - id: song
    type: music
    tier: unlimited
    aliases: [tune]
    constraints: { min_prompt_characters: 1, durations: [4, 8], min_duration: 2, max_duration: 8 }
    price: { durations: { 4: { price: 0.69, min_seconds: 1, max_seconds: 4 }, 8: { price: 1.38, min_seconds: 5, max_seconds: 8 } } }
    targets: [{ upstream: queue }]
  - id: sound
    type: music
    tier: unlimited
    constraints: { min_prompt_characters: 1, min_duration: 1, max_duration: 22 }
    price: { per_second: 0.0023 }
    targets: [{ upstream: queue }]
  - id: words
    type: music
    tier: unlimited
    constraints: { min_prompt_characters: 1, prompt_characters: 5000 }
    price: { per_thousand_characters: 0.115 }
    targets: [{ upstream: queue }]
`

// studio is a gateway that sells music of a simulated upstream.
type studio struct {
	*rig.Gateway
	sim   *rig.Simulated
	media string
	key   string // of account a, which has 1000 USD
	admin string // of the same
}

// startStudio starts one. more are keys of the groups jobs and media, and groups.
func startStudio(t *testing.T, jobs, media, groups string) *studio {
	t.Helper()
	s := &studio{sim: rig.StartUpstream(t, upstream.Options{}), media: filepath.Join(t.TempDir(), "media")}
	s.Gateway = rig.StartGateway(t, fmt.Sprintf(musicConfig, s.sim.URL, jobs, s.media, media, groups))
	s.NewAccount("a", "1000")
	s.key = s.Key("a")
	s.admin = s.Key("a", "--type", "ADMIN")
	return s
}

// queue orders a track and gives its id.
func (s *studio) queue(t *testing.T, key, body string) string {
	t.Helper()
	status, _, answer := s.Post("/audio/queue", key, body)
	var q struct {
		Model  string
		ID     string `json:"queue_id"`
		Status string
	}
	if err := json.Unmarshal(answer, &q); err != nil || status != 200 || !strings.EqualFold(q.Status, "queued") || len(q.ID) != 36 {
		t.Fatalf("%s is answered %d %s", body, status, answer)
	}
	return q.ID
}

// ask is one retrieve.
func (s *studio) ask(key, model, id, more string) (status int, header http.Header, body []byte) {
	return s.Post("/audio/retrieve", key, fmt.Sprintf(`{"model":%q,"queue_id":%q%s}`, model, id, more))
}

// await retrieves until a job is not processing any more.
func (s *studio) await(t *testing.T, key, model, id, more string) (status int, header http.Header, body []byte) {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(150 * time.Millisecond) {
		status, header, body = s.ask(key, model, id, more)
		if status != 200 || !strings.Contains(strings.ToLower(string(body[:min(40, len(body))])), `"status":"processing"`) {
			return status, header, body
		}
	}
	t.Fatalf("job %s is still %d %s", id, status, body)
	return 0, nil, nil
}

// balance returns the balances of an admin key's account.
func (s *studio) balance(admin string) (usd, diem, bundled json.Number) {
	var b struct {
		Balances struct{ USD, DIEM, BundledCredits json.Number }
	}
	s.Must(200, "GET", "/billing/balance", admin, "", &b)
	return b.Balances.USD, b.Balances.DIEM, b.Balances.BundledCredits
}

// costs runs do and awaits that account a has paid so much for it in the end.
func (s *studio) costs(t *testing.T, want string, do func()) {
	t.Helper()
	usd, _, _ := s.balance(s.admin)
	before := rig.Exact(t, usd)
	do()
	rig.Await(t, "it costs "+want, func() bool {
		usd, _, _ := s.balance(s.admin)
		return (before - rig.Exact(t, usd)).String() == want
	})
}

// kept reports whether the media store has a job's media.
func (s *studio) kept(id string) (found bool) {
	_ = filepath.WalkDir(s.media, func(path string, d fs.DirEntry, err error) error {
		found = found || err == nil && !d.IsDir() && strings.Contains(path, id)
		return nil
	})
	return found
}

// Everything that can become of a job, on one gateway.
func TestMusic(t *testing.T) {
	t.Parallel()
	s := startStudio(t, "", "", "")
	t.Run("a job from its order to its release", s.wholeLife)
	t.Run("an empty account fetches its paid job", s.emptyAccount)
	t.Run("a failed job is refunded in its currency", s.failures)
	t.Run("a repeated order is one job", s.repeatedOrder)
	t.Run("a song is deleted once it was fetched", s.fetchedOnce)
	t.Run("ten clients fetch one job", s.tenClients)
	t.Run("quotes equal the charge", s.quotes)
	s.CLI("verify")
}

// "I order a song, ask until it is there, save it, and let it go."
func (s *studio) wholeLife(t *testing.T) {
	quote := s.Must(200, "POST", "/audio/quote", s.key, `{"model":"tune","duration_seconds":"6"}`, nil)
	if !strings.HasPrefix(string(quote), `{"quote":1.38,`) {
		t.Errorf("the quote is %s", quote)
	}
	s.costs(t, "1.38", func() {
		id := s.queue(t, s.key, `{"model":"tune","prompt":"[[sim polls=3]] a song","duration_seconds":"6"}`)
		s.running(t, id)
		s.fetched(t, id)
		s.foreign(t, id)
		complete := fmt.Sprintf(`{"model":"song","queue_id":%q}`, id)
		if answer := s.Must(200, "POST", "/audio/complete", s.key, complete, nil); string(answer) != `{"success":true}` {
			t.Errorf("the release says %s", answer)
		}
		for _, path := range []string{"/audio/retrieve", "/audio/complete"} {
			s.Must(404, "POST", path, s.key, complete, nil)
		}
		rig.Await(t, "the sound is deleted", func() bool { return !s.kept(id) })
	})
}

func (s *studio) running(t *testing.T, id string) {
	status, _, body := s.ask(s.key, "song", id, "")
	var running struct {
		Status   string
		Progress *int   `json:"progress_percent"`
		Average  *int64 `json:"average_execution_time"`
		Took     *int64 `json:"execution_duration"`
	}
	if err := json.Unmarshal(body, &running); err != nil || status != 200 || running.Status != "processing" ||
		running.Progress == nil || *running.Progress > 99 || running.Average == nil || running.Took == nil {
		t.Errorf("a running job is %d %s", status, body)
	}
}

func (s *studio) fetched(t *testing.T, id string) {
	status, header, sound := s.await(t, s.key, "tune", id, "")
	if status != 200 || header.Get("Content-Type") != "audio/mpeg" || header.Get("X-Svc-Audio-Format") != "mp3" ||
		header.Get("X-Svc-Inference-Time") == "" || len(sound) < 1000 {
		t.Errorf("the song is %d %v, %d bytes", status, header, len(sound))
	}
	seconds, err := strconv.ParseFloat(header.Get("X-Svc-Audio-Duration"), 64)
	if _, length := probe(t, "mp3", sound); err != nil || math.Abs(length.Seconds()-seconds) > 0.1 || seconds < 5.9 {
		t.Errorf("the song is said to be %v seconds long, and is %v", seconds, length)
	}
	if _, _, again := s.ask(s.key, "song", id, ""); string(again) != string(sound) {
		t.Error("the song is another one the second time")
	}
	if !s.kept(id) {
		t.Error("the song is not kept")
	}
}

// foreign asks for a job with another model, id and account.
func (s *studio) foreign(t *testing.T, id string) {
	for _, body := range []string{
		fmt.Sprintf(`{"model":"sound","queue_id":%q}`, id), // another model
		`{"model":"song","queue_id":"0197c3b2-8d4e-7a61-9c55-3f2b1a0d9e87"}`,
	} {
		if status, _, answer := s.Post("/audio/retrieve", s.key, body); status != 404 ||
			!strings.Contains(string(answer), "MEDIA_NOT_FOUND") {
			t.Errorf("%s is %d %s", body, status, answer)
		}
	}
	s.NewAccount("b", "1")
	other := s.Key("b")
	for _, path := range []string{"/audio/retrieve", "/audio/complete"} {
		if status, _, answer := s.Post(path, other, fmt.Sprintf(`{"model":"song","queue_id":%q}`, id)); status != 404 {
			t.Errorf("another account gets %d %s", status, answer)
		}
	}
	if status, _, _ := s.ask(s.Key("a", "--limit-usd", "0.5"), "song", id, ""); status != 200 {
		t.Errorf("another key of the account gets %d", status)
	}
}

// "What I paid for is mine, with whatever money is left."
func (s *studio) emptyAccount(t *testing.T) {
	s.NewAccount("poor", "0.69")
	key := s.Key("poor")
	id := s.queue(t, key, `{"model":"song","prompt":"x"}`)
	if status, _, answer := s.Post("/audio/queue", key, `{"model":"song","prompt":"x"}`); status != 402 {
		t.Errorf("a second song is %d %s", status, answer)
	}
	if status, _, body := s.await(t, key, "song", id, ""); status != 200 || len(body) < 1000 {
		t.Errorf("it is %d %s", status, rig.Last(string(body), 200))
	}
}

// "It failed, and my money is back, in the currency that I paid with."
func (s *studio) failures(t *testing.T) {
	for _, currency := range []string{"USD", "DIEM", "BUNDLED_CREDITS"} {
		s.NewAccount(currency, "0")
		s.Credit(currency, "10", "--currency", currency)
		key := s.Key(currency, "--type", "ADMIN")
		id := s.queue(t, key, `{"model":"sound","prompt":"[[sim job=fail]] x","duration_seconds":10}`)
		status, _, body := s.await(t, key, "sound", id, "")
		var said struct {
			Status, Error string
			Code          string `json:"error_code"`
		}
		if err := json.Unmarshal(body, &said); err != nil || status != 200 || said.Status != "failed" || said.Error == "" ||
			said.Code == "" || strings.Contains(string(body), "internal") {
			t.Errorf("%s: the failure is %d %s", currency, status, body)
		}
		rig.Await(t, currency+" is given back", func() bool {
			usd, diem, bundled := s.balance(key)
			return map[string]json.Number{"USD": usd, "DIEM": diem, "BUNDLED_CREDITS": bundled}[currency] == "10"
		})
	}
}

// "The same order with the same key is one song."
func (s *studio) repeatedOrder(t *testing.T) {
	const body = `{"model":"song","prompt":"a song that is ordered twice"}`
	s.costs(t, "0.69", func() { s.repeat(t, body) })
	n := 0
	for _, o := range s.sim.Orders() {
		if strings.HasSuffix(o.Prompt, "ordered twice") {
			n++
		}
	}
	if n != 1 {
		t.Errorf("%d songs were ordered", n)
	}
}

func (s *studio) repeat(t *testing.T, body string) {
	_, _, first := s.WithKey("/audio/queue", s.key, "order-1", body)
	_, header, second := s.WithKey("/audio/queue", s.key, "order-1", body)
	if first != second || header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("%s, then %s", first, second)
	}
	if status, _, _ := s.WithKey("/audio/queue", s.key, "order-1", `{"model":"song","prompt":"another"}`); status != 400 {
		t.Errorf("another order with the same key is %d", status)
	}
}

// "Fetch it and forget it."
func (s *studio) fetchedOnce(t *testing.T) {
	const once = `,"delete_media_on_completion":true`
	id := s.queue(t, s.key, `{"model":"song","prompt":"x"}`)
	if status, _, body := s.await(t, s.key, "song", id, once); status != 200 || len(body) < 1000 {
		t.Fatalf("it is %d %s", status, body)
	}
	rig.Await(t, "the song is gone", func() bool {
		status, _, _ := s.ask(s.key, "song", id, "")
		return status == 404 && !s.kept(id)
	})
}

// "Nobody waits for a queue that is full: it says so."
func TestAFullQueueSaysSo(t *testing.T) {
	t.Parallel()
	s := startStudio(t, ", per_account: 2", "", "")
	for range 2 {
		s.queue(t, s.key, `{"model":"song","prompt":"[[sim job=stuck]] x"}`)
	}
	status, header, answer := s.Post("/audio/queue", s.key, `{"model":"song","prompt":"x"}`)
	if status != 429 || header.Get("Retry-After") == "" || !strings.Contains(string(answer), "RATE_LIMIT_EXCEEDED") {
		t.Errorf("a third job is %d %s", status, answer)
	}
}

// Clients of the original service compare other words, and other status codes.
func TestSwitchesOfCompatibility(t *testing.T) {
	t.Parallel()
	s := startStudio(t, "", "", "compat: { job_status: upper, job_failure: http }")
	id := s.queue(t, s.key, `{"model":"song","prompt":"[[sim polls=20]] x"}`)
	if _, _, body := s.ask(s.key, "song", id, ""); !strings.HasPrefix(string(body), `{"status":"PROCESSING",`) {
		t.Errorf("a running job is %s", body)
	}
	id = s.queue(t, s.key, `{"model":"song","prompt":"[[sim job=fail]] x"}`)
	if status, _, body := s.await(t, s.key, "song", id, ""); status != 500 || !strings.Contains(string(body), `"code":`) {
		t.Errorf("a failed job is %d %s", status, body)
	}
	id = s.queue(t, s.key, `{"model":"song","prompt":"[[sim job=fail kind=policy]] x"}`)
	if status, _, body := s.await(t, s.key, "song", id, ""); status != 422 ||
		!strings.Contains(string(body), `"suggested_prompt":"a kind song"`) {
		t.Errorf("a refused job is %d %s", status, body)
	}
}

// Every client that asks gets the whole song, and it is made and charged once.
func (s *studio) tenClients(t *testing.T) {
	id := s.queue(t, s.key, `{"model":"song","prompt":"[[sim polls=3]] x"}`)
	var all sync.WaitGroup
	sizes := make([]int, 10)
	for i := range sizes {
		all.Go(func() {
			_, _, body := s.await(t, s.key, "song", id, "")
			sizes[i] = len(body)
		})
	}
	all.Wait()
	for _, n := range sizes {
		if n != sizes[0] || n < 1000 {
			t.Errorf("clients got %v bytes", sizes)
			break
		}
	}
}

// A quote equals the cost of the job, to the last digit.
func (s *studio) quotes(t *testing.T) {
	for _, c := range []struct{ model, quote, order string }{
		{"song", `,"duration_seconds":5`, `,"prompt":"x","duration_seconds":"5"`},
		{"sound", `,"duration_seconds":7`, `,"prompt":"x","duration_seconds":7`},
		{"sound", ``, `,"prompt":"x"`},
		{"words", `,"character_count":7`, `,"prompt":"sieben\u00e9"`},
	} {
		var q struct{ Quote json.Number }
		s.Must(200, "POST", "/audio/quote", s.key, `{"model":"`+c.model+`"`+c.quote+`}`, &q)
		s.costs(t, q.Quote.String(), func() { s.queue(t, s.key, `{"model":"`+c.model+`"`+c.order+`}`) })
	}
}
