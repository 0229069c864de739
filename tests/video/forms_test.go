package video

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// "Nobody waits for a queue that is full: it says so."
func TestAFullQueueSaysSo(t *testing.T) {
	t.Parallel()
	s := start(t, ", per_account: 2", "", "")
	key := s.account("full")
	for range 2 {
		s.queue(t, key, `{"model":"by-second","prompt":"[[sim job=stuck]] x","duration":"5s"}`)
	}
	status, header, answer := s.Post("/video/queue", key, `{"model":"by-second","prompt":"x","duration":"5s"}`)
	if status != 429 || header.Get("Retry-After") == "" || !strings.Contains(string(answer), "RATE_LIMIT_EXCEEDED") {
		t.Errorf("a third job is %d %s", status, answer)
	}
	s.spent(t, key, "0.5")
}

// Clients of the original service compare other words, and other status codes; and expect
// links in place of media.
func TestOtherFormsOfAnswers(t *testing.T) {
	t.Parallel()
	s := start(t, "", "", "compat: { job_status: upper, job_failure: http }")
	key := s.account("forms")
	q := s.queue(t, key, `{"model":"by-piece","prompt":"[[sim polls=20]] x","duration":"5s"}`)
	if _, _, body := s.ask(key, "by-piece", q.ID, ""); !strings.HasPrefix(string(body), `{"status":"PROCESSING",`) {
		t.Errorf("a running job is %s", body)
	}
	q = s.queue(t, key, `{"model":"by-piece","prompt":"[[sim job=fail]] x","duration":"5s"}`)
	if status, _, body := s.await(t, key, "by-piece", q.ID, ""); status != 500 || !strings.Contains(string(body), `"code":`) {
		t.Errorf("a failed job is %d %s", status, body)
	}
	q = s.queue(t, key, `{"model":"by-piece","prompt":"[[sim job=fail kind=policy]] x","duration":"5s"}`)
	s.await(t, key, "by-piece", q.ID, "")
	status, _, body := s.until(t, key, "by-piece", q.ID, "", refunded)
	var said struct {
		Error struct {
			Message, Type string
			Recommend     string `json:"recommended_model"`
			Refunded      *bool  `json:"credits_refunded"`
		}
	}
	if err := json.Unmarshal(body, &said); err != nil || status != 422 || said.Error.Message == "" ||
		said.Error.Type != "provider_content_policy" || said.Error.Recommend != "by-second" || said.Error.Refunded == nil {
		t.Errorf("a refused job is %d %s", status, body)
	}
	s.spent(t, key, "0.085")
}

// With media.links answers carry the link of the media, and its expiry.
func TestLinksInPlaceOfFilms(t *testing.T) {
	t.Parallel()
	s := start(t, "", ", links: true", "")
	key := s.account("links")
	q := s.queue(t, key, `{"model":"gift","prompt":"x","duration":"5s"}`)
	status, _, body := s.await(t, key, "gift", q.ID, "")
	var said struct {
		Status, URL string
		Expires     time.Time `json:"expires_at"`
	}
	if err := json.Unmarshal(body, &said); err != nil || status != 200 || said.Status != "completed" ||
		time.Until(said.Expires) < time.Hour || !strings.HasPrefix(said.URL, "https://films.example/") {
		t.Fatalf("it is %d %s", status, body)
	}
	for range 2 { // as often as one likes
		status, header, film := get(t, "GET", s.Origin+strings.TrimPrefix(said.URL, "https://films.example"), "")
		if status != 200 || header.Get("Content-Type") != "video/mp4" || len(film) < 1000 {
			t.Errorf("the film is %d %v", status, header)
		}
	}
}
