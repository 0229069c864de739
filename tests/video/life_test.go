package video

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"farebox/bench/upstream"
	"farebox/providers/video"
	"farebox/tests/rig"
)

// Everything that can become of a job, on one gateway.
func TestVideos(t *testing.T) {
	t.Parallel()
	s := start(t, "", "", "")
	for _, one := range []struct{ door, model, price string }{
		{"fal", "by-second", "0.25"}, {"replicate", "by-piece", "0.085"}, {"native", "gift", "0"},
	} {
		t.Run("a job from its order to its release at "+one.door, func(t *testing.T) {
			t.Parallel()
			s.wholeLife(t, one.door, one.model, one.price)
		})
	}
	for _, one := range []struct{ door, model, price string }{
		{"fal", "by-second", "0.05"}, {"replicate", "by-piece", "0.085"}, {"native", "either", "0.12"},
	} {
		t.Run("a failed job is refunded once at "+one.door, func(t *testing.T) {
			t.Parallel()
			s.failures(t, one.door, one.model)
		})
	}
	for name, test := range map[string]func(*testing.T){
		"a repeated order is one job":           s.repeatedOrder,
		"a film is deleted once it was fetched": s.fetchedOnce,
		"a released job is cancelled":           s.letGo,
		"a film with inputs of its client":      s.inputs,
		"consents":                              s.consents,
		"refusals":                              s.refusals,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t)
		})
	}
}

// duration is one that a model takes.
func duration(model string) string {
	if model == "either" {
		return "4s"
	}
	return "5s"
}

// "I order a film, ask until it is there, save it, and let it go."
func (s *cinema) wholeLife(t *testing.T, door, model, price string) {
	key := s.account("life-" + door)
	name := model
	if model == "by-second" {
		name = "movie"
	}
	quote := s.Must(200, "POST", "/video/quote", key, fmt.Sprintf(`{"model":%q,"duration":"5s"}`, name), nil)
	if string(quote) != `{"quote":`+price+`}` {
		t.Errorf("the quote is %s", quote)
	}
	q := s.queue(t, key, fmt.Sprintf(`{"model":%q,"prompt":"[[sim polls=3]] at %s","duration":"5s"}`, name, door))
	if q.Model != model || q.Link != "" {
		t.Errorf("it is queued as %+v", q)
	}
	s.spent(t, key, price)
	s.running(t, key, model, q.ID)
	s.fetched(t, key, name, q.ID)
	s.foreign(t, door, key, model, q.ID)

	complete := fmt.Sprintf(`{"model":%q,"queue_id":%q}`, model, q.ID)
	if answer := s.Must(200, "POST", "/video/complete", key, complete, nil); string(answer) != `{"success":true}` {
		t.Errorf("the release says %s", answer)
	}
	for _, path := range []string{"/video/retrieve", "/video/complete"} {
		s.Must(404, "POST", path, key, complete, nil)
	}
	rig.Await(t, "the film is deleted", func() bool { return !s.kept(q.ID) })
	s.spent(t, key, price)
	orders := s.ordered("at " + door)
	if len(orders) != 1 || orders[0].Door != door || !orders[0].Made || orders[0].Leaked || orders[0].Fetched != 1 {
		t.Errorf("the upstream has seen %+v", orders)
	}
}

// ordered are the orders at the upstream whose prompts end so.
func (s *cinema) ordered(suffix string) (list []upstream.Ordered) {
	for _, o := range s.sim.Orders() {
		if strings.HasSuffix(o.Prompt, suffix) {
			list = append(list, o)
		}
	}
	return list
}

func (s *cinema) running(t *testing.T, key, model, id string) {
	status, _, body := s.ask(key, model, id, "")
	var running struct {
		Status   string
		Progress *int   `json:"progress_percent"`
		Average  *int64 `json:"average_execution_time"`
		Took     *int64 `json:"execution_duration"`
	}
	if err := json.Unmarshal(body, &running); err != nil || status != 200 || running.Status != "processing" ||
		running.Progress == nil || *running.Progress > 99 || running.Average == nil || running.Took == nil {
		t.Errorf("a running job is %d %.200s", status, body)
	}
}

func (s *cinema) fetched(t *testing.T, key, model, id string) {
	status, header, body := s.await(t, key, model, strings.ToUpper(id), "")
	m, err := video.Read(body)
	if status != 200 || header.Get("Content-Type") != "video/mp4" || err != nil || !m.Film ||
		math.Abs(m.Length.Seconds()-5) > 0.1 || header.Get("Cache-Control") != "private, no-store" ||
		header.Get("X-Svc-Model-Id") != "" && header.Get("X-Svc-Model-Id") != model {
		t.Errorf("the film is %d %v, %d bytes, %+v, %v", status, header, len(body), m, err)
	}
	if _, _, again := s.ask(key, model, id, ""); string(again) != string(body) {
		t.Error("the film is another one the second time")
	}
	if !s.kept(id) {
		t.Error("the film is not kept")
	}
}

// foreign asks for a job with another model, id and account.
func (s *cinema) foreign(t *testing.T, door, key, model, id string) {
	for _, body := range []string{
		fmt.Sprintf(`{"model":"linked","queue_id":%q}`, id), // another model
		fmt.Sprintf(`{"model":%q,"queue_id":"0197c3b2-8d4e-7a61-9c55-3f2b1a0d9e87"}`, model),
	} {
		if status, _, answer := s.Post("/video/retrieve", key, body); status != 404 ||
			!strings.Contains(string(answer), "MEDIA_NOT_FOUND") {
			t.Errorf("%s is %d %s", body, status, answer)
		}
	}
	other := s.account("other-" + door)
	own := fmt.Sprintf(`{"model":%q,"queue_id":%q}`, model, id)
	for _, path := range []string{"/video/retrieve", "/video/complete"} {
		s.Must(404, "POST", path, other, own, nil)
	}
	if status, _, _ := s.Post("/audio/retrieve", key, own); status != 404 {
		t.Errorf("a film is sound: %d", status)
	}
	s.Must(200, "POST", "/video/retrieve", s.Key("life-"+door), own, nil)
}

// "It failed, and my money is back." Whatever the reason, and however often it is asked
// for; a refusal says which model may take it.
func (s *cinema) failures(t *testing.T, door, model string) {
	key := s.account("fail-" + door)
	for _, directive := range []string{"job=fail", "job=fail kind=policy", "job=wrongtype"} {
		q := s.queue(t, key, fmt.Sprintf(`{"model":%q,"prompt":"[[sim %s]] x","duration":%q}`, model, directive,
			duration(model)))
		status, _, body := s.await(t, key, model, q.ID, "")
		var said struct {
			Status, Error string
			Code          string `json:"error_code"`
			Recommend     string `json:"recommended_model"`
			Refunded      *bool  `json:"credits_refunded"`
		}
		policy := strings.Contains(directive, "policy")
		if err := json.Unmarshal(body, &said); err != nil || status != 200 || said.Status != "failed" ||
			said.Error == "" || policy != (said.Code == "CONTENT_POLICY_VIOLATION") || said.Refunded == nil ||
			strings.Contains(string(body), "internal.simulated") {
			t.Errorf("%s at %s is %d %s", directive, door, status, body)
		}
		if policy && model == "by-piece" && said.Recommend != "by-second" {
			t.Errorf("%s at %s recommends %q", directive, door, said.Recommend)
		}
		if status, _, body := s.until(t, key, model, q.ID, "", refunded); status != 200 {
			t.Errorf("it is not refunded: %d %s", status, body)
		}
	}
	s.spent(t, key, "0")
	if status, _, answer := s.Post("/video/queue", key, fmt.Sprintf(
		`{"model":%q,"prompt":"[[sim at=submit status=422]] x","duration":%q}`, model, duration(model))); status/100 != 4 ||
		strings.Contains(string(answer), "internal.simulated") {
		t.Errorf("an order that %s refuses is %d %s", door, status, answer)
	}
	s.spent(t, key, "0")
}

// "The same order with the same key is one film."
func (s *cinema) repeatedOrder(t *testing.T) {
	key := s.account("repeat")
	const body = `{"model":"by-second","prompt":"a film that is ordered twice","duration":"5s"}`
	_, _, first := s.WithKey("/video/queue", key, "order-1", body)
	_, header, second := s.WithKey("/video/queue", key, "order-1", body)
	if first != second || header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("%s, then %s", first, second)
	}
	if status, _, _ := s.WithKey("/video/queue", key, "order-1",
		`{"model":"by-second","prompt":"another","duration":"5s"}`); status != 400 {
		t.Errorf("another order with the same key is %d", status)
	}
	s.spent(t, key, "0.25")
	if n := len(s.ordered("ordered twice")); n != 1 {
		t.Errorf("%d films were ordered", n)
	}
}

// "Fetch it and forget it."
func (s *cinema) fetchedOnce(t *testing.T) {
	key := s.account("once")
	q := s.queue(t, key, `{"model":"gift","prompt":"x","duration":"5s"}`)
	status, _, body := s.await(t, key, "gift", q.ID, `,"delete_media_on_completion":true`)
	if status != 200 || len(body) < 1000 {
		t.Fatalf("it is %d %.200s", status, body)
	}
	rig.Await(t, "the film is gone", func() bool {
		status, _, _ := s.ask(key, "gift", q.ID, "")
		return status == 404 && !s.kept(q.ID)
	})
}

// "I do not want it any more." The upstream gets a cancellation, and the uncharged part
// is refunded; a second release finds nothing.
func (s *cinema) letGo(t *testing.T) {
	key := s.account("release")
	q := s.queue(t, key, `{"model":"by-second","prompt":"[[sim polls=1000]] not wanted","duration":"5s"}`)
	own := fmt.Sprintf(`{"model":"by-second","queue_id":%q}`, q.ID)
	s.Must(200, "POST", "/video/complete", key, own, nil)
	s.Must(404, "POST", "/video/retrieve", key, own, nil)
	s.Must(404, "POST", "/video/complete", key, own, nil)
	rig.Await(t, "the upstream stops", func() bool {
		o := s.ordered("not wanted")
		return len(o) == 1 && o[0].Cancelled
	})
	s.spent(t, key, "0")
}

// "You may upload faces if you agree to this."
func (s *cinema) consents(t *testing.T) {
	key := s.account("consents")
	const image = `"image_url":"data:image/png;base64,iVBORw0KGgowMDAw"`
	status, _, answer := s.Post("/video/queue", key, `{"model":"faces","prompt":"x","duration":"5s",`+image+`}`)
	var want struct {
		Error struct{ Code, Message string }
		Flow  string   `json:"consent_flow"`
		Roles []string `json:"face_media_roles"`
		Terms struct {
			Version string `json:"consent_version"`
			Text    string `json:"policy_text"`
		} `json:"consent"`
		Docs string `json:"docs_url"`
	}
	if err := json.Unmarshal(answer, &want); err != nil || status != 409 || want.Error.Code != "needs_consent" ||
		want.Error.Message == "" || want.Flow != "acme" || fmt.Sprint(want.Roles) != "[image_url]" ||
		want.Terms.Version != "2026-01" || want.Terms.Text != `No "faces".` || want.Docs != "https://example.com/terms" {
		t.Errorf("it is %d %s", status, answer)
	}
	s.spent(t, key, "0")
	s.queue(t, key, `{"model":"faces","prompt":"[[sim polls=1000]]no face","duration":"5s"}`)
	s.queue(t, key, `{"model":"faces","prompt":"[[sim polls=1000]]a face","duration":"5s",`+image+
		`,"consents":{"acme":{"confirmed_terms_and_privacy":true,"confirmed_legal_right":true,`+
		`"confirmed_screening_acknowledged":true}}}`)
	s.spent(t, key, "0.5")
}

// Members that a model does not support are rejected by name, whatever it costs, and cost nothing.
func (s *cinema) refusals(t *testing.T) {
	key := s.account("refusals")
	for _, one := range []struct {
		body, says string
		status     int
	}{
		{`{"model":"nobody","prompt":"x","duration":"5s"}`, "MODEL_NOT_FOUND", 404},
		{`{"model":"by-second","duration":"5s"}`, "prompt", 400},
		{`{"model":"by-second","prompt":" ","duration":"5s"}`, "prompt", 400},
		{`{"model":"by-second","prompt":"` + strings.Repeat("x", 501) + `","duration":"5s"}`, "500", 400},
		{`{"model":"by-second","prompt":"x"}`, "duration", 400},
		{`{"model":"by-second","prompt":"x","duration":5}`, "duration", 400},
		{`{"model":"by-second","prompt":"x","duration":"6s"}`, "5s, 10s", 400},
		{`{"model":"by-second","prompt":"x","duration":"5s","resolution":"256p"}`, "480p, 720p, 1080p", 400},
		{`{"model":"by-second","prompt":"x","duration":"5s","aspect_ratio":"1:1"}`, "16:9", 400},
		{`{"model":"by-piece","prompt":"x","duration":"5s","aspect_ratio":"16:9"}`, "aspect_ratio", 400},
		{`{"model":"by-piece","prompt":"x","duration":"5s","audio":true}`, "audio", 400},
		{`{"model":"by-piece","prompt":"x","duration":"5s","seed":1}`, "seed", 400},
		{`{"model":"by-piece","prompt":"x","duration":"5s","upscale_factor":2}`, "upscale_factor", 400},
		{`{"model":"either","prompt":"x","duration":"4s","bitrate_mode":"low"}`, "bitrate_mode", 400},
		{`{"model":"by-second","prompt":"x","duration":"5s","image_url":"http://127.0.0.2/x.png"}`, "image_url", 400},
		{`{"model":"by-second","prompt":"x","duration":"5s","reference_video_urls":["` + reel(1e9, 16, 24) + `"]}`,
			"VIDEO_DURATION_TOO_SHORT", 422},
		{`{"model":"larger","video_url":"` + reel(31e9, 16, 4) + `"}`, "VIDEO_DURATION_TOO_LONG", 422},
		{`{"model":"larger"}`, "video_url", 400},
		{`{"model":"by-second",`, "", 400},
	} {
		status, _, answer := s.Post("/video/queue", key, one.body)
		var said struct {
			Error string
		}
		if err := json.Unmarshal(answer, &said); status != one.status || err != nil || said.Error == "" ||
			!strings.Contains(string(answer), one.says) {
			t.Errorf("%.150s is %d %s, not %d", one.body, status, answer, one.status)
		}
	}
	for _, id := range []string{"", "x", strings.Repeat("0", 65)} {
		if status, _, answer := s.ask(key, "by-second", id, ""); status != 400 {
			t.Errorf("queue_id %q is %d %s", id, status, answer)
		}
	}
	s.spent(t, key, "0")
}

// Clients' inputs reach the upstream unchanged, and stay out of the ledger.
func (s *cinema) inputs(t *testing.T) {
	key := s.account("inputs")
	image := "data:image/png;base64,iVBORw0KGgo" + strings.Repeat("qmux", 100_000)
	s.queue(t, key, `{"model":"by-second","prompt":"[[sim polls=1000]]with a picture","duration":"5s","image_url":"`+image+`"}`)
	found := false
	for end := time.Now().Add(time.Minute); !found && time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		for _, r := range s.sim.Last() {
			found = found || strings.Contains(string(r.Body), image)
		}
	}
	if !found {
		t.Error("the upstream did not get the picture")
	}
	s.spent(t, key, "0.25")
	_ = filepath.WalkDir(s.Store, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil
		}
		if raw, err := os.ReadFile(path); err == nil && strings.Contains(string(raw), "qmuxqmuxqmux") {
			t.Errorf("%s holds a client's picture", path)
		}
		return nil
	})
}
