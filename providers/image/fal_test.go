package image_test

import (
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"farebox/providers/attempt"
	"farebox/providers/image"
	"farebox/proxy"
)

// fal's steps fail one by one.
func TestFalFailsAtEveryStep(t *testing.T) {
	t.Parallel()
	s, root := simulated(t)
	d := dialects["fal"]
	for sim, want := range map[string]int{
		"status=500 at=submit": 500, "status=422 at=submit": 400, "status=404 at=status": 503,
		"status=500 at=status": 500,
		"status=500 at=result": 500, "status=422 at=result": 400, "status=404 at=file": 502, "empty=1": 502,
		"cut=fin": 0, "hang=1": 0,
	} {
		g := newRig(t, guarded)
		tg := d.at(t, root, sim, func(o *proxy.EndpointOptions) { o.FirstByte = 300 * time.Millisecond })
		if _, f := g.do(jobOf(t, image.Generate), tg); f == nil || f.Failure.Status != want {
			t.Errorf("%s: %v", sim, f)
		}
	}
	if !s.WaitIdle(10 * time.Second) {
		t.Error("requests are still open")
	}
}

// "Status and result of a workflow were asked of an app that does not exist": paths of apps have two or three parts.
func TestFalIsAskedForTheApp(t *testing.T) {
	t.Parallel()
	s, root := simulated(t)
	g := newRig(t, guarded)
	for _, model := range []string{"fal-ai/sim", "fal-ai/sim/dev/fast", "workflows/sim/dev", "workflows/sim/dev/fast", "comfy/sim/dev"} {
		tg := dialects["fal"].at(t, root, "")
		tg.Model = model
		if r, f := g.do(jobOf(t, image.Generate), tg); f != nil || len(r.Images) != 1 {
			t.Errorf("%s: %+v", model, f)
		}
	}
	if n := s.Stats().Endpoints["fal_result"].Requests; n != 5 {
		t.Errorf("the queue was asked for %d results", n)
	}
}

// Addresses that the queue names are asked where they are its own.
func TestFalNamesItsAddresses(t *testing.T) {
	t.Parallel()
	var asked []string
	var base string
	base = server(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		asked = append(asked, r.Method+" "+r.URL.Path)
		switch r.URL.Path {
		case "/fal/a/b":
			jsonAnswer(w, `{"request_id":"abc","status_url":"`+base+`/fal/elsewhere/s","response_url":"http://169.254.169.254/r"}`)
		case "/fal/elsewhere/s":
			jsonAnswer(w, `{"status":"COMPLETED"}`)
		default:
			jsonAnswer(w, `{"images":[]}`)
		}
	})
	tg := dialects["fal"].at(t, base, "")
	tg.Model = "a/b"
	newRig(t).do(jobOf(t, image.Generate), tg)
	want := "POST /fal/a/b, GET /fal/elsewhere/s, GET /fal/a/b/requests/abc"
	if got := strings.Join(asked, ", "); got != want {
		t.Errorf("asked were %s, expected %s", got, want)
	}
}

// Links in a result are fetched through the guard, never elsewhere.
func TestFalLinksGoThroughTheGuard(t *testing.T) {
	t.Parallel()
	s, root := simulated(t)
	for _, link := range []string{
		"http://169.254.169.254/latest/meta-data/", "http://127.0.0.2:80/", "http://[::1]/", "http://10.0.0.1/",
		"file:///etc/passwd", "http://2130706433/",
		"http://user:pw@127.0.0.1/", "gopher://127.0.0.1/", "//127.0.0.1/", "data:text/html;base64,PGh0bWw+",
		"http://127.0.0.1:1/", "", "x",
	} {
		g := newRig(t, guarded)
		tg := dialects["fal"].at(t, root, "link="+url.QueryEscape(link))
		if _, f := g.do(jobOf(t, image.Generate), tg); link != "" &&
			(f == nil || f.Failure.Status != 502 || f.Failure.Verdict.Do != attempt.Retry) {
			t.Errorf("%s: %v", link, f)
		}
	}
	for _, last := range s.Last() {
		if strings.Contains(last.Path, "latest") {
			t.Error("an address of the queue's was followed")
		}
	}
	// Without a fetcher nothing is fetched at all.
	g := newRig(t)
	if _, f := g.do(jobOf(t, image.Generate), dialects["fal"].at(t, root, "")); f == nil || f.Failure.Status != 502 {
		t.Errorf("%+v", f)
	}
	// Images inside the result need none.
	if r, f := g.do(jobOf(t, image.Generate), dialects["fal"].at(t, root, "image=prefixed")); f != nil ||
		len(r.Images) != 1 {
		t.Errorf("%+v", f)
	}
}

// A client that leaves while its job is queued takes it from the queue.
func TestALeavingClientCancelsItsFalJob(t *testing.T) {
	t.Parallel()
	s, root := simulated(t)
	g := newRig(t, guarded)
	ends, leave := g.ask(jobOf(t, image.Generate), dialects["fal"].at(t, root, "polls=1000000"))
	eventually(t, "the job is queued", func() bool { return s.Stats().Endpoints["fal_status"].Requests > 2 })
	leave()
	if e := <-ends; e.f == nil || e.f.Cause != proxy.ClientGone {
		t.Errorf("%+v", e)
	}
	if s.Cancelled() != 1 {
		t.Error("the job was not cancelled")
	}
	if g.proxy.Active() != 0 {
		t.Error("something is left")
	}
}

// A job that takes longer than jobs may is ended and cancelled.
func TestAFalJobThatTakesTooLongIsCancelled(t *testing.T) {
	t.Parallel()
	s, root := simulated(t)
	g := newRig(t, guarded, func(o *image.Options) { o.Limit = 300 * time.Millisecond })
	_, f := g.do(jobOf(t, image.Generate), dialects["fal"].at(t, root, "polls=1000000"))
	if f == nil || f.Cause != proxy.TotalTimeout || s.Cancelled() != 1 {
		t.Errorf("%+v, %d cancelled", f, s.Cancelled())
	}
}

// A queue that does not hear of the cancellation does not hold the job up.
func TestACancellationMayNotTakeLong(t *testing.T) {
	t.Parallel()
	asked := make(chan bool, 1)
	url := server(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		switch {
		case r.Method == http.MethodPost:
			jsonAnswer(w, `{"request_id":"abc"}`)
		case r.Method == http.MethodPut:
			asked <- true
			<-r.Context().Done()
		default:
			jsonAnswer(w, `{"status":"IN_QUEUE"}`)
		}
	})
	g := newRig(t, func(o *image.Options) { o.Limit, o.Cancel = 200*time.Millisecond, 200*time.Millisecond })
	tg := dialects["fal"].at(t, url, "", func(o *proxy.EndpointOptions) { o.FirstByte = time.Hour })
	if _, f := g.do(jobOf(t, image.Generate), tg); f == nil || f.Cause != proxy.TotalTimeout || len(asked) != 1 {
		t.Errorf("%v, %d cancellations", f, len(asked))
	}
	if g.proxy.Active() != 0 {
		t.Error("something is left")
	}
}
