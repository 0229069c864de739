package augment

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"farebox/bench/servers"
	"farebox/bench/upstream"
	"farebox/tests/rig"
)

// Random calls with faults of every kind and clients that leave. The charge covers calls
// answered 200 and calls abandoned after a service was asked, to the nano-dollar.
func TestLedgerIsTheTruth(t *testing.T) { ledger(t, 400, 8) }

func TestLongLedgerIsTheTruth(t *testing.T) { ledger(t, servers.Campaign(3_000), 16) }

var numbered = regexp.MustCompile(`late-?(\d+)`)

// lateness counts requests to services behind the gateway whose clients left.
type lateness struct{ asked sync.Map }

// serve waits until who asked is gone.
func (l *lateness) serve(r *http.Request) {
	l.asked.Store(numbered.FindStringSubmatch(r.URL.String())[1], true)
	select {
	case <-r.Context().Done():
	case <-time.After(10 * time.Second):
	}
}

func ledger(t *testing.T, calls, workers int) {
	t.Parallel()
	e := startEngines(t)
	var late lateness
	engine := func(first bool) func(http.ResponseWriter, *http.Request) {
		return func(w http.ResponseWriter, r *http.Request) {
			words := r.URL.Query().Get("q")
			switch fault, _, _ := strings.Cut(words, " "); {
			case strings.HasPrefix(words, "late"):
				late.serve(r)
			case fault == "keyed":
				time.Sleep(150 * time.Millisecond)
				says(200, "application/json", braveHit)(w, r)
			case strings.HasPrefix(fault, "both:"), first && strings.HasPrefix(fault, "first:"):
				_, name, _ := strings.Cut(fault, ":")
				faults[name](w, r)
			default:
				says(200, "application/json", braveHit)(w, r)
			}
		}
	}
	e.first.now(engine(true))
	e.second.now(engine(false))
	p := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasPrefix(r.URL.Path, "/late"):
			late.serve(r)
		case strings.HasPrefix(r.URL.Path, "/404"):
			says(404, "text/html", "")(w, r)
		case strings.HasPrefix(r.URL.Path, "/cut"):
			cut("<html>")(w, r)
		case strings.HasPrefix(r.URL.Path, "/loop"):
			says(302, "text/html", "", "Location", r.URL.Path)(w, r)
		default:
			says(200, "text/html", article(""), "Connection", "close")(w, r)
		}
	})
	s := start(t, e.all(""), "1000")
	rig.Await(t, "the children are ready", func() bool {
		status, _, _ := s.ask(t, scraping, `{"url":"`+p.URL+`/warm"}`)
		return status == 200
	})
	s.had = s.has()
	sold := func() (n [3]int64) {
		for i, of := range []string{"scrape", "search", "text_parser"} {
			v, _ := s.Metric(`farebox_augment_total{of="` + of + `"}`)
			n[i] = int64(v)
		}
		return n
	}
	before := sold()
	searchFaults := []string{"500", "cut", "half", "429", "302", "empty"}
	letter, locked := docx(t, "A stork on paper"), xlsx(t, "stork")
	var good [3]atomic.Int64
	var docsLeft, refused, repeated atomic.Int64
	var next atomic.Int64
	var lefts sync.Map
	source := rig.Seeded(t)
	var work sync.WaitGroup
	for w := range workers {
		work.Go(func() {
			x := source(uint64(w))
			// post gives the status; it leaves after a while where that is not 0.
			post := func(path, kind string, body []byte, after time.Duration, headers ...string) int {
				ctx, cancel := context.WithTimeout(context.Background(), rig.CallLimit)
				if after > 0 {
					cancel()
					ctx, cancel = context.WithTimeout(context.Background(), after)
				}
				defer cancel()
				status, _, _ := s.send(ctx, path, kind, body, headers...)
				return status
			}
			expect := func(of int, what string, got int, want ...int) {
				if !slices.Contains(want, got) {
					t.Errorf("%s is answered %d, want %v", what, got, want)
				}
				if got == 200 {
					good[of].Add(1)
				} else {
					refused.Add(1)
				}
			}
			search := func(words string, after time.Duration, headers ...string) int {
				return post(searching, "application/json", []byte(`{"query":`+quoted(words)+`}`), after, headers...)
			}
			scrape := func(path string, after time.Duration) int {
				return post(scraping, "application/json", []byte(`{"url":"`+p.URL+path+`"}`), after)
			}
			document := func(doc []byte, after time.Duration) int {
				kind, body := form(part{"file", "a", string(doc)})
				return post(parsing, kind, body, after)
			}
			soon := func() time.Duration { return time.Duration(1+x.IntN(60)) * time.Millisecond }
			for n := next.Add(1); n <= int64(calls); n = next.Add(1) {
				fault := searchFaults[x.IntN(len(searchFaults))]
				switch kind := x.IntN(20); kind {
				case 0, 1, 2, 3:
					expect(1, "a search", search(fmt.Sprint("heron ", n), 0), 200)
				case 4, 5:
					expect(1, fault+" at the first", search(fmt.Sprint("first:", fault, " ", n), 0), 200)
				case 6:
					expect(1, fault+" at both", search(fmt.Sprint("both:", fault, " ", n), 0), 503, 429)
				case 7:
					if got := search(fmt.Sprint("late", n), soon()); got != 0 {
						t.Errorf("a late search is answered %d", got)
					}
					lefts.Store(fmt.Sprint(n), 1)
				case 8:
					key := fmt.Sprint("key-", n)
					got := search(fmt.Sprint("keyed ", n), soon(), "Idempotency-Key", key)
					for got == 0 || got == 409 {
						got = search(fmt.Sprint("keyed ", n), 0, "Idempotency-Key", key)
					}
					expect(1, "a search with a key", got, 200)
					if again := search(fmt.Sprint("keyed ", n), 0, "Idempotency-Key", key); again != 200 {
						t.Errorf("a repeat is answered %d", again)
					}
					repeated.Add(1)
				case 9, 10, 11:
					expect(0, "a page", scrape(fmt.Sprint("/page/", n), 0), 200)
				case 12:
					expect(0, "a page again", scrape("/page/again", 0), 200)
				case 13:
					path := []string{"/404/", "/cut/", "/loop/"}[x.IntN(3)]
					expect(0, path, scrape(fmt.Sprint(path, n), 0), 500)
				case 14:
					if got := scrape(fmt.Sprint("/late-", n), soon()); got != 0 {
						t.Errorf("a late page is answered %d", got)
					}
					lefts.Store(fmt.Sprint(n), 0)
				case 15, 16, 17:
					expect(2, "a letter", document(letter, 0), 200)
				case 18:
					expect(2, "no letter", document([][]byte{locked, nil, letter[:len(letter)/2]}[x.IntN(3)], 0), 400)
				default:
					if got := document(letter, soon()/8+1); got == 200 {
						good[2].Add(1)
					} else {
						docsLeft.Add(1)
					}
				}
			}
		})
	}
	work.Wait()
	s.idle()
	var want [3]int64
	for i := range want {
		want[i] = good[i].Load()
	}
	leavers := 0
	lefts.Range(func(n, of any) bool {
		leavers++
		if _, asked := late.asked.Load(n); asked {
			want[of.(int)]++
		}
		return true
	})
	after := sold()
	for i := range after {
		after[i] -= before[i]
	}
	// Only the gateway knows whether a letter was there before its client left.
	if extra := after[2] - want[2]; extra < 0 || extra > docsLeft.Load() {
		t.Errorf("%d documents were sold, %d answered and %d left", after[2], want[2], docsLeft.Load())
	}
	want[2] = after[2]
	if after != want {
		t.Errorf("sold were %v pages, searches and documents, want %v", after, want)
	}
	spent := s.had - s.has()
	if sum := rig.Money(want[0]+want[1]+want[2]) * price; spent != sum {
		t.Errorf("charged were %s, want %s", spent, sum)
	}
	if a := s.Settled()["a"]; a.Held != 0 || a.USD+a.Spent != 1_000_000_000_000 {
		t.Errorf("the account is %+v", a)
	}
	t.Logf("%d answered %v, %d refused, %d and %d left, %d repeated: charged %s", calls, want, refused.Load(), leavers,
		docsLeft.Load(), repeated.Load(), spent)
	s.CLI("verify")
}

// Bombs that are read beside chats do not hold these up.
func TestLongBombsBesideChats(t *testing.T) {
	sim := rig.StartUpstream(t, upstream.Options{})
	models := rig.LoneConfig[strings.Index(rig.LoneConfig, "upstreams"):]
	s := start(t, settings+fmt.Sprintf(models, sim.URL, "")+"augment: { text_parser: { rate: { rpm: 0 } } }\n", "1000")
	rig.Await(t, "the children are ready", func() bool {
		status, _ := s.parse(t, "a", []byte("stork"))
		return status == 200
	})
	chats := func() time.Duration {
		var took []time.Duration
		for range 400 {
			began := time.Now()
			if status, _, answer := s.Post("/chat/completions", s.key,
				rig.Ask("m", "Hello [[sim tokens=8 delay_ms=5]]", "")); status != 200 {
				t.Fatalf("%d %s", status, answer)
			}
			took = append(took, time.Since(began))
			time.Sleep(2 * time.Millisecond)
		}
		slices.Sort(took)
		t.Logf("half of the chats took %s, 95 of 100 %s", took[200], took[380])
		return took[200]
	}
	alone := chats()
	memory := rig.ResidentKB(t, s.PID(), "VmRSS")
	doc, stop := bomb(100), make(chan struct{})
	var bombs sync.WaitGroup
	var n atomic.Int64
	for range 4 {
		bombs.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if status, answer := s.parse(t, "a.pdf", doc); status != 400 && status != 503 {
					t.Errorf("%d %.200s", status, answer)
				}
				n.Add(1)
			}
		})
	}
	time.Sleep(time.Second)
	beside := chats()
	close(stop)
	bombs.Wait()
	grown := rig.ResidentKB(t, s.PID(), "VmRSS") - memory
	t.Logf("%d bombs; the gateway grew by %d KB", n.Load(), grown)
	if beside > 2*alone && beside > alone+5*time.Millisecond {
		t.Errorf("a chat took %s alone, and %s beside bombs", alone, beside)
	}
	if grown > 30<<10 {
		t.Errorf("the gateway grew by %d KB", grown)
	}
}
