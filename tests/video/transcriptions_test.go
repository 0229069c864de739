package video

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"farebox/bench/upstream/film"
)

// listeners transcribe videos, at 100,000 nano-USD a second.
const listeners = `
  - id: ears
    type: asr
    tier: unlimited
    max_seconds: 30
    video_links: true
    capabilities: { timestamps: [segment] }
    price: { per_audio_second: 0.0001 }
    targets: [{ upstream: ears, model: whisper-large }]
`

// "I name a video, and am given what is said in it." It costs its seconds, and nothing
// without a transcript.
func TestVideosOnTheWebAreTranscribed(t *testing.T) {
	t.Parallel()
	s := startWith(t, "", "", "", `
  - { name: ears, base_url: "%[1]s/v1", breaker: { failures: 0 } }
`, listeners)
	key := s.account("films")
	files := map[string][]byte{
		"/film.mp4":  film.MP4(film.Film{Length: 7500 * time.Millisecond, Width: 16, Height: 16, Rate: 4, Sound: true}),
		"/long.mp4":  film.MP4(film.Film{Length: 40 * time.Second, Width: 16, Height: 16, Rate: 1, Sound: true}),
		"/mute.mp4":  film.MP4(film.Film{Length: 2 * time.Second, Width: 16, Height: 16, Rate: 4}),
		"/watch":     []byte(`<!doctype html><html><head><meta property="og:video" content="/film.mp4"></head>`),
		"/player":    []byte(`<!doctype html><html><video src="/watch"></video>`),
		"/nothing":   []byte(`<!doctype html><html><p>no video</p>`),
		"/inside":    []byte(`<!doctype html><html><video src="http://127.0.0.2/film.mp4"></video>`),
		"/large.mp4": make([]byte, 26<<20),
		"/text":      []byte("not a film"),
	}
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			t.Error("a site was shown a key")
		}
		if file, ok := files[r.URL.Path]; ok {
			http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(file))
			return
		}
		http.NotFound(w, r)
	}))
	t.Cleanup(site.Close)
	ask := func(path, more string) (int, http.Header, string) {
		status, header, answer := s.Post("/video/transcriptions", key, fmt.Sprintf(`{"url":%q%s}`, site.URL+path, more))
		return status, header, string(answer)
	}

	status, header, answer := ask("/film.mp4", "")
	var said struct{ Transcript, Lang string }
	if err := json.Unmarshal([]byte(answer), &said); err != nil || status != 200 || said.Transcript == "" || said.Lang == "" ||
		header.Get("X-Svc-Model-Id") != "ears" {
		t.Errorf("a file is %d %v %s", status, header, answer)
	}
	s.spent(t, key, "0.0008")
	status, header, answer = ask("/watch", `,"response_format":"text"`)
	if status != 200 || answer != said.Transcript || !strings.HasPrefix(header.Get("Content-Type"), "text/plain") {
		t.Errorf("a page is %d %v %q, not %q", status, header, answer, said.Transcript)
	}
	s.spent(t, key, "0.0016")
	for path, says := range map[string]string{
		"/long.mp4": "at most 30 seconds", "/mute.mp4": "no sound", "/player": "names no video file", "/nothing": "names no video file",
		"/inside": "may not be fetched", "/large.mp4": "too large", "/text": "url", "/missing": "status 200",
	} {
		if status, _, answer := ask(path, ""); status != 400 || !strings.Contains(answer, says) {
			t.Errorf("%s is %d %s", path, status, answer)
		}
	}
	for _, body := range []string{`{}`, `{"url":""}`, `{"url":1}`, `{"url":"x"}`, `{"url":"file:///etc/passwd"}`,
		`{"url":"http://10.0.0.1/x"}`, `{"url":"` + site.URL + `/film.mp4","response_format":"srt"}`} {
		if status, _, answer := s.Post("/video/transcriptions", key, body); status != 400 {
			t.Errorf("%s is %d %s", body, status, answer)
		}
	}
	s.spent(t, key, "0.0016")
	s.MetricIs("farebox_holds_open", func(n float64) bool { return n == 0 })
	last := 0
	for range 25 {
		if last, _, _ = ask("/nothing", ""); last == 429 {
			break
		}
	}
	if last != 429 {
		t.Error("a site is asked as often as a client likes")
	}
}

// Without a model for it there is no such endpoint.
func TestTranscriptionsAreOff(t *testing.T) {
	t.Parallel()
	s := start(t, "", "", "")
	if status, _, _ := s.Post("/video/transcriptions", s.account("off"), `{"url":"https://example.com/"}`); status != 404 {
		t.Errorf("it is %d", status)
	}
}
