package routes_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"farebox/bench/upstream"
	"farebox/bench/upstream/strict"
	"farebox/billing"
	"farebox/billing/job"
	"farebox/billing/money"
	"farebox/config"
	"farebox/config/asyncjob"
	"farebox/providers/queue"
	"farebox/routes"
	"farebox/routes/routestest"
)

// songs is a capability that sells one song at 1 USD.
type songs struct{}

func (s *songs) Open(*routes.Gateway) []routes.Row {
	row := func(path string, serve routes.Handler) routes.Row {
		return routes.Row{Method: "POST", Path: path, Access: routes.Bearer, Form: routes.RawJSON, Serve: serve}
	}
	return []routes.Row{row("/song/queue", s.queue), row("/song/retrieve", s.retrieve), row("/song/complete", s.complete)}
}

func (s *songs) queue(c *routes.Call) *routes.Error {
	c.Model = c.Catalog().Find("song", time.Now())
	var price money.Lines
	price.Add(money.Tracks, 1, 1e12)
	sale := &routes.Flat{Held: func() money.Lines { return price }}
	sale.Do = func() (e *routes.Error) {
		c.Sold = routes.FlatBill(price, 0)
		var q struct {
			Prompt string `json:"prompt"`
		}
		_ = json.Unmarshal(c.Ctx.PostBody(), &q)
		id, e := c.Queue(&routes.JobSale{Named: "hit",
			Order: &queue.Order{Kind: config.MusicKind.Name, Prompt: q.Prompt}})
		sale.Answer = routes.Answer{Type: "text/plain", Body: []byte(id)}
		return e
	}
	return c.SellFlat(sale, routes.Terms{Patience: time.Minute})
}

// named reads the members of retrieve and complete that name a job.
func (s *songs) named(c *routes.Call) (v *job.View, release bool, e *routes.Error) {
	var q struct {
		ID     string `json:"queue_id"`
		Model  string `json:"model"`
		Delete bool   `json:"delete"`
	}
	_ = json.Unmarshal(c.Ctx.PostBody(), &q)
	v, e = c.Job(config.MusicKind, []byte(cmp.Or(q.Model, "song")), []byte(q.ID))
	return v, q.Delete, e
}

func (s *songs) retrieve(c *routes.Call) *routes.Error {
	v, release, e := s.named(c)
	switch {
	case e != nil:
		return e
	case v.Completed():
		return c.DeliverMedia(v, release, routes.MediaPeek{})
	case v.Failed():
		c.Ctx.SetBodyString("failed " + v.Code)
	default:
		c.Ctx.SetBodyString("processing")
	}
	return nil
}

func (s *songs) complete(c *routes.Call) *routes.Error {
	v, _, e := s.named(c)
	if e != nil {
		return e
	}
	ok, e := c.ReleaseJob(v)
	if ok {
		c.Ctx.SetBodyString("released")
	}
	return e
}

// studio is an upstream of songs.
type studio struct {
	mu     sync.Mutex
	submit func(t asyncjob.Task) (*asyncjob.Submitted, error)
	poll   func(t asyncjob.Task) (*asyncjob.Status, error)
	asked  int
	long   string // the result in place of melody
}

func (s *studio) Submit(_ context.Context, t asyncjob.Task) (*asyncjob.Submitted, error) {
	s.mu.Lock()
	s.asked++
	f := s.submit
	s.mu.Unlock()
	if f != nil {
		return f(t)
	}
	return &asyncjob.Submitted{Upstream: "u", Target: "t", Handle: []byte("h")}, nil
}

func (s *studio) Poll(_ context.Context, t asyncjob.Task) (*asyncjob.Status, error) {
	s.mu.Lock()
	f := s.poll
	s.mu.Unlock()
	if f != nil {
		return f(t)
	}
	return &asyncjob.Status{Done: true, Result: []byte("r")}, nil
}

func (s *studio) AtOnce(string, string) bool { return false }

func (s *studio) Cancel(context.Context, asyncjob.Task) (bool, error) { return true, nil }

const melody = "ID3\x04\x00 la la la"

func (s *studio) Fetch(context.Context, asyncjob.Task, []byte) (io.ReadCloser, string, error) {
	return io.NopCloser(strings.NewReader(cmp.Or(s.long, melody))), "audio/mpeg", nil
}

const songConfig = `
upstreams:
  - name: u
    dialect: native
    base_url: http://ADDR/api/v1
    key: secret
jobs: { poll_min: 100ms, per_account: 3, webhook_url: "http://gateway.example.com" }
models:
  - id: song
    type: music
    targets: [{ upstream: u, model: sim-music }]
    price: { generation: 1 }
`

func startSongs(t *testing.T, s *studio) *routestest.Rig {
	return routestest.StartWith(t, songConfig, "127.0.0.1:9", func(o *routes.Options) { o.Maker = s }, &songs{})
}

// wantBalance waits until the account has a balance.
func wantBalance(t *testing.T, r *routestest.Rig, want billing.Nano) {
	t.Helper()
	var have billing.Nano
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if have = r.Balance(); have == want {
			return
		}
	}
	t.Errorf("the balance is %s, want %s", have, want)
}

func ask(t *testing.T, r *routestest.Rig, path, id, more string) (int, string) {
	t.Helper()
	return r.Post(path, `{"queue_id":"`+id+`"`+more+`}`, "")
}

// fetch asks until a job is no longer processing.
func fetch(t *testing.T, r *routestest.Rig, id, more string) (int, string) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		status, answer := ask(t, r, "/song/retrieve", id, more)
		if answer != "processing" || time.Now().After(end) {
			return status, answer
		}
	}
}

const thousand = 1_000_000_000_000

// "I queued a song, fetched it twice, and deleted it with the third."
func TestAJobIsSoldMadeAndFetched(t *testing.T) {
	t.Parallel()
	r := startSongs(t, &studio{})
	status, id := r.Post("/song/queue", `{}`, "")
	if status != http.StatusOK || len(id) != 36 {
		t.Fatal(status, id)
	}
	wantBalance(t, r, thousand-1e9)
	for range 2 {
		if status, answer := fetch(t, r, id, ""); status != http.StatusOK || answer != melody {
			t.Fatal(status, answer)
		}
	}
	for name, want := range map[string]int{"hit": http.StatusOK, "hits": http.StatusNotFound} {
		if status, answer := ask(t, r, "/song/retrieve", id, `,"model":"`+name+`"`); status != want {
			t.Error(name, status, answer)
		}
	}
	if status, answer := ask(t, r, "/song/retrieve", id, `,"delete":true`); status != http.StatusOK || answer != melody {
		t.Fatal(status, answer)
	}
	for _, path := range []string{"/song/retrieve", "/song/complete"} {
		if status, answer := ask(t, r, path, id, ""); status != http.StatusNotFound {
			t.Error(path, status, answer)
		}
	}
	wantBalance(t, r, thousand-1e9)
}

// "Its upstream would not have it": nothing is sold, and the answer has the reason.
func TestARefusedJobIsNotSold(t *testing.T) {
	t.Parallel()
	r := startSongs(t, &studio{submit: func(asyncjob.Task) (*asyncjob.Submitted, error) {
		return nil, &asyncjob.Refused{Status: 422, Code: "CONTENT_POLICY_VIOLATION", Message: "No."}
	}})
	if status, answer := r.Post("/song/queue", `{}`, ""); status != 422 {
		t.Error(status, answer)
	}
	wantBalance(t, r, thousand)
}

// "It failed while it was made": its price is refunded.
func TestAFailedJobIsRefunded(t *testing.T) {
	t.Parallel()
	r := startSongs(t, &studio{poll: func(asyncjob.Task) (*asyncjob.Status, error) {
		return &asyncjob.Status{Failed: &asyncjob.Refused{Status: 500, Code: "INFERENCE_FAILED", Message: "It broke."}}, nil
	}})
	_, id := r.Post("/song/queue", `{}`, "")
	if status, answer := fetch(t, r, id, ""); answer != "failed INFERENCE_FAILED" {
		t.Error(status, answer)
	}
	wantBalance(t, r, thousand)
}

// "The upstream hung up before it answered": the outcome is unknown, so the job is
// refunded. A repeat with the same key gets the same answer and sells nothing.
func TestAnUnknownOutcomeIsRefunded(t *testing.T) {
	t.Parallel()
	s := &studio{submit: func(asyncjob.Task) (*asyncjob.Submitted, error) {
		return nil, &asyncjob.Unknown{Upstream: "u", Err: errors.New("hung up")}
	}}
	r := startSongs(t, s)
	for range 2 {
		if status, answer := r.Post("/song/queue", `{}`, "k"); status != http.StatusBadGateway ||
			!strings.Contains(answer, "refunded") {
			t.Error(status, answer)
		}
	}
	if s.asked != 1 {
		t.Errorf("the upstream was asked %d times", s.asked)
	}
	wantBalance(t, r, thousand)
}

// "The upstream took my song and cut the connection, and the gateway sent it once more":
// the upstream is asked once, the price is refunded, and an alarm tells the operator.
func TestAnOrderThatIsCutOffIsNotRepeated(t *testing.T) {
	t.Parallel()
	up := strict.New(upstream.Options{})
	base, err := up.Start()
	if err != nil {
		t.Fatal(err)
	}
	defer up.Close()
	r := routestest.Start(t, songConfig, strings.TrimPrefix(strings.TrimSuffix(base, "/v1"), "http://"), &songs{})
	if status, id := r.Post("/song/queue", `{"prompt":"la [[sim polls=0]]"}`, ""); status != http.StatusOK {
		t.Fatal(status, id)
	}
	status, answer := r.Post("/song/queue", `{"prompt":"la [[sim job=swallow]]"}`, "")
	if status != http.StatusBadGateway || !strings.Contains(answer, "refunded") {
		t.Error(status, answer)
	}
	if n := len(up.Orders()); n != 2 {
		t.Errorf("two songs were ordered %d times", n)
	}
	if n := r.Gateway.JobStats().Alarms["unknown"]; n != 1 {
		t.Errorf("%d alarms", n)
	}
	wantBalance(t, r, thousand-1e9)
}

// "I sent it twice with one key": one job, one charge, one id.
func TestAKeyedJobIsSoldOnce(t *testing.T) {
	t.Parallel()
	s := &studio{}
	r := startSongs(t, s)
	_, first := r.Post("/song/queue", `{}`, "k")
	_, second := r.Post("/song/queue", `{}`, "k")
	if first != second || len(first) != 36 || s.asked != 1 {
		t.Error(first, second, s.asked)
	}
	wantBalance(t, r, thousand-1e9)
}

// "The adapter panicked": the outcome is unknown.
func TestAPanicAtSubmissionIsRefunded(t *testing.T) {
	t.Parallel()
	r := startSongs(t, &studio{submit: func(asyncjob.Task) (*asyncjob.Submitted, error) { panic("no") }})
	if status, answer := r.Post("/song/queue", `{}`, ""); status != http.StatusBadGateway {
		t.Error(status, answer)
	}
	wantBalance(t, r, thousand)
}

// "My script queued too many": jobs beyond the limit are refused and not charged.
func TestAnAccountHasOnlySoManyJobs(t *testing.T) {
	t.Parallel()
	r := startSongs(t, &studio{poll: func(asyncjob.Task) (*asyncjob.Status, error) { return &asyncjob.Status{Progress: -1}, nil }})
	ids := map[string]bool{}
	for range 3 {
		status, id := r.Post("/song/queue", `{}`, "")
		if ids[id] = true; status != http.StatusOK {
			t.Fatal(status, id)
		}
	}
	if status, answer := r.Post("/song/queue", `{}`, ""); status != http.StatusTooManyRequests {
		t.Error(status, answer)
	}
	wantBalance(t, r, thousand-3e9)
	// They are released before completion: their upstream confirms that it charges
	// nothing.
	for id := range ids {
		if status, answer := ask(t, r, "/song/complete", id, ""); status != http.StatusOK || answer != "released" {
			t.Error(status, answer)
		}
	}
	wantBalance(t, r, thousand)
}

// "I tried ids of others, and of nothing."
func TestJobsOfOthersAreUnknown(t *testing.T) {
	t.Parallel()
	r := startSongs(t, &studio{})
	_, id := r.Post("/song/queue", `{}`, "")
	stranger := r.Stranger(t)
	if status, answer := r.PostAs(stranger, "/song/retrieve", `{"queue_id":"`+id+`"}`); status != http.StatusNotFound {
		t.Error(status, answer)
	}
	for _, id := range []string{"", "x", strings.ToUpper(id), strings.Repeat("0", 36), id + "0", "' OR 1=1"} {
		if status, answer := ask(t, r, "/song/retrieve", id, ""); status != http.StatusNotFound {
			t.Error(id, status, answer)
		}
	}
}

// "My connection broke in the middle of the one download": it can be fetched again, and
// is deleted only after that.
func TestInterruptedFetchesCanBeRepeated(t *testing.T) {
	t.Parallel()
	s := &studio{long: "ID3\x04\x00" + strings.Repeat("la", 8<<20)}
	r := startSongs(t, s)
	_, id := r.Post("/song/queue", `{}`, "")
	for end := time.Now().Add(time.Minute); r.Gateway.JobStats().Completed == 0 && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
	}
	body := `{"queue_id":"` + id + `","delete":true}`
	conn, err := net.Dial("tcp", r.Address)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = fmt.Fprintf(conn, "POST %s/song/retrieve HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"+
		"Authorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s", routes.Prefix, r.Secret, len(body), body)
	if _, err := io.ReadFull(conn, make([]byte, 100<<10)); err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
	if status, answer := fetch(t, r, id, `,"delete":true`); status != http.StatusOK || answer != s.long {
		t.Fatal(status, len(answer))
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		status, answer := ask(t, r, "/song/retrieve", id, "")
		if status == http.StatusNotFound {
			break
		}
		if time.Now().After(end) {
			t.Fatal(status, len(answer))
		}
	}
}

// "The upstream says that it is done": the gateway polls it. Hooks that were never issued
// are unknown, forged ones included.
func TestAReportOnlyHasTheUpstreamAsked(t *testing.T) {
	t.Parallel()
	asked := make(chan string, 100)
	r := startSongs(t, &studio{poll: func(t asyncjob.Task) (*asyncjob.Status, error) {
		asked <- t.ID
		return &asyncjob.Status{Progress: -1, Retry: time.Minute}, nil
	}})
	_, id := r.Post("/song/queue", `{}`, "")
	<-asked // since it was queued
	path, ok := strings.CutPrefix(r.Gateway.HookOf(id), "http://gateway.example.com"+routes.Prefix)
	if !ok {
		t.Fatal(r.Gateway.HookOf(id))
	}
	forged := path[:len(path)-1] + string(path[len(path)-1]^1)
	for _, unknown := range []string{forged, "/jobs/hook/", "/jobs/hook/x", "/jobs/hook/" + id} {
		if status, answer := r.PostAs("", unknown, `{}`); status != http.StatusNotFound {
			t.Error(unknown, status, answer)
		}
	}
	if status, answer := r.PostAs("", path, `{"status":"COMPLETED"}`); status != http.StatusOK {
		t.Error(status, answer)
	}
	select {
	case <-asked:
	case <-time.After(time.Minute):
		t.Error("the upstream was not polled")
	}
}
