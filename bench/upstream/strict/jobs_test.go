package strict_test

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"farebox/bench/upstream"
	"farebox/bench/upstream/strict"
)

// asks sends a request of a job and gives status and body.
func asks(t *testing.T, base, method, path, auth, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequest(method, base+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	name, value, _ := strings.Cut(auth, ": ")
	if auth != "" {
		req.Header.Set(name, value)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return resp.StatusCode, err.Error()
	}
	return resp.StatusCode, string(text)
}

// Each API takes only its vendor's requests, with the key in its vendor's place.
func TestJobsAreTakenStrictly(t *testing.T) {
	t.Parallel()
	s := strict.New(upstream.Options{Key: "k"})
	t.Cleanup(s.Close)
	v1, err := s.Start()
	if err != nil {
		t.Fatal(err)
	}
	base := strings.TrimSuffix(v1, "/v1")
	f := func(want int, path, auth, body string) {
		t.Helper()
		if got, text := asks(t, base, "POST", path, auth, body); got != want {
			t.Errorf("%s %s: %d %.200s; expected %d", path, body, got, text, want)
		}
	}
	const fal, bearer, eleven = "Authorization: Key k", "Authorization: Bearer k", "xi-api-key: k"
	f(200, "/fal/a/music", fal, `{"prompt":"x","duration":3}`)
	f(401, "/fal/a/music", bearer, `{"prompt":"x"}`)
	f(401, "/fal/a/music", "", `{"prompt":"x"}`)
	f(422, "/fal/a/music", fal, `{"prompt":" "}`)
	f(422, "/fal/a/music", fal, `{"prompt":"x","loop":"yes"}`)
	f(422, "/fal/a/music", fal, `{"prompt":"x","unheard":1}`)
	f(422, "/fal/a/music", fal, `[]`)
	f(200, "/r/v1/models/a/music/predictions", bearer, `{"input":{"prompt":"x"}}`)
	f(200, "/r/v1/predictions", bearer, `{"version":"abc","input":{"prompt":"x"}}`)
	f(422, "/r/v1/predictions", bearer, `{"input":{"prompt":"x"}}`)
	f(422, "/r/v1/models/a/music/predictions", bearer, `{"input":{"prompt":"x"},"webhook_events_filter":["all"]}`)
	f(401, "/r/v1/models/a/music/predictions", fal, `{"input":{"prompt":"x"}}`)
	f(200, "/api/v1/audio/queue", bearer, `{"model":"m","prompt":"x","duration_seconds":"3"}`)
	f(400, "/api/v1/audio/queue", bearer, `{"model":"m","prompt":"x","seconds":3}`)
	f(400, "/api/v1/video/queue", bearer, `{"model":"m","prompt":"x"}`)
	f(404, "/api/v1/audio/retrieve", bearer, `{"model":"m","queue_id":"x"}`)
	f(200, "/v1/music", eleven, `{"prompt":"x","music_length_ms":3000}`)
	f(422, "/v1/music", eleven, `{"prompt":"x","music_length_ms":2999}`)
	f(422, "/v1/music?output_format=wav_1", eleven, `{"prompt":"x"}`)
	f(401, "/v1/music", bearer, `{"prompt":"x"}`)
}

// The truth of a job is its media and its charge, whichever client asked after it.
func TestTheTruthOfJobs(t *testing.T) {
	t.Parallel()
	s := strict.New(upstream.Options{})
	t.Cleanup(s.Close)
	v1, err := s.Start()
	if err != nil {
		t.Fatal(err)
	}
	base := strings.TrimSuffix(v1, "/v1")
	told := make(chan string, 1)
	hook := newHook(t, told)
	_, text := asks(t, base, "POST", "/fal/a/music?fal_webhook="+hook, "Authorization: Key k",
		`{"prompt":"[[sim polls=1 job=double]]","duration":5}`)
	at := strings.TrimPrefix(gjson.Get(text, "status_url").Str, base)
	select {
	case <-told:
	case <-time.After(10 * time.Second):
		t.Error("the hook got no call")
	}
	for _, want := range []string{"IN_PROGRESS", "COMPLETED", "COMPLETED"} {
		if _, text = asks(t, base, "GET", at, "Authorization: Key k", ""); gjson.Get(text, "status").Str != want {
			t.Errorf("%s; expected %s", text, want)
		}
	}
	_, text = asks(t, base, "GET", strings.TrimSuffix(at, "/status"), "Authorization: Key k", "")
	link := strings.TrimPrefix(gjson.Get(text, "audio.url").Str, base)
	if status, file := asks(t, base, "GET", link, "Authorization: Key k", ""); status != 200 || len(file) < 1000 {
		t.Error(status, len(file))
	}
	made, charged, leaked := 0, 0, 0
	for _, o := range s.Orders() {
		for n, is := range map[*int]bool{&made: o.Made, &charged: o.Charged, &leaked: o.Leaked} {
			if is {
				*n++
			}
		}
		if o.Seconds != 5 || o.Kind != "music" || o.Door != "fal" {
			t.Errorf("%+v", o)
		}
	}
	if len(s.Orders()) != 2 || made != 1 || charged != 1 || leaked != 1 {
		t.Errorf("%+v", s.Orders())
	}
}

// newHook is a server for webhooks of changes.
func newHook(t *testing.T, told chan<- string) string {
	t.Helper()
	srv := &http.Server{Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { told <- r.URL.Path })}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = srv.Serve(ln) }()
	t.Cleanup(func() { srv.Close() })
	return "http://" + ln.Addr().String() + "/hook"
}
