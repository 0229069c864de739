package augment

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"farebox/bench/servers"
	"farebox/tests/rig"
)

// A page that is empty without its scripts is read by the operator's browser, a local
// process or a remote service; its script reaches the site's public addresses and no
// internal ones. The binary's own log and the bill do not tell one page from another.
func TestLongPagesOfScriptsAreRendered(t *testing.T) {
	path := servers.Chromium(t)
	if os.Geteuid() == 0 { // as in a container, where Chromium has no sandbox of its own
		path = script(t, "exec "+path+` --no-sandbox "$@"`)
	}
	inward, hits := internal(t)
	app := `<!doctype html><title>App</title><div id=root></div><script>
Promise.allSettled(["http://INSIDE/fetch", "http://169.254.169.254/latest/"].map(u => fetch(u, { mode: "no-cors" })))
  .then(() => { new Image().src = "http://INSIDE/image"; return fetch("/part") }).then(r => r.text())
  .then(x => { document.getElementById("root").innerHTML = x })</script>`
	p := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/part":
			says(200, "text/html", article("<p>rookery by a script</p>"))(w, r)
		case strings.HasPrefix(r.URL.Path, "/app"):
			says(200, "text/html", strings.ReplaceAll(app, "INSIDE", inward))(w, r)
		case r.URL.Path == "/endless":
			says(200, "text/html", "<!doctype html><div></div><script>for(;;);</script>")(w, r)
		default:
			w.WriteHeader(404)
		}
	})
	config := func(js string) string {
		return settings + "augment: { scrape: { rate: { rpm: 0 }, js: " + js + " } }\n"
	}
	s := start(t, config("{ engine: none }"), "10")
	rig.Await(t, "without a browser there is no text", func() bool {
		status, _, answer := s.ask(t, scraping, `{"url":"`+p.URL+`/app"}`)
		return status == 500 && strings.Contains(answer, "no readable text")
	})
	s.charged(t, 0)
	for name, js := range map[string]string{
		"by path":   fmt.Sprintf("{ engine: chromium, path: %q, timeout: 30s }", path),
		"from afar": fmt.Sprintf("{ engine: remote, url: %q, timeout: 30s }", servers.StartChromium(t, path)),
	} {
		t.Run(name, func(t *testing.T) {
			s.reload(config(js))
			status, _, answer := s.ask(t, scraping, `{"url":"`+p.URL+`/app"}`)
			if status != 200 || !strings.Contains(answer, "rookery by a script") || strings.Contains(answer, "Imprint") {
				t.Errorf("%d %.500s", status, answer)
			}
			s.charged(t, 1)
			began := time.Now()
			s.reload(config(strings.Replace(js, "30s", "2s", 1)))
			if status, _, answer := s.ask(t, scraping, `{"url":"`+p.URL+`/endless"}`); status != 500 ||
				time.Since(began) > 30*time.Second {
				t.Errorf("a script without end: %d %s after %s", status, answer, time.Since(began))
			}
			s.charged(t, 0)
		})
	}
	if n := hits.Load(); n != 0 {
		t.Errorf("the internal server was reached %d times", n)
	}
	if strings.Contains(s.Log(), "rookery") || strings.Contains(s.Log(), p.Addr) {
		t.Error("the log has a page or its address")
	}
	t.Run("a missing browser is reported at the start", func(t *testing.T) {
		s.WriteConfig(config("{ engine: chromium, path: /nowhere/chromium }"))
		s.Signal(rig.Hangup)
		s.AwaitLog("augment.scrape.js.path: cannot start /nowhere/chromium")
	})
	s.CLI("verify")
}
