package augment

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"farebox/bench/upstream"
	"farebox/tests/rig"
)

// all is a config that sells all three, before engines.
func (e *engines) all(more string) string {
	return strings.Replace(e.searches("    rate: { rpm: 0 }", quiet), "augment:\n",
		"augment:\n  scrape: { timeout: 5s, per_host: 1000, parallel: 1000, rate: { rpm: 0 } }\n"+
			"  text_parser: { rate: { rpm: 0 } }\n", 1) + more
}

// offers are the three endpoints, each with a call that is well.
func offers(p *peer) map[string]func() (contentType string, body []byte) {
	return map[string]func() (string, []byte){
		scraping:  func() (string, []byte) { return "application/json", []byte(`{"url":"` + p.URL + `/page"}`) },
		searching: func() (string, []byte) { return "application/json", []byte(`{"query":"heron"}`) },
		parsing:   func() (string, []byte) { return form(part{"file", "a.txt", strings.Repeat("A stork. ", 500)}) },
	}
}

// Rules of all three endpoints, and the processes and holds after their end.
func TestAllThree(t *testing.T) {
	t.Parallel()
	e := startEngines(t)
	p := serve(t, says(200, "text/html",
		article(strings.Repeat("<p>Another paragraph, with commas, of the page.</p>", 50))))
	s := start(t, e.all("server: { drain_timeout: 20s }\n"), "100")
	many := braveHit[:strings.Index(braveHit, "{\"title")] + strings.TrimSuffix(strings.Repeat(
		`{"title":"T","url":"https://a.example/","description":"A long text that packs well, and goes on for a while, `+
			`as such texts do where they are looked for","page_age":"D"},`, 20), ",") + "]}}"
	e.both(says(200, "application/json", many))
	background := context.Background()
	rig.Await(t, "the children are ready", func() bool {
		kind, body := offers(p)[scraping]()
		status, _, _ := s.send(background, scraping, kind, body)
		return status == 200
	})
	s.had = s.has()

	for path, call := range offers(p) {
		t.Run(path+" takes POST alone", func(t *testing.T) {
			for _, method := range []string{"GET", "HEAD", "PUT", "DELETE", "PATCH"} {
				res := s.Open(method, path, s.key, "")
				text := rig.ReadAll(t, res)
				if res.StatusCode != 405 || res.Header.Get("Allow") == "" || method != "HEAD" && !strings.Contains(text, "error") {
					t.Errorf("%s: %d %v %s", method, res.StatusCode, res.Header, text)
				}
			}
		})
		t.Run(path+" takes keys alone", func(t *testing.T) {
			kind, body := call()
			for _, key := range []string{"", "x", s.key + "x"} {
				stranger := *s
				stranger.key = key
				if status, _, answer := stranger.send(background, path, kind, body); status != 401 {
					t.Errorf("with key %q: %d %s", key, status, answer)
				}
			}
		})
		t.Run(path+" has errors in OpenAI's form for its clients", func(t *testing.T) {
			for agent, object := range map[string]bool{"OpenAI/Python 2.8.1": true, "curl/8": false} {
				kind, _ := call()
				body := []byte("{}")
				if path == parsing {
					kind, body = form()
				}
				status, _, answer := s.send(background, path, kind, body, "User-Agent", agent)
				var v struct{ Error any }
				err := json.Unmarshal([]byte(answer), &v)
				if _, is := v.Error.(map[string]any); status != 400 || err != nil || is != object {
					t.Errorf("%s gets %d %s", agent, status, answer)
				}
			}
		})
		t.Run(path+" packs answers for clients that accept it", func(t *testing.T) {
			kind, body := call()
			status, header, packed := s.send(background, path, kind, body, "Accept-Encoding", "gzip")
			if status != 200 || header.Get("Content-Encoding") != "gzip" ||
				!strings.Contains(header.Get("Vary"), "Accept-Encoding") {
				t.Fatalf("%d %v", status, header)
			}
			z, err := gzip.NewReader(strings.NewReader(packed))
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(z)
			_, _, plain := s.send(background, path, kind, body, "Accept-Encoding", "identity")
			if err != nil || string(text) != plain || len(packed) >= len(plain) {
				t.Errorf("%v: %d bytes packed, %d unpacked, %d plain", err, len(packed), len(text), len(plain))
			}
			// A repeat is packed as its own client takes it.
			s.send(background, path, kind, body, "Accept-Encoding", "gzip", "Idempotency-Key", "packed-"+path[9:])
			if _, header, again := s.send(background, path, kind, body, "Accept-Encoding", "identity", "Idempotency-Key",
				"packed-"+path[9:]); again != plain || header.Get("Idempotent-Replayed") != "true" {
				t.Errorf("the repeat is %v %.100s", header, again)
			}
			s.charged(t, 3)
		})
		t.Run(path+" does not keep answers under a malformed key", func(t *testing.T) {
			kind, body := call()
			if status, _, answer := s.send(background, path, kind, body, "Idempotency-Key", "a b"); status != 400 {
				t.Errorf("%d %s", status, answer)
			}
			s.charged(t, 0)
		})
	}
	t.Run("reports name the products", func(t *testing.T) {
		s.idle()
		var sums struct {
			ByModel []struct {
				ModelName, UnitType string
				TotalUSD            json.Number
				TotalUnits          int
			}
			TopModels []string
		}
		s.Must(200, "GET", "/billing/usage-analytics", s.admin, "", &sums)
		for _, m := range sums.ByModel {
			cost := rig.Money(m.TotalUnits) * price
			if m.ModelName != "augment" || rig.Exact(t, m.TotalUSD) != cost ||
				!slices.Contains([]string{"pages", "requests", "documents"}, m.UnitType) {
				t.Errorf("the sums have %+v, want %s", m, cost)
			}
		}
		names := strings.Join(sums.TopModels, ", ")
		if len(sums.ByModel) != 3 || names != "augment, augment ("+sums.ByModel[1].UnitType+"), augment ("+
			sums.ByModel[2].UnitType+")" {
			t.Errorf("the sums are %+v", sums)
		}
	})
	t.Run("a client that leaves before a site could be asked pays nothing", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(background, 300*time.Millisecond)
		defer cancel()
		body := []byte(`{"url":"https://` + mute(t) + `/"}`)
		if status, _, answer := s.send(ctx, scraping, "application/json", body); status != 0 {
			t.Errorf("%d %s", status, answer)
		}
		s.charged(t, 0)
	})
	t.Run("a client that leaves a page that is read for another, too, pays as that one does", func(t *testing.T) {
		var asked atomic.Int64
		goOn := make(chan struct{})
		q := serve(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/robots.txt" {
				w.WriteHeader(404)
				return
			}
			asked.Add(1)
			<-goOn
			says(200, "text/html", article("<p>shared</p>"))(w, r)
		})
		body := `{"url":"` + q.URL + `/rookery"}`
		ctx, cancel := context.WithCancel(background)
		var first sync.WaitGroup
		first.Go(func() { s.send(ctx, scraping, "application/json", []byte(body)) })
		rig.Await(t, "the site is asked", func() bool { return asked.Load() == 1 })
		joins := func() bool { return s.holds() == 2 }
		s.leave(t, scraping, "application/json", []byte(body), joins)
		rig.Await(t, "one is left", func() bool { return s.holds() == 1 })
		stays := make(chan string)
		go func() {
			_, _, answer := s.send(background, scraping, "application/json", []byte(body))
			stays <- answer
		}()
		rig.Await(t, "another comes", joins)
		cancel()
		first.Wait()
		close(goOn)
		if answer := <-stays; !strings.Contains(answer, "shared") || asked.Load() != 1 {
			t.Errorf("%.200s after %d requests", answer, asked.Load())
		}
		s.charged(t, 3)
	})
	t.Run("a load with leavers leaves nothing over", func(t *testing.T) {
		e.both(late(50*time.Millisecond, says(200, "application/json", braveHit)))
		p.now(late(50*time.Millisecond, says(200, "text/html", article(""), "Connection", "close")))
		load := func() float64 {
			var wg sync.WaitGroup
			for i := range 90 {
				wg.Go(func() {
					ctx, cancel := context.WithTimeout(background, time.Duration(10+i)*time.Millisecond)
					defer cancel()
					switch i % 3 {
					case 0:
						s.send(ctx, searching, "application/json", []byte(`{"query":"heron"}`))
					case 1:
						s.send(ctx, scraping, "application/json", fmt.Appendf(nil, `{"url":"%s/%d"}`, p.URL, i))
					default:
						kind, body := form(part{"file", "a.pdf", string(pdf("A stork"))})
						s.send(ctx, parsing, kind, body)
					}
				})
			}
			wg.Wait()
			s.idle()
			rig.Await(t, "nothing waits for a child", func() bool {
				n, ok := s.Metric("farebox_jail_jobs")
				return ok && n == 0
			})
			rig.Client.CloseIdleConnections()
			return s.goroutines()
		}
		// The first load leaves the server's workers of its connections, which the second
		// finds. A slow one has more of them: those end when they idle, leaked ones do not.
		after := load()
		for range 2 {
			again := load()
			for until := time.Now().Add(30 * time.Second); again > after+15 && time.Now().Before(until); again = s.goroutines() {
				time.Sleep(500 * time.Millisecond)
			}
			if again > after+15 {
				t.Errorf("there were %v goroutines after a load, and %v after another", after, again)
			}
		}
		if n := s.children(); n > 2 {
			t.Errorf("there are %d children", n)
		}
		s.had = s.has()
	})
	t.Run("the process ends when open requests have their answers", func(t *testing.T) {
		var begun atomic.Bool
		p.now(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/slow" {
				begun.Store(true)
				late(700*time.Millisecond, says(200, "text/html", article("<p>the last words</p>")))(w, r)
			}
		})
		type end struct {
			status int
			answer string
		}
		done := make(chan end)
		go func() {
			status, _, answer := s.send(background, scraping, "application/json", []byte(`{"url":"`+p.URL+`/slow"}`))
			done <- end{status, answer}
		}()
		rig.Await(t, "the site is asked", begun.Load)
		kids := s.kids()
		if err := s.Stop(); err != nil {
			t.Errorf("it did not stop well: %v", err)
		}
		if got := <-done; got.status != 200 || !strings.Contains(got.answer, "the last words") {
			t.Errorf("%d %.200s", got.status, got.answer)
		}
		for _, pid := range kids {
			rig.Await(t, "the child "+pid+" ends with its parent", func() bool {
				comm, err := os.ReadFile("/proc/" + pid + "/cmdline")
				return err != nil || !bytes.Contains(comm, []byte("jail-worker"))
			})
		}
		s.Start()
		if has := s.has(); s.had-has != price {
			t.Errorf("it cost %s", s.had-has)
		}
	})
	s.CLI("verify")
}

// goroutines are those of the process.
func (s *shop) goroutines() float64 {
	n, ok := s.Metric("go_goroutines")
	if !ok {
		s.T.Fatal("goroutines are not counted")
	}
	return n
}

// kids are the ids of the process's children.
func (s *shop) kids() (ids []string) {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", s.PID()))
	for _, f := range files {
		list, _ := os.ReadFile(f)
		ids = append(ids, strings.Fields(string(list))...)
	}
	return ids
}

// children are how many it has.
func (s *shop) children() int { return len(s.kids()) }

// Products that are not in the config are not found.
func TestProductsThatAreNotOfferedAreNotFound(t *testing.T) {
	t.Parallel()
	sim := rig.StartUpstream(t, upstream.Options{})
	g := rig.StartGateway(t, fmt.Sprintf(rig.LoneConfig, sim.URL, ""))
	g.NewAccount("a", "1")
	s := &shop{Gateway: g, key: g.Key("a")}
	for path, call := range offers(&peer{URL: "http://127.0.0.1"}) {
		kind, body := call()
		if status, _, answer := s.send(context.Background(), path, kind, body); status != 404 ||
			!strings.Contains(answer, "error") {
			t.Errorf("%s: %d %s", path, status, answer)
		}
	}
	if n := s.children(); n != 0 {
		t.Errorf("%d children wait for documents that no client sends", n)
	}
}
