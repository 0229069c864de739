package video

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"farebox/bench/upstream/film"
	"farebox/providers/fetch/fetchtest"
)

// redirecting is a public site with links that lead to other places.
func redirecting(t *testing.T) (site string, port string) {
	t.Helper()
	port = fetchtest.Inside(t)
	reel := film.MP4(film.Film{Length: 3 * time.Second, Width: 16, Height: 16, Rate: 24})
	m := http.NewServeMux()
	m.HandleFunc("/final", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "video/mp4")
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader(string(reel)))
	})
	lead := func(path, to string) {
		m.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, to, http.StatusFound) })
	}
	lead("/out", "/hop")
	lead("/hop", "/final?token=a%2Fb&n=1")
	lead("/in", "http://127.0.0.2:"+port+"/secret")
	lead("/deep", "/in")
	lead("/meta", "http://169.254.169.254/latest/meta-data/")
	lead("/loop", "/loop")
	lead("/file", "file:///etc/passwd")
	m.HandleFunc("/vague", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", "http://127.0.0.2:"+port+"/secret")
		w.WriteHeader(http.StatusMultipleChoices) // some clients follow that
	})
	s := httptest.NewServer(m)
	t.Cleanup(s.Close)
	return s.URL, port
}

// asked says whether the upstream was given a text.
func (s *cinema) asked(text string) bool {
	for _, r := range s.sim.Last() {
		if strings.Contains(string(r.Body), text) {
			return true
		}
	}
	return false
}

// "The link was public. Where it led was the upstream's own network." An upstream is given
// the public address where a link ends, and no link that leads inward.
func TestLinksOfClientsLeadNoUpstreamInward(t *testing.T) {
	t.Parallel()
	s := startWith(t, "", "", "", `
  - { name: shy, dialect: fal, base_url: "%[1]s/fal", key: k, links: none }
`, `
  - id: shy
    type: video
    tier: unlimited
    constraints: { durations: [5s] }
    inputs: { image: optional }
    price: { second: { any: 0.05 } }
    targets: [{ upstream: shy, model: sim/video }]
`)
	site, _ := redirecting(t)
	key := s.account("redirects")
	image := func(link string) string { return `"image_url":"` + link + `"` }
	clip := func(link string) string { return `"reference_video_urls":["` + link + `"]` }
	order := func(model, with string) string {
		return `{"model":"` + model + `","prompt":"[[sim polls=1000]] x","duration":"5s",` + with + `}`
	}
	for _, path := range []string{"/in", "/deep", "/meta", "/loop", "/file", "/vague"} {
		for member, with := range map[string]string{"image_url": image(site + path), "reference_video_urls.0": clip(site + path)} {
			status, _, body := s.Post("/video/queue", key, order("by-second", with))
			if status != 400 || !strings.Contains(string(body), member) || strings.Contains(string(body), "127.0.0.2") {
				t.Errorf("%s in %s is %d %s", path, member, status, body)
			}
			if s.asked(site + path) {
				t.Errorf("the upstream was given %s", path)
			}
		}
	}
	s.spent(t, key, "0")

	s.queue(t, key, order("by-second", image(site+"/out")))
	s.queue(t, key, order("by-second", clip(site+"/out")))
	if s.asked(site+"/out") || !s.asked(site+"/final?token=a%2Fb&n=1") && !s.asked(site+`/final?token=a%2Fb\u0026n=1`) {
		t.Error("the upstream was not given where the links end")
	}
	s.queue(t, key, order("by-second", image(site+"/final?as=it+is#here")))
	if !s.asked(site + "/final?as=it+is#here") {
		t.Error("a link without a redirect was changed")
	}
	s.spent(t, key, "0.7803")

	// An upstream that follows no links is given none.
	status, _, body := s.Post("/video/queue", key, order("shy", image(site+"/final")))
	if status != 400 || !strings.Contains(string(body), "image_url: must be a data URL") {
		t.Errorf("a link for links: none is %d %s", status, body)
	}
	s.queue(t, key, order("shy", image("data:image/png;base64,iVBORw0KGgowMDAw")))
	s.spent(t, key, "1.0303")
}
