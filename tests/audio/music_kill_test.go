package audio

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"farebox/bench/upstream"
	"farebox/tests/rig"
)

// orders are what a client has ordered, whatever happened meanwhile.
type orders struct {
	account, key string
	ids          map[string]string // by idempotency key
	refused      int
	wrong        []string
	last         string
}

// spoiled are what becomes of jobs at their upstream.
var spoiled = []string{"polls=1", "polls=2", "polls=4", "delay_ms=30 polls=2", "job=fail", "job=double", "job=forget",
	"job=fail kind=policy", "at=submit status=422 kind=policy"}

// order orders tracks until stop is closed. Each is asked for again with its key until
// there is an answer, as clients do whose gateway went away.
func (o *orders) order(random *rand.Rand, url string, stop chan struct{}) {
	client := &http.Client{Timeout: 10 * time.Second}
	for i := 0; ; i++ {
		select {
		case <-stop:
			return
		default:
		}
		name := fmt.Sprintf("order-%d", i)
		body := fmt.Sprintf(`{"model":"song","prompt":"[[sim %s]] %s"}`, spoiled[random.IntN(len(spoiled))], name)
		for tries := 0; !o.try(client, url, name, body); tries++ {
			if time.Sleep(20 * time.Millisecond); tries > 500 {
				o.wrong = append(o.wrong, name+": never answered, last by "+o.last)
				return
			}
		}
		time.Sleep(time.Duration(150+random.IntN(200)) * time.Millisecond) // all are asked after within a minute
	}
}

// try is one try; done says that its answer is the last word.
func (o *orders) try(client *http.Client, url, name, body string) (done bool) {
	status, _, answer, err := rig.Try(client, url+"/audio/queue", o.key, body, "Idempotency-Key", name)
	if err != nil {
		return false
	}
	o.last = fmt.Sprintf("%d %s", status, answer)
	var q struct {
		ID string `json:"queue_id"`
	}
	_ = json.Unmarshal([]byte(answer), &q)
	switch {
	case status == 200 && q.ID != "":
		o.ids[name] = q.ID
	case status == 503 || status == 409 || status == 429:
		return false
	case status >= 500 || status == 400 || status == 422: // its upstream refused it
		o.refused++
	default:
		o.wrong = append(o.wrong, fmt.Sprintf("%d %s", status, answer))
	}
	return true
}

// "The gateway was killed, again and again, while my tracks were ordered, made and
// stored: each is there or paid back, and none was sold twice."
func TestLongJobsOutliveKills(t *testing.T) {
	rig.OnBothStores(t, func(t *testing.T, store string) {
		kills := 12
		if store != "" {
			kills = 4 // a node that comes back waits for the session of its predecessor
		}
		sim := rig.StartUpstream(t, upstream.Options{})
		media := filepath.Join(t.TempDir(), "media")
		g := rig.StartGatewayOn(t, store, fmt.Sprintf(musicConfig, sim.URL, ", per_account: 1000, timeout: 3s", media, "", ""))
		killJobs(t, &studio{Gateway: g, sim: sim, media: media}, rig.Kills(kills))
	})
}

// killJobs kills a gateway with jobs in all of their states, and counts the money.
func killJobs(t *testing.T, s *studio, kills int) {
	// Each client has an account, since all clients of one share its limit of asking.
	random, stop := rig.Seeded(t), make(chan struct{})
	all := make([]*orders, 8)
	var clients sync.WaitGroup
	for n := range all {
		name := fmt.Sprintf("a%d", n)
		s.NewAccount(name, "1000")
		o := &orders{ids: map[string]string{}, account: name, key: s.Key(name)}
		all[n] = o
		clients.Go(func() { o.order(random(uint64(n)), s.URL, stop) })
	}
	pause := random(100)
	for range kills {
		time.Sleep(time.Duration(20+pause.IntN(250)) * time.Millisecond)
		s.Kill()
		s.Start()
	}
	close(stop)
	clients.Wait()
	time.Sleep(5 * time.Second) // jobs.timeout, after which every job has ended
	done, failed, refused := 0, 0, 0
	for _, o := range all {
		for _, w := range o.wrong {
			t.Errorf("an order is answered %s", w)
		}
		made, lost := s.settle(t, o)
		done, failed, refused = done+made, failed+lost, refused+o.refused
		rest := rig.Money(1_000_000_000_000 - 690_000_000*int64(made))
		rig.Await(t, fmt.Sprintf("%d tracks of %s are paid, and nothing else", made, o.account), func() bool {
			return s.Settled()[o.account].USD == rest
		})
	}
	if done == 0 || failed == 0 {
		t.Errorf("%d jobs were done, and %d failed", done, failed)
	}
	// A write that was killed leaves at most its file, until the media store is swept.
	rig.Await(t, "nothing else is kept of what was let go", func() bool { return s.files() <= kills })
	if err := s.Stop(); err != nil {
		t.Error(err)
	}
	s.CLI("verify")
	t.Logf("%d kills: %d jobs were done, %d failed, %d refused", kills, done, failed, refused)
}

// settle fetches and lets go everything that was ordered.
func (s *studio) settle(t *testing.T, o *orders) (done, failed int) {
	t.Helper()
	seen := map[string]string{}
	for name, id := range o.ids {
		if other := seen[id]; other != "" {
			t.Errorf("%s and %s are one job", name, other)
		}
		seen[id] = name + " " + id
		status, header, body := s.await(t, o.key, "song", id, "")
		switch {
		case status == 200 && header.Get("Content-Type") == "audio/mpeg" && len(body) > 1000:
			done++
		case status == 200 && strings.HasPrefix(string(body), `{"status":"failed"`):
			failed++
		default:
			t.Errorf("%s came to %d %s", name, status, rig.Last(string(body), 200))
		}
		s.Must(200, "POST", "/audio/complete", o.key, fmt.Sprintf(`{"model":"song","queue_id":%q}`, id), nil)
	}
	return done, failed
}
